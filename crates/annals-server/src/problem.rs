//! Every error that a request can meet, as `application/problem+json` (RFC 9457) with a stable `code` and a `hint`.

use annals_runtime::{ErrorClass, RunError};
use annals_store::LogError;
use axum::body::{Body as ResponseBody, HttpBody as _};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

use crate::app::App;

/// The longest error; what is longer is told as an error of the server.
const ERROR_MAX_BYTES: usize = 1 << 20;

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $name:ident = $status:ident, $text:literal, $hint:literal;)*) => {
        /// What went wrong. The text of a code never changes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[doc = $doc])* $name,)*
        }

        impl Code {
            /// Every code, in the order of the table.
            pub const ALL: &[Code] = &[$(Code::$name,)*];

            /// The code as it is sent.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$name => $text,)* }
            }

            /// The HTTP status.
            pub fn status(self) -> StatusCode {
                match self { $(Code::$name => StatusCode::$status,)* }
            }

            /// What it means, in one sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Code::$name => concat!($($doc),*).trim_ascii(),)* }
            }

            /// What the caller can do about it.
            pub fn hint(self) -> &'static str {
                match self { $(Code::$name => $hint,)* }
            }
        }
    };
}

codes! {
    /// The request cannot be read.
    BadRequest = BAD_REQUEST, "bad_request", "compare the request with /openapi.json";
    /// There is no token, or not one that is known.
    Unauthorized = UNAUTHORIZED, "unauthorized", "send `Authorization: Bearer TOKEN`, or open the URL that `annals serve` printed";
    /// The token lacks the role.
    Forbidden = FORBIDDEN, "forbidden", "use a token with the role that this route needs";
    /// The request comes from a page of another origin.
    ForeignOrigin = FORBIDDEN, "foreign_origin", "send the request from a page of this server, or from a program without an Origin";
    /// The link's signature is wrong, or its time is over.
    BadLink = FORBIDDEN, "bad_link", "ask for a new link";
    /// The request was meant for another host.
    ForeignHost = MISDIRECTED_REQUEST, "foreign_host", "use the address that `annals serve` printed, or allow the name with `--public-url`";
    /// There is no such thing in this scope.
    NotFound = NOT_FOUND, "not_found", "list the conversations, or see /openapi.json for the routes";
    /// The path exists, with other methods.
    MethodNotAllowed = METHOD_NOT_ALLOWED, "method_not_allowed", "see /openapi.json for the methods of this path";
    /// The client was too slow.
    Timeout = REQUEST_TIMEOUT, "timeout", "send the request again";
    /// No turn runs or waits, or another one does.
    TurnEnded = CONFLICT, "turn_ended", "start a turn with a prompt";
    /// A turn runs.
    TurnRunning = CONFLICT, "turn_running", "wait for the turn to end, or cancel it";
    /// The place asked for lies behind the last block.
    BeyondEnd = CONFLICT, "beyond_end", "read the conversation again; it may have been deleted and created again under the same id";
    /// It was decided before, or its turn has ended.
    Decided = CONFLICT, "decided", "look at the decision on the timeline";
    /// The id is taken.
    Exists = CONFLICT, "exists", "choose another id";
    /// Another process writes the conversation.
    Held = CONFLICT, "held", "try again in a moment, or ask the node that holds it";
    /// The store has fewer blocks than it acknowledged.
    Lost = INTERNAL_SERVER_ERROR, "lost", "look at how the database failed over, then read the conversation again";
    /// The body is too large.
    TooLarge = PAYLOAD_TOO_LARGE, "too_large", "send less; the detail says how much is taken";
    /// The body has another type than the route takes.
    UnsupportedMediaType = UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", "set Content-Type as /openapi.json says";
    /// The range lies outside of the content.
    RangeNotSatisfiable = RANGE_NOT_SATISFIABLE, "range_not_satisfiable", "ask for a range within the length";
    /// What was sent is well-formed and cannot be done.
    Unprocessable = UNPROCESSABLE_ENTITY, "unprocessable", "change what the detail names";
    /// An attachment was refused.
    AttachmentRefused = UNPROCESSABLE_ENTITY, "attachment_refused", "leave the file out, or send it in another form";
    /// The idempotency key was used for another request.
    KeyReused = UNPROCESSABLE_ENTITY, "idempotency_key_reused", "choose a new Idempotency-Key for another request";
    /// The caller sends too many requests.
    TooManyRequests = TOO_MANY_REQUESTS, "too_many_requests", "wait as long as Retry-After says";
    /// The caller has too many streams open.
    TooManyStreams = TOO_MANY_REQUESTS, "too_many_streams", "close a stream first";
    /// The scope has too many sessions of MCP open.
    TooManySessions = TOO_MANY_REQUESTS, "too_many_sessions", "end a session with DELETE, or wait until idle ones end";
    /// The scope has too many turns under way.
    TooManyTurns = TOO_MANY_REQUESTS, "too_many_turns", "wait for a turn to end, or cancel one";
    /// Too many prompts wait in this conversation.
    QueueFull = TOO_MANY_REQUESTS, "queue_full", "wait for a turn to end";
    /// An MCP server did not do what it was asked.
    McpServer = BAD_GATEWAY, "mcp_server", "look at the server with `annals mcp inspect NAME`";
    /// The program has a fault.
    Internal = INTERNAL_SERVER_ERROR, "internal", "look into the server's log";
    /// The store or something else is away.
    Unavailable = SERVICE_UNAVAILABLE, "unavailable", "try again later; `annals doctor` tells what is missing";
}

/// One error of one request.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) code: Code,
    /// One sentence about this case; never a secret, never a path of the machine.
    pub(crate) detail: String,
    retry_after_seconds: Option<u64>,
}

#[derive(Serialize)]
struct Body<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    code: &'a str,
    hint: &'a str,
}

impl Problem {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Problem {
            code,
            detail: detail.into(),
            retry_after_seconds: None,
        }
    }

    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_seconds = Some(seconds);
        self
    }

    pub(crate) fn not_found(what: impl std::fmt::Display) -> Self {
        Problem::new(Code::NotFound, format!("{what} does not exist"))
    }

    pub(crate) fn bad_request(detail: impl std::fmt::Display) -> Self {
        Problem::new(Code::BadRequest, detail.to_string())
    }

    /// What the caller need not know is said in the log.
    pub(crate) fn internal(error: impl std::fmt::Display) -> Self {
        tracing::error!(%error, "a request failed");
        Problem::new(Code::Internal, "something in the server went wrong")
    }
}

/// Takes secrets out of every error, whatever form it has: a reason may repeat what somebody sent, or what another program
/// said.
pub(crate) async fn redact(State(app): State<App>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let is_error = response.status().is_client_error() || response.status().is_server_error();
    // Streams have no size before they end; errors do.
    if !is_error || matches!(response.body().size_hint().exact(), None | Some(0)) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(body) = axum::body::to_bytes(body, ERROR_MAX_BYTES).await else {
        return Problem::internal("an error is too long").into_response();
    };
    let text = String::from_utf8_lossy(&body);
    let redacted = app.agent.redact(&text);
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, ResponseBody::from(redacted.into_owned()))
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.code.status();
        let body = Body {
            r#type: format!("urn:annals:problem:{}", self.code.as_str()),
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: &self.detail,
            code: self.code.as_str(),
            hint: self.code.hint(),
        };
        let body = serde_json::to_vec(&body).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.code == Code::Unauthorized {
            headers.insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"annals\""),
            );
        }
        response
    }
}

impl From<LogError> for Problem {
    fn from(error: LogError) -> Self {
        let code = match &error {
            LogError::NotFound { id } => return Problem::not_found(format_args!("conversation `{id}`")),
            LogError::Exists { .. } | LogError::TokenExists { .. } => Code::Exists,
            LogError::NoSuchBlock { .. } => Code::Unprocessable,
            LogError::Cursor(_) => Code::BadRequest,
            LogError::KeyReused { .. } => Code::KeyReused,
            // Who holds it, until when, and what to do.
            LogError::Held { .. } | LogError::Conflict { .. } => {
                return Problem::new(Code::Held, error.to_string()).retry_after(1);
            }
            LogError::Lost { .. } => {
                tracing::error!(%error, "the store has lost blocks");
                Code::Lost
            }
            _ => {
                tracing::error!(%error, "the store failed");
                return Problem::new(Code::Unavailable, unavailable(&error)).retry_after(1);
            }
        };
        Problem::new(code, error.to_string())
    }
}

/// Why the store cannot do it, without the files of the machine that its own texts name.
fn unavailable(error: &LogError) -> &'static str {
    match error {
        LogError::DiskFull { .. } => "no space is left for the store; nothing that was acknowledged is lost",
        LogError::ReadOnly { .. } => "the store cannot be written: its disk or folder is read-only",
        LogError::Busy { .. } => "the store stayed locked by another process",
        LogError::Corrupt { .. } => {
            "the store is damaged: restore it from a backup, or export what still reads"
        }
        LogError::NewerSchema { .. } | LogError::Unprepared { .. } => {
            "the store has another form than this program needs"
        }
        LogError::Archived { .. } => "the conversation's blocks are archived and cannot be read now",
        LogError::NotAMember { .. } => "this server counted as gone, and joins again",
        LogError::Closed => "the store is closed: the server is stopping",
        _ => "the store cannot do this now",
    }
}

impl From<RunError> for Problem {
    fn from(error: RunError) -> Self {
        let code = match error {
            RunError::Log(error) => return error.into(),
            RunError::BadConversationId(_) => Code::NotFound,
            RunError::PromptTooLong { .. } => Code::TooLarge,
            RunError::TurnEnded(_) | RunError::NothingToResume(_) => Code::TurnEnded,
            RunError::NothingToDecide(_) => Code::Decided,
            RunError::TurnExists(_) => Code::Exists,
            RunError::Attachment(_) => Code::AttachmentRefused,
            RunError::PromptEmpty
            | RunError::Schema(_)
            | RunError::ClientTools(_)
            | RunError::NoSuchTool(_)
            | RunError::MayNotContribute(_)
            | RunError::InputMisfit { .. } => Code::Unprocessable,
            error if error.class() == ErrorClass::Retry => {
                return Problem::new(Code::Unavailable, error.to_string()).retry_after(1);
            }
            error => return Problem::internal(error),
        };
        Problem::new(code, error.to_string())
    }
}
