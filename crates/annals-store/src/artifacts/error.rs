//! What can go wrong with artifacts.

use std::io;
use std::path::Path;

use annals_core::block::BlobDigest;

/// Why the artifact store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArtifactError {
    /// Nothing is kept under this digest.
    #[error("the bytes of `{digest}` are not in the artifact store: restore its folder from a backup")]
    Missing {
        /// The digest asked for.
        digest: BlobDigest,
    },
    /// What is kept is not what was put.
    #[error(
        "the bytes kept for `{digest}` are damaged: they hash to `{actual}`; put the original again to heal them"
    )]
    Corrupt {
        /// The digest asked for.
        digest: BlobDigest,
        /// What the bytes hash to.
        actual: BlobDigest,
    },
    /// The file was written to while it was being kept.
    #[error("the file changed while it was being read: try again when nothing writes to it")]
    Changed,
    /// There is no room.
    #[error("no space is left at `{place}` for artifacts: free some and try again")]
    DiskFull {
        /// Where.
        place: String,
    },
    /// The place cannot be written to.
    #[error("`{place}` cannot be written: its disk or folder is read-only")]
    ReadOnly {
        /// Where.
        place: String,
    },
    /// No store of this kind is built in.
    #[error("artifacts cannot be kept at `{scheme}:`: use `file:<folder>`")]
    UnknownScheme {
        /// The scheme of the URL.
        scheme: String,
    },
    /// The storage failed otherwise.
    #[error("the artifact store failed at `{place}`: {detail}")]
    Storage {
        /// Where.
        place: String,
        /// What it said.
        detail: String,
    },
}

impl ArtifactError {
    /// A failure of the file system at `path`.
    pub(crate) fn local(path: &Path, error: io::Error) -> Self {
        let place = path.display().to_string();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                ArtifactError::DiskFull { place }
            }
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                ArtifactError::ReadOnly { place }
            }
            _ => ArtifactError::Storage {
                place,
                detail: error.to_string(),
            },
        }
    }

    /// What is kept under a digest cannot be read.
    pub(super) fn unread(digest: BlobDigest, error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => ArtifactError::Missing { digest },
            _ => ArtifactError::Storage {
                place: digest.to_string(),
                detail: error.to_string(),
            },
        }
    }
}
