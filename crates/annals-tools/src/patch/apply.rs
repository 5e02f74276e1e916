//! Finding where hunks belong, and writing the new text.

use super::error::PatchError;
use super::lines::{self, Line};
use super::parse::{self, Edit, Hunk, Role};

/// A text with a patch applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patched {
    /// The new text.
    pub text: String,
    /// Where each hunk went, in the patch's order.
    pub hunks: Vec<AppliedHunk>,
    /// Lines that are new.
    pub lines_added: usize,
    /// Lines that are gone.
    pub lines_removed: usize,
}

/// Where one hunk went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct AppliedHunk {
    /// Line of the old text it was applied at, from 1.
    pub line: usize,
    /// How far from where its header says.
    pub moved_lines: i64,
}

/// How closely a hunk's lines agree with the text's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Agreement {
    /// Byte for byte.
    Exact,
    /// But for the `\r` of `\r\n`: the patch was written without them, so added lines need them too.
    ButForReturns,
}

/// A hunk with its place in the old text.
struct Placed<'h, 'a> {
    edits: &'h [Edit<'a>],
    start: usize,
    end: usize,
    agreement: Agreement,
}

/// Applies a unified diff to a text: all of it, or nothing.
pub fn apply(original: &str, patch: &str) -> Result<Patched, PatchError> {
    let hunks = parse::hunks(patch)?;
    let old = lines::split(original);
    let mut placed: Vec<Placed<'_, '_>> = Vec::with_capacity(hunks.len());
    let mut applied = Vec::with_capacity(hunks.len());
    let mut drift = 0;
    for (index, hunk) in hunks.iter().enumerate() {
        let here = place(&old, hunk, index + 1, drift, &placed)?;
        drift = here.start as i64 - claimed_start(hunk) as i64;
        applied.push(AppliedHunk {
            line: here.start + 1,
            moved_lines: drift,
        });
        placed.push(here);
    }
    // Models also list hunks out of order; their places are in the old text, so order does not matter.
    placed.sort_by_key(|hunk| (hunk.start, hunk.end));
    let count = |role| {
        hunks
            .iter()
            .flat_map(|hunk| &hunk.edits)
            .filter(|edit| edit.role == role)
            .count()
    };
    let (lines_added, lines_removed) = (count(Role::Add), count(Role::Remove));
    Ok(Patched {
        text: write(&old, &placed),
        hunks: applied,
        lines_added,
        lines_removed,
    })
}

/// Index of the line a hunk claims to start at. A header without old lines names the line before.
fn claimed_start(hunk: &Hunk<'_>) -> usize {
    let has_old = hunk.edits.iter().any(|edit| edit.role != Role::Add);
    if has_old || !hunk.claims_no_old {
        hunk.old_start.saturating_sub(1)
    } else {
        hunk.old_start
    }
}

fn place<'h, 'a>(
    old: &[Line<'_>],
    hunk: &'h Hunk<'a>,
    number: usize,
    drift: i64,
    placed: &[Placed<'_, '_>],
) -> Result<Placed<'h, 'a>, PatchError> {
    let claimed = claimed_start(hunk);
    // A blank line at the very end may belong to the patch or only follow it: with it first, then without.
    let whole = &hunk.edits[..];
    let trimmed = &whole[..whole
        .iter()
        .rposition(|edit| !edit.blank)
        .map_or(0, |last| last + 1)];
    let mut found = Err(Vec::new());
    for edits in [whole, trimmed] {
        found = locate(old, edits, claimed, drift, placed);
        let nowhere = matches!(&found, Err(places) if places.is_empty());
        if !nowhere || trimmed.is_empty() || trimmed.len() == whole.len() {
            break;
        }
    }
    found.map_err(|places| mismatch(old, hunk, number, claimed, &places))
}

/// The one place where these edits apply, or all places that are as good as each other.
fn locate<'h, 'a>(
    old: &[Line<'_>],
    edits: &'h [Edit<'a>],
    claimed: usize,
    drift: i64,
    placed: &[Placed<'_, '_>],
) -> Result<Placed<'h, 'a>, Vec<usize>> {
    let wanted: Vec<Edit<'_>> = edits
        .iter()
        .filter(|edit| edit.role != Role::Add)
        .copied()
        .collect();
    let at = |start: usize, agreement| Placed {
        edits,
        start,
        end: start + wanted.len(),
        agreement,
    };
    let free = |start: usize| {
        let end = start + wanted.len();
        placed
            .iter()
            .all(|other| end <= other.start || other.end <= start)
    };
    let fits = |start: usize, agreement| free(start) && agrees(old, &wanted, start, agreement);
    let expected = usize::try_from(claimed as i64 + drift).unwrap_or(0);
    for agreement in [Agreement::Exact, Agreement::ButForReturns] {
        if fits(expected, agreement) {
            return Ok(at(expected, agreement));
        }
    }
    if wanted.is_empty() {
        return Err(Vec::new());
    }
    for agreement in [Agreement::Exact, Agreement::ButForReturns] {
        let last = old.len().saturating_sub(wanted.len());
        let places: Vec<usize> = (0..=last).filter(|&start| fits(start, agreement)).collect();
        match places[..] {
            [] => continue,
            [only] => return Ok(at(only, agreement)),
            _ if places.contains(&claimed) => return Ok(at(claimed, agreement)),
            _ => return Err(places),
        }
    }
    Err(Vec::new())
}

fn agrees(old: &[Line<'_>], wanted: &[Edit<'_>], start: usize, agreement: Agreement) -> bool {
    let Some(there) = old.get(start..start + wanted.len()) else {
        return false;
    };
    // A line the patch knows to be without an end is the last one.
    let ends_right = |index: usize, edit: &Edit<'_>| !edit.unended || start + index + 1 == old.len();
    there.iter().zip(wanted).enumerate().all(|(index, (line, edit))| {
        let same = match agreement {
            Agreement::Exact => line.text == edit.text,
            Agreement::ButForReturns => line.bare() == edit.text.strip_suffix('\r').unwrap_or(edit.text),
        };
        same && ends_right(index, edit)
    })
}

fn mismatch(
    old: &[Line<'_>],
    hunk: &Hunk<'_>,
    number: usize,
    claimed: usize,
    places: &[usize],
) -> PatchError {
    let expected: Vec<String> = hunk
        .edits
        .iter()
        .filter(|edit| edit.role != Role::Add)
        .map(|edit| edit.text.trim_end_matches('\r').to_owned())
        .collect();
    let header = hunk.header.to_owned();
    if !places.is_empty() {
        let places = places.iter().map(|place| place + 1).collect();
        return PatchError::Ambiguous {
            hunk: number,
            header,
            line: claimed + 1,
            expected,
            places,
        };
    }
    let actual = old
        .iter()
        .skip(claimed)
        .take(expected.len().max(1))
        .map(|line| line.bare().to_owned());
    PatchError::HunkMismatch {
        hunk: number,
        header,
        line: claimed + 1,
        expected,
        actual: actual.collect(),
    }
}

fn write(old: &[Line<'_>], placed: &[Placed<'_, '_>]) -> String {
    let mut page = Page::default();
    let mut next = 0;
    for hunk in placed {
        old[next..hunk.start].iter().for_each(|line| page.keep(line));
        next = hunk.start;
        for edit in hunk.edits {
            match edit.role {
                Role::Keep => {
                    page.keep(&old[next]);
                    next += 1;
                }
                Role::Remove => next += 1,
                Role::Add => page.add(edit, hunk.agreement),
            }
        }
    }
    old[next..].iter().for_each(|line| page.keep(line));
    page.text
}

/// The new text while it is written. A line without an end gets one as soon as another follows it.
#[derive(Default)]
struct Page {
    text: String,
    owes_end: Option<&'static str>,
}

impl Page {
    fn keep(&mut self, line: &Line<'_>) {
        self.push(line.text, line.ended, "\n");
    }

    fn add(&mut self, edit: &Edit<'_>, agreement: Agreement) {
        match agreement {
            Agreement::Exact => self.push(edit.text, !edit.unended, "\n"),
            Agreement::ButForReturns => {
                let text = edit.text.strip_suffix('\r').unwrap_or(edit.text);
                self.push(text, !edit.unended, "\r\n");
            }
        }
    }

    fn push(&mut self, text: &str, ended: bool, end: &'static str) {
        if let Some(owed) = self.owes_end.take() {
            self.text.push_str(owed);
        }
        self.text.push_str(text);
        if ended {
            self.text.push_str(end);
        } else {
            self.owes_end = Some(end);
        }
    }
}
