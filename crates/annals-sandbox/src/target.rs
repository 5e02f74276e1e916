//! Where a session's side effects will happen: opened on first need, once.

use std::sync::Arc;

use tokio::sync::OnceCell;

use crate::sandbox::{Backend, OpenError, Sandbox};
use crate::spec::SandboxSpec;

/// A backend and a spec; the sandbox opens when somebody first needs it.
///
/// Concurrent first needs share one opening. An opening that fails is tried again at the next need.
pub struct Target {
    backend: Arc<dyn Backend>,
    spec: SandboxSpec,
    opened: OnceCell<Arc<dyn Sandbox>>,
}

impl Target {
    /// Nothing is opened yet.
    pub fn new(backend: Arc<dyn Backend>, spec: SandboxSpec) -> Self {
        Self {
            backend,
            spec,
            opened: OnceCell::new(),
        }
    }

    /// The sandbox, opened now if it was not.
    pub async fn sandbox(&self) -> Result<Arc<dyn Sandbox>, OpenError> {
        self.opened
            .get_or_try_init(|| self.open_another(self.spec.clone()))
            .await
            .cloned()
    }

    /// The sandbox, if somebody needed it before.
    pub fn opened(&self) -> Option<Arc<dyn Sandbox>> {
        self.opened.get().cloned()
    }

    /// The backend's name.
    pub fn backend_name(&self) -> &str {
        self.backend.name()
    }

    /// What the sandbox is, or will be, made of.
    pub fn spec(&self) -> &SandboxSpec {
        &self.spec
    }

    /// Another sandbox of the same backend with walls of its own, for one call that may do less than the session.
    /// It lives until closed or dropped. A conversation that had no file so far gets its folder now.
    pub async fn open_another(&self, spec: SandboxSpec) -> Result<Arc<dyn Sandbox>, OpenError> {
        std::fs::create_dir_all(&spec.workspace).map_err(|error| OpenError::Workspace {
            path: spec.workspace.clone(),
            reason: error.to_string(),
        })?;
        self.backend.open(spec).await
    }

    /// Closes the sandbox if it was opened.
    pub async fn close(&self) {
        if let Some(sandbox) = self.opened.get() {
            sandbox.close().await;
        }
    }
}
