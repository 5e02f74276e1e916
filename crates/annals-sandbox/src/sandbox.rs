//! The two ports: a sandbox performs operations, a backend opens sandboxes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;
use crate::language::Language;
use crate::ops::{Op, OpResult};
use crate::spec::{Layer, SandboxSpec};
use crate::streams::Stream;

/// A place where operations happen.
///
/// Rules every implementation keeps, checked by [`crate::testing`]:
/// - `dispatch` may be called any number of times at once and never blocks the executor.
/// - Whatever a command started is dead when `dispatch` returns, also on timeout and cancel, and also when the
///   returned future is dropped.
/// - A path that leads out of the workspace is a `path_violation`, never an access.
/// - After `close` every `dispatch` fails with `sandbox_closed`; closing twice is harmless.
#[async_trait]
pub trait Sandbox: Send + Sync {
    /// Performs one operation.
    async fn dispatch(&self, op: Op, cancel: &CancellationToken) -> Result<OpResult, Failure>;

    /// What this sandbox can do and how well it holds.
    fn capabilities(&self) -> Capabilities;

    /// Ends everything that runs inside and frees what it holds; files in the workspace stay.
    async fn close(&self);

    /// The workspace's directory on the host.
    fn root(&self) -> &Path;
}

/// What a sandbox can do and how well it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Where the workspace appears inside.
    pub workspace: PathBuf,
    /// Languages whose code it runs.
    pub languages: Vec<Language>,
    /// The walls that stand.
    pub layers: BTreeSet<Layer>,
}

/// Opens sandboxes of one sort.
#[async_trait]
pub trait Backend: Send + Sync {
    /// The name it is registered by.
    fn name(&self) -> &str;

    /// Opens a sandbox; it lives until closed or dropped.
    async fn open(&self, spec: SandboxSpec) -> Result<Arc<dyn Sandbox>, OpenError>;
}

/// Why a sandbox could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The workspace is not a directory that can be used.
    #[error("workspace `{}` cannot be used: {reason}; create the directory first", path.display())]
    Workspace {
        /// The directory asked for.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Something else named in the spec is not usable.
    #[error("sandbox spec: {reason}")]
    Spec {
        /// What is wrong, with the value in it.
        reason: String,
    },
    /// The machine lacks a wall.
    #[error(
        "isolation layer `{layer}` is not available: {reason}; provide it, or ask for weaker isolation by name \
         (without `{layer}`)"
    )]
    LayerMissing {
        /// The wall.
        layer: Layer,
        /// What the machine said.
        reason: String,
    },
    /// The launcher, which starts sandboxed processes, did not do its part.
    #[error("sandbox launcher: {reason}")]
    Launcher {
        /// What happened.
        reason: String,
    },
}

/// Sugar for every sandbox behind an [`Arc`].
pub trait SandboxExt {
    /// A new stream of operations on this sandbox.
    fn stream(&self) -> Stream;
}

impl SandboxExt for Arc<dyn Sandbox> {
    fn stream(&self) -> Stream {
        Stream::new(Arc::clone(self))
    }
}
