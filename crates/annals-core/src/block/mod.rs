//! The block: one immutable fact on the timeline.
//!
//! Keeps the domain form of a block and its draft. The JSON form is in [`json`], the typed `meta` in [`meta`],
//! the closed set of types in [`kind`], what their texts say in [`payload`], the digest that models may see in
//! [`digest`]. A block is never edited:
//! hiding, pruning and compaction are further blocks.

mod blob;
mod digest;
mod fields;
mod json;
mod kind;
mod meta;
pub mod payload;
mod word;
mod workspace;

pub use blob::{Blob, BlobDigest, DigestError};
pub use digest::{ArtifactKind, Channel, SafeDigest, ShownError, Visibility};
pub use fields::MessageKind;
pub use json::{BlockJson, BlockJsonError};
pub use kind::BlockKind;
pub use meta::{CutParam, Extra, FileMeta, Meta, SummaryMeta};
pub use word::word;
pub use workspace::WorkspaceChange;

use std::sync::Arc;

use crate::ids::{Seq, TurnId};
use crate::path::LogicalPath;
use crate::time::Timestamp;
use crate::tokens::{self, MediaRule};

/// Who wrote a block: `user`, `assistant`, `tool`, `system`, or a host's own word.
pub type Author = Arc<str>;

/// A MIME type such as `text/markdown`.
pub type Mime = Arc<str>;

/// What a block carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Nothing beyond the block's own fields (headers, files that are not inlined).
    Empty,
    /// Text, kept whole.
    Text(Arc<str>),
    /// Bytes that live once in the artifact store, by digest.
    Blob(Box<Blob>),
}

impl From<Blob> for Body {
    fn from(blob: Blob) -> Self {
        Body::Blob(Box::new(blob))
    }
}

/// One fact on the timeline, with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Place in the conversation, from 1, without gaps.
    pub seq: Seq,
    /// The block's type.
    pub kind: BlockKind,
    /// Who wrote it.
    pub author: Author,
    /// The turn it belongs to.
    pub turn: TurnId,
    /// When it was appended.
    pub ts: Timestamp,
    /// MIME type of the body.
    pub mime: Mime,
    /// What names it; every type of the format has one, a host's own block may not.
    pub path: Option<LogicalPath>,
    /// What it carries.
    pub body: Body,
    /// Typed metadata, absent when empty.
    pub meta: Option<Box<Meta>>,
    /// Tokens of the body, counted once when the block is sealed and stored with it.
    pub tokens: u32,
}

impl Block {
    /// The text, if the body is text.
    pub fn text(&self) -> Option<&str> {
        match &self.body {
            Body::Text(text) => Some(text),
            Body::Empty | Body::Blob(_) => None,
        }
    }

    /// The stored bytes this block names, if its body is binary.
    pub fn blob(&self) -> Option<&Blob> {
        match &self.body {
            Body::Blob(blob) => Some(blob),
            Body::Empty | Body::Text(_) => None,
        }
    }

    /// With its tokens counted, if they are not yet. No text is so short that it has none.
    fn counted(mut self) -> Self {
        if self.tokens == 0 {
            self.tokens = match &self.body {
                Body::Empty => 0,
                Body::Text(text) => tokens::count(text),
                Body::Blob(blob) => self.media_tokens(MediaRule::default(), blob),
            };
        }
        self
    }

    /// What its bytes cost a model that counts media by this rule.
    pub(crate) fn media_tokens(&self, rule: MediaRule, blob: &Blob) -> u32 {
        let file = self.meta().file.as_deref();
        let (pixels, pages) = file.map_or((None, None), |file| (file.pixels, file.pages));
        rule.tokens(&self.mime, blob.size_bytes, pixels, pages)
    }

    /// The metadata, or the empty one.
    pub fn meta(&self) -> &Meta {
        static EMPTY: Meta = Meta::EMPTY;
        self.meta.as_deref().unwrap_or(&EMPTY)
    }
}

/// A block that has no place yet: everything but `seq`, `ts` and the token count.
#[derive(Clone, Debug, PartialEq)]
pub struct NewBlock {
    /// The block's type.
    pub kind: BlockKind,
    /// Who wrote it.
    pub author: Author,
    /// The turn it belongs to.
    pub turn: TurnId,
    /// MIME type of the body.
    pub mime: Mime,
    /// What names it.
    pub path: Option<LogicalPath>,
    /// What it carries.
    pub body: Body,
    /// Typed metadata.
    pub meta: Meta,
}

impl NewBlock {
    /// An empty block of this type; add a body with [`text`](Self::text), [`json`](Self::json) or
    /// [`blob`](Self::blob).
    pub fn new(kind: BlockKind, turn: &TurnId, path: LogicalPath) -> Self {
        let author = kind.default_author();
        NewBlock {
            kind,
            author: word(author),
            turn: turn.clone(),
            mime: word("text/plain"),
            path: Some(path),
            body: Body::Empty,
            meta: Meta::default(),
        }
    }

    /// With this text and MIME type.
    pub fn text(mut self, mime: &str, text: impl Into<Arc<str>>) -> Self {
        self.mime = word(mime);
        self.body = Body::Text(text.into());
        self
    }

    /// With this value as compact JSON text.
    pub fn json(self, value: &impl serde::Serialize) -> Self {
        let text = serde_json::to_string(value).expect("plain data always serialises to JSON");
        self.text("application/json", text)
    }

    /// With these stored bytes and MIME type.
    pub fn blob(mut self, mime: &str, blob: Blob) -> Self {
        self.mime = word(mime);
        self.body = blob.into();
        self
    }

    /// With this MIME type and no body.
    pub fn mime(mut self, mime: &str) -> Self {
        self.mime = word(mime);
        self
    }

    /// With this metadata.
    pub fn meta(mut self, meta: Meta) -> Self {
        self.meta = meta;
        self
    }

    /// Gives the block its place and time, and counts its tokens, once for its whole life.
    pub fn seal(self, seq: Seq, ts: Timestamp) -> Block {
        let block = Block {
            seq,
            kind: self.kind,
            author: self.author,
            turn: self.turn,
            ts,
            mime: self.mime,
            path: self.path,
            body: self.body,
            meta: (!self.meta.is_empty()).then(|| Box::new(self.meta)),
            tokens: 0,
        };
        block.counted()
    }
}
