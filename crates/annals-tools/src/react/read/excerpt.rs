//! The part of a text that one read shows: the lines asked for, within the cap, with a way to go on.

use annals_core::path::{LineRange, LogicalPath};

/// The shown part of `text`. A text that fits and of which all lines are meant is shown as it is, byte for byte.
pub(super) fn excerpt(
    text: &str,
    path: &LogicalPath,
    lines: Option<LineRange>,
    cap_chars: usize,
) -> Result<String, String> {
    let count = line_count(text);
    let Some(LineRange { first, last }) = lines else {
        return Ok(capped(
            text,
            path,
            LineRange {
                first: 1,
                last: count,
            },
            count,
            cap_chars,
        ));
    };
    if first > count {
        return Err(format!("it has {count} lines: line {first} is not there"));
    }
    let last = last.min(count);
    let part = between(text, first, last);
    Ok(format!(
        "[lines {first}-{last} of {count}]\n{}",
        capped(part, path, LineRange { first, last }, count, cap_chars)
    ))
}

fn line_count(text: &str) -> u32 {
    u32::try_from(text.split_inclusive('\n').count())
        .unwrap_or(u32::MAX)
        .max(1)
}

/// Lines `first` to `last` with their ends.
fn between(text: &str, first: u32, last: u32) -> &str {
    let mut at = 0;
    let mut start = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if index as u32 + 1 == first {
            start = at;
        }
        at += line.len();
        if index as u32 + 1 == last {
            break;
        }
    }
    &text[start..at]
}

/// Those lines of a text of `count` lines, cut after a whole line where there is one within the cap.
fn capped(text: &str, path: &LogicalPath, lines: LineRange, count: u32, cap_chars: usize) -> String {
    let LineRange { first, last } = lines;
    let Some((cap, _)) = text.char_indices().nth(cap_chars) else {
        return text.to_owned();
    };
    let (end, next) = match text[..cap].rfind('\n') {
        Some(newline) => (
            newline + 1,
            Some(first + text[..=newline].matches('\n').count() as u32),
        ),
        None => (cap, None),
    };
    let more = text[end..].chars().count();
    let how = match next {
        // The next page is as long as this one.
        Some(next) => format!(
            "go on with react.read(paths=[\"{path}#L{next}-{}\"])",
            last.min(2 * next - first)
        ),
        None => format!("line {first} is too long to show whole: use it in code, or as \"ref:{path}\""),
    };
    let gap = if text[..end].ends_with('\n') { "" } else { "\n" };
    format!(
        "{}{gap}...[truncated: {more} more characters of {count} lines; {how}]",
        &text[..end]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path() -> LogicalPath {
        LogicalPath::parse("fi:turn_1.files/a.txt").unwrap()
    }

    fn lines(first: u32, last: u32) -> Option<LineRange> {
        LineRange::try_new(first, last)
    }

    #[test]
    fn what_fits_is_shown_byte_for_byte() {
        for text in ["", "a", "a\r\nb\n\n", "\u{2028}"] {
            assert_eq!(excerpt(text, &path(), None, 10).unwrap(), text);
        }
    }

    #[test]
    fn lines_come_with_their_numbers() {
        let text = "one\ntwo\r\nthree\nfour";
        assert_eq!(
            excerpt(text, &path(), lines(2, 3), 99).unwrap(),
            "[lines 2-3 of 4]\ntwo\r\nthree\n"
        );
        assert_eq!(
            excerpt(text, &path(), lines(4, 900), 99).unwrap(),
            "[lines 4-4 of 4]\nfour"
        );
        assert_eq!(
            excerpt(text, &path(), lines(5, 6), 99),
            Err("it has 4 lines: line 5 is not there".into())
        );
    }

    #[test]
    fn a_cut_ends_after_a_line_and_names_the_next_lines() {
        let text = "1111\n2222\n3333\n4444\n5555\n";
        insta::assert_snapshot!(excerpt(text, &path(), None, 12).unwrap(), @r#"
        1111
        2222
        ...[truncated: 15 more characters of 5 lines; go on with react.read(paths=["fi:turn_1.files/a.txt#L3-5"])]
        "#);
        insta::assert_snapshot!(excerpt(text, &path(), lines(2, 5), 6).unwrap(), @r#"
        [lines 2-5 of 5]
        2222
        ...[truncated: 15 more characters of 5 lines; go on with react.read(paths=["fi:turn_1.files/a.txt#L3-4"])]
        "#);
    }

    #[test]
    fn a_line_longer_than_the_cap_says_how_to_use_it() {
        insta::assert_snapshot!(excerpt(&"ä".repeat(20), &path(), None, 5).unwrap(), @r#"
        äääää
        ...[truncated: 15 more characters of 1 lines; line 1 is too long to show whole: use it in code, or as "ref:fi:turn_1.files/a.txt"]
        "#);
    }

    #[test]
    fn following_the_markers_gives_the_whole_text() {
        let text: String = (0..500)
            .map(|n| format!("line {n} {}\n", "x".repeat(n % 37)))
            .collect();
        let (mut collected, mut range) = (String::new(), None);
        loop {
            let shown = excerpt(&text, &path(), range, 700).unwrap();
            let body = shown
                .strip_prefix("[lines")
                .map_or(&*shown, |rest| rest.split_once('\n').unwrap().1);
            let Some((part, marker)) = body.split_once("...[truncated") else {
                collected.push_str(body);
                let last = range.map_or(500, |range: LineRange| range.last);
                if last >= 500 {
                    break;
                }
                range = lines(last + 1, 500);
                continue;
            };
            collected.push_str(part);
            let next = marker.split_once("#L").unwrap().1.split_once('"').unwrap().0;
            let (first, last) = next.split_once('-').unwrap();
            range = lines(first.parse().unwrap(), last.parse().unwrap());
        }
        assert_eq!(collected, text);
    }
}
