//! Garbage collection of a store that many machines share: a row for each artifact decides, not its age in the bucket.
//!
//! A put takes the row before it writes the bytes, and an append that names them looks at it once more. Collection marks a
//! row **before** it removes the bytes, for a bounded time, and a put that finds the mark waits until it is gone and writes
//! the bytes afterwards. Bytes that were removed count as removed until whoever writes them again says that they are
//! there: meanwhile an append that names them, for a put of long ago, is refused. So whichever comes first, the bytes of a
//! put are there when it returns, and those that a block names stay. A collector that dies leaves a mark that runs out, and
//! at most bytes that the next one removes.

use std::sync::Arc;
use std::time::Duration;

use annals_core::block::{Blob, BlobDigest};
use async_trait::async_trait;
use bytes::Bytes;

use super::{ArtifactError, ArtifactStore, Stored, Swept, blob_of};
use crate::log::LogError;

/// A collector removes the bytes of its marks within this time, or not at all; then the marks run out.
pub const MARK: Duration = Duration::from_secs(300);

/// A removal that was not answered by then is given up, long before its mark runs out.
const REMOVAL_MAX: Duration = Duration::from_secs(60);

/// Marks that are made at once: so few that their removals end in time.
const MARKS_MAX: usize = 100;

/// Why a put fails whose bytes took longer to write than unnamed ones are kept.
const REMOVED_MEANWHILE: &str =
    "garbage collection removed it while it was being written: host the file again";

/// What is kept, as rows beside the log that names it.
#[async_trait]
pub trait ArtifactLedger: Send + Sync + std::fmt::Debug {
    /// Bytes are about to be written. When this returns nobody removes them until they are older than any collection
    /// allows, or else a block names them; what was removed before is for the caller to write again.
    async fn keeping(&self, blob: Blob) -> Result<Keeping, LogError>;

    /// Bytes that [`keeping`](Self::keeping) gave as removed are there again: from now on blocks may name them. False if
    /// they were removed once more meanwhile.
    async fn rewritten(&self, blob: Blob, removal: Removal) -> Result<bool, LogError>;

    /// Marks some artifacts after a digest that no block names and nobody has kept for this long, in the order of their
    /// digests, at most `limit`. For [`MARK`] they belong to the caller.
    async fn mark(
        &self,
        older_than: Duration,
        after: Option<BlobDigest>,
        limit: usize,
    ) -> Result<Vec<Marked>, LogError>;

    /// The bytes of these marks were removed.
    async fn removed(&self, marks: &[Marked]) -> Result<(), LogError>;

    /// How many artifacts there are, and how many of them, with how many bytes, would be marked.
    async fn garbage(&self, older_than: Duration) -> Result<Swept, LogError>;
}

/// What a ledger knew of bytes before somebody kept them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// Nothing: they are to be written.
    New,
    /// Somebody has kept them before, and may have died before they were written.
    Known,
    /// They were removed, or may have been: they are to be written, and named by no block before
    /// [`ArtifactLedger::rewritten`] was told.
    Removed(Removal),
}

/// Which removal of the same bytes, as the ledger counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removal(pub i64);

/// An artifact that is about to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marked {
    /// Which.
    pub blob: Blob,
    /// What tells this mark from a later one of the same artifact.
    pub mark: i64,
}

/// Why a collection ended early. What it has removed is noted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    /// The rows cannot be had.
    #[error(transparent)]
    Ledger(#[from] LogError),
    /// The bytes cannot be removed.
    #[error(transparent)]
    Artifacts(#[from] ArtifactError),
}

impl ArtifactStore {
    /// The same store, telling a ledger what it is about to keep.
    #[must_use]
    pub fn with_ledger(mut self, ledger: Arc<dyn ArtifactLedger>) -> Self {
        self.ledger = Some(ledger);
        self
    }

    /// Keeps bytes, telling this ledger, whether or not the store has one.
    pub async fn put_by(
        &self,
        ledger: &dyn ArtifactLedger,
        bytes: impl Into<Bytes>,
    ) -> Result<Stored, ArtifactError> {
        let bytes = bytes.into();
        let blob = blob_of(&bytes).await;
        self.keep_by(Some(ledger), blob, self.place.put(blob, bytes))
            .await?;
        Ok(self.stored(blob))
    }

    /// Writes bytes unless they are there already and the ledger knows that they are kept, so that nobody removes them.
    /// Without a ledger, writing them again is what keeps them.
    pub(super) async fn keep_by(
        &self,
        ledger: Option<&dyn ArtifactLedger>,
        blob: Blob,
        write: impl Future<Output = Result<(), ArtifactError>>,
    ) -> Result<(), ArtifactError> {
        let failed = |detail: String| ArtifactError::Storage {
            place: blob.digest.to_string(),
            detail,
        };
        let Some(ledger) = ledger else {
            return write.await;
        };
        let kept = ledger.keeping(blob).await;
        match kept.map_err(|error| failed(error.to_string()))? {
            Keeping::New => write.await,
            // Who cannot tell writes.
            Keeping::Known => match self.place.size_bytes(blob.digest).await {
                Ok(Some(size)) if size == blob.size_bytes => Ok(()),
                _ => write.await,
            },
            Keeping::Removed(removal) => {
                write.await?;
                let is_there = ledger.rewritten(blob, removal).await;
                match is_there.map_err(|error| failed(error.to_string()))? {
                    true => Ok(()),
                    false => Err(failed(REMOVED_MEANWHILE.to_owned())),
                }
            }
        }
    }

    /// Removes what no block names and nobody has kept for longer than `older_than`, by the rows of a ledger; several may
    /// do this at once. Objects that the ledger does not know are left alone.
    ///
    /// `older_than` must be longer than an append may take from its beginning to its commit: an hour is plenty.
    pub async fn collect(
        &self,
        ledger: &dyn ArtifactLedger,
        older_than: Duration,
    ) -> Result<Swept, CollectError> {
        let mut swept = Swept {
            seen: ledger.garbage(older_than).await?.seen,
            ..Swept::default()
        };
        let mut after = None;
        loop {
            let begun = tokio::time::Instant::now();
            let marks = ledger.mark(older_than, after, MARKS_MAX).await?;
            let Some(last) = marks.last() else {
                return Ok(swept);
            };
            after = Some(last.blob.digest);
            let mut removed = Vec::with_capacity(marks.len());
            let mut outcome = Ok(());
            for mark in &marks {
                // A removal that begins late could meet bytes that were written after the mark had run out.
                if begun.elapsed() + 2 * REMOVAL_MAX > MARK {
                    break;
                }
                outcome = self.erase(mark.blob.digest).await;
                if outcome.is_err() {
                    break;
                }
                removed.push(*mark);
            }
            ledger.removed(&removed).await?;
            swept.removed += removed.len() as u64;
            swept.freed_bytes += removed.iter().map(|mark| mark.blob.size_bytes).sum::<u64>();
            outcome?;
        }
    }

    async fn erase(&self, digest: BlobDigest) -> Result<(), ArtifactError> {
        match tokio::time::timeout(REMOVAL_MAX, self.place.erase(digest)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(ArtifactError::Storage {
                place: digest.to_string(),
                detail: "it does not answer; the rest is removed by the next collection".to_owned(),
            }),
        }
    }
}
