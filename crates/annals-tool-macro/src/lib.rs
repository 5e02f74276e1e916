//! `#[tool]`: a plain async function becomes a tool.
//!
//! Keeps the translation of a function into a unit struct that implements `Tool`. It must not decide how a tool
//! behaves: the generated code only names types of `annals-tools`, where the behaviour is.

mod attributes;
mod expand;

use proc_macro::TokenStream;

/// Turns an async function into a tool of the same name.
///
/// ```ignore
/// #[derive(Deserialize, JsonSchema)]
/// struct AddOne {
///     /// The number to add to.
///     x: i64,
/// }
///
/// #[tool(name = "add_one", description = "Add 1 to x")]
/// async fn add_one(_cx: &ToolCx, args: AddOne) -> ToolResult {
///     Ok(json!(args.x + 1))
/// }
/// ```
///
/// The function takes `&ToolCx` and, if it has parameters, one struct of them that implements `Deserialize` and
/// `JsonSchema`. What it returns is `ToolResult`. The name `add_one` then is a value of a unit struct that
/// implements `Tool`, ready for `.tool(add_one)`.
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
