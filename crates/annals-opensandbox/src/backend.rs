//! The backend `opensandbox`: opens handles on the sandboxes of a server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use annals_sandbox::{Backend, OpenError, Opening, Sandbox};
use async_trait::async_trait;
use reqwest::header::HeaderValue;

use crate::handle::Handle;
use crate::lifecycle::Lifecycle;
use crate::settings::{OpenSandboxOptions, Settings, SettingsError};
use crate::slot::{Site, Slot};

/// How long a sandbox that nobody has open is kept: from one call to the next, code runs get a handle of their own.
const LINGER: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Sandboxes on an OpenSandbox server.
pub struct OpenSandbox {
    site: Arc<Site>,
    /// One for each conversation.
    slots: Mutex<HashMap<String, Arc<Slot>>>,
    swept: Once,
}

/// What a server said of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFacts {
    /// Its version.
    pub version: String,
    /// Sandboxes of this installation that it has now.
    pub sandboxes: usize,
}

impl OpenSandbox {
    /// A backend on the server at `url`. Nothing is asked of it yet.
    pub fn new(url: &str, key: Option<String>, options: OpenSandboxOptions) -> Result<Self, SettingsError> {
        let settings = Settings::parse(url, options)?;
        if key
            .as_deref()
            .is_some_and(|key| HeaderValue::from_str(key).is_err())
        {
            return Err(SettingsError::Key);
        }
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .user_agent(concat!("annals/", env!("CARGO_PKG_VERSION")));
        if matches!(settings.url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]")) {
            http = http.no_proxy(); // a proxy cannot reach the server on this very machine
        }
        let http = http
            .build()
            .map_err(|error| SettingsError::Client(error.to_string()))?;
        let lifecycle = Lifecycle::new(http.clone(), settings.url.clone(), key);
        let site = Site {
            settings,
            http,
            lifecycle,
            linger: LINGER,
        };
        Ok(Self {
            site: Arc::new(site),
            slots: Mutex::default(),
            swept: Once::new(),
        })
    }

    /// Keeps sandboxes that nobody has open for this long.
    #[must_use]
    pub fn linger(mut self, linger: Duration) -> Self {
        if let Some(site) = Arc::get_mut(&mut self.site) {
            site.linger = linger;
        }
        self
    }

    /// Asks the server what it is; waits no longer than `budget` for it.
    pub async fn facts(&self, budget: Duration) -> Result<ServerFacts, crate::ApiError> {
        let lifecycle = self.site.lifecycle.clone().retry_budget(budget);
        let sandboxes = lifecycle.list(&self.site.namespace()).await?;
        let is_live = |info: &&crate::wire::SandboxInfo| !info.status.state.is_over();
        Ok(ServerFacts {
            // Old servers have no such route.
            version: lifecycle.version().await.unwrap_or_else(|_| "unknown".to_owned()),
            sandboxes: sandboxes.iter().filter(is_live).count(),
        })
    }

    /// The slot of the name, unless a later owner has one. An earlier owner's is given up.
    fn slot(&self, opening: &Opening) -> Result<Arc<Slot>, OpenError> {
        let name = &opening.spec.name;
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.retain(|_, slot| !slot.is_over());
        if let Some(slot) = slots.get(&name.conversation) {
            let has = slot.name.token;
            if has > name.token {
                return Err(OpenError::Fenced {
                    name: name.to_string(),
                    newer: has,
                });
            }
            if has == name.token {
                return Ok(Arc::clone(slot));
            }
            slot.fenced.cancel();
        }
        let slot = Slot::new(Arc::clone(&self.site), name.clone());
        slots.insert(name.conversation.clone(), Arc::clone(&slot));
        Ok(slot)
    }

    /// Once a process, and nobody waits for it.
    fn sweep(&self) {
        let site = Arc::clone(&self.site);
        self.swept.call_once(|| {
            tokio::spawn(async move {
                match site.sweep().await {
                    Ok(0) => {}
                    Ok(count) => tracing::info!("{count} sandboxes of processes that ended were deleted"),
                    Err(error) => tracing::debug!("{error}"),
                }
            });
        });
    }
}

#[async_trait]
impl Backend for OpenSandbox {
    fn name(&self) -> &str {
        "opensandbox"
    }

    async fn open(&self, opening: Opening) -> Result<Arc<dyn Sandbox>, OpenError> {
        self.sweep();
        let slot = self.slot(&opening)?;
        let handle = Handle::open(slot, opening).await?;
        Ok(Arc::new(handle))
    }
}
