//! The digest of a prompt: two that a model reads alike have the same.

use sha2::{Digest as _, Sha256};

use super::prompt::{AssistantPiece, Message, Piece, PieceBody, Prompt, ToolSchema};
use crate::block::BlobDigest;

impl Prompt {
    /// SHA-256 over everything the model reads: system text, tools and messages with the tail, media by their own
    /// digests. Cache points are not read, so they do not count. Every field is hashed with its length before it.
    pub fn digest(&self) -> BlobDigest {
        let mut hash = Fields(Sha256::new());
        hash.text("system", &self.system);
        self.tools
            .iter()
            .for_each(|tool| hash.text("tool", &tool.digest().hex()));
        for message in &self.messages {
            match message {
                Message::User(pieces) => {
                    hash.text("message", "user");
                    pieces.iter().for_each(|piece| hash.piece(piece));
                }
                Message::Assistant(pieces) => {
                    hash.text("message", "assistant");
                    pieces.iter().for_each(|piece| hash.assistant(piece));
                }
                Message::Tool(replies) => {
                    hash.text("message", "tool");
                    for reply in replies {
                        hash.text("reply", reply.call.as_str());
                        hash.text("error", if reply.is_error { "1" } else { "0" });
                        reply.pieces.iter().for_each(|piece| hash.piece(piece));
                    }
                }
            }
        }
        BlobDigest(hash.0.finalize().into())
    }
}

impl ToolSchema {
    /// What the model reads of the tool, as the JSON text that its digest is of.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("plain data always serialises to JSON")
    }

    /// SHA-256 of [`to_json`](Self::to_json): what a `tools.table` block says of each tool.
    pub fn digest(&self) -> BlobDigest {
        BlobDigest::of(self.to_json().as_bytes())
    }
}

struct Fields(Sha256);

impl Fields {
    fn text(&mut self, tag: &str, text: &str) {
        for part in [tag, text] {
            self.0.update((part.len() as u64).to_le_bytes());
            self.0.update(part.as_bytes());
        }
    }

    fn piece(&mut self, piece: &Piece) {
        match &piece.body {
            PieceBody::Text(text) => self.text("text", text),
            PieceBody::Media { mime, blob } => {
                self.text("media", mime);
                self.text("digest", &blob.digest.hex());
            }
        }
    }

    fn assistant(&mut self, piece: &AssistantPiece) {
        match piece {
            AssistantPiece::Thinking { text, signature } => {
                self.text("thinking", text);
                self.text("signature", signature);
            }
            AssistantPiece::Text(piece) => self.piece(piece),
            AssistantPiece::Call(call) => {
                self.text("call", call.id.as_str());
                self.text("tool", &call.tool);
                self.text("arguments", &call.arguments);
            }
        }
    }
}
