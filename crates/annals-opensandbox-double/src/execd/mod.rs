//! execd: commands, code and files of the sandbox that it runs in.

mod code;
mod commands;
mod files;
mod hidden;

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use serde::Deserialize;
use serde_json::json;

/// What all requests share.
struct Execd {
    token: String,
    /// The search path of commands, if not that of this process.
    path: Option<String>,
    commands: commands::Commands,
    contexts: code::Contexts,
}

#[derive(Deserialize)]
struct Id {
    #[serde(default)]
    id: String,
}

/// An empty token lets everybody in.
pub(crate) fn router(token: String) -> Router {
    let execd = Arc::new(Execd {
        token,
        path: hidden::search_path(),
        commands: commands::Commands::default(),
        contexts: code::Contexts::default(),
    });
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

/// The first argument of a process that is execd.
pub(crate) const ROLE: &str = "opensandbox-double-execd";
