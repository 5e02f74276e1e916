//! Artifacts as local files: the order of writes and syncs that makes them durable.
//!
//! A file gets its final name only when its bytes are on disk, and the name counts only when its folder is too:
//! write, sync the file, rename, sync the folder. A crash leaves at most a file below `tmp`.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use annals_core::block::{Blob, BlobDigest};
use bytes::Bytes;
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest as _, Sha256};
use tempfile::TempPath;

use super::{ArtifactError, key};
use crate::disk::{self, Step};
use crate::failpoint::failpoint;

const PIECE_BYTES: usize = 256 * 1024;

/// The folder, and the lock that keeps garbage collection from what is being put.
#[derive(Debug)]
pub(super) struct Files {
    folder: PathBuf,
    tmp: PathBuf,
}

impl Files {
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        disk::make_folders(folder)?;
        let folder = folder.canonicalize()?;
        let tmp = folder.join("tmp");
        match disk::make_folders(&tmp) {
            // What is kept can be read all the same; a put says why it fails.
            Err(error) if !disk::is_read_only(&error) => return Err(error),
            _ => disk::make_private(&folder),
        }
        Ok(Files { folder, tmp })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn tmp(&self) -> &Path {
        &self.tmp
    }

    /// Holds off garbage collection (shared) or everybody (exclusive) until the file is dropped.
    pub(super) fn lock(&self, operation: FlockOperation) -> io::Result<File> {
        let file = File::options()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(self.folder.join(".lock"))?;
        flock(&file, operation)?;
        Ok(file)
    }

    fn place(&self, digest: &BlobDigest) -> PathBuf {
        self.folder.join(key(digest))
    }

    /// Keeps bytes that hash to `blob`.
    pub(super) fn put(&self, blob: Blob, bytes: &[u8]) -> Result<(), ArtifactError> {
        let failed = |error| ArtifactError::local(&self.folder, error);
        let _shared = self.lock(FlockOperation::LockShared).map_err(failed)?;
        if self.keep_present(blob).map_err(failed)? {
            return Ok(());
        }
        let (mut file, temp) = self.create().map_err(failed)?;
        file.write_all(bytes).map_err(failed)?;
        self.publish(&file, temp, blob).map_err(failed)
    }

    /// Keeps a file's content: copied and hashed in one pass.
    pub(super) fn put_file(&self, source: File) -> Result<Blob, ArtifactError> {
        let failed = |error| ArtifactError::local(&self.folder, error);
        let _shared = self.lock(FlockOperation::LockShared).map_err(failed)?;
        let (mut file, temp) = self.create().map_err(failed)?;
        let mut parts = Parts::new(source);
        let mut size_bytes = 0;
        while let Some(part) = parts.next().map_err(failed)? {
            size_bytes += part.len() as u64;
            file.write_all(&part).map_err(failed)?;
        }
        let blob = Blob {
            digest: parts.digest(),
            size_bytes,
        };
        if !self.keep_present(blob).map_err(failed)? {
            self.publish(&file, temp, blob).map_err(failed)?;
        }
        Ok(blob)
    }

    /// Keeps what was written to a file of [`create`](Self::create) and hashes to `blob`.
    pub(super) fn keep_draft(&self, file: &File, temp: TempPath, blob: Blob) -> Result<(), ArtifactError> {
        let failed = |error| ArtifactError::local(&self.folder, error);
        let _shared = self.lock(FlockOperation::LockShared).map_err(failed)?;
        match self.keep_present(blob).map_err(failed)? {
            true => Ok(()),
            false => self.publish(file, temp, blob).map_err(failed),
        }
    }

    /// True when the bytes are kept already, whole and durably. Their time is renewed, which tells garbage
    /// collection that a block may be about to name them. Damaged ones count as absent and are replaced.
    fn keep_present(&self, blob: Blob) -> io::Result<bool> {
        let place = self.place(&blob.digest);
        let mut file = match File::open(&place) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        if file.metadata()?.len() != blob.size_bytes || hash(&mut file)? != blob {
            return Ok(false);
        }
        let now = rustix::fs::Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_NOW,
        };
        let times = rustix::fs::Timestamps {
            last_access: now,
            last_modification: now,
        };
        rustix::fs::futimens(&file, &times)?;
        // Whoever put it first may not have synced the name yet.
        disk::sync_folder(parent(&place))?;
        Ok(true)
    }

    pub(super) fn create(&self) -> io::Result<(File, TempPath)> {
        let (file, path) = tempfile::Builder::new()
            .prefix("put-")
            .tempfile_in(&self.tmp)?
            .into_parts();
        disk::trace(|| Step::Created(path.to_path_buf()));
        failpoint("artifact.created");
        Ok((file, path))
    }

    fn publish(&self, file: &File, temp: TempPath, blob: Blob) -> io::Result<()> {
        disk::trace(|| Step::Wrote(temp.to_path_buf()));
        failpoint("artifact.written");
        disk::sync_file(file, &temp)?;
        failpoint("artifact.synced");
        let place = self.place(&blob.digest);
        disk::make_folders(parent(&place))?;
        disk::rename(temp, &place)?;
        failpoint("artifact.renamed");
        disk::sync_folder(parent(&place))?;
        failpoint("artifact.folder_synced");
        Ok(())
    }

    /// Removes a digest unless it was put or used again since `older_than_micros`; gives the bytes freed.
    pub(super) fn remove_if_older(
        &self,
        digest: &BlobDigest,
        older_than_micros: i64,
    ) -> io::Result<Option<u64>> {
        let _exclusive = self.lock(FlockOperation::LockExclusive)?;
        remove_if_older(&self.place(digest), older_than_micros)
    }
}

/// Removes a file unless it is newer; gives the bytes freed.
pub(super) fn remove_if_older(path: &Path, older_than_micros: i64) -> io::Result<Option<u64>> {
    use std::os::unix::fs::MetadataExt as _;
    let meta = match fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let modified_micros = meta
        .mtime()
        .saturating_mul(1_000_000)
        .saturating_add(meta.mtime_nsec() / 1_000);
    if modified_micros >= older_than_micros {
        return Ok(None);
    }
    fs::remove_file(path)?;
    Ok(Some(meta.len()))
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

/// What the whole content of a file hashes to.
pub fn hash(file: &mut File) -> io::Result<Blob> {
    file.seek(SeekFrom::Start(0))?;
    let mut hash = Sha256::new();
    let mut piece = vec![0; PIECE_BYTES];
    let mut size_bytes = 0;
    loop {
        let read = file.read(&mut piece)?;
        if read == 0 {
            file.seek(SeekFrom::Start(0))?;
            return Ok(Blob {
                digest: BlobDigest(hash.finalize().into()),
                size_bytes,
            });
        }
        hash.update(&piece[..read]);
        size_bytes += read as u64;
    }
}

/// A file piece by piece, hashed on the way.
pub(super) struct Parts {
    file: File,
    hash: Sha256,
    begun: bool,
}

impl Parts {
    pub(super) fn new(file: File) -> Self {
        Parts {
            file,
            hash: Sha256::new(),
            begun: false,
        }
    }

    /// The next piece; none at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Bytes>> {
        if !std::mem::replace(&mut self.begun, true) {
            self.file.seek(SeekFrom::Start(0))?;
        }
        let mut piece = vec![0; PIECE_BYTES];
        let read = self.file.read(&mut piece)?;
        piece.truncate(read);
        self.hash.update(&piece);
        Ok((read > 0).then(|| piece.into()))
    }

    /// What the pieces so far hash to.
    pub(super) fn digest(&self) -> BlobDigest {
        BlobDigest(self.hash.clone().finalize().into())
    }
}
