//! What can go wrong when a model is asked, and whether asking again may help.
//!
//! No variant ever holds a key: messages of providers are cut and redacted before they come here.

use std::time::Duration;

/// Which wait of a request took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StallPhase {
    /// For the first byte of the answer.
    FirstByte,
    /// For the next bytes of a stream that had begun.
    Idle,
    /// For the end of the answer.
    Whole,
}

impl StallPhase {
    fn waited_for(self) -> &'static str {
        match self {
            StallPhase::FirstByte => "the first byte",
            StallPhase::Idle => "more of the stream",
            StallPhase::Whole => "the end of the answer",
        }
    }
}

/// Why a model gave no whole answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The prompt, or prompt and answer together, do not fit the window.
    #[error("the prompt does not fit the model's window: {message}")]
    ContextLimit {
        /// What the provider said.
        message: String,
    },
    /// Too many requests or tokens for now.
    #[error("the provider limits the rate: {message}")]
    RateLimited {
        /// How long the provider asks to wait.
        retry_after: Option<Duration>,
        /// What the provider said.
        message: String,
    },
    /// The provider has trouble of its own.
    #[error("the provider is overloaded or failing: {message}")]
    Overloaded {
        /// How long the provider asks to wait.
        retry_after: Option<Duration>,
        /// What the provider said.
        message: String,
    },
    /// The provider could not be reached, or the connection broke.
    #[error("the connection to the provider failed: {message}")]
    Network {
        /// What the transport said.
        message: String,
    },
    /// The key is missing, wrong, or not allowed to do this.
    #[error("the provider refused the key: {message}; check the key and what it may use")]
    Auth {
        /// What the provider said.
        message: String,
    },
    /// The account has no credit left.
    #[error("the account at the provider is used up: {message}; waiting will not help")]
    Quota {
        /// What the provider said.
        message: String,
    },
    /// The request is wrong and stays wrong.
    #[error("the provider rejected the request: {message}")]
    BadRequest {
        /// What the provider said.
        message: String,
    },
    /// Nothing came for too long.
    #[error("waited {after:?} for {}, in vain", phase.waited_for())]
    Stalled {
        /// Which wait.
        phase: StallPhase,
        /// How long it took.
        after: Duration,
    },
    /// The server sends more than any answer has.
    #[error("the answer has more than {max_bytes} bytes; the server does not behave like a model")]
    TooLarge {
        /// The bound.
        max_bytes: u64,
    },
    /// The stream ended before the model said that it had finished.
    #[error("the stream ended before the answer did")]
    CutOff,
    /// The provider sent something that is not its own protocol.
    #[error("the provider's answer cannot be read: {message}")]
    Malformed {
        /// What is wrong with it.
        message: String,
    },
    /// The script has no step for this call.
    #[error("the script is used up: call {call} was made, it has {steps} steps; add a step")]
    ScriptExhausted {
        /// Which call of the process, from 1.
        call: usize,
        /// How many steps the script has.
        steps: usize,
    },
    /// A text that a script's step expects is not in the rendered view.
    #[error("step {step} of the script expects `{missing}` in the view, it is not there")]
    ExpectationFailed {
        /// Which step, from 1.
        step: usize,
        /// The missing text.
        missing: String,
    },
    /// The caller cancelled.
    #[error("the model call was cancelled")]
    Cancelled,
}

impl ModelError {
    /// A stable word for programs, the same that scripts use.
    pub fn kind(&self) -> &'static str {
        match self {
            ModelError::ContextLimit { .. } => "context_limit",
            ModelError::RateLimited { .. } => "rate_limit",
            ModelError::Overloaded { .. } => "overloaded",
            ModelError::Network { .. } => "network",
            ModelError::Auth { .. } => "auth",
            ModelError::Quota { .. } => "quota",
            ModelError::BadRequest { .. } => "bad_request",
            ModelError::Stalled { .. } => "stalled",
            ModelError::TooLarge { .. } => "too_large",
            ModelError::CutOff => "cut_off",
            ModelError::Malformed { .. } => "malformed",
            ModelError::ScriptExhausted { .. } => "script_exhausted",
            ModelError::ExpectationFailed { .. } => "expectation_failed",
            ModelError::Cancelled => "cancelled",
        }
    }

    /// Whether the same request may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            // An answer that took the whole time would take it again.
            ModelError::Stalled {
                phase: StallPhase::Whole,
                ..
            }
            | ModelError::TooLarge { .. } => false,
            ModelError::RateLimited { .. }
            | ModelError::Overloaded { .. }
            | ModelError::Network { .. }
            | ModelError::Stalled { .. }
            | ModelError::CutOff
            | ModelError::Malformed { .. } => true,
            ModelError::ContextLimit { .. }
            | ModelError::Auth { .. }
            | ModelError::Quota { .. }
            | ModelError::BadRequest { .. }
            | ModelError::ScriptExhausted { .. }
            | ModelError::ExpectationFailed { .. }
            | ModelError::Cancelled => false,
        }
    }

    /// How long the provider asks to wait before the next attempt.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            ModelError::RateLimited { retry_after, .. } | ModelError::Overloaded { retry_after, .. } => {
                *retry_after
            }
            _ => None,
        }
    }
}
