//! Authors and MIME types: a few words that stand on every block, kept once.

use std::sync::{Arc, LazyLock};

/// The words that most blocks carry; any other is kept by the block that has it.
const COMMON: [&str; 16] = [
    "assistant",
    "tool",
    "system",
    "user",
    "host",
    "application/json",
    "text/markdown",
    "text/plain",
    "application/pdf",
    "image/png",
    "image/jpeg",
    "text/html",
    "text/csv",
    "text/x-python",
    "text/x-diff",
    "application/octet-stream",
];

/// An author or a MIME type, shared with the other blocks that have it.
pub fn word(text: &str) -> Arc<str> {
    static SHARED: LazyLock<[Arc<str>; COMMON.len()]> = LazyLock::new(|| COMMON.map(Arc::from));
    match COMMON.iter().position(|common| *common == text) {
        Some(at) => SHARED[at].clone(),
        None => text.into(),
    }
}

/// Reads a word, shared with the others.
pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Arc<str>, D::Error> {
    let text: std::borrow::Cow<'de, str> = serde::Deserialize::deserialize(from)?;
    Ok(word(&text))
}
