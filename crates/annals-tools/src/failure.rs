//! Why a tool could not do what it was asked: data for the model, never an `Err` of the runtime.

use std::error::Error;
use std::fmt;

use serde_json::Value;

use annals_core::block::ShownError;
use annals_core::code::Code;

/// A failure that the model can act on: a stable word and a sentence. Any error's text becomes the message of one.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolFailure {
    /// A stable word such as `file_not_found`.
    pub kind: String,
    /// One sentence that says what to do next.
    pub message: String,
    /// Further facts.
    pub detail: Option<Value>,
}

/// What `?` collects inside a tool function: every error, a [`ToolFailure`], a `&str` or a `String`.
pub type ToolError = Box<dyn Error + Send + Sync>;

/// What a tool function returns: a JSON value, or anything else that is [`IntoOutcome`](crate::IntoOutcome).
///
/// ```
/// use annals_tools::{ToolFailure, ToolResult};
/// use serde_json::json;
///
/// fn lookup(city: &str) -> ToolResult {
///     if city.is_empty() {
///         return Err("give a city".into());
///     }
///     let degrees: i64 = "21".parse()?;
///     if degrees > 60 {
///         return Err(ToolFailure::new("out_of_range", "the sensor is broken: try again later").into());
///     }
///     Ok(json!({ "degrees": degrees }))
/// }
/// ```
pub type ToolResult<T = Value> = Result<T, ToolError>;

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

    /// What an error says, with its causes. One that was a failure before is that failure again.
    fn of_error(error: &(dyn Error + 'static)) -> Self {
        if let Some(Carried(failure)) = error.downcast_ref() {
            return failure.clone();
        }
        match error.downcast_ref::<annals_sandbox::Failure>() {
            Some(failure) => crate::serialise::sandbox_failure(failure),
            None => ToolFailure::new(Code::ToolError, text(error)),
        }
    }
}

/// The text of an error and of those of its causes that say more.
fn text(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !message.contains(&text) {
            message = format!("{message}: {text}");
        }
        source = cause.source();
    }
    message
}

// As `anyhow::Error` does: without `Error` itself, so that `?` can take every other error.
impl<E: Error> From<E> for ToolFailure {
    fn from(error: E) -> Self {
        ToolFailure::new(Code::ToolError, text(&error))
    }
}

/// A failure on its way through a boxed error. `ToolFailure` itself is no `Error`, see above.
#[derive(Debug)]
struct Carried(ToolFailure);

impl fmt::Display for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl Error for Carried {}

impl From<ToolFailure> for ToolError {
    fn from(failure: ToolFailure) -> Self {
        Box::new(Carried(failure))
    }
}

impl From<ToolFailure> for Box<dyn Error> {
    fn from(failure: ToolFailure) -> Self {
        Box::new(Carried(failure))
    }
}

/// The error of a tool function.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a tool",
    label = "not the error of a tool",
    note = "return `ToolResult`, whose `?` takes every error, or `Result<_, ToolFailure>`"
)]
pub trait IntoFailure {
    /// What the model is told.
    fn into_failure(self) -> ToolFailure;
}

impl IntoFailure for ToolFailure {
    fn into_failure(self) -> ToolFailure {
        self
    }
}

impl IntoFailure for ToolError {
    fn into_failure(self) -> ToolFailure {
        ToolFailure::of_error(&*self)
    }
}

impl IntoFailure for Box<dyn Error> {
    fn into_failure(self) -> ToolFailure {
        ToolFailure::of_error(&*self)
    }
}

impl IntoFailure for annals_sandbox::Failure {
    fn into_failure(self) -> ToolFailure {
        crate::serialise::sandbox_failure(&self)
    }
}

impl IntoFailure for String {
    fn into_failure(self) -> ToolFailure {
        ToolFailure::new(Code::ToolError, self)
    }
}

impl IntoFailure for &str {
    fn into_failure(self) -> ToolFailure {
        ToolFailure::new(Code::ToolError, self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_and_message(result: ToolResult<()>) -> (String, String) {
        let failure = result.unwrap_err().into_failure();
        (failure.kind, failure.message)
    }

    #[test]
    fn a_question_mark_takes_errors_texts_and_boxes() {
        fn number() -> ToolResult<()> {
            "many".parse::<i64>()?;
            Ok(())
        }
        fn text() -> ToolResult<()> {
            Err("no such city")?
        }
        fn owned() -> ToolResult<()> {
            Err(format!("no city `{}`", 7))?
        }
        fn boxed() -> ToolResult<()> {
            let boxed: Result<(), Box<dyn Error + Send + Sync>> = Err("boxed".into());
            boxed?;
            Ok(())
        }
        let tool_error = |message: &str| (Code::ToolError.into(), message.to_owned());
        assert_eq!(
            kind_and_message(number()),
            tool_error("invalid digit found in string")
        );
        assert_eq!(kind_and_message(text()), tool_error("no such city"));
        assert_eq!(kind_and_message(owned()), tool_error("no city `7`"));
        assert_eq!(kind_and_message(boxed()), tool_error("boxed"));
    }

    #[test]
    fn a_failure_keeps_its_kind_and_detail_through_a_box() {
        let failure = ToolFailure::new("quota", "no more today").detail(3);
        let boxed: ToolError = failure.clone().into();
        assert_eq!(boxed.to_string(), "no more today");
        assert_eq!(boxed.into_failure(), failure);
        let unsent: Box<dyn Error> = failure.clone().into();
        assert_eq!(unsent.into_failure(), failure);
    }
}
