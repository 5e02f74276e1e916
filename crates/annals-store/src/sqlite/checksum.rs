//! CRC-32 of what a row means, kept in the row: it tells a flipped bit from a fact.
//!
//! It covers texts, not the numbers that stand for them in other tables, so that a change there is found here.

/// Set in every checksum of a block since schema 3. Those before it cover the numbers of words instead of their texts.
const OVER_TEXTS: i64 = 1 << 32;

/// The checksum of numbers and texts: numbers and lengths first, so that no text can lend bytes to the next.
pub(super) fn of(numbers: &[i64], texts: &[Option<&[u8]>]) -> i64 {
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
