//! What leaves the log leaves the index, in the same transaction, also when the log is open without memory search.

use rusqlite::{Connection, params};

use super::last_block;
use super::source;
use crate::sqlite::observer::LogObserver;

/// Removes passages.
pub(in crate::sqlite) struct Removal;

impl LogObserver for Removal {
    fn removed(&mut self, tx: &Connection, conversation: i64, above: u64) -> rusqlite::Result<()> {
        forget(tx, conversation, above as i64)?;
        // The numbers of the last rows are given out again.
        tx.execute(
            "UPDATE recall_state SET block = min(block, ?1)",
            [last_block(tx)?],
        )?;
        Ok(())
    }
}

/// Removes everything of a conversation's blocks above a place.
fn forget(tx: &Connection, conversation: i64, above: i64) -> rusqlite::Result<()> {
    let Some(mut source) = source::find(tx, conversation)? else {
        return Ok(());
    };
    let numbers = source.numbers();
    let range = params![numbers.start, numbers.end, above];
    tx.execute(
        "DELETE FROM recall_text WHERE rowid IN
         (SELECT doc FROM recall_passage WHERE doc >= ?1 AND doc < ?2 AND seq > ?3)",
        range,
    )?;
    tx.execute(
        "DELETE FROM recall_passage WHERE doc >= ?1 AND doc < ?2 AND seq > ?3",
        range,
    )?;
    if above > 0 {
        source.upto = source.upto.min(above);
        // What only forks share does not grow, so that no place is given out again.
        source.next = tx.query_row(
            "SELECT coalesce(max(doc) + 1 - ?1, 0) FROM recall_passage WHERE doc >= ?1 AND doc < ?2",
            params![numbers.start, numbers.end],
            |row| row.get(0),
        )?;
        return source::store(tx, &source);
    }
    tx.execute("DELETE FROM recall_file WHERE conversation = ?1", [conversation])?;
    tx.execute(
        "DELETE FROM recall_source WHERE conversation = ?1",
        [conversation],
    )?;
    Ok(())
}
