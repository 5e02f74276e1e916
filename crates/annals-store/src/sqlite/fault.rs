//! What SQLite says, as what it means.

use rusqlite::ErrorCode;

use crate::log::LogError;

/// The file that errors speak of.
#[derive(Clone, Debug)]
pub(super) struct Database {
    name: std::sync::Arc<str>,
}

impl Database {
    pub(super) fn new(path: &std::path::Path) -> Self {
        Database {
            name: path.display().to_string().into(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What this error of SQLite means to users of the log.
    pub(super) fn error(&self, error: rusqlite::Error) -> LogError {
        let log = self.name.to_string();
        let detail = error.to_string();
        let Some(failure) = error.sqlite_error() else {
            // A value of the wrong type in a column: no code of ours stored it.
            return LogError::Corrupt { log, detail };
        };
        const SHORT_READ: i32 = rusqlite::ffi::SQLITE_IOERR_SHORT_READ;
        match failure.code {
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => LogError::Corrupt { log, detail },
            ErrorCode::SystemIoFailure if failure.extended_code == SHORT_READ => {
                LogError::Corrupt { log, detail }
            }
            ErrorCode::DiskFull => LogError::DiskFull { log },
            ErrorCode::ReadOnly => LogError::ReadOnly { log },
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => LogError::Busy { log },
            _ => LogError::Storage { log, detail },
        }
    }

    /// What this error of a file means to users of the log.
    pub(super) fn file_error(&self, error: &std::io::Error) -> LogError {
        let log = self.name.to_string();
        match error.kind() {
            std::io::ErrorKind::StorageFull => LogError::DiskFull { log },
            _ if crate::disk::is_read_only(error) => LogError::ReadOnly { log },
            _ => LogError::Storage {
                log,
                detail: error.to_string(),
            },
        }
    }

    /// Stored data that contradict themselves.
    pub(super) fn damaged(&self, detail: impl Into<String>) -> LogError {
        LogError::Corrupt {
            log: self.name.to_string(),
            detail: detail.into(),
        }
    }
}

/// Why a piece of work inside a transaction stopped.
#[derive(Debug)]
pub(super) enum Fault {
    /// The request was refused; it has written nothing.
    Refused(LogError),
    /// Stored data contradict themselves.
    Damaged(String),
    /// The storage failed; the transaction must be rolled back.
    Storage(rusqlite::Error),
}

impl Fault {
    pub(super) fn into_log(self, database: &Database) -> LogError {
        match self {
            Fault::Refused(error) => error,
            Fault::Damaged(detail) => database.damaged(detail),
            Fault::Storage(error) => database.error(error),
        }
    }
}

impl From<LogError> for Fault {
    fn from(error: LogError) -> Self {
        Fault::Refused(error)
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Fault::Storage(error)
    }
}
