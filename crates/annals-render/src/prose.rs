//! Running text on its way into the model: white space, citations, bare addresses.
//!
//! Both readers send every piece of text through here, so that both treat it alike.

use crate::citation;
use crate::doc::Inline;

/// Whether bare `https://…` in a text becomes a link; inside a link it must not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Addresses {
    /// Make links of them.
    Link,
    /// Leave them as text.
    Keep,
}

/// The inlines of one text: citations cut out, bare addresses linked.
pub(crate) fn inlines(text: &str, addresses: Addresses) -> Vec<Inline> {
    let mut out = Vec::new();
    for inline in citation::split(text) {
        match inline {
            Inline::Text(text) if addresses == Addresses::Link => link_addresses(&text, &mut out),
            other => out.push(other),
        }
    }
    out
}

fn link_addresses(text: &str, out: &mut Vec<Inline>) {
    let mut plain_from = 0;
    let mut search_from = 0;
    while let Some(at) = find_address(text, search_from) {
        let url = address_at(&text[at..]);
        let host_len = url.split_once("://").map_or(0, |(_, host)| host.len());
        let before = text[..at].chars().next_back();
        let in_word = before.is_some_and(|c| c.is_alphanumeric() && !is_cjk(c));
        search_from = at + url.len().max(4);
        if host_len == 0 || in_word {
            continue;
        }
        if plain_from < at {
            out.push(Inline::Text(text[plain_from..at].to_owned()));
        }
        out.push(Inline::Link {
            url: url.to_owned(),
            inlines: vec![Inline::Text(url.to_owned())],
        });
        plain_from = at + url.len();
    }
    if plain_from < text.len() {
        out.push(Inline::Text(text[plain_from..].to_owned()));
    }
}

fn find_address(text: &str, from: usize) -> Option<usize> {
    let rest = &text[from..];
    let at = [rest.find("http://"), rest.find("https://")]
        .into_iter()
        .flatten()
        .min()?;
    Some(from + at)
}

/// The address at the start of `text`, without the punctuation that belongs to the sentence.
fn address_at(text: &str) -> &str {
    let stop = |c: char| c.is_whitespace() || matches!(c, '<' | '>' | '"' | '`' | '|') || is_cjk(c);
    let mut url = &text[..text.find(stop).unwrap_or(text.len())];
    while let Some(last) = url.chars().next_back() {
        let unbalanced = last == ')' && url.matches(')').count() > url.matches('(').count();
        if !unbalanced && !matches!(last, '.' | ',' | ';' | ':' | '!' | '?' | '\'' | ']' | '*' | '_') {
            break;
        }
        url = &url[..url.len() - last.len_utf8()];
    }
    url
}

/// Takes the space before citations away: a mark clings to its word, it never starts a line.
pub(crate) fn cling_citations(inlines: &mut Vec<Inline>) {
    for at in 1..inlines.len() {
        let (before, rest) = inlines.split_at_mut(at);
        if let (Some(Inline::Text(text)), Inline::Cite(_)) = (before.last_mut(), &rest[0]) {
            text.truncate(text.trim_end_matches(' ').len());
        }
    }
    inlines.retain(|inline| !matches!(inline, Inline::Text(text) if text.is_empty()));
}

/// Runs of white space become one space; the ends are kept as one space, too.
pub(crate) fn collapse(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_space = false;
    for c in text.chars() {
        let space = matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}');
        if !space {
            out.push(c);
        } else if !in_space {
            out.push(' ');
        }
        in_space = space;
    }
    out
}

/// What a line break in the source means between two characters: scripts without spaces get none.
pub(crate) fn join_of(before: Option<char>, after: Option<char>) -> &'static str {
    match (before, after) {
        (Some(a), Some(b)) if is_cjk(a) && is_cjk(b) => "",
        _ => " ",
    }
}

/// Chinese and Japanese characters and their punctuation; Korean separates words by spaces.
pub(crate) fn is_cjk(c: char) -> bool {
    matches!(u32::from(c), 0x2E80..=0x303F | 0x3040..=0x30FF | 0x31F0..=0x31FF | 0x3400..=0x4DBF
        | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0xFF01..=0xFF60 | 0x20000..=0x3FFFF)
}

/// The last character printed by `inlines`.
pub(crate) fn last_char(inlines: &[Inline]) -> Option<char> {
    match inlines.last()? {
        Inline::Text(text) | Inline::Code(text) | Inline::Math { tex: text, .. } => text.chars().next_back(),
        Inline::Strong(inner)
        | Inline::Em(inner)
        | Inline::Strike(inner)
        | Inline::Underline(inner)
        | Inline::Sub(inner)
        | Inline::Sup(inner)
        | Inline::Link { inlines: inner, .. }
        | Inline::Span { inlines: inner, .. } => last_char(inner),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(text: &str) -> Vec<String> {
        let links = inlines(text, Addresses::Link).into_iter();
        links
            .filter_map(|inline| {
                if let Inline::Link { url, .. } = inline {
                    Some(url)
                } else {
                    None
                }
            })
            .collect()
    }

    #[test]
    fn bare_addresses_become_links_without_the_sentence_around_them() {
        assert_eq!(
            urls("see https://a.example/x, or (http://b.example/y_(z))."),
            ["https://a.example/x", "http://b.example/y_(z)"]
        );
        assert_eq!(urls("参照https://a.example/x。"), ["https://a.example/x"]);
        assert!(urls("xhttps://a.example https://").is_empty());
    }

    #[test]
    fn no_text_is_lost_around_links_and_citations() {
        let text = "a https://x.example [[S:2]] b http:// c";
        let printed: String = inlines(text, Addresses::Link)
            .iter()
            .map(|inline| match inline {
                Inline::Text(text) => text.clone(),
                Inline::Link { url, .. } => url.clone(),
                Inline::Cite(sids) => format!("[[S:{}]]", sids[0]),
                other => panic!("unexpected {other:?}"),
            })
            .collect();
        assert_eq!(printed, text);
    }
}
