//! What can go wrong between this process and a server, and whether trying again can help.

use std::time::Duration;

/// A request that did not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ApiError {
    /// No answer, or one that broke off.
    #[error("could not {doing}: {reason}")]
    Unreachable {
        /// What was asked.
        doing: &'static str,
        /// What the network said.
        reason: String,
    },
    /// An answer that says no.
    #[error("could not {doing}: the server answered {status}{}: {message}", code.as_ref().map(|code| format!(" `{code}`")).unwrap_or_default())]
    Refused {
        /// What was asked.
        doing: &'static str,
        /// HTTP status.
        status: u16,
        /// The service's own code.
        code: Option<String>,
        /// What the service said.
        message: String,
    },
    /// An answer that is not in the protocol.
    #[error("could not {doing}: the answer is not in the protocol: {reason}")]
    Protocol {
        /// What was asked.
        doing: &'static str,
        /// What was read.
        reason: String,
    },
}

impl ApiError {
    /// What the HTTP client said.
    pub fn unreachable(doing: &'static str, error: &reqwest::Error) -> Self {
        // The innermost error is the one that says something; the address stays out, it may carry a key.
        let mut innermost: &dyn std::error::Error = error;
        while let Some(source) = innermost.source() {
            innermost = source;
        }
        let reason = match error.is_timeout() {
            true => "no answer in time".to_owned(),
            false => innermost.to_string(),
        };
        Self::Unreachable { doing, reason }
    }

    /// What is wrong with an answer.
    pub fn protocol(doing: &'static str, reason: impl std::fmt::Display) -> Self {
        let reason = reason.to_string();
        Self::Protocol { doing, reason }
    }

    /// Whether the server says that there is no such thing.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }

    /// Whether the same request may be answered otherwise a moment later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Protocol { .. } => true,
            Self::Refused { status, .. } => matches!(status, 408 | 425 | 429 | 500 | 502 | 503 | 504),
        }
    }
}

/// Waits between attempts: doubling from 20 ms up to 2 s.
#[derive(Debug)]
pub struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: Self::FIRST }
    }
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(20);
    const MOST: Duration = Duration::from_secs(2);

    /// Waits longer than the last time.
    pub async fn wait(&mut self) {
        tokio::time::sleep(self.next).await;
        self.next = (self.next * 2).min(Self::MOST);
    }
}

/// Repeats what is harmless to repeat until an answer decides it or the budget is used up.
pub async fn repeated<T, F: Future<Output = Result<T, ApiError>> + Send>(
    budget: Duration,
    attempt: impl Fn() -> F,
) -> Result<T, ApiError> {
    let mut backoff = Backoff::default();
    let mut last = None;
    let attempts = async {
        loop {
            match attempt().await {
                Err(error) if error.is_transient() => last = Some(error),
                decided => return decided,
            }
            backoff.wait().await;
        }
    };
    match tokio::time::timeout(budget, attempts).await {
        Ok(decided) => decided,
        Err(_) => Err(last.unwrap_or(ApiError::Unreachable {
            doing: "reach the server",
            reason: "no answer in time".to_owned(),
        })),
    }
}
