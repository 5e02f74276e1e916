//! Why a text is not a path, in words the model can act on.

use crate::code::Code;
use crate::ids::{IdError, shown};

/// Why a text is not the path that was wanted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The text begins like none of the families.
    #[error(
        "`{given}` is not a path: start with `fi:`, `ar:`, `tc:`, `so:`, `su:` or `sk:`, or give `<turn>/files/<name>`"
    )]
    UnknownFamily {
        /// The offending text, cut to a readable length.
        given: String,
    },
    /// The family is known, what follows is not of its form.
    #[error("`{given}` is not a valid path: expected {expected}")]
    Malformed {
        /// The offending text, cut to a readable length.
        given: String,
        /// The accepted form.
        expected: &'static str,
    },
    /// A relative path that could leave its folder, or that no file system should be asked to keep.
    #[error("`{given}` is not a safe path: {why}")]
    Unsafe {
        /// The offending text, cut to a readable length.
        given: String,
        /// The rule that was broken.
        why: UnsafePath,
    },
    /// An id inside the path is not valid.
    #[error(transparent)]
    Id(#[from] IdError),
    /// The selector of a `so:` path is not valid.
    #[error(transparent)]
    Sids(#[from] super::SidSetError),
    /// The path is well formed, but only files can be written.
    #[error("`{given}` cannot be written: give a file path such as `report.md`")]
    NotWritable {
        /// The offending text, cut to a readable length.
        given: String,
    },
}

/// The rule of a safe relative path that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnsafePath {
    /// Nothing is left to name a file.
    #[error("it is empty")]
    Empty,
    /// It starts with `/`.
    #[error("it is absolute; give it relative to the turn's files")]
    Absolute,
    /// It has a `..` part.
    #[error("it has a `..` part")]
    Parent,
    /// It has a `.` part, which would give one file two names.
    #[error("it has a `.` part")]
    Dot,
    /// It has an empty part: `a//b` or a trailing slash.
    #[error("it has an empty part")]
    EmptyPart,
    /// It has NUL or another control character.
    #[error("it has a control character")]
    Control,
    /// It has a backslash.
    #[error("it has a backslash; use `/`")]
    Backslash,
    /// One part is too long.
    #[error("one part is longer than 255 bytes")]
    PartTooLong,
    /// The whole is too long.
    #[error("it is longer than 1024 bytes")]
    TooLong,
    /// It ends like a line range, so that it could not be told from one.
    #[error("it ends like the line range `#L3-9`")]
    LineRange,
}

impl PathError {
    /// The stable code a tool result carries: `unsafe_path` or `invalid_path`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unsafe { .. } => Code::UnsafePath.as_str(),
            _ => Code::InvalidPath.as_str(),
        }
    }

    pub(super) fn malformed(given: &str, expected: &'static str) -> Self {
        Self::Malformed {
            given: shown(given),
            expected,
        }
    }

    pub(super) fn unsafe_path(given: &str, why: UnsafePath) -> Self {
        Self::Unsafe {
            given: shown(given),
            why,
        }
    }
}
