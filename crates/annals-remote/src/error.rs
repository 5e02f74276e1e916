//! What can go wrong between this process and a server, and whether trying again can help; settings that cannot be used.

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

/// Settings of a server that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The server's address.
    #[error("`{given}` is no address of such a server; write `{example}`")]
    Url {
        /// What was given, without a password.
        given: String,
        /// What it might look like.
        example: &'static str,
    },
    /// The address of sandboxes.
    #[error("`sandbox_url = \"{0}\"` is no address of a server; write `https://host`")]
    SandboxUrl(String),
    /// The workspace.
    #[error("`workspace = \"{0}\"` is no absolute path below `/`")]
    Workspace(String),
    /// The time to live.
    #[error("`timeout_seconds = {given}` is too short; give at least {least}")]
    Timeout {
        /// What was given.
        given: u64,
        /// What is accepted.
        least: u64,
    },
    /// The key.
    #[error("the key in `{variable}` has characters that no header can carry")]
    Key {
        /// The variable that it is in.
        variable: &'static str,
    },
    /// HTTP itself.
    #[error("no HTTP client can be made: {0}")]
    Client(String),
}
