//! Markdown that is still being written: what of it has taken its form.
//!
//! Half a word of emphasis or half a table would be drawn as it is written and then again as what it becomes. What may
//! still become something else is held back until it has, so that a reader sees text grow and never change its form.

/// Longer constructs than this are shown as they are; a bracket may simply be a bracket.
const HELD_MAX_BYTES: usize = 240;

/// The beginning of the text that will look the same when more of it has come.
pub(super) fn settled(text: &str) -> &str {
    let line_start = text.rfind('\n').map_or(0, |at| at + 1);
    let line = &text[line_start..];
    if is_in_fence(&text[..line_start]) {
        let is_closing = !line.is_empty() && line.trim().chars().all(|c| matches!(c, '`' | '~'));
        return if is_closing { &text[..line_start] } else { text };
    }
    if let Some(start) = table_start(text, line_start) {
        return &text[..start];
    }
    if is_only_marks(line) {
        return &text[..line_start];
    }
    let open = first_open(line).filter(|at| line.len() - at <= HELD_MAX_BYTES);
    &text[..line_start + open.unwrap_or(line.len())]
}

fn is_in_fence(lines: &str) -> bool {
    let mut open: Option<&str> = None;
    for line in lines.lines() {
        let line = line.trim_start();
        match open {
            None => open = ["```", "~~~"].into_iter().find(|fence| line.starts_with(fence)),
            Some(fence) if line.starts_with(fence) => open = None,
            Some(_) => {}
        }
    }
    open.is_some()
}

/// Where to stop within a table: before it until its second line makes it one, then before a row that has not ended.
fn table_start(text: &str, line_start: usize) -> Option<usize> {
    let line = &text[line_start..];
    if !line.trim_start().starts_with('|') && !line.is_empty() {
        return None;
    }
    let mut first = line_start;
    let mut rows = 0;
    for row in text[..line_start].lines().rev() {
        if !row.trim_start().starts_with('|') {
            break;
        }
        rows += 1;
        first -= row.len() + 1;
    }
    let begins_now = rows == 0 && line.is_empty();
    match rows {
        _ if begins_now => None,
        0 | 1 => Some(first),
        _ => Some(line_start),
    }
}

/// A line that may become a heading, an item, a rule, a fence or a quotation, but has no words yet.
fn is_only_marks(line: &str) -> bool {
    let line = line.trim();
    let is_mark = |c: char| {
        matches!(
            c,
            '#' | '-' | '*' | '+' | '>' | '=' | '`' | '~' | '_' | '[' | ']' | '!'
        )
    };
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | ')');
    let is_fence = line.starts_with("```") || line.starts_with("~~~");
    !line.is_empty()
        && (is_fence
            || line.chars().all(|c| is_mark(c) || c == ' ')
            || line.chars().all(is_number) && line.len() <= 4)
}

/// The first inline construct of a line that has begun and not ended.
fn first_open(line: &str) -> Option<usize> {
    let mut at = 0;
    while let Some(c) = line[at..].chars().next() {
        let rest = &line[at..];
        let ends = match c {
            '\\' => rest.chars().nth(1).map(|next| 1 + next.len_utf8()),
            '`' => span(rest, run(rest, '`')),
            '*' | '_' | '~' => emphasis(line, at, c),
            '!' if rest.len() == 1 => None,
            '[' => link(rest),
            other => Some(other.len_utf8()),
        };
        match ends {
            Some(length) => at += length,
            None => return Some(at),
        }
    }
    None
}

fn run(text: &str, mark: char) -> usize {
    text.chars().take_while(|c| *c == mark).count()
}

/// The length of a code span: as many marks at its end as at its beginning.
fn span(rest: &str, marks: usize) -> Option<usize> {
    let fence = "`".repeat(marks);
    let end = rest[marks..].find(&fence)?;
    Some(marks + end + marks)
}

/// How far emphasis goes on: over its marks if it has an end, or if these marks begin nothing.
fn emphasis(line: &str, at: usize, mark: char) -> Option<usize> {
    let rest = &line[at..];
    let marks = run(rest, mark);
    let before = line[..at].chars().next_back();
    let after = rest[marks..].chars().next();
    let opens = before.is_none_or(|c| !c.is_alphanumeric()) && after.is_none_or(|c| !c.is_whitespace());
    if !opens {
        return Some(marks);
    }
    let inner = &rest[marks..];
    let end = inner.find(&mark.to_string().repeat(marks))?;
    // The marks at the very end may be the first of several that close more.
    let is_whole = end > 0 && (marks > 1 || run(&inner[end..], mark) == 1 || inner.len() > end + 1);
    is_whole.then_some(marks)
}

/// The length of what a bracket opens: a link, a citation, or only a bracket.
fn link(rest: &str) -> Option<usize> {
    let close = rest.find(']')?;
    let after = &rest[close + 1..];
    match after.chars().next() {
        Some('(') => after.find(')').map(|end| close + 1 + end + 1),
        // `[[S:1]` waits for its second bracket, `[name]` for what follows it.
        None => None,
        Some(_) => Some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::settled;

    #[test]
    fn what_may_still_change_its_form_is_held_back() {
        for (text, shown) in [
            ("plain words", "plain words"),
            ("a **bold", "a "),
            ("a **bold** b", "a **bold** b"),
            ("a *b", "a "),
            ("a *b* c", "a *b* c"),
            ("2 * 3 * 4", "2 * 3 * 4"),
            ("snake_case_name", "snake_case_name"),
            ("see `co", "see "),
            ("see `code` x", "see `code` x"),
            ("see [it](https://exa", "see "),
            (
                "see [it](https://example.org) x",
                "see [it](https://example.org) x",
            ),
            ("claim [[S:1", "claim "),
            ("claim [[S:1]] x", "claim [[S:1]] x"),
            ("a\n\n## ", "a\n\n"),
            ("a\n\n## H", "a\n\n## H"),
            ("a\n- ", "a\n"),
            ("a\n1.", "a\n"),
            ("a\n```", "a\n"),
            ("a\n```py\nx = 1", "a\n```py\nx = 1"),
            ("a\n```py\nx = 1\n``", "a\n```py\nx = 1\n"),
            ("a\n\n| x | y", "a\n\n"),
            ("a\n\n| x | y |\n|---|", "a\n\n"),
            ("a\n\n| x | y |\n|---|---|\n", "a\n\n| x | y |\n|---|---|\n"),
            ("a\n\n| x | y |\n|---|---|\n| 1 ", "a\n\n| x | y |\n|---|---|\n"),
        ] {
            assert_eq!(settled(text), shown, "{text:?}");
        }
    }

    #[test]
    fn a_bracket_that_never_closes_is_shown_after_all() {
        let text = format!("see [{}", "x".repeat(400));
        assert_eq!(settled(&text), text);
    }
}
