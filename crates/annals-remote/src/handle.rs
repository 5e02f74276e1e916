//! What a caller has open: the operations of the port, on the sandbox of its conversation.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use annals_sandbox::{
    ByteStream, Capabilities, ChangeLimits, Changes, Failure, FailureKind, Manifest, Op, OpResult, OpenError,
    Opening, Sandbox, SandboxSpec, Snapshot, TreePut, TreeSource,
};
use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::mailbox::Mailbox;
use crate::paths;
use crate::remote::Remote;
use crate::slot::Slot;
use crate::trees;

/// Lost sandboxes that one `put_tree` replaces before it gives up.
const REPLACEMENTS_MAX_COUNT: usize = 3;

/// One opening of a sandbox.
pub(crate) struct Handle {
    slot: Arc<Slot>,
    pub(crate) spec: SandboxSpec,
    pub(crate) mailbox: Option<Mailbox>,
    capabilities: Capabilities,
    pub(crate) closed: CancellationToken,
    counted: AtomicBool,
    /// The sandbox that has the folders of the spec.
    folders_made_in: tokio::sync::Mutex<Option<String>>,
}

impl Handle {
    pub(crate) async fn open(slot: Arc<Slot>, opening: Opening) -> Result<Self, OpenError> {
        slot.opened();
        let mut handle = Self {
            capabilities: Capabilities {
                workspace: String::new().into(),
                works_in_place: false,
                read_only_parts: false,
                languages: Vec::new(),
                layers: std::collections::BTreeSet::new(),
            },
            closed: slot.fenced.child_token(),
            mailbox: opening.context.map(Mailbox::new),
            spec: opening.spec,
            slot,
            counted: AtomicBool::new(true),
            folders_made_in: tokio::sync::Mutex::default(),
        };
        let remote = handle.slot.ensure().await?;
        let folders = handle.make_folders(&remote).await;
        folders.map_err(|failure| OpenError::Spec {
            reason: failure.message,
        })?;
        handle.capabilities.workspace = remote.facts.workspace.clone().into();
        handle.capabilities.languages = remote.facts.languages();
        Ok(handle)
    }

    /// Makes the folders that the spec lets be written, once in a sandbox.
    async fn make_folders(&self, remote: &Remote) -> Result<(), Failure> {
        let Some(folders) = self
            .spec
            .writable_subdirs
            .as_ref()
            .filter(|folders| !folders.is_empty())
        else {
            return Ok(());
        };
        let mut made_in = self.folders_made_in.lock().await;
        if made_in.as_deref() == Some(&remote.id) {
            return Ok(());
        }
        let workspace = Path::new(&remote.facts.workspace);
        let folders = folders.iter().map(|folder| paths::relative(workspace, folder));
        let folders: Vec<String> = folders.collect::<Result<_, _>>()?;
        let arguments = std::iter::once(remote.facts.workspace.clone()).chain(folders);
        remote.ask("folders", arguments).await?;
        *made_in = Some(remote.id.clone());
        Ok(())
    }

    fn release(&self) {
        if self.counted.swap(false, Ordering::Relaxed) {
            self.slot.closed();
        }
    }

    /// The sandbox, unless this handle is closed or the sandbox is lost: only [`Sandbox::put_tree`] replaces one, so
    /// that nothing ever runs in a workspace whose files are gone.
    async fn remote(&self) -> Result<Arc<Remote>, Failure> {
        if self.closed.is_cancelled() {
            return Err(Failure::closed());
        }
        match self.slot.current().await {
            Some(remote) if remote.lost().is_none() => Ok(remote),
            Some(lost) => Err(lost.lost_failure()),
            None => Err(Failure::closed()),
        }
    }

    pub(crate) async fn workspace(&self) -> Result<(Arc<Remote>, String), Failure> {
        let remote = self.remote().await?;
        let workspace = remote.facts.workspace.clone();
        Ok((remote, workspace))
    }

    /// A path below the workspace, by its text alone; links are looked at inside.
    pub(crate) fn relative(&self, path: &str) -> Result<String, Failure> {
        paths::relative(&self.capabilities.workspace, path)
    }

    async fn perform(&self, op: Op, cancel: &CancellationToken) -> Result<OpResult, Failure> {
        match op {
            Op::CommandRun(op) => self.command(op, cancel).await.map(OpResult::Command),
            Op::CodeRun(op) => self.code(op, cancel).await.map(OpResult::Code),
            Op::FilesExists(op) => self.unless(cancel, self.exists(op)).await.map(OpResult::Exists),
            Op::FilesRead(op) => self.unless(cancel, self.read(op)).await.map(OpResult::File),
            Op::FilesWrite(op) => self.unless(cancel, self.write(op)).await.map(OpResult::Written),
            Op::FilesList(op) => self.unless(cancel, self.list(op)).await.map(OpResult::Entries),
        }
    }

    /// What the future gives, unless the caller cancels or the sandbox is closed before.
    pub(crate) async fn unless<T>(
        &self,
        cancel: &CancellationToken,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            biased;
            () = self.closed.cancelled() => Err(Failure::closed()),
            () = cancel.cancelled() => Err(Failure::cancelled()),
            done = work => done,
        }
    }
}

#[async_trait]
impl Sandbox for Handle {
    async fn dispatch(&self, op: Op, cancel: &CancellationToken) -> Result<OpResult, Failure> {
        if self.closed.is_cancelled() {
            return Err(Failure::closed());
        }
        if cancel.is_cancelled() {
            return Err(Failure::cancelled());
        }
        let result = self.perform(op, cancel).await;
        // Deleted by a later owner of the conversation, or by closing: that is no loss to be healed.
        match result {
            Err(failure) if self.closed.is_cancelled() && failure.kind == FailureKind::SandboxClosed => {
                Err(Failure {
                    partial: failure.partial,
                    ..Failure::closed()
                })
            }
            result => result,
        }
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    async fn put_tree(&self, manifest: &Manifest, source: &dyn TreeSource) -> Result<TreePut, Failure> {
        for path in manifest.0.keys() {
            let is_plain = !path.starts_with('/') && self.relative(path)? != ".";
            if !is_plain {
                let message = format!("path `{}` is no file below the workspace", path.escape_debug());
                return Err(Failure::new(FailureKind::PathViolation, message));
            }
        }
        let mut last = Failure::closed();
        for _ in 0..REPLACEMENTS_MAX_COUNT {
            if self.closed.is_cancelled() {
                return Err(Failure::closed());
            }
            let remote = self.slot.ensure().await.map_err(not_opened)?;
            let put = async {
                self.make_folders(&remote).await?;
                trees::put(&remote, manifest, source).await
            };
            match put.await {
                Err(failure) if remote.lost().is_some() => last = failure,
                put => {
                    let replaced = self.slot.take_replaced();
                    return put.map(|put| TreePut { replaced, ..put });
                }
            }
        }
        Err(last)
    }

    async fn snapshot(&self) -> Result<Snapshot, Failure> {
        let remote = self.remote().await?;
        trees::snapshot(&remote).await
    }

    async fn changed(&self, since: &Snapshot, limits: &ChangeLimits) -> Result<Changes, Failure> {
        let remote = self.remote().await?;
        trees::changed(&remote, since, limits).await
    }

    async fn get(&self, path: &str) -> Result<ByteStream, Failure> {
        self.open_file(path).await
    }

    async fn close(&self) {
        self.closed.cancel();
        self.release();
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.closed.cancel();
        self.release();
    }
}

/// What a lost sandbox could not be replaced by.
fn not_opened(error: OpenError) -> Failure {
    match error {
        OpenError::Fenced { .. } => Failure::closed().detail(error.to_string()),
        error => Failure::new(FailureKind::SandboxClosed, error.to_string()),
    }
}
