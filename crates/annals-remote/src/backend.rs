//! The backend of a wire: handles on the sandboxes of a server, and what the server says of itself.

use std::sync::Arc;
use std::time::Duration;

use annals_sandbox::{Backend, Bound, Capabilities, Limits, OpenError, Opening, Sandbox};
use async_trait::async_trait;

use crate::error::ApiError;
use crate::fleet::{Fleet, FleetOptions};
use crate::port::ControlPlane;
use crate::server::Dialect;

/// What a server said of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFacts {
    /// Its version, if it tells one.
    pub version: Option<String>,
    /// Sandboxes of this installation that it has now.
    pub sandboxes: usize,
}

/// Sandboxes on a server.
pub struct RemoteBackend {
    dialect: Dialect,
    control: Arc<dyn ControlPlane>,
    fleet: Fleet,
}

impl RemoteBackend {
    /// A backend on the server behind `control`. Nothing is asked of it yet.
    pub fn new(dialect: Dialect, control: Arc<dyn ControlPlane>, options: FleetOptions) -> Self {
        Self {
            dialect,
            fleet: Fleet::new(Arc::clone(&control), options),
            control,
        }
    }

    /// Keeps sandboxes that nobody has open for this long.
    #[must_use]
    pub fn linger(mut self, linger: Duration) -> Self {
        self.fleet = self.fleet.linger(linger);
        self
    }

    /// The environment variable that people keep the server's key in.
    pub fn key_variable(&self) -> &'static str {
        self.dialect.key_variable
    }

    /// Asks the server what it is.
    pub async fn facts(&self) -> Result<ServerFacts, ApiError> {
        let listed = self.control.list(&self.fleet.labels()).await?;
        Ok(ServerFacts {
            version: self.control.version().await,
            sandboxes: listed.iter().filter(|record| !record.phase.is_over()).count(),
        })
    }

    /// Makes a sandbox, tells what it can do and deletes it.
    pub async fn trial(&self) -> Result<Capabilities, OpenError> {
        self.fleet.trial().await
    }
}

#[async_trait]
impl Backend for RemoteBackend {
    fn name(&self) -> &str {
        self.dialect.name
    }

    fn isolates(&self) -> bool {
        true
    }

    /// Of its sandboxes the server bounds what it is asked to.
    fn bounds(&self, limits: &Limits) -> Vec<Bound> {
        let asked = self.control.resources(limits).into_iter();
        asked
            .map(|(name, most)| Bound::new(name, most))
            .chain(limits.bounds_of_processes())
            .chain(limits.bounds_of_operations())
            .collect()
    }

    async fn open(&self, opening: Opening) -> Result<Arc<dyn Sandbox>, OpenError> {
        self.fleet.open(opening).await
    }
}
