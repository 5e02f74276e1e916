//! Artifacts as local files: the order of writes and syncs that makes them durable.
//!
//! A file gets its final name only when its bytes are on disk, and the name counts only when its folder is too:
//! write, sync the file, rename, sync the folder. A crash leaves at most a file below `tmp`.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use annals_core::block::{Blob, BlobDigest};
use annals_core::time::Timestamp;
use bytes::Bytes;
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest as _, Sha256};
use tempfile::TempPath;

use super::place::Kept;
use super::{ArtifactError, ROOT, digest_of_key, key};
use crate::disk::{self, DiskStep};
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

    /// Holds off garbage collection (shared) or everybody (exclusive) until the file is dropped.
    fn lock(&self, operation: FlockOperation) -> io::Result<File> {
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
        let failed = |error| self.failed(error);
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
        let failed = |error| self.failed(error);
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
        let failed = |error| self.failed(error);
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
        disk::trace(|| DiskStep::Created(path.to_path_buf()));
        failpoint("artifact.created");
        Ok((file, path))
    }

    fn publish(&self, file: &File, temp: TempPath, blob: Blob) -> io::Result<()> {
        disk::trace(|| DiskStep::Wrote(temp.to_path_buf()));
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

    /// The file of a digest.
    pub(super) fn find(&self, digest: &BlobDigest) -> Result<File, ArtifactError> {
        File::open(self.place(digest)).map_err(|error| ArtifactError::unread(*digest, error))
    }

    pub(super) fn get(&self, digest: &BlobDigest) -> Result<Bytes, ArtifactError> {
        let mut bytes = Vec::new();
        let read = self.find(digest)?.read_to_end(&mut bytes);
        read.map_err(|error| ArtifactError::unread(*digest, error))?;
        Ok(bytes.into())
    }

    /// As much of the range as there is.
    pub(super) fn range(&self, digest: &BlobDigest, range: Range<u64>) -> Result<Bytes, ArtifactError> {
        let file = self.find(digest)?;
        let failed = |error| ArtifactError::unread(*digest, error);
        let size_bytes = file.metadata().map_err(failed)?.len();
        if range.start >= size_bytes || range.end <= range.start {
            let (start, end) = (range.start, range.end);
            return Err(ArtifactError::Storage {
                place: digest.to_string(),
                detail: format!("it has no bytes from {start} to {end}: there are {size_bytes}"),
            });
        }
        let length = usize::try_from(range.end.min(size_bytes) - range.start);
        let length = length.map_err(|_| failed(io::ErrorKind::FileTooLarge.into()))?;
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, range.start).map_err(failed)?;
        Ok(bytes.into())
    }

    pub(super) fn size_bytes(&self, digest: &BlobDigest) -> Result<Option<u64>, ArtifactError> {
        match fs::metadata(self.place(digest)) {
            Ok(meta) => Ok(Some(meta.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(ArtifactError::unread(*digest, error)),
        }
    }

    /// The folders that keys fan out into.
    pub(super) fn fans(&self) -> Result<Vec<PathBuf>, ArtifactError> {
        let entries = match fs::read_dir(self.folder.join(ROOT)) {
            Ok(entries) => entries,
            // Nothing was ever put.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.unlisted(error)),
        };
        let mut fans = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| self.unlisted(error))?;
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                fans.push(entry.path());
            }
        }
        Ok(fans)
    }

    /// What one of these folders keeps. What is gone by the time it is looked at is left out.
    pub(super) fn list(&self, fan: &Path) -> Result<Vec<Kept>, ArtifactError> {
        let mut kept = Vec::new();
        for entry in fs::read_dir(fan).map_err(|error| self.unlisted(error))? {
            let entry = entry.map_err(|error| self.unlisted(error))?;
            let path = entry.path();
            let name = path.strip_prefix(&self.folder).ok().and_then(Path::to_str);
            let (Some(digest), Ok(meta)) = (name.and_then(digest_of_key), entry.metadata()) else {
                continue;
            };
            if meta.is_file() {
                kept.push(Kept {
                    digest,
                    size_bytes: meta.len(),
                    modified: modified(&meta),
                });
            }
        }
        Ok(kept)
    }

    /// Removes a digest unless it was put or used again since; gives the bytes freed.
    pub(super) fn remove_if_older(
        &self,
        digest: &BlobDigest,
        than: Timestamp,
    ) -> Result<Option<u64>, ArtifactError> {
        let failed = |error| self.failed(error);
        let _exclusive = self.lock(FlockOperation::LockExclusive).map_err(failed)?;
        remove_if_older(&self.place(digest), than).map_err(failed)
    }

    /// Removes temporary files that a crash left.
    pub(super) fn remove_abandoned(&self, older_than: Timestamp) -> Result<u64, ArtifactError> {
        let failed = |error| ArtifactError::local(&self.tmp, error);
        let mut freed_bytes = 0;
        for entry in fs::read_dir(&self.tmp).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            freed_bytes += remove_if_older(&path, older_than).map_err(failed)?.unwrap_or(0);
        }
        Ok(freed_bytes)
    }

    fn failed(&self, error: io::Error) -> ArtifactError {
        ArtifactError::local(&self.folder, error)
    }

    fn unlisted(&self, error: io::Error) -> ArtifactError {
        ArtifactError::Storage {
            place: self.folder.display().to_string(),
            detail: error.to_string(),
        }
    }
}

/// Removes a file unless it is newer; gives the bytes freed.
fn remove_if_older(path: &Path, than: Timestamp) -> io::Result<Option<u64>> {
    let meta = match fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if modified(&meta) >= than {
        return Ok(None);
    }
    fs::remove_file(path)?;
    Ok(Some(meta.len()))
}

fn modified(meta: &fs::Metadata) -> Timestamp {
    let micros = meta.mtime().saturating_mul(1_000_000);
    Timestamp::from_unix_micros(micros.saturating_add(meta.mtime_nsec() / 1_000))
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
