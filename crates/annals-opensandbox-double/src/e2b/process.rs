//! Processes: started by a stream that tells what they do, which they outlive.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::HeaderMap;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::connect::{self, refusal};
use super::envd::Envd;
use crate::body;
use crate::table::Table;

/// Seconds between signs of life, unless a client asks for others.
const KEEPALIVE_SECONDS: u64 = 90;
const PIECE_BYTES: usize = 32 << 10;

pub(super) type Processes = Table<Config>;

#[derive(Deserialize, Serialize)]
pub(super) struct Config {
    cmd: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    envs: BTreeMap<String, String>,
    #[serde(default)]
    cwd: Option<String>,
}

/// A client that hung up is not missed.
#[derive(Clone)]
struct Events(UnboundedSender<Bytes>);

impl Events {
    fn send(&self, event: Value) {
        let _ = self.0.send(connect::frame(&json!({"event": event})));
    }

    fn end(&self, error: Option<(&str, &str)>) {
        let _ = self.0.send(connect::end(error));
    }
}

fn header(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

pub(super) async fn start(State(envd): State<Arc<Envd>>, headers: HeaderMap, body: Bytes) -> Response {
    let request = connect::unframed(&body).unwrap_or_default();
    let (sender, receiver) = unbounded_channel();
    let events = Events(sender);
    match Config::deserialize(&request["process"]) {
        Ok(config) => launch(&envd, config, &headers, &events),
        Err(error) => events.end(Some(("invalid_argument", &error.to_string()))),
    }
    drop(events);
    body::frames("application/connect+json", receiver)
}

fn launch(envd: &Arc<Envd>, config: Config, headers: &HeaderMap, events: &Events) {
    let mut command = Command::new(&config.cmd);
    command.args(&config.args).envs(&config.envs);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(cwd) = &config.cwd {
        command.current_dir(cwd);
    }
    let child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return events.end(Some(("invalid_argument", &error.to_string()))),
    };
    let Some(pid) = child.id() else { return };
    events.send(json!({"start": {"pid": pid}}));
    envd.processes.insert(pid.to_string(), Arc::new(config));
    let terms = Terms {
        timeout: header(headers, "connect-timeout-ms").map(Duration::from_millis),
        keepalive: Duration::from_secs(
            header(headers, "keepalive-ping-interval").unwrap_or(KEEPALIVE_SECONDS),
        ),
    };
    let (envd, events) = (Arc::clone(envd), events.clone());
    tokio::spawn(async move {
        follow(child, &terms, &events).await;
        envd.processes.remove(&pid.to_string());
    });
}

struct Terms {
    timeout: Option<Duration>,
    keepalive: Duration,
}

async fn follow(mut child: Child, terms: &Terms, events: &Events) {
    let outputs = [
        child
            .stdout
            .take()
            .map(|pipe| tokio::spawn(pump("stdout", pipe, events.clone()))),
        child
            .stderr
            .take()
            .map(|pipe| tokio::spawn(pump("stderr", pipe, events.clone()))),
    ];
    let mut alive = tokio::time::interval(terms.keepalive.max(Duration::from_millis(100)));
    alive.reset();
    let deadline = tokio::time::sleep(terms.timeout.unwrap_or(Duration::from_secs(1 << 30)));
    tokio::pin!(deadline);
    let status = loop {
        tokio::select! {
            status = child.wait() => break status,
            _ = alive.tick() => events.send(json!({"keepalive": {}})),
            () = &mut deadline => {
                let _ = child.kill().await;
                return events.end(Some(("deadline_exceeded", "context deadline exceeded")));
            }
        }
    };
    for output in outputs.into_iter().flatten() {
        let _ = output.await;
    }
    events.send(json!({"end": ended(status)}));
    events.end(None);
}

async fn pump(name: &'static str, mut pipe: impl AsyncRead + Unpin, events: Events) {
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(length @ 1..) = pipe.read(&mut piece).await {
        events.send(json!({"data": {name: BASE64.encode(&piece[..length])}}));
    }
}

/// Zero and false are left out, as in every message of this protocol.
fn ended(status: std::io::Result<ExitStatus>) -> Value {
    match status.map(|status| (status.code(), status.signal())) {
        Ok((Some(0), _)) => json!({"exited": true, "status": "exit status 0"}),
        Ok((Some(code), _)) => {
            let status = format!("exit status {code}");
            json!({"exitCode": code, "exited": true, "status": status, "error": status})
        }
        Ok((None, signal)) => {
            let status = format!("signal: {}", signal.unwrap_or_default());
            json!({"exitCode": -1, "status": status, "error": status})
        }
        Err(error) => json!({"exitCode": -1, "error": error.to_string()}),
    }
}

pub(super) async fn list(State(envd): State<Arc<Envd>>) -> Json<Value> {
    let processes = envd.processes.all();
    let shown = processes.iter().map(|(pid, config)| {
        let pid: u32 = pid.parse().unwrap_or_default();
        json!({"pid": pid, "config": &**config})
    });
    Json(json!({"processes": shown.collect::<Vec<_>>()}))
}

pub(super) async fn signal(State(envd): State<Arc<Envd>>, Json(request): Json<Value>) -> Response {
    let pid = request["process"]["pid"].as_u64().unwrap_or_default();
    if envd.processes.get(&pid.to_string()).is_none() {
        return refusal("not_found", format!("process with pid {pid} not found"));
    }
    let signal = match request["signal"].as_str() {
        Some("SIGNAL_SIGTERM") => Signal::TERM,
        Some("SIGNAL_SIGKILL") => Signal::KILL,
        _ => return refusal("invalid_argument", "invalid signal"),
    };
    if let Some(pid) = Pid::from_raw(pid as i32) {
        let _ = kill_process(pid, signal);
    }
    Json(json!({})).into_response()
}
