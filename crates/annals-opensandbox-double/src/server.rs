//! The server behind either wire: its sandboxes, their lives and ends.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::net::{TcpListener, UnixStream};
use tokio_util::task::AbortOnDropHandle;

use crate::container::Container;
use crate::faults::{Faults, Service};
use crate::front::{self, Front, Kill, forward};
use crate::{e2b, execd, lifecycle};

/// Which protocol a double speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wire {
    /// OpenSandbox: a lifecycle server, and an execd at an address of its own in each sandbox.
    #[default]
    OpenSandbox,
    /// E2B: a control plane, and one address for the envd of all sandboxes.
    E2b,
}

/// What a server lacks of E2B's protocol, of which many implement a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    /// The second edition of the list, which has pages.
    PagedList,
    /// Connecting, which wakes a sandbox and says how it is reached.
    Connect,
    /// Setting how long a sandbox lives.
    Timeout,
    /// Listing by metadata: all sandboxes are listed.
    Filter,
    /// An account of its own: an old envd wants to be told as whom things run.
    Account,
}

/// How a double is set up.
#[derive(Debug, Clone)]
pub struct DoubleOptions {
    /// The protocol that it speaks.
    pub wire: Wire,
    /// Where the server listens.
    pub listen: String,
    /// The key that it asks for, if any.
    pub key: Option<String>,
    /// The program that is the service inside: one that calls [`play_in_tests`](crate::play_in_tests), by default this one.
    pub program: PathBuf,
    /// How long a sandbox is pending.
    pub pending: Duration,
    /// What it lacks of E2B's protocol.
    pub gaps: &'static [Gap],
}

impl Default for DoubleOptions {
    fn default() -> Self {
        Self {
            wire: Wire::default(),
            listen: "127.0.0.1:0".to_owned(),
            key: None,
            program: std::env::current_exe().unwrap_or_default(),
            pending: Duration::from_millis(20),
            gaps: &[],
        }
    }
}

/// A running double. Everything ends when it is dropped.
pub struct Double {
    server: Arc<Server>,
    _serving: Vec<AbortOnDropHandle<()>>,
    _expiry: AbortOnDropHandle<()>,
}

pub(crate) struct Server {
    pub(crate) options: DoubleOptions,
    pub(crate) address: std::net::SocketAddr,
    /// Where all sandboxes are reached, if they have no addresses of their own.
    sandbox_address: std::net::SocketAddr,
    faults: Faults,
    sandboxes: Mutex<BTreeMap<String, Entry>>,
    created: AtomicU64,
}

pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) state: &'static str,
    pub(crate) body: Value,
    pub(crate) metadata: serde_json::Map<String, Value>,
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) token: String,
    pub(crate) container: Option<Arc<Container>>,
    pub(crate) front: Option<(u16, AbortOnDropHandle<()>)>,
}

impl Double {
    /// Starts the server.
    pub async fn start(options: DoubleOptions) -> std::io::Result<Self> {
        let listener = TcpListener::bind(&options.listen).await?;
        let sandboxes = TcpListener::bind("127.0.0.1:0").await?;
        let server = Arc::new(Server {
            address: listener.local_addr()?,
            sandbox_address: sandboxes.local_addr()?,
            options,
            faults: Faults::default(),
            sandboxes: Mutex::default(),
            created: AtomicU64::new(0),
        });
        let serve = |listener, service, router| {
            let front = Front {
                service,
                router,
                faults: server.faults.clone(),
                kill: server.killer(),
            };
            AbortOnDropHandle::new(tokio::spawn(front::serve(listener, front)))
        };
        let serving = match server.options.wire {
            Wire::OpenSandbox => vec![serve(listener, Service::Control, lifecycle::router(&server))],
            Wire::E2b => vec![
                serve(listener, Service::Control, e2b::control::router(&server)),
                serve(sandboxes, Service::Daemon, e2b::control::sandboxes(&server)),
            ],
        };
        let expiry = AbortOnDropHandle::new(tokio::spawn(expire(Arc::clone(&server))));
        Ok(Self {
            server,
            _serving: serving,
            _expiry: expiry,
        })
    }

    /// The protocol that it speaks.
    pub fn wire(&self) -> Wire {
        self.server.options.wire
    }

    /// The server's address.
    pub fn url(&self) -> String {
        format!("http://{}", self.server.address)
    }

    /// Where sandboxes of a wire that gives them no addresses of their own are reached.
    pub fn sandbox_url(&self) -> String {
        format!("http://{}", self.server.sandbox_address)
    }

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

    /// The port at which a sandbox that has an address of its own is reached.
    pub fn port(&self, id: &str) -> Option<u16> {
        let sandboxes = self.server.lock();
        sandboxes.get(id)?.front.as_ref().map(|(port, _)| *port)
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

    /// What a sandbox was asked for with.
    pub fn asked(&self, id: &str) -> Option<Value> {
        self.server.lock().get(id).map(|entry| entry.body.clone())
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
    pub(crate) fn is_live(&self) -> bool {
        !matches!(self.state, "Terminated" | "Failed" | "Stopping")
    }

    fn stop(&mut self) {
        self.front = None;
        if let (Some(container), Ok(runtime)) = (self.container.take(), tokio::runtime::Handle::try_current())
        {
            runtime.spawn(async move { container.kill().await });
        }
    }
}

impl Server {
    pub(crate) fn lacks(&self, gap: Gap) -> bool {
        self.options.gaps.contains(&gap)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gone from the server, as after `DELETE`.
    fn end(&self, id: &str, state: &'static str) {
        if let Some(entry) = self.lock().get_mut(id) {
            entry.state = state;
            entry.stop();
        }
    }

    /// Kills the sandbox that a path or a header names.
    fn killer(self: &Arc<Self>) -> Kill {
        let server = Arc::downgrade(self);
        Arc::new(move |path, headers| {
            let Some(server) = server.upgrade() else { return };
            let header = e2b::control::named(headers);
            let is_named = |id: &&String| path.contains(id.as_str()) || header == Some(id.as_str());
            let named = server.lock().keys().find(is_named).cloned();
            if let Some(id) = named {
                server.end(&id, "Terminated");
            }
        })
    }

    fn killer_of(self: &Arc<Self>, id: String) -> Kill {
        let server = Arc::downgrade(self);
        Arc::new(move |_, _| {
            if let Some(server) = server.upgrade() {
                server.end(&id, "Terminated");
            }
        })
    }

    /// Makes a sandbox, which starts in the background.
    pub(crate) fn create(self: &Arc<Self>, body: Value) -> String {
        let number = self.created.fetch_add(1, Ordering::Relaxed);
        let id = match self.options.wire {
            Wire::OpenSandbox => format!("sbx-{}-{number:06}", self.address.port()),
            // It becomes a part of a host name.
            Wire::E2b => format!("i{}x{number:06}", self.address.port()),
        };
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
        self.lock().insert(id.clone(), entry);
        tokio::spawn(start(Arc::clone(self), id.clone()));
        id
    }

    /// Waits until the service inside listens; false if the sandbox ended instead.
    pub(crate) async fn is_up(&self, id: &str) -> bool {
        loop {
            let socket = match self.lock().get(id).filter(|entry| entry.is_live()) {
                Some(entry) => entry.container.as_ref().map(|container| container.socket.clone()),
                None => return false,
            };
            if let Some(socket) = socket
                && UnixStream::connect(socket).await.is_ok()
            {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Ends a sandbox and waits until nothing runs in it; false if there is none.
    pub(crate) async fn remove(&self, id: &str) -> bool {
        let container = match self.lock().get_mut(id) {
            Some(entry) if entry.is_live() => {
                entry.state = "Terminated";
                entry.front = None;
                entry.container.take()
            }
            _ => return false,
        };
        if let Some(container) = container {
            container.kill().await;
        }
        true
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

async fn start(server: Arc<Server>, id: String) {
    tokio::time::sleep(server.options.pending).await;
    let Some((token, env)) = server.lock().get(&id).map(|entry| {
        let env = [&entry.body["env"], &entry.body["envVars"]]
            .into_iter()
            .find_map(|env| serde_json::from_value(env.clone()).ok());
        (entry.token.clone(), env.unwrap_or_default())
    }) else {
        return;
    };
    let role = match server.options.wire {
        Wire::OpenSandbox => execd::ROLE,
        Wire::E2b => e2b::envd::ROLE,
    };
    let container = Container::start(&id, &server.options.program, role, &token, &env).await;
    let listener = TcpListener::bind("127.0.0.1:0").await;
    let (container, listener) = match (container, listener) {
        (Ok(container), Ok(listener)) => (Arc::new(container), listener),
        (Err(reason), _) => return fail(&server, &id, &reason),
        (_, Err(error)) => return fail(&server, &id, &error.to_string()),
    };
    let port = listener.local_addr().map_or(0, |address| address.port());
    let socket = container.socket.clone();
    let front = Front {
        service: Service::Daemon,
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

#[allow(clippy::disallowed_methods, reason = "the server has a clock of its own")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}
