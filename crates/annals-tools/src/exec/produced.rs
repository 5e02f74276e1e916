//! The files of a contract after the run: there or not, and what they are.

use std::os::unix::fs::MetadataExt;

use annals_core::block::{ArtifactKind, Visibility};
use annals_core::limits;
use annals_core::path::PhysicalPath;
use annals_store::{Workspace, WorkspaceError};

use crate::cx::ToolCx;
use crate::file::{Produced, Recorded, TextShown};

/// A larger file stays in OUT_DIR but is neither shown nor hosted.
pub(crate) const FILE_MAX_BYTES: u64 = 100_000_000;

/// One version of a file on disk, to see whether a run has written it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    size_bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// The stamp of a file; none when there is no file.
pub(super) fn stamp(workspace: &Workspace, path: &PhysicalPath) -> Option<Stamp> {
    let meta = workspace.open_file(path).ok()?.metadata().ok()?;
    Some(Stamp {
        inode: meta.ino(),
        size_bytes: meta.len(),
        modified: (meta.mtime(), meta.mtime_nsec()),
        changed: (meta.ctime(), meta.ctime_nsec()),
    })
}

/// Takes in a file that the run was to produce; else why it is no good.
pub(super) async fn take(
    cx: &ToolCx,
    tool: &str,
    path: &PhysicalPath,
    before: Option<Stamp>,
) -> Result<Recorded, String> {
    let bytes = tokio::task::spawn_blocking({
        let (workspace, path) = (cx.workspace().clone(), path.clone());
        move || read(&workspace, &path, before)
    });
    let bytes = bytes.await.map_err(|error| error.to_string())??;
    let produced = Produced {
        path,
        bytes: &bytes,
        kind: ArtifactKind::File,
        visibility: Visibility::External,
        channel: None,
    };
    let recorded = produced
        .record(
            cx,
            tool,
            TextShown::UpTo {
                chars: limits::EXEC_TEXT_MAX_CHARS,
            },
        )
        .await;
    match recorded.error {
        Some(error) => Err(error.message),
        None => Ok(recorded),
    }
}

fn read(workspace: &Workspace, path: &PhysicalPath, before: Option<Stamp>) -> Result<Vec<u8>, String> {
    let size_bytes = match workspace.size_bytes(path) {
        Ok(size_bytes) => size_bytes,
        Err(WorkspaceError::NotFound { .. }) => return Err("file not produced".into()),
        Err(error) => return Err(error.to_string()),
    };
    // A file of an earlier call that this one left alone was not produced by it.
    if before.is_some() && before == stamp(workspace, path) {
        return Err("file not produced (it is as an earlier call left it)".into());
    }
    if size_bytes == 0 {
        return Err("file is empty".into());
    }
    if size_bytes > FILE_MAX_BYTES {
        return Err(format!(
            "file has {size_bytes} bytes, more than {FILE_MAX_BYTES}: write a smaller one, or several"
        ));
    }
    workspace
        .read(path, FILE_MAX_BYTES)
        .map_err(|error| error.to_string())
}
