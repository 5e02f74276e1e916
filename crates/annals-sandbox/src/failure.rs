//! Why an operation could not do what was asked. A command that ran and ended badly is not a failure.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ops::CommandResult;

/// The detail of what came too late.
const LATE: &str = "too_late";

/// An operation that did not happen, or was stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What kind of failure, for programs.
    pub kind: FailureKind,
    /// What happened, for the reader; names no host path.
    pub message: String,
    /// More about it, if there is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What a stopped command had written until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Box<CommandResult>>,
}

/// The kinds of failure; their names are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FailureKind {
    /// It took longer than allowed, and was ended with all it started.
    Timeout,
    /// There is no such file.
    FileNotFound,
    /// The path leads out of the workspace, or is no path.
    PathViolation,
    /// The operating system refused.
    OsError,
    /// This sandbox cannot do that.
    Unsupported,
    /// The sandbox is closed, or died.
    SandboxClosed,
    /// There was more to return than the limit allows.
    OutputTooLarge,
    /// The caller cancelled it; all it started has been ended.
    Cancelled,
    /// It used more of the machine than the sandbox may, and was ended with all it started.
    ResourceLimit,
}

impl FailureKind {
    /// The stable name, as results show it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::FileNotFound => "file_not_found",
            Self::PathViolation => "path_violation",
            Self::OsError => "os_error",
            Self::Unsupported => "unsupported",
            Self::SandboxClosed => "sandbox_closed",
            Self::OutputTooLarge => "output_too_large",
            Self::Cancelled => "cancelled",
            Self::ResourceLimit => "resource_limit",
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Failure {
    /// A failure of this kind.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            detail: None,
            partial: None,
        }
    }

    /// Adds detail.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Adds what the command had written.
    #[must_use]
    pub fn partial(mut self, partial: CommandResult) -> Self {
        self.partial = Some(Box::new(partial));
        self
    }

    /// The sandbox is closed.
    pub fn closed() -> Self {
        Self::new(FailureKind::SandboxClosed, "the sandbox is closed; open another")
    }

    /// The caller cancelled.
    pub fn cancelled() -> Self {
        Self::new(FailureKind::Cancelled, "the operation was cancelled")
    }

    /// A program did not begin, since the moment had passed until which it might ([`crate::Op::not_after`]).
    pub fn late() -> Self {
        Self::new(
            FailureKind::Cancelled,
            "the program was not begun: its time was over",
        )
        .detail(LATE)
    }

    /// Whether a program did not begin for that reason.
    pub fn is_late(&self) -> bool {
        self.kind == FailureKind::Cancelled && self.detail.as_deref() == Some(LATE)
    }

    /// The operating system refused to do something.
    pub fn os(doing: impl fmt::Display, error: impl fmt::Display) -> Self {
        Self::new(FailureKind::OsError, format!("could not {doing}: {error}"))
    }
}
