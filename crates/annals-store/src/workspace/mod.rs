//! OUT_DIR: the working tree of one conversation, a cache that may be deleted at any time.
//!
//! All access goes through a handle on the folder and cannot leave it: neither by `..` (paths are safe by type)
//! nor by a symlink that executed code may have left there. Writes appear whole or not at all. Nothing here is
//! the truth: hosted files come back from the artifact store by [`materialise`](Workspace::materialise).
//!
//! The methods block for as long as the disk does, except where they are `async`.

mod beneath;
mod error;
mod tree;

pub use error::WorkspaceError;
pub use tree::FileEntry;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use annals_core::block::BlobDigest;
use annals_core::path::PhysicalPath;
use futures::TryStreamExt;
use rustix::fs::{AtFlags, Mode};

use self::beneath::Draft;
use crate::artifacts::{ArtifactStore, hash};
use crate::failpoint::failpoint;

/// The working tree of one conversation.
#[derive(Clone, Debug)]
pub struct Workspace {
    root: Arc<Root>,
}

#[derive(Debug)]
struct Root {
    path: PathBuf,
    /// Opened at the first use, so that a conversation without files costs neither a folder nor a handle.
    folder: OnceLock<OwnedFd>,
}

/// What [`Workspace::materialise`] had to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Materialised {
    /// The file was there with these bytes.
    Present,
    /// The bytes were brought back from the artifact store.
    Rehosted,
}

impl Workspace {
    /// Opens the tree at `folder`, making it if it is missing.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, WorkspaceError> {
        let workspace = Self::at(folder)?;
        workspace.folder()?;
        Ok(workspace)
    }

    /// The tree at `folder`, which is made at its first use.
    pub fn at(folder: impl AsRef<Path>) -> Result<Self, WorkspaceError> {
        let given = folder.as_ref();
        let path = std::path::absolute(given).map_err(|error| WorkspaceError::folder(given, error))?;
        Ok(Workspace {
            root: Arc::new(Root {
                path,
                folder: OnceLock::new(),
            }),
        })
    }

    fn folder(&self) -> Result<&OwnedFd, WorkspaceError> {
        if let Some(folder) = self.root.folder.get() {
            return Ok(folder);
        }
        let failed = |error| WorkspaceError::folder(&self.root.path, error);
        std::fs::create_dir_all(&self.root.path).map_err(failed)?;
        let path = self.root.path.canonicalize().map_err(failed)?;
        let opened = beneath::open_root(&path).map_err(|errno| failed(errno.into()))?;
        // Of two that opened it at once, one handle is kept; they are the same folder.
        Ok(self.root.folder.get_or_init(|| opened))
    }

    /// Where the tree lies on this machine, once something is in it. For sandboxes; never for models.
    pub fn root(&self) -> &Path {
        &self.root.path
    }

    /// Writes a file: whole or not at all, replacing what was there. Folders are made as needed.
    pub fn write(&self, path: &PhysicalPath, bytes: &[u8]) -> Result<(), WorkspaceError> {
        let mut draft = self.draft(path)?;
        draft
            .file
            .write_all(bytes)
            .map_err(|error| WorkspaceError::file(path, error))?;
        self.publish(path, draft)
    }

    fn draft(&self, path: &PhysicalPath) -> Result<Draft, WorkspaceError> {
        Draft::new(self.folder()?, path).map_err(|errno| WorkspaceError::write(path, errno))
    }

    fn publish(&self, path: &PhysicalPath, draft: Draft) -> Result<(), WorkspaceError> {
        failpoint("workspace.written");
        draft
            .publish()
            .map_err(|errno| WorkspaceError::write(path, errno))?;
        failpoint("workspace.renamed");
        Ok(())
    }

    /// Opens a file for reading. Symlinks are followed as long as they stay inside.
    pub fn open_file(&self, path: &PhysicalPath) -> Result<File, WorkspaceError> {
        let file = beneath::open_file(self.folder()?, path.as_str())
            .map_err(|errno| WorkspaceError::read(path, errno))?;
        let meta = file
            .metadata()
            .map_err(|error| WorkspaceError::file(path, error))?;
        if !meta.is_file() {
            return Err(WorkspaceError::NotAFile { path: path.clone() });
        }
        Ok(file)
    }

    /// The content of a file.
    pub fn read(&self, path: &PhysicalPath) -> Result<Vec<u8>, WorkspaceError> {
        let mut bytes = Vec::new();
        self.open_file(path)?
            .read_to_end(&mut bytes)
            .map_err(|error| WorkspaceError::file(path, error))?;
        Ok(bytes)
    }

    /// How many bytes a file has.
    pub fn size_bytes(&self, path: &PhysicalPath) -> Result<u64, WorkspaceError> {
        let meta = self.open_file(path)?.metadata();
        Ok(meta.map_err(|error| WorkspaceError::file(path, error))?.len())
    }

    /// Whether there is a file that can be read.
    pub fn exists(&self, path: &PhysicalPath) -> bool {
        self.open_file(path).is_ok()
    }

    /// Removes a file, or the symlink that stands in its place.
    pub fn remove(&self, path: &PhysicalPath) -> Result<(), WorkspaceError> {
        let failed = |errno| WorkspaceError::write(path, errno);
        let (folder, name) = beneath::open_parent(self.folder()?, path.as_str()).map_err(failed)?;
        rustix::fs::unlinkat(&folder, name, AtFlags::empty()).map_err(failed)
    }

    /// Takes away the right to change a file in place. A later [`write`](Self::write) still replaces it.
    pub fn set_read_only(&self, path: &PhysicalPath) -> Result<(), WorkspaceError> {
        let file = self.open_file(path)?;
        rustix::fs::fchmod(&file, Mode::from_raw_mode(0o444))
            .map_err(|errno| WorkspaceError::write(path, errno))
    }

    /// Files whose path begins with `prefix` (`""`: all of them), sorted by path. What is no regular file, or has
    /// a name that no path can express, is left out.
    pub fn list(&self, prefix: &str) -> Result<Vec<FileEntry>, WorkspaceError> {
        tree::list(self.folder()?, prefix)
            .map_err(|errno| WorkspaceError::folder(&self.root.path, errno.into()))
    }

    /// Makes sure that the file has exactly the bytes of `digest`, bringing them from the store when it is absent
    /// or differs.
    pub async fn materialise(
        &self,
        path: &PhysicalPath,
        digest: &BlobDigest,
        artifacts: &ArtifactStore,
    ) -> Result<Materialised, WorkspaceError> {
        if self.has(path, digest).await? {
            return Ok(Materialised::Present);
        }
        let mut pieces = artifacts.stream(digest).await?;
        let mut draft = self.draft(path)?;
        while let Some(piece) = pieces.try_next().await? {
            draft
                .file
                .write_all(&piece)
                .map_err(|error| WorkspaceError::file(path, error))?;
        }
        // The stream ended without an error, so the bytes are those of the digest.
        self.publish(path, draft)?;
        Ok(Materialised::Rehosted)
    }

    async fn has(&self, path: &PhysicalPath, digest: &BlobDigest) -> Result<bool, WorkspaceError> {
        let Ok(mut file) = self.open_file(path) else {
            return Ok(false);
        };
        let hashed = tokio::task::spawn_blocking(move || hash(&mut file)).await;
        match hashed {
            Ok(Ok(blob)) => Ok(blob.digest == *digest),
            Ok(Err(error)) => Err(WorkspaceError::file(path, error)),
            Err(_) => Ok(false),
        }
    }
}
