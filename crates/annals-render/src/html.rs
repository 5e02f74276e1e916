//! HTML → [`Document`]: the structure, and the few CSS properties the model keeps.
//!
//! Parsed as a browser parses it; scripts are dropped, nothing is fetched, `display: none` is honoured.
//! Layout beyond blocks, tables and simple rows of boxes is not attempted: what is placed by CSS is printed in
//! document order. See `docs/rendering.md` for the list.

mod browser;
mod css;
mod element;
mod picture;
mod table;

use html5ever::tendril::TendrilSink as _;
use html5ever::{ParseOpts, parse_document};
use markup5ever_rcdom::{Handle, NodeData, RcDom};

use crate::doc::{Block, Document, Inline, Length};

pub(crate) use browser::prepare as prepare_for_browser;

const PARSE_PIECE_BYTES: usize = 16 << 10;
/// Elements within elements the parser goes on with: its work grows with the square of the depth. Browsers stop
/// at 512.
pub const MAX_OPEN_ELEMENTS: usize = 1000;

/// The HTML nests its elements beyond [`MAX_OPEN_ELEMENTS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[error("the HTML nests more than `{MAX_OPEN_ELEMENTS}` elements within each other")]
pub struct TooDeep;

/// Reads a whole HTML document.
pub fn read(content: &str) -> Result<Document, TooDeep> {
    let dom = parse(content)?;
    let mut sheet = css::Sheet::default();
    let mut title = None;
    scan_head(&dom.document, &mut sheet, &mut title, 0);
    let blocks = element::Reader::new(&sheet).read(&dom.document);
    Ok(Document {
        title,
        blocks,
        ..Document::default()
    })
}

/// Reads a piece of HTML within markdown; what cannot be read is printed as it stands.
pub fn fragment(content: &str) -> Vec<Block> {
    match read(content) {
        Ok(document) => document.blocks,
        Err(TooDeep) => vec![Block::Code {
            lang: None,
            text: content.to_owned(),
        }],
    }
}

/// The value of one attribute of a single tag such as `<img src="…">`.
pub fn attribute(tag: &str, name: &str) -> Option<String> {
    fn search(node: &Handle, name: &str) -> Option<String> {
        if let Some(value) = attr(node, name) {
            return Some(value);
        }
        node.children
            .borrow()
            .iter()
            .find_map(|child| search(child, name))
    }
    search(&parse(tag).ok()?.document, name)
}

/// A width: `300`, `300px`, `50%`.
pub fn length(value: &str) -> Option<Length> {
    let value = value.trim();
    let (number, unit) = value.split_at(
        value
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(value.len()),
    );
    let number: f64 = number.parse().ok().filter(|number| *number > 0.0)?;
    match unit.trim() {
        "" | "px" => Some(Length::Px(number)),
        "%" => Some(Length::Percent(number)),
        "pt" => Some(Length::Px(number / 0.75)),
        "em" | "rem" => Some(Length::Px(number * 16.0)),
        "cm" => Some(Length::Px(number * 96.0 / 2.54)),
        "mm" => Some(Length::Px(number * 96.0 / 25.4)),
        "in" => Some(Length::Px(number * 96.0)),
        "vw" => Some(Length::Percent(number)),
        _ => None,
    }
}

/// Fed in pieces, so that a tree that grows too deep is noticed before it costs minutes.
fn parse(content: &str) -> Result<RcDom, TooDeep> {
    let mut parser = parse_document(RcDom::default(), ParseOpts::default());
    let mut rest = content;
    while !rest.is_empty() {
        let end = rest.ceil_char_boundary(PARSE_PIECE_BYTES);
        parser.process(rest[..end].into());
        rest = &rest[end..];
        if open_elements(&parser.tokenizer.sink.sink.document) > MAX_OPEN_ELEMENTS {
            return Err(TooDeep);
        }
    }
    Ok(parser.finish())
}

/// How deep the parser stands: its open elements are the last children of each other.
fn open_elements(root: &Handle) -> usize {
    let last = |node: &Handle| node.children.borrow().last().cloned();
    std::iter::successors(last(root), last).count()
}

/// Collects style sheets and the title; both may stand anywhere.
fn scan_head(node: &Handle, sheet: &mut css::Sheet, title: &mut Option<String>, depth: usize) {
    if depth > element::MAX_DOM_DEPTH {
        return;
    }
    match tag(node) {
        Some("style") => sheet.add(&text_of(node)),
        Some("title") if title.is_none() => {
            *title = Some(crate::prose::collapse(&text_of(node)).trim().to_owned())
                .filter(|title| !title.is_empty());
        }
        Some("svg") => {}
        _ => {
            for child in node.children.borrow().iter() {
                scan_head(child, sheet, title, depth + 1);
            }
        }
    }
}

/// The name of an element.
fn tag(node: &Handle) -> Option<&str> {
    match &node.data {
        NodeData::Element { name, .. } => Some(&name.local),
        _ => None,
    }
}

/// The value of an attribute.
fn attr(node: &Handle, name: &str) -> Option<String> {
    let NodeData::Element { attrs, .. } = &node.data else {
        return None;
    };
    let attrs = attrs.borrow();
    attrs
        .iter()
        .find(|attr| &*attr.name.local == name)
        .map(|attr| attr.value.to_string())
}

/// All text below a node, without recursion.
fn text_of(node: &Handle) -> String {
    let mut out = String::new();
    let mut stack = vec![node.clone()];
    while let Some(node) = stack.pop() {
        if let NodeData::Text { contents } = &node.data {
            out.push_str(&contents.borrow());
        }
        stack.extend(node.children.borrow().iter().rev().cloned());
    }
    out
}

/// Drops white space at the ends of a paragraph and around forced line breaks.
fn trim_inlines(mut inlines: Vec<Inline>) -> Vec<Inline> {
    while let Some(first) = inlines.first_mut() {
        match first {
            Inline::Text(text) => *text = text.trim_start_matches(' ').to_owned(),
            _ => break,
        }
        if !matches!(first, Inline::Text(text) if text.is_empty()) {
            break;
        }
        inlines.remove(0);
    }
    while let Some(last) = inlines.last_mut() {
        match last {
            Inline::Text(text) => *text = text.trim_end_matches(' ').to_owned(),
            Inline::LineBreak => {}
            _ => break,
        }
        if !matches!(last, Inline::Text(text) if text.is_empty()) && !matches!(last, Inline::LineBreak) {
            break;
        }
        inlines.pop();
    }
    inlines
}

#[cfg(test)]
mod tests;
