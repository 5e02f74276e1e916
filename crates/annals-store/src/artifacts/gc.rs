//! Garbage collection: removes bytes that no block names.
//!
//! Between a `put` and the append that names it the bytes have no name yet. They are safe because they are new:
//! only what is older than the caller's limit goes, a `put` of present bytes makes them new again, and the age is
//! looked at once more under the lock before anything is removed.

use std::collections::HashSet;
use std::sync::Arc;

use annals_core::block::BlobDigest;
use annals_core::time::Timestamp;
use futures::TryStreamExt;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectMeta, ObjectStoreExt};

use super::{ArtifactError, ArtifactStore, blocking, digest_of_key, files};

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
        let prefix = ObjectPath::from("sha256");
        let mut objects = self.objects.list(Some(&prefix));
        while let Some(object) = objects.try_next().await.map_err(ArtifactError::open)? {
            // A name of another form is not ours to remove.
            let Some(digest) = digest_of_key(object.location.as_ref()) else {
                continue;
            };
            swept.seen += 1;
            if live.contains(&digest) || !is_older(&object, older_than) {
                continue;
            }
            let freed_bytes = match sweep {
                Sweep::Removes => self.remove(digest, older_than).await?,
                Sweep::Looks => Some(object.size),
            };
            if let Some(freed_bytes) = freed_bytes {
                swept.removed += 1;
                swept.freed_bytes += freed_bytes;
            }
        }
        if sweep == Sweep::Removes {
            swept.freed_bytes += self.remove_abandoned(older_than).await?;
        }
        Ok(swept)
    }

    /// Removes a digest, whatever its age; nothing if it is not there.
    pub(super) async fn erase_whole(&self, digest: BlobDigest) -> Result<(), ArtifactError> {
        if self.files.is_some() {
            return self
                .remove(digest, Timestamp::from_unix_micros(i64::MAX))
                .await
                .map(|_| ());
        }
        match self.objects.delete(&ObjectPath::from(super::key(&digest))).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(ArtifactError::object(digest, error)),
        }
    }

    async fn remove(&self, digest: BlobDigest, older_than: Timestamp) -> Result<Option<u64>, ArtifactError> {
        if let Some(files) = &self.files {
            let files = Arc::clone(files);
            return blocking(move || {
                files
                    .remove_if_older(&digest, older_than.unix_micros())
                    .map_err(|error| ArtifactError::local(files.folder(), error))
            })
            .await;
        }
        let location = ObjectPath::from(super::key(&digest));
        let failed = |error| ArtifactError::object(digest, error);
        let object = match self.objects.head(&location).await {
            Ok(object) if is_older(&object, older_than) => object,
            Ok(_) | Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        self.objects.delete(&location).await.map_err(failed)?;
        Ok(Some(object.size))
    }

    /// Removes temporary files that a crash left.
    async fn remove_abandoned(&self, older_than: Timestamp) -> Result<u64, ArtifactError> {
        let Some(files) = self.files.clone() else {
            return Ok(0);
        };
        blocking(move || {
            let failed = |error| ArtifactError::local(files.tmp(), error);
            let mut freed_bytes = 0;
            for entry in std::fs::read_dir(files.tmp()).map_err(failed)? {
                let path = entry.map_err(failed)?.path();
                freed_bytes += files::remove_if_older(&path, older_than.unix_micros())
                    .map_err(failed)?
                    .unwrap_or(0);
            }
            Ok(freed_bytes)
        })
        .await
    }
}

fn is_older(object: &ObjectMeta, older_than: Timestamp) -> bool {
    object.last_modified.timestamp_micros() < older_than.unix_micros()
}
