//! What comes with a request: the place in its path, its query, its body. Each with limits, and errors as problems.

use std::collections::HashMap;
use std::time::Duration;

use annals_core::ids::{ConversationId, TurnId};
use axum::RequestExt as _;
use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use http::request::Parts;
use http::{HeaderMap, header};
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::app::App;
use crate::door::Caller;
use crate::idempotency::Once;
use crate::limits::Limits;
use crate::problem::{Code, Problem};

/// What the path of a request names.
pub(crate) struct Place(HashMap<String, String>);

impl Place {
    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// `{c}`. What is no id names no conversation.
    pub(crate) fn conversation(&self) -> Result<ConversationId, Problem> {
        let missing = |_| Problem::not_found("the conversation");
        ConversationId::parse(self.get("c")).map_err(missing)
    }

    /// `{t}`.
    pub(crate) fn turn(&self) -> Result<TurnId, Problem> {
        TurnId::parse(self.get("t")).map_err(|_| Problem::not_found("the turn"))
    }

    /// `{a}`.
    pub(crate) fn approval(&self) -> &str {
        self.get("a")
    }

    /// `{s}`.
    pub(crate) fn server(&self) -> &str {
        self.get("s")
    }

    /// `{*path}`.
    pub(crate) fn path(&self) -> &str {
        self.get("path")
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Place {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<HashMap<String, String>>::from_request_parts(parts, state).await;
        path.map(|Path(names)| Place(names))
            .map_err(|_| Problem::not_found("the path"))
    }
}

/// The query of a request.
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let query = Query::<T>::try_from_uri(&parts.uri);
        query.map(|Query(value)| Params(value)).map_err(|error| {
            Problem::bad_request(format_args!("the query cannot be read: {}", error.body_text()))
        })
    }
}

/// A JSON body, and what makes sending it again harmless. An empty body stands for `{}`.
pub(crate) struct JsonBody<T> {
    pub(crate) value: T,
    pub(crate) once: Once,
}

impl<T: DeserializeOwned> FromRequest<App> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(mut request: Request, app: &App) -> Result<Self, Problem> {
        let caller = request.extract_parts::<Caller>().await?;
        let (parts, body) = request.into_parts();
        let bytes = read(body, app.limits.json_max_bytes, &app.limits).await?;
        JsonBody::of(&caller, &parts, &bytes)
    }
}

impl<T: DeserializeOwned> JsonBody<T> {
    /// What a request says whose body has been read.
    pub(crate) fn of(caller: &Caller, parts: &Parts, bytes: &[u8]) -> Result<Self, Problem> {
        Ok(JsonBody {
            once: Once::of(caller, parts, Sha256::digest(bytes).into())?,
            value: json(&parts.headers, bytes)?,
        })
    }
}

/// Reads JSON. It must be called JSON: a form of a foreign page cannot say that.
pub(crate) fn json<T: DeserializeOwned>(headers: &HeaderMap, bytes: &[u8]) -> Result<T, Problem> {
    let bytes = match bytes.is_empty() {
        true => b"{}",
        false if !is_json(headers) => {
            let detail = "the body must be `application/json`";
            return Err(Problem::new(Code::UnsupportedMediaType, detail));
        }
        false => bytes,
    };
    serde_json::from_slice(bytes)
        .map_err(|error| Problem::bad_request(format_args!("the body cannot be read: {error}")))
}

/// The type of a body, without its parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    let value = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = value.unwrap_or_default().split(';').next().unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

fn is_json(headers: &HeaderMap) -> bool {
    let media_type = media_type(headers);
    media_type == "application/json" || media_type.ends_with("+json")
}

/// Reads a body as far as its limit, from a client that keeps sending.
pub(crate) async fn read(body: Body, max_bytes: usize, limits: &Limits) -> Result<Bytes, Problem> {
    let mut pieces = body.into_data_stream();
    let (mut read, mut pace) = (BytesMut::new(), Pace::new(limits));
    while let Some(piece) = pace.wait(pieces.next()).await? {
        let piece = piece.map_err(|_| Problem::bad_request("the body ended early"))?;
        pace.came(piece.len());
        if read.len() + piece.len() > max_bytes {
            return Err(too_large(max_bytes as u64));
        }
        read.extend_from_slice(&piece);
    }
    Ok(read.freeze())
}

pub(crate) fn too_large(max_bytes: u64) -> Problem {
    Problem::new(Code::TooLarge, format!("at most {max_bytes} bytes are taken"))
}

/// How fast a body comes: each piece in its time, and the whole at a rate that cannot be kept up a byte at a time.
pub(crate) struct Pace {
    began: Instant,
    came_bytes: u64,
    piece_max: Duration,
    bytes_per_second: u64,
}

impl Pace {
    pub(crate) fn new(limits: &Limits) -> Self {
        Pace {
            began: Instant::now(),
            came_bytes: 0,
            piece_max: limits.body_timeout,
            bytes_per_second: limits.body_bytes_per_second.max(1),
        }
    }

    /// Waits for the next piece as long as the client may take for it.
    pub(crate) async fn wait<T>(&self, piece: impl Future<Output = T>) -> Result<T, Problem> {
        let whole = Duration::from_millis(self.came_bytes.saturating_mul(1_000) / self.bytes_per_second);
        let latest = (Instant::now() + self.piece_max).min(self.began + self.piece_max + whole);
        tokio::time::timeout_at(latest, piece)
            .await
            .map_err(|_| Problem::new(Code::Timeout, "the body came too slowly"))
    }

    pub(crate) fn came(&mut self, bytes: usize) {
        self.came_bytes += bytes as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream;

    use super::*;

    /// A hundred bytes, each in its time.
    fn dripping() -> Body {
        let bytes = stream::iter(0..100).then(|_| async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok::<_, Infallible>(Bytes::from_static(b"x"))
        });
        Body::from_stream(bytes)
    }

    #[tokio::test]
    async fn a_body_that_comes_byte_by_byte_is_not_waited_for() {
        let limits = Limits {
            body_timeout: Duration::from_millis(200),
            ..Limits::default()
        };
        let refused = read(dripping(), 1_000, &limits).await.unwrap_err();
        assert_eq!(refused.code, Code::Timeout);
        let patient = Limits {
            body_timeout: Duration::from_secs(600),
            ..Limits::default()
        };
        assert_eq!(read(dripping(), 1_000, &patient).await.unwrap().len(), 100);
    }
}
