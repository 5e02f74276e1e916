//! Why a tool could not do what it was asked: data for the model, never an `Err` of the runtime.

use serde::Serialize;
use serde_json::Value;

use annals_core::block::ShownError;

/// What a tool returns when it fails. `?` works on any error inside a tool: its text becomes the message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolFailure {
    /// A stable word such as `file_not_found`.
    #[serde(rename = "error_kind")]
    pub kind: String,
    /// One sentence that says what to do next.
    pub message: String,
    /// Further facts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Value>,
}

/// What a tool function returns.
pub type ToolResult = Result<Value, ToolFailure>;

/// The kind of a failure that says nothing more precise.
pub(crate) const TOOL_ERROR: &str = "tool_error";

impl ToolFailure {
    /// A failure of this kind.
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Self {
        ToolFailure {
            kind: kind.into(),
            message: message.into(),
            detail: None,
        }
    }

    /// With further facts.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<Value>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// The error as the status line shows it.
    pub fn shown(&self) -> ShownError {
        let error = ShownError::new(self.kind.clone(), self.message.clone());
        match &self.detail {
            Some(detail) => error.details(detail.clone()),
            None => error,
        }
    }
}

// As `anyhow::Error` does: without `Error` itself, so that `?` can take every other error.
impl<E: std::error::Error> From<E> for ToolFailure {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            source = cause.source();
        }
        ToolFailure::new(TOOL_ERROR, message)
    }
}
