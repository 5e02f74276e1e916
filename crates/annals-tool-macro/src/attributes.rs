//! What may stand inside `#[tool(…)]`.

use syn::parse::{Parse, ParseStream};
use syn::{Ident, LitInt, LitStr, Path, Token};

/// The options as written.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) name: Option<LitStr>,
    pub(crate) description: Option<LitStr>,
    pub(crate) resource: Option<LitStr>,
    pub(crate) timeout_s: Option<LitInt>,
    pub(crate) replayable: Option<Ident>,
    pub(crate) krate: Option<Path>,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut options = Options::default();
        while !input.is_empty() {
            options.parse_one(input)?;
            if input.is_empty() {
                break;
            }
            input.parse::<Token![,]>()?;
        }
        Ok(options)
    }
}

impl Options {
    fn parse_one(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        if input.peek(Token![crate]) {
            let word = input.parse::<Token![crate]>()?;
            input.parse::<Token![=]>()?;
            return once(&mut self.krate, Path::parse_mod_style(input)?, word.span);
        }
        let word: Ident = input.parse()?;
        let span = word.span();
        if word == "replayable" {
            return once(&mut self.replayable, word, span);
        }
        if !["name", "description", "resource", "timeout_s"]
            .iter()
            .any(|known| word == known)
        {
            return Err(syn::Error::new(
                span,
                "expected `name`, `description`, `replayable`, `resource`, `timeout_s` or `crate`",
            ));
        }
        input.parse::<Token![=]>()?;
        match word.to_string().as_str() {
            "name" => once(&mut self.name, checked_name(input.parse()?)?, span),
            "description" => once(&mut self.description, input.parse()?, span),
            "resource" => once(&mut self.resource, input.parse()?, span),
            _ => once(&mut self.timeout_s, input.parse()?, span),
        }
    }
}

fn once<T>(slot: &mut Option<T>, value: T, span: proc_macro2::Span) -> syn::Result<()> {
    if slot.replace(value).is_some() {
        return Err(syn::Error::new(span, "given twice: keep one"));
    }
    Ok(())
}

/// Refuses at compile time what the table would refuse when it is built.
fn checked_name(name: LitStr) -> syn::Result<LitStr> {
    if is_tool_name(&name.value()) {
        return Ok(name);
    }
    Err(syn::Error::new(
        name.span(),
        "a tool's name is `[a-z][a-z0-9_]*`, optionally with one namespace such as `notes.add`",
    ))
}

/// The same rule as `annals_tools::ToolName`, which checks it again.
pub(crate) fn is_tool_name(name: &str) -> bool {
    let word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && word
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    match name.split_once('.') {
        Some((namespace, rest)) => word(namespace) && word(rest),
        None => word(name),
    }
}
