//! Truncation that is always visible, counted and reversible. There is one unit, the character, and one way to go on:
//! the lines of the whole text, by its path.

use std::borrow::Cow;

use crate::path::{LineRange, LogicalPath};

/// About how long a marker is.
pub(crate) const MARKER_CHARS: usize = 120;

/// Whether a text has at most this many characters.
pub fn fits(text: &str, cap_chars: usize) -> bool {
    text.len() <= cap_chars || text.char_indices().nth(cap_chars).is_none()
}

/// The beginning of a whole text, then a marker that counts what is missing and, when the text has a path, says how to
/// read on. A text within the cap comes back as it is.
pub fn cut<'a>(text: &'a str, cap_chars: usize, path: Option<&LogicalPath>) -> Cow<'a, str> {
    if fits(text, cap_chars) {
        return Cow::Borrowed(text);
    }
    let count = line_count(text);
    let all = LineRange {
        first: 1,
        from_char: 1,
        last: count,
    };
    Cow::Owned(capped(text, path, all, count, cap_chars))
}

/// The lines of a whole text that are meant, within the cap. A text that fits and of which all lines are meant comes
/// back byte for byte; why a line is not there is said in words for the model.
pub fn excerpt(
    text: &str,
    path: &LogicalPath,
    lines: Option<LineRange>,
    cap_chars: usize,
) -> Result<String, String> {
    let count = line_count(text);
    let Some(LineRange {
        first,
        from_char,
        last,
    }) = lines
    else {
        return Ok(cut(text, cap_chars, Some(path)).into_owned());
    };
    if first > count {
        return Err(format!("it has {count} lines: line {first} is not there"));
    }
    let last = last.min(count);
    let mut part = between(text, first, last);
    let mut head = format!("[lines {first}-{last} of {count}]");
    if from_char > 1 {
        let line_chars = between(text, first, first).chars().count();
        let skipped = from_char as usize - 1;
        let start = part.char_indices().nth(skipped).filter(|_| skipped < line_chars);
        let Some((start, _)) = start else {
            return Err(format!(
                "line {first} has {line_chars} characters: character {from_char} is not there"
            ));
        };
        part = &part[start..];
        head = format!("[lines {first}-{last} of {count}, line {first} from its character {from_char}]");
    }
    let range = LineRange {
        first,
        from_char,
        last,
    };
    Ok(format!(
        "{head}\n{}",
        capped(part, Some(path), range, count, cap_chars)
    ))
}

/// How many lines a text has; the last need not end.
pub fn line_count(text: &str) -> u32 {
    let lines = text.bytes().filter(|&byte| byte == b'\n').count() + usize::from(!text.ends_with('\n'));
    u32::try_from(lines).unwrap_or(u32::MAX).max(1)
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

/// Those lines of a text of `count` lines, cut after a whole line where there is one within the cap. The next page is
/// as long as this one.
fn capped(text: &str, path: Option<&LogicalPath>, range: LineRange, count: u32, cap_chars: usize) -> String {
    let LineRange {
        first,
        from_char,
        last,
    } = range;
    let Some((cap, _)) = text.char_indices().nth(cap_chars) else {
        return text.to_owned();
    };
    let (end, next) = match text[..cap].rfind('\n') {
        Some(newline) => {
            let next = first + text[..=newline].matches('\n').count() as u32;
            let next = LineRange {
                first: next,
                from_char: 1,
                last: last.min(2 * next - first),
            };
            (newline + 1, next)
        }
        None => {
            let next = LineRange {
                from_char: from_char.saturating_add(cap_chars as u32),
                ..range
            };
            (cap, next)
        }
    };
    let more = text[end..].chars().count();
    let how = path.map_or(String::new(), |path| {
        format!("; go on with react.read(paths=[\"{path}{next}\"])")
    });
    let gap = if text[..end].ends_with('\n') { "" } else { "\n" };
    format!(
        "{}{gap}...[truncated: {more} more characters of {count} lines{how}]",
        &text[..end]
    )
}

/// Cut to this many characters with an ellipsis and a count, on one line: for summaries and placeholders.
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
    text.floor_char_boundary(at)
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
            assert_eq!(cut(text, 10, None), text);
        }
        assert!(fits("日本語", 3) && !fits("日本語", 2));
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
        insta::assert_snapshot!(cut(text, 12, None), @r"
        1111
        2222
        ...[truncated: 15 more characters of 5 lines]
        ");
    }

    #[test]
    fn a_line_longer_than_the_cap_is_read_on_by_characters() {
        let text = format!("{}\nend", "ä".repeat(12));
        insta::assert_snapshot!(excerpt(&text, &path(), None, 5).unwrap(), @r#"
        äääää
        ...[truncated: 11 more characters of 2 lines; go on with react.read(paths=["fi:turn_1.files/a.txt#L1@6-2"])]
        "#);
        let range = |from_char| {
            Some(LineRange {
                first: 1,
                from_char,
                last: 2,
            })
        };
        insta::assert_snapshot!(excerpt(&text, &path(), range(11), 99).unwrap(), @r"
        [lines 1-2 of 2, line 1 from its character 11]
        ää
        end
        ");
        assert_eq!(
            excerpt(&text, &path(), range(99), 99),
            Err("line 1 has 13 characters: character 99 is not there".into())
        );
    }

    /// Reads page by page as the markers say.
    fn followed(text: &str, cap_chars: usize) -> String {
        let (mut collected, mut range) = (String::new(), None);
        let count = line_count(text);
        for _ in 0..10_000 {
            let shown = excerpt(text, &path(), range, cap_chars).unwrap();
            let body = shown
                .strip_prefix("[lines")
                .map_or(&*shown, |rest| rest.split_once('\n').unwrap().1);
            let Some((part, marker)) = body.split_once("...[truncated") else {
                collected.push_str(body);
                let last = range.map_or(count, |range: LineRange| range.last);
                if last >= count {
                    return collected;
                }
                range = lines(last + 1, count);
                continue;
            };
            let next = marker.split_once("[\"").unwrap().1.split_once('"').unwrap().0;
            range = crate::path::RangedPath::parse(next).unwrap().lines;
            // A page that ends inside a line has a line end of the marker's own.
            let is_inside = range.unwrap().from_char > 1;
            collected.push_str(if is_inside {
                part.strip_suffix('\n').unwrap()
            } else {
                part
            });
        }
        panic!("the markers lead nowhere")
    }

    #[test]
    fn following_the_markers_gives_the_whole_text_in_every_script() {
        let latin = |n: usize| format!("line {n} {}\n", "x".repeat(n % 37));
        let russian = |n: usize| format!("строка {n} {}\n", "ж".repeat(n % 53));
        let chinese = |n: usize| format!("第{n}行 {}\n", "字".repeat(n * 7 % 91));
        let long = |n: usize| format!("{}\n", "لا🦀e\u{301}".repeat(n * 13 % 401));
        let texts: [String; 4] = [
            (0..500).map(latin).collect(),
            (0..500).map(russian).collect(),
            (0..500).map(chinese).collect(),
            (0..60).map(long).collect(),
        ];
        for text in texts {
            assert_eq!(followed(&text, 700), text);
        }
    }
}
