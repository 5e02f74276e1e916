//! A patch text as hunks.

use super::error::{PatchError, cut};

/// One hunk, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hunk<'a> {
    pub(super) header: &'a str,
    /// The line it claims to start at, from 1; for a pure insertion, the line it follows.
    pub(super) old_start: usize,
    /// Whether the header itself says that no old lines are meant.
    pub(super) claims_no_old: bool,
    pub(super) edits: Vec<Edit<'a>>,
}

/// One line of a hunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edit<'a> {
    pub(super) role: Role,
    pub(super) text: &'a str,
    /// A `\ No newline at end of file` follows.
    pub(super) unended: bool,
    /// Written without even the leading space: some models drop it from blank lines, and some end a patch with
    /// blank lines that are not part of it.
    pub(super) blank: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Keep,
    Remove,
    Add,
}

struct Header {
    old_start: usize,
    old_count: usize,
    new_count: usize,
}

/// Reads the hunks of one file's diff.
pub(super) fn hunks(patch: &str) -> Result<Vec<Hunk<'_>>, PatchError> {
    let lines = patch_lines(patch);
    let mut at = 0;
    while at < lines.len() && !lines[at].starts_with("@@") {
        at += 1;
    }
    if at == lines.len() {
        return Err(invalid(1, lines.first().copied().unwrap_or_default(), NO_HUNK));
    }
    let mut hunks = Vec::new();
    while at < lines.len() {
        let header = header(lines[at]).ok_or_else(|| invalid(at + 1, lines[at], BAD_HEADER))?;
        let (edits, next) = body(&lines, at + 1, &header)?;
        if edits.is_empty() {
            return Err(invalid(at + 1, lines[at], EMPTY_HUNK));
        }
        hunks.push(Hunk {
            header: lines[at].trim_end(),
            old_start: header.old_start,
            claims_no_old: header.old_count == 0,
            edits,
        });
        at = next;
    }
    Ok(hunks)
}

const NO_HUNK: &str =
    "a diff needs a hunk header such as `@@ -3,4 +3,5 @@`; to replace the whole file, use react.write";
const BAD_HEADER: &str = "a hunk header looks like `@@ -3,4 +3,5 @@`";
const EMPTY_HUNK: &str = "no lines follow this hunk header";
const BAD_LINE: &str = "a hunk's lines start with a space, `-` or `+`";
const SECOND_FILE: &str = "the patch is for more than one file: send one patch for each";

fn invalid(line: usize, text: &str, why: &'static str) -> PatchError {
    PatchError::InvalidHunkHeader {
        line,
        text: cut(text.trim_end()),
        why,
    }
}

/// The patch's lines. When even its headers end in `\r`, the whole text was sent with `\r\n` ends, and the `\r`
/// says nothing about the file.
fn patch_lines(patch: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = patch.split('\n').collect();
    if lines.last() == Some(&"") {
        lines.pop();
    }
    let headers_carry_returns = lines
        .iter()
        .filter(|line| line.starts_with("@@"))
        .all(|line| line.ends_with('\r'));
    if headers_carry_returns {
        for line in &mut lines {
            *line = line.strip_suffix('\r').unwrap_or(line);
        }
    }
    lines
}

/// `@@ -<start>[,<count>] +<start>[,<count>] @@ <anything>`.
fn header(line: &str) -> Option<Header> {
    let ranges = line.strip_prefix("@@ ")?;
    let end = ranges.find(" @@")?;
    let mut words = ranges[..end].split_whitespace();
    let (old, new) = (words.next()?.strip_prefix('-')?, words.next()?.strip_prefix('+')?);
    if words.next().is_some() {
        return None;
    }
    let (old_start, old_count) = range(old)?;
    let (_, new_count) = range(new)?;
    Some(Header {
        old_start,
        old_count,
        new_count,
    })
}

fn range(text: &str) -> Option<(usize, usize)> {
    let number = |text: &str| match text.bytes().all(|b| b.is_ascii_digit()) {
        true => text.parse::<u32>().ok().map(|number| number as usize),
        false => None,
    };
    match text.split_once(',') {
        Some((start, count)) => Some((number(start)?, number(count)?)),
        None => Some((number(text)?, 1)),
    }
}

/// The lines of one hunk, and where the next thing begins.
fn body<'a>(lines: &[&'a str], mut at: usize, header: &Header) -> Result<(Vec<Edit<'a>>, usize), PatchError> {
    let mut edits: Vec<Edit<'a>> = Vec::new();
    let (mut old, mut new) = (0, 0);
    while at < lines.len() && !lines[at].starts_with("@@") {
        let line = lines[at];
        let satisfied = old >= header.old_count && new >= header.new_count;
        if satisfied && is_file_header(lines, at) {
            return Err(invalid(at + 1, line, SECOND_FILE));
        }
        let (role, text) = match line.split_at_checked(1) {
            _ if line.is_empty() || line == "\r" => (Role::Keep, line),
            Some((" ", text)) => (Role::Keep, text),
            Some(("-", text)) => (Role::Remove, text),
            Some(("+", text)) => (Role::Add, text),
            Some(("\\", _)) if !edits.is_empty() => {
                if let Some(last) = edits.last_mut() {
                    last.unended = true;
                }
                at += 1;
                continue;
            }
            _ => return Err(invalid(at + 1, line, BAD_LINE)),
        };
        old += usize::from(role != Role::Add);
        new += usize::from(role != Role::Remove);
        edits.push(Edit {
            role,
            text,
            unended: false,
            blank: line.len() == text.len(),
        });
        at += 1;
    }
    drop_trailing_blanks(&mut edits, header);
    Ok((edits, at))
}

/// `--- a` and `+++ b` before another hunk: the next file of a longer diff. A removed `-- a` beside an added
/// `++ b` looks the same, which is why this is asked only when the hunk's own counts are used up.
fn is_file_header(lines: &[&str], at: usize) -> bool {
    let starts = |at: usize, start: &str| lines.get(at).is_some_and(|line| line.starts_with(start));
    starts(at, "diff --git ") || (starts(at, "--- ") && starts(at + 1, "+++ ") && starts(at + 2, "@@"))
}

/// Blank lines after a hunk that its counts do not ask for separate it from what follows.
fn drop_trailing_blanks(edits: &mut Vec<Edit<'_>>, header: &Header) {
    let count = |edits: &[Edit<'_>]| edits.iter().filter(|edit| edit.role != Role::Add).count();
    while edits.last().is_some_and(|edit| edit.blank) && count(edits) > header.old_count {
        edits.pop();
    }
}
