//! Vectors in memory: one matrix a conversation, loaded when it is first searched and extended when it has grown.
//!
//! A bounded cache of what the database says. It must not outlive an epoch of the index, and a search looks only at what
//! its own view of the database has.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use annals_embed::{Vector, vector};
use rusqlite::{Connection, params};

use super::source::Source;
use crate::recall::Target;

/// All matrices together take at most this many bytes between searches.
const RESIDENT_MAX_BYTES: usize = 256 << 20;

/// What is known of a passage beside its vector.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// Its place in the conversation.
    pub(super) place: u32,
    pub(super) seq: u32,
    pub(super) ts_seconds: u32,
    pub(super) length: u16,
    pub(super) target: u8,
    has_vector: bool,
}

impl Row {
    /// Whose words.
    pub(super) fn target(self) -> Option<Target> {
        Target::ALL.get(usize::from(self.target)).copied()
    }
}

/// The passages of one conversation, in order.
#[derive(Debug, Default)]
pub(super) struct Matrix {
    rows: Vec<Row>,
    numbers: Vec<i8>,
    dimension: usize,
    /// The place from which on nothing was read yet.
    next: i64,
    /// How many rows have no vector yet.
    pending: usize,
    used: u64,
}

impl Matrix {
    /// The row of a passage.
    pub(super) fn row(&self, place: i64) -> Option<Row> {
        let place = u32::try_from(place).ok()?;
        // Without removals a passage lies at its own place.
        match self.rows.get(place as usize) {
            Some(row) if row.place == place => Some(*row),
            _ => {
                let at = self.rows.binary_search_by_key(&place, |row| row.place).ok()?;
                Some(self.rows[at])
            }
        }
    }

    /// Tells `seen` every passage that has a vector, with its closeness to the query.
    pub(super) fn scan(&self, query: &Vector, mut seen: impl FnMut(Row, i32)) {
        if query.numbers().len() == self.dimension {
            vector::scan(&self.numbers, query.numbers(), |at, dot| {
                let row = self.rows[at];
                if row.has_vector {
                    seen(row, dot);
                }
            });
        }
    }

    /// How many passages have no vector yet.
    pub(super) fn pending(&self) -> usize {
        self.pending
    }

    /// Reads what came since.
    fn follow(&mut self, tx: &Connection, source: &Source) -> rusqlite::Result<()> {
        if self.pending > 0 {
            *self = Matrix::default();
        }
        if self.next >= source.next {
            return Ok(());
        }
        let more = (source.next - self.next) as usize;
        if self.rows.is_empty() {
            // Most of a conversation comes at once: take what it needs and no more.
            self.rows.reserve_exact(more);
        }
        let first = source.numbers().start;
        let mut statement = tx.prepare_cached(
            "SELECT doc - ?1, seq, ts, length, target, vector FROM recall_passage WHERE doc >= ?2 AND doc < ?3 ORDER BY doc",
        )?;
        let mut rows = statement.query(params![first, first + self.next, first + source.next])?;
        while let Some(row) = rows.next()? {
            let vector = row.get_ref(5)?.as_blob().ok();
            self.push(
                Row {
                    place: row.get(0)?,
                    seq: row.get(1)?,
                    ts_seconds: row.get::<_, i64>(2)?.clamp(0, i64::from(u32::MAX)) as u32,
                    length: row.get::<_, i64>(3)?.clamp(0, i64::from(u16::MAX)) as u16,
                    target: row.get(4)?,
                    has_vector: vector.is_some(),
                },
                vector.unwrap_or_default(),
            );
        }
        self.next = source.next;
        Ok(())
    }

    fn push(&mut self, mut row: Row, vector: &[u8]) {
        if self.dimension == 0 && !vector.is_empty() {
            self.dimension = vector.len();
            self.numbers.reserve_exact(self.rows.capacity() * self.dimension);
            self.numbers.resize(self.rows.len() * self.dimension, 0);
        }
        row.has_vector &= vector.len() == self.dimension;
        self.pending += usize::from(!row.has_vector);
        self.rows.push(row);
        match row.has_vector {
            true => self.numbers.extend(vector.iter().map(|byte| byte.cast_signed())),
            false => self.numbers.resize(self.rows.len() * self.dimension, 0),
        }
    }

    fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Row>() + self.numbers.capacity()
    }
}

/// The matrices that are in memory.
#[derive(Debug, Default)]
pub(super) struct Matrices {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    epoch: i64,
    searches: u64,
    by_conversation: HashMap<i64, Arc<Mutex<Matrix>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic leaves at worst a matrix that ends earlier than it says; rows are pushed whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Matrices {
    /// Begins a search in this epoch: what is of an older one is dropped.
    pub(super) fn begin(&self, epoch: i64) -> u64 {
        let mut kept = lock(&self.kept);
        if kept.epoch != epoch {
            kept.by_conversation.clear();
            kept.epoch = epoch;
        }
        kept.searches += 1;
        kept.searches
    }

    /// Uses the matrix of a conversation, up to date with this view of the database.
    pub(super) fn with<T>(
        &self,
        tx: &Connection,
        search: u64,
        source: &Source,
        ask: impl FnOnce(&Matrix) -> T,
    ) -> rusqlite::Result<T> {
        let matrix = Arc::clone(
            lock(&self.kept)
                .by_conversation
                .entry(source.conversation)
                .or_default(),
        );
        let mut matrix = lock(&matrix);
        matrix.used = search;
        matrix.follow(tx, source)?;
        Ok(ask(&matrix))
    }

    /// Ends a search: what was not used for longest goes until the rest is small enough.
    pub(super) fn end(&self) {
        let mut kept = lock(&self.kept);
        let mut sizes: Vec<(u64, i64, usize)> = kept
            .by_conversation
            .iter()
            .map(|(conversation, matrix)| {
                let matrix = lock(matrix);
                (matrix.used, *conversation, matrix.bytes())
            })
            .collect();
        let mut total: usize = sizes.iter().map(|(_, _, bytes)| bytes).sum();
        if total <= RESIDENT_MAX_BYTES {
            return;
        }
        sizes.sort_unstable();
        for (_, conversation, bytes) in sizes {
            kept.by_conversation.remove(&conversation);
            total -= bytes;
            if total <= RESIDENT_MAX_BYTES {
                return;
            }
        }
    }

    /// Bytes, and passages.
    pub(super) fn resident(&self) -> (usize, usize) {
        let kept = lock(&self.kept);
        kept.by_conversation
            .values()
            .fold((0, 0), |(bytes, rows), matrix| {
                let matrix = lock(matrix);
                (bytes + matrix.bytes(), rows + matrix.rows.len())
            })
    }
}
