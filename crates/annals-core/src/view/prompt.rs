//! What a model is sent: messages made of pieces. The wire forms of vendors are made from this, elsewhere.

use std::sync::Arc;

use super::messages::Messages;
use crate::block::{Blob, Mime};
use crate::ids::CallId;

/// Which of the stable points of a prompt a piece closes. Everything up to it is worth caching.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CachePoint {
    /// The last piece before the current turn.
    PrevTurn,
    /// The end of a round some rounds before the last one.
    PreTail,
    /// The last stable piece.
    Tail,
}

impl CachePoint {
    /// The number `timeline render` prints: `=>[1]`, `=>[2]`, `=>[3]`.
    pub fn number(self) -> u8 {
        match self {
            CachePoint::PrevTurn => 1,
            CachePoint::PreTail => 2,
            CachePoint::Tail => 3,
        }
    }
}

/// A piece of a message, possibly the last one of a stretch worth caching.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// What it says.
    pub body: PieceBody,
    /// The cache point it closes.
    pub cache_point: Option<CachePoint>,
}

/// Text, or stored bytes to be shown as an image or a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PieceBody {
    /// Text.
    Text(Arc<str>),
    /// An image or a PDF, by digest; the sender of the prompt loads the bytes.
    Media {
        /// `image/*` or `application/pdf`.
        mime: Mime,
        /// Which bytes.
        blob: Blob,
    },
}

impl Piece {
    /// A text piece without a cache point.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Piece {
            body: PieceBody::Text(text.into()),
            cache_point: None,
        }
    }

    /// A media piece without a cache point.
    pub fn media(mime: Mime, blob: Blob) -> Self {
        Piece {
            body: PieceBody::Media { mime, blob },
            cache_point: None,
        }
    }
}

/// One message of a prompt, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// From the person, or the system speaking in the person's place.
    User(Vec<Piece>),
    /// From the model.
    Assistant(Vec<AssistantPiece>),
    /// The replies to all calls of the assistant message before it, in call order.
    Tool(Vec<ToolReply>),
}

/// What the model said, thought or called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AssistantPiece {
    /// Reasoning of the running turn, with the vendor's signature that must go back unchanged.
    Thinking {
        /// The reasoning.
        text: Arc<str>,
        /// The vendor's proof.
        signature: Arc<str>,
    },
    /// Text.
    Text(Piece),
    /// A native tool call.
    Call(Call),
}

/// A native tool call as the model made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Which call.
    pub id: CallId,
    /// The tool's id, such as `react.write`.
    pub tool: Arc<str>,
    /// The arguments as JSON text.
    pub arguments: Arc<str>,
    /// The cache point it closes.
    pub cache_point: Option<CachePoint>,
}

/// The reply to one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolReply {
    /// Which call.
    pub call: CallId,
    /// Whether the tool failed.
    pub is_error: bool,
    /// What it returned.
    pub pieces: Vec<Piece>,
}

/// A tool as it is offered to the model.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ToolSchema {
    /// The tool's id, such as `react.write`.
    pub name: String,
    /// What the model reads to decide.
    pub description: String,
    /// JSON Schema of the parameters, properties in the order the tool wants them.
    pub parameters: serde_json::Value,
}

/// Everything a model is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// Instructions.
    pub system: Arc<str>,
    /// Tools on offer, sorted by name; empty when the model must answer without them.
    pub tools: Arc<[ToolSchema]>,
    /// The conversation.
    pub messages: Messages,
}
