//! One request, one stream of events, and every way it can hang or break.
//!
//! The only place that talks to the network. A wait is always bounded: for the connection, for the first byte, for
//! the next bytes, for the whole answer; so is what comes. Redirects are not followed, because they would carry the
//! key to another host, and nothing is unpacked, because a packed answer may be a thousand times what was sent.

use std::future::Future;
use std::time::Duration;

use annals_core::redact::SafeUrl;
use futures::stream;
use futures::{FutureExt as _, StreamExt as _};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, Url};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::decode::{Decoder, Decoding, Next};
use super::fault::{self, Fault};
use super::key::ApiKey;
use super::timeouts::Timeouts;
use crate::error::{ModelError, StallPhase};
use crate::event::Event;
use crate::model::EventStream;

/// Longer error bodies are not read to their end.
const ERROR_BODY_MAX_BYTES: usize = 64 << 10;

/// Why an endpoint cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// The base URL is no URL.
    #[error("`{url}` is not a base url; expected something like `http://localhost:8000/v1`")]
    Url {
        /// What was given, without what may be secret in it.
        url: String,
    },
    /// The key has characters that no header can carry.
    #[error("the key has characters that a header cannot carry; check how it was copied")]
    Key,
    /// The HTTP client could not be made.
    #[error("the http client could not be made: {0}")]
    Client(#[source] reqwest::Error),
}

/// Where requests go, with their headers.
#[derive(Debug)]
pub(crate) struct Endpoint {
    client: reqwest::Client,
    url: Url,
    timeouts: Timeouts,
    key: Option<ApiKey>,
}

/// A header that carries the key.
pub(crate) struct KeyHeader {
    pub(crate) name: &'static str,
    pub(crate) prefix: &'static str,
}

/// An HTTP client to be built, once TLS has its cryptography: a host's own choice, or else `ring`.
fn http() -> reqwest::ClientBuilder {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
}

impl Endpoint {
    pub(crate) fn new(
        url: &str,
        timeouts: Timeouts,
        key: Option<ApiKey>,
        key_header: KeyHeader,
        fixed: &[(&'static str, &'static str)],
    ) -> Result<Self, EndpointError> {
        let bad_url = || EndpointError::Url {
            url: SafeUrl(url).to_string(),
        };
        let url = Url::parse(url).map_err(|_| bad_url())?;
        let host = url.host_str().ok_or_else(bad_url)?;
        let is_loopback = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
        let mut headers = HeaderMap::new();
        for (name, value) in fixed {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        if let Some(key) = &key {
            let text = format!("{}{}", key_header.prefix, key.expose());
            let mut value = HeaderValue::from_str(&text).map_err(|_| EndpointError::Key)?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(key_header.name), value);
        }
        let mut client = http()
            .default_headers(headers)
            .connect_timeout(timeouts.connect)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("annals/", env!("CARGO_PKG_VERSION")));
        if is_loopback {
            client = client.no_proxy(); // a proxy cannot reach the server on this very machine
        }
        let client = client.build().map_err(EndpointError::Client)?;
        Ok(Endpoint {
            client,
            url,
            timeouts,
            key,
        })
    }

    /// Sends the body and reads the answer with this decoder.
    pub(crate) async fn stream(
        &self,
        body: Vec<u8>,
        decoder: impl Decoder,
        cancel: &CancellationToken,
    ) -> Result<EventStream, ModelError> {
        let allowance = Allowance::new(self.timeouts);
        let response = self.send(body, &allowance, cancel).await?;
        let response = self.accept(response, &allowance, cancel).await?;
        let reading = Reading {
            response,
            decoding: Decoding::new(decoder, self.key.clone()),
            next_wait: (self.timeouts.first_byte, StallPhase::FirstByte),
            allowance,
            key: self.key.clone(),
            cancel: cancel.clone(),
        };
        Ok(stream::unfold(reading, |mut reading| async move {
            let item = reading.next().await?;
            Some((item, reading))
        })
        .boxed())
    }

    /// Sends the body and gives the answer, which is one JSON value.
    pub(crate) async fn json(
        &self,
        body: Vec<u8>,
        cancel: &CancellationToken,
    ) -> Result<serde_json::Value, ModelError> {
        let mut allowance = Allowance::new(self.timeouts);
        let mut response = self.send(body, &allowance, cancel).await?;
        let (status, retry_after) = (response.status(), retry_after(response.headers()));
        let mut answer = Vec::new();
        loop {
            let chunk = async { response.chunk().await.map_err(|error| self.network(error)) };
            match allowance.idle(cancel, chunk).await? {
                Some(bytes) => {
                    allowance.take(bytes.len())?;
                    answer.extend_from_slice(&bytes);
                }
                None => break,
            }
        }
        if !status.is_success() || is_complaint(&answer) {
            return Err(Fault::from_body(status.as_u16(), &answer, retry_after).into_error(self.key.as_ref()));
        }
        serde_json::from_slice(&answer).map_err(|error| ModelError::Malformed {
            message: fault::shown(&error.to_string(), self.key.as_ref()),
        })
    }

    async fn send(
        &self,
        body: Vec<u8>,
        allowance: &Allowance,
        cancel: &CancellationToken,
    ) -> Result<Response, ModelError> {
        let request = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        let send = async { request.send().await.map_err(|error| self.network(error)) };
        let first_byte = (self.timeouts.first_byte, StallPhase::FirstByte);
        allowance.within(first_byte, cancel, send).await
    }

    /// The response if it is a stream; what its body complains about otherwise.
    async fn accept(
        &self,
        mut response: Response,
        allowance: &Allowance,
        cancel: &CancellationToken,
    ) -> Result<Response, ModelError> {
        let status = response.status();
        let content_type = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        let is_json = content_type.is_some_and(|content_type| content_type.starts_with("application/json"));
        if status.is_success() && !is_json {
            return Ok(response);
        }
        let retry_after = retry_after(response.headers());
        let mut body = Vec::new();
        while body.len() < ERROR_BODY_MAX_BYTES {
            let chunk = async { Ok(response.chunk().await.unwrap_or(None)) };
            match allowance.idle(cancel, chunk).await {
                Ok(Some(bytes)) => body.extend_from_slice(&bytes),
                Ok(None) => break,
                Err(ModelError::Cancelled) => return Err(ModelError::Cancelled),
                Err(_) => break, // what came of the complaint is enough
            }
        }
        if status.is_success() && !is_complaint(&body) {
            let message = "the answer is not a stream; does the server support `stream`?".to_owned();
            return Err(ModelError::Malformed { message });
        }
        Err(Fault::from_body(status.as_u16(), &body, retry_after).into_error(self.key.as_ref()))
    }

    fn network(&self, error: reqwest::Error) -> ModelError {
        network(error, self.key.as_ref())
    }
}

/// A request's body as JSON, with further fields that win over its own.
pub(crate) fn body_json(
    body: &impl serde::Serialize,
    extra: &serde_json::Map<String, serde_json::Value>,
) -> Vec<u8> {
    let plain = "a request's body is plain data";
    if extra.is_empty() {
        return serde_json::to_vec(body).expect(plain);
    }
    let mut value = serde_json::to_value(body).expect(plain);
    if let Some(fields) = value.as_object_mut() {
        fields.extend(extra.clone());
    }
    serde_json::to_vec(&value).expect(plain)
}

struct Reading<D> {
    response: Response,
    decoding: Decoding<D>,
    next_wait: (Duration, StallPhase),
    allowance: Allowance,
    key: Option<ApiKey>,
    cancel: CancellationToken,
}

impl<D: Decoder> Reading<D> {
    async fn next(&mut self) -> Option<Result<Event, ModelError>> {
        loop {
            match self.decoding.next() {
                Next::Event(event) => return Some(Ok(event)),
                Next::Failure(failure) => return Some(Err(failure)),
                Next::End => return None,
                Next::NeedsBytes => match self.chunk().await {
                    Ok(Some(bytes)) => match self.allowance.take(bytes.as_ref().len()) {
                        Ok(()) => self.decoding.push(bytes.as_ref()),
                        Err(error) => self.decoding.fail(error),
                    },
                    Ok(None) => self.decoding.end(),
                    Err(error) => self.decoding.fail(error),
                },
            }
            if self.decoding.is_finished() {
                // If the end of the body is here already, the connection can be used again.
                self.response.chunk().now_or_never();
            }
        }
    }

    async fn chunk(&mut self) -> Result<Option<impl AsRef<[u8]> + use<D>>, ModelError> {
        let idle = (self.allowance.bounds.idle, StallPhase::Idle);
        let wait = std::mem::replace(&mut self.next_wait, idle);
        let (response, key) = (&mut self.response, self.key.as_ref());
        let chunk = async { response.chunk().await.map_err(|error| network(error, key)) };
        self.allowance.within(wait, &self.cancel, chunk).await
    }
}

/// What is left of the time and the bytes that one answer may take.
struct Allowance {
    bounds: Timeouts,
    deadline: Instant,
    taken_bytes: u64,
}

impl Allowance {
    fn new(bounds: Timeouts) -> Self {
        Allowance {
            bounds,
            deadline: Instant::now() + bounds.whole,
            taken_bytes: 0,
        }
    }

    /// Counts what came.
    fn take(&mut self, bytes: usize) -> Result<(), ModelError> {
        let max_bytes = self.bounds.answer_max_bytes;
        self.taken_bytes = self.taken_bytes.saturating_add(bytes as u64);
        match self.taken_bytes > max_bytes {
            true => Err(ModelError::TooLarge { max_bytes }),
            false => Ok(()),
        }
    }

    /// Waits for the next bytes.
    async fn idle<T>(
        &self,
        cancel: &CancellationToken,
        work: impl Future<Output = Result<T, ModelError>>,
    ) -> Result<T, ModelError> {
        self.within((self.bounds.idle, StallPhase::Idle), cancel, work)
            .await
    }

    /// Waits at most this long, and never beyond the end of the whole answer.
    async fn within<T>(
        &self,
        (limit, phase): (Duration, StallPhase),
        cancel: &CancellationToken,
        work: impl Future<Output = Result<T, ModelError>>,
    ) -> Result<T, ModelError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let (wait, stalled) = match left < limit {
            true => (left, (StallPhase::Whole, self.bounds.whole)),
            false => (limit, (phase, limit)),
        };
        match cancel.run_until_cancelled(tokio::time::timeout(wait, work)).await {
            None => Err(ModelError::Cancelled),
            Some(Err(_)) => Err(ModelError::Stalled {
                phase: stalled.0,
                after: stalled.1,
            }),
            Some(Ok(result)) => result,
        }
    }
}

fn network(error: reqwest::Error, key: Option<&ApiKey>) -> ModelError {
    use std::error::Error as _;
    // The outermost text says little ("error sending request"): the causes say what happened.
    let error = error.without_url();
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        message = format!("{message}: {inner}");
        cause = inner.source();
    }
    ModelError::Network {
        message: fault::shown(&message, key),
    }
}

/// Some gateways complain with status 200.
fn is_complaint(body: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(body).is_ok_and(|value| !value["error"].is_null())
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(millis) = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(millis / 1_000.0).ok();
    }
    let after = text("retry-after")?;
    if let Ok(seconds) = after.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    // A date is measured against the date of the answer, which saves us from asking our own clock.
    let date = |text: &str| {
        jiff::fmt::rfc2822::parse(text)
            .ok()
            .map(|zoned| zoned.timestamp())
    };
    let wait = date(after)?.duration_since(date(text("date")?)?);
    Some(Duration::try_from(wait).unwrap_or_default())
}
