//! Faults on demand: a rule names a request by service, method and path, and what happens to it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use http::StatusCode;

use crate::line::Harm;

/// More than a client keeps of one frame.
const HUGE_BYTES: usize = 17 << 20;

/// Which of the two services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// The server that makes sandboxes.
    Control,
    /// The service inside a sandbox.
    Daemon,
}

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The connection closes before the request is seen.
    LoseRequest,
    /// The request is performed; the connection closes instead of an answer.
    LoseAnswer,
    /// An answer of this status from a gateway in between; the request is not seen.
    Gateway(u16),
    /// The request is performed; the answer is replaced by one of this status.
    GatewayAfter(u16),
    /// The request waits this long.
    Delay(Duration),
    /// The answer waits this long.
    DelayAnswer(Duration),
    /// The answer's body breaks off after this many bytes.
    CutBody(usize),
    /// The answer's body ends in order after this many bytes.
    EndBody(usize),
    /// The answer's body stops after this many bytes and stays open.
    StallBody(usize),
    /// The answer's body comes in pieces of this size.
    SplitBody(usize),
    /// The answer's body comes in pieces of this size with a pause between them.
    DripBody(usize, Duration),
    /// Bare frames become `data:` frames.
    DataFrames,
    /// Bare frames become `data:` frames with event names, ids and comments between them.
    NoisyFrames,
    /// Frames end in carriage return and line feed.
    ReturnFrames,
    /// The last frame lacks its blank line.
    NoLastBlank,
    /// Something else than the protocol stands in the answer.
    Garbage,
    /// The answer is empty.
    EmptyBody,
    /// A range is not heeded: the whole file comes with status 200.
    WholeFile,
    /// The request is performed; the connection is reset instead of an answer.
    Reset,
    /// The request is performed; the connection closes within the answer's head.
    CutHead(usize),
    /// The answer's head promises more bytes than come.
    LongLength,
    /// The answer's head promises fewer bytes than come.
    ShortLength,
    /// An interim answer comes first.
    EarlyHint,
    /// All is well, and the kept-alive connection is reset by the next request on it.
    ResetOnNext,
    /// Frames come twice.
    DuplicateFrames,
    /// Frames of a kind that nobody knows stand between the others.
    StrangeFrames,
    /// A frame is longer than any may be.
    HugeFrame,
    /// A frame is not UTF-8.
    BadText,
    /// The sandbox is killed when the request arrives.
    KillSandbox,
    /// The request is performed, and the sandbox is killed before its answer.
    KillSandboxAfter,
}

impl Fault {
    /// Its name, without its measures: faults of one kind take one path.
    pub fn kind(&self) -> String {
        let name = format!("{self:?}");
        match self {
            // What is refused for good, for now and for too many requests differs.
            Self::Gateway(_) => name,
            _ => name.split('(').next().unwrap_or_default().to_owned(),
        }
    }

    /// What it does to the bytes of its connection, if that is all it does.
    pub(crate) fn harm(self) -> Option<Harm> {
        match self {
            Self::Reset => Some(Harm::Reset),
            Self::CutHead(length) => Some(Harm::Cut(length)),
            Self::LongLength => Some(Harm::Longer(100)),
            Self::ShortLength => Some(Harm::Shorter(3)),
            Self::EarlyHint => Some(Harm::EarlyHint),
            Self::ResetOnNext => Some(Harm::ResetOnNext),
            _ => None,
        }
    }
}

/// One fault, for the requests that it names.
#[derive(Debug, Clone)]
pub struct Rule {
    service: Service,
    method: &'static str,
    path: &'static str,
    fault: Fault,
    skip: usize,
    times: usize,
}

impl Rule {
    /// The first request of this method whose path contains `path`.
    pub fn new(service: Service, method: &'static str, path: &'static str, fault: Fault) -> Self {
        Self {
            service,
            method,
            path,
            fault,
            skip: 0,
            times: 1,
        }
    }

    /// Lets the first `skip` such requests pass.
    #[must_use]
    pub fn skip(mut self, skip: usize) -> Self {
        self.skip = skip;
        self
    }

    /// Holds for this many of them.
    #[must_use]
    pub fn times(mut self, times: usize) -> Self {
        self.times = times;
        self
    }
}

/// The rules that are in force, and how often one was applied.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    rules: Vec<Rule>,
    applied: usize,
    /// Requests that came to each service.
    seen: [usize; 2],
}

impl Faults {
    /// Puts a rule into force.
    pub fn add(&self, rule: Rule) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .rules
            .push(rule);
    }

    /// Takes all rules out and says how often any was applied since the last time.
    pub fn clear(&self) -> usize {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.rules.clear();
        std::mem::take(&mut state.applied)
    }

    /// How many requests came to a service.
    pub fn seen(&self, service: Service) -> usize {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.seen[service as usize]
    }

    pub(crate) fn of(&self, service: Service, method: &str, path: &str) -> Option<Fault> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.seen[service as usize] += 1;
        let rule = state.rules.iter_mut().find(|rule| {
            rule.service == service && rule.method == method && path.contains(rule.path) && rule.times > 0
        })?;
        if rule.skip > 0 {
            rule.skip -= 1;
            return None;
        }
        rule.times -= 1;
        let fault = rule.fault;
        state.applied += 1;
        Some(fault)
    }
}

/// An answer as a gateway gives it.
pub(crate) fn gateway(status: u16) -> Response {
    let mut answer = Response::new(Body::from("upstream is not there"));
    *answer.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    answer
}

/// The answer, disturbed.
pub(crate) fn disturb(answer: Response, fault: Fault) -> Response {
    let (mut parts, body) = answer.into_parts();
    // The length is not that of what comes.
    parts.headers.remove(http::header::CONTENT_LENGTH);
    let is_connect = parts
        .headers
        .get(http::header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/connect"));
    let frame = move |text: &[u8]| match is_connect {
        true => [&[0][..], &(text.len() as u32).to_be_bytes(), text].concat(),
        false => [text, b"\n\n"].concat(),
    };
    let pieces = body
        .into_data_stream()
        .map(|piece| piece.map_err(std::io::Error::other));
    let body = match fault {
        Fault::CutBody(at) => {
            let broken = stream::once(async { Err(std::io::Error::other("cut")) });
            Body::from_stream(take(pieces, at).chain(broken))
        }
        Fault::EndBody(at) => Body::from_stream(take(pieces, at)),
        Fault::StallBody(at) => Body::from_stream(take(pieces, at).chain(stream::pending())),
        Fault::SplitBody(size) => Body::from_stream(split(pieces, size)),
        Fault::DripBody(size, pause) => {
            Body::from_stream(split(pieces, size).then(move |piece| async move {
                tokio::time::sleep(pause).await;
                piece
            }))
        }
        Fault::DataFrames => Body::from_stream(framed(pieces, |frame| format!("data: {frame}\n\n"))),
        Fault::NoisyFrames => Body::from_stream(framed(pieces, |frame| {
            format!(": keep-alive\n\nevent: message\nid: 7\nretry: 10\ndata: {frame}\n\n")
        })),
        Fault::ReturnFrames => Body::from_stream(framed(pieces, |frame| format!("{frame}\r\n\r\n"))),
        Fault::NoLastBlank => Body::from_stream(framed(pieces, |frame| {
            let is_last = frame.contains("execution_complete") || frame.contains("\"error\"");
            if is_last {
                frame.to_owned()
            } else {
                format!("{frame}\n\n")
            }
        })),
        Fault::DuplicateFrames => Body::from_stream(
            pieces.map(|piece| piece.map(|bytes| Bytes::from([&bytes[..], &bytes].concat()))),
        ),
        Fault::StrangeFrames => {
            let strange = frame(br#"{"type":"weather","event":{"weather":{"rain":true}}}"#);
            Body::from_stream(
                pieces.map(move |piece| piece.map(|bytes| Bytes::from([&strange[..], &bytes].concat()))),
            )
        }
        Fault::HugeFrame => {
            let huge = frame(&vec![b'x'; HUGE_BYTES]);
            Body::from_stream(stream::once(async { Ok(huge.into()) }).chain(pieces))
        }
        Fault::BadText => {
            let bad = frame(b"{\"type\":\"stdout\",\"text\":\"\xff\xfe\"}");
            Body::from_stream(stream::once(async { Ok(bad.into()) }).chain(pieces))
        }
        Fault::Garbage => Body::from("<html><body>not what you think</body></html>\n"),
        Fault::EmptyBody => Body::empty(),
        _ => Body::from_stream(pieces),
    };
    Response::from_parts(parts, body)
}

type Piece = Result<Bytes, std::io::Error>;

fn take(pieces: impl Stream<Item = Piece> + Send + 'static, at: usize) -> impl Stream<Item = Piece> + Send {
    let mut left = at;
    pieces
        .take_while(move |_| futures::future::ready(true))
        .scan((), move |(), piece| {
            let piece = piece.map(|piece| piece.slice(..piece.len().min(left)));
            let is_over = left == 0;
            left -= piece.as_ref().map_or(0, Bytes::len);
            futures::future::ready((!is_over).then_some(piece))
        })
}

fn split(
    pieces: impl Stream<Item = Piece> + Send + 'static,
    size: usize,
) -> impl Stream<Item = Piece> + Send {
    pieces.flat_map(move |piece| {
        let parts: Vec<Piece> = match piece {
            Ok(bytes) => (0..bytes.len())
                .step_by(size.max(1))
                .map(|at| Ok(bytes.slice(at..(at + size.max(1)).min(bytes.len()))))
                .collect(),
            Err(error) => vec![Err(error)],
        };
        stream::iter(parts)
    })
}

/// execd writes one frame at a time, so a piece is a frame or several.
fn framed(
    pieces: impl Stream<Item = Piece> + Send + 'static,
    frame: impl Fn(&str) -> String + Send + 'static,
) -> impl Stream<Item = Piece> + Send {
    pieces.map(move |piece| {
        piece.map(|bytes| {
            let text = String::from_utf8_lossy(&bytes);
            let frames = text.split("\n\n").filter(|text| !text.is_empty()).map(&frame);
            Bytes::from(frames.collect::<String>())
        })
    })
}
