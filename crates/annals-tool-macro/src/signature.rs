//! What a tool function takes, read from its signature.

use syn::spanned::Spanned as _;
use syn::{FnArg, ItemFn, PathArguments, Type};

const WANTED: &str = "a tool is `async fn name(cx: &ToolCx, args: Args) -> ToolResult`; it may take values of type \
                      `State<T>` too, and return anything that is `IntoOutcome`";
const NOT_AN_OBJECT: &str = "the arguments of a tool are one struct with named fields, because models send an object: \
                             put this into a struct that derives `Deserialize` and `JsonSchema`";

/// One parameter, in the order of the signature.
pub(crate) enum Parameter {
    /// `&ToolCx`.
    Context,
    /// `State<T>`, the type as it is written.
    State(Type),
    /// The struct that the model fills in.
    Arguments(Type),
}

/// The parameters of a tool function.
pub(crate) struct Signature {
    pub(crate) parameters: Vec<Parameter>,
}

impl Signature {
    pub(crate) fn of(function: &ItemFn) -> syn::Result<Self> {
        let signature = &function.sig;
        if signature.asyncness.is_none() || !signature.generics.params.is_empty() {
            return Err(syn::Error::new_spanned(signature, WANTED));
        }
        let mut parameters = Vec::new();
        for input in &signature.inputs {
            match input {
                FnArg::Typed(input) => parameters.push(Parameter::of(&input.ty)?),
                FnArg::Receiver(receiver) => return Err(syn::Error::new_spanned(receiver, WANTED)),
            }
        }
        let parsed = Signature { parameters };
        let contexts = parsed
            .parameters
            .iter()
            .filter(|parameter| matches!(parameter, Parameter::Context))
            .count();
        let arguments: Vec<&Type> = parsed.all_arguments().collect();
        match (contexts, arguments.as_slice()) {
            (1, [] | [_]) => Ok(parsed),
            (1, [_, second, ..]) => Err(syn::Error::new(second.span(), NOT_AN_OBJECT)),
            _ => Err(syn::Error::new_spanned(&signature.inputs, WANTED)),
        }
    }

    /// The type of the arguments, if the tool takes any.
    pub(crate) fn arguments(&self) -> Option<&Type> {
        self.all_arguments().next()
    }

    /// The types of the states, in order.
    pub(crate) fn states(&self) -> Vec<&Type> {
        let states = self.parameters.iter().filter_map(|parameter| match parameter {
            Parameter::State(state) => Some(state),
            _ => None,
        });
        states.collect()
    }

    fn all_arguments(&self) -> impl Iterator<Item = &Type> {
        self.parameters.iter().filter_map(|parameter| match parameter {
            Parameter::Arguments(arguments) => Some(arguments),
            _ => None,
        })
    }
}

impl Parameter {
    fn of(written: &Type) -> syn::Result<Self> {
        match written {
            Type::Reference(reference) if is_named(&reference.elem, "ToolCx") => Ok(Parameter::Context),
            Type::Path(_) if is_named(written, "State") => Ok(Parameter::State(written.clone())),
            Type::Path(_) => Ok(Parameter::Arguments(written.clone())),
            other => Err(syn::Error::new(other.span(), NOT_AN_OBJECT)),
        }
    }
}

/// Whether the last part of a type's path is this name.
fn is_named(written: &Type, name: &str) -> bool {
    let Type::Path(path) = written else { return false };
    path.path
        .segments
        .last()
        .is_some_and(|last| last.ident == name && !matches!(last.arguments, PathArguments::Parenthesized(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(function: &str) -> String {
        let function = syn::parse_str(function).unwrap();
        Signature::of(&function)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    }

    #[test]
    fn context_states_and_arguments_are_told_apart_in_any_order() {
        for (function, states, has_arguments) in [
            ("async fn f(cx: &ToolCx) {}", 0, false),
            ("async fn f(cx: &annals::ToolCx, args: Args) {}", 0, true),
            (
                "async fn f(db: State<Db>, cx: &ToolCx, args: my::Args, log: tools::State<Log>) {}",
                2,
                true,
            ),
        ] {
            let signature =
                Signature::of(&syn::parse_str(function).unwrap()).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(
                (signature.states().len(), signature.arguments().is_some()),
                (states, has_arguments),
                "{function}"
            );
        }
    }

    #[test]
    fn what_is_no_tool_is_told_what_one_is() {
        for function in [
            "fn f(cx: &ToolCx) {}",
            "async fn f() {}",
            "async fn f<T>(cx: &ToolCx, args: T) {}",
            "async fn f(&self, cx: &ToolCx) {}",
            "async fn f(a: &ToolCx, b: &ToolCx) {}",
        ] {
            assert_eq!(refusal(function), WANTED, "{function}");
        }
        for function in [
            "async fn f(cx: &ToolCx, a: A, b: B) {}",
            "async fn f(cx: &ToolCx, pair: (i64, i64)) {}",
            "async fn f(cx: &ToolCx, text: &str) {}",
            "async fn f(cx: &ToolCx, list: [i64; 2]) {}",
        ] {
            assert_eq!(refusal(function), NOT_AN_OBJECT, "{function}");
        }
    }
}
