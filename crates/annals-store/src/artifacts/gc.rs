//! Mark-and-sweep garbage collection: removes bytes that no block names.
//!
//! Between a `put` and the append that names it the bytes have no name yet. They are safe because they are new:
//! only what is older than the caller's limit goes, a `put` of present bytes makes them new again, and the age is
//! looked at once more under the lock before anything is removed.

use std::collections::HashSet;

use annals_core::block::BlobDigest;
use annals_core::time::Timestamp;
use futures::TryStreamExt as _;

use super::{ArtifactError, ArtifactStore};

/// What garbage collection did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Artifacts looked at.
    pub seen: u64,
    /// Artifacts removed.
    pub removed: u64,
    /// Their bytes, with those of abandoned temporary files.
    pub freed_bytes: u64,
}

/// Whether anything is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sweep {
    Removes,
    Looks,
}

impl ArtifactStore {
    /// Removes what is neither in `live` nor younger than `older_than`.
    ///
    /// Take `live` from [`named_blobs`](crate::BlockLog::named_blobs) of every log that uses this store, and set
    /// `older_than` well before now: longer ago than any append may lag behind its `put` (an hour is plenty), so
    /// that a clock which is a little off does no harm.
    pub async fn gc(
        &self,
        live: impl IntoIterator<Item = BlobDigest>,
        older_than: Timestamp,
    ) -> Result<Swept, ArtifactError> {
        self.sweep(live, older_than, Sweep::Removes).await
    }

    /// What [`gc`](Self::gc) would remove.
    pub async fn garbage(
        &self,
        live: impl IntoIterator<Item = BlobDigest>,
        older_than: Timestamp,
    ) -> Result<Swept, ArtifactError> {
        self.sweep(live, older_than, Sweep::Looks).await
    }

    async fn sweep(
        &self,
        live: impl IntoIterator<Item = BlobDigest>,
        older_than: Timestamp,
        sweep: Sweep,
    ) -> Result<Swept, ArtifactError> {
        let live: HashSet<BlobDigest> = live.into_iter().collect();
        let mut swept = Swept::default();
        let mut listed = self.place.list();
        while let Some(kept) = listed.try_next().await? {
            swept.seen += 1;
            if live.contains(&kept.digest) || kept.modified >= older_than {
                continue;
            }
            let freed_bytes = match sweep {
                Sweep::Removes => self.place.remove_if_older(kept.digest, older_than).await?,
                Sweep::Looks => Some(kept.size_bytes),
            };
            if let Some(freed_bytes) = freed_bytes {
                swept.removed += 1;
                swept.freed_bytes += freed_bytes;
            }
        }
        if sweep == Sweep::Removes {
            swept.freed_bytes += self.place.remove_abandoned(older_than).await?;
        }
        Ok(swept)
    }
}
