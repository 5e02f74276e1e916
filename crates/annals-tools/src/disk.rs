//! OUT_DIR from async code: its methods block as long as the disk does, so they run on threads that may. Nothing here
//! holds a file that executed code wrote, beyond [`limits::READ_MAX_BYTES`].

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use annals_core::limits;
use annals_core::path::PhysicalPath;
use annals_sandbox::{ByteStream, Failure, FailureKind};
use annals_store::{Workspace, WorkspaceError};
use futures::{StreamExt as _, stream as streams};

const PIECE_BYTES: usize = 64 << 10;

pub(crate) async fn read(workspace: &Workspace, path: &PhysicalPath) -> Result<Vec<u8>, WorkspaceError> {
    let (workspace, path) = (workspace.clone(), path.clone());
    blocking(move || workspace.read(&path, limits::READ_MAX_BYTES)).await
}

pub(crate) async fn write(
    workspace: &Workspace,
    path: &PhysicalPath,
    bytes: impl Into<Vec<u8>>,
) -> Result<(), WorkspaceError> {
    let (workspace, path, bytes) = (workspace.clone(), path.clone(), bytes.into());
    blocking(move || workspace.write(&path, &bytes)).await
}

#[cfg(feature = "search-files")]
pub(crate) async fn list(workspace: &Workspace) -> Result<Vec<annals_store::FileEntry>, WorkspaceError> {
    let workspace = workspace.clone();
    blocking(move || workspace.list()).await
}

/// A file for reading, and its size.
pub(crate) async fn open(workspace: &Workspace, path: &PhysicalPath) -> Result<(File, u64), WorkspaceError> {
    let (workspace, path) = (workspace.clone(), path.clone());
    blocking(move || {
        let file = workspace.open_file(&path)?;
        let size_bytes = workspace.size_of(&path, &file)?;
        Ok((file, size_bytes))
    })
    .await
}

/// The first bytes of an open file, cut where a character ends; what its type is told by.
pub(crate) async fn head(file: &File) -> io::Result<Vec<u8>> {
    let file = file.try_clone()?;
    blocking(move || {
        let mut head = vec![0; PIECE_BYTES];
        let read = file.read_at(&mut head, 0)?;
        head.truncate(read);
        if let Err(error) = std::str::from_utf8(&head)
            && error.error_len().is_none()
        {
            head.truncate(error.valid_up_to());
        }
        Ok(head)
    })
    .await
}

/// The content of an open file from its beginning, piece by piece, wherever its cursor is.
pub(crate) fn stream(file: File) -> ByteStream {
    let pieces = streams::try_unfold((file, 0), |(file, at)| async move {
        let read = blocking(move || {
            let mut piece = vec![0; PIECE_BYTES];
            let read = file.read_at(&mut piece, at)?;
            piece.truncate(read);
            io::Result::Ok((piece, file))
        });
        let (piece, file) = read
            .await
            .map_err(|error| Failure::new(FailureKind::OsError, error.to_string()))?;
        let next = at + piece.len() as u64;
        Ok((!piece.is_empty()).then(|| (piece.into(), (file, next))))
    });
    pieces.boxed()
}

/// Whether a stream is UTF-8 without NUL characters. Ends at the first byte that says otherwise.
pub(crate) async fn is_text(mut body: ByteStream) -> bool {
    // The beginning of a character that the next piece completes.
    let mut begun: Vec<u8> = Vec::new();
    while let Some(piece) = body.next().await {
        let Ok(piece) = piece else { return false };
        begun.extend_from_slice(&piece);
        let whole = match std::str::from_utf8(&begun) {
            Ok(text) => text.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => return false,
        };
        if begun[..whole].contains(&0) {
            return false;
        }
        begun.drain(..whole);
    }
    begun.is_empty()
}

pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        // Neither happens while a call runs: these closures do not panic, and nobody aborts them.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn text_is_told_from_bytes_across_pieces() {
        let text = "grüße, 世界".as_bytes();
        for size in 1..6 {
            let pieces = |bytes: &[u8]| -> ByteStream {
                let pieces: Vec<_> = bytes
                    .chunks(size)
                    .map(|piece| Ok(piece.to_vec().into()))
                    .collect();
                streams::iter(pieces).boxed()
            };
            assert!(is_text(pieces(text)).await);
            assert!(is_text(pieces(b"")).await);
            assert!(!is_text(pieces(&text[..text.len() - 1])).await);
            assert!(!is_text(pieces(b"a\0b")).await);
            assert!(!is_text(pieces(b"a\xffb")).await);
        }
    }
}
