//! execd: commands, code and files of the sandbox that it runs in.

mod code;
mod commands;
mod files;

use std::path::PathBuf;
use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use serde_json::json;
use tokio::net::UnixListener;

/// What all requests share.
struct Execd {
    token: String,
    commands: commands::Commands,
    contexts: code::Contexts,
}

/// Serves execd on a socket until the process is killed. An empty token lets everybody in.
async fn serve(socket: PathBuf, token: String) -> std::io::Result<()> {
    let listener = UnixListener::bind(socket)?;
    let execd = Arc::new(Execd {
        token,
        commands: commands::Commands::default(),
        contexts: code::Contexts::default(),
    });
    axum::serve(listener, router(execd)).await
}

fn router(execd: Arc<Execd>) -> Router {
    Router::new()
        .route("/ping", get(async || StatusCode::OK))
        .route("/command", post(commands::run).delete(commands::interrupt))
        .route("/command/status/{id}", get(commands::status))
        .route("/command/{id}/logs", get(commands::logs))
        .route("/code", post(code::run).delete(code::interrupt))
        .route("/code/context", post(code::create))
        .route("/code/contexts", get(code::list))
        .route("/code/contexts/{id}", get(code::show).delete(code::remove))
        .route("/files/info", get(files::info))
        .route("/files", delete(files::remove))
        .route("/files/permissions", post(files::permissions))
        .route("/files/mv", post(files::rename))
        .route("/files/search", get(files::search))
        .route("/files/replace", post(files::replace))
        .route("/files/upload", post(files::upload))
        .route("/files/download", get(files::download))
        .route("/directories/list", get(files::list))
        .route(
            "/directories",
            post(files::make_directories).delete(files::remove_directories),
        )
        .route("/metrics", get(metrics))
        .layer(middleware::from_fn_with_state(Arc::clone(&execd), authorised))
        .layer(DefaultBodyLimit::disable())
        .with_state(execd)
}

async fn authorised(State(execd): State<Arc<Execd>>, request: Request, next: Next) -> Response {
    let given = request
        .headers()
        .get("x-execd-access-token")
        .and_then(|value| value.to_str().ok());
    if !execd.token.is_empty() && given != Some(&execd.token) {
        // Another shape than all other refusals.
        let body = json!({"error": "Unauthorized: invalid or missing header X-EXECD-ACCESS-TOKEN"});
        return (StatusCode::UNAUTHORIZED, Json(body)).into_response();
    }
    next.run(request).await
}

async fn metrics() -> Json<serde_json::Value> {
    Json(json!({
        "cpu_count": 1.0, "cpu_used_pct": 0.0, "mem_total_mib": 2048.0, "mem_used_mib": 100.0, "timestamp": now_ms(),
    }))
}

/// A refusal in the usual shape.
fn refusal(status: StatusCode, code: &str, message: impl Into<String>) -> Response {
    (status, Json(json!({"code": code, "message": message.into()}))).into_response()
}

#[allow(
    clippy::disallowed_methods,
    reason = "events carry the time of the sandbox's clock"
)]
fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// Makes a test program play execd when a double starts it so: to be called before `main`, behind the launcher's own
/// `init` (see `annals_sandbox::helpers_in_tests`). Returns at once in any other process.
pub fn play_in_tests() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [role, socket, token] = arguments.as_slice() else {
        return;
    };
    if role != ROLE {
        return;
    }
    // SAFETY: no other thread runs yet, and ignoring a signal installs no code. Before `main` nothing has done it.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let served = runtime.and_then(|runtime| runtime.block_on(serve(socket.into(), token.clone())));
    std::process::exit(i32::from(served.is_err()));
}

/// The first argument of a process that is execd.
pub(crate) const ROLE: &str = "opensandbox-double-execd";
