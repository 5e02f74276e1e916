//! What a server is worth, asked before anything depends on it.

use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore as _, ObjectStoreExt as _, PutMode, PutOptions, PutPayload};

use crate::Bucket;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Whether a write that must not replace anything is refused when something is there. Artifacts do not need it, since
    /// equal keys have equal bytes; other writers of the bucket may.
    pub refuses_to_replace: bool,
}

/// Why a bucket cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// Writing, reading or removing failed.
    #[error("`{bucket}` cannot be used: {error}")]
    Storage {
        /// The bucket.
        bucket: String,
        /// What it said.
        error: object_store::Error,
    },
    /// What was read is not what was written.
    #[error("`{bucket}` gives back other bytes than it was given: do not keep anything there")]
    Unfaithful {
        /// The bucket.
        bucket: String,
    },
}

impl Bucket {
    /// Writes an object, reads it, tries to write over it, and removes it. `nonce` keeps two probes apart.
    pub async fn probe(&self, nonce: u64) -> Result<Probe, ProbeError> {
        let failed = |error| ProbeError::Storage {
            bucket: self.name().to_owned(),
            error,
        };
        let place = ObjectPath::from(format!("probe/{nonce:016x}"));
        let create = || PutOptions::from(PutMode::Create);
        let (first, second) = (nonce.to_le_bytes().to_vec(), b"another".to_vec());
        self.objects()
            .put_opts(&place, PutPayload::from(first.clone()), create())
            .await
            .map_err(failed)?;
        let again = self
            .objects()
            .put_opts(&place, PutPayload::from(second.clone()), create())
            .await;
        let read = async { self.objects().get(&place).await?.bytes().await };
        let there = read.await.map_err(failed)?;
        self.objects().delete(&place).await.map_err(failed)?;
        let refuses_to_replace = match again {
            Ok(_) => false,
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => true,
            Err(error) => return Err(failed(error)),
        };
        let expected = if refuses_to_replace { first } else { second };
        match there == expected {
            true => Ok(Probe { refuses_to_replace }),
            false => Err(ProbeError::Unfaithful {
                bucket: self.name().to_owned(),
            }),
        }
    }
}
