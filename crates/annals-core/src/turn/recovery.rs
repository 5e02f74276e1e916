//! Results of calls that did not come to an end, or were not allowed to begin.

use crate::block::ShownError;
use crate::code::Code;
use crate::turn::outcome::Outcome;

/// The result of a call whose process died.
pub fn interrupted(tool: &str) -> Outcome {
    failed(
        Code::Interrupted,
        format!(
            "`{tool}` was interrupted: its effect may or may not have happened; look before you repeat it"
        ),
    )
}

/// The result of a call that somebody cancelled.
pub fn cancelled(tool: &str) -> Outcome {
    failed(
        Code::Cancelled,
        format!("`{tool}` was cancelled and its processes were ended"),
    )
}

/// The result of a call that somebody cancelled before it began.
pub fn not_started(tool: &str) -> Outcome {
    failed(
        Code::Cancelled,
        format!("`{tool}` was cancelled before it started: it did nothing"),
    )
}

/// A result that says what kept the call from answering.
pub fn failed(code: Code, message: String) -> Outcome {
    Outcome::failure(ShownError::new(code, message))
}
