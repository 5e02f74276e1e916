//! A document as trees.

use serde_json::{Value, json};

use super::{colours, node};
use crate::doc::{Align, Block, Cell, Document, Inline, List, MathPlace, Row, Table};

pub(super) fn document(document: &Document) -> Vec<Value> {
    let mut trees = blocks(&document.blocks);
    if !document.footnotes.is_empty() {
        let notes = document
            .footnotes
            .iter()
            .map(|note| node("li", Value::Null, blocks(note)));
        trees.push(node("hr", Value::Null, Vec::new()));
        trees.push(node("ol", json!({ "start": 1 }), notes.collect()));
    }
    trees
}

fn blocks(blocks: &[Block]) -> Vec<Value> {
    blocks.iter().filter_map(block).collect()
}

fn block(block: &Block) -> Option<Value> {
    let plain = |tag: &str, children| Some(node(tag, Value::Null, children));
    match block {
        Block::Heading {
            level,
            inlines: words,
        } => plain(&format!("h{}", (*level).clamp(1, 6)), inlines(words)),
        Block::Paragraph(words) => plain("p", inlines(words)),
        Block::List(items) => Some(list(items)),
        Block::Table(rows) => Some(table(rows)),
        Block::Code { lang, text } => Some(colours::listing(text, lang.as_deref())),
        Block::Image(image) => Some(picture(&image.reference, &image.alt)),
        Block::Quote(inner) => plain("blockquote", blocks(inner)),
        Block::Alert { kind, blocks: inner } => {
            let label = node("strong", Value::Null, vec![json!(kind.label())]);
            let mut children = vec![node("p", Value::Null, vec![label])];
            children.extend(blocks(inner));
            let alert = json!({ "alert": kind.label().to_lowercase() });
            Some(node("blockquote", alert, children))
        }
        Block::Group { blocks: inner, .. } => plain("section", blocks(inner)),
        Block::Columns(columns) => plain(
            "section",
            columns.iter().flat_map(|column| blocks(column)).collect(),
        ),
        Block::Rule | Block::PageBreak => plain("hr", Vec::new()),
        Block::Notes(_) => None,
    }
}

fn list(list: &List) -> Value {
    let items = list.items.iter().map(|item| {
        let attributes = item
            .checked
            .map_or(Value::Null, |checked| json!({ "checked": checked }));
        // The one paragraph of a tight item is its words.
        let children = match item.blocks.split_first() {
            Some((Block::Paragraph(words), rest)) if list.tight => {
                let mut children = inlines(words);
                children.extend(blocks(rest));
                children
            }
            _ => blocks(&item.blocks),
        };
        node("li", attributes, children)
    });
    match list.start {
        None => node("ul", Value::Null, items.collect()),
        Some(start) => node("ol", json!({ "start": start }), items.collect()),
    }
}

fn table(table: &Table) -> Value {
    let part = |tag: &str, name: &str, rows: &[Row]| {
        let rows = rows.iter().map(|row| {
            let cells = row
                .iter()
                .enumerate()
                .map(|(at, cell)| table_cell(name, table.align(at), cell));
            node("tr", Value::Null, cells.collect())
        });
        node(tag, Value::Null, rows.collect())
    };
    let parts = vec![part("thead", "th", &table.head), part("tbody", "td", &table.rows)];
    node("table", Value::Null, parts)
}

fn table_cell(name: &str, column: Align, cell: &Cell) -> Value {
    let mut attributes = serde_json::Map::new();
    let align = match cell.style.align.unwrap_or(column) {
        Align::Auto => None,
        Align::Left => Some("left"),
        Align::Center => Some("center"),
        Align::Right => Some("right"),
    };
    if let Some(align) = align {
        attributes.insert("align".to_owned(), json!(align));
    }
    for (name, span) in [("colspan", cell.colspan), ("rowspan", cell.rowspan)] {
        if span > 1 {
            attributes.insert(name.to_owned(), json!(span));
        }
    }
    let attributes = if attributes.is_empty() {
        Value::Null
    } else {
        Value::Object(attributes)
    };
    let children = match cell.blocks.as_slice() {
        [Block::Paragraph(words)] => inlines(words),
        other => blocks(other),
    };
    node(if cell.header { "th" } else { name }, attributes, children)
}

fn picture(reference: &str, alt: &str) -> Value {
    node("img", json!({ "src": reference, "alt": alt }), Vec::new())
}

fn inlines(inlines: &[Inline]) -> Vec<Value> {
    inlines.iter().map(inline).collect()
}

fn inline(piece: &Inline) -> Value {
    let plain = |tag: &str, inner: &[Inline]| node(tag, Value::Null, inlines(inner));
    match piece {
        Inline::Text(text) => json!(text),
        Inline::Strong(inner) => plain("strong", inner),
        Inline::Em(inner) => plain("em", inner),
        Inline::Strike(inner) => plain("del", inner),
        Inline::Underline(inner) => plain("u", inner),
        Inline::Sub(inner) => plain("sub", inner),
        Inline::Sup(inner) => plain("sup", inner),
        Inline::Code(text) => node("code", Value::Null, vec![json!(text)]),
        Inline::Math { tex, place } => {
            let is_display = *place == MathPlace::Display;
            node("math", json!({ "display": is_display }), vec![json!(tex)])
        }
        Inline::Link { url, inlines: inner } => node("a", json!({ "href": url }), inlines(inner)),
        Inline::Image(image) => picture(&image.reference, &image.alt),
        Inline::Cite(sids) => node("cite", json!({ "sids": sids }), Vec::new()),
        Inline::LineBreak => node("br", Value::Null, Vec::new()),
        Inline::FootnoteRef(at) => node("sup", Value::Null, vec![json!((at + 1).to_string())]),
        Inline::Span { inlines: inner, .. } => plain("span", inner),
    }
}
