//! Texts of a prompt as the wire forms need them.

use std::borrow::Cow;

use annals_core::view::prompt::{Piece, PieceBody};
use serde_json::value::RawValue;

/// The text of a piece; none for media.
pub(crate) fn piece_text(piece: &Piece) -> Option<&str> {
    match &piece.body {
        PieceBody::Text(text) => Some(text),
        PieceBody::Media { .. } => None,
    }
}

/// Texts one after the other; one that does not begin on a new line is set off by an empty line.
pub(crate) fn set_off<T: AsRef<str>>(texts: Vec<T>) -> String {
    let mut joined = String::with_capacity(texts.iter().map(|text| text.as_ref().len() + 2).sum());
    for text in texts.iter().map(AsRef::as_ref).filter(|text| !text.is_empty()) {
        if !joined.is_empty() && !text.starts_with('\n') {
            joined.push_str("\n\n");
        }
        joined.push_str(text);
    }
    joined
}

/// Arguments as the text of a JSON object. Servers parse them, and a model's old mistake must not break every later
/// request.
pub(crate) fn as_object(arguments: &str) -> Cow<'_, str> {
    let is_object =
        arguments.trim_start().starts_with('{') && serde_json::from_str::<&RawValue>(arguments).is_ok();
    if is_object {
        Cow::Borrowed(arguments)
    } else if arguments.trim().is_empty() {
        Cow::Borrowed("{}")
    } else {
        Cow::Owned(serde_json::json!({ "invalid_arguments": arguments }).to_string())
    }
}
