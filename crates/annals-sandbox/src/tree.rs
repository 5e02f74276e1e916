//! Trees of files as data: what a workspace holds, by path and digest, and how bytes travel.
//!
//! A caller that keeps the files elsewhere brings a sandbox to a [`Manifest`], takes a [`Snapshot`] before a command,
//! asks what [`Changes`] it made, and fetches those files. A backend on another machine needs one archive for the
//! differences and one listing; a backend that works in the caller's own directory moves nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::failure::Failure;

/// Bytes on their way, in pieces of a size that can be held.
pub type ByteStream = BoxStream<'static, Result<Bytes, Failure>>;

/// SHA-256 of a file's content; written `sha256:<64 hex>`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Digest(pub [u8; 32]);

/// A text that is no digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a digest: expected `sha256:` and 64 hex digits")]
pub struct DigestError(String);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Digest(Sha256::digest(bytes).into())
    }

    /// The 64 hex digits alone.
    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let wrong = || DigestError(text.to_owned());
        let hex = text.strip_prefix("sha256:").unwrap_or(text);
        if hex.len() != 64 || !hex.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).map_err(|_| wrong())?;
        }
        Ok(Digest(bytes))
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Self, DigestError> {
        text.parse()
    }
}

/// One file of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeFile {
    /// What it holds.
    pub digest: Digest,
    /// How many bytes.
    pub size_bytes: u64,
    /// Whether it may be executed. No other mode travels: who owns a file is not the same everywhere.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
}

/// Files by their path below the workspace, parts joined by `/`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Manifest(pub BTreeMap<String, TreeFile>);

/// Gives the bytes of a manifest's files.
#[async_trait]
pub trait TreeSource: Send + Sync {
    /// The bytes of this digest, from their beginning. A backend asks only for files that it lacks.
    async fn open(&self, digest: &Digest) -> Result<ByteStream, Failure>;
}

/// What bringing a tree in took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreePut {
    /// Files that were there with these bytes.
    pub present: usize,
    /// Files that were written.
    pub written: usize,
    /// Whether the sandbox is a new one in place of one that was lost, and this is the first to tell. What was installed
    /// or written outside the workspace is gone.
    pub replaced: bool,
}

/// The state of a workspace at one moment, for the backend that made it to compare with a later one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot(pub(crate) BTreeMap<String, Stamp>);

impl Snapshot {
    /// A snapshot from stamps that the backend can tell apart; any text that changes whenever the file does will do.
    pub fn from_stamps(stamps: impl IntoIterator<Item = (String, String)>) -> Self {
        let stamps = stamps
            .into_iter()
            .map(|(path, stamp)| (path, Stamp::Remote(stamp)));
        Snapshot(stamps.collect())
    }

    /// The stamps that [`from_stamps`](Self::from_stamps) took.
    pub fn stamps(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .filter_map(|(path, stamp)| Some((path.as_str(), stamp.remote()?)))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stamp {
    #[cfg(feature = "local")]
    Here(annals_files::Stamp),
    Remote(String),
}

impl Stamp {
    fn remote(&self) -> Option<&str> {
        match self {
            Stamp::Remote(stamp) => Some(stamp),
            #[cfg(feature = "local")]
            Stamp::Here(_) => None,
        }
    }
}

/// How much of a change is looked at. What lies beyond is named in [`Changes::left_out`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeLimits {
    /// Files that are hashed.
    pub files: usize,
    /// Largest file that is hashed.
    pub file_bytes: u64,
    /// Bytes of all files together.
    pub total_bytes: u64,
}

/// How a workspace differs from a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Files that are new or have other content.
    pub written: Manifest,
    /// Files that are gone.
    pub removed: Vec<String>,
    /// Files that changed and were not hashed, each with the bound that it is beyond.
    pub left_out: Vec<LeftOut>,
}

/// A changed file beyond the limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Its path below the workspace.
    pub path: String,
    /// Which bound.
    pub reason: String,
}

impl Changes {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.written.0.is_empty() && self.removed.is_empty() && self.left_out.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_as_it_is_written_and_nothing_else_is_one() {
        let digest = Digest::of(b"abc");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        assert_eq!(digest.hex().parse(), Ok(digest));
        for wrong in ["", "sha256:", "sha256:zz", &"é".repeat(32), &"+1".repeat(32)] {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
    }
}
