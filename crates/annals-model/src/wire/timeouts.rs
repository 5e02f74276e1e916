//! How patient a request is.

use std::time::Duration;

/// How long each part of a request may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// To reach the provider.
    pub connect: Duration,
    /// From sending the prompt to the first byte of the answer. Reasoning models are slow to begin.
    pub first_byte: Duration,
    /// Between two chunks of the answer.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(300),
            idle: Duration::from_secs(120),
        }
    }
}
