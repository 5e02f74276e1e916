//! Truncation that is always visible, counted and reversible.

use std::borrow::Cow;

/// How many lines a marker proposes to read next.
const NEXT_LINES: usize = 400;

/// About how long a marker is.
pub(crate) const MARKER_BYTES: usize = 120;

/// The first `cap_bytes` of a text (at a character boundary), then a marker that counts what is missing and says how
/// to read on. A text within the cap comes back as it is.
pub fn cut<'a>(text: &'a str, cap_bytes: usize, path: Option<&str>) -> Cow<'a, str> {
    if text.len() <= cap_bytes {
        return Cow::Borrowed(text);
    }
    let end = floor_char_boundary(text, cap_bytes);
    let shown = &text[..end];
    let missing = text[end..].chars().count();
    let how = match path {
        Some(path) => {
            let next_line = shown.bytes().filter(|&byte| byte == b'\n').count() + 1;
            format!(
                "; go on with react.read({path}#L{next_line}-{})",
                next_line + NEXT_LINES
            )
        }
        None => String::new(),
    };
    Cow::Owned(format!("{shown}\n...[truncated: {missing} more characters{how}]"))
}

/// Cut to so many characters with an ellipsis and a count, on one line: for summaries and placeholders.
pub fn brief(text: &str, cap_chars: usize) -> String {
    let mut chars = text.char_indices();
    match chars.nth(cap_chars) {
        None => text.to_owned(),
        Some((end, _)) => format!(
            "{}… [{} more characters]",
            &text[..end],
            text[end..].chars().count()
        ),
    }
}

/// The largest character boundary not above `at`.
pub fn floor_char_boundary(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_text_is_untouched() {
        assert_eq!(cut("abc", 3, None), "abc");
    }

    #[test]
    fn a_cut_counts_characters_and_names_the_next_line() {
        let text = "one\ntwo\nthree\nfö";
        insta::assert_snapshot!(cut(text, 8, Some("fi:turn_1.files/a.txt")), @r"
        one
        two

        ...[truncated: 8 more characters; go on with react.read(fi:turn_1.files/a.txt#L3-403)]
        ");
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        for cap in 0..20 {
            let text = cut("日本語テキスト", cap, None).into_owned();
            assert!(text.contains("more characters") || text == "日本語テキスト");
        }
    }
}
