//! Artifacts in a folder of this machine: the file work of [`files`](super::files) on threads that may block.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use annals_core::block::{Blob, BlobDigest};
use annals_core::time::Timestamp;
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use tempfile::TempPath;

use super::files::{Files, Parts};
use super::place::{Kept, Pieces, Place};
use super::{ArtifactError, blocking};

/// The folder.
#[derive(Debug)]
pub(super) struct Folder {
    files: Arc<Files>,
}

impl Folder {
    pub(super) fn open(folder: &Path) -> Result<Self, ArtifactError> {
        let files = Files::open(folder).map_err(|error| ArtifactError::local(folder, error))?;
        Ok(Folder {
            files: Arc::new(files),
        })
    }

    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Files) -> Result<T, ArtifactError> + Send + 'static,
    ) -> Result<T, ArtifactError> {
        let files = Arc::clone(&self.files);
        blocking(move || work(&files)).await
    }
}

#[async_trait]
impl Place for Folder {
    async fn put(&self, blob: Blob, bytes: Bytes) -> Result<(), ArtifactError> {
        self.work(move |files| files.put(blob, &bytes)).await
    }

    /// Copied and hashed in one pass.
    async fn put_file(&self, file: File, announced: Option<Blob>) -> Result<Blob, ArtifactError> {
        let blob = self.work(move |files| files.put_file(file)).await?;
        match announced.is_some_and(|announced| announced != blob) {
            true => Err(ArtifactError::Changed),
            false => Ok(blob),
        }
    }

    async fn begin(&self) -> Result<(File, Option<TempPath>), ArtifactError> {
        let begin = |files: &Files| {
            let (file, temp) = files.create()?;
            Ok((file, Some(temp)))
        };
        self.work(move |files| begin(files).map_err(|error| ArtifactError::local(files.folder(), error)))
            .await
    }

    async fn keep(&self, file: File, temp: Option<TempPath>, blob: Blob) -> Result<(), ArtifactError> {
        match temp {
            Some(temp) => self.work(move |files| files.keep_draft(&file, temp, blob)).await,
            None => self.put_file(file, Some(blob)).await.map(drop),
        }
    }

    async fn get(&self, digest: BlobDigest) -> Result<Bytes, ArtifactError> {
        self.work(move |files| files.get(&digest)).await
    }

    async fn stream(&self, digest: BlobDigest) -> Result<Pieces, ArtifactError> {
        let file = self.work(move |files| files.find(&digest)).await?;
        let pieces = stream::try_unfold(Parts::new(file), move |mut parts| {
            blocking(move || {
                let piece = parts
                    .next()
                    .map_err(|error| ArtifactError::unread(digest, error))?;
                Ok(piece.map(|piece| (piece, parts)))
            })
        });
        Ok(pieces.boxed())
    }

    async fn range(&self, digest: BlobDigest, range: Range<u64>) -> Result<Bytes, ArtifactError> {
        self.work(move |files| files.range(&digest, range)).await
    }

    async fn size_bytes(&self, digest: BlobDigest) -> Result<Option<u64>, ArtifactError> {
        self.work(move |files| files.size_bytes(&digest)).await
    }

    /// One folder of names after the other, so that memory holds the names of one.
    fn list(&self) -> BoxStream<'_, Result<Kept, ArtifactError>> {
        let fans = self.work(|files| files.fans());
        let listed = stream::once(fans).map_ok(|fans| stream::iter(fans).map(Ok));
        let kept = listed.try_flatten().and_then(|fan| {
            let kept = self.work(move |files| files.list(&fan));
            async { Ok(stream::iter(kept.await?).map(Ok)) }
        });
        kept.try_flatten().boxed()
    }

    async fn remove_if_older(
        &self,
        digest: BlobDigest,
        than: Timestamp,
    ) -> Result<Option<u64>, ArtifactError> {
        self.work(move |files| files.remove_if_older(&digest, than)).await
    }

    async fn erase(&self, digest: BlobDigest) -> Result<(), ArtifactError> {
        let any = Timestamp::from_unix_micros(i64::MAX);
        self.remove_if_older(digest, any).await.map(drop)
    }

    async fn remove_abandoned(&self, older_than: Timestamp) -> Result<u64, ArtifactError> {
        self.work(move |files| files.remove_abandoned(older_than)).await
    }

    fn shown(&self) -> String {
        self.files.folder().display().to_string()
    }
}
