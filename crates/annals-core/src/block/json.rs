//! The JSON form of a block: what `timeline blocks`, `run --json` and exports print, one object a line.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Blob, BlobDigest, Block, BlockKind, Body, Meta, word};
use crate::ids::{CallId, Seq, TurnId};
use crate::path::LogicalPath;
use crate::time::Timestamp;

/// A block as JSON. Binary content appears as `blob` (digest and size) and, in exports, as `base64` too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockJson {
    /// Place in the conversation.
    pub seq: Seq,
    /// The type's tag.
    #[serde(rename = "type")]
    pub kind: String,
    /// Who wrote it.
    pub author: String,
    /// The turn it belongs to.
    pub turn_id: TurnId,
    /// RFC 3339 UTC with microseconds.
    pub ts: Timestamp,
    /// MIME type of the body.
    pub mime: String,
    /// What names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<LogicalPath>,
    /// `meta.tool_call_id` again, for readers that join calls and results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    /// The text, if the body is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The bytes, if the body is binary and the writer put them in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// The stored bytes' digest and size, if the body is binary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<Blob>,
    /// Metadata.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub meta: Map<String, Value>,
    /// Tokens of the body; counted when it is read, if it was not written.
    #[serde(default)]
    pub tokens: u32,
}

/// Why a JSON block cannot become a block.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockJsonError {
    /// `base64` is not base64.
    #[error("block {seq}: `base64` cannot be decoded: {reason}")]
    Base64 {
        /// The block.
        seq: u64,
        /// What the decoder said.
        reason: String,
    },
    /// A body is a text or bytes.
    #[error("block {seq}: it has a text and bytes too; a block has one of them")]
    TwoBodies {
        /// The block.
        seq: u64,
    },
    /// The bytes do not hash to the digest beside them.
    #[error("block {seq}: the bytes hash to `{actual}`, but the block names `{expected}`")]
    DigestMismatch {
        /// The block.
        seq: u64,
        /// The digest in the block.
        expected: BlobDigest,
        /// The digest of the bytes.
        actual: BlobDigest,
    },
}

impl From<&Block> for BlockJson {
    fn from(block: &Block) -> Self {
        BlockJson {
            seq: block.seq,
            kind: block.kind.tag().to_owned(),
            author: block.author.to_string(),
            turn_id: block.turn.clone(),
            ts: block.ts,
            mime: block.mime.to_string(),
            path: block.path.clone(),
            call_id: block.meta().call.clone(),
            text: block.text().map(str::to_owned),
            base64: None,
            blob: block.blob().copied(),
            meta: block.meta.as_deref().map(Meta::to_map).unwrap_or_default(),
            tokens: block.tokens,
        }
    }
}

impl BlockJson {
    /// With the binary content inlined.
    pub fn with_bytes(mut self, bytes: &[u8]) -> Self {
        use base64::Engine as _;
        self.base64 = Some(base64::engine::general_purpose::STANDARD.encode(bytes));
        self
    }

    /// The block, and the bytes that came inlined with it, checked against their digest.
    pub fn into_block(self) -> Result<(Block, Option<Vec<u8>>), BlockJsonError> {
        use base64::Engine as _;
        let bytes =
            match &self.base64 {
                None => None,
                Some(text) => Some(base64::engine::general_purpose::STANDARD.decode(text).map_err(
                    |error| BlockJsonError::Base64 {
                        seq: self.seq.get(),
                        reason: error.to_string(),
                    },
                )?),
            };
        if self.text.is_some() && (bytes.is_some() || self.blob.is_some()) {
            return Err(BlockJsonError::TwoBodies { seq: self.seq.get() });
        }
        let actual = bytes.as_deref().map(Blob::of);
        if let (Some(expected), Some(actual)) = (self.blob, actual)
            && expected.digest != actual.digest
        {
            return Err(BlockJsonError::DigestMismatch {
                seq: self.seq.get(),
                expected: expected.digest,
                actual: actual.digest,
            });
        }
        let body = match (self.text, self.blob.or(actual)) {
            (Some(text), _) => Body::Text(text.into()),
            (None, Some(blob)) => blob.into(),
            (None, None) => Body::Empty,
        };
        let meta = Meta::from_map(self.meta);
        let block = Block {
            seq: self.seq,
            kind: BlockKind::from_tag(&self.kind),
            author: word(&self.author),
            turn: self.turn_id,
            ts: self.ts,
            mime: word(&self.mime),
            path: self.path,
            body,
            meta: (!meta.is_empty()).then(|| Box::new(meta)),
            tokens: self.tokens,
        };
        Ok((block.counted(), bytes))
    }
}
