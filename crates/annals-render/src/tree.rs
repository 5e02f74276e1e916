//! Content as small JSON trees, for a reader that draws nodes instead of pages: `[tag, attributes or null, child…]`, where a
//! child is a tree or a text.
//!
//! The tags are few and say what a thing is, not how it looks; code carries the kind of each word, not a colour. A tree
//! is bounded however large its content is, and says what was left out.

mod arriving;
mod colours;
mod difference;
mod json;
mod markup;
mod table;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Bytes of text that become one tree; the rest is left out and counted.
pub const TREE_MAX_BYTES: usize = 400_000;

/// Something to make a tree of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TreeRequest {
    /// Markdown: a list of trees.
    Markdown { text: String },
    /// Markdown that is still being written: a list of trees, without what may yet change its form.
    Arriving {
        /// The text so far.
        text: String,
    },
    /// Code: one tree with the tag `pre`.
    Code {
        text: String,
        /// Its language, or the extension of its file.
        language: String,
    },
    /// Rows of separated values: `{columns, rows, total}`.
    Table {
        text: String,
        /// What stands between two values.
        separator: char,
    },
    /// JSON: a table like that of separated values if it is a list of plain objects, else one tree with the tag `pre`.
    Json { text: String },
    /// Two texts: `{hunks, added, removed}`.
    Difference {
        /// The earlier one.
        before: String,
        /// The later one.
        after: String,
    },
}

pub fn draw(request: &TreeRequest) -> Value {
    match request {
        TreeRequest::Markdown { text } => {
            let (text, _) = bounded(text);
            Value::Array(markup::document(&crate::markdown::read(text)))
        }
        TreeRequest::Arriving { text } => {
            let (text, _) = bounded(arriving::settled(text));
            Value::Array(markup::document(&crate::markdown::read(text)))
        }
        TreeRequest::Code { text, language } => {
            let (text, _) = bounded(text);
            colours::listing(text, Some(language))
        }
        TreeRequest::Table { text, separator } => table::draw(text, *separator),
        TreeRequest::Json { text } => json::draw(text),
        TreeRequest::Difference { before, after } => difference::draw(before, after),
    }
}

/// How many bytes of this text its tree does not show.
pub fn left_out(text: &str) -> usize {
    bounded(text).1
}

fn bounded(text: &str) -> (&str, usize) {
    if text.len() <= TREE_MAX_BYTES {
        return (text, 0);
    }
    let end = text.floor_char_boundary(TREE_MAX_BYTES);
    (&text[..end], text.len() - end)
}

/// `[tag, attributes, child…]`.
fn node(tag: &str, attributes: Value, children: Vec<Value>) -> Value {
    let mut parts = vec![json!(tag), attributes];
    parts.extend(children);
    Value::Array(parts)
}
