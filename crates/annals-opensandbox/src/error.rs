//! What can go wrong between this process and the services, and whether trying again can help.

use std::time::Duration;

use reqwest::StatusCode;

use crate::frames::FrameError;
use crate::wire::ErrorBody;

/// Longest body of a refusal that is read.
const REFUSAL_MAX_BYTES: usize = 16 << 10;

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
    #[error("could not {doing}: the answer is not in the protocol of OpenSandbox: {reason}")]
    Protocol {
        /// What was asked.
        doing: &'static str,
        /// What was read.
        reason: String,
    },
}

impl ApiError {
    pub(crate) fn unreachable(doing: &'static str, error: &reqwest::Error) -> Self {
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

    pub(crate) fn frame(doing: &'static str, error: &FrameError) -> Self {
        Self::Protocol {
            doing,
            reason: error.to_string(),
        }
    }

    /// Whether the server says that there is no such thing.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }

    /// Whether the same request may be answered otherwise a moment later.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Protocol { .. } => true,
            Self::Refused { status, .. } => matches!(status, 408 | 425 | 429 | 500 | 502 | 503 | 504),
        }
    }
}

/// The answer if it is a success; otherwise what the service said.
pub(crate) async fn accepted(
    doing: &'static str,
    answer: Result<reqwest::Response, reqwest::Error>,
) -> Result<reqwest::Response, ApiError> {
    let answer = answer.map_err(|error| ApiError::unreachable(doing, &error))?;
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let body = bounded(answer).await;
    let (code, message) = ErrorBody::read(&body);
    let message = match (message.is_empty(), status) {
        (false, _) => message,
        (true, status) => reason(status).to_owned(),
    };
    Err(ApiError::Refused {
        doing,
        status: status.as_u16(),
        code,
        message,
    })
}

fn reason(status: StatusCode) -> &'static str {
    status.canonical_reason().unwrap_or("no reason given")
}

async fn bounded(mut answer: reqwest::Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(piece)) = answer.chunk().await {
        body.extend_from_slice(&piece);
        if body.len() >= REFUSAL_MAX_BYTES {
            body.truncate(REFUSAL_MAX_BYTES);
            break;
        }
    }
    body
}

/// Waits between attempts: doubling from 20 ms up to 2 s.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(20);
    const MOST: Duration = Duration::from_secs(2);

    pub(crate) fn new() -> Self {
        Self { next: Self::FIRST }
    }

    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep(self.next).await;
        self.next = (self.next * 2).min(Self::MOST);
    }
}
