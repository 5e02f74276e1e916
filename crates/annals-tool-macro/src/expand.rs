//! The generated code.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Attribute, Expr, ExprLit, Item, ItemFn, Lit, Meta, ReturnType, Type};

use crate::attributes::{Options, is_tool_name};
use crate::signature::{Parameter, Signature};

/// A struct with the function's name and its states, which implements `Tool` by calling the function.
pub(crate) fn tool(options: Options, mut function: ItemFn) -> syn::Result<TokenStream> {
    let signature = Signature::of(&function)?;
    let tool = function.sig.ident.clone();
    let visibility = function.vis.clone();
    let docs: Vec<Attribute> = function
        .attrs
        .iter()
        .filter(|a| a.path().is_ident("doc"))
        .cloned()
        .collect();
    let private = private_path(&options);
    let spec = spec(&options, &tool, &docs, signature.arguments(), &private)?;
    let body = format_ident!("__{}_body", tool);
    let run = run(&signature, &body, &function.sig.output, &private);
    let check = signature.arguments().map(|arguments| check(arguments, &private));
    function.sig.ident = body;
    function.vis = syn::Visibility::Inherited;

    let documentation = if docs.is_empty() {
        let line = format!("The tool `{tool}`.");
        quote!(#[doc = #line])
    } else {
        quote!(#(#docs)*)
    };
    let states = signature.states();
    let declaration = if states.is_empty() {
        quote!(#[derive(Clone, Copy, Debug, Default)] #visibility struct #tool;)
    } else {
        quote!(#[derive(Clone, Debug)] #visibility struct #tool(#(#visibility #states),*);)
    };
    Ok(quote! {
        #documentation
        #[allow(non_camel_case_types)]
        #declaration

        #check

        #[#private::async_trait]
        impl #private::Tool for #tool {
            fn spec(&self) -> &#private::ToolSpec {
                static SPEC: ::std::sync::LazyLock<#private::ToolSpec> = ::std::sync::LazyLock::new(|| #spec);
                &SPEC
            }

            #run
        }

        #[doc(hidden)]
        #function
    })
}

/// The method that reads the arguments, calls the function and makes an outcome of what it returns.
fn run(signature: &Signature, body: &Ident, returns: &ReturnType, private: &TokenStream) -> TokenStream {
    let mut states = 0_usize..;
    let given = signature.parameters.iter().map(|parameter| match parameter {
        Parameter::Context => quote!(cx),
        Parameter::State(_) => {
            let at = syn::Index::from(states.next().unwrap_or_default());
            quote!(self.#at.clone())
        }
        Parameter::Arguments(_) => quote!(args),
    });
    // The error of a return type that is no outcome shows at that type.
    let into_output = quote_spanned!(returns.span()=> #private::IntoOutcome::into_output);
    let call = quote!(#into_output(#body(#(#given),*).await));
    let (args, output) = match signature.arguments() {
        None => (quote!(_args), call),
        Some(arguments) => (
            quote!(args),
            quote! {
                match #private::typed::<#arguments>(args) {
                    ::core::result::Result::Ok(args) => #call,
                    ::core::result::Result::Err(failure) => #private::IntoOutcome::into_output(
                        ::core::result::Result::<#private::Value, #private::ToolFailure>::Err(failure),
                    ),
                }
            },
        ),
    };
    quote! {
        async fn run(&self, cx: &#private::ToolCx, #args: #private::Value) -> #private::Outcome {
            let output = #output;
            output.outcome(cx, self.spec()).await
        }
    }
}

/// Refuses argument types that no model could fill in.
fn check(arguments: &Type, private: &TokenStream) -> TokenStream {
    quote_spanned! {arguments.span()=>
        const _: () = {
            #[allow(unused_imports)]
            use #private::MayBeObject as _;
            ::core::assert!(
                #private::Probe::<#arguments>::MAY_BE_OBJECT,
                "the arguments of a tool are a struct with named fields, because models send an object"
            );
        };
    }
}

/// A type with the derives that arguments need, naming no crate but ours.
pub(crate) fn arguments(options: &Options, item: &Item) -> syn::Result<TokenStream> {
    if !matches!(item, Item::Struct(_) | Item::Enum(_)) {
        return Err(syn::Error::new_spanned(
            item,
            "`#[arguments]` stands before a struct, or before an enum in one of its fields",
        ));
    }
    let private = private_path(options);
    let path = |krate: &str| {
        let krate = format_ident!("{krate}");
        quote!(#private::#krate).to_string().replace(' ', "")
    };
    let (serde, schemars) = (path("serde"), path("schemars"));
    Ok(quote! {
        #[derive(#private::serde::Deserialize, #private::schemars::JsonSchema)]
        #[serde(crate = #serde)]
        #[schemars(crate = #schemars)]
        #item
    })
}

/// Where generated code finds the types: the façade, unless `crate = …` says otherwise.
fn private_path(options: &Options) -> TokenStream {
    match &options.krate {
        Some(krate) => quote!(#krate::__private),
        None => quote!(::annals::__private),
    }
}

fn spec(
    options: &Options,
    tool: &Ident,
    docs: &[Attribute],
    arguments: Option<&Type>,
    private: &TokenStream,
) -> syn::Result<TokenStream> {
    let name = match &options.name {
        Some(name) => name.value(),
        None => tool.to_string(),
    };
    if !is_tool_name(&name) {
        return Err(syn::Error::new_spanned(
            tool,
            "this is not a tool's name: add `name = \"…\"`",
        ));
    }
    let description = options
        .description
        .as_ref()
        .map_or_else(|| doc_text(docs), syn::LitStr::value);
    let parameters = arguments.map(|arguments| quote!(.typed::<#arguments>()));
    let replayable = options
        .replayable
        .as_ref()
        .map(|_| quote!(.effect(#private::Effect::Replayable)));
    let resource = options
        .resource
        .as_ref()
        .map(|template| quote!(.writes(#private::Uses::named(#template))));
    let timeout = options
        .timeout_s
        .as_ref()
        .map(|seconds| quote!(.timeout(::core::time::Duration::from_secs(#seconds))));
    Ok(quote! {
        #private::ToolSpec::builder(#name)
            .description(#description)
            #parameters
            #replayable
            #resource
            #timeout
            .declared()
    })
}

/// The doc comment as one text.
fn doc_text(docs: &[Attribute]) -> String {
    let lines: Vec<String> = docs
        .iter()
        .filter_map(|doc| match &doc.meta {
            Meta::NameValue(pair) => match &pair.value {
                Expr::Lit(ExprLit {
                    lit: Lit::Str(text), ..
                }) => Some(text.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        })
        .collect();
    lines.join("\n").trim().to_owned()
}
