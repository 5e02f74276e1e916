//! Code as words with their kinds, by the same syntaxes as in documents. What colour a kind has is up to who draws it.

use std::sync::LazyLock;

use serde_json::{Value, json};
use syntect::easy::ScopeRegionIterator;
use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference};
use typst::text::RAW_SYNTAXES;

use super::node;
use crate::limits::MAX_HIGHLIGHTED_BYTES;

/// The first that is a prefix of a scope gives its kind; inner scopes are looked at before outer ones.
static KINDS: LazyLock<Vec<(Scope, &'static str)>> = LazyLock::new(|| {
    let kinds = [
        ("comment", "comment"),
        ("string", "string"),
        ("constant.character.escape", "constant"),
        ("constant.numeric", "number"),
        ("constant", "constant"),
        ("keyword.operator", ""),
        ("keyword", "keyword"),
        ("storage", "keyword"),
        ("entity.name.function", "function"),
        ("support.function", "function"),
        ("variable.function", "function"),
        ("entity.name.tag", "tag"),
        ("entity.name.section", "heading"),
        ("entity.name", "type"),
        ("support.type", "type"),
        ("support.class", "type"),
        ("entity.other.attribute-name", "attribute"),
        ("markup.heading", "heading"),
        ("markup.inserted", "inserted"),
        ("markup.deleted", "deleted"),
    ];
    let scope = |(name, kind)| Some((Scope::new(name).ok()?, kind));
    kinds.into_iter().filter_map(scope).collect()
});

/// The tag `pre` with the language and the words.
pub(super) fn listing(text: &str, language: Option<&str>) -> Value {
    let syntax = language.and_then(|token| RAW_SYNTAXES.find_syntax_by_token(token));
    let attributes = language.map_or(Value::Null, |name| json!({ "language": name }));
    let words = syntax
        .filter(|_| text.len() <= MAX_HIGHLIGHTED_BYTES)
        .and_then(|syntax| coloured(text, syntax))
        .unwrap_or_else(|| vec![json!(text)]);
    node("pre", attributes, words)
}

fn coloured(text: &str, syntax: &SyntaxReference) -> Option<Vec<Value>> {
    let mut state = ParseState::new(syntax);
    let mut stack = ScopeStack::new();
    let mut words = Words::default();
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            words.push("\n", "");
        }
        let operations = state.parse_line(line, &RAW_SYNTAXES).ok()?;
        for (piece, operation) in ScopeRegionIterator::new(&operations, line) {
            stack.apply(operation).ok()?;
            words.push(piece, kind(&stack));
        }
    }
    Some(words.finish())
}

fn kind(stack: &ScopeStack) -> &'static str {
    let of = |scope: &Scope| KINDS.iter().find(|(prefix, _)| prefix.is_prefix_of(*scope));
    stack
        .as_slice()
        .iter()
        .rev()
        .find_map(of)
        .map_or("", |(_, kind)| kind)
}

/// Pieces of one kind that follow each other are one word.
#[derive(Default)]
struct Words {
    done: Vec<Value>,
    text: String,
    kind: &'static str,
}

impl Words {
    fn push(&mut self, text: &str, kind: &'static str) {
        if text.is_empty() {
            return;
        }
        // White space has no colour of its own.
        if kind != self.kind && !text.trim().is_empty() {
            self.settle();
            self.kind = kind;
        }
        self.text.push_str(text);
    }

    fn settle(&mut self) {
        let text = std::mem::take(&mut self.text);
        match (text.is_empty(), self.kind) {
            (true, _) => {}
            (false, "") => self.done.push(json!(text)),
            (false, kind) => self
                .done
                .push(node("span", json!({ "class": kind }), vec![json!(text)])),
        }
    }

    fn finish(mut self) -> Vec<Value> {
        self.settle();
        self.done
    }
}
