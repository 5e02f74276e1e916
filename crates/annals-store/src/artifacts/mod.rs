//! Bytes that blocks name, kept once by their digest.
//!
//! `put` returns when the bytes are durable, so that a block naming them may be appended; reading verifies. The
//! store knows neither conversations nor paths of a timeline, and never changes or renames what it keeps. Only
//! [`gc`](ArtifactStore::gc) and [`collect`](ArtifactStore::collect) remove, and only what no block names.

mod download;
mod draft;
mod error;
mod files;
mod folder;
mod gc;
mod ledger;
mod name;
#[cfg(feature = "object-store")]
mod objects;
mod place;

pub use download::{Download, DownloadSigner};
pub use draft::ArtifactDraft;
pub use error::ArtifactError;
pub use files::hash;
pub use gc::Swept;
pub use ledger::{ArtifactLedger, CollectError, Keeping, MARK, Marked, Removal};
pub use name::resource_name;

use std::io::{self, Write as _};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use annals_core::block::{Blob, BlobDigest};
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt as _};
use sha2::{Digest as _, Sha256};

use self::folder::Folder;
use self::place::Place;

/// Bytes larger than this are hashed on a thread that may block.
const HASH_INLINE_MAX_BYTES: usize = 64 * 1024;

/// A content-addressed store of bytes, in a local folder or in any object store.
#[derive(Clone, Debug)]
pub struct ArtifactStore {
    place: Arc<dyn Place>,
    /// Who is told what is about to be kept.
    ledger: Option<Arc<dyn ArtifactLedger>>,
    /// Who gives out addresses of objects.
    signer: Option<Arc<dyn DownloadSigner>>,
}

/// Bytes that are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// What they hash to and how many they are.
    pub blob: Blob,
    /// What names them (`hosted_uri`), the same on every machine.
    pub uri: String,
    /// Their key in the store.
    pub key: String,
}

/// What every key begins with.
const ROOT: &str = "sha256";

/// The key of a digest: `sha256/<2 hex>/<62 hex>`, so that no folder grows too large.
fn key(digest: &BlobDigest) -> String {
    let hex = digest.hex();
    format!("{ROOT}/{}/{}", &hex[..2], &hex[2..])
}

/// The digest that a key stands for.
fn digest_of_key(key: &str) -> Option<BlobDigest> {
    let (fan, rest) = key.strip_prefix(ROOT)?.strip_prefix('/')?.split_once('/')?;
    (fan.len() == 2).then(|| format!("{fan}{rest}").parse().ok())?
}

impl ArtifactStore {
    /// Opens the store in a local folder, making it if it is missing.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, ArtifactError> {
        Ok(Self::at(Arc::new(Folder::open(folder.as_ref())?)))
    }

    fn at(place: Arc<dyn Place>) -> Self {
        ArtifactStore {
            place,
            ledger: None,
            signer: None,
        }
    }

    /// Opens the store that a URL names: `file:<folder>`, or a plain folder.
    pub fn open_url(url: &str) -> Result<Self, ArtifactError> {
        match url.split_once(':') {
            Some(("file", folder)) => Self::open(folder.strip_prefix("//").unwrap_or(folder)),
            Some((scheme, rest)) if rest.starts_with("//") => Err(ArtifactError::UnknownScheme {
                scheme: scheme.to_owned(),
            }),
            _ => Self::open(url),
        }
    }

    /// A store over any object store whose puts are durable when they return.
    #[cfg(feature = "object-store")]
    pub fn over(objects: Arc<dyn object_store::ObjectStore>) -> Self {
        Self::at(Arc::new(objects::Objects(objects)))
    }

    /// The same store, giving out addresses of its objects.
    #[must_use]
    pub fn with_downloads(mut self, signer: Arc<dyn DownloadSigner>) -> Self {
        self.signer = Some(signer);
        self
    }

    fn stored(&self, blob: Blob) -> Stored {
        let key = key(&blob.digest);
        Stored {
            blob,
            uri: blob.digest.uri(),
            key,
        }
    }

    /// Keeps bytes; durable when this returns. Bytes that are kept already are not written again.
    pub async fn put(&self, bytes: impl Into<Bytes>) -> Result<Stored, ArtifactError> {
        let bytes = bytes.into();
        let blob = blob_of(&bytes).await;
        self.keep_by(self.ledger.as_deref(), blob, self.place.put(blob, bytes))
            .await?;
        Ok(self.stored(blob))
    }

    /// Keeps the content of a file, without holding it in memory.
    pub async fn put_file(&self, path: &Path) -> Result<Stored, ArtifactError> {
        let source = path.to_owned();
        let file = blocking(move || {
            std::fs::File::open(&source).map_err(|error| ArtifactError::local(&source, error))
        });
        self.put_open_file(file.await?).await
    }

    /// Keeps the content of an open file from its beginning, without holding it in memory.
    pub async fn put_open_file(&self, file: std::fs::File) -> Result<Stored, ArtifactError> {
        if self.ledger.is_none() {
            let blob = self.place.put_file(file, None).await?;
            return Ok(self.stored(blob));
        }
        // A ledger is told first what the file has in it, which is read once more for that.
        let (blob, file) = hashed(file).await?;
        let written = async { self.place.put_file(file, Some(blob)).await.map(drop) };
        self.keep_by(self.ledger.as_deref(), blob, written).await?;
        Ok(self.stored(blob))
    }

    /// The bytes of a digest, verified.
    pub async fn get(&self, digest: &BlobDigest) -> Result<Bytes, ArtifactError> {
        let digest = *digest;
        let bytes = self.place.get(digest).await?;
        let actual = blob_of(&bytes).await.digest;
        if actual != digest {
            return Err(ArtifactError::Corrupt { digest, actual });
        }
        Ok(bytes)
    }

    /// The bytes of a digest, piece by piece. The last piece is followed by an error if they do not hash to the
    /// digest, so whoever keeps them must read to the end.
    pub async fn stream(
        &self,
        digest: &BlobDigest,
    ) -> Result<BoxStream<'static, Result<Bytes, ArtifactError>>, ArtifactError> {
        let digest = *digest;
        let pieces = self.place.stream(digest).await?;
        let pieces = pieces.map(Some).chain(futures::stream::once(async { None }));
        let verified = pieces.scan(Sha256::new(), move |hash, piece| {
            let item = match piece {
                Some(Ok(piece)) => {
                    hash.update(&piece);
                    Some(Ok(piece))
                }
                Some(Err(error)) => Some(Err(error)),
                None => {
                    let actual = BlobDigest(std::mem::take(hash).finalize().into());
                    (actual != digest).then_some(Err(ArtifactError::Corrupt { digest, actual }))
                }
            };
            futures::future::ready(item)
        });
        Ok(verified.boxed())
    }

    /// The bytes of a digest in a file that goes away with its handle, verified, without holding them in memory.
    pub async fn get_file(&self, digest: &BlobDigest) -> Result<std::fs::File, ArtifactError> {
        let local = |error| ArtifactError::local(Path::new("the temporary folder"), error);
        let mut file = blocking(move || tempfile::tempfile().map_err(local)).await?;
        let mut pieces = self.stream(digest).await?;
        while let Some(piece) = pieces.next().await {
            let piece = piece?;
            file = blocking(move || file.write_all(&piece).map(|()| file).map_err(local)).await?;
        }
        Ok(file)
    }

    /// Some of the bytes. A part cannot be verified by itself.
    pub async fn range(&self, digest: &BlobDigest, range: Range<u64>) -> Result<Bytes, ArtifactError> {
        self.place.range(*digest, range).await
    }

    /// How many bytes are kept for a digest; none if it is not kept.
    pub async fn size_bytes(&self, digest: &BlobDigest) -> Result<Option<u64>, ArtifactError> {
        self.place.size_bytes(*digest).await
    }

    /// Whether a digest is kept.
    pub async fn contains(&self, digest: &BlobDigest) -> Result<bool, ArtifactError> {
        Ok(self.size_bytes(digest).await?.is_some())
    }

    /// Where the bytes of this blob are, kept or not: for blocks that name what is kept already.
    pub fn locate(&self, blob: Blob) -> Stored {
        self.stored(blob)
    }
}

fn unreadable(error: io::Error) -> ArtifactError {
    ArtifactError::local(Path::new("the file to keep"), error)
}

/// What a whole file hashes to; gives it back at its beginning.
async fn hashed(file: std::fs::File) -> Result<(Blob, std::fs::File), ArtifactError> {
    blocking(move || {
        let mut file = file;
        let blob = files::hash(&mut file).map_err(unreadable)?;
        Ok((blob, file))
    })
    .await
}

async fn blob_of(bytes: &Bytes) -> Blob {
    if bytes.len() <= HASH_INLINE_MAX_BYTES {
        return Blob::of(bytes);
    }
    let shared = bytes.clone();
    // The only failure is a runtime that shuts down; hashing here is then merely slower.
    match tokio::task::spawn_blocking(move || Blob::of(&shared)).await {
        Ok(blob) => blob,
        Err(_) => Blob::of(bytes),
    }
}

/// Runs file work on a thread that may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ArtifactError> + Send + 'static,
) -> Result<T, ArtifactError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(error) => Err(ArtifactError::local(
            Path::new("artifacts"),
            io::Error::other(error),
        )),
    }
}
