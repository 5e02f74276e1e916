//! What a server is worth, asked before anything depends on it.

use futures::future::join_all;
use object_store::path::Path as ObjectPath;
use object_store::{Error, ObjectStore as _, ObjectStoreExt as _, PutMode, PutOptions, PutPayload};

use crate::Bucket;

/// Number of writers that try to make one object at the same time.
const RACERS: u8 = 8;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Probe {
    /// Whether a write that must not replace anything is refused when something is there, also to those who come at the same
    /// time. Artifacts do not need it, since equal keys have equal bytes; other writers of the bucket may.
    pub refuses_to_replace: bool,
    /// Whether these keys may remove objects: only garbage collection does.
    pub removes: bool,
}

impl Probe {
    /// What an operator should know, a sentence each, without its subject.
    pub fn lacks(&self) -> Vec<&'static str> {
        let lacks = [
            (
                !self.refuses_to_replace,
                "ignores conditional writes (`If-None-Match`), so it cannot tell two stores apart: give each store a prefix of \
                 its own. What keeps files from garbage collection lies beside the log, not in the bucket",
            ),
            (
                !self.removes,
                "does not let these keys remove objects: run `annals store gc` with others",
            ),
        ];
        let told = lacks.into_iter().filter(|(is_lacking, _)| *is_lacking);
        told.map(|(_, lack)| lack).collect()
    }
}

/// Why a bucket cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// Writing or reading failed.
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

/// What became of a write that must not replace anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    /// It is there.
    Written,
    /// Something was there before.
    Refused,
    /// The server takes writes, and none with a condition.
    Unconditionally,
}

impl Bucket {
    /// Writes an object, reads it, tries to write over it, lets several write another one at the same time, and removes them.
    /// `nonce` keeps two probes apart.
    pub async fn probe(&self, nonce: u64) -> Result<Probe, ProbeError> {
        let place = ObjectPath::from(format!("probe/{nonce:016x}"));
        let (first, second) = (nonce.to_le_bytes().to_vec(), b"another".to_vec());
        // A server whose first answer was lost refuses the attempt that follows it, which does no harm.
        let mut made = self.make(&place, &first).await?;
        let mut expected = first;
        if made != Made::Unconditionally {
            made = self.make(&place, &second).await?;
            if made != Made::Refused {
                expected = second;
            }
        }
        let read = async { self.objects().get(&place).await?.bytes().await };
        let there = read.await.map_err(|error| self.failed(error))?;
        let mut removes = self.remove(&place).await?;
        if there != expected {
            return Err(ProbeError::Unfaithful {
                bucket: self.name().to_owned(),
            });
        }
        let mut refuses_to_replace = made == Made::Refused;
        if refuses_to_replace {
            let contested = ObjectPath::from(format!("probe/{nonce:016x}-contested"));
            refuses_to_replace = self.winners(&contested).await? <= 1;
            removes &= self.remove(&contested).await?;
        }
        Ok(Probe {
            refuses_to_replace,
            removes,
        })
    }

    fn failed(&self, error: Error) -> ProbeError {
        ProbeError::Storage {
            bucket: self.name().to_owned(),
            error,
        }
    }

    /// Writes an object unless there is one.
    async fn make(&self, place: &ObjectPath, bytes: &[u8]) -> Result<Made, ProbeError> {
        let payload = || PutPayload::from(bytes.to_vec());
        let only_new = PutOptions::from(PutMode::Create);
        match self.objects().put_opts(place, payload(), only_new).await {
            Ok(_) => Ok(Made::Written),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(Made::Refused),
            // A server may refuse the condition and not the write.
            Err(
                error @ (Error::Generic { .. } | Error::NotImplemented { .. } | Error::NotSupported { .. }),
            ) => match self.objects().put(place, payload()).await {
                Ok(_) => Ok(Made::Unconditionally),
                Err(_) => Err(self.failed(error)),
            },
            Err(error) => Err(self.failed(error)),
        }
    }

    /// How many of those who make one object at the same time are told that theirs is there.
    async fn winners(&self, place: &ObjectPath) -> Result<usize, ProbeError> {
        let racers = (0..RACERS).map(async |racer| self.make(place, &[racer]).await);
        let mut winners = 0;
        for made in join_all(racers).await {
            winners += usize::from(made? != Made::Refused);
        }
        Ok(winners)
    }

    /// Removes an object; false if these keys may not.
    async fn remove(&self, place: &ObjectPath) -> Result<bool, ProbeError> {
        match self.objects().delete(place).await {
            Ok(()) => Ok(true),
            Err(Error::PermissionDenied { .. }) => Ok(false),
            Err(error) => Err(self.failed(error)),
        }
    }
}
