//! Code in contexts. Python only: a kernel is a Python process that keeps its names between runs.

use std::process::Stdio;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::commands::{EventSender, next_id, stream};
use super::{Execd, Id, refusal};
use crate::table::Table;

pub(super) type Contexts = Table<Context>;

pub(super) struct Context {
    language: String,
    pid: Option<Pid>,
    /// Held while code runs.
    kernel: tokio::sync::Mutex<Kernel>,
}

struct Kernel {
    _child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

#[derive(Deserialize)]
pub(super) struct CreateContext {
    language: String,
    #[serde(default)]
    cwd: Option<String>,
}

#[derive(Deserialize)]
struct RunCode {
    code: String,
    #[serde(default)]
    context: ContextRef,
}

#[derive(Default, Deserialize)]
struct ContextRef {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    language: Option<String>,
}

fn not_found(id: &str) -> Response {
    refusal(
        StatusCode::NOT_FOUND,
        "CONTEXT_NOT_FOUND",
        format!("context {id} not found"),
    )
}

pub(super) async fn create(State(execd): State<Arc<Execd>>, Json(request): Json<CreateContext>) -> Response {
    match open(&execd, &request.language, request.cwd.as_deref()) {
        Ok(id) => Json(json!({"id": id, "language": request.language})).into_response(),
        Err(refused) => *refused,
    }
}

fn open(execd: &Execd, language: &str, cwd: Option<&str>) -> Result<String, Box<Response>> {
    let failed = |why: String| Box::new(refusal(StatusCode::INTERNAL_SERVER_ERROR, "RUNTIME_ERROR", why));
    if language != "python" {
        return Err(failed(format!("unsupported language: {language}")));
    }
    let mut command = Command::new("python3");
    command
        .args(["-u", "-c", include_str!("kernel.py")])
        .kill_on_drop(true);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if let Some(cwd) = cwd {
        command.current_dir(cwd);
    }
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(failed("the kernel has no pipes".to_owned()));
    };
    let context = Context {
        language: language.to_owned(),
        pid: child.id().and_then(|pid| Pid::from_raw(pid as i32)),
        kernel: tokio::sync::Mutex::new(Kernel {
            _child: child,
            stdin,
            stdout: BufReader::new(stdout).lines(),
        }),
    };
    let id = next_id();
    execd.contexts.insert(id.clone(), Arc::new(context));
    Ok(id)
}

pub(super) async fn run(State(execd): State<Arc<Execd>>, body: Bytes) -> Response {
    let request: RunCode = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => return refusal(StatusCode::BAD_REQUEST, "INVALID_REQUEST_BODY", error.to_string()),
    };
    let id = match (request.context.id, request.context.language) {
        (Some(id), _) if !id.is_empty() => id,
        (_, language) => match open(&execd, language.as_deref().unwrap_or("python"), None) {
            Ok(id) => id,
            Err(refused) => return *refused,
        },
    };
    let Some(context) = execd.contexts.get(&id) else {
        return not_found(&id);
    };
    let (events, receiver) = EventSender::channel();
    tokio::spawn(async move {
        events.text("init", &id);
        let Ok(mut kernel) = context.kernel.try_lock() else {
            // Without a type, and without the blank line behind it.
            let busy = json!({"code": "RUNTIME_ERROR", "message": "error running codes session is busy"});
            return events.raw(busy.to_string());
        };
        events.text("ping", "pong");
        kernel.run(&request.code, &events).await;
    });
    stream(receiver)
}

impl Kernel {
    /// `execution_complete` comes before the output that ends with it, as on a real execd.
    async fn run(&mut self, code: &str, events: &EventSender) {
        let line = format!("{}\n", json!(code));
        if self.stdin.write_all(line.as_bytes()).await.is_err() {
            return;
        }
        let mut last: Vec<Value> = Vec::new();
        while let Ok(Some(line)) = self.stdout.next_line().await {
            let Ok(event) = serde_json::from_str::<Value>(&line) else {
                continue;
            };
            if event["type"] == "idle" {
                break;
            }
            last.push(event);
        }
        events.send(json!({"type": "execution_count", "execution_count": 1}));
        events.send(json!({"type": "execution_complete", "execution_time": 1}));
        last.into_iter().for_each(|event| events.send(event));
    }
}

pub(super) async fn interrupt(State(execd): State<Arc<Execd>>, Query(Id { id }): Query<Id>) -> Response {
    let Some(context) = execd.contexts.get(&id) else {
        return not_found(&id);
    };
    if let Some(pid) = context.pid {
        let _ = kill_process(pid, Signal::INT);
    }
    StatusCode::OK.into_response()
}

pub(super) async fn list(State(execd): State<Arc<Execd>>) -> Json<Value> {
    let contexts = execd.contexts.all();
    let shown = contexts
        .iter()
        .map(|(id, context)| json!({"id": id, "language": context.language}));
    Json(shown.collect())
}

pub(super) async fn show(State(execd): State<Arc<Execd>>, Path(id): Path<String>) -> Response {
    match execd.contexts.get(&id) {
        Some(context) => Json(json!({"id": id, "language": context.language})).into_response(),
        None => not_found(&id),
    }
}

pub(super) async fn remove(State(execd): State<Arc<Execd>>, Path(id): Path<String>) -> Response {
    let Some(context) = execd.contexts.remove(&id) else {
        return not_found(&id);
    };
    if let Some(pid) = context.pid {
        let _ = kill_process(pid, Signal::KILL);
    }
    StatusCode::OK.into_response()
}
