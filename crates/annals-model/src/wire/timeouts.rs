//! How patient a request is, and how much it takes.

use std::time::Duration;

use annals_core::limits;

/// How long each part of a request may take, and how much may come of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// To reach the provider.
    pub connect: Duration,
    /// From sending the prompt to the first byte of the answer. Reasoning models are slow to begin.
    pub first_byte: Duration,
    /// Between two chunks of the answer.
    pub idle: Duration,
    /// From sending the prompt to the end of the answer.
    pub whole: Duration,
    /// A longer answer is refused.
    pub answer_max_bytes: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(300),
            idle: Duration::from_secs(120),
            whole: Duration::from_secs(limits::MODEL_ANSWER_MAX_SECONDS),
            answer_max_bytes: limits::MODEL_ANSWER_MAX_BYTES,
        }
    }
}
