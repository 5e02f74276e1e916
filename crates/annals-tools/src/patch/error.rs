//! Why a patch was not applied.

use annals_core::code::Code;
use serde_json::{Value, json};

/// This many lines of an excerpt are shown.
const SHOWN_LINES_MAX: usize = 20;
/// This many characters of each.
const SHOWN_LINE_MAX_CHARS: usize = 200;

/// Why a patch was not applied. The text it was for is untouched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// The patch cannot be read as a unified diff.
    #[error("line {line} of the patch, `{text}`: {why}")]
    InvalidHunkHeader {
        /// Line of the patch, from 1.
        line: usize,
        /// That line, cut to a readable length.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The lines a hunk expects are nowhere in the text.
    #[error(
        "hunk {hunk} (`{header}`) does not match: its lines are neither at line {line} nor anywhere else; read the \
         file again and make the patch from what it says now"
    )]
    HunkMismatch {
        /// Which hunk, from 1.
        hunk: usize,
        /// Its header.
        header: String,
        /// Where it should have matched, from 1.
        line: usize,
        /// The lines it expects there.
        expected: Vec<String>,
        /// The lines that are there.
        actual: Vec<String>,
    },
    /// The lines a hunk expects are at several places.
    #[error(
        "hunk {hunk} (`{header}`) is not at line {line}, but at {} other places: add context lines until only one is \
         meant", places.len()
    )]
    Ambiguous {
        /// Which hunk, from 1.
        hunk: usize,
        /// Its header.
        header: String,
        /// Where it should have matched, from 1.
        line: usize,
        /// The lines it expects.
        expected: Vec<String>,
        /// Where they are, from 1.
        places: Vec<usize>,
    },
}

impl PatchError {
    /// The stable code of the result.
    pub fn code(&self) -> &'static str {
        match self {
            PatchError::InvalidHunkHeader { .. } => Code::InvalidHunkHeader.as_str(),
            PatchError::HunkMismatch { .. } | PatchError::Ambiguous { .. } => Code::HunkMismatch.as_str(),
        }
    }

    /// The facts beside the message.
    pub fn details(&self) -> Value {
        match self {
            PatchError::InvalidHunkHeader { line, text, .. } => json!({"patch_line": line, "text": text}),
            PatchError::HunkMismatch {
                hunk,
                line,
                expected,
                actual,
                ..
            } => {
                json!({"hunk": hunk, "line": line, "expected": excerpt(expected), "actual": excerpt(actual)})
            }
            PatchError::Ambiguous {
                hunk,
                line,
                expected,
                places,
                ..
            } => {
                let places = &places[..places.len().min(SHOWN_LINES_MAX)];
                json!({"hunk": hunk, "line": line, "expected": excerpt(expected), "found_at_lines": places})
            }
        }
    }

    /// The lines of the text worth looking at, first and last, from 1.
    pub fn lines_to_read(&self) -> Option<(usize, usize)> {
        const AROUND: usize = 5;
        let around = |line: usize, count: usize| (line.saturating_sub(AROUND).max(1), line + count + AROUND);
        match self {
            PatchError::InvalidHunkHeader { .. } => None,
            PatchError::HunkMismatch { line, expected, .. } => Some(around(*line, expected.len())),
            PatchError::Ambiguous {
                places,
                expected,
                line,
                ..
            } => Some(around(places.first().copied().unwrap_or(*line), expected.len())),
        }
    }
}

fn excerpt(lines: &[String]) -> Vec<String> {
    let mut shown: Vec<String> = lines.iter().take(SHOWN_LINES_MAX).map(|line| cut(line)).collect();
    if lines.len() > SHOWN_LINES_MAX {
        shown.push(format!("[{} more lines]", lines.len() - SHOWN_LINES_MAX));
    }
    shown
}

pub(super) fn cut(line: &str) -> String {
    match line.char_indices().nth(SHOWN_LINE_MAX_CHARS) {
        None => line.to_owned(),
        Some((at, _)) => format!("{}…", &line[..at]),
    }
}
