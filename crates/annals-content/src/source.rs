//! The bytes that a task is about, wherever they are.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use annals_core::block::Blob;
use annals_store::ArtifactStore;
use futures::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};

/// A file is read in pieces of this.
const PIECE_BYTES: u64 = 256 * 1024;

/// Bytes for a task. What is not in memory is handed over piece by piece.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// In memory.
    Bytes(&'a [u8]),
    /// The first bytes of an open file.
    File {
        /// The file; its position is not moved.
        file: &'a Arc<File>,
        /// How many.
        size_bytes: u64,
    },
    /// Kept by their digest.
    Stored {
        /// Where.
        artifacts: &'a ArtifactStore,
        /// Which.
        blob: Blob,
    },
}

impl<'a> From<&'a [u8]> for Source<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Source::Bytes(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for Source<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Source::Bytes(bytes)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Source<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Source::Bytes(bytes)
    }
}

/// A piece of a source.
pub type Piece<'a> = Cow<'a, [u8]>;

impl<'a> Source<'a> {
    /// How many bytes there are.
    pub fn size_bytes(&self) -> u64 {
        match self {
            Source::Bytes(bytes) => bytes.len() as u64,
            Source::File { size_bytes, .. } => *size_bytes,
            Source::Stored { blob, .. } => blob.size_bytes,
        }
    }

    /// The bytes in order. A caller that was promised a number of them counts.
    pub fn pieces(self) -> BoxStream<'a, io::Result<Piece<'a>>> {
        match self {
            Source::Bytes(bytes) => stream::once(async move { Ok(Cow::Borrowed(bytes)) }).boxed(),
            Source::File { file, size_bytes } => file_pieces(Arc::clone(file), size_bytes),
            Source::Stored { artifacts, blob } => {
                stream::once(async move { artifacts.stream(&blob.digest).await })
                    .try_flatten()
                    .map_err(io::Error::other)
                    .map_ok(|piece| Cow::Owned(piece.into()))
                    .boxed()
            }
        }
    }

    /// All of it, for what is known to be small.
    pub(crate) async fn whole(self) -> io::Result<Piece<'a>> {
        if let Source::Bytes(bytes) = self {
            return Ok(Cow::Borrowed(bytes));
        }
        let add = async |mut whole: Vec<u8>, piece: Piece<'a>| {
            whole.extend_from_slice(&piece);
            Ok(whole)
        };
        self.pieces().try_fold(Vec::new(), add).await.map(Cow::Owned)
    }
}

fn file_pieces<'a>(file: Arc<File>, size_bytes: u64) -> BoxStream<'a, io::Result<Piece<'a>>> {
    stream::try_unfold(0, move |at| {
        let file = Arc::clone(&file);
        async move {
            if at == size_bytes {
                return Ok(None);
            }
            let length = PIECE_BYTES.min(size_bytes - at);
            let read = move || -> io::Result<Vec<u8>> {
                let mut piece = vec![0; length as usize];
                file.read_exact_at(&mut piece, at)?;
                Ok(piece)
            };
            let piece = tokio::task::spawn_blocking(read)
                .await
                .map_err(io::Error::other)?;
            let changed = |_| io::Error::other("it became shorter while it was read");
            Ok(Some((Cow::Owned(piece.map_err(changed)?), at + length)))
        }
    })
    .boxed()
}
