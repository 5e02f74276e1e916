//! OUT_DIR: the working tree of one conversation, a cache that may be deleted at any time.
//!
//! All access goes through a handle on the folder and cannot leave it ([`annals_files`]): neither by `..` (paths are
//! safe by type) nor by a symlink that executed code may have left there. Reading follows symlinks that stay inside;
//! writing follows none, so that a file lands where its path says, and appears whole or not at all. Nothing here is
//! the truth: hosted files come back from the artifact store by [`materialise`](Workspace::materialise).
//!
//! The methods block for as long as the disk does, except where they are `async`.

mod error;

pub use error::WorkspaceError;

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use annals_core::block::BlobDigest;
use annals_core::path::{PhysicalPath, RelPath};
use annals_files::{Draft, Links, OpenError, ReadError, Root as FilesRoot, Walk, read_at_most};
use futures::TryStreamExt;
use rustix::fs::Mode;

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
    folder: OnceLock<FilesRoot>,
}

/// A file of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Where it lies.
    pub path: PhysicalPath,
    /// How many bytes it has.
    pub size_bytes: u64,
    /// When it was last written, in microseconds since 1970.
    pub modified_micros: i64,
}

/// A file at any safe path below the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEntry {
    /// Where it lies.
    pub path: RelPath,
    /// Whether it may be executed.
    pub executable: bool,
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

    fn folder(&self) -> Result<&FilesRoot, WorkspaceError> {
        if let Some(folder) = self.root.folder.get() {
            return Ok(folder);
        }
        let failed = |error| WorkspaceError::folder(&self.root.path, error);
        std::fs::create_dir_all(&self.root.path).map_err(failed)?;
        let path = self.root.path.canonicalize().map_err(failed)?;
        let opened = FilesRoot::open(&path).map_err(|errno| failed(errno.into()))?;
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
        Draft::new(self.folder()?, Path::new(path.as_str()), 0o644, Links::Never)
            .map_err(|errno| WorkspaceError::write(path, errno))
    }

    fn publish(&self, path: &PhysicalPath, draft: Draft) -> Result<(), WorkspaceError> {
        failpoint("workspace.written");
        draft
            .publish()
            .map_err(|errno| WorkspaceError::write(path, errno))?;
        failpoint("workspace.renamed");
        Ok(())
    }

    /// Opens a regular file for reading.
    pub fn open_file(&self, path: &PhysicalPath) -> Result<File, WorkspaceError> {
        match self.folder()?.open_file(Path::new(path.as_str()), Links::Inside) {
            Ok((file, _)) => Ok(file),
            Err(OpenError::Os(errno)) => Err(WorkspaceError::read(path, errno)),
            Err(OpenError::Directory | OpenError::Special) => {
                Err(WorkspaceError::NotAFile { path: path.clone() })
            }
        }
    }

    /// The content of a file of at most `max_bytes`: code may have left one of any size under any name.
    pub fn read(&self, path: &PhysicalPath, max_bytes: u64) -> Result<Vec<u8>, WorkspaceError> {
        read_at_most(&mut self.open_file(path)?, max_bytes).map_err(|error| match error {
            ReadError::TooLarge => WorkspaceError::TooLarge {
                path: path.clone(),
                max_bytes,
            },
            ReadError::Io(error) => WorkspaceError::file(path, error),
        })
    }

    /// How many bytes a file has.
    pub fn size_bytes(&self, path: &PhysicalPath) -> Result<u64, WorkspaceError> {
        self.size_of(path, &self.open_file(path)?)
    }

    /// How many bytes an open file has; `path` is what an error names.
    pub fn size_of(&self, path: &PhysicalPath, file: &File) -> Result<u64, WorkspaceError> {
        let meta = file.metadata();
        Ok(meta.map_err(|error| WorkspaceError::file(path, error))?.len())
    }

    /// Whether there is a file that can be read.
    pub fn exists(&self, path: &PhysicalPath) -> bool {
        self.open_file(path).is_ok()
    }

    /// Removes a file, or the symlink that stands in its place.
    pub fn remove(&self, path: &PhysicalPath) -> Result<(), WorkspaceError> {
        self.folder()?
            .remove(Path::new(path.as_str()))
            .map_err(|errno| WorkspaceError::write(path, errno))
    }

    /// Takes away the right to change a file in place. A later [`write`](Self::write) still replaces it.
    pub fn set_read_only(&self, path: &PhysicalPath) -> Result<(), WorkspaceError> {
        let file = self.open_file(path)?;
        rustix::fs::fchmod(&file, Mode::from_raw_mode(0o444))
            .map_err(|errno| WorkspaceError::write(path, errno))
    }

    /// All files, sorted by path. What is no regular file, has a name that no path can express, or lies in a folder
    /// that may not be read, is left out.
    pub fn list(&self) -> Result<Vec<FileEntry>, WorkspaceError> {
        let files = Walk::new(self.folder()?).filter(annals_files::Entry::is_file);
        let mut found: Vec<FileEntry> = files
            .filter_map(|entry| {
                Some(FileEntry {
                    path: PhysicalPath::parse(entry.path.to_str()?).ok()?,
                    size_bytes: entry.size_bytes(),
                    modified_micros: entry.modified_micros(),
                })
            })
            .collect();
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    /// Everything that lies here, by any safe path, with whether it may be executed.
    pub fn tree(&self) -> Result<Vec<TreeEntry>, WorkspaceError> {
        let files = Walk::new(self.folder()?).filter(annals_files::Entry::is_file);
        let entries = files.filter_map(|entry| {
            Some(TreeEntry {
                path: RelPath::parse(entry.path.to_str()?).ok()?,
                executable: entry.stat.st_mode & 0o100 != 0,
            })
        });
        Ok(entries.collect())
    }

    /// Opens a regular file at any safe path.
    pub fn open_at(&self, path: &RelPath) -> io::Result<File> {
        match self
            .root_handle()?
            .open_file(Path::new(path.as_str()), Links::Inside)
        {
            Ok((file, _)) => Ok(file),
            Err(OpenError::Os(errno)) => Err(errno.into()),
            Err(OpenError::Directory | OpenError::Special) => Err(io::Error::other("it is not a file")),
        }
    }

    /// A draft of a file at any safe path; it appears when it is published.
    pub fn draft_at(&self, path: &RelPath, executable: bool) -> io::Result<Draft> {
        let mode = if executable { 0o755 } else { 0o644 };
        Ok(Draft::new(
            self.root_handle()?,
            Path::new(path.as_str()),
            mode,
            Links::Never,
        )?)
    }

    /// Removes what is at any safe path.
    pub fn remove_at(&self, path: &RelPath) -> io::Result<()> {
        Ok(self.root_handle()?.remove(Path::new(path.as_str()))?)
    }

    fn root_handle(&self) -> io::Result<&FilesRoot> {
        self.folder().map_err(io::Error::other)
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
