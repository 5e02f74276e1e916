//! A part: the rendered form of a block, still knowing who speaks, so that both layouts can file it.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::block::{Blob, Mime};
use crate::ids::{CallId, Seq};

/// One rendered piece of the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Who speaks.
    pub place: Place,
    /// The template's text before the content.
    pub head: String,
    /// The content, shared with its block where it is shown whole.
    pub body: PartBody,
    /// The block it comes from.
    pub seq: Seq,
    /// What the block costs in tokens; on the first part of a block only.
    pub tokens: u32,
}

/// Who speaks in a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The person, or the system in the person's place.
    User,
    /// The model.
    Assistant,
    /// The model's signed reasoning.
    Thinking {
        /// The vendor's proof.
        signature: Arc<str>,
    },
    /// The model calling a tool.
    Call {
        /// Which call.
        id: CallId,
        /// Which tool.
        tool: Arc<str>,
    },
    /// A tool replying to a call.
    Reply {
        /// Which call.
        call: CallId,
    },
}

/// The content of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartBody {
    /// The head says it all.
    None,
    /// Text.
    Text(Arc<str>),
    /// An image or a PDF.
    Media {
        /// `image/*` or `application/pdf`.
        mime: Mime,
        /// Which bytes.
        blob: Blob,
    },
}

impl Part {
    /// The part as text; media as a line that tells its type and size.
    pub fn text(&self) -> String {
        let mut text = self.head.clone();
        match &self.body {
            PartBody::None => {}
            PartBody::Text(body) => text.push_str(body),
            PartBody::Media { mime, blob } => write_media(&mut text, mime, blob),
        }
        text
    }
}

/// How media stand in a text.
pub(crate) fn write_media(out: &mut String, mime: &str, blob: &Blob) {
    let name = if mime.starts_with("image/") {
        "image"
    } else {
        "document"
    };
    let base64_len = blob.size_bytes.div_ceil(3).saturating_mul(4);
    let _ = write!(out, "<{name} media_type={mime} b64_len={base64_len}>");
}
