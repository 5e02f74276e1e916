//! The backend `opensandbox`: opens handles on the sandboxes of a server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use annals_remote::{ApiError, ControlPlane, Daemon, Fleet, FleetOptions, Record, ServerFacts, Status, http};
use annals_sandbox::{Backend, Bound, Capabilities, Limits, OpenError, Opening, Sandbox};
use async_trait::async_trait;
use reqwest::header::HeaderValue;

use crate::execd::{self, Execd};
use crate::lifecycle::Lifecycle;
use crate::settings::{OpenSandboxOptions, Settings, SettingsError};
use crate::wire::{CreateSandbox, Image, SandboxInfo};

/// Sandboxes on an OpenSandbox server.
pub struct OpenSandbox {
    lifecycle: Lifecycle,
    /// Limits that the server is asked for.
    resources: BTreeMap<String, String>,
    fleet: Fleet,
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
        let http = http::client(&settings.url).map_err(|error| SettingsError::Client(error.to_string()))?;
        let lifecycle = Lifecycle::new(http.clone(), settings.url.clone(), key);
        let fleet = FleetOptions {
            namespace: settings.namespace.clone(),
            workspace: settings.options.workspace.clone(),
            ttl: settings.ttl,
        };
        let resources = settings.options.resources.clone();
        let server = Server {
            settings,
            http,
            lifecycle: lifecycle.clone(),
        };
        Ok(Self {
            lifecycle,
            resources,
            fleet: Fleet::new(Arc::new(server), fleet),
        })
    }

    /// Keeps sandboxes that nobody has open for this long.
    #[must_use]
    pub fn linger(mut self, linger: Duration) -> Self {
        self.fleet = self.fleet.linger(linger);
        self
    }

    /// Asks the server what it is; waits no longer than `budget` for it.
    pub async fn facts(&self, budget: Duration) -> Result<ServerFacts, ApiError> {
        let lifecycle = self.lifecycle.clone().retry_budget(budget);
        let sandboxes = lifecycle.list(&self.fleet.labels()).await?;
        Ok(ServerFacts {
            // Old servers have no such route.
            version: lifecycle.version().await.ok(),
            sandboxes: sandboxes
                .into_iter()
                .map(record)
                .filter(|record| !record.phase.is_over())
                .count(),
        })
    }

    /// Makes a sandbox, tells what it can do and deletes it.
    pub async fn trial(&self) -> Result<Capabilities, OpenError> {
        self.fleet.trial().await
    }
}

#[async_trait]
impl Backend for OpenSandbox {
    fn name(&self) -> &str {
        "opensandbox"
    }

    /// Of its containers the server bounds what was asked of it.
    fn bounds(&self, limits: &Limits) -> Vec<Bound> {
        let asked = self.resources.iter().map(|(name, most)| Bound::new(name, most));
        asked.chain(limits.bounds_of_operations()).collect()
    }

    async fn open(&self, opening: Opening) -> Result<Arc<dyn Sandbox>, OpenError> {
        self.fleet.open(opening).await
    }
}

/// The server, with what its sandboxes are made of.
struct Server {
    settings: Settings,
    http: reqwest::Client,
    lifecycle: Lifecycle,
}

fn record(info: SandboxInfo) -> Record {
    Record {
        phase: info.status.state.into(),
        metadata: info.metadata.unwrap_or_default(),
        id: info.id,
        created_at: info.created_at,
    }
}

#[async_trait]
impl ControlPlane for Server {
    async fn list(&self, metadata: &BTreeMap<String, String>) -> Result<Vec<Record>, ApiError> {
        let listed = self.lifecycle.list(metadata).await?;
        Ok(listed.into_iter().map(record).collect())
    }

    async fn create(&self, metadata: &BTreeMap<String, String>) -> Result<String, ApiError> {
        let options = &self.settings.options;
        let body = CreateSandbox {
            image: Image { uri: &options.image },
            entrypoint: &options.entrypoint,
            timeout: self.settings.ttl.as_secs(),
            resource_limits: &options.resources,
            env: &options.env,
            metadata,
            network_policy: options.network.as_ref(),
            volumes: &options.volumes,
        };
        Ok(self.lifecycle.create(&body).await?.id)
    }

    async fn status(&self, id: &str) -> Result<Status, ApiError> {
        let info = self.lifecycle.sandbox(id).await?;
        Ok(Status {
            phase: info.status.state.into(),
            told: info.status.told(),
        })
    }

    async fn delete(&self, id: &str) -> Result<(), ApiError> {
        self.lifecycle.delete(id).await
    }

    async fn wake(&self, id: &str) -> Result<(), ApiError> {
        self.lifecycle.resume(id).await
    }

    async fn renew(&self, id: &str, ttl: Duration) -> Result<(), ApiError> {
        match self.lifecycle.now_after(ttl) {
            Some(expires_at) => self.lifecycle.renew(id, expires_at).await,
            None => Ok(()),
        }
    }

    async fn connect(&self, id: &str) -> Result<Option<Arc<dyn Daemon>>, ApiError> {
        let is_early = |error: &ApiError| error.is_transient() || error.is_not_found();
        let endpoint = match self
            .lifecycle
            .endpoint(id, execd::PORT, self.settings.route)
            .await
        {
            Err(error) if is_early(&error) => return Ok(None),
            endpoint => endpoint?,
        };
        let execd = Execd::new(self.http.clone(), self.lifecycle.scheme(), &endpoint)?;
        match execd.ping().await {
            Err(error) if is_early(&error) => Ok(None),
            answered => answered.map(|()| Some(Arc::new(execd) as Arc<dyn Daemon>)),
        }
    }
}
