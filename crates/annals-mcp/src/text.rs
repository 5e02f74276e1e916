//! A stranger's words, made harmless to read: nothing invisible, nothing that reorders or erases, no more than a cap.

/// A text without what a reader cannot see, and how much of that there was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleaned {
    /// What is left.
    pub text: String,
    /// How many characters were removed.
    pub removed: usize,
}

/// Removes control characters but for line ends and tabs, and everything that is invisible or changes the order or look of
/// what surrounds it.
pub fn clean(text: &str) -> Cleaned {
    let mut kept = String::with_capacity(text.len());
    let mut removed = 0;
    let mut chars = text.chars().peekable();
    while let Some(character) = chars.next() {
        match character {
            // A line end of other systems is no hidden character.
            '\r' if chars.peek() == Some(&'\n') => {}
            character if is_hidden(character) => removed += 1,
            character => kept.push(character),
        }
    }
    Cleaned { text: kept, removed }
}

/// The cleaned text, cut to a number of characters with a mark that counts the rest.
pub fn clean_and_cut(text: &str, max_chars: usize) -> String {
    let text = clean(text).text;
    match text.char_indices().nth(max_chars) {
        None => text,
        Some((end, _)) => {
            let more = text[end..].chars().count();
            format!("{}… [{more} more characters]", text[..end].trim_end())
        }
    }
}

/// Whether it takes no more than `max_bytes` as JSON.
pub(crate) fn json_fits(value: &impl serde::Serialize, max_bytes: usize) -> bool {
    serde_json::to_vec(value).is_ok_and(|json| json.len() <= max_bytes)
}

/// The cleaned text on one line.
pub fn one_line(text: &str, max_chars: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    clean_and_cut(&words.join(" "), max_chars)
}

fn is_hidden(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        character if character.is_control() => true,
        // Soft hyphen, combining grapheme joiner, fillers, Arabic letter mark, Mongolian separators.
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}'
        | '\u{ffa0}' => true,
        '\u{180b}'..='\u{180f}' => true,
        // Zero width, bidirectional marks, embeddings, overrides and isolates, line and paragraph separators, operators
        // that show nothing. The joiners of emoji and of Indic scripts go as well: they spell, they also hide.
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' => true,
        // Variation selectors, which can carry bytes, and tags, which can carry whole sentences.
        '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e0fff}' => true,
        // Annotations, private use and noncharacters have no agreed look.
        '\u{fff9}'..='\u{fffb}' | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}' => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_removed_and_counted() {
        let tags: String = "ignore"
            .bytes()
            .map(|byte| char::from_u32(0xe0000 + u32::from(byte)).unwrap())
            .collect();
        for (dirty, text, removed) in [
            ("plain\ttext\n", "plain\ttext\n", 0),
            ("a\r\nb\rc", "a\nbc", 1),
            ("a\u{1b}[2Jb", "a[2Jb", 1),
            ("a\u{202e}b\u{2066}c", "abc", 2),
            ("a\u{200b}\u{feff}b\u{ad}", "ab", 3),
            (&format!("a{tags}b"), "ab", 6),
            ("größer 漢字 עברית", "größer 漢字 עברית", 0),
        ] {
            let cleaned = clean(dirty);
            assert_eq!(
                (cleaned.text.as_str(), cleaned.removed),
                (text, removed),
                "{dirty:?}"
            );
        }
    }

    #[test]
    fn a_cut_says_how_much_is_missing() {
        assert_eq!(clean_and_cut("abcdef", 4), "abcd… [2 more characters]");
        assert_eq!(clean_and_cut("abcd", 4), "abcd");
        assert_eq!(one_line("a\n\n b\u{202e}  c", 10), "a b c");
    }
}
