//! execd, the service inside a sandbox: commands, code and files over HTTP.
//!
//! A stream of `/command` is over at its terminal event, because execd holds it open for a second longer; one of `/code`
//! is over when it ends, because output and even the error come behind `execution_complete`. Hanging up does not kill a
//! command; [`Execd::interrupt`] does.

use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, RANGE};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::json;
use url::Url;

use crate::error::{ApiError, accepted};
use crate::frames::Frames;
use crate::multipart;
use crate::wire::{Endpoint, Event, RunCommand, UploadMetadata};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// An upload or a download may take long, but not without a byte for this long.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// The port that execd listens on.
pub(crate) const PORT: u16 = 44_772;

/// A client of the execd of one sandbox.
#[derive(Debug, Clone)]
pub(crate) struct Execd {
    http: reqwest::Client,
    base: Url,
    headers: HeaderMap,
}

impl Execd {
    /// `scheme` is that of the lifecycle server: an endpoint has none.
    pub(crate) fn new(http: reqwest::Client, scheme: &str, endpoint: &Endpoint) -> Result<Self, ApiError> {
        let wrong = |reason: String| ApiError::Protocol {
            doing: "use the sandbox's address",
            reason,
        };
        let text = match endpoint.endpoint.contains("://") {
            true => endpoint.endpoint.clone(),
            false => format!("{scheme}://{}", endpoint.endpoint),
        };
        let base = Url::parse(&text).map_err(|_| wrong(format!("`{}` is no address", endpoint.endpoint)))?;
        let mut headers = HeaderMap::new();
        for (name, value) in endpoint.headers.iter().flatten() {
            let (Ok(name), Ok(mut value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(value)) else {
                return Err(wrong(format!("`{name}` is no header")));
            };
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(Self { http, base, headers })
    }

    fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        self.request_with(method, path, None)
    }

    fn request_with(&self, method: Method, path: &[&str], query: Option<(&str, &str)>) -> RequestBuilder {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        if let Some((name, value)) = query {
            url.query_pairs_mut().append_pair(name, value);
        }
        self.http.request(method, url).headers(self.headers.clone())
    }

    pub(crate) async fn ping(&self) -> Result<(), ApiError> {
        let request = self.request(Method::GET, &["ping"]).timeout(REQUEST_TIMEOUT);
        accepted("reach the sandbox", request.send().await)
            .await
            .map(drop)
    }

    /// Starts a command; its events follow.
    pub(crate) async fn command(&self, body: &RunCommand) -> Result<Events, ApiError> {
        let request = self.request(Method::POST, &["command"]).json(body);
        Events::of("run the command", request, Until::Terminal).await
    }

    /// Ends a command: SIGTERM to its process group, SIGKILL after three seconds.
    pub(crate) async fn interrupt(&self, command: &str) -> Result<(), ApiError> {
        let request = self.request_with(Method::DELETE, &["command"], Some(("id", command)));
        let answer = request.timeout(REQUEST_TIMEOUT).send().await;
        accepted("end the command", answer).await.map(drop)
    }

    /// A fresh context for code of a language.
    pub(crate) async fn create_context(&self, language: &str, cwd: &str) -> Result<String, ApiError> {
        let doing = "make a code context";
        let request = self.request(Method::POST, &["code", "context"]);
        let request = request.json(&json!({"language": language, "cwd": cwd}));
        let answer = accepted(doing, request.timeout(Duration::from_secs(60)).send().await).await?;
        let body = answer
            .bytes()
            .await
            .map_err(|error| ApiError::unreachable(doing, &error))?;
        let told: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        told["id"]
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| ApiError::Protocol {
                doing,
                reason: "the context has no id".to_owned(),
            })
    }

    pub(crate) async fn delete_context(&self, id: &str) -> Result<(), ApiError> {
        let request = self
            .request(Method::DELETE, &["code", "contexts", id])
            .timeout(REQUEST_TIMEOUT);
        accepted("delete the code context", request.send().await)
            .await
            .map(drop)
    }

    /// Runs code in a context; its events follow, in any order, until the stream ends.
    pub(crate) async fn code(&self, context: &str, code: &str) -> Result<Events, ApiError> {
        let request = self.request(Method::POST, &["code"]);
        let request = request.json(&json!({"code": code, "context": {"id": context}}));
        Events::of("run the code", request, Until::End).await
    }

    /// Interrupts the code that runs in a context.
    pub(crate) async fn interrupt_code(&self, context: &str) -> Result<(), ApiError> {
        let request = self.request_with(Method::DELETE, &["code"], Some(("id", context)));
        let answer = request.timeout(REQUEST_TIMEOUT).send().await;
        accepted("interrupt the code", answer).await.map(drop)
    }

    /// Writes files whose bytes are at hand, in one request. Missing directories are made.
    pub(crate) async fn upload(&self, files: &[(UploadMetadata<'_>, &[u8])]) -> Result<(), ApiError> {
        let form = multipart::Form::new(files.iter().map(|(metadata, bytes)| (metadata, *bytes)));
        let request = self.request(Method::POST, &["files", "upload"]);
        let request = request.header(reqwest::header::CONTENT_TYPE, form.content_type());
        let answer = request
            .timeout(transfer_timeout(form.len()))
            .body(form.into_body())
            .send()
            .await;
        accepted("send files to the sandbox", answer).await.map(drop)
    }

    /// Writes one file from a stream.
    pub(crate) async fn upload_stream(
        &self,
        metadata: &UploadMetadata<'_>,
        body: impl Stream<Item = Result<Bytes, std::io::Error>> + Send + 'static,
    ) -> Result<(), ApiError> {
        let (content_type, body) = multipart::stream(metadata, body);
        let request = self.request(Method::POST, &["files", "upload"]);
        let request = request.header(reqwest::header::CONTENT_TYPE, content_type);
        let answer = request.body(reqwest::Body::wrap_stream(body)).send().await;
        accepted("send files to the sandbox", answer).await.map(drop)
    }

    /// Renames a file, replacing what is there.
    pub(crate) async fn rename(&self, from: &str, to: &str) -> Result<(), ApiError> {
        let request = self.request(Method::POST, &["files", "mv"]);
        let request = request
            .json(&json!([{"src": from, "dest": to}]))
            .timeout(REQUEST_TIMEOUT);
        accepted("rename a file in the sandbox", request.send().await)
            .await
            .map(drop)
    }

    /// The bytes of a file from `offset` on. A server that takes no notice of the range is heard out.
    pub(crate) async fn download(&self, path: &str, offset: u64) -> Result<Download, ApiError> {
        let doing = "read a file of the sandbox";
        let mut request = self.request_with(Method::GET, &["files", "download"], Some(("path", path)));
        if offset > 0 {
            request = request.header(RANGE, format!("bytes={offset}-"));
        }
        let answer = match tokio::time::timeout(STALL_TIMEOUT, request.send()).await {
            Ok(answer) => answer,
            Err(_) => return Err(stalled(doing)),
        };
        if answer
            .as_ref()
            .is_ok_and(|answer| answer.status() == StatusCode::RANGE_NOT_SATISFIABLE)
        {
            return Ok(Download {
                answer: None,
                skip: 0,
            });
        }
        let answer = accepted(doing, answer).await?;
        let skip = match answer.status() {
            StatusCode::PARTIAL_CONTENT => 0,
            _ => offset,
        };
        Ok(Download {
            answer: Some(answer),
            skip,
        })
    }
}

fn transfer_timeout(bytes: usize) -> Duration {
    const SLOWEST_BYTES_PER_SECOND: u64 = 256 << 10;
    REQUEST_TIMEOUT + Duration::from_secs(bytes as u64 / SLOWEST_BYTES_PER_SECOND)
}

fn stalled(doing: &'static str) -> ApiError {
    ApiError::Unreachable {
        doing,
        reason: format!("nothing came for {} s", STALL_TIMEOUT.as_secs()),
    }
}

/// The content of a file on its way.
#[derive(Debug)]
pub(crate) struct Download {
    /// None when the range lies behind the end.
    answer: Option<reqwest::Response>,
    skip: u64,
}

impl Download {
    /// The next bytes; none at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        let doing = "read a file of the sandbox";
        let Some(answer) = &mut self.answer else {
            return Ok(None);
        };
        loop {
            let piece = match tokio::time::timeout(STALL_TIMEOUT, answer.chunk()).await {
                Ok(piece) => piece.map_err(|error| ApiError::unreachable(doing, &error))?,
                Err(_) => return Err(stalled(doing)),
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

/// When a stream of events is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    Terminal,
    End,
}

/// Events of a command or of code.
pub(crate) struct Events {
    doing: &'static str,
    body: futures::stream::BoxStream<'static, reqwest::Result<Bytes>>,
    frames: Option<Frames>,
    ready: std::collections::VecDeque<Event>,
    until: Until,
}

/// execd sends a ping every three seconds; a stream that is silent for longer than this is dead.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(10);

impl Events {
    async fn of(doing: &'static str, request: RequestBuilder, until: Until) -> Result<Self, ApiError> {
        let answer = match tokio::time::timeout(SILENCE_TIMEOUT, request.send()).await {
            Ok(answer) => accepted(doing, answer).await?,
            Err(_) => return Err(stalled(doing)),
        };
        Ok(Self {
            doing,
            body: answer.bytes_stream().boxed(),
            frames: Some(Frames::default()),
            ready: std::collections::VecDeque::new(),
            until,
        })
    }

    /// The next event that says something; none at the end of the stream. Pings only keep it alive.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, ApiError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                match event.kind.as_deref() {
                    Some("ping" | "status" | "execution_count") => continue,
                    Some("execution_complete" | "error") if self.until == Until::Terminal => {
                        self.frames = None;
                        self.ready.clear();
                    }
                    _ => {}
                }
                return Ok(Some(event));
            }
            let Some(frames) = &mut self.frames else {
                return Ok(None);
            };
            let piece = match tokio::time::timeout(SILENCE_TIMEOUT, self.body.next()).await {
                Ok(piece) => piece,
                Err(_) => return Err(stalled(self.doing)),
            };
            match piece {
                Some(Ok(piece)) => {
                    let events = frames
                        .push(&piece)
                        .map_err(|error| ApiError::frame(self.doing, &error))?;
                    self.ready.extend(events);
                }
                Some(Err(error)) => return Err(ApiError::unreachable(self.doing, &error)),
                None => {
                    if let Some(frames) = self.frames.take() {
                        self.ready.extend(frames.finish());
                    }
                }
            }
        }
    }
}
