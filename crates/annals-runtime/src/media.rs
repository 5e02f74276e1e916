//! Pictures and documents that prompts show, read and hashed once and not at each model call.

use std::collections::HashMap;
use std::sync::Arc;

use annals_core::block::{Blob, BlobDigest};
use annals_core::limits;
use annals_store::ArtifactStore;

use crate::error::RunError;

/// The media of the last prompt, as far as they fit: what a turn shows, its next prompt shows again.
#[derive(Default)]
pub(crate) struct Media {
    held: HashMap<BlobDigest, Arc<[u8]>>,
}

impl Media {
    /// The bytes of everything that a prompt shows.
    pub(crate) async fn load(
        &mut self,
        artifacts: &ArtifactStore,
        shown: impl Iterator<Item = &Blob>,
    ) -> Result<HashMap<BlobDigest, Arc<[u8]>>, RunError> {
        let mut media = HashMap::new();
        for blob in shown {
            if media.contains_key(&blob.digest) {
                continue;
            }
            let bytes = match self.held.get(&blob.digest) {
                Some(bytes) => bytes.clone(),
                None => {
                    let bytes = artifacts.get(&blob.digest).await;
                    let bytes = bytes.map_err(|error| RunError::Artifact(error.to_string()))?;
                    Arc::from(&bytes[..])
                }
            };
            media.insert(blob.digest, bytes);
        }
        self.hold(&media);
        Ok(media)
    }

    fn hold(&mut self, media: &HashMap<BlobDigest, Arc<[u8]>>) {
        let mut room = limits::MEDIA_HELD_MAX_BYTES;
        self.held.clear();
        for (digest, bytes) in media {
            if let Some(left) = room.checked_sub(bytes.len()) {
                room = left;
                self.held.insert(*digest, bytes.clone());
            }
        }
    }
}
