//! Where a session's side effects will happen: opened on first need, once.

use std::sync::Arc;

use tokio::sync::OnceCell;

use crate::sandbox::{Backend, LocalTree, OpenError, Opening, Sandbox};
use crate::spec::SandboxSpec;

/// A backend, a spec and a workspace; the sandbox opens when somebody first needs it.
///
/// Concurrent first needs share one opening. An opening that fails is tried again at the next need.
pub struct LazySandbox {
    backend: Arc<dyn Backend>,
    spec: SandboxSpec,
    local: Option<LocalTree>,
    opened: OnceCell<Arc<dyn Sandbox>>,
}

impl LazySandbox {
    /// Nothing is opened yet.
    pub fn new(backend: Arc<dyn Backend>, spec: SandboxSpec) -> Self {
        Self {
            backend,
            spec,
            local: None,
            opened: OnceCell::new(),
        }
    }

    /// On a tree of this machine, for backends that can work in it.
    #[must_use]
    pub fn local(mut self, tree: LocalTree) -> Self {
        self.local = Some(tree);
        self
    }

    /// The sandbox, opened now if it was not.
    pub async fn sandbox(&self) -> Result<Arc<dyn Sandbox>, OpenError> {
        self.opened
            .get_or_try_init(|| self.backend.open(self.opening()))
            .await
            .cloned()
    }

    /// The sandbox, if somebody needed it before.
    pub fn opened(&self) -> Option<Arc<dyn Sandbox>> {
        self.opened.get().cloned()
    }

    /// What the session's sandbox is opened with; a call that may do less changes its copy and opens
    /// [another](Self::open_another).
    pub fn opening(&self) -> Opening {
        Opening {
            spec: self.spec.clone(),
            local: self.local.clone(),
            context: None,
        }
    }

    /// Another sandbox of the same backend, for one call. It lives until closed or dropped.
    pub async fn open_another(&self, opening: Opening) -> Result<Arc<dyn Sandbox>, OpenError> {
        self.backend.open(opening).await
    }

    /// Closes the sandbox if it was opened.
    pub async fn close(&self) {
        if let Some(sandbox) = self.opened.get() {
            sandbox.close().await;
        }
    }
}
