//! Commands: `bash -c` in a process group of its own, output by lines through a file, events as they come.

use std::collections::BTreeMap;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{Execd, Id, now_ms, refusal};
use crate::body;
use crate::table::Table;

/// Output is looked for this often; what is there at the end is sent at once.
const TAIL_INTERVAL: Duration = Duration::from_millis(100);
const PING_INTERVAL: Duration = Duration::from_secs(3);
/// The stream stays open this long after its last event.
const OPEN_AFTER_END: Duration = Duration::from_secs(1);
const KILL_AFTER: Duration = Duration::from_secs(3);

pub(super) type Commands = Table<Running>;

pub(super) struct Running {
    content: String,
    background: bool,
    group: Option<Pid>,
    output: PathBuf,
    started_at: String,
    end: Mutex<Option<End>>,
}

#[derive(Clone)]
struct End {
    exit_code: i32,
    error: String,
    finished_at: String,
}

#[derive(Deserialize)]
pub(super) struct Request {
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    argv: Option<Vec<String>>,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    background: bool,
    #[serde(default)]
    timeout: Option<u64>,
    #[serde(default)]
    envs: BTreeMap<String, String>,
}

/// Events of one stream, in execd's own framing: bare JSON and a blank line.
#[derive(Clone)]
pub(super) struct EventSender(UnboundedSender<Bytes>);

impl EventSender {
    pub(super) fn channel() -> (Self, UnboundedReceiver<Bytes>) {
        let (sender, receiver) = unbounded_channel();
        (Self(sender), receiver)
    }

    pub(super) fn send(&self, mut event: Value) {
        event["timestamp"] = json!(now_ms());
        self.raw(format!("{event}\n\n"));
    }

    /// A client that hung up is not missed.
    pub(super) fn raw(&self, frame: String) {
        let _ = self.0.send(frame.into());
    }

    pub(super) fn text(&self, kind: &str, text: &str) {
        self.send(json!({"type": kind, "text": text}));
    }
}

pub(super) fn stream(receiver: UnboundedReceiver<Bytes>) -> Response {
    body::frames("text/event-stream", receiver)
}

pub(super) fn next_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{:032x}", NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(super) async fn run(State(execd): State<Arc<Execd>>, body: Bytes) -> Response {
    let invalid = |why: String| refusal(StatusCode::BAD_REQUEST, "INVALID_REQUEST_BODY", why);
    let request: Request = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => {
            return invalid(format!(
                "error parsing request, MAYBE invalid body format. {error}"
            ));
        }
    };
    let argv = match (&request.command, &request.argv) {
        (Some(line), None) if !line.is_empty() => ["bash", "-c", line].map(str::to_owned).to_vec(),
        (None, Some(argv)) if !argv.is_empty() => argv.clone(),
        _ => return invalid("invalid request, validation error: exactly one of command, argv".to_owned()),
    };
    if request.timeout == Some(0) {
        return invalid("invalid request, validation error: timeout must be at least 1".to_owned());
    }
    if let Some(cwd) = &request.cwd
        && !std::path::Path::new(cwd).is_dir()
    {
        return invalid(format!("invalid request, cwd {cwd} is not a directory"));
    }
    start(&execd, &request, &argv)
}

fn start(execd: &Arc<Execd>, request: &Request, argv: &[String]) -> Response {
    let id = next_id();
    let files = [format!("/tmp/{id}.stdout"), format!("/tmp/{id}.stderr")].map(PathBuf::from);
    let opened = (std::fs::File::create(&files[0]), std::fs::File::create(&files[1]));
    let (Ok(stdout), Ok(stderr)) = opened else {
        return refusal(
            StatusCode::INTERNAL_SERVER_ERROR,
            "RUNTIME_ERROR",
            "failed to get stdlog descriptor",
        );
    };
    let stderr = match request.background {
        true => stdout.try_clone().unwrap_or(stderr),
        false => stderr,
    };
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]).process_group(0);
    command.envs(execd.path.iter().map(|path| ("PATH", path)));
    command.envs(&request.envs);
    command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    if let Some(cwd) = &request.cwd {
        command.current_dir(cwd);
    }
    let (events, receiver) = EventSender::channel();
    events.text("init", &id);
    let spawned = command.spawn();
    let group = spawned.as_ref().ok().and_then(tokio::process::Child::id);
    let running = Arc::new(Running {
        content: argv.last().cloned().unwrap_or_default(),
        background: request.background,
        group: group.and_then(|id| Pid::from_raw(id as i32)),
        output: files[0].clone(),
        started_at: now(),
        end: Mutex::new(None),
    });
    execd.commands.insert(id, Arc::clone(&running));
    events.text("ping", "pong");
    match spawned {
        Ok(child) => {
            let timeout = request.timeout.map(Duration::from_millis);
            if request.background {
                events.send(json!({"type": "execution_complete"}));
                let (silent, _) = EventSender::channel();
                tokio::spawn(follow(child, running, files, silent, timeout));
            } else {
                tokio::spawn(follow(child, running, files, events, timeout));
            }
        }
        Err(error) => events.send(json!({
            "type": "error", "error": {"ename": "CommandExecError", "evalue": error.to_string(), "traceback": null},
        })),
    }
    stream(receiver)
}

/// Nothing here depends on the client: one that hangs up does not end the command.
async fn follow(
    mut child: tokio::process::Child,
    running: Arc<Running>,
    files: [PathBuf; 2],
    events: EventSender,
    timeout: Option<Duration>,
) {
    let started = tokio::time::Instant::now();
    let mut tails = ["stdout", "stderr"].map(|kind| (kind, 0u64));
    let mut tail_tick = tokio::time::interval(TAIL_INTERVAL);
    let mut ping_tick = tokio::time::interval(PING_INTERVAL);
    ping_tick.reset();
    let deadline = tokio::time::sleep(timeout.unwrap_or(Duration::from_secs(1 << 30)));
    tokio::pin!(deadline);
    let mut is_killed = false;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status,
            _ = tail_tick.tick() => tails.iter_mut().zip(&files).for_each(|((kind, at), file)| {
                *at = tail(file, *at, Flush::Lines, |text| events.text(kind, text));
            }),
            _ = ping_tick.tick() => events.text("ping", "pong"),
            () = &mut deadline, if !is_killed => {
                is_killed = true;
                signal(&running, Signal::KILL);
            }
        }
    };
    // Standard error first: the order between the two is not kept.
    for ((kind, at), file) in tails.iter_mut().zip(&files).rev() {
        tail(file, *at, Flush::All, |text| events.text(kind, text));
    }
    let (exit_code, error) = ended(status);
    *running.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(End {
        exit_code,
        error: error.clone(),
        finished_at: now(),
    });
    if exit_code == 0 {
        let elapsed = started.elapsed().as_millis() as u64;
        let mut event = json!({"type": "execution_complete"});
        if elapsed > 0 {
            event["execution_time"] = json!(elapsed);
        }
        events.send(event);
    } else {
        events.send(json!({"type": "error", "error": {
            "ename": "CommandExecError", "evalue": exit_code.to_string(), "traceback": [error],
        }}));
    }
    tokio::time::sleep(OPEN_AFTER_END).await;
}

/// Exit code and error text; a signal is -1.
fn ended(status: std::io::Result<std::process::ExitStatus>) -> (i32, String) {
    use std::os::unix::process::ExitStatusExt as _;
    match status {
        Ok(status) if status.success() => (0, String::new()),
        Ok(status) => match status.signal() {
            Some(9) => (-1, "signal: killed".to_owned()),
            Some(signal) => (-1, format!("signal: {signal}")),
            None => {
                let code = status.code().unwrap_or(1);
                (code, format!("exit status {code}"))
            }
        },
        Err(error) => (1, error.to_string()),
    }
}

enum Flush {
    Lines,
    All,
}

/// Sends what a file has behind `at`, by lines without their end; a blank line is sent as a line break. Gives the place
/// up to which it was sent.
fn tail(file: &PathBuf, at: u64, flush: Flush, mut send: impl FnMut(&str)) -> u64 {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(file).and_then(|mut file| {
        file.seek(SeekFrom::Start(at))?;
        file.read_to_end(&mut bytes)
    });
    if read.is_err() {
        return at;
    }
    let mut sent = 0;
    let mut after_return = false;
    while let Some(length) = bytes[sent..]
        .iter()
        .position(|byte| matches!(byte, b'\n' | b'\r'))
    {
        let end = bytes[sent + length];
        match length {
            0 if end == b'\n' && after_return => {}
            0 => send("\n"),
            _ => send(&String::from_utf8_lossy(&bytes[sent..sent + length])),
        }
        after_return = end == b'\r';
        sent += length + 1;
    }
    if matches!(flush, Flush::All) && sent < bytes.len() {
        send(&String::from_utf8_lossy(&bytes[sent..]));
        sent = bytes.len();
    }
    at + sent as u64
}

fn signal(running: &Running, signal: Signal) {
    if let Some(group) = running.group {
        let _ = kill_process_group(group, signal);
    }
}

pub(super) async fn interrupt(State(execd): State<Arc<Execd>>, Query(Id { id }): Query<Id>) -> Response {
    let Some(running) = execd.commands.get(&id) else {
        return refusal(
            StatusCode::INTERNAL_SERVER_ERROR,
            "RUNTIME_ERROR",
            "no such session",
        );
    };
    signal(&running, Signal::TERM);
    let is_gone = || {
        running
            .group
            .is_none_or(|group| test_kill_process_group(group).is_err())
    };
    for _ in 0..KILL_AFTER.as_millis() / 50 {
        if is_gone() {
            return StatusCode::OK.into_response();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    signal(&running, Signal::KILL);
    StatusCode::OK.into_response()
}

pub(super) async fn status(State(execd): State<Arc<Execd>>, Path(id): Path<String>) -> Response {
    let Some(running) = execd.commands.get(&id) else {
        return refusal(
            StatusCode::NOT_FOUND,
            "INVALID_REQUEST_BODY",
            format!("command not found: {id}"),
        );
    };
    let end = running.end.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut body = json!({
        "id": id, "content": running.content, "running": end.is_none(), "started_at": running.started_at,
    });
    if let Some(end) = end {
        body["exit_code"] = json!(end.exit_code);
        body["finished_at"] = json!(end.finished_at);
        if !end.error.is_empty() {
            body["error"] = json!(end.error);
        }
    }
    Json(body).into_response()
}

#[derive(Deserialize)]
pub(super) struct Cursor {
    #[serde(default)]
    cursor: u64,
}

/// The cursor counts bytes.
pub(super) async fn logs(
    State(execd): State<Arc<Execd>>,
    Path(id): Path<String>,
    Query(Cursor { cursor }): Query<Cursor>,
) -> Response {
    let running = execd.commands.get(&id).filter(|running| running.background);
    let Some(running) = running else {
        return refusal(
            StatusCode::NOT_FOUND,
            "INVALID_REQUEST_BODY",
            format!("no background command: {id}"),
        );
    };
    let all = std::fs::read(&running.output).unwrap_or_default();
    let rest = all.get(cursor as usize..).unwrap_or_default().to_vec();
    let mut headers = HeaderMap::new();
    headers.insert(
        "content-type",
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    headers.insert("EXECD-COMMANDS-TAIL-CURSOR", HeaderValue::from(all.len() as u64));
    (headers, rest).into_response()
}

#[allow(
    clippy::disallowed_methods,
    reason = "answers carry the time of the sandbox's clock"
)]
fn now() -> String {
    jiff::Timestamp::now().to_string()
}
