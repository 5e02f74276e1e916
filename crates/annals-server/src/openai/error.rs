//! Errors in the form of OpenAI's API: clients choose the exception by the status and show `message`.

use annals_core::turn::{TurnEnd, TurnReport};
use annals_runtime::RunError;
use annals_store::LogError;
use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Serialize;

use crate::problem::Problem;

/// An error as clients of this API read it.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) body: ErrorBody,
    /// Whether sending the request again would do the work again.
    is_final: bool,
}

/// The object that stands for an error, alone or in a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ErrorBody {
    pub(crate) message: String,
    #[serde(rename = "type")]
    pub(crate) class: &'static str,
    pub(crate) param: Option<&'static str>,
    pub(crate) code: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct Wrapped<'a> {
    pub(crate) error: &'a ErrorBody,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: &str, message: impl std::fmt::Display) -> Self {
        let class = match status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            429 => "rate_limit_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        ApiError {
            status,
            body: ErrorBody {
                message: message.to_string(),
                class,
                param: None,
                code: Some(code.to_owned()),
            },
            is_final: false,
        }
    }

    /// Its turn was posted: a client that sent the request again, as SDKs do by themselves at 409 and 5xx, would have it
    /// done twice.
    pub(crate) fn not_again(mut self) -> Self {
        self.is_final = true;
        self
    }

    /// What the client sent cannot be taken.
    pub(crate) fn invalid(param: &'static str, code: &str, message: impl std::fmt::Display) -> Self {
        let mut error = Self::new(StatusCode::BAD_REQUEST, code, message);
        error.body.param = Some(param);
        error
    }

    /// There is no such thing in this scope.
    pub(crate) fn missing(what: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "not_found",
            format_args!("there is no such {what}"),
        )
    }

    /// How a turn ended without an answer; none when it has one. The turn is over and on its timeline: a client that sent
    /// the request again, as SDKs do by themselves, would have all of it done twice.
    pub(crate) fn of_turn(report: &TurnReport) -> Option<Self> {
        let status = match report.outcome {
            TurnEnd::Complete | TurnEnd::Clarify => return None,
            // Its scope had nothing left, and the model was not asked.
            TurnEnd::BudgetExceeded if report.iterations == 0 => StatusCode::TOO_MANY_REQUESTS,
            TurnEnd::MaxIterations | TurnEnd::BudgetExceeded | TurnEnd::Loop => return None,
            TurnEnd::Cancelled | TurnEnd::Interrupted | TurnEnd::ApprovalExpired => StatusCode::CONFLICT,
            TurnEnd::ModelError => StatusCode::BAD_GATEWAY,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let outcome = report.outcome.as_str();
        let why = report.error.as_deref().unwrap_or("see its timeline");
        let mut error = Self::new(
            status,
            outcome,
            format_args!("the turn ended as `{outcome}`: {why}"),
        );
        error.is_final = true;
        Some(error)
    }
}

/// Why an answer stopped, in the words of Chat Completions; none when it is an error.
pub(crate) fn finish_reason(end: TurnEnd) -> Option<&'static str> {
    match end {
        TurnEnd::Complete | TurnEnd::Clarify => Some("stop"),
        TurnEnd::MaxIterations | TurnEnd::BudgetExceeded | TurnEnd::Loop => Some("length"),
        _ => None,
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(Wrapped { error: &self.body })).into_response();
        if self.is_final {
            // OpenAI's SDKs obey this header; without it they send the request again at 409 and 5xx.
            let no = http::HeaderValue::from_static("false");
            response.headers_mut().insert("x-should-retry", no);
        }
        response
    }
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        ApiError::new(problem.code.status(), problem.code.as_str(), problem.detail)
    }
}

impl From<RunError> for ApiError {
    fn from(error: RunError) -> Self {
        Problem::from(error).into()
    }
}

impl From<LogError> for ApiError {
    fn from(error: LogError) -> Self {
        Problem::from(error).into()
    }
}
