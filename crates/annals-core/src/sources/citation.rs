//! Citations: `[[S:1]]`, `[[S:1,3]]`, `[[S:2-4]]` in text, `<sup class="cite" data-sids="1,3">` in HTML.
//!
//! A token inside fenced or inline code is code, not a citation. Anything malformed is plain text. All
//! functions are linear in the text and total.

use std::collections::HashSet;
use std::ops::Range;

use super::code;
use crate::ids::Sid;
use crate::limits;

/// A citation token in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Where it stands, in bytes.
    pub span: Range<usize>,
    /// What it cites, in the order written, each once.
    pub sids: Vec<Sid>,
}

const OPEN: &str = "[[S:";
const CLOSE: &str = "]]";
/// Longer than any token with the most SIDs allowed, so that an unclosed one costs little.
const TOKEN_MAX_BYTES: usize = 16 * limits::CITATION_MAX_SIDS;

/// The citation tokens of a text, in order.
pub fn tokens(text: &str) -> Vec<Token> {
    if !text.contains(OPEN) {
        return Vec::new();
    }
    let code = code::spans(text);
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(found) = text[at..].find(OPEN) {
        let start = at + found;
        if let Some(end) = end_of_code(&code, start) {
            at = end;
        } else if let Some(token) = token_at(text, start) {
            at = token.span.end;
            tokens.push(token);
        } else {
            at = start + OPEN.len();
        }
    }
    tokens
}

fn token_at(text: &str, start: usize) -> Option<Token> {
    let items_at = start + OPEN.len();
    let window = &text.as_bytes()[items_at..text.len().min(items_at + TOKEN_MAX_BYTES)];
    let length = window
        .iter()
        .position(|b| !matches!(b, b'0'..=b'9' | b',' | b'-' | b':' | b' '))?;
    let items_end = items_at + length;
    let sids = text[items_end..]
        .starts_with(CLOSE)
        .then(|| read_sids(&text[items_at..items_end]))??;
    Some(Token {
        span: start..items_end + CLOSE.len(),
        sids,
    })
}

/// Reads `1,3` or `2-4` in the order written; none when it is malformed, empty or names too many.
fn read_sids(items: &str) -> Option<Vec<Sid>> {
    let number = |text: &str| text.trim_matches(' ').parse::<Sid>().ok();
    let mut sids = Vec::new();
    for item in items.split(',') {
        let (first, last) = item.split_once(['-', ':']).unwrap_or((item, item));
        let (first, last) = (number(first)?, number(last)?);
        let (first, last) = (first.min(last).get(), first.max(last).get());
        if sids.len() + (last - first) as usize >= limits::CITATION_MAX_SIDS {
            return None;
        }
        for sid in (first..=last).filter_map(|n| Sid::try_new(n).ok()) {
            if !sids.contains(&sid) {
                sids.push(sid);
            }
        }
    }
    Some(sids)
}

/// If `at` lies within code, where that code ends.
fn end_of_code(code: &[Range<usize>], at: usize) -> Option<usize> {
    let index = code.partition_point(|span| span.end <= at);
    code.get(index)
        .filter(|span| span.start <= at)
        .map(|span| span.end)
}

/// Every SID that a text cites, by token or by `<sup class="cite">`, in order of first citation, each once.
/// After [`limits::SID_SET_MAX_SIDS`] further ones are left out.
pub fn extract(text: &str) -> Vec<Sid> {
    let mut cited = tokens(text);
    cited.extend(sup_tags(text));
    cited.sort_by_key(|token| token.span.start);
    let mut seen = HashSet::new();
    let unique = cited
        .into_iter()
        .flat_map(|token| token.sids)
        .filter(|sid| seen.insert(*sid));
    unique.take(limits::SID_SET_MAX_SIDS).collect()
}

/// The `<sup class="cite" data-sids="…">` opening tags of a text, in order, outside code.
pub fn sup_tags(text: &str) -> Vec<Token> {
    const TAG: &str = "<sup";
    if !text.contains("data-sids") {
        return Vec::new();
    }
    let code = code::spans(text);
    let mut tags = Vec::new();
    let mut at = 0;
    while let Some(found) = text[at..].find(TAG) {
        let start = at + found;
        at = start + TAG.len();
        if let Some(end) = end_of_code(&code, start) {
            at = end;
        } else if let Some((length, sids)) = cite_attributes(&text[at..]) {
            at += length;
            tags.push(Token {
                span: start..at,
                sids,
            });
        }
    }
    tags
}

/// Reads the attributes of a tag up to `>`; gives what was read and the SIDs, if it is a citation.
fn cite_attributes(text: &str) -> Option<(usize, Vec<Sid>)> {
    let (mut is_cite, mut sids) = (false, None);
    let mut rest = text;
    loop {
        let trimmed = rest.trim_start();
        if let Some(after) = trimmed.strip_prefix('>') {
            return sids
                .filter(|_| is_cite)
                .map(|sids| (text.len() - after.len(), sids));
        }
        if trimmed.len() == rest.len() {
            return None;
        }
        let name_len = trimmed
            .bytes()
            .take_while(|b| b.is_ascii_alphanumeric() || *b == b'-')
            .count();
        let (name, value) = trimmed.split_at(name_len);
        let value = value.strip_prefix('=')?;
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let (value, after) = value[1..]
            .split_once([quote, '<', '>'])
            .filter(|(v, _)| value[1 + v.len()..].starts_with(quote))?;
        match name {
            "class" => is_cite = value.split_ascii_whitespace().any(|class| class == "cite"),
            "data-sids" => sids = read_sids(value),
            _ => {}
        }
        rest = after;
    }
}

/// The text with every token replaced by what `with` makes of its SIDs.
pub fn replace(text: &str, mut with: impl FnMut(&[Sid]) -> String) -> String {
    let mut out = String::with_capacity(text.len());
    let mut kept = 0;
    for token in tokens(text) {
        out.push_str(&text[kept..token.span.start]);
        out.push_str(&with(&token.sids));
        kept = token.span.end;
    }
    out.push_str(&text[kept..]);
    out
}

/// The text with every SID renumbered. A SID that `to` does not know is left out, because its old number would
/// point at another source; a token that cites nothing any more is removed.
pub fn renumber(text: &str, mut to: impl FnMut(Sid) -> Option<Sid>) -> String {
    replace(text, |sids| {
        let mut renumbered: Vec<Sid> = Vec::with_capacity(sids.len());
        for sid in sids.iter().filter_map(|sid| to(*sid)) {
            if !renumbered.contains(&sid) {
                renumbered.push(sid);
            }
        }
        written(&renumbered)
    })
}

/// The token that cites these SIDs, in this order; nothing for none. Three and more in a row become a range.
pub fn written(sids: &[Sid]) -> String {
    if sids.is_empty() {
        return String::new();
    }
    let mut items = Vec::new();
    let mut rest = sids;
    while let Some((first, tail)) = rest.split_first() {
        let in_a_row = tail
            .iter()
            .zip(u64::from(first.get()) + 1..)
            .take_while(|(sid, next)| u64::from(**sid) == *next);
        let run = 1 + in_a_row.count();
        if run >= 3 {
            items.push(format!("{first}-{}", rest[run - 1]));
            rest = &rest[run..];
        } else {
            items.push(first.to_string());
            rest = tail;
        }
    }
    format!("{OPEN}{}{CLOSE}", items.join(","))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbers(text: &str) -> Vec<u32> {
        extract(text).into_iter().map(Sid::get).collect()
    }

    fn sid(number: u32) -> Sid {
        Sid::try_new(number).unwrap()
    }

    #[test]
    fn tokens_are_read_in_order_and_each_sid_once() {
        assert_eq!(
            numbers("a [[S:1]] b [[S:1,3]] c [[S:2-4]] d [[S:7:8]]"),
            [1, 3, 2, 4, 7, 8]
        );
        assert_eq!(numbers("[[S:3,1]][[S: 2 , 5]]"), [3, 1, 2, 5]);
    }

    #[test]
    fn malformed_tokens_are_plain_text() {
        for text in [
            "[[S:]]",
            "[[S:0]]",
            "[[S:a]]",
            "[[S:1]",
            "[S:1]",
            "[[S:1,]]",
            "[[s:1]]",
            "[[S:1-500]]",
            "[[S:1",
        ] {
            assert_eq!(numbers(text), Vec::<u32>::new(), "{text}");
            assert_eq!(replace(text, |_| "x".into()), text);
        }
        assert_eq!(numbers("[[S:[[S:4]]"), [4]);
    }

    #[test]
    fn code_is_left_alone() {
        let text = "a [[S:1]]\n```\n[[S:2]]\n```\n`[[S:3]]` ~~~ [[S:4]]\n\n~~~\n[[S:5]]";
        assert_eq!(numbers(text), [1, 4]);
        assert_eq!(
            replace(text, |sids| format!("({})", sids[0])),
            "a (1)\n```\n[[S:2]]\n```\n`[[S:3]]` ~~~ (4)\n\n~~~\n[[S:5]]"
        );
    }

    #[test]
    fn html_citations_are_read_too() {
        let text = "x<sup class=\"cite\" data-sids=\"1,3\">[1]</sup> [[S:2]] <sup data-sids='4-5' class='a cite'>y</sup>";
        assert_eq!(numbers(text), [1, 3, 2, 4, 5]);
        for text in [
            "<sup data-sids=\"1\">",
            "<sup class=\"citeX\" data-sids=\"1\">",
            "<sup class=\"cite\" data-sids=\"x\">",
            "<sup class=\"cite\" data-sids=\"1\"",
            "<support class=\"cite\" data-sids=\"1\">",
            "<sup class=\"cite\"data-sids=\"1\">",
            "`<sup class=\"cite\" data-sids=\"1\">`",
        ] {
            assert_eq!(numbers(text), Vec::<u32>::new(), "{text}");
        }
    }

    #[test]
    fn renumbering_maps_known_sids_and_drops_the_others() {
        let to = |sid: Sid| Sid::try_new(sid.get() + 10).ok().filter(|_| sid.get() < 5);
        assert_eq!(
            renumber("a [[S:1-3]] b [[S:2,9]] c[[S:9]]. `[[S:1]]`", to),
            "a [[S:11-13]] b [[S:12]] c. `[[S:1]]`"
        );
        assert_eq!(renumber("[[S:1,2]]", |_| Some(sid(7))), "[[S:7]]");
    }

    #[test]
    fn a_written_token_is_short_and_keeps_its_order() {
        let written = |numbers: &[u32]| written(&numbers.iter().map(|n| sid(*n)).collect::<Vec<_>>());
        assert_eq!(written(&[1]), "[[S:1]]");
        assert_eq!(written(&[1, 2]), "[[S:1,2]]");
        assert_eq!(written(&[5, 1, 2, 3]), "[[S:5,1-3]]");
        assert_eq!(written(&[u32::MAX]), "[[S:4294967295]]");
        assert_eq!(written(&[]), "");
    }

    /// Texts made of pieces that matter.
    fn texts() -> impl Strategy<Value = String> {
        let pieces = [
            "[[S:1]]",
            "[[S:2,4]]",
            "[[S:3-5]]",
            "[[S:",
            "]]",
            "```",
            "~~~",
            "`",
            "\n",
            "\n\n",
            "> ",
            "- ",
            "<sup class=\"cite\" data-sids=\"6\">",
            "é",
            " ",
            "a",
            "\\",
        ];
        proptest::collection::vec(proptest::sample::select(pieces.to_vec()), 0..40)
            .prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn replacing_each_token_by_itself_changes_nothing(text in texts()) {
            prop_assert_eq!(replace(&text, written), text);
        }

        #[test]
        fn renumbering_by_the_identity_changes_nothing(text in texts()) {
            prop_assert_eq!(renumber(&text, Some), text);
        }

        #[test]
        fn nothing_inside_code_is_touched(text in texts()) {
            let code = code::spans(&text);
            for token in tokens(&text) {
                prop_assert!(code.iter().all(|span| token.span.end <= span.start || span.end <= token.span.start));
            }
            for body in code.iter().map(|span| &text[span.clone()]) {
                prop_assert!(replace(&text, |_| "X".into()).contains(body));
            }
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,60}") {
            extract(&text);
            replace(&text, |_| String::new());
        }

        #[test]
        fn no_markup_panics(
            pieces in proptest::collection::vec(
                proptest::sample::select(vec![
                    "[[S:", "]]", "1", "0", ",", "-", ":", "<sup", " ", "class", "data-sids", "=", "\"", "'", "cite", ">",
                ]),
                0..60,
            )
        ) {
            let text = pieces.concat();
            extract(&text);
            replace(&text, |_| String::new());
        }
    }
}
