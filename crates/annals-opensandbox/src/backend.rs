//! The backend `opensandbox`: its control plane, made of the lifecycle server and of what its sandboxes are made of.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use annals_remote::{
    ApiError, ControlPlane, Daemon, Dialect, Record, RemoteBackend, Server, ServerAddress, SettingsError,
    Status,
};
use annals_sandbox::Limits;
use async_trait::async_trait;

use crate::execd::{self, Execd};
use crate::lifecycle::Lifecycle;
use crate::settings::{OpenSandboxOptions, Settings};
use crate::wire::{CreateSandbox, ErrorBody, Image, SandboxInfo};

pub(crate) const DIALECT: Dialect = Dialect {
    name: "opensandbox",
    example: "opensandbox:http://host:8080",
    key_header: "open-sandbox-api-key",
    key_variable: "OPEN_SANDBOX_API_KEY",
    read_refusal: ErrorBody::read,
};

/// Sandboxes on an OpenSandbox server. Nothing is asked of it yet.
pub fn backend(address: ServerAddress, options: OpenSandboxOptions) -> Result<RemoteBackend, SettingsError> {
    let server = Server::parse(address, &DIALECT)?;
    let settings = Settings::parse(options)?;
    let fleet = settings.fleet.clone().timing(*server.http().timing());
    let control = Arc::new(Control {
        settings,
        lifecycle: Lifecycle::new(server),
    });
    Ok(RemoteBackend::new(DIALECT, control, fleet))
}

/// The server, with what its sandboxes are made of.
struct Control {
    settings: Settings,
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
impl ControlPlane for Control {
    async fn list(&self, metadata: &BTreeMap<String, String>) -> Result<Vec<Record>, ApiError> {
        let listed = self.lifecycle.list(metadata).await?;
        Ok(listed.into_iter().map(record).collect())
    }

    async fn create(&self, metadata: &BTreeMap<String, String>, limits: &Limits) -> Result<String, ApiError> {
        let options = &self.settings.options;
        let body = CreateSandbox {
            image: Image { uri: &options.image },
            entrypoint: &options.entrypoint,
            timeout: self.settings.fleet.ttl().as_secs(),
            resource_limits: &self.resources(limits),
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
        let execd = Execd::new(self.lifecycle.server(), &endpoint)?;
        match execd.ping().await {
            Err(error) if is_early(&error) => Ok(None),
            answered => answered.map(|()| Some(Arc::new(execd) as Arc<dyn Daemon>)),
        }
    }

    /// What the configuration names, and as much memory as the limits allow unless it names that, too.
    fn resources(&self, limits: &Limits) -> BTreeMap<String, String> {
        let mut resources = self.settings.options.resources.clone();
        resources
            .entry("memory".to_owned())
            .or_insert_with(|| format!("{}Mi", limits.memory_bytes >> 20));
        resources
    }

    /// Old servers have no such route.
    async fn version(&self) -> Option<String> {
        self.lifecycle.version().await.ok()
    }
}
