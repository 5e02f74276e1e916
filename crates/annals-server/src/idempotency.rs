//! Requests that may be sent again: under one `Idempotency-Key` the first one takes effect, and every later one is
//! answered like it. The answer is kept in the commit of the effect.

use annals_runtime::RunError;
use annals_store::{IdempotencyKey, LogError, StoredAnswer};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;

use crate::app::App;
use crate::door::Caller;
use crate::problem::{Code, Problem};

pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Says that an answer is that of an earlier request.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const KEY_MAX_BYTES: usize = 255;

/// One request, by the name that its client gave it.
pub(crate) struct Once {
    to: Option<IdempotencyKey>,
    digest: [u8; 32],
}

impl Once {
    /// The request of these parts, whose body has this digest.
    pub(crate) fn of(caller: &Caller, parts: &Parts, digest: [u8; 32]) -> Result<Self, Problem> {
        let malformed = || {
            Problem::bad_request(format_args!(
                "the Idempotency-Key must have 1 to {KEY_MAX_BYTES} visible characters"
            ))
        };
        let key = match parts.headers.get(&IDEMPOTENCY_KEY) {
            None => None,
            Some(key) => {
                let key = key.to_str().map_err(|_| malformed())?;
                let is_sound = (1..=KEY_MAX_BYTES).contains(&key.len())
                    && key.bytes().all(|byte| byte.is_ascii_graphic());
                Some(key.to_owned())
                    .filter(|_| is_sound)
                    .ok_or_else(malformed)
                    .map(Some)?
            }
        };
        let to = key.map(|key| IdempotencyKey {
            scope: caller.scope.clone(),
            route: format!("{} {}", parts.method, parts.uri.path()),
            key,
        });
        Ok(Once { to, digest })
    }

    /// A name for what the request posts: the same for the same request, sent under the same key.
    pub(crate) fn client_key(&self) -> Option<String> {
        let IdempotencyKey { scope, route, key } = self.to.as_ref()?;
        let name = format!("{scope} {route} {key}");
        Some(annals_core::block::BlobDigest::of(name.as_bytes()).to_string())
    }

    /// What the request is answered with, to be kept in the commit of its effect; none without a key.
    pub(crate) fn answer(&self, status: StatusCode, body: Vec<u8>) -> Option<StoredAnswer> {
        Some(StoredAnswer {
            to: self.to.clone()?,
            digest: self.digest,
            status: status.as_u16(),
            body,
        })
    }

    /// What the request was answered with, if it came before. Another one under the same key is refused.
    pub(crate) async fn stored(&self, app: &App) -> Result<Option<StoredAnswer>, Problem> {
        let Some(to) = &self.to else { return Ok(None) };
        match app.store().answered(to).await? {
            Some(known) if known.digest != self.digest => Err(Problem::new(
                Code::KeyReused,
                "another request was sent under this Idempotency-Key",
            )),
            known => Ok(known),
        }
    }

    /// Performs `effect` and answers `body`, or gives the answer of the request that came first.
    pub(crate) async fn perform<T: Serialize>(
        self,
        app: &App,
        status: StatusCode,
        body: &T,
        effect: impl AsyncFnOnce(Option<StoredAnswer>) -> Result<(), RunError>,
    ) -> Result<Response, Problem> {
        let body = serde_json::to_vec(body).map_err(Problem::internal)?;
        if let Some(known) = self.known(app).await? {
            return Ok(known);
        }
        match effect(self.answer(status, body.clone())).await {
            Ok(()) => Ok(respond(status, body)),
            // The same request was under way.
            Err(RunError::Log(LogError::Answered { .. })) => match self.known(app).await? {
                Some(known) => Ok(known),
                None => Err(Problem::new(Code::Unavailable, "the first answer is gone").retry_after(1)),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// What was answered before.
    pub(crate) async fn known(&self, app: &App) -> Result<Option<Response>, Problem> {
        let Some(known) = self.stored(app).await? else {
            return Ok(None);
        };
        let status = StatusCode::from_u16(known.status).unwrap_or(StatusCode::OK);
        let mut response = respond(status, known.body);
        response
            .headers_mut()
            .insert(REPLAYED, HeaderValue::from_static("true"));
        Ok(Some(response))
    }
}

/// Keeps the answer to a request that changes nothing in the store.
pub(crate) async fn keep(app: &App, answer: Option<StoredAnswer>) -> Result<(), RunError> {
    if let Some(answer) = answer {
        app.store().keep_answer(answer).await?;
    }
    Ok(())
}

fn respond(status: StatusCode, body: Vec<u8>) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (status, headers, body).into_response()
}
