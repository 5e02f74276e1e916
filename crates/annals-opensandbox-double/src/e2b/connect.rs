//! Connect over HTTP/1.1 with JSON: refusals of unary calls, and frames of streams.

use axum::Json;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

/// A refusal of a unary call.
pub(super) fn refusal(code: &str, message: impl Into<String>) -> Response {
    let status = match code {
        "invalid_argument" => StatusCode::BAD_REQUEST,
        "unauthenticated" => StatusCode::UNAUTHORIZED,
        "not_found" => StatusCode::NOT_FOUND,
        "already_exists" => StatusCode::CONFLICT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, Json(json!({"code": code, "message": message.into()}))).into_response()
}

/// A refusal for an error of the file system.
pub(super) fn io_refusal(error: &std::io::Error) -> Response {
    let code = match error.kind() {
        std::io::ErrorKind::NotFound => "not_found",
        std::io::ErrorKind::AlreadyExists => "already_exists",
        _ => "internal",
    };
    refusal(code, error.to_string())
}

/// One message of a stream.
pub(super) fn frame(message: &Value) -> Bytes {
    envelope(0, message)
}

/// The last message of a stream.
pub(super) fn end(error: Option<(&str, &str)>) -> Bytes {
    let body = match error {
        Some((code, message)) => json!({"error": {"code": code, "message": message}}),
        None => json!({}),
    };
    envelope(2, &body)
}

fn envelope(flags: u8, message: &Value) -> Bytes {
    let text = message.to_string();
    let mut bytes = vec![flags];
    bytes.extend_from_slice(&(text.len() as u32).to_be_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes.into()
}

/// The message of a request that asks for a stream.
pub(super) fn unframed(body: &Bytes) -> Option<Value> {
    let (head, rest) = body.split_at_checked(5)?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    serde_json::from_slice(rest.get(..length)?).ok()
}
