//! execd, the service inside a sandbox: commands, code and files over HTTP.
//!
//! A stream of `/command` is over at its terminal event, because execd holds it open for a second longer; one of `/code`
//! is over when it ends, because output and even the error come behind `execution_complete`. Hanging up does not kill a
//! command; [`Execd::interrupt`] does.

use std::collections::VecDeque;
use std::time::Duration;

use annals_remote::http::{self, Download, Http};
use annals_remote::multipart::{self, Head};
use annals_remote::{
    ApiError, Backoff, CodeRequest, Command, CommandEvent, CommandEvents, Daemon, Server, Upload, UploadBody,
};
use annals_sandbox::{CodeResult, Failure};
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt as _, stream};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::json;
use url::Url;

use crate::frames::Frames;
use crate::kernel;
use crate::wire::{Endpoint, Event, RunCommand, UploadMetadata, mode_digits};

/// A kernel may have to start first.
const CONTEXT_TIMEOUT: Duration = Duration::from_secs(60);
const SENDING: &str = "send files to the sandbox";
/// The port that execd listens on.
pub(crate) const PORT: u16 = 44_772;

/// A client of the execd of one sandbox.
#[derive(Debug, Clone)]
pub(crate) struct Execd {
    http: Http,
    base: Url,
    headers: HeaderMap,
}

impl Execd {
    /// An endpoint has no scheme of its own; it is that of its server.
    pub(crate) fn new(server: &Server, endpoint: &Endpoint) -> Result<Self, ApiError> {
        let wrong = |reason: String| ApiError::protocol("use the sandbox's address", reason);
        let text = match endpoint.endpoint.contains("://") {
            true => endpoint.endpoint.clone(),
            false => format!("{}://{}", server.url().scheme(), endpoint.endpoint),
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
        let http = server.http().clone();
        Ok(Self { http, base, headers })
    }

    fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        self.request_with(method, path, None)
    }

    fn request_with(&self, method: Method, path: &[&str], query: Option<(&str, &str)>) -> RequestBuilder {
        let query: Vec<_> = query
            .map(|(name, value)| (name, value.to_owned()))
            .into_iter()
            .collect();
        let request = self.http.request(method, &self.base, path, &query);
        request.headers(self.headers.clone())
    }

    async fn send(&self, doing: &'static str, request: RequestBuilder) -> Result<Response, ApiError> {
        self.http.send(doing, request).await
    }

    pub(crate) fn backoff(&self) -> Backoff {
        self.http.timing().backoff()
    }

    pub(crate) async fn ping(&self) -> Result<(), ApiError> {
        let request = self.request(Method::GET, &["ping"]);
        self.send("reach the sandbox", request).await.map(drop)
    }

    /// A fresh context for code of a language.
    pub(crate) async fn create_context(&self, language: &str, cwd: &str) -> Result<String, ApiError> {
        let doing = "make a code context";
        let request = self.request(Method::POST, &["code", "context"]);
        let request = request.json(&json!({"language": language, "cwd": cwd}));
        let answer = self.http.send_within(doing, request, CONTEXT_TIMEOUT).await?;
        let told: serde_json::Value = http::json(doing, answer).await?;
        let id = told["id"].as_str().map(str::to_owned);
        id.ok_or_else(|| ApiError::protocol(doing, "the context has no id"))
    }

    pub(crate) async fn delete_context(&self, id: &str) -> Result<(), ApiError> {
        let request = self.request(Method::DELETE, &["code", "contexts", id]);
        self.send("delete the code context", request).await.map(drop)
    }

    /// Runs code in a context; its events follow, in any order, until the stream ends.
    pub(crate) async fn code(&self, context: &str, code: &str) -> Result<Events, ApiError> {
        let request = self.request(Method::POST, &["code"]);
        let request = request.json(&json!({"code": code, "context": {"id": context}}));
        Events::of(&self.http, "run the code", request, Until::End).await
    }

    /// Interrupts the code that runs in a context.
    pub(crate) async fn interrupt_code(&self, context: &str) -> Result<(), ApiError> {
        let request = self.request_with(Method::DELETE, &["code"], Some(("id", context)));
        self.send("interrupt the code", request).await.map(drop)
    }
}

/// What execd is told of a file beside its bytes.
fn metadata(path: &str, mode: u32) -> Vec<u8> {
    let mode = mode_digits(mode);
    json!(UploadMetadata { path, mode }).to_string().into_bytes()
}

const METADATA: Head<'static> = Head {
    name: "metadata",
    content_type: "application/json",
};

#[async_trait]
impl Daemon for Execd {
    async fn start(&self, command: &Command) -> Result<CommandEvents, ApiError> {
        let body = RunCommand {
            command: &command.line,
            timeout: command.timeout.map(|timeout| timeout.as_millis() as u64),
            envs: &command.env,
        };
        let request = self.request(Method::POST, &["command"]).json(&body);
        let events = Events::of(&self.http, "run the command", request, Until::Terminal).await?;
        Ok(stream::try_unfold(events, |mut events| async {
            Ok(events.next_of_command().await?.map(|event| (event, events)))
        })
        .boxed())
    }

    /// SIGTERM to its process group, SIGKILL after three seconds.
    async fn interrupt(&self, command: &str) -> Result<(), ApiError> {
        let request = self.request_with(Method::DELETE, &["command"], Some(("id", command)));
        self.send("end the command", request).await.map(drop)
    }

    async fn upload(&self, files: &[Upload<'_>]) -> Result<(), ApiError> {
        let all: Vec<_> = files.iter().map(|file| metadata(file.path, file.mode)).collect();
        let parts: Vec<_> = files
            .iter()
            .zip(&all)
            .flat_map(|(file, metadata)| [(METADATA, &metadata[..]), (Head::FILE, file.bytes)])
            .collect();
        let form = multipart::Form::new(&parts);
        let request = self.request(Method::POST, &["files", "upload"]);
        self.http.send_form(SENDING, request, form).await
    }

    async fn upload_stream(&self, path: &str, mode: u32, body: UploadBody) -> Result<(), ApiError> {
        let metadata = metadata(path, mode);
        let (content_type, body) = multipart::stream(path, &[(METADATA, &metadata)], body);
        let request = self.request(Method::POST, &["files", "upload"]);
        let request = request.header(CONTENT_TYPE, content_type);
        self.http.send_stream(SENDING, request, body).await.map(drop)
    }

    async fn rename(&self, from: &str, to: &str) -> Result<(), ApiError> {
        let request = self.request(Method::POST, &["files", "mv"]);
        let request = request.json(&json!([{"src": from, "dest": to}]));
        self.send("rename a file in the sandbox", request).await.map(drop)
    }

    async fn download(&self, path: &str, offset: u64) -> Result<Download, ApiError> {
        let request = self.request_with(Method::GET, &["files", "download"], Some(("path", path)));
        self.http.download(request, offset).await
    }

    async fn run_code(&self, request: &CodeRequest<'_>) -> Result<CodeResult, Failure> {
        kernel::run(self, request).await
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
    body: BoxStream<'static, Result<Bytes, ApiError>>,
    frames: Option<Frames>,
    ready: VecDeque<Event>,
    until: Until,
}

impl Events {
    async fn of(
        http: &Http,
        doing: &'static str,
        request: RequestBuilder,
        until: Until,
    ) -> Result<Self, ApiError> {
        Ok(Self {
            doing,
            body: http.events(doing, request).await?,
            frames: Some(Frames::default()),
            ready: VecDeque::new(),
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
            match self.body.next().await {
                Some(piece) => {
                    let events = frames.push(&piece?);
                    self.ready
                        .extend(events.map_err(|error| ApiError::protocol(self.doing, error))?);
                }
                None => {
                    if let Some(frames) = self.frames.take() {
                        self.ready.extend(frames.finish());
                    }
                }
            }
        }
    }

    /// The same, as far as a command's caller has to know.
    async fn next_of_command(&mut self) -> Result<Option<CommandEvent>, ApiError> {
        while let Some(event) = self.next().await? {
            match (event.kind.as_deref(), event.text) {
                (Some("init"), Some(command)) => return Ok(Some(CommandEvent::Begun(command))),
                (Some("stdout"), Some(line)) => return Ok(Some(CommandEvent::Line(line))),
                (None, _) => {
                    return Err(ApiError::Refused {
                        doing: self.doing,
                        status: 503,
                        code: event.code,
                        message: event.message.unwrap_or_default(),
                    });
                }
                (Some("error"), _) => log_error(event.error),
                _ => {}
            }
        }
        Ok(None)
    }
}

fn log_error(error: Option<crate::wire::EventError>) {
    if let Some(error) = error {
        let trace = error.traceback.unwrap_or_default().join(" ");
        tracing::debug!(
            "a command of the sandbox ended with {} `{}` {trace}",
            error.ename,
            error.evalue
        );
    }
}
