//! What ends the program early: one sentence, and whose turn it is to do something.

use std::fmt::Display;

use annals::runtime::{BuildError, RunError};
use annals::store::{ExportError, ImportError, LogError, ReindexError};

/// What shells expect of a program that Ctrl-C ended.
pub(crate) const INTERRUPTED_CODE: u8 = 130;

/// How a command ended that did what it could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// As it should.
    Well,
    /// The turn, or the tool, ended otherwise.
    Otherwise,
}

/// Why a command could not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was typed cannot be done.
    Usage(String),
    /// The store, the sandbox or the model is not there.
    Environment(String),
    /// The reader of our output went away.
    ClosedPipe,
    /// Ctrl-C.
    Interrupted,
}

impl Failure {
    pub(crate) fn usage(message: impl Display) -> Self {
        Failure::Usage(format!("{message:#}"))
    }

    pub(crate) fn environment(message: impl Display) -> Self {
        Failure::Environment(format!("{message:#}"))
    }

    /// The sentence, if there is one.
    pub(crate) fn message(self) -> String {
        match self {
            Failure::Usage(message) | Failure::Environment(message) => message,
            Failure::ClosedPipe | Failure::Interrupted => String::new(),
        }
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Environment(_) => 3,
            Failure::ClosedPipe => 0,
            Failure::Interrupted => INTERRUPTED_CODE,
        }
    }
}

impl Ended {
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Ended::Well => 0,
            Ended::Otherwise => 1,
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
            _ => Failure::environment(error),
        }
    }
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Self {
        match &error {
            LogError::NotFound { id } => Failure::usage(format!(
                "conversation `{id}` does not exist: see `annals conversations`"
            )),
            LogError::Exists { .. } | LogError::NoSuchBlock { .. } => Failure::usage(error),
            _ => Failure::environment(error),
        }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Log(error) => error.into(),
            RunError::Fold { .. } | RunError::Artifact(_) | RunError::Offering(_) => {
                Failure::environment(error)
            }
            other => Failure::usage(other),
        }
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Settings(_) | BuildError::NoModel | BuildError::Tools(_) => Failure::usage(error),
            BuildError::Log(error) => error.into(),
            other => Failure::environment(other),
        }
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Log(error) => error.into(),
            ExportError::Write(error) => error.into(),
            other => Failure::environment(other),
        }
    }
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Log(error) => error.into(),
            ImportError::Artifact(error) => Failure::environment(error),
            ImportError::Read(error) => Failure::environment(error),
            other => Failure::usage(other),
        }
    }
}

impl From<ReindexError> for Failure {
    fn from(error: ReindexError) -> Self {
        match error {
            ReindexError::Log(error) => error.into(),
            _ => Failure::environment(error),
        }
    }
}
