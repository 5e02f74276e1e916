//! CRC-32 of what a row means, kept in the row: it tells a flipped bit from a fact.
//!
//! It covers texts, not the numbers that stand for them in other tables, so that a change there is found here.

pub(super) use crate::columns::checksum as of;

/// Set in every checksum of a block since schema 3. Those before it cover the numbers of words instead of their texts.
const OVER_TEXTS: i64 = 1 << 32;

/// The checksum of a block's row.
pub(super) fn of_block(numbers: &[i64; 5], texts: &[Option<&[u8]>; 8]) -> i64 {
    OVER_TEXTS | of(numbers, texts)
}

/// Whether a stored checksum of a block covers texts.
pub(super) fn is_over_texts(sum: i64) -> bool {
    sum & OVER_TEXTS != 0
}

/// The checksum of a row of the table of words.
pub(super) fn of_word(key: i64, text: &str) -> i64 {
    of(&[key], &[Some(text.as_bytes())])
}
