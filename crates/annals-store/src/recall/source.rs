//! A conversation's place in an index, and the numbers of its passages.

use std::ops::Range;

/// A conversation has at most two to this power of passages.
pub const PASSAGE_BITS: u32 = 23;

/// A conversation as an index knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The conversation's row.
    pub conversation: i64,
    /// The number of its first passage; `None` when its scope has more conversations than there are numbers.
    pub first: Option<i64>,
    /// The place of its next passage.
    pub next: i64,
    /// Its last block that is in the index, or that it shares.
    pub upto: i64,
}

impl Source {
    /// The place for one more passage, while there are any.
    pub fn take_place(&mut self) -> Option<i64> {
        if self.first.is_none() || self.next >= 1 << PASSAGE_BITS {
            return None;
        }
        self.next += 1;
        Some(self.next - 1)
    }

    /// All numbers that it may have.
    pub fn numbers(&self) -> Range<i64> {
        let first = self.first.unwrap_or(0);
        let width = if self.first.is_some() {
            1 << PASSAGE_BITS
        } else {
            0
        };
        first..first + width
    }
}
