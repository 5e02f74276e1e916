//! The lifecycle server: sandboxes that are pending, run, are paused, expire and are deleted.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Path, Query, RawQuery, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, patch, post};
use bytes::Bytes;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use crate::container::Container;
use crate::faults::{Faults, Service};
use crate::front::{self, Front, Kill, forward};

const EXECD_PORT: u16 = 44_772;
const TIMEOUT_MIN_SECONDS: i64 = 60;

/// How a double is set up.
#[derive(Debug, Clone)]
pub struct DoubleOptions {
    /// Where the server listens.
    pub listen: String,
    /// The key that it asks for, if any.
    pub key: Option<String>,
    /// The program that is execd inside: one that calls [`play_in_tests`](crate::play_in_tests), by default this one.
    pub program: PathBuf,
    /// How long a sandbox is pending.
    pub pending: Duration,
}

impl Default for DoubleOptions {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:0".to_owned(),
            key: None,
            program: std::env::current_exe().unwrap_or_default(),
            pending: Duration::from_millis(20),
        }
    }
}

/// A running double. Everything ends when it is dropped.
pub struct Double {
    server: Arc<Server>,
    _serving: AbortOnDropHandle<()>,
    _expiry: AbortOnDropHandle<()>,
}

struct Server {
    options: DoubleOptions,
    address: std::net::SocketAddr,
    faults: Faults,
    sandboxes: Mutex<BTreeMap<String, Entry>>,
    created: AtomicU64,
}

struct Entry {
    id: String,
    state: &'static str,
    body: Value,
    metadata: serde_json::Map<String, Value>,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    token: String,
    container: Option<Arc<Container>>,
    front: Option<(u16, AbortOnDropHandle<()>)>,
}

impl Double {
    /// Starts the server.
    pub async fn start(options: DoubleOptions) -> std::io::Result<Self> {
        let listener = TcpListener::bind(&options.listen).await?;
        let server = Arc::new(Server {
            options,
            address: listener.local_addr()?,
            faults: Faults::default(),
            sandboxes: Mutex::default(),
            created: AtomicU64::new(0),
        });
        let front = Front {
            service: Service::Lifecycle,
            router: router(&server),
            faults: server.faults.clone(),
            kill: server.killer(),
        };
        let serving = AbortOnDropHandle::new(tokio::spawn(front::serve(listener, front)));
        let expiry = AbortOnDropHandle::new(tokio::spawn(expire(Arc::clone(&server))));
        Ok(Self {
            server,
            _serving: serving,
            _expiry: expiry,
        })
    }

    /// The server's address.
    pub fn url(&self) -> String {
        format!("http://{}", self.server.address)
    }

    /// The switchboard.
    pub fn faults(&self) -> &Faults {
        &self.server.faults
    }

    /// Ids of sandboxes that are not over.
    pub fn live(&self) -> Vec<String> {
        self.server
            .lock()
            .values()
            .filter(|entry| entry.is_live())
            .map(|entry| entry.id.clone())
            .collect()
    }

    /// How many sandboxes were ever made.
    pub fn created(&self) -> u64 {
        self.server.created.load(Ordering::Relaxed)
    }

    /// Kills a sandbox as a node that dies does: the server has it no more.
    pub fn kill(&self, id: &str) {
        self.server.end(id, "Terminated");
    }

    /// Pauses a sandbox behind its owner's back.
    pub fn pause(&self, id: &str) {
        if let Some(entry) = self.server.lock().get_mut(id) {
            entry.state = "Paused";
        }
    }

    /// When a sandbox expires, in seconds since the epoch.
    pub fn expires_at(&self, id: &str) -> Option<i64> {
        self.server.lock().get(id)?.expires_at.map(Timestamp::as_second)
    }

    /// Lets a sandbox expire now.
    pub fn expire(&self, id: &str) {
        if let Some(entry) = self.server.lock().get_mut(id) {
            entry.expires_at = Some(Timestamp::UNIX_EPOCH);
        }
    }

    /// A value of a sandbox's metadata.
    pub fn metadata(&self, id: &str, key: &str) -> Option<String> {
        let sandboxes = self.server.lock();
        sandboxes.get(id)?.metadata.get(key)?.as_str().map(str::to_owned)
    }

    /// Changes a value of a sandbox's metadata.
    pub fn set_metadata(&self, id: &str, key: &str, value: &str) {
        if let Some(entry) = self.server.lock().get_mut(id) {
            entry.metadata.insert(key.to_owned(), json!(value));
        }
    }
}

impl Drop for Double {
    fn drop(&mut self) {
        for entry in self.server.lock().values_mut() {
            entry.stop();
        }
    }
}

impl Entry {
    fn is_live(&self) -> bool {
        !matches!(self.state, "Terminated" | "Failed" | "Stopping")
    }

    fn stop(&mut self) {
        self.front = None;
        if let (Some(container), Ok(runtime)) = (self.container.take(), tokio::runtime::Handle::try_current())
        {
            runtime.spawn(async move { container.kill().await });
        }
    }

    fn shown(&self) -> Value {
        let mut shown = json!({
            "id": self.id, "status": {"state": self.state}, "metadata": self.metadata,
            "createdAt": self.created_at.to_string(), "entrypoint": self.body["entrypoint"], "image": self.body["image"],
        });
        if let Some(expires_at) = self.expires_at {
            shown["expiresAt"] = json!(expires_at.to_string());
        }
        shown
    }
}

impl Server {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gone from the server, as after `DELETE`.
    fn end(&self, id: &str, state: &'static str) {
        if let Some(entry) = self.lock().get_mut(id) {
            entry.state = state;
            entry.stop();
        }
    }

    /// Kills the sandbox whose execd listens at the port, or that a path names.
    fn killer(self: &Arc<Self>) -> Kill {
        let server = Arc::downgrade(self);
        Arc::new(move |path| {
            let Some(server) = server.upgrade() else { return };
            let named = server
                .lock()
                .keys()
                .find(|id| path.contains(id.as_str()))
                .cloned();
            if let Some(id) = named {
                server.end(&id, "Terminated");
            }
        })
    }

    fn killer_of(self: &Arc<Self>, id: String) -> Kill {
        let server = Arc::downgrade(self);
        Arc::new(move |_| {
            if let Some(server) = server.upgrade() {
                server.end(&id, "Terminated");
            }
        })
    }
}

async fn expire(server: Arc<Server>) {
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = now();
        for entry in server.lock().values_mut().filter(|entry| entry.is_live()) {
            let is_dead = entry
                .container
                .as_ref()
                .is_some_and(|container| container.is_over());
            if is_dead || entry.expires_at.is_some_and(|at| at <= now) {
                entry.state = "Terminated";
                entry.stop();
            }
        }
    }
}

fn router(server: &Arc<Server>) -> Router {
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

async fn create(State(server): State<Arc<Server>>, body: Bytes) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    if let Some(detail) = invalid(&body) {
        return (StatusCode::UNPROCESSABLE_ENTITY, Json(detail)).into_response();
    }
    let number = server.created.fetch_add(1, Ordering::Relaxed);
    let id = format!("sbx-{}-{number:06}", server.address.port());
    let created_at = now();
    let entry = Entry {
        id: id.clone(),
        state: "Pending",
        metadata: body["metadata"].as_object().cloned().unwrap_or_default(),
        expires_at: body["timeout"]
            .as_i64()
            .map(|seconds| created_at + jiff::SignedDuration::from_secs(seconds)),
        created_at,
        token: format!("token-of-{id}"),
        container: None,
        front: None,
        body,
    };
    let shown = entry.shown();
    server.lock().insert(id.clone(), entry);
    tokio::spawn(start(Arc::clone(&server), id.clone()));
    let location = [(header::LOCATION, format!("/v1/sandboxes/{id}"))];
    (StatusCode::ACCEPTED, location, Json(shown)).into_response()
}

async fn start(server: Arc<Server>, id: String) {
    tokio::time::sleep(server.options.pending).await;
    let Some((token, env)) = server.lock().get(&id).map(|entry| {
        let env = serde_json::from_value(entry.body["env"].clone()).unwrap_or_default();
        (entry.token.clone(), env)
    }) else {
        return;
    };
    let container = Container::start(&id, &server.options.program, &token, &env).await;
    let listener = TcpListener::bind("127.0.0.1:0").await;
    let (container, listener) = match (container, listener) {
        (Ok(container), Ok(listener)) => (Arc::new(container), listener),
        (Err(reason), _) => return fail(&server, &id, &reason),
        (_, Err(error)) => return fail(&server, &id, &error.to_string()),
    };
    let port = listener.local_addr().map_or(0, |address| address.port());
    let socket = container.socket.clone();
    let front = Front {
        service: Service::Execd,
        router: Router::new().fallback(move |request: Request| {
            let socket = socket.clone();
            async move {
                let path = request
                    .uri()
                    .path_and_query()
                    .map_or("/".to_owned(), ToString::to_string);
                forward(&socket, &path, request).await
            }
        }),
        faults: server.faults.clone(),
        kill: server.killer_of(id.clone()),
    };
    let serving = AbortOnDropHandle::new(tokio::spawn(front::serve(listener, front)));
    let mut sandboxes = server.lock();
    match sandboxes.get_mut(&id) {
        Some(entry) if entry.is_live() => {
            entry.state = "Running";
            entry.container = Some(container);
            entry.front = Some((port, serving));
        }
        // Deleted while it started.
        _ => drop(tokio::spawn(async move { container.kill().await })),
    }
}

fn fail(server: &Server, id: &str, reason: &str) {
    if let Some(entry) = server.lock().get_mut(id) {
        entry.state = "Failed";
        entry.body["reason"] = json!(reason);
    }
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
        .map(Entry::shown)
        .collect();
    Json(json!({"items": items, "pagination": {
        "page": page, "pageSize": size, "totalItems": total, "totalPages": total.div_ceil(size),
        "hasNextPage": page * size < total,
    }}))
}

async fn show(State(server): State<Arc<Server>>, Path(id): Path<String>) -> Response {
    match server.lock().get(&id) {
        Some(entry) if entry.is_live() || entry.state == "Failed" => {
            let mut shown = entry.shown();
            if let Some(reason) = entry.body["reason"].as_str() {
                shown["status"]["message"] = json!(reason);
            }
            Json(shown).into_response()
        }
        _ => no_sandbox(&id),
    }
}

async fn remove(State(server): State<Arc<Server>>, Path(id): Path<String>) -> Response {
    let container = match server.lock().get_mut(&id) {
        Some(entry) if entry.is_live() => {
            entry.state = "Terminated";
            entry.front = None;
            entry.container.take()
        }
        _ => return no_sandbox(&id),
    };
    if let Some(container) = container {
        container.kill().await;
    }
    StatusCode::NO_CONTENT.into_response()
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
    Json(entry.shown()).into_response()
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
    headers: HeaderMap,
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
    drop(headers);
    forward(&container.socket, &format!("/{rest}{query}"), request).await
}

#[allow(clippy::disallowed_methods, reason = "the server has a clock of its own")]
fn now() -> Timestamp {
    Timestamp::now()
}
