//! The lifecycle server of OpenSandbox: sandboxes that are pending, run, are paused, expire and are deleted.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Path, Query, RawQuery, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, patch, post};
use bytes::Bytes;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::front::forward;
use crate::server::{Entry, Server, now};

const EXECD_PORT: u16 = 44_772;
const TIMEOUT_MIN_SECONDS: i64 = 60;

pub(crate) fn router(server: &Arc<Server>) -> Router {
    let routes = Router::new()
        .route("/sandboxes", post(create).get(list))
        .route("/sandboxes/{id}", get(show).delete(remove))
        .route("/sandboxes/{id}/metadata", patch(patch_metadata))
        .route("/sandboxes/{id}/pause", post(pause))
        .route("/sandboxes/{id}/resume", post(resume))
        .route("/sandboxes/{id}/renew-expiration", post(renew))
        .route("/sandboxes/{id}/endpoints/{port}", get(endpoint))
        .route("/sandboxes/{id}/proxy/{port}/{*rest}", any(proxy))
        .route("/health", get(async || Json(json!({"status": "healthy"}))))
        .route("/version", get(async || Json(json!({"version": "1.1.1-double"}))));
    Router::new()
        .merge(routes.clone())
        .nest("/v1", routes)
        .layer(middleware::from_fn_with_state(Arc::clone(server), authorised))
        .layer(DefaultBodyLimit::disable())
        .with_state(Arc::clone(server))
}

async fn authorised(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let is_open = path.contains("/proxy/") || path.ends_with("/health") || path.ends_with("/version");
    let given = request
        .headers()
        .get("open-sandbox-api-key")
        .and_then(|key| key.to_str().ok());
    let refused = match (&server.options.key, given) {
        (None, _) => None,
        _ if is_open => None,
        (Some(key), Some(given)) if key == given => None,
        (Some(_), Some(_)) => Some("INVALID_API_KEY"),
        (Some(_), None) => Some("MISSING_API_KEY"),
    };
    let request_id = request.headers().get("x-request-id").cloned();
    let mut answer = match refused {
        Some(code) => error(
            StatusCode::UNAUTHORIZED,
            code,
            "Authentication credentials are missing or invalid",
        ),
        None => next.run(request).await,
    };
    if let Some(id) = request_id {
        answer.headers_mut().insert("x-request-id", id);
    }
    let date = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&now());
    if let Some(date) = date.ok().and_then(|date| date.parse().ok()) {
        answer.headers_mut().insert(header::DATE, date);
    }
    answer
}

fn error(status: StatusCode, code: &str, message: &str) -> Response {
    (status, Json(json!({"code": code, "message": message}))).into_response()
}

fn no_sandbox(id: &str) -> Response {
    let message = format!("Sandbox {id} not found");
    error(StatusCode::NOT_FOUND, "DOCKER::SANDBOX_NOT_FOUND", &message)
}

/// What is wrong with a request to create, in the validator's own shape.
fn invalid(body: &Value) -> Option<Value> {
    let mut detail = Vec::new();
    let mut wrong = |kind: &str, field: &str, message: &str| {
        detail.push(json!({"type": kind, "loc": ["body", field], "msg": message, "input": body[field]}));
    };
    if !body["resourceLimits"].is_object() {
        wrong("missing", "resourceLimits", "Field required");
    }
    if body["image"]["uri"].is_string() == body["snapshotId"].is_string() {
        wrong(
            "value_error",
            "image",
            "Exactly one of image or snapshotId must be provided",
        );
    }
    if body["image"]["uri"].is_string() && body["entrypoint"].as_array().is_none_or(Vec::is_empty) {
        wrong("missing", "entrypoint", "Field required");
    }
    if body["timeout"]
        .as_i64()
        .is_some_and(|timeout| timeout < TIMEOUT_MIN_SECONDS)
    {
        wrong(
            "greater_than_equal",
            "timeout",
            "Input should be greater than or equal to 60",
        );
    }
    (!detail.is_empty()).then_some(json!({"detail": detail}))
}

fn shown(entry: &Entry) -> Value {
    let mut shown = json!({
        "id": entry.id, "status": {"state": entry.state}, "metadata": entry.metadata,
        "createdAt": entry.created_at.to_string(), "entrypoint": entry.body["entrypoint"], "image": entry.body["image"],
    });
    if let Some(expires_at) = entry.expires_at {
        shown["expiresAt"] = json!(expires_at.to_string());
    }
    shown
}

async fn create(State(server): State<Arc<Server>>, body: Bytes) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    if let Some(detail) = invalid(&body) {
        return (StatusCode::UNPROCESSABLE_ENTITY, Json(detail)).into_response();
    }
    let id = server.create(body);
    let shown = server.lock().get(&id).map(shown);
    let location = [(header::LOCATION, format!("/v1/sandboxes/{id}"))];
    (StatusCode::ACCEPTED, location, Json(shown)).into_response()
}

async fn list(State(server): State<Arc<Server>>, query: RawQuery) -> Json<Value> {
    let pairs = url::form_urlencoded::parse(query.0.as_deref().unwrap_or_default().as_bytes());
    let pairs: Vec<(String, String)> = pairs.into_owned().collect();
    let one = |name: &str| {
        pairs
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    };
    let wanted: HashMap<String, String> =
        url::form_urlencoded::parse(one("metadata").unwrap_or_default().as_bytes())
            .into_owned()
            .collect();
    let states: Vec<&str> = pairs
        .iter()
        .filter(|(key, _)| key == "state")
        .map(|(_, value)| value.as_str())
        .collect();
    let number = |name: &str, default: usize| {
        one(name)
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
            .max(1)
    };
    let (page, size) = (number("page", 1), number("pageSize", 20));
    let sandboxes = server.lock();
    let found: Vec<&Entry> = sandboxes
        .values()
        .filter(|entry| states.is_empty() || states.contains(&entry.state))
        // A sandbox that is over is gone from the runtime that is asked for the list.
        .filter(|entry| entry.is_live() || states.contains(&entry.state))
        .filter(|entry| {
            wanted
                .iter()
                .all(|(key, value)| entry.metadata.get(key).and_then(Value::as_str) == Some(value))
        })
        .collect();
    let total = found.len();
    let items: Vec<Value> = found
        .into_iter()
        .skip((page - 1) * size)
        .take(size)
        .map(shown)
        .collect();
    Json(json!({"items": items, "pagination": {
        "page": page, "pageSize": size, "totalItems": total, "totalPages": total.div_ceil(size),
        "hasNextPage": page * size < total,
    }}))
}

async fn show(State(server): State<Arc<Server>>, Path(id): Path<String>) -> Response {
    match server.lock().get(&id) {
        Some(entry) if entry.is_live() || entry.state == "Failed" => {
            let mut shown = shown(entry);
            if let Some(reason) = entry.body["reason"].as_str() {
                shown["status"]["message"] = json!(reason);
            }
            Json(shown).into_response()
        }
        _ => no_sandbox(&id),
    }
}

async fn remove(State(server): State<Arc<Server>>, Path(id): Path<String>) -> Response {
    match server.remove(&id).await {
        true => StatusCode::NO_CONTENT.into_response(),
        false => no_sandbox(&id),
    }
}

async fn patch_metadata(
    State(server): State<Arc<Server>>,
    Path(id): Path<String>,
    Json(patch): Json<serde_json::Map<String, Value>>,
) -> Response {
    let mut sandboxes = server.lock();
    let Some(entry) = sandboxes.get_mut(&id).filter(|entry| entry.is_live()) else {
        return no_sandbox(&id);
    };
    for (key, value) in patch {
        match value {
            Value::Null => drop(entry.metadata.remove(&key)),
            value => drop(entry.metadata.insert(key, value)),
        }
    }
    Json(shown(entry)).into_response()
}

async fn pause(State(server): State<Arc<Server>>, Path(id): Path<String>) -> Response {
    switch(&server, &id, "Running", "Paused")
}

async fn resume(State(server): State<Arc<Server>>, Path(id): Path<String>) -> Response {
    switch(&server, &id, "Paused", "Running")
}

fn switch(server: &Server, id: &str, from: &'static str, to: &'static str) -> Response {
    match server.lock().get_mut(id) {
        Some(entry) if entry.state == from => {
            entry.state = to;
            StatusCode::ACCEPTED.into_response()
        }
        Some(entry) if entry.is_live() => {
            let message = format!("Sandbox is {}, expected {from}", entry.state);
            error(StatusCode::CONFLICT, "INVALID_STATE", &message)
        }
        _ => no_sandbox(id),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Renew {
    expires_at: String,
}

async fn renew(
    State(server): State<Arc<Server>>,
    Path(id): Path<String>,
    Json(renew): Json<Renew>,
) -> Response {
    let expires_at = renew
        .expires_at
        .parse::<Timestamp>()
        .ok()
        .filter(|at| *at > now());
    let Some(expires_at) = expires_at else {
        return error(
            StatusCode::BAD_REQUEST,
            "INVALID_EXPIRATION",
            "expiresAt must be in the future",
        );
    };
    match server.lock().get_mut(&id).filter(|entry| entry.is_live()) {
        Some(entry) => {
            entry.expires_at = Some(expires_at);
            Json(json!({"expiresAt": expires_at.to_string()})).into_response()
        }
        None => no_sandbox(&id),
    }
}

#[derive(Deserialize)]
struct EndpointQuery {
    #[serde(default)]
    use_server_proxy: bool,
}

/// Without a scheme, and with headers that every request has to carry.
async fn endpoint(
    State(server): State<Arc<Server>>,
    Path((id, port)): Path<(String, u16)>,
    Query(query): Query<EndpointQuery>,
) -> Response {
    let sandboxes = server.lock();
    let Some(entry) = sandboxes.get(&id).filter(|entry| entry.is_live()) else {
        return no_sandbox(&id);
    };
    let Some((front, _)) = &entry.front else {
        return error(
            StatusCode::NOT_FOUND,
            "KUBERNETES::POD_IP_NOT_AVAILABLE",
            "the sandbox has no endpoint yet",
        );
    };
    let endpoint = match query.use_server_proxy {
        true => format!("{}/sandboxes/{id}/proxy/{port}", server.address),
        false => format!("127.0.0.1:{front}"),
    };
    let mut body = json!({"endpoint": endpoint});
    if port == EXECD_PORT {
        body["headers"] = json!({"X-EXECD-ACCESS-TOKEN": entry.token});
    }
    Json(body).into_response()
}

async fn proxy(
    State(server): State<Arc<Server>>,
    Path((id, _, rest)): Path<(String, u16, String)>,
    request: Request<Body>,
) -> Response {
    let container = {
        let sandboxes = server.lock();
        let entry = sandboxes.get(&id).filter(|entry| entry.is_live());
        entry.and_then(|entry| entry.container.clone())
    };
    let Some(container) = container else {
        return no_sandbox(&id);
    };
    let query = request
        .uri()
        .query()
        .map(|query| format!("?{query}"))
        .unwrap_or_default();
    forward(&container.socket, &format!("/{rest}{query}"), request).await
}
