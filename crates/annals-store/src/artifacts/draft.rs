//! Bytes that arrive piece by piece: written and hashed on the way, so that memory holds one piece of them.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use annals_core::block::{Blob, BlobDigest};
use sha2::{Digest as _, Sha256};
use tempfile::TempPath;

use super::{ArtifactError, ArtifactStore, Stored, blocking};

/// Pieces are gathered up to this before they are written.
const PIECE_BYTES: usize = 256 * 1024;

/// What is not kept yet. Dropped, it leaves nothing behind. How much may come is for the caller to count.
#[derive(Debug)]
pub struct ArtifactDraft {
    store: ArtifactStore,
    file: Arc<File>,
    /// Its name below the store's folder; an object store gets it from a file without a name.
    temp: Option<TempPath>,
    gathered: Vec<u8>,
    hash: Sha256,
    size_bytes: u64,
}

impl ArtifactStore {
    /// Begins to keep bytes that arrive piece by piece.
    pub async fn draft(&self) -> Result<ArtifactDraft, ArtifactError> {
        let (file, temp) = self.place.begin().await?;
        Ok(ArtifactDraft {
            store: self.clone(),
            file: Arc::new(file),
            temp,
            gathered: Vec::new(),
            hash: Sha256::new(),
            size_bytes: 0,
        })
    }
}

impl ArtifactDraft {
    /// Adds a piece.
    pub async fn write(&mut self, piece: &[u8]) -> Result<(), ArtifactError> {
        self.hash.update(piece);
        self.size_bytes += piece.len() as u64;
        self.gathered.extend_from_slice(piece);
        match self.gathered.len() < PIECE_BYTES {
            true => Ok(()),
            false => self.flush().await,
        }
    }

    async fn flush(&mut self) -> Result<(), ArtifactError> {
        let (file, bytes) = (Arc::clone(&self.file), std::mem::take(&mut self.gathered));
        let place = self.store.place.shown();
        blocking(move || {
            (&*file)
                .write_all(&bytes)
                .map_err(|error| ArtifactError::local(Path::new(&place), error))
        })
        .await
    }

    /// Keeps what was written; durable when this returns.
    pub async fn keep(mut self) -> Result<Stored, ArtifactError> {
        self.flush().await?;
        let blob = Blob {
            digest: BlobDigest(self.hash.finalize().into()),
            size_bytes: self.size_bytes,
        };
        let shown = self.store.place.shown();
        let file = self.file.try_clone();
        let file = file.map_err(|error| ArtifactError::local(Path::new(&shown), error))?;
        let written = self.store.place.keep(file, self.temp, blob);
        let ledger = self.store.ledger.as_deref();
        self.store.keep_by(ledger, blob, written).await?;
        Ok(self.store.stored(blob))
    }
}
