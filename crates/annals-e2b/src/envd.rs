//! envd, the service inside a sandbox: processes over Connect, files over plain HTTP.
//!
//! Hanging up does not end a process, a signal does. A process has no bound but `Connect-Timeout-Ms`, and envd sends a sign
//! of life as often as it is asked to.

use std::collections::{BTreeMap, VecDeque};

use annals_remote::http::{Download, Http};
use annals_remote::multipart::{self, Head};
use annals_remote::{ApiError, Command, CommandEvent, CommandEvents, Daemon, Upload, UploadBody};
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt as _, stream};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, RequestBuilder};
use serde_json::json;

use url::Url;

use crate::connect::{self, Frames, Message};
use crate::wire::{End, ProcessConfig, Start, StartResponse};

/// The port that envd listens on.
pub(crate) const PORT: u16 = 49_983;
/// Seconds between signs of life.
const KEEPALIVE_SECONDS: u64 = 3;
/// Longest line of standard output that is kept.
const LINE_MAX_BYTES: usize = 16 << 20;
const RUNNING: &str = "run the command";
const SENDING: &str = "send files to the sandbox";

/// A client of the envd of one sandbox.
#[derive(Debug, Clone)]
pub(crate) struct Envd {
    http: Http,
    base: Url,
    headers: HeaderMap,
    user: Option<String>,
}

/// What envd wants to know of every request.
pub(crate) struct Access<'a> {
    pub(crate) sandbox: &'a str,
    pub(crate) token: Option<&'a str>,
    pub(crate) user: Option<&'a str>,
}

impl Envd {
    pub(crate) fn new(http: Http, base: Url, access: &Access<'_>) -> Result<Self, ApiError> {
        let mut headers = HeaderMap::new();
        let mut put = |name: HeaderName, value: String| {
            let Ok(mut value) = HeaderValue::from_str(&value) else {
                return Err(ApiError::protocol(
                    "use the sandbox's address",
                    format_args!("its `{name}` is no header"),
                ));
            };
            value.set_sensitive(true);
            headers.insert(name, value);
            Ok(())
        };
        // A server with one address for all sandboxes tells them apart by these.
        put(
            HeaderName::from_static("e2b-sandbox-id"),
            access.sandbox.to_owned(),
        )?;
        put(HeaderName::from_static("e2b-sandbox-port"), PORT.to_string())?;
        if let Some(token) = access.token {
            put(HeaderName::from_static("x-access-token"), token.to_owned())?;
        }
        if let Some(user) = access.user {
            put(
                AUTHORIZATION,
                format!("Basic {}", BASE64.encode(format!("{user}:"))),
            )?;
        }
        Ok(Self {
            http,
            base,
            headers,
            user: access.user.map(str::to_owned),
        })
    }

    fn request(&self, method: Method, path: &[&str], query: &[(&str, String)]) -> RequestBuilder {
        let request = self.http.request(method, &self.base, path, query);
        request.headers(self.headers.clone())
    }

    fn file(&self, method: Method, path: &str) -> RequestBuilder {
        let mut query = vec![("path", path.to_owned())];
        query.extend(self.user.clone().map(|user| ("username", user)));
        self.request(method, &["files"], &query)
    }

    pub(crate) async fn health(&self) -> Result<(), ApiError> {
        let request = self.request(Method::GET, &["health"], &[]);
        self.http.send("reach the sandbox", request).await.map(drop)
    }

    async fn process(&self, command: &Command, args: &[&str]) -> Result<Process, ApiError> {
        let body = Start {
            process: ProcessConfig {
                cmd: "/bin/sh",
                args,
                envs: &command.env,
            },
            stdin: false,
        };
        let mut request = self
            .request(Method::POST, &["process.Process", "Start"], &[])
            .header(CONTENT_TYPE, "application/connect+json")
            .header("Connect-Protocol-Version", "1")
            .header("Keepalive-Ping-Interval", KEEPALIVE_SECONDS.to_string());
        if let Some(timeout) = command.timeout {
            request = request.header("Connect-Timeout-Ms", timeout.as_millis().to_string());
        }
        let request = request.body(connect::envelope(json!(body).to_string().as_bytes()));
        Ok(Process {
            body: self.http.events(RUNNING, request).await?,
            frames: Frames::default(),
            line: Vec::new(),
            ready: VecDeque::new(),
            end: None,
        })
    }

    /// Runs a program with these arguments to its end, which must be a good one.
    async fn run(&self, doing: &'static str, args: &[&str]) -> Result<(), ApiError> {
        let command = Command {
            timeout: Some(self.http.timing().request),
            env: BTreeMap::new(),
            line: String::new(),
        };
        let words: Vec<&str> = ["-c", "exec \"$@\"", "sh"]
            .into_iter()
            .chain(args.iter().copied())
            .collect();
        let mut process = self.process(&command, &words).await?;
        while process.next().await?.is_some() {}
        match process.end {
            Some(End { exit_code: 0, .. }) => Ok(()),
            Some(end) => {
                let why = end
                    .error
                    .unwrap_or_else(|| format!("exit code {}", end.exit_code));
                Err(ApiError::protocol(doing, why))
            }
            None => Err(ApiError::protocol(doing, "the process has no end")),
        }
    }
}

#[async_trait]
impl Daemon for Envd {
    async fn start(&self, command: &Command) -> Result<CommandEvents, ApiError> {
        let process = self.process(command, &["-c", &command.line]).await?;
        Ok(stream::try_unfold(process, |mut process| async {
            Ok(process.next().await?.map(|event| (event, process)))
        })
        .boxed())
    }

    async fn interrupt(&self, command: &str) -> Result<(), ApiError> {
        let doing = "end the command";
        let pid: u32 = command
            .parse()
            .map_err(|_| ApiError::protocol(doing, format_args!("`{command}` is no process")))?;
        let request = self
            .request(Method::POST, &["process.Process", "SendSignal"], &[])
            .header("Connect-Protocol-Version", "1")
            .json(&json!({"process": {"pid": pid}, "signal": "SIGNAL_SIGTERM"}));
        self.http.send(doing, request).await.map(drop)
    }

    /// One request a file, because not every server takes several, and none takes modes.
    async fn upload(&self, files: &[Upload<'_>]) -> Result<(), ApiError> {
        for file in files {
            let form = multipart::Form::new(&[(Head::FILE, file.bytes)]);
            self.http
                .send_form(SENDING, self.file(Method::POST, file.path), form)
                .await?;
        }
        let programs = files.iter().filter(|file| file.mode & 0o111 != 0);
        let programs: Vec<&str> = programs.map(|file| file.path).collect();
        match programs.is_empty() {
            true => Ok(()),
            false => {
                self.run(SENDING, &[&["chmod", "755"][..], &programs].concat())
                    .await
            }
        }
    }

    async fn upload_stream(&self, path: &str, _mode: u32, body: UploadBody) -> Result<(), ApiError> {
        let (content_type, body) = multipart::stream(path, &[], body);
        let request = self.file(Method::POST, path).header(CONTENT_TYPE, content_type);
        self.http.send_stream(SENDING, request, body).await.map(drop)
    }

    async fn rename(&self, from: &str, to: &str) -> Result<(), ApiError> {
        self.run("rename a file in the sandbox", &["mv", "-f", from, to])
            .await
    }

    async fn download(&self, path: &str, offset: u64) -> Result<Download, ApiError> {
        self.http.download(self.file(Method::GET, path), offset).await
    }
}

/// A process and what it does.
struct Process {
    body: BoxStream<'static, Result<Bytes, ApiError>>,
    frames: Frames,
    /// Standard output behind the last line break.
    line: Vec<u8>,
    ready: VecDeque<CommandEvent>,
    end: Option<End>,
}

impl Process {
    /// The next event; none behind the end.
    async fn next(&mut self) -> Result<Option<CommandEvent>, ApiError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            if self.end.is_some() {
                return Ok(None);
            }
            let message = self.frames.next();
            match message.map_err(|error| ApiError::protocol(RUNNING, error))? {
                Some(Message::Data(json)) => self.take(&json)?,
                Some(Message::End(Some(failed))) => return Err(failed.error(RUNNING)),
                Some(Message::End(None)) => return Err(broken("the stream has no end event")),
                None => match self.body.next().await {
                    Some(piece) => self.frames.push(&piece?),
                    None => return Err(broken("the stream broke off")),
                },
            }
        }
    }

    fn take(&mut self, json: &[u8]) -> Result<(), ApiError> {
        let read: Result<StartResponse, _> = serde_json::from_slice(json);
        let event = read.map_err(|error| ApiError::protocol(RUNNING, error))?.event;
        if let Some(start) = event.start {
            self.ready.push_back(CommandEvent::Begun(start.pid.to_string()));
        }
        if let Some(text) = event.data.and_then(|data| data.stdout) {
            let bytes = BASE64.decode(text);
            self.lines(&bytes.map_err(|error| ApiError::protocol(RUNNING, error))?)?;
        }
        if let Some(end) = event.end {
            let rest = std::mem::take(&mut self.line);
            if !rest.is_empty() {
                let rest = String::from_utf8_lossy(&rest).into_owned();
                self.ready.push_back(CommandEvent::Line(rest));
            }
            self.end = Some(end);
        }
        Ok(())
    }

    fn lines(&mut self, bytes: &[u8]) -> Result<(), ApiError> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len() + piece.len() > LINE_MAX_BYTES {
                return Err(ApiError::protocol(RUNNING, "a line has no end"));
            }
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                let line = String::from_utf8_lossy(&line[..line.len() - 1]).into_owned();
                self.ready.push_back(CommandEvent::Line(line));
            }
        }
        Ok(())
    }
}

fn broken(reason: &str) -> ApiError {
    ApiError::Unreachable {
        doing: RUNNING,
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(json: &serde_json::Value) -> Vec<u8> {
        connect::envelope(json.to_string().as_bytes())
    }

    /// Events of a stream whose bytes come in pieces of this size.
    async fn read(bytes: Vec<u8>, size: usize) -> (Vec<CommandEvent>, Result<Option<i32>, ApiError>) {
        let pieces: Vec<Result<Bytes, ApiError>> = bytes
            .chunks(size)
            .map(|piece| Ok(Bytes::copy_from_slice(piece)))
            .collect();
        let mut process = Process {
            body: stream::iter(pieces).boxed(),
            frames: Frames::default(),
            line: Vec::new(),
            ready: VecDeque::new(),
            end: None,
        };
        let mut events = Vec::new();
        loop {
            match process.next().await {
                Ok(Some(event)) => events.push(event),
                Ok(None) => return (events, Ok(process.end.map(|end| end.exit_code))),
                Err(error) => return (events, Err(error)),
            }
        }
    }

    #[tokio::test]
    async fn output_becomes_lines_wherever_it_is_cut() {
        let data = |text: &str| json!({"event": {"data": {"stdout": BASE64.encode(text)}}});
        let stream: Vec<u8> = [
            json!({"event": {"start": {"pid": 7}}}),
            json!({"event": {"keepalive": {}}}),
            data("annals gr\u{fc}"),
            json!({"event": {"data": {"stderr": BASE64.encode("aside\n")}}}),
            data("\u{df}e\nlast"),
            json!({"event": {"end": {"exited": true, "status": "exit status 0"}}}),
        ]
        .iter()
        .flat_map(message)
        .collect();
        let wanted = [
            CommandEvent::Begun("7".to_owned()),
            CommandEvent::Line("annals gr\u{fc}\u{df}e".to_owned()),
            CommandEvent::Line("last".to_owned()),
        ];
        for size in [1, 3, 7, 1000] {
            let (events, end) = read(stream.clone(), size).await;
            assert_eq!(events, wanted);
            assert_eq!(end.unwrap(), Some(0));
        }
    }

    #[tokio::test]
    async fn a_stream_without_an_end_of_its_process_is_an_error() {
        let start = message(&json!({"event": {"start": {"pid": 7}}}));
        let (events, end) = read(start.clone(), 9).await;
        assert_eq!(events.len(), 1);
        assert!(end.unwrap_err().is_transient());
        let mut refused = message(&json!({"error": {"code": "unavailable", "message": "gone"}}));
        refused[0] = 2;
        let (_, end) = read([start, refused].concat(), 9).await;
        assert!(end.unwrap_err().to_string().contains("`unavailable`: gone"));
    }
}
