//! Artifacts in an object store whose puts are durable when they return.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use annals_core::block::{Blob, BlobDigest};
use annals_core::time::Timestamp;
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt as _, TryStreamExt as _};
use object_store::path::Path as ObjectPath;
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt as _, WriteMultipart};
use tempfile::TempPath;

use super::files::Parts;
use super::place::{Kept, Pieces, Place};
use super::{ArtifactError, ROOT, blocking, digest_of_key, hashed, key, unreadable};

/// So many parts of a file are on their way at once; each is 5 MiB.
const PARTS_UNDER_WAY_MAX: usize = 4;

/// The objects.
#[derive(Debug)]
pub(super) struct Objects(pub(super) Arc<dyn ObjectStore>);

fn location(digest: &BlobDigest) -> ObjectPath {
    ObjectPath::from(key(digest))
}

fn failed(digest: BlobDigest) -> impl Fn(Error) -> ArtifactError + Copy + Send + 'static {
    move |error| match error {
        Error::NotFound { .. } => ArtifactError::Missing { digest },
        error => ArtifactError::Storage {
            place: digest.to_string(),
            detail: error.to_string(),
        },
    }
}

fn modified(object: &ObjectMeta) -> Timestamp {
    Timestamp::from_unix_micros(object.last_modified.timestamp_micros())
}

#[async_trait]
impl Place for Objects {
    async fn put(&self, blob: Blob, bytes: Bytes) -> Result<(), ArtifactError> {
        // Written again even if present: that also tells garbage collection that it is in use.
        let put = self.0.put(&location(&blob.digest), bytes.into()).await;
        put.map(drop).map_err(failed(blob.digest))
    }

    /// Sends it in parts. The key has to be known first, so it is read twice.
    async fn put_file(&self, file: File, announced: Option<Blob>) -> Result<Blob, ArtifactError> {
        let (blob, file) = match announced {
            Some(blob) => (blob, file),
            None => hashed(file).await?,
        };
        let failed = failed(blob.digest);
        let upload = self
            .0
            .put_multipart(&location(&blob.digest))
            .await
            .map_err(failed)?;
        let mut writer = WriteMultipart::new(upload);
        let mut parts = Parts::new(file);
        loop {
            let (back, part) = blocking(move || {
                let part = parts.next().map_err(unreadable)?;
                Ok((parts, part))
            })
            .await?;
            parts = back;
            match part {
                Some(part) => {
                    // A file is read faster than it is sent.
                    if let Err(error) = writer.wait_for_capacity(PARTS_UNDER_WAY_MAX).await {
                        let _ = writer.abort().await;
                        return Err(failed(error));
                    }
                    writer.put(part);
                }
                None => break,
            }
        }
        if parts.digest() != blob.digest {
            let _ = writer.abort().await;
            return Err(ArtifactError::Changed);
        }
        writer.finish().await.map_err(failed)?;
        Ok(blob)
    }

    async fn begin(&self) -> Result<(File, Option<TempPath>), ArtifactError> {
        blocking(|| {
            tempfile::tempfile()
                .map(|file| (file, None))
                .map_err(|error| ArtifactError::local(Path::new("the temporary folder"), error))
        })
        .await
    }

    async fn keep(&self, file: File, _temp: Option<TempPath>, blob: Blob) -> Result<(), ArtifactError> {
        self.put_file(file, Some(blob)).await.map(drop)
    }

    async fn get(&self, digest: BlobDigest) -> Result<Bytes, ArtifactError> {
        let found = self.0.get(&location(&digest)).await.map_err(failed(digest))?;
        found.bytes().await.map_err(failed(digest))
    }

    async fn stream(&self, digest: BlobDigest) -> Result<Pieces, ArtifactError> {
        let found = self.0.get(&location(&digest)).await.map_err(failed(digest))?;
        Ok(found.into_stream().map_err(failed(digest)).boxed())
    }

    async fn range(&self, digest: BlobDigest, range: Range<u64>) -> Result<Bytes, ArtifactError> {
        let part = self.0.get_range(&location(&digest), range).await;
        part.map_err(failed(digest))
    }

    async fn size_bytes(&self, digest: BlobDigest) -> Result<Option<u64>, ArtifactError> {
        match self.0.head(&location(&digest)).await {
            Ok(object) => Ok(Some(object.size)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failed(digest)(error)),
        }
    }

    fn list(&self) -> BoxStream<'_, Result<Kept, ArtifactError>> {
        let objects = self.0.list(Some(&ObjectPath::from(ROOT)));
        let objects = objects.map_err(|error| ArtifactError::Storage {
            place: self.shown(),
            detail: error.to_string(),
        });
        let ours = objects.try_filter_map(|object| {
            let kept = digest_of_key(object.location.as_ref()).map(|digest| Kept {
                digest,
                size_bytes: object.size,
                modified: modified(&object),
            });
            futures::future::ready(Ok(kept))
        });
        ours.boxed()
    }

    async fn remove_if_older(
        &self,
        digest: BlobDigest,
        than: Timestamp,
    ) -> Result<Option<u64>, ArtifactError> {
        let object = match self.0.head(&location(&digest)).await {
            Ok(object) if modified(&object) < than => object,
            Ok(_) | Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(failed(digest)(error)),
        };
        let removed = self.0.delete(&location(&digest)).await;
        removed.map(|()| Some(object.size)).map_err(failed(digest))
    }

    async fn erase(&self, digest: BlobDigest) -> Result<(), ArtifactError> {
        match self.0.delete(&location(&digest)).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed(digest)(error)),
        }
    }

    async fn remove_abandoned(&self, _older_than: Timestamp) -> Result<u64, ArtifactError> {
        Ok(0)
    }

    fn shown(&self) -> String {
        "artifacts".to_owned()
    }
}
