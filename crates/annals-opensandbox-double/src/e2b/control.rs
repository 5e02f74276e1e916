//! The control plane, and the proxy in front of all sandboxes.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::extract::{DefaultBodyLimit, Path, Query, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::front::forward;
use crate::server::{Entry, Gap, Server, now};

const ENVD_VERSION: &str = "0.6.7";
/// An envd that has no account of its own.
const OLD_ENVD_VERSION: &str = "0.3.9";
/// `user:` as `Authorization` carries it.
const USER: &str = "Basic dXNlcjo=";
const PAGE_SIZE: usize = 100;

pub(crate) fn router(server: &Arc<Server>) -> Router {
    let mut router = Router::new()
        .route("/sandboxes", post(create).get(list))
        .route("/sandboxes/{id}", get(show).delete(remove))
        .route("/sandboxes/{id}/pause", post(pause));
    if !server.lacks(Gap::PagedList) {
        router = router.route("/v2/sandboxes", post(create).get(list));
    }
    if !server.lacks(Gap::Connect) {
        router = router
            .route("/sandboxes/{id}/connect", post(connect))
            .route("/v2/sandboxes/{id}/connect", post(connect));
    }
    if !server.lacks(Gap::Timeout) {
        router = router.route("/sandboxes/{id}/timeout", post(timeout));
    }
    router
        .layer(middleware::from_fn_with_state(Arc::clone(server), authorised))
        .with_state(Arc::clone(server))
}

/// Refusals have the status once more as a number.
fn refusal(status: StatusCode, message: impl Into<String>) -> Response {
    let body = json!({"code": status.as_u16(), "message": message.into()});
    (status, Json(body)).into_response()
}

fn no_sandbox(id: &str) -> Response {
    refusal(
        StatusCode::NOT_FOUND,
        format!("Sandbox \"{id}\" doesn't exist or you don't have access to it"),
    )
}

async fn authorised(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response {
    let given = request
        .headers()
        .get("x-api-key")
        .and_then(|key| key.to_str().ok());
    match (&server.options.key, given) {
        (Some(key), Some(given)) if key != given => refusal(
            StatusCode::UNAUTHORIZED,
            "Invalid API key, please visit the API reference page for more information.",
        ),
        (Some(_), None) => refusal(
            StatusCode::UNAUTHORIZED,
            "Missing authorization header in the API request",
        ),
        _ => next.run(request).await,
    }
}

/// What is told to somebody who is to use a sandbox.
fn access(server: &Server, entry: &Entry) -> Value {
    let version = match server.lacks(Gap::Account) {
        true => OLD_ENVD_VERSION,
        false => ENVD_VERSION,
    };
    json!({
        "templateID": entry.body["templateID"], "sandboxID": entry.id, "clientID": "double", "alias": "base",
        "envdVersion": version, "envdAccessToken": entry.token, "domain": null,
    })
}

fn shown(server: &Server, entry: &Entry) -> Value {
    let mut shown = access(server, entry);
    let state = if entry.state == "Paused" {
        "paused"
    } else {
        "running"
    };
    let told = json!({
        "state": state, "metadata": entry.metadata, "cpuCount": 2, "memoryMB": 512, "diskSizeMB": 1024,
        "startedAt": entry.created_at.to_string(), "endAt": entry.expires_at.unwrap_or_default().to_string(),
    });
    if let (Some(shown), Value::Object(told)) = (shown.as_object_mut(), told) {
        shown.extend(told);
    }
    shown
}

/// Answers when the sandbox can be used.
async fn create(State(server): State<Arc<Server>>, body: Bytes) -> Response {
    let mut body: Value = serde_json::from_slice(&body).unwrap_or_default();
    if !body["templateID"].is_string() {
        return refusal(
            StatusCode::BAD_REQUEST,
            "Error when parsing request: templateID is missing",
        );
    }
    if body["timeout"].is_null() {
        body["timeout"] = json!(15);
    }
    let id = server.create(body);
    if !server.is_up(&id).await {
        return refusal(StatusCode::INTERNAL_SERVER_ERROR, "Failed to place sandbox");
    }
    let made = server.lock().get(&id).map(|entry| access(&server, entry));
    (StatusCode::CREATED, Json(made)).into_response()
}

/// Pages are as long as asked for; the rest is at a token, which is a header.
async fn list(State(server): State<Arc<Server>>, Query(query): Query<HashMap<String, String>>) -> Response {
    let text = |name: &str| query.get(name).map_or("", String::as_str);
    let wanted: HashMap<String, String> = url::form_urlencoded::parse(text("metadata").as_bytes())
        .into_owned()
        .collect();
    let (from, limit) = (
        text("nextToken").parse().unwrap_or(0),
        text("limit").parse().unwrap_or(PAGE_SIZE).clamp(1, PAGE_SIZE),
    );
    let sandboxes = server.lock();
    let is_wanted = |entry: &&Entry| {
        let has =
            |(key, value): (&String, &String)| entry.metadata.get(key).and_then(Value::as_str) == Some(value);
        entry.is_live() && (server.lacks(Gap::Filter) || wanted.iter().all(has))
    };
    let found: Vec<Value> = sandboxes
        .values()
        .filter(is_wanted)
        .map(|entry| shown(&server, entry))
        .collect();
    let page: Vec<&Value> = found.iter().skip(from).take(limit).collect();
    let mut answer = Json(json!(page)).into_response();
    if from + limit < found.len() {
        answer.headers_mut().insert("x-next-token", (from + limit).into());
    }
    answer
}

async fn show(State(server): State<Arc<Server>>, Path(id): Path<String>) -> Response {
    match server.lock().get(&id).filter(|entry| entry.is_live()) {
        Some(entry) => Json(shown(&server, entry)).into_response(),
        None => no_sandbox(&id),
    }
}

async fn remove(State(server): State<Arc<Server>>, Path(id): Path<String>) -> Response {
    match server.remove(&id).await {
        true => StatusCode::NO_CONTENT.into_response(),
        false => no_sandbox(&id),
    }
}

#[derive(Deserialize)]
struct Life {
    #[serde(default)]
    timeout: Option<i64>,
}

/// Wakes a sandbox that sleeps; one that runs lives no shorter than before.
async fn connect(
    State(server): State<Arc<Server>>,
    Path(id): Path<String>,
    Json(life): Json<Life>,
) -> Response {
    let mut sandboxes = server.lock();
    let Some(entry) = sandboxes.get_mut(&id).filter(|entry| entry.is_live()) else {
        return no_sandbox(&id);
    };
    let until = life
        .timeout
        .map(|seconds| now() + SignedDuration::from_secs(seconds));
    entry.expires_at = entry.expires_at.max(until);
    let was_paused = entry.state == "Paused";
    if was_paused {
        entry.state = "Running";
    }
    let status = if was_paused {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    (status, Json(access(&server, entry))).into_response()
}

async fn timeout(
    State(server): State<Arc<Server>>,
    Path(id): Path<String>,
    Json(life): Json<Life>,
) -> Response {
    match server.lock().get_mut(&id).filter(|entry| entry.is_live()) {
        Some(entry) => {
            let seconds = life.timeout.unwrap_or(15);
            entry.expires_at = Some(now() + SignedDuration::from_secs(seconds));
            StatusCode::NO_CONTENT.into_response()
        }
        None => no_sandbox(&id),
    }
}

async fn pause(State(server): State<Arc<Server>>, Path(id): Path<String>) -> Response {
    match server.lock().get_mut(&id).filter(|entry| entry.is_live()) {
        Some(entry) if entry.state == "Paused" => refusal(
            StatusCode::CONFLICT,
            format!("Sandbox \"{id}\" is already paused"),
        ),
        Some(entry) => {
            entry.state = "Paused";
            StatusCode::NO_CONTENT.into_response()
        }
        None => no_sandbox(&id),
    }
}

/// The sandbox that a request to the proxy is for.
pub(crate) fn named(headers: &HeaderMap) -> Option<&str> {
    headers.get("e2b-sandbox-id").and_then(|id| id.to_str().ok())
}

/// The proxy: a sandbox that is not there, or does not listen, is a bad gateway.
pub(crate) fn sandboxes(server: &Arc<Server>) -> Router {
    Router::new()
        .fallback(proxy)
        .layer(DefaultBodyLimit::disable())
        .with_state(Arc::clone(server))
}

async fn proxy(State(server): State<Arc<Server>>, request: Request) -> Response {
    let id = named(request.headers()).unwrap_or_default().to_owned();
    let container = {
        let sandboxes = server.lock();
        match sandboxes.get(&id).filter(|entry| entry.is_live()) {
            Some(entry) if entry.state == "Paused" => None,
            Some(entry) => Some(entry.container.clone()),
            None => None,
        }
    };
    let bad = |message: &str| {
        let body = json!({"sandboxId": id, "message": message, "code": 502});
        (StatusCode::BAD_GATEWAY, Json(body)).into_response()
    };
    let container = match container {
        None => return bad("The sandbox was not found"),
        Some(None) => return bad("The sandbox is running but port is not open"),
        Some(Some(container)) => container,
    };
    let is_health = request.uri().path() == "/health";
    let account = request.headers().get(http::header::AUTHORIZATION);
    if server.lacks(Gap::Account) && !is_health && account.is_none_or(|account| account != USER) {
        return refusal(StatusCode::UNAUTHORIZED, "no user specified");
    }
    let path = request.uri().path_and_query();
    let path = path.map_or("/".to_owned(), ToString::to_string);
    forward(&container.socket, &path, request).await
}
