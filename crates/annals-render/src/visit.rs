//! One walk over a document, for everything that only wants to look at its leaves.
//!
//! Nothing here changes what a document says.

use std::collections::BTreeSet;

use crate::doc::{Block, Cell, Document, Image, Inline};

/// A leaf of the document.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Leaf<'a> {
    /// Text in the body font.
    Text(&'a str),
    /// Text in the code font.
    Code(&'a str),
    /// Lines in the code font.
    Listing {
        /// The language they are in.
        lang: Option<&'a str>,
        text: &'a str,
    },
    Image(&'a Image),
    /// Cited source ids.
    Cite(&'a [u32]),
}

/// Calls `see` for every leaf in reading order; footnotes come after the body.
pub(crate) fn leaves<'a>(document: &'a Document, see: &mut dyn FnMut(Leaf<'a>)) {
    for title in document.title.iter().chain(&document.heading) {
        see(Leaf::Text(title));
    }
    blocks(&document.blocks, see);
    for footnote in &document.footnotes {
        blocks(footnote, see);
    }
    for source in &document.sources {
        see(Leaf::Text(&source.title));
        see(Leaf::Text(source.url.as_deref().unwrap_or_default()));
    }
}

/// All characters that are printed.
pub(crate) fn characters(document: &Document) -> BTreeSet<char> {
    let mut chars = BTreeSet::new();
    leaves(document, &mut |leaf| {
        if let Leaf::Text(text) | Leaf::Code(text) | Leaf::Listing { text, .. } = leaf {
            chars.extend(text.chars());
        }
    });
    chars
}

fn blocks<'a>(list: &'a [Block], see: &mut dyn FnMut(Leaf<'a>)) {
    for block in list {
        match block {
            Block::Heading { inlines: text, .. } | Block::Paragraph(text) => inlines(text, see),
            Block::List(list) => list.items.iter().for_each(|item| blocks(&item.blocks, see)),
            Block::Table(table) => {
                let cells: &mut dyn Iterator<Item = &'a Cell> =
                    &mut table.head.iter().chain(&table.rows).flatten();
                cells.for_each(|cell| blocks(&cell.blocks, see));
            }
            Block::Columns(columns) => columns.iter().for_each(|column| blocks(column, see)),
            Block::Code { lang, text } => see(Leaf::Listing {
                lang: lang.as_deref(),
                text,
            }),
            Block::Image(image) => {
                see(Leaf::Image(image));
                see(Leaf::Text(image.caption.as_deref().unwrap_or_default()));
            }
            Block::Alert { kind, blocks: inner } => {
                see(Leaf::Text(kind.label()));
                blocks(inner, see);
            }
            Block::Quote(inner) | Block::Group { blocks: inner, .. } => blocks(inner, see),
            Block::Notes(_) | Block::Rule | Block::PageBreak => {}
        }
    }
}

fn inlines<'a>(list: &'a [Inline], see: &mut dyn FnMut(Leaf<'a>)) {
    for inline in list {
        match inline {
            Inline::Text(text) => see(Leaf::Text(text)),
            Inline::Code(text) | Inline::Math { tex: text, .. } => see(Leaf::Code(text)),
            Inline::Strong(inner)
            | Inline::Em(inner)
            | Inline::Strike(inner)
            | Inline::Underline(inner)
            | Inline::Sub(inner)
            | Inline::Sup(inner)
            | Inline::Link { inlines: inner, .. }
            | Inline::Span { inlines: inner, .. } => inlines(inner, see),
            Inline::Image(image) => see(Leaf::Image(image)),
            Inline::Cite(sids) => see(Leaf::Cite(sids)),
            Inline::LineBreak | Inline::FootnoteRef(_) => {}
        }
    }
}

/// Calls `change` for every run of inlines, the inner ones first.
pub(crate) fn inline_lists(document: &mut Document, change: &mut dyn FnMut(&mut Vec<Inline>)) {
    change_blocks(&mut document.blocks, change);
    for footnote in &mut document.footnotes {
        change_blocks(footnote, change);
    }
}

fn change_blocks(list: &mut [Block], change: &mut dyn FnMut(&mut Vec<Inline>)) {
    for block in list {
        match block {
            Block::Heading { inlines: text, .. } | Block::Paragraph(text) => change_inlines(text, change),
            Block::List(list) => list
                .items
                .iter_mut()
                .for_each(|item| change_blocks(&mut item.blocks, change)),
            Block::Table(table) => {
                let cells = table.head.iter_mut().chain(&mut table.rows).flatten();
                cells.for_each(|cell| change_blocks(&mut cell.blocks, change));
            }
            Block::Columns(columns) => columns
                .iter_mut()
                .for_each(|column| change_blocks(column, change)),
            Block::Quote(inner) | Block::Alert { blocks: inner, .. } | Block::Group { blocks: inner, .. } => {
                change_blocks(inner, change)
            }
            Block::Code { .. } | Block::Image(_) | Block::Notes(_) | Block::Rule | Block::PageBreak => {}
        }
    }
}

fn change_inlines(list: &mut Vec<Inline>, change: &mut dyn FnMut(&mut Vec<Inline>)) {
    for inline in list.iter_mut() {
        match inline {
            Inline::Strong(inner)
            | Inline::Em(inner)
            | Inline::Strike(inner)
            | Inline::Underline(inner)
            | Inline::Sub(inner)
            | Inline::Sup(inner)
            | Inline::Link { inlines: inner, .. }
            | Inline::Span { inlines: inner, .. } => change_inlines(inner, change),
            _ => {}
        }
    }
    change(list);
}
