//! The lines of an export file other than blocks.

use annals_core::block::BlobDigest;
use annals_core::ids::{ConversationId, Scope};
use annals_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::log::Ancestor;

/// The newest format this program writes and reads.
pub(super) const FORMAT: u32 = 1;

/// Binary content up to this size stands in its block; larger content comes before it in pieces of this size.
pub(super) const PIECE_BYTES: usize = 1024 * 1024;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) annals_export: u32,
    pub(super) conversation: About,
    pub(super) blocks: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct About {
    pub(super) id: ConversationId,
    pub(super) scope: Scope,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<String>,
    pub(super) created: Timestamp,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) lineage: Vec<Ancestor>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Piece {
    pub(super) artifact: BlobDigest,
    pub(super) size_bytes: u64,
    pub(super) offset: u64,
    pub(super) base64: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct End {
    pub(super) end: Totals,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Totals {
    pub(super) blocks: u64,
    pub(super) artifacts: u64,
    pub(super) sha256: BlobDigest,
}
