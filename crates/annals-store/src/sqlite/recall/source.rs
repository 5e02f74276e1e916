//! A conversation's place in the index as a row, and how its passages are numbered.
//!
//! A passage's number is its scope, its conversation's place there, and its own place in that, in this order of bits.
//! All passages of a scope, and all of a conversation, are therefore one range of numbers, and looking a word up in one
//! of them never meets the others.

use std::ops::Range;

use rusqlite::{Connection, OptionalExtension, params};

use crate::recall::source::{PASSAGE_BITS, Source};

const PLACE_BITS: u32 = 20;
const SCOPE_BITS: u32 = 20;

pub(super) fn find(tx: &Connection, conversation: i64) -> rusqlite::Result<Option<Source>> {
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
pub(super) fn make(tx: &Connection, conversation: i64, scope: &str, cut: i64) -> rusqlite::Result<Source> {
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
    tx.prepare_cached("INSERT INTO recall_source (conversation, first, next, upto) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![conversation, source.first, source.next, source.upto])?;
    Ok(source)
}

pub(super) fn store(tx: &Connection, source: &Source) -> rusqlite::Result<()> {
    tx.prepare_cached("UPDATE recall_source SET next = ?2, upto = ?3 WHERE conversation = ?1")?
        .execute(params![source.conversation, source.next, source.upto])?;
    Ok(())
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
