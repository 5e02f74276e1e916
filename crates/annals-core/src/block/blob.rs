//! Bytes that live outside the log, named by their digest.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize as _, Deserializer};
use sha2::{Digest as _, Sha256};

/// SHA-256 of some bytes; written `sha256:<64 hex>`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobDigest(pub [u8; 32]);

/// A text that is not `sha256:<64 hex>`.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not a digest: expected `sha256:` and 64 hex digits")]
pub struct DigestError(String);

impl BlobDigest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        BlobDigest(Sha256::digest(bytes).into())
    }

    /// The 64 hex digits alone.
    pub fn hex(&self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hex = String::with_capacity(64);
        for byte in self.0 {
            hex.push(DIGITS[usize::from(byte >> 4)] as char);
            hex.push(DIGITS[usize::from(byte & 15)] as char);
        }
        hex
    }

    /// What names these bytes wherever they are kept: `annals-artifact:sha256/<64 hex>`. No place of a machine is in it.
    pub fn uri(&self) -> String {
        format!("{URI_SCHEME}sha256/{}", self.hex())
    }
}

const URI_SCHEME: &str = "annals-artifact:";

/// Reads where bytes are kept. The first edition wrote a URI of its machine that ended with their key
/// (`…/sha256/<2 hex>/<62 hex>`): what it says apart from the digest is nobody's business elsewhere.
pub(super) fn read_uri<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let uri = Option::<String>::deserialize(from)?;
    Ok(uri.map(|uri| match digest_at(&uri) {
        Some(digest) => digest.uri(),
        None => uri,
    }))
}

fn digest_at(uri: &str) -> Option<BlobDigest> {
    let (rest, tail) = uri.rsplit_once('/')?;
    let (place, fan) = rest.rsplit_once('/')?;
    let is_key = fan.len() == 2 && place.rsplit('/').next() == Some("sha256");
    is_key.then(|| format!("sha256:{fan}{tail}").parse().ok())?
}

impl fmt::Display for BlobDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for BlobDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for BlobDigest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let bad = || DigestError(text.to_owned());
        let hex = text.strip_prefix("sha256:").unwrap_or(text).as_bytes();
        if hex.len() != 64 {
            return Err(bad());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            let digit = |c: u8| (c as char).to_digit(16).ok_or_else(bad);
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Ok(BlobDigest(bytes))
    }
}

impl serde::Serialize for BlobDigest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for BlobDigest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Stored bytes: what they hash to and how many they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Blob {
    /// SHA-256 of the bytes, their name in the artifact store.
    pub digest: BlobDigest,
    /// How many bytes.
    pub size_bytes: u64,
}

impl Blob {
    /// The blob that these bytes are.
    pub fn of(bytes: &[u8]) -> Self {
        Blob {
            digest: BlobDigest::of(bytes),
            size_bytes: bytes.len() as u64,
        }
    }
}
