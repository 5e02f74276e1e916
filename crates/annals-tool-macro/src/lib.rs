//! `#[tool]`: a plain async function becomes a tool.
//!
//! Keeps the translation of a function into a struct that implements `Tool`. It must not decide how a tool behaves: the
//! generated code only names types of `annals-tools`, where the behaviour is.

#![forbid(unsafe_code)]

mod attributes;
mod expand;
mod signature;

use proc_macro::TokenStream;

/// Turns an async function into a tool of the same name.
///
/// ```ignore
/// #[derive(Deserialize, JsonSchema)]
/// struct Lookup {
///     /// The city, in English.
///     city: String,
/// }
///
/// #[tool(name = "lookup", description = "The population of a city")]
/// async fn lookup(_cx: &ToolCx, cities: State<Cities>, args: Lookup) -> ToolResult {
///     let city = cities.get(&args.city).ok_or("there is no such city: check the spelling")?;
///     Ok(json!({ "population": city.population }))
/// }
///
/// let agent = Agent::builder().tool(lookup(State::new(Cities::load()?)));
/// ```
///
/// The function takes `&ToolCx`; if it has parameters, one struct of them that implements `Deserialize` and
/// `JsonSchema`; and any number of `State<T>`, which the tool is made with. Without a state the name of the function is
/// the tool: `.tool(add_one)`. It returns `ToolResult`, or anything else that is `IntoOutcome`: text, files, notices, a
/// sandbox result, the end of the turn.
///
/// | option | meaning |
/// |---|---|
/// | `name = "…"` | the tool's name, `[a-z][a-z0-9_]*`, optionally with one namespace; the function's name if absent |
/// | `description = "…"` | what the model reads; the function's doc comment if absent |
/// | `replayable` | running it again after a crash does no harm |
/// | `resource = "file:{path}"` | calls with the same key never run together; `{x}` stands for the parameter `x` |
/// | `timeout_s = 30` | how long one call may take |
/// | `crate = annals_tools` | where the types come from, when not from the `annals` crate |
#[proc_macro_attribute]
pub fn tool(options: TokenStream, function: TokenStream) -> TokenStream {
    let options = syn::parse_macro_input!(options as attributes::Options);
    let function = syn::parse_macro_input!(function as syn::ItemFn);
    expand::tool(options, function)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Derives `Deserialize` and `JsonSchema` for the arguments of a tool, in a program that depends on neither `serde` nor
/// `schemars` itself. Attributes such as `#[serde(default)]` work as they do with the derives.
///
/// ```ignore
/// #[arguments]
/// struct AddOne {
///     x: i64,
/// }
/// ```
#[proc_macro_attribute]
pub fn arguments(options: TokenStream, item: TokenStream) -> TokenStream {
    let options = syn::parse_macro_input!(options as attributes::Options);
    let item = syn::parse_macro_input!(item as syn::Item);
    expand::arguments(&options, &item)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
