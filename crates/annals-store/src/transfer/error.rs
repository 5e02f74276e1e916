//! What can go wrong with an export file.

use std::io;

use annals_core::block::BlobDigest;

use crate::artifacts::ArtifactError;
use crate::log::LogError;

/// Why a conversation could not be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The log failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Bytes that a block names could not be read.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// The file could not be written.
    #[error("the export could not be written: {0}")]
    Write(#[from] io::Error),
}

/// Why an export file could not be imported. Nothing was added to the log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The file does not begin like an export.
    #[error("this is not an export of a conversation: make one with `annals timeline export`")]
    NotAnExport,
    /// A newer version wrote it.
    #[error("the export has format {found}, this program reads up to {known}: use a newer `annals`")]
    NewerFormat {
        /// The format found.
        found: u32,
        /// The newest format this program reads.
        known: u32,
    },
    /// A line is not what it should be.
    #[error("line {line} of the export cannot be read: {reason}")]
    Line {
        /// Which line, from 1.
        line: u64,
        /// What is wrong with the line.
        reason: String,
    },
    /// The file ends early.
    #[error("the export ends after line {line} without its last line: copy it again, it was cut off")]
    Truncated {
        /// The last line found.
        line: u64,
    },
    /// The bytes are not those that were written.
    #[error("the export is damaged: it hashes to `{actual}`, its last line says `{expected}`; copy it again")]
    Damaged {
        /// What the last line says.
        expected: BlobDigest,
        /// What the bytes hash to.
        actual: BlobDigest,
    },
    /// A block names bytes that neither the file nor the store has.
    #[error("line {line} names the bytes of `{digest}`, which the export does not hold")]
    MissingBytes {
        /// Which line.
        line: u64,
        /// The digest.
        digest: BlobDigest,
    },
    /// The file could not be read.
    #[error("the export could not be read: {0}")]
    Read(#[from] io::Error),
    /// The log failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The artifact store failed.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
}
