//! Which parts of a Markdown text are code, where nothing is read as a citation.
//!
//! Fences of ``` and ~~~ (also in quotes and lists, also left open) and inline code, as CommonMark has them.
//! Linear in the text.

use std::collections::HashMap;
use std::ops::Range;

/// The byte ranges of code in `text`, in order, without overlap.
pub(super) fn spans(text: &str) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    let mut fence: Option<Fence> = None;
    // Inline code lives in runs of lines without a blank one or a fence among them.
    let mut prose = 0..0;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let line_range = at..at + line.len();
        at = line_range.end;
        if let Some(open) = &fence {
            if open.ends_before(line) {
                spans.push(open.start..line_range.start);
                fence = None;
                prose = line_range.start..line_range.start;
            } else {
                if open.closed_by(line) {
                    spans.push(open.start..line_range.end);
                    fence = None;
                    prose = line_range.end..line_range.end;
                }
                continue;
            }
        }
        if let Some(open) = Fence::opened_by(line, line_range.start) {
            inline(text, prose.clone(), &mut spans);
            fence = Some(open);
        } else if line.trim().is_empty() {
            inline(text, prose.clone(), &mut spans);
            prose = line_range.end..line_range.end;
        } else {
            prose.end = line_range.end;
        }
    }
    match fence {
        Some(open) => spans.push(open.start..text.len()),
        None => inline(text, prose, &mut spans),
    }
    spans
}

/// An open fence.
struct Fence {
    start: usize,
    mark: u8,
    width: usize,
    quote_depth: usize,
}

impl Fence {
    fn opened_by(line: &str, start: usize) -> Option<Self> {
        let (quote_depth, rest) = unquoted(line);
        let rest = without_list_marker(rest);
        let mark = *rest.as_bytes().first().filter(|b| matches!(b, b'`' | b'~'))?;
        let width = rest.bytes().take_while(|b| *b == mark).count();
        // ```` ```x``` ```` on one line is inline code.
        let opens = width >= 3 && (mark == b'~' || !rest[width..].contains('`'));
        opens.then_some(Self {
            start,
            mark,
            width,
            quote_depth,
        })
    }

    fn closed_by(&self, line: &str) -> bool {
        let (_, rest) = unquoted(line);
        let width = rest.bytes().take_while(|b| *b == self.mark).count();
        width >= self.width && rest[width..].trim().is_empty()
    }

    /// A fence inside a quote ends with the quote.
    fn ends_before(&self, line: &str) -> bool {
        unquoted(line).0 < self.quote_depth
    }
}

/// The line without its indentation and quote marks, and how many marks there were.
fn unquoted(line: &str) -> (usize, &str) {
    let mut depth = 0;
    let mut rest = line.trim_start_matches([' ', '\t']);
    while let Some(inner) = rest.strip_prefix('>') {
        depth += 1;
        rest = inner.trim_start_matches([' ', '\t']);
    }
    (depth, rest)
}

/// A fence may open on the first line of a list item.
fn without_list_marker(line: &str) -> &str {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let after = match line.as_bytes().get(digits) {
        Some(b'.' | b')') if (1..=9).contains(&digits) => &line[digits + 1..],
        Some(b'-' | b'*' | b'+') if digits == 0 => &line[1..],
        _ => return line,
    };
    if after.starts_with([' ', '\t']) {
        after.trim_start_matches([' ', '\t'])
    } else {
        line
    }
}

/// Adds the inline code within `range`: a run of backticks up to the next run of the same length.
fn inline(text: &str, range: Range<usize>, spans: &mut Vec<Range<usize>>) {
    let runs = backtick_runs(text, range);
    let mut places: HashMap<usize, Vec<usize>> = HashMap::new();
    for (index, run) in runs.iter().enumerate().rev() {
        places.entry(run.len()).or_default().push(index);
    }
    let mut index = 0;
    while let Some(run) = runs.get(index) {
        let mut opener = run.clone();
        // An escaped backtick is a character, the rest of its run may still open.
        if is_escaped(text, opener.start) {
            opener.start += 1;
        }
        let closers = places.get_mut(&opener.len());
        let closer = closers.and_then(|closers| {
            while closers.last().is_some_and(|&at| at <= index) {
                closers.pop();
            }
            closers.last().copied()
        });
        match closer {
            Some(closer) if !opener.is_empty() => {
                spans.push(opener.start..runs[closer].end);
                index = closer + 1;
            }
            _ => index += 1,
        }
    }
}

fn backtick_runs(text: &str, range: Range<usize>) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut runs = Vec::new();
    let mut at = range.start;
    while at < range.end {
        if bytes[at] == b'`' {
            let start = at;
            while at < range.end && bytes[at] == b'`' {
                at += 1;
            }
            runs.push(start..at);
        } else {
            at += 1;
        }
    }
    runs
}

fn is_escaped(text: &str, at: usize) -> bool {
    text.as_bytes()[..at]
        .iter()
        .rev()
        .take_while(|b| **b == b'\\')
        .count()
        % 2
        == 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn code(text: &str) -> Vec<&str> {
        spans(text).into_iter().map(|span| &text[span]).collect()
    }

    #[test]
    fn fences_are_code_from_the_opening_line_to_the_closing_one() {
        assert_eq!(
            code("a\n```rust\nx\n```\nb\n~~~\ny\n~~~"),
            ["```rust\nx\n```\n", "~~~\ny\n~~~"]
        );
        assert_eq!(code("````\n```\n````\nb"), ["````\n```\n````\n"]);
        assert_eq!(code("```\n~~~\n```\nb"), ["```\n~~~\n```\n"]);
        assert_eq!(code("a\n```\nnever closed\n\nb"), ["```\nnever closed\n\nb"]);
        assert_eq!(code("- ```\n  x\n  ```\nb"), ["- ```\n  x\n  ```\n"]);
        assert_eq!(code("1. ~~~\n   x\n   ~~~\r\nb"), ["1. ~~~\n   x\n   ~~~\r\n"]);
        assert_eq!(code("> ```\n> x\nb `c`"), ["> ```\n> x\n", "`c`"]);
        assert_eq!(
            code("```\n``` not a closing line\n```"),
            ["```\n``` not a closing line\n```"]
        );
    }

    #[test]
    fn inline_code_ends_at_a_run_of_the_same_length() {
        assert_eq!(code("a `b` c ``d ` e`` f"), ["`b`", "``d ` e``"]);
        assert_eq!(code("```a``` b"), ["```a```"]);
        assert_eq!(code("`a\nb` c"), ["`a\nb`"]);
        assert_eq!(code("`a\n\nb` c"), Vec::<&str>::new());
        assert_eq!(code("\\`a` b `c`"), ["` b `"]);
        assert_eq!(code("\\``a` b"), ["`a`"]);
        assert_eq!(code("`a\\` b"), ["`a\\`"]);
        assert_eq!(code("it`s fine"), Vec::<&str>::new());
    }

    proptest! {
        #[test]
        fn spans_are_ordered_and_within_the_text(
            pieces in proptest::collection::vec(
                proptest::sample::select(vec!["`", "``", "```", "~~~", "\n", "\n\n", "> ", "- ", "a", "é", " ", "\\"]),
                0..40,
            )
        ) {
            let text = pieces.concat();
            let mut end = 0;
            for span in spans(&text) {
                prop_assert!(end <= span.start && span.start < span.end && span.end <= text.len());
                prop_assert!(text.get(span.clone()).is_some());
                end = span.end;
            }
        }
    }
}
