//! A conversation's place in the index, and the numbers of its passages.
//!
//! A passage's number is its scope, its conversation's place there, and its own place in that, in this order of bits.
//! All passages of a scope, and all of a conversation, are therefore one range of numbers, and looking a word up in one
//! of them never meets the others.

use std::ops::Range;

use rusqlite::{Connection, OptionalExtension, params};

const PASSAGE_BITS: u32 = 23;
const PLACE_BITS: u32 = 20;
const SCOPE_BITS: u32 = 20;

/// A conversation as the index knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    /// The conversation's row.
    pub(super) conversation: i64,
    /// The number of its first passage; `None` when its scope has more conversations than there are numbers.
    pub(super) first: Option<i64>,
    /// The place of its next passage.
    pub(super) next: i64,
    /// Its last block that is in the index, or that it shares.
    pub(super) upto: i64,
}

impl Source {
    pub(super) fn find(tx: &Connection, conversation: i64) -> rusqlite::Result<Option<Self>> {
        tx.prepare_cached("SELECT first, next, upto FROM recall_source WHERE conversation = ?1")?
            .query_row([conversation], |row| {
                Ok(Source {
                    conversation,
                    first: row.get(0)?,
                    next: row.get(1)?,
                    upto: row.get(2)?,
                })
            })
            .optional()
    }

    /// A source for a conversation that has none.
    pub(super) fn make(tx: &Connection, conversation: i64, scope: &str, cut: i64) -> rusqlite::Result<Self> {
        tx.prepare_cached("INSERT OR IGNORE INTO recall_scope (scope, places) VALUES (?1, 0)")?
            .execute([scope])?;
        let (scope, place): (i64, i64) = tx
            .prepare_cached(
                "UPDATE recall_scope SET places = places + 1 WHERE scope = ?1 RETURNING key, places - 1",
            )?
            .query_row([scope], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let has_place = scope < 1 << SCOPE_BITS && place < 1 << PLACE_BITS;
        let source = Source {
            conversation,
            first: has_place.then_some(scope << (PLACE_BITS + PASSAGE_BITS) | place << PASSAGE_BITS),
            next: 0,
            upto: cut,
        };
        tx.prepare_cached(
            "INSERT INTO recall_source (conversation, first, next, upto) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![conversation, source.first, source.next, source.upto])?;
        Ok(source)
    }

    pub(super) fn store(&self, tx: &Connection) -> rusqlite::Result<()> {
        tx.prepare_cached("UPDATE recall_source SET next = ?2, upto = ?3 WHERE conversation = ?1")?
            .execute(params![self.conversation, self.next, self.upto])?;
        Ok(())
    }

    /// The number for one more passage, while there are any.
    pub(super) fn number(&mut self) -> Option<i64> {
        let number = self.first? + self.next;
        if self.next >= 1 << PASSAGE_BITS {
            return None;
        }
        self.next += 1;
        Some(number)
    }

    /// All numbers that it may have.
    pub(super) fn numbers(&self) -> Range<i64> {
        let first = self.first.unwrap_or(0);
        first
            ..first
                + if self.first.is_some() {
                    1 << PASSAGE_BITS
                } else {
                    0
                }
    }
}

/// All numbers of a scope, if anything of it is in the index.
pub(super) fn scope_numbers(tx: &Connection, scope: &str) -> rusqlite::Result<Option<Range<i64>>> {
    let key: Option<i64> = tx
        .prepare_cached("SELECT key FROM recall_scope WHERE scope = ?1")?
        .query_row([scope], |row| row.get(0))
        .optional()?;
    let width = PLACE_BITS + PASSAGE_BITS;
    Ok(key
        .filter(|key| *key < 1 << SCOPE_BITS)
        .map(|key| key << width..(key + 1) << width))
}
