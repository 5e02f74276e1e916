//! The sandboxes of one server: a handle for each opening, a slot for each conversation.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use annals_sandbox::{Capabilities, OpenError, Opening, Sandbox, SandboxName, SandboxSpec};

use crate::error::SettingsError;
use crate::handle::Handle;
use crate::owner;
use crate::paths::workspace_path;
use crate::port::ControlPlane;
use crate::slot::{Site, Slot};
use crate::timing::Timing;

/// How long a sandbox that nobody has open is kept: from one call to the next, code runs get a handle of their own.
const LINGER: Duration = Duration::from_secs(30);

/// What all sandboxes of a server have in common.
#[derive(Debug, Clone)]
pub struct FleetOptions {
    namespace: String,
    workspace: String,
    ttl: Duration,
    timing: Timing,
}

impl FleetOptions {
    /// Sandboxes with their workspace at this path inside, which live for `ttl_seconds` without being renewed; a wire takes
    /// no less than `ttl_min_seconds`.
    pub fn parse(workspace: &str, ttl_seconds: u64, ttl_min_seconds: u64) -> Result<Self, SettingsError> {
        if ttl_seconds < ttl_min_seconds {
            return Err(SettingsError::Timeout {
                given: ttl_seconds,
                least: ttl_min_seconds,
            });
        }
        let path = workspace_path(workspace).ok_or_else(|| SettingsError::Workspace(workspace.to_owned()))?;
        Ok(Self {
            namespace: String::new(),
            workspace: path.to_owned(),
            ttl: Duration::from_secs(ttl_seconds),
            timing: Timing::default(),
        })
    }

    /// Told apart from those of other installations on the server.
    #[must_use]
    pub fn namespace(mut self, namespace: Option<String>) -> Self {
        self.namespace = namespace.unwrap_or_default();
        self
    }

    /// With the waits of the server.
    #[must_use]
    pub fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// How long a sandbox lives without being renewed.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }
}

/// The sandboxes of one server.
pub(crate) struct Fleet {
    site: Arc<Site>,
    /// One for each conversation.
    slots: Mutex<HashMap<String, Arc<Slot>>>,
    swept: Once,
}

impl Fleet {
    /// The sandboxes of a server. Nothing is asked of it yet.
    pub(crate) fn new(control: Arc<dyn ControlPlane>, options: FleetOptions) -> Self {
        let site = Site {
            control,
            namespace: options.namespace,
            workspace: options.workspace,
            ttl: options.ttl,
            linger: LINGER,
            timing: options.timing,
        };
        Self {
            site: Arc::new(site),
            slots: Mutex::default(),
            swept: Once::new(),
        }
    }

    /// Keeps sandboxes that nobody has open for this long.
    #[must_use]
    pub(crate) fn linger(mut self, linger: Duration) -> Self {
        if let Some(site) = Arc::get_mut(&mut self.site) {
            site.linger = linger;
        }
        self
    }

    /// The metadata that every sandbox of this installation carries.
    pub(crate) fn labels(&self) -> BTreeMap<String, String> {
        self.site.labels()
    }

    /// Makes a sandbox, tells what it can do and deletes it.
    pub(crate) async fn trial(&self) -> Result<Capabilities, OpenError> {
        let name = SandboxName::new(format!("trial-{}", owner::call_id()), 1);
        let opening = Opening::new(SandboxSpec::new(name));
        let slot = self.slot(&opening)?;
        let opened = Handle::open(Arc::clone(&slot), opening).await;
        slot.give_up().await;
        Ok(opened?.capabilities())
    }

    /// Opens a sandbox.
    pub(crate) async fn open(&self, opening: Opening) -> Result<Arc<dyn Sandbox>, OpenError> {
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
        let slot = Slot::new(Arc::clone(&self.site), name.clone(), opening.spec.limits.clone());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_that_is_no_path_and_a_life_too_short_are_refused_with_their_value() {
        for workspace in ["", "/", "work", "/a/../b"] {
            let refused = FleetOptions::parse(workspace, 300, 60).unwrap_err();
            assert!(
                refused
                    .to_string()
                    .contains(&format!("`workspace = \"{workspace}\"`")),
                "{refused}"
            );
        }
        let refused = FleetOptions::parse("/space", 59, 60).unwrap_err().to_string();
        assert!(refused.contains("59") && refused.contains("60"), "{refused}");
        assert_eq!(
            FleetOptions::parse("/space/", 60, 60).unwrap().workspace,
            "/space"
        );
    }
}
