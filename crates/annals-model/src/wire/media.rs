//! Images and documents, or a note that says why they are not shown.

use std::collections::HashMap;
use std::sync::Arc;

use annals_core::block::{Blob, BlobDigest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The image types that every vendor takes.
const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// What becomes of a media piece.
pub(crate) enum Shown {
    Image { mime: String, base64: String },
    Pdf { base64: String },
    Note(String),
}

/// What of this piece can be shown.
pub(crate) fn show(mime: &str, blob: &Blob, media: &HashMap<BlobDigest, Arc<[u8]>>) -> Shown {
    let is_image = IMAGE_TYPES.contains(&mime);
    if !is_image && mime != "application/pdf" {
        return Shown::Note(note(mime, "the provider takes no such type"));
    }
    let Some(bytes) = media.get(&blob.digest) else {
        return Shown::Note(note(mime, "its bytes were not found"));
    };
    let base64 = STANDARD.encode(bytes);
    if is_image {
        Shown::Image {
            mime: mime.to_owned(),
            base64,
        }
    } else {
        Shown::Pdf { base64 }
    }
}

/// What stands in place of a piece that is not shown.
pub(crate) fn note(mime: &str, why: &str) -> String {
    format!("[{mime} is not shown: {why}]")
}
