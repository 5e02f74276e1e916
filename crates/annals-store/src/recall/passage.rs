//! A text cut into passages: short enough to be shown whole, cut where a reader would.
//!
//! Cuts fall, if they can, before headings, between paragraphs, lines, sentences, and words, in this order. The same
//! text is always cut in the same way; an index can be compared with its rebuild because of that.

use std::ops::Range;

use annals_core::limits::MEMSEARCH_SNIPPET_MAX_CHARS;

/// A passage has at most this many characters.
pub const MAX_CHARS: usize = MEMSEARCH_SNIPPET_MAX_CHARS;
/// A passage of this many characters ends with its paragraph.
const ENOUGH_CHARS: usize = 300;
/// A passage of this many characters ends before a heading.
const SECTION_CHARS: usize = 80;
/// A text gives at most this many passages; what is behind them is found by name and by `react.search_files`.
pub const MAX_PASSAGES: usize = 256;

/// What lies before a unit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Border {
    Word,
    Sentence,
    Line,
    Paragraph,
    Heading,
}

/// The passages of a text, as byte ranges without white space at their ends.
pub fn cut(text: &str) -> Vec<Range<usize>> {
    let mut passages: Vec<Range<usize>> = Vec::new();
    if is_whole(text) {
        let mut whole = 0..text.len();
        trim(text, &mut whole);
        passages.extend((!whole.is_empty()).then_some(whole));
        return passages;
    }
    let mut open: Option<(Range<usize>, usize)> = None;
    units(text, |border, unit| {
        let chars = text[unit.clone()].chars().count();
        if let Some((passage, length)) = &mut open {
            let is_full = *length + chars > MAX_CHARS;
            let is_done = match border {
                Border::Heading => *length >= SECTION_CHARS,
                Border::Paragraph => *length >= ENOUGH_CHARS,
                _ => false,
            };
            if !is_full && !is_done {
                passage.end = unit.end;
                *length += chars;
                return passages.len() < MAX_PASSAGES;
            }
            passages.push(passage.clone());
        }
        open = Some((unit, chars));
        passages.len() < MAX_PASSAGES
    });
    if passages.len() < MAX_PASSAGES {
        passages.extend(open.map(|(passage, _)| passage));
    }
    passages.iter_mut().for_each(|passage| trim(text, passage));
    passages.retain(|passage| !passage.is_empty());
    passages
}

/// Whether a text is one passage, as one can tell without looking for borders: no cut falls into a short line.
fn is_whole(text: &str) -> bool {
    text.len() <= MAX_CHARS && !text.as_bytes().contains(&b'\n')
}

/// About how many passages a text gives, without looking at it.
pub fn about(text: &str) -> usize {
    (1 + text.len() / MAX_CHARS).min(MAX_PASSAGES)
}

fn trim(text: &str, range: &mut Range<usize>) {
    let inner = &text[range.clone()];
    range.start += inner.len() - inner.trim_start().len();
    range.end = range.start + inner.trim().len();
}

/// Tells `seen` the parts of a text that are not cut, each at most a passage long and all of it covered; stops when
/// told `false`.
fn units(text: &str, mut seen: impl FnMut(Border, Range<usize>) -> bool) {
    let mut start = 0;
    let mut blank = true;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        let border = match (trimmed.is_empty(), blank) {
            (false, _) if is_heading(trimmed) => Border::Heading,
            (false, true) => Border::Paragraph,
            _ => Border::Line,
        };
        blank = trimmed.is_empty();
        if !sentences(text, start..start + line.len(), border, &mut seen) {
            return;
        }
        start += line.len();
    }
}

fn is_heading(line: &str) -> bool {
    let marks = line.bytes().take_while(|byte| *byte == b'#').count();
    (1..=6).contains(&marks) && line[marks..].starts_with(' ')
}

fn sentences(
    text: &str,
    line: Range<usize>,
    border: Border,
    seen: &mut impl FnMut(Border, Range<usize>) -> bool,
) -> bool {
    let (mut start, mut border) = (line.start, border);
    let mut chars = text[line.clone()].char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        let ends = match c {
            '.' | '!' | '?' | ';' => next.is_none_or(char::is_whitespace),
            '。' | '！' | '？' | '；' => true,
            _ => false,
        };
        if ends {
            let end = line.start + at + c.len_utf8();
            if !pieces(text, start..end, border, seen) {
                return false;
            }
            (start, border) = (end, Border::Sentence);
        }
    }
    pieces(text, start..line.end, border, seen)
}

/// A sentence that is longer than a passage falls apart between words, or within one if need be.
fn pieces(
    text: &str,
    sentence: Range<usize>,
    border: Border,
    seen: &mut impl FnMut(Border, Range<usize>) -> bool,
) -> bool {
    let (mut rest, mut border) = (sentence, border);
    while let Some((too_far, _)) = text[rest.clone()].char_indices().nth(MAX_CHARS) {
        let head = &text[rest.start..rest.start + too_far];
        let end = head
            .rfind(char::is_whitespace)
            .filter(|at| *at > 0)
            .unwrap_or(too_far);
        if !seen(border, rest.start..rest.start + end) {
            return false;
        }
        (rest.start, border) = (rest.start + end, Border::Word);
    }
    rest.is_empty() || seen(border, rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        cut(text).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn a_short_text_is_one_passage() {
        assert_eq!(
            texts("  Send it to Ann.\nThen wait. "),
            ["Send it to Ann.\nThen wait."]
        );
        assert!(texts(" \n ").is_empty());
    }

    #[test]
    fn a_section_begins_with_its_heading() {
        let body = "One sentence that says something about the matter. ".repeat(3);
        let text = format!("# First\n\n{body}\n\n## Second\n\n{body}");
        let found = texts(&text);
        assert_eq!(found.len(), 2);
        assert!(
            found[0].starts_with("# First") && found[1].starts_with("## Second"),
            "{found:?}"
        );
    }

    #[test]
    fn a_long_paragraph_is_cut_between_sentences() {
        let text = "The quick brown fox jumps over the lazy dog, again and again. ".repeat(30);
        for passage in texts(&text) {
            assert!(passage.starts_with("The") && passage.ends_with('.'), "{passage}");
        }
    }

    proptest! {
        #[test]
        fn a_text_that_is_taken_whole_would_not_have_been_cut(text in "([a-zé記]{0,9}[ .#!。\u{85}]{0,3}){0,60}") {
            prop_assume!(is_whole(&text));
            let mut borders = Vec::new();
            units(&text, |border, _| {
                borders.push(border);
                true
            });
            prop_assert!(borders.iter().skip(1).all(|border| *border == Border::Sentence));
            prop_assert!(text.chars().count() <= MAX_CHARS);
        }

        #[test]
        fn every_character_that_can_be_seen_is_in_one_passage(
            text in "([a-zé記]{0,9}[ .\n#!。]{0,3}){0,400}",
        ) {
            let passages = cut(&text);
            prop_assume!(passages.len() < MAX_PASSAGES);
            let mut end = 0;
            for passage in &passages {
                prop_assert!(text[end..passage.start].trim().is_empty());
                prop_assert!(text[passage.clone()].chars().count() <= MAX_CHARS);
                end = passage.end;
            }
            prop_assert!(text[end..].trim().is_empty());
        }
    }
}
