//! Words and numbers of passages, as FTS5 has them.

use std::future::ready;
use std::ops::Range;

use rusqlite::{Connection, params};

use crate::recall::lexical::{Area, Postings};

/// One view of the index. Every answer is there at once.
pub(super) struct View<'c> {
    pub(super) tx: &'c Connection,
    /// The numbers that are searched.
    pub(super) searched: Vec<Range<i64>>,
    /// The numbers of the scope.
    pub(super) scope: Range<i64>,
}

impl Postings for View<'_> {
    type Error = rusqlite::Error;

    fn passages(
        &self,
        terms: &[String],
        area: Area,
        most: usize,
    ) -> impl Future<Output = rusqlite::Result<Vec<Vec<i64>>>> {
        let ranges = match area {
            Area::Searched => self.searched.as_slice(),
            Area::Scope => std::slice::from_ref(&self.scope),
        };
        let each = terms.iter().map(|term| passages(self.tx, term, ranges, most));
        ready(each.collect())
    }

    fn vocabulary(&self, from: &str, to: &str) -> impl Future<Output = rusqlite::Result<Vec<String>>> {
        ready(vocabulary(self.tx, from, to))
    }
}

/// The newest passages that have a term, at most this many.
fn passages(tx: &Connection, term: &str, ranges: &[Range<i64>], most: usize) -> rusqlite::Result<Vec<i64>> {
    let mut docs = Vec::new();
    let mut statement = tx.prepare_cached(
        "SELECT rowid FROM recall_text WHERE recall_text MATCH ?1 AND rowid >= ?2 AND rowid < ?3
         ORDER BY rowid DESC LIMIT ?4",
    )?;
    // A term has letters and digits only, but a word like `AND` must be quoted all the same.
    let quoted = format!("\"{term}\"");
    for range in ranges.iter().rev() {
        let left = most - docs.len();
        let mut rows = statement.query(params![quoted, range.start, range.end, left as i64])?;
        while let Some(row) = rows.next()? {
            docs.push(row.get(0)?);
        }
    }
    Ok(docs)
}

/// Terms of every scope.
fn vocabulary(tx: &Connection, from: &str, to: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement =
        tx.prepare_cached("SELECT term FROM recall_vocabulary WHERE term >= ?1 AND term < ?2")?;
    let rows = statement.query_map([from, to], |row| row.get(0))?;
    rows.collect()
}
