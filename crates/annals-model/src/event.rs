//! What a model says while it is saying it.

use std::time::Duration;

/// One small piece of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// More reasoning.
    Thinking(String),
    /// The vendor's proof of the reasoning since the last proof; opaque, to be sent back unchanged.
    ThinkingSignature(String),
    /// More text.
    Text(String),
    /// A tool call begins.
    CallStarted {
        /// Which call of this answer, from 0.
        index: usize,
        /// The id the model gave, if any; not necessarily unique.
        id: Option<String>,
        /// The tool's id as it was offered, such as `react.write`.
        tool: String,
    },
    /// More of a call's arguments.
    CallArguments {
        /// Which call of this answer.
        index: usize,
        /// The next characters of the JSON text.
        json: String,
    },
    /// An attempt failed after it had begun to speak and another one begins: forget everything before this.
    Restarted {
        /// Which attempt begins now, from 2.
        attempt: u32,
        /// The [`kind`](crate::ModelError::kind) of the failure.
        reason: &'static str,
        /// How long was waited in between.
        waited: Duration,
    },
    /// The answer is whole. Always the last event.
    Finished {
        /// Why the model stopped.
        stop: StopReason,
        /// What it took.
        usage: crate::Usage,
    },
}

/// Why a model stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// It had said everything.
    EndTurn,
    /// It waits for the results of its calls.
    ToolUse,
    /// The answer reached the longest allowed length: the last text or call may be incomplete.
    MaxTokens,
    /// A stop sequence came up.
    StopSequence,
    /// The model or the provider's filter declined.
    Refusal,
    /// A word of the vendor that has no meaning here.
    Other(String),
}

impl StopReason {
    /// A stable word.
    pub fn as_str(&self) -> &str {
        match self {
            StopReason::EndTurn => "end_turn",
            StopReason::ToolUse => "tool_use",
            StopReason::MaxTokens => "max_tokens",
            StopReason::StopSequence => "stop_sequence",
            StopReason::Refusal => "refusal",
            StopReason::Other(word) => word,
        }
    }
}
