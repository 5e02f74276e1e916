//! Addresses at which anybody may fetch an artifact for a time, where the store can give them out.

use annals_core::block::BlobDigest;
use async_trait::async_trait;

use super::{ArtifactError, ArtifactStore, key};

/// What a download is to be called by whoever serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Download<'a> {
    /// Its `Content-Type`.
    pub media_type: &'a str,
    /// Its `Content-Disposition`.
    pub disposition: &'a str,
}

/// Signs addresses of objects.
#[async_trait]
pub trait DownloadSigner: Send + Sync + std::fmt::Debug {
    /// An address that serves the object of this key as the download says, for a time that the signer knows.
    async fn sign(&self, key: &str, download: Download<'_>) -> Result<String, String>;
}

impl ArtifactStore {
    /// An address outside of this program at which the bytes of a digest can be fetched for a time; none where the store
    /// gives none out, or does not have them.
    pub async fn download(
        &self,
        digest: &BlobDigest,
        download: Download<'_>,
    ) -> Result<Option<String>, ArtifactError> {
        let Some(signer) = &self.signer else {
            return Ok(None);
        };
        if !self.contains(digest).await? {
            return Ok(None);
        }
        let signed = signer.sign(&key(digest), download).await;
        signed.map(Some).map_err(|detail| ArtifactError::Storage {
            place: digest.to_string(),
            detail,
        })
    }
}
