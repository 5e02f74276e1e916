//! What comes with a request: the place in its path, its query, its body. Each with limits, and errors as problems.

use std::collections::HashMap;

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
    let mut read = BytesMut::new();
    while let Some(piece) = in_time(pieces.next(), limits).await? {
        let piece = piece.map_err(|_| Problem::bad_request("the body ended early"))?;
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

/// Waits for the next piece of a body as long as a client may take for it.
pub(crate) async fn in_time<T>(piece: impl Future<Output = T>, limits: &Limits) -> Result<T, Problem> {
    tokio::time::timeout(limits.body_timeout, piece)
        .await
        .map_err(|_| Problem::new(Code::Timeout, "the body came too slowly"))
}
