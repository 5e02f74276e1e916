//! The text inside XML, taken out by one pass over its bytes. No tree, no entities but the five and numbers, nothing
//! nested: whatever the markup says, the work is its length.

use std::borrow::Cow;

/// One piece of a markup text, in order.
pub(super) enum Piece<'x> {
    /// A tag that opens; one that closes itself too. Names are without their prefix.
    Open { name: &'x str, tag: &'x str },
    /// A tag that closes.
    Close(&'x str),
    /// Text as it stands, entities and all.
    Text(&'x str),
}

/// The pieces of a markup text.
pub(super) fn pieces(xml: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = xml;
    std::iter::from_fn(move || {
        loop {
            if rest.is_empty() {
                return None;
            }
            let Some(after) = rest.strip_prefix('<') else {
                let end = rest.find('<').unwrap_or(rest.len());
                let (text, after) = rest.split_at(end);
                rest = after;
                return Some(Piece::Text(text));
            };
            if let Some(data) = after.strip_prefix("![CDATA[") {
                let (text, after) = data.split_once("]]>").unwrap_or((data, ""));
                rest = after;
                return Some(Piece::Text(text));
            }
            if let Some(comment) = after.strip_prefix("!--") {
                rest = comment.split_once("-->").map_or("", |(_, after)| after);
                continue;
            }
            let (tag, after) = after.split_once('>').unwrap_or((after, ""));
            rest = after;
            if tag.starts_with(['!', '?']) {
                continue;
            }
            return Some(match tag.strip_prefix('/') {
                Some(name) => Piece::Close(local(name)),
                None => Piece::Open {
                    name: local(tag),
                    tag,
                },
            });
        }
    })
}

/// The name at the beginning of a tag, without its prefix.
fn local(tag: &str) -> &str {
    let name = tag
        .split(|c: char| c.is_ascii_whitespace() || c == '/')
        .next()
        .unwrap_or_default();
    name.rsplit(':').next().unwrap_or(name)
}

/// The value of an attribute of a tag, by its name without prefix.
pub(super) fn attribute(tag: &str, name: &str) -> Option<String> {
    let mut rest = tag;
    while let Some((before, after)) = rest.split_once('=') {
        let quote = after
            .trim_start()
            .chars()
            .next()
            .filter(|c| matches!(c, '"' | '\''))?;
        let value = &after.trim_start()[1..];
        let (value, after) = value.split_once(quote)?;
        let found = before.split_ascii_whitespace().next_back().unwrap_or_default();
        if found.rsplit(':').next() == Some(name) {
            return Some(unescaped(value).into_owned());
        }
        rest = after;
    }
    None
}

/// This attribute of every tag of this name.
pub(super) fn attributes(xml: &str, element: &str, name: &str) -> Vec<String> {
    let value = |piece| match piece {
        Piece::Open { name: found, tag } if found == element => attribute(tag, name),
        _ => None,
    };
    pieces(xml).filter_map(value).collect()
}

/// The running text of a document: paragraphs as lines, tabs and breaks as such.
pub(super) fn paragraphs(xml: &str, max_bytes: usize) -> String {
    let mut text = String::new();
    // In an office document only some elements hold text; an open document has it anywhere in its paragraphs.
    let is_open_document = xml.contains("office:document");
    let mut depth = usize::from(is_open_document);
    for piece in pieces(xml) {
        match piece {
            Piece::Open { name: "t", tag } if !tag.ends_with('/') => depth += 1,
            Piece::Close("t") => depth = depth.saturating_sub(1),
            Piece::Open { name: "tab", .. } => text.push('\t'),
            Piece::Open {
                name: "br" | "line-break",
                ..
            }
            | Piece::Close("p" | "h") => text.push('\n'),
            Piece::Text(found) if depth > 0 => text.push_str(&unescaped(found)),
            _ => {}
        }
        if text.len() > max_bytes {
            text.truncate(text.floor_char_boundary(max_bytes));
            break;
        }
    }
    text
}

/// The shared strings of a workbook.
pub(super) fn strings(xml: &str) -> Vec<String> {
    let mut strings = Vec::new();
    let (mut current, mut in_text) = (String::new(), false);
    for piece in pieces(xml) {
        match piece {
            Piece::Open { name: "t", tag } => in_text = !tag.ends_with('/'),
            Piece::Close("t") => in_text = false,
            Piece::Text(text) if in_text => current.push_str(&unescaped(text)),
            Piece::Close("si") => strings.push(std::mem::take(&mut current)),
            _ => {}
        }
    }
    strings
}

/// A text with its entities put in; what is none stays as it is.
pub(super) fn unescaped(text: &str) -> Cow<'_, str> {
    /// Longer than any entity that is known.
    const ENTITY_MAX_BYTES: usize = 12;
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let window = &after.as_bytes()[..after.len().min(ENTITY_MAX_BYTES)];
        let end = window.iter().position(|byte| *byte == b';');
        match end.and_then(|end| Some((entity(&after[..end])?, end))) {
            Some((c, end)) => {
                out.push(c);
                rest = &after[end + 1..];
            }
            None => {
                out.push('&');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

fn entity(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        name => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}
