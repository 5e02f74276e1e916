//! A path with a range of lines: `fi:turn_1.files/a.md#L3-9`.

use std::fmt;
use std::str::FromStr;

use super::{LogicalPath, PathError};

/// Lines `first` to `last`, both included, counted from 1; the first perhaps not from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LineRange {
    /// The first line.
    pub first: u32,
    /// The first character of that line that is meant, counted from 1.
    pub from_char: u32,
    /// The last line, not before the first.
    pub last: u32,
}

impl LineRange {
    /// Lines `first` to `last`, if they count from 1 and are in order.
    pub fn try_new(first: u32, last: u32) -> Option<Self> {
        (1 <= first && first <= last).then_some(Self {
            first,
            from_char: 1,
            last,
        })
    }
}

impl fmt::Display for LineRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#L{}", self.first)?;
        if self.from_char > 1 {
            write!(f, "@{}", self.from_char)?;
        }
        if self.first == self.last {
            Ok(())
        } else {
            write!(f, "-{}", self.last)
        }
    }
}

/// A logical path, of which perhaps only some lines are meant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RangedPath {
    /// The artifact.
    pub path: LogicalPath,
    /// The lines meant, or all.
    pub lines: Option<LineRange>,
}

impl RangedPath {
    /// Reads a logical path with or without `#L<n>`, `#L<n>-<m>` (`#L<n>-L<m>` is read too) or `#L<n>@<c>[-<m>]`, which
    /// begins at character `c` of line `n`.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let Some(start) = suffix_start(text) else {
            return Ok(Self {
                path: LogicalPath::parse(text)?,
                lines: None,
            });
        };
        let range = &text[start + "#L".len()..];
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, from_char) = first.split_once('@').unwrap_or((first, "1"));
        let last = last.split_once('@').map_or(last, |(line, _)| line);
        let last = last.strip_prefix('L').unwrap_or(last);
        let lines = match (first.parse(), from_char.parse(), last.parse()) {
            (Ok(first), Ok(from_char), Ok(last)) if from_char > 0 => {
                LineRange::try_new(first, last).map(|lines| LineRange { from_char, ..lines })
            }
            _ => None,
        };
        match lines {
            Some(lines) => Ok(Self {
                path: LogicalPath::parse(&text[..start])?,
                lines: Some(lines),
            }),
            None => Err(PathError::malformed(
                text,
                "a line range `#L3`, `#L3-9` or `#L3@100-9`, counted from 1, in order",
            )),
        }
    }
}

/// Where a text's line-range suffix `#L<digits>[@<digits>][-[L]<digits>]` begins, if it has one.
pub(super) fn suffix_start(text: &str) -> Option<usize> {
    let start = text.rfind("#L")?;
    let range = &text[start + "#L".len()..];
    let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    let begins = |t: &str| match t.split_once('@') {
        None => digits(t),
        Some((line, character)) => digits(line) && digits(character),
    };
    let matches = match range.split_once('-') {
        None => begins(range),
        Some((first, last)) => begins(first) && digits(last.strip_prefix('L').unwrap_or(last)),
    };
    matches.then_some(start)
}

impl fmt::Display for RangedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.path, f)?;
        self.lines.map_or(Ok(()), |lines| fmt::Display::fmt(&lines, f))
    }
}

impl FromStr for RangedPath {
    type Err = PathError;
    fn from_str(text: &str) -> Result<Self, PathError> {
        Self::parse(text)
    }
}

impl From<LogicalPath> for RangedPath {
    fn from(path: LogicalPath) -> Self {
        Self { path, lines: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_from_the_end_of_any_path() {
        let read = |text: &str| RangedPath::parse(text).map(|p| p.to_string());
        assert_eq!(
            read("fi:turn_1.files/a.md#L3"),
            Ok("fi:turn_1.files/a.md#L3".into())
        );
        assert_eq!(
            read("fi:turn_1.files/a.md#L3-9"),
            Ok("fi:turn_1.files/a.md#L3-9".into())
        );
        assert_eq!(
            read("fi:turn_1.files/a.md#L3-L9"),
            Ok("fi:turn_1.files/a.md#L3-9".into())
        );
        assert_eq!(
            read("turn_1/files/a.md#L5-5"),
            Ok("fi:turn_1.files/a.md#L5".into())
        );
        assert_eq!(
            read("tc:turn_1.c1.result#L2-4"),
            Ok("tc:turn_1.c1.result#L2-4".into())
        );
        assert_eq!(
            read("tc:turn_1.c1.result#L2@48001"),
            Ok("tc:turn_1.c1.result#L2@48001".into())
        );
        assert_eq!(
            read("tc:turn_1.c1.result#L2@48001-4"),
            Ok("tc:turn_1.c1.result#L2@48001-4".into())
        );
        assert_eq!(read("fi:turn_1.files/c#.md"), Ok("fi:turn_1.files/c#.md".into()));
    }

    #[test]
    fn ranges_that_name_no_line_are_refused() {
        for bad in [
            "#L0",
            "#L0-4",
            "#L1@0",
            "#L9-3",
            "#L99999999999",
            "#L1-99999999999",
        ] {
            assert!(
                RangedPath::parse(&format!("fi:turn_1.files/a.md{bad}")).is_err(),
                "{bad}"
            );
        }
    }
}
