//! The digest of a prompt: two that a model reads alike have the same.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::prompt::{AssistantPiece, Message, Piece, PieceBody, Prompt, ToolSchema};
use crate::block::BlobDigest;

impl Prompt {
    /// SHA-256 over everything the model reads: system text, tools and messages with the tail, media by their own
    /// digests. Cache points are not read, so they do not count. Every field is hashed with its length before it.
    pub fn digest(&self) -> BlobDigest {
        let mut hash = Fields::of_head(self);
        self.messages.iter().for_each(|message| hash.message(message));
        hash.digest()
    }
}

/// Messages between two states that are kept.
const STRIDE: usize = 16;

/// The states of the hash of a prompt that grows: [`Prompt::digest`] at the cost of what is new.
#[derive(Clone, Debug, Default)]
pub(super) struct PrefixHash {
    /// What comes before the messages.
    head: Option<(Arc<str>, Arc<[ToolSchema]>)>,
    /// After how many messages, and the state there: at the head, every [`STRIDE`] messages, and the last.
    states: Vec<(usize, Fields)>,
}

impl PrefixHash {
    /// From here on messages may be others than before.
    pub(super) fn go_back_to(&mut self, message: usize) {
        self.states.retain(|(after, _)| *after <= message);
    }

    /// The digest of a prompt whose first `fixed` messages are those of the prompt before, as far as that had them.
    pub(super) fn digest(&mut self, prompt: &Prompt, fixed: usize) -> BlobDigest {
        let is_same = |(system, tools): &(Arc<str>, Arc<[ToolSchema]>)| {
            (Arc::ptr_eq(system, &prompt.system) || *system == prompt.system)
                && (Arc::ptr_eq(tools, &prompt.tools) || *tools == prompt.tools)
        };
        if !self.head.as_ref().is_some_and(is_same) {
            self.head = Some((prompt.system.clone(), prompt.tools.clone()));
            self.states = vec![(0, Fields::of_head(prompt))];
        }
        let last = self.states.last().cloned();
        let (mut after, mut hash) = last.unwrap_or_else(|| (0, Fields::of_head(prompt)));
        if after % STRIDE != 0 {
            self.states.pop();
        }
        let messages = &prompt.messages;
        while after < fixed.min(messages.len()) {
            hash.message(&messages[after]);
            after += 1;
            if after % STRIDE == 0 {
                self.states.push((after, hash.clone()));
            }
        }
        if after % STRIDE != 0 {
            self.states.push((after, hash.clone()));
        }
        (after..messages.len()).for_each(|at| hash.message(&messages[at]));
        hash.digest()
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

#[derive(Clone, Debug)]
struct Fields(Sha256);

impl Fields {
    /// What comes before the messages.
    fn of_head(prompt: &Prompt) -> Self {
        let mut hash = Fields(Sha256::new());
        hash.text("system", &prompt.system);
        prompt
            .tools
            .iter()
            .for_each(|tool| hash.text("tool", &tool.digest().hex()));
        hash
    }

    fn digest(self) -> BlobDigest {
        BlobDigest(self.0.finalize().into())
    }

    fn message(&mut self, message: &Message) {
        match message {
            Message::User(pieces) => {
                self.text("message", "user");
                pieces.iter().for_each(|piece| self.piece(piece));
            }
            Message::Assistant(pieces) => {
                self.text("message", "assistant");
                pieces.iter().for_each(|piece| self.assistant(piece));
            }
            Message::Tool(replies) => {
                self.text("message", "tool");
                for reply in replies {
                    self.text("reply", reply.call.as_str());
                    self.text("error", if reply.is_error { "1" } else { "0" });
                    reply.pieces.iter().for_each(|piece| self.piece(piece));
                }
            }
        }
    }

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
