//! The backend `e2b`: opens handles on the sandboxes of a server.

use std::sync::Arc;
use std::time::Duration;

use annals_remote::{ApiError, ControlPlane as _, Fleet, FleetOptions, ServerFacts, http};
use annals_sandbox::{Backend, Capabilities, OpenError, Opening, Sandbox};
use async_trait::async_trait;
use reqwest::header::HeaderValue;

use crate::control::Control;
use crate::settings::{E2bOptions, Settings, SettingsError};

/// Sandboxes on a server that speaks E2B's protocol.
pub struct E2b {
    control: Control,
    fleet: Fleet,
}

impl E2b {
    /// A backend on the server at `url`. Nothing is asked of it yet.
    pub fn new(url: &str, key: Option<String>, options: E2bOptions) -> Result<Self, SettingsError> {
        let settings = Settings::parse(url, options)?;
        if key
            .as_deref()
            .is_some_and(|key| HeaderValue::from_str(key).is_err())
        {
            return Err(SettingsError::Key);
        }
        let http = http::client(&settings.url).map_err(|error| SettingsError::Client(error.to_string()))?;
        let fleet = FleetOptions {
            namespace: settings.options.namespace.clone().unwrap_or_default(),
            workspace: settings.options.workspace.clone(),
            ttl: settings.ttl,
        };
        let control = Control::new(settings, http, key);
        Ok(Self {
            fleet: Fleet::new(Arc::new(control.clone()), fleet),
            control,
        })
    }

    /// Keeps sandboxes that nobody has open for this long.
    #[must_use]
    pub fn linger(mut self, linger: Duration) -> Self {
        self.fleet = self.fleet.linger(linger);
        self
    }

    /// Asks the server what it has; waits no longer than `budget` for it. It has no version to tell.
    pub async fn facts(&self, budget: Duration) -> Result<ServerFacts, ApiError> {
        let control = self.control.clone().retry_budget(budget);
        let sandboxes = control.list(&self.fleet.labels()).await?;
        Ok(ServerFacts {
            version: None,
            sandboxes: sandboxes.len(),
        })
    }

    /// Makes a sandbox, tells what it can do and deletes it.
    pub async fn trial(&self) -> Result<Capabilities, OpenError> {
        self.fleet.trial().await
    }
}

#[async_trait]
impl Backend for E2b {
    fn name(&self) -> &str {
        "e2b"
    }

    async fn open(&self, opening: Opening) -> Result<Arc<dyn Sandbox>, OpenError> {
        self.fleet.open(opening).await
    }
}
