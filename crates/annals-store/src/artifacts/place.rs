//! What a store of artifacts needs of the place that keeps them: a folder of this machine or an object store.

use std::fs::File;
use std::ops::Range;

use annals_core::block::{Blob, BlobDigest};
use annals_core::time::Timestamp;
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use tempfile::TempPath;

use super::ArtifactError;

/// Bytes, piece by piece.
pub(super) type Pieces = BoxStream<'static, Result<Bytes, ArtifactError>>;

/// Keeps bytes under their digests. What a write has kept is durable when it returns.
#[async_trait]
pub(super) trait Place: Send + Sync + std::fmt::Debug {
    /// Keeps bytes that hash to `blob`, or renews what is kept of them already.
    async fn put(&self, blob: Blob, bytes: Bytes) -> Result<(), ArtifactError>;

    /// Keeps the content of an open file from its beginning, which was hashed before if `announced` says so.
    async fn put_file(&self, file: File, announced: Option<Blob>) -> Result<Blob, ArtifactError>;

    /// A file to write to, with the name that it has until it is kept, if it has one.
    async fn begin(&self) -> Result<(File, Option<TempPath>), ArtifactError>;

    /// Keeps what was written to a file of [`begin`](Self::begin) and hashes to `blob`.
    async fn keep(&self, file: File, temp: Option<TempPath>, blob: Blob) -> Result<(), ArtifactError>;

    /// The whole, not verified.
    async fn get(&self, digest: BlobDigest) -> Result<Bytes, ArtifactError>;

    /// The whole piece by piece, not verified.
    async fn stream(&self, digest: BlobDigest) -> Result<Pieces, ArtifactError>;

    /// Some of the bytes: as many of the range as there are, and an error where it begins behind their end.
    async fn range(&self, digest: BlobDigest, range: Range<u64>) -> Result<Bytes, ArtifactError>;

    /// How many bytes are kept; none if there is nothing.
    async fn size_bytes(&self, digest: BlobDigest) -> Result<Option<u64>, ArtifactError>;

    /// Everything that is kept. Names of another form than a digest's key are left out: they are not ours.
    fn list(&self) -> BoxStream<'_, Result<Kept, ArtifactError>>;

    /// Removes a digest unless it was put or used again since; gives the bytes freed.
    async fn remove_if_older(
        &self,
        digest: BlobDigest,
        than: Timestamp,
    ) -> Result<Option<u64>, ArtifactError>;

    /// Removes a digest, whatever its age; nothing if it is not there.
    async fn erase(&self, digest: BlobDigest) -> Result<(), ArtifactError>;

    /// Removes what a crash has left half written; gives the bytes freed.
    async fn remove_abandoned(&self, older_than: Timestamp) -> Result<u64, ArtifactError>;

    /// Where it is, for messages.
    fn shown(&self) -> String;
}

/// An artifact as its place lists it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) digest: BlobDigest,
    pub(super) size_bytes: u64,
    pub(super) modified: Timestamp,
}
