//! What can go wrong in a workspace.

use std::io;
use std::path::Path;

use annals_core::path::PhysicalPath;
use rustix::io::Errno;

use crate::artifacts::ArtifactError;

/// Why the workspace could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// There is no such file.
    #[error("`{path}` does not exist in the workspace")]
    NotFound {
        /// The path asked for.
        path: PhysicalPath,
    },
    /// Something else than a file has that name.
    #[error("`{path}` is not a file")]
    NotAFile {
        /// The path asked for.
        path: PhysicalPath,
    },
    /// It has more bytes than the caller takes.
    #[error("`{path}` has more than {max_bytes} bytes")]
    TooLarge {
        /// The path asked for.
        path: PhysicalPath,
        /// How many are taken.
        max_bytes: u64,
    },
    /// A symlink leads out of the workspace, or stands where a folder must be.
    #[error("`{path}` goes through a symlink that leads out of its folder: remove that symlink")]
    Escapes {
        /// The path asked for.
        path: PhysicalPath,
    },
    /// There is no room.
    #[error("no space is left for `{path}`: free some and try again")]
    DiskFull {
        /// The path asked for.
        path: PhysicalPath,
    },
    /// The place cannot be written to.
    #[error("`{path}` cannot be written: its disk or folder is read-only")]
    ReadOnly {
        /// The path asked for.
        path: PhysicalPath,
    },
    /// The file system failed otherwise.
    #[error("`{path}` failed: {source}")]
    File {
        /// The path asked for.
        path: PhysicalPath,
        /// What it said.
        source: io::Error,
    },
    /// The workspace's own folder failed.
    #[error("the workspace `{folder}` failed: {source}")]
    Folder {
        /// Where it lies.
        folder: String,
        /// What the file system said.
        source: io::Error,
    },
    /// The bytes could not be brought back.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
}

impl WorkspaceError {
    pub(super) fn folder(folder: &Path, source: io::Error) -> Self {
        WorkspaceError::Folder {
            folder: folder.display().to_string(),
            source,
        }
    }

    pub(super) fn file(path: &PhysicalPath, source: io::Error) -> Self {
        let path = path.clone();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                WorkspaceError::DiskFull { path }
            }
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                WorkspaceError::ReadOnly { path }
            }
            _ => WorkspaceError::File { path, source },
        }
    }

    /// A refusal met while reading.
    pub(super) fn read(path: &PhysicalPath, errno: Errno) -> Self {
        match errno {
            Errno::NOENT => WorkspaceError::NotFound { path: path.clone() },
            Errno::XDEV | Errno::LOOP => WorkspaceError::Escapes { path: path.clone() },
            Errno::NOTDIR | Errno::ISDIR => WorkspaceError::NotAFile { path: path.clone() },
            errno => WorkspaceError::file(path, errno.into()),
        }
    }

    /// A refusal met while writing, where no part may be a symlink: for the kernel that is no folder.
    pub(super) fn write(path: &PhysicalPath, errno: Errno) -> Self {
        Self::read(path, errno)
    }
}
