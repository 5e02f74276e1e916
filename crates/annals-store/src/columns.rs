//! How a block's fields lie in columns: what every backend that keeps rows shares.
//!
//! What most blocks have is a column of its own, so that reading a log parses no JSON; the rest of the metadata is
//! compact JSON. A checksum over what the row means tells a flipped bit from a fact.

use std::borrow::Cow;

use annals_core::block::{Blob, BlobDigest, Block, Meta};
use annals_core::ids::{CallId, TurnId};
use annals_core::path::LogicalPath;

use crate::log::named_with;

const FAMILY_BYTES: usize = "tc:".len();
const DIGEST_BYTES: usize = 32;

/// Bytes of a body that names stored bytes.
pub const BLOB_BYTES: usize = DIGEST_BYTES + 8;

/// The checksum (CRC-32, by crc32fast) of numbers and texts: numbers and lengths first, so that no text can lend bytes to the next.
pub fn checksum(numbers: &[i64], texts: &[Option<&[u8]>]) -> i64 {
    const WORD_BYTES: usize = size_of::<u64>();
    const HEAD_MAX_WORDS: usize = 16;
    let lengths = texts
        .iter()
        .map(|text| text.map_or(u64::MAX, |text| text.len() as u64));
    let words = numbers.iter().map(|number| *number as u64).chain(lengths);
    let mut head = [0; HEAD_MAX_WORDS * WORD_BYTES];
    debug_assert!(numbers.len() + texts.len() <= HEAD_MAX_WORDS);
    for (place, word) in head.chunks_exact_mut(WORD_BYTES).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    let mut sum = crc32fast::Hasher::new();
    sum.update(&head[..(numbers.len() + texts.len()) * WORD_BYTES]);
    texts.iter().flatten().for_each(|text| sum.update(text));
    i64::from(sum.finalize())
}

/// Metadata beyond the call and the step, as compact JSON.
pub fn further(meta: &Meta) -> Option<String> {
    let rest = Meta {
        call: None,
        step: None,
        ..meta.clone()
    };
    (!rest.is_empty()).then(|| serde_json::to_string(&rest).expect("plain data always serialises to JSON"))
}

/// The metadata of a row's own columns and of its JSON; `None` if the latter is malformed.
#[allow(
    clippy::option_option,
    reason = "malformed, absent and present are three things"
)]
pub fn meta_of(json: Option<&str>, call: Option<CallId>, step: Option<u32>) -> Option<Option<Box<Meta>>> {
    let meta = match json {
        None if call.is_none() && step.is_none() => return Some(None),
        None => Meta {
            call,
            step,
            ..Meta::EMPTY
        },
        Some(json) => {
            let meta = Meta::from_json(json).ok()?;
            let (call, step) = (call.or(meta.call.clone()), step.or(meta.step));
            Meta { call, step, ..meta }
        }
    };
    Some(Some(Box::new(meta)))
}

/// A path as it is stored. Most begin with their block's own turn, which has a column: `tc:<turn>.x.call` is kept as
/// `tc:.x.call`. No canonical path has a dot there, so this reads back in one way.
pub fn without_turn<'p>(path: &'p str, turn: &str) -> Cow<'p, str> {
    match path
        .split_at_checked(FAMILY_BYTES)
        .map(|(family, rest)| (family, rest.strip_prefix(turn)))
    {
        Some((family, Some(rest))) if rest.starts_with('.') => format!("{family}{rest}").into(),
        _ => path.into(),
    }
}

/// The path of what [`without_turn`] gave; `buffer` is room that callers reuse.
pub fn with_turn(stored: &str, turn: &TurnId, buffer: &mut String) -> Option<LogicalPath> {
    let whole = match stored.split_at_checked(FAMILY_BYTES) {
        Some((family, rest)) if rest.starts_with('.') => {
            buffer.clear();
            buffer.extend([family, turn.as_str(), rest]);
            buffer
        }
        _ => stored,
    };
    LogicalPath::parse(whole).ok()
}

/// A body that names stored bytes: the digest, then the size.
pub fn blob_bytes(blob: &Blob) -> [u8; BLOB_BYTES] {
    let mut bytes = [0; BLOB_BYTES];
    bytes[..DIGEST_BYTES].copy_from_slice(&blob.digest.0);
    bytes[DIGEST_BYTES..].copy_from_slice(&blob.size_bytes.to_le_bytes());
    bytes
}

/// What [`blob_bytes`] was made of.
pub fn blob_of(bytes: &[u8]) -> Option<Blob> {
    let (digest, size) = bytes.split_at_checked(DIGEST_BYTES)?;
    Some(Blob {
        digest: BlobDigest(digest.try_into().ok()?),
        size_bytes: u64::from_le_bytes(size.try_into().ok()?),
    })
}

/// The digests that a block names, given its metadata as [`further`] writes it.
pub fn named(block: &Block, further: Option<&str>) -> Vec<BlobDigest> {
    named_with(block, further.unwrap_or_default())
}
