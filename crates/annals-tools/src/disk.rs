//! OUT_DIR from async code: its methods block as long as the disk does, so they run on threads that may.

use annals_core::path::PhysicalPath;
use annals_store::{FileEntry, Workspace, WorkspaceError};

pub(crate) async fn read(workspace: &Workspace, path: &PhysicalPath) -> Result<Vec<u8>, WorkspaceError> {
    let (workspace, path) = (workspace.clone(), path.clone());
    blocking(move || workspace.read(&path)).await
}

pub(crate) async fn write(
    workspace: &Workspace,
    path: &PhysicalPath,
    bytes: impl Into<Vec<u8>>,
) -> Result<(), WorkspaceError> {
    let (workspace, path, bytes) = (workspace.clone(), path.clone(), bytes.into());
    blocking(move || workspace.write(&path, &bytes)).await
}

pub(crate) async fn list(workspace: &Workspace) -> Result<Vec<FileEntry>, WorkspaceError> {
    let workspace = workspace.clone();
    blocking(move || workspace.list("")).await
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        // Neither happens while a call runs: these closures do not panic, and nobody aborts them.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
