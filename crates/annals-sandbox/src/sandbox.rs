//! The two ports: a sandbox performs operations, a backend opens sandboxes.
//!
//! Neither knows a host file system. Files go in and out by manifest and digest ([`crate::tree`]), programs inside ask
//! their conversation through [`ContextService`], and a sandbox is named, not placed ([`crate::spec::SandboxName`]).

use std::collections::BTreeSet;
#[cfg(feature = "local")]
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::context::ContextService;
use crate::failure::Failure;
use crate::language::Language;
use crate::limits::{Bound, Limits};
use crate::ops::{Op, OpResult};
use crate::spec::{Layer, SandboxSpec};
use crate::streams::Stream;
use crate::tree::{ByteStream, ChangeLimits, Changes, Manifest, Snapshot, TreePut, TreeSource};

/// A place where operations happen.
///
/// Rules every implementation keeps, checked by [`crate::testing`]:
/// - `dispatch` may be called any number of times at once and never blocks the executor.
/// - Whatever a command started is dead when `dispatch` returns, also on timeout and cancel, and also when the
///   returned future is dropped.
/// - A path that leads out of the workspace is a `path_violation`, never an access.
/// - No file is held in memory because a path named it: reads are bounded, and [`get`](Self::get) streams.
/// - After `close` everything fails with `sandbox_closed`; closing twice is harmless.
/// - A sandbox that is lost fails with `sandbox_closed`, too, until [`put_tree`](Self::put_tree) brings the files into a
///   new one and says so: nothing runs in a workspace that lost its files, and no command runs twice.
#[async_trait]
pub trait Sandbox: Send + Sync {
    /// Performs one operation.
    async fn dispatch(&self, op: Op, cancel: &CancellationToken) -> Result<OpResult, Failure>;

    /// What this sandbox can do and how well it holds.
    fn capabilities(&self) -> Capabilities;

    /// Makes sure that every file of the manifest lies in the workspace with exactly these bytes. Files that it does
    /// not name are left alone.
    async fn put_tree(&self, manifest: &Manifest, source: &dyn TreeSource) -> Result<TreePut, Failure>;

    /// The state of the workspace now, to ask for [`changed`](Self::changed) later.
    async fn snapshot(&self) -> Result<Snapshot, Failure>;

    /// Which files changed since `since`, with their digests.
    async fn changed(&self, since: &Snapshot, limits: &ChangeLimits) -> Result<Changes, Failure>;

    /// The content of one regular file, as a stream.
    async fn get(&self, path: &str) -> Result<ByteStream, Failure>;

    /// Ends everything that runs inside and frees what it holds. Files of a workspace that the caller placed stay.
    async fn close(&self);
}

/// What a sandbox can do and how well it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Where the workspace appears inside.
    pub workspace: PathBuf,
    /// Whether the workspace is the caller's own directory, so that nothing has to travel.
    pub works_in_place: bool,
    /// Whether [`SandboxSpec::writable_subdirs`] is enforced.
    pub read_only_parts: bool,
    /// Languages whose code it runs.
    pub languages: Vec<Language>,
    /// The isolation layers that are in force.
    pub layers: BTreeSet<Layer>,
}

/// Opens sandboxes of one sort.
#[async_trait]
pub trait Backend: Send + Sync {
    /// The name it is registered by.
    fn name(&self) -> &str;

    /// Which bounds hold in a sandbox that is opened with these limits. What the backend does not enforce it does not name.
    fn bounds(&self, limits: &Limits) -> Vec<Bound> {
        limits.bounds_of_operations()
    }

    /// Whether programs inside are kept away from this machine, by isolation layers or because they run on another one.
    /// The rules of a policy are told so before anything is opened: without isolation, a command may do anything.
    fn isolates(&self) -> bool;

    /// Opens a sandbox; it lives until closed or dropped.
    async fn open(&self, opening: Opening) -> Result<Arc<dyn Sandbox>, OpenError>;
}

/// What a sandbox is opened with: its spec, and what cannot be written down.
#[derive(Clone)]
pub struct Opening {
    /// What it is made of.
    pub spec: SandboxSpec,
    /// A workspace that lies on this machine already.
    pub local: Option<LocalTree>,
    /// Who answers programs inside, if anybody does.
    pub context: Option<Arc<dyn ContextService>>,
}

impl Opening {
    /// An empty workspace of its own, and nobody to ask.
    pub fn new(spec: SandboxSpec) -> Self {
        Self {
            spec,
            local: None,
            context: None,
        }
    }

    /// On a tree of this machine.
    #[must_use]
    pub fn local(mut self, tree: LocalTree) -> Self {
        self.local = Some(tree);
        self
    }

    /// With somebody who answers programs inside.
    #[must_use]
    pub fn context(mut self, service: Arc<dyn ContextService>) -> Self {
        self.context = Some(service);
        self
    }
}

/// A workspace in a directory of this machine. A backend on this machine works in it, which costs nothing; any other
/// takes no notice ([`Capabilities::works_in_place`]), and its caller brings the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalTree(PathBuf);

impl LocalTree {
    /// The tree in this directory, which is made if it is missing.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self(directory.into())
    }

    #[cfg(feature = "local")]
    pub(crate) fn directory(&self) -> &Path {
        &self.0
    }
}

/// Why a sandbox could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The workspace is not a directory that can be used.
    #[error("the workspace cannot be used: {reason}")]
    Workspace {
        /// What is wrong with it.
        reason: String,
    },
    /// Something else named in the spec is not usable.
    #[error("sandbox spec: {reason}")]
    Spec {
        /// What is wrong, with the value in it.
        reason: String,
    },
    /// The machine lacks a layer.
    #[error(
        "isolation layer `{layer}` is not available: {reason}; provide it, or ask for weaker isolation by name \
         (without `{layer}`)"
    )]
    LayerMissing {
        /// The layer.
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
    /// A server of sandboxes could not be reached, or refused.
    #[error("the server of sandboxes: {reason}")]
    Remote {
        /// What it said, or what the network said.
        reason: String,
    },
    /// A later owner of the conversation has a sandbox: this one's is not opened any more.
    #[error(
        "sandbox `{name}` belongs to a later owner of the conversation (token {newer}); open the conversation again"
    )]
    Fenced {
        /// The sandbox asked for.
        name: String,
        /// The token that has it.
        newer: u64,
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
