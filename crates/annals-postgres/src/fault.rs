//! What went wrong, by SQLSTATE: what to try again, what to say.

use annals_store::LogError;
use tokio_postgres::error::SqlState;

/// Why an operation did not end well.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error(transparent)]
    Database(#[from] tokio_postgres::Error),
    /// No answer in time. The statement may take effect yet.
    #[error("the database does not answer")]
    Silent,
    /// The server committed, and did not wait for its standbys.
    #[error("a commit may not have reached the standbys: somebody ended its wait for them")]
    Unreplicated,
    /// Nothing can be written on this connection: a demoted primary, a standby, or an operator's setting.
    #[error("the database takes no writes")]
    ReadOnly,
    /// The log says no.
    #[error(transparent)]
    Refused(#[from] LogError),
    /// The stored rows contradict themselves.
    #[error("{0}")]
    Damaged(String),
}

/// What to do about a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// The same statement, on this connection: it lost a race.
    Again,
    /// The same statement, on a new connection: this one is of no more use, or not to the primary. It may have taken
    /// effect.
    Elsewhere,
    /// Nothing helps.
    None,
}

impl Fault {
    pub(crate) fn remedy(&self) -> Remedy {
        match self {
            Fault::Silent | Fault::Unreplicated | Fault::ReadOnly => Remedy::Elsewhere,
            Fault::Refused(_) | Fault::Damaged(_) => Remedy::None,
            Fault::Database(error) => match error.code() {
                // Not of the server: the connection broke.
                None => Remedy::Elsewhere,
                Some(_) if is_outdated_plan(error) => Remedy::Elsewhere,
                Some(code) => remedy(code),
            },
        }
    }

    /// Whether a server that is there says itself that it takes no connections at this moment. Where nobody answers, the address
    /// may be wrong.
    pub(crate) fn is_of_a_server_that_starts(&self) -> bool {
        matches!(self, Fault::Database(error) if error.code() == Some(&SqlState::CANNOT_CONNECT_NOW))
    }

    pub(crate) fn is_unique_violation(&self) -> bool {
        matches!(self, Fault::Database(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION))
    }

    /// Whether a statement that was prepared on this connection is unknown to the server, or known from another.
    pub(crate) fn is_of_foreign_session(&self) -> bool {
        let code = match self {
            Fault::Database(error) => error.code(),
            _ => None,
        };
        code.is_some_and(|code| matches!(code.code(), "26000" | "42P05"))
    }

    /// As the log's callers see it.
    pub(crate) fn into_log(self, log: &str) -> LogError {
        match self {
            Fault::Refused(error) => error,
            fault => fault.to_log(log),
        }
    }

    /// The same for one of several callers.
    pub(crate) fn to_log(&self, log: &str) -> LogError {
        let log = log.to_owned();
        match self {
            Fault::Refused(error) => LogError::Storage {
                log,
                detail: error.to_string(),
            },
            Fault::Damaged(detail) => LogError::Corrupt {
                log,
                detail: detail.clone(),
            },
            Fault::Silent => LogError::Storage {
                log,
                detail: "the database does not answer; what was asked may take effect yet".to_owned(),
            },
            Fault::Unreplicated => LogError::Storage {
                log,
                detail: self.to_string(),
            },
            Fault::ReadOnly => LogError::ReadOnly { log },
            Fault::Database(error) => {
                let detail = described(error);
                match error.code().map(SqlState::code) {
                    Some("53100") => LogError::DiskFull { log },
                    Some("25006") => LogError::ReadOnly { log },
                    Some("55P03" | "40001" | "40P01") => LogError::Busy { log },
                    Some("XX001" | "XX002") => LogError::Corrupt { log, detail },
                    _ => LogError::Storage { log, detail },
                }
            }
        }
    }
}

fn remedy(code: &SqlState) -> Remedy {
    match code.code() {
        // Serialization failure, deadlock, lock not available.
        "40001" | "40P01" | "55P03" => Remedy::Again,
        // A demoted primary; a server that ends, starts or is full; a statement that a pooler forgot, or another had
        // prepared on the same session.
        "25006" | "57P01" | "57P02" | "57P03" | "57P05" | "53300" | "26000" | "42P05" => Remedy::Elsewhere,
        code if code.starts_with("08") => Remedy::Elsewhere,
        _ => Remedy::None,
    }
}

/// Whether a statement was prepared before a migration changed what it gives. The code alone stands for whatever a server
/// cannot do.
fn is_outdated_plan(error: &tokio_postgres::Error) -> bool {
    let database = error.as_db_error();
    database.is_some_and(|database| {
        database.code().code() == "0A000" && database.routine() == Some("RevalidateCachedQuery")
    })
}

/// The server's own words with their SQLSTATE, or the driver's with their cause.
fn described(error: &tokio_postgres::Error) -> String {
    use std::error::Error as _;
    match (error.as_db_error(), error.source()) {
        (Some(database), _) => format!("{} ({})", database.message(), database.code().code()),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}
