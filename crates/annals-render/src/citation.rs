//! The citation token `[[S:1]]`, `[[S:1,3]]`, `[[S:2-4]]`: finds it in text and reads its source ids.
//!
//! Must not look into code: the readers call it for running text only. What a token is, the conversation decides
//! too when it notes which sources a document uses; a test of the rendering tools holds the two to one grammar.

use crate::doc::Inline;
use crate::limits::MAX_SIDS;

/// Splits `text` at its citation tokens; what is not a token stays text.
pub(crate) fn split(text: &str) -> Vec<Inline> {
    let mut out = Vec::new();
    let mut rest = text;
    let mut plain = String::new();
    while let Some(at) = rest.find("[[S:") {
        let (before, token) = rest.split_at(at);
        plain.push_str(before);
        let parsed = token
            .find("]]")
            .and_then(|end| Some((end + 2, sids(&token[4..end])?)));
        match parsed {
            Some((len, sids)) => {
                if !plain.is_empty() {
                    out.push(Inline::Text(std::mem::take(&mut plain)));
                }
                out.push(Inline::Cite(sids));
                rest = &token[len..];
            }
            None => {
                plain.push_str("[[S:");
                rest = &token[4..];
            }
        }
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        out.push(Inline::Text(plain));
    }
    out
}

/// Reads `1, 3-5` as `[1, 3, 4, 5]`: ascending, without repeats; `None` when it is anything else.
pub(crate) fn sids(list: &str) -> Option<Vec<u32>> {
    let mut found: Vec<u32> = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once(['-', ':']).unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        let (first, last) = (first.min(last), first.max(last));
        if found.len() + (last - first) as usize >= MAX_SIDS {
            return None;
        }
        for sid in first..=last {
            if !found.contains(&sid) {
                found.push(sid);
            }
        }
    }
    found.sort_unstable();
    Some(found)
}

fn number(digits: &str) -> Option<u32> {
    let digits = digits.trim_matches(' ');
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    all_digits
        .then(|| digits.parse().ok())
        .flatten()
        .filter(|&sid| sid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges_are_read_and_everything_else_is_refused() {
        let cases: [(&str, Option<&[u32]>); 13] = [
            ("1", Some(&[1])),
            ("1,3", Some(&[1, 3])),
            (" 3 , 1 ", Some(&[1, 3])),
            ("2-4", Some(&[2, 3, 4])),
            ("1,2-3,3", Some(&[1, 2, 3])),
            ("4:5", Some(&[4, 5])),
            ("4-2", Some(&[2, 3, 4])),
            ("", None),
            ("0", None),
            ("4–5", None),
            ("1-9999", None),
            ("a", None),
            ("99999999999", None),
        ];
        for (list, expected) in cases {
            assert_eq!(sids(list).as_deref(), expected, "{list:?}");
        }
    }

    #[test]
    fn tokens_are_cut_out_of_text_and_broken_ones_stay() {
        let text = |text: &str| Inline::Text(text.into());
        assert_eq!(
            split("a [[S:1]] b"),
            [text("a "), Inline::Cite(vec![1]), text(" b")]
        );
        assert_eq!(
            split("[[S:1]][[S:2]]"),
            [Inline::Cite(vec![1]), Inline::Cite(vec![2])]
        );
        assert_eq!(
            split("[[S:x]] [[S:2]]"),
            [text("[[S:x]] "), Inline::Cite(vec![2])]
        );
        assert_eq!(split("[[S:1"), [text("[[S:1")]);
        assert_eq!(split(""), []);
    }
}
