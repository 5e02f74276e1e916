//! The sandboxes of one server: a handle for each opening, a slot for each conversation.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use annals_sandbox::{Capabilities, OpenError, Opening, Sandbox, SandboxName, SandboxSpec};

use crate::handle::Handle;
use crate::owner;
use crate::port::ControlPlane;
use crate::slot::{Site, Slot};

/// How long a sandbox that nobody has open is kept: from one call to the next, code runs get a handle of their own.
const LINGER: Duration = Duration::from_secs(30);

/// What all sandboxes of a server have in common.
#[derive(Debug, Clone)]
pub struct FleetOptions {
    /// Tells installations on one server apart.
    pub namespace: String,
    /// Where the workspace is inside.
    pub workspace: String,
    /// How long a sandbox lives without being renewed.
    pub ttl: Duration,
}

/// What a server said of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFacts {
    /// Its version, if it tells one.
    pub version: Option<String>,
    /// Sandboxes of this installation that it has now.
    pub sandboxes: usize,
}

/// The sandboxes of one server.
pub struct Fleet {
    site: Arc<Site>,
    /// One for each conversation.
    slots: Mutex<HashMap<String, Arc<Slot>>>,
    swept: Once,
}

impl Fleet {
    /// The sandboxes of a server. Nothing is asked of it yet.
    pub fn new(control: Arc<dyn ControlPlane>, options: FleetOptions) -> Self {
        let site = Site {
            control,
            namespace: options.namespace,
            workspace: options.workspace,
            ttl: options.ttl,
            linger: LINGER,
        };
        Self {
            site: Arc::new(site),
            slots: Mutex::default(),
            swept: Once::new(),
        }
    }

    /// Keeps sandboxes that nobody has open for this long.
    #[must_use]
    pub fn linger(mut self, linger: Duration) -> Self {
        if let Some(site) = Arc::get_mut(&mut self.site) {
            site.linger = linger;
        }
        self
    }

    /// The metadata that every sandbox of this installation carries.
    pub fn labels(&self) -> BTreeMap<String, String> {
        self.site.labels()
    }

    /// Makes a sandbox, tells what it can do and deletes it.
    pub async fn trial(&self) -> Result<Capabilities, OpenError> {
        let name = SandboxName::new(format!("trial-{}", owner::call_id()), 1);
        let opening = Opening::new(SandboxSpec::new(name));
        let slot = self.slot(&opening)?;
        let opened = Handle::open(Arc::clone(&slot), opening).await;
        slot.give_up().await;
        Ok(opened?.capabilities())
    }

    /// Opens a sandbox.
    pub async fn open(&self, opening: Opening) -> Result<Arc<dyn Sandbox>, OpenError> {
        self.sweep();
        let slot = self.slot(&opening)?;
        Ok(Arc::new(Handle::open(slot, opening).await?))
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
