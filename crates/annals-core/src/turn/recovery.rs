//! What to do with calls that a crash left without a result.

use crate::block::ShownError;
use crate::ids::CallId;
use crate::timeline::Timeline;
use crate::turn::outcome::{Outcome, Output, Payload};

/// What becomes of one open call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The tool may run again: its effect is the same once or twice.
    RunAgain(CallId),
    /// It may have had its effect; the model is told and decides.
    Interrupted(CallId),
}

/// What to do with each open call, in order.
pub fn plan(timeline: &Timeline, is_replayable: impl Fn(&str) -> bool) -> Vec<Recovery> {
    let decide = |call: &crate::timeline::CallRecord| match is_replayable(&call.tool) {
        true => Recovery::RunAgain(call.id.clone()),
        false => Recovery::Interrupted(call.id.clone()),
    };
    timeline.open_calls().map(decide).collect()
}

/// The result of a call whose process died.
pub fn interrupted(tool: &str) -> Outcome {
    failed(
        "interrupted",
        format!(
            "`{tool}` was interrupted: its effect may or may not have happened; look before you repeat it"
        ),
    )
}

/// The result of a call that somebody cancelled.
pub fn cancelled(tool: &str) -> Outcome {
    failed(
        "cancelled",
        format!("`{tool}` was cancelled and its processes were ended"),
    )
}

/// The result of a call that somebody cancelled before it began.
pub fn not_started(tool: &str) -> Outcome {
    failed(
        "cancelled",
        format!("`{tool}` was cancelled before it started: it did nothing"),
    )
}

/// A result that says what kept the call from answering, in the keys' fixed order.
pub fn failed(kind: &str, message: String) -> Outcome {
    #[derive(serde::Serialize)]
    struct Refusal<'a> {
        ok: bool,
        error_kind: &'a str,
        message: &'a str,
    }
    let payload = Payload::json(&Refusal {
        ok: false,
        error_kind: kind,
        message: &message,
    });
    Outcome {
        output: Output::Payload(payload),
        error: Some(ShownError::new(kind, message)),
        ..Outcome::default()
    }
}
