//! The generated code.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::{Attribute, Expr, ExprLit, FnArg, ItemFn, Lit, Meta, Type};

use crate::attributes::{Options, is_tool_name};

/// A unit struct with the function's name, which implements `Tool` by calling the function.
pub(crate) fn tool(options: Options, mut function: ItemFn) -> syn::Result<TokenStream> {
    let arguments = arguments(&function)?;
    let tool = function.sig.ident.clone();
    let visibility = function.vis.clone();
    let docs: Vec<Attribute> = function
        .attrs
        .iter()
        .filter(|a| a.path().is_ident("doc"))
        .cloned()
        .collect();
    let private = private_path(&options);
    let spec = spec(&options, &tool, &docs, arguments.as_ref(), &private)?;
    let body = format_ident!("__{}_body", tool);
    let call = match &arguments {
        Some(arguments) => quote! {
            let result = match #private::typed::<#arguments>(args) {
                ::core::result::Result::Ok(args) => #body(cx, args).await,
                ::core::result::Result::Err(failure) => ::core::result::Result::Err(failure),
            };
        },
        None => quote! { let result = #body(cx).await; },
    };
    let args = if arguments.is_some() {
        quote!(args)
    } else {
        quote!(_args)
    };
    function.sig.ident = body;
    function.vis = syn::Visibility::Inherited;

    let documentation = if docs.is_empty() {
        let line = format!("The tool `{tool}`.");
        quote!(#[doc = #line])
    } else {
        quote!(#(#docs)*)
    };
    Ok(quote! {
        #documentation
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Debug, Default)]
        #visibility struct #tool;

        #[#private::async_trait]
        impl #private::Tool for #tool {
            fn spec(&self) -> &#private::ToolSpec {
                static SPEC: ::std::sync::LazyLock<#private::ToolSpec> = ::std::sync::LazyLock::new(|| #spec);
                &SPEC
            }

            async fn run(&self, cx: &#private::ToolCx, #args: #private::Value) -> #private::Outcome {
                #call
                #private::answer(cx, self.spec(), result).await
            }
        }

        #[doc(hidden)]
        #function
    })
}

/// The type of the second parameter; the first is the context.
fn arguments(function: &ItemFn) -> syn::Result<Option<Type>> {
    let signature = &function.sig;
    let wanted = "a tool is `async fn name(cx: &ToolCx, args: Args) -> ToolResult`";
    if signature.asyncness.is_none() || !signature.generics.params.is_empty() {
        return Err(syn::Error::new_spanned(signature, wanted));
    }
    let mut types = Vec::new();
    for input in &signature.inputs {
        match input {
            FnArg::Typed(input) => types.push((*input.ty).clone()),
            FnArg::Receiver(receiver) => return Err(syn::Error::new_spanned(receiver, wanted)),
        }
    }
    let context_by_reference = matches!(types.first(), Some(Type::Reference(_)));
    match (context_by_reference, types.len()) {
        (true, 1) => Ok(None),
        (true, 2) => Ok(types.pop()),
        _ => Err(syn::Error::new_spanned(&signature.inputs, wanted)),
    }
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
            .build()
            .unwrap_or_else(|error| ::core::panic!("the schema of tool `{}`: {}", #name, error))
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
