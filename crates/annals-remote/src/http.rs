//! HTTP as every wire needs it: a client, refusals read, bodies that may not fall silent, downloads that go on.

use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _, stream};
use reqwest::header::{CONTENT_TYPE, RANGE};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use url::{Host, Url};

use crate::error::ApiError;
use crate::multipart::Form;
use crate::timing::Timing;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest body of a refusal that is read.
const REFUSAL_MAX_BYTES: usize = 16 << 10;
/// Longest body of an answer that is JSON.
const JSON_MAX_BYTES: usize = 16 << 20;

/// How a wire's refusals are read: the body's stable code, if it has one, and what it says.
pub type ReadRefusal = fn(&[u8]) -> (Option<String>, String);

/// Whether the address is of this very machine.
fn is_here(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// The address of a path below a base.
fn address(base: &Url, path: &[&str], query: &[(&str, String)]) -> Url {
    let mut url = base.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path);
    }
    if !query.is_empty() {
        url.query_pairs_mut().extend_pairs(query);
    }
    url
}

/// HTTP to a server and its sandboxes: a client, how a wire's refusals are read, how long anything may take.
#[derive(Debug, Clone)]
pub struct Http {
    client: reqwest::Client,
    read_refusal: ReadRefusal,
    timing: Timing,
}

impl Http {
    /// For a server and its sandboxes.
    pub fn new(server: &Url, read_refusal: ReadRefusal, timing: Timing) -> Result<Self, reqwest::Error> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut client = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .user_agent(concat!("annals/", env!("CARGO_PKG_VERSION")));
        if is_here(server) {
            client = client.no_proxy(); // a proxy cannot reach the server on this very machine
        }
        Ok(Self {
            client: client.build()?,
            read_refusal,
            timing,
        })
    }

    /// How long anything may take.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// A request of a path below a base.
    pub fn request(
        &self,
        method: Method,
        base: &Url,
        path: &[&str],
        query: &[(&str, String)],
    ) -> RequestBuilder {
        self.client.request(method, address(base, path, query))
    }

    /// Sends a request whose answer is short.
    pub async fn send(&self, doing: &'static str, request: RequestBuilder) -> Result<Response, ApiError> {
        self.send_within(doing, request, self.timing.request).await
    }

    /// Sends a request whose answer may take this long.
    pub async fn send_within(
        &self,
        doing: &'static str,
        request: RequestBuilder,
        timeout: Duration,
    ) -> Result<Response, ApiError> {
        self.accepted(doing, request.timeout(timeout).send().await).await
    }

    /// Sends a form that is at hand.
    pub async fn send_form(
        &self,
        doing: &'static str,
        request: RequestBuilder,
        form: Form,
    ) -> Result<(), ApiError> {
        let timeout = self.timing.transfer(form.size_bytes());
        let request = request.header(CONTENT_TYPE, form.content_type());
        let sent = self
            .send_within(doing, request.body(form.into_body()), timeout)
            .await;
        sent.map(drop)
    }

    /// The answer if it is a success; otherwise what the service said.
    pub async fn accepted(
        &self,
        doing: &'static str,
        answer: Result<Response, reqwest::Error>,
    ) -> Result<Response, ApiError> {
        let answer = answer.map_err(|error| ApiError::unreachable(doing, &error))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let body = self.refusal(answer).await;
        let (code, message) = (self.read_refusal)(&body);
        let message = match message.is_empty() {
            false => message,
            true => status.canonical_reason().unwrap_or("no reason given").to_owned(),
        };
        Err(ApiError::Refused {
            doing,
            status: status.as_u16(),
            code,
            message,
        })
    }

    /// As much of a refusal as is worth reading, from a server that may stop in the middle of it.
    async fn refusal(&self, mut answer: Response) -> Vec<u8> {
        let mut body = Vec::new();
        while let Ok(Ok(Some(piece))) = tokio::time::timeout(self.timing.stall, answer.chunk()).await {
            body.extend_from_slice(&piece);
            if body.len() >= REFUSAL_MAX_BYTES {
                body.truncate(REFUSAL_MAX_BYTES);
                break;
            }
        }
        body
    }

    /// Repeats what is harmless to repeat until an answer decides it or the time for that is over.
    pub async fn repeated<T, F: Future<Output = Result<T, ApiError>> + Send>(
        &self,
        attempt: impl Fn() -> F,
    ) -> Result<T, ApiError> {
        let mut backoff = self.timing.backoff();
        let mut last = None;
        let attempts = async {
            loop {
                match attempt().await {
                    Err(error) if error.is_transient() => last = Some(error),
                    decided => return decided,
                }
                backoff.wait().await;
            }
        };
        match tokio::time::timeout(self.timing.retry, attempts).await {
            Ok(decided) => decided,
            Err(_) => Err(last.unwrap_or(ApiError::Unreachable {
                doing: "reach the server",
                reason: "no answer in time".to_owned(),
            })),
        }
    }

    /// Sends a body that comes as a stream, as long as it moves, and gives the answer.
    pub async fn send_stream(
        &self,
        doing: &'static str,
        request: RequestBuilder,
        body: impl Stream<Item = Result<Bytes, std::io::Error>> + Send + 'static,
    ) -> Result<Response, ApiError> {
        let stall = self.timing.upload_stall;
        let (progress, mut moved) = watch::channel(());
        // Dropped with the body, when all of it has been taken.
        let body = body.inspect(move |_| progress.send_replace(()));
        let sending = request.body(reqwest::Body::wrap_stream(body)).send();
        tokio::pin!(sending);
        loop {
            let waited = tokio::select! {
                answer = &mut sending => return self.accepted(doing, answer).await,
                waited = tokio::time::timeout(stall, moved.changed()) => waited,
            };
            match waited {
                Ok(Ok(())) => {}
                Ok(Err(_)) => break,
                Err(_) => return Err(stalled(doing, stall)),
            }
        }
        match tokio::time::timeout(stall, sending).await {
            Ok(answer) => self.accepted(doing, answer).await,
            Err(_) => Err(stalled(doing, stall)),
        }
    }

    /// The body of an answer that is a stream of events; silence ends it with an error.
    pub async fn events(
        &self,
        doing: &'static str,
        request: RequestBuilder,
    ) -> Result<BoxStream<'static, Result<Bytes, ApiError>>, ApiError> {
        let silence = self.timing.silence;
        let answer = match tokio::time::timeout(silence, request.send()).await {
            Ok(answer) => self.accepted(doing, answer).await?,
            Err(_) => return Err(stalled(doing, silence)),
        };
        let pieces = stream::unfold(Some(answer), move |answer| async move {
            let mut answer = answer?;
            match tokio::time::timeout(silence, answer.chunk()).await {
                Ok(Ok(Some(piece))) => Some((Ok(piece), Some(answer))),
                Ok(Ok(None)) => None,
                Ok(Err(error)) => Some((Err(ApiError::unreachable(doing, &error)), None)),
                Err(_) => Some((Err(stalled(doing, silence)), None)),
            }
        });
        Ok(pieces.boxed())
    }

    /// Asks for what lies behind `offset` of a file. A server that takes no notice of the range is heard out.
    pub async fn download(&self, mut request: RequestBuilder, offset: u64) -> Result<Download, ApiError> {
        if offset > 0 {
            request = request.header(RANGE, format!("bytes={offset}-"));
        }
        let stall = self.timing.stall;
        let answer = match tokio::time::timeout(stall, request.send()).await {
            Ok(answer) => answer,
            Err(_) => return Err(stalled(READING, stall)),
        };
        let is_behind = |answer: &Response| answer.status() == StatusCode::RANGE_NOT_SATISFIABLE;
        if answer.as_ref().is_ok_and(is_behind) {
            return Ok(Download {
                answer: None,
                skip: 0,
                stall,
            });
        }
        let answer = self.accepted(READING, answer).await?;
        let skip = match answer.status() {
            StatusCode::PARTIAL_CONTENT => 0,
            _ => offset,
        };
        Ok(Download {
            answer: Some(answer),
            skip,
            stall,
        })
    }
}

/// The answer's body as JSON, within a bound.
pub async fn json<T: DeserializeOwned>(doing: &'static str, mut answer: Response) -> Result<T, ApiError> {
    let mut body = Vec::new();
    loop {
        let piece = answer.chunk().await;
        let Some(piece) = piece.map_err(|error| ApiError::unreachable(doing, &error))? else {
            break;
        };
        if body.len() + piece.len() > JSON_MAX_BYTES {
            return Err(ApiError::protocol(
                doing,
                format_args!("it has more than {JSON_MAX_BYTES} bytes"),
            ));
        }
        body.extend_from_slice(&piece);
    }
    serde_json::from_slice(&body).map_err(|error| ApiError::protocol(doing, error))
}

fn stalled(doing: &'static str, after: Duration) -> ApiError {
    ApiError::Unreachable {
        doing,
        reason: format!("nothing moved for {} s", after.as_secs_f32()),
    }
}

/// The content of a file on its way.
#[derive(Debug)]
pub struct Download {
    /// None when the range lies behind the end.
    answer: Option<Response>,
    skip: u64,
    stall: Duration,
}

const READING: &str = "read a file of the sandbox";

impl Download {
    /// The next bytes; none at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        let Some(answer) = &mut self.answer else {
            return Ok(None);
        };
        loop {
            let piece = match tokio::time::timeout(self.stall, answer.chunk()).await {
                Ok(piece) => piece.map_err(|error| ApiError::unreachable(READING, &error))?,
                Err(_) => return Err(stalled(READING, self.stall)),
            };
            let Some(mut piece) = piece else { return Ok(None) };
            let skipped = self.skip.min(piece.len() as u64);
            self.skip -= skipped;
            let _ = piece.split_to(skipped as usize);
            if !piece.is_empty() {
                return Ok(Some(piece));
            }
        }
    }
}
