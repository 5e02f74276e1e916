//! HTTP as every wire needs it: a client, refusals read, bodies that may not fall silent, downloads that go on.

use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _, stream};
use reqwest::header::RANGE;
use reqwest::{RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use url::{Host, Url};

use crate::error::ApiError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// One answer that is short.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// A download may take long, but not without a byte for this long.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// An upload, too; its server may have to write all of it before it answers.
const UPLOAD_STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Services send a sign of life every three seconds; a stream of events that is silent for longer than this is dead.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest body of a refusal that is read.
const REFUSAL_MAX_BYTES: usize = 16 << 10;
/// Longest body of an answer that is JSON.
const JSON_MAX_BYTES: usize = 16 << 20;

/// How a wire's refusals are read: the body's stable code, if it has one, and what it says.
pub type ReadRefusal = fn(&[u8]) -> (Option<String>, String);

/// A client for a server and its sandboxes.
pub fn client(server: &Url) -> Result<reqwest::Client, reqwest::Error> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut http = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .user_agent(concat!("annals/", env!("CARGO_PKG_VERSION")));
    if is_here(server) {
        http = http.no_proxy(); // a proxy cannot reach the server on this very machine
    }
    http.build()
}

/// The address of a server, if the text is one.
pub fn server(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_server = matches!(url.scheme(), "http" | "https") && url.host_str().is_some();
    is_server.then_some(url)
}

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
pub fn address(base: &Url, path: &[&str], query: &[(&str, String)]) -> Url {
    let mut url = base.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path);
    }
    if !query.is_empty() {
        url.query_pairs_mut().extend_pairs(query);
    }
    url
}

/// The answer if it is a success; otherwise what the service said.
pub async fn accepted(
    doing: &'static str,
    answer: Result<Response, reqwest::Error>,
    read: ReadRefusal,
) -> Result<Response, ApiError> {
    let answer = answer.map_err(|error| ApiError::unreachable(doing, &error))?;
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let body = refusal(answer).await;
    let (code, message) = read(&body);
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
async fn refusal(mut answer: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Ok(Some(piece))) = tokio::time::timeout(STALL_TIMEOUT, answer.chunk()).await {
        body.extend_from_slice(&piece);
        if body.len() >= REFUSAL_MAX_BYTES {
            body.truncate(REFUSAL_MAX_BYTES);
            break;
        }
    }
    body
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

/// How long a body of this size may take.
pub fn transfer_timeout(bytes: usize) -> Duration {
    const SLOWEST_BYTES_PER_SECOND: u64 = 256 << 10;
    REQUEST_TIMEOUT + Duration::from_secs(bytes as u64 / SLOWEST_BYTES_PER_SECOND)
}

fn stalled(doing: &'static str, after: Duration) -> ApiError {
    ApiError::Unreachable {
        doing,
        reason: format!("nothing moved for {} s", after.as_secs()),
    }
}

/// Sends a body that comes as a stream, as long as it moves, and gives the answer.
pub async fn send_stream(
    doing: &'static str,
    request: RequestBuilder,
    body: impl Stream<Item = Result<Bytes, std::io::Error>> + Send + 'static,
    read: ReadRefusal,
) -> Result<Response, ApiError> {
    let (progress, mut moved) = watch::channel(());
    // Dropped with the body, when all of it has been taken.
    let body = body.inspect(move |_| progress.send_replace(()));
    let sending = request.body(reqwest::Body::wrap_stream(body)).send();
    tokio::pin!(sending);
    loop {
        let waited = tokio::select! {
            answer = &mut sending => return accepted(doing, answer, read).await,
            waited = tokio::time::timeout(UPLOAD_STALL_TIMEOUT, moved.changed()) => waited,
        };
        match waited {
            Ok(Ok(())) => {}
            Ok(Err(_)) => break,
            Err(_) => return Err(stalled(doing, UPLOAD_STALL_TIMEOUT)),
        }
    }
    match tokio::time::timeout(UPLOAD_STALL_TIMEOUT, sending).await {
        Ok(answer) => accepted(doing, answer, read).await,
        Err(_) => Err(stalled(doing, UPLOAD_STALL_TIMEOUT)),
    }
}

/// The body of an answer that is a stream of events; silence ends it with an error.
pub async fn events(
    doing: &'static str,
    request: RequestBuilder,
    read: ReadRefusal,
) -> Result<BoxStream<'static, Result<Bytes, ApiError>>, ApiError> {
    let answer = match tokio::time::timeout(SILENCE_TIMEOUT, request.send()).await {
        Ok(answer) => accepted(doing, answer, read).await?,
        Err(_) => return Err(stalled(doing, SILENCE_TIMEOUT)),
    };
    let pieces = stream::unfold(Some(answer), move |answer| async move {
        let mut answer = answer?;
        match tokio::time::timeout(SILENCE_TIMEOUT, answer.chunk()).await {
            Ok(Ok(Some(piece))) => Some((Ok(piece), Some(answer))),
            Ok(Ok(None)) => None,
            Ok(Err(error)) => Some((Err(ApiError::unreachable(doing, &error)), None)),
            Err(_) => Some((Err(stalled(doing, SILENCE_TIMEOUT)), None)),
        }
    });
    Ok(pieces.boxed())
}

/// The content of a file on its way.
#[derive(Debug)]
pub struct Download {
    /// None when the range lies behind the end.
    answer: Option<Response>,
    skip: u64,
}

const READING: &str = "read a file of the sandbox";

impl Download {
    /// Asks for what lies behind `offset`. A server that takes no notice of the range is heard out.
    pub async fn start(
        mut request: RequestBuilder,
        offset: u64,
        read: ReadRefusal,
    ) -> Result<Self, ApiError> {
        if offset > 0 {
            request = request.header(RANGE, format!("bytes={offset}-"));
        }
        let answer = match tokio::time::timeout(STALL_TIMEOUT, request.send()).await {
            Ok(answer) => answer,
            Err(_) => return Err(stalled(READING, STALL_TIMEOUT)),
        };
        let is_behind = |answer: &Response| answer.status() == StatusCode::RANGE_NOT_SATISFIABLE;
        if answer.as_ref().is_ok_and(is_behind) {
            return Ok(Self {
                answer: None,
                skip: 0,
            });
        }
        let answer = accepted(READING, answer, read).await?;
        let skip = match answer.status() {
            StatusCode::PARTIAL_CONTENT => 0,
            _ => offset,
        };
        Ok(Self {
            answer: Some(answer),
            skip,
        })
    }

    /// The next bytes; none at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        let Some(answer) = &mut self.answer else {
            return Ok(None);
        };
        loop {
            let piece = match tokio::time::timeout(STALL_TIMEOUT, answer.chunk()).await {
                Ok(piece) => piece.map_err(|error| ApiError::unreachable(READING, &error))?,
                Err(_) => return Err(stalled(READING, STALL_TIMEOUT)),
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
