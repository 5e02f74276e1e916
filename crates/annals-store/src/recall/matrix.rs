//! Vectors in memory: one matrix a conversation, loaded when it is first searched and extended when it has grown.
//!
//! A bounded cache of what a database says. It must not outlive an epoch of the index, and a search looks only at what
//! its own view of the database has. A matrix is only ever extended: what must be read again begins a new one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use annals_embed::{Vector, vector};

use super::RecallTarget;
use super::search::Strand;

/// All matrices together take at most this many bytes between searches.
const RESIDENT_MAX_BYTES: usize = 256 << 20;

/// A passage as a database has it, without its text.
#[derive(Clone, Copy, Debug)]
pub struct StoredPassage<'v> {
    /// Its place in the conversation.
    pub place: i64,
    /// Its block.
    pub seq: i64,
    /// When it was said.
    pub ts_seconds: i64,
    /// Bytes of its text.
    pub length: i64,
    /// Whose words, as a number.
    pub target: i64,
    /// Its vector, if it has one.
    pub vector: Option<&'v [u8]>,
}

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
    pub(super) fn target(self) -> Option<RecallTarget> {
        RecallTarget::ALL.get(usize::from(self.target)).copied()
    }
}

impl From<StoredPassage<'_>> for Row {
    fn from(stored: StoredPassage<'_>) -> Self {
        let bounded = |number: i64, most: u32| number.clamp(0, i64::from(most)) as u32;
        Row {
            place: bounded(stored.place, u32::MAX),
            seq: bounded(stored.seq, u32::MAX),
            ts_seconds: bounded(stored.ts_seconds, u32::MAX),
            length: bounded(stored.length, u32::from(u16::MAX)) as u16,
            target: bounded(stored.target, u32::from(u8::MAX)) as u8,
            has_vector: stored.vector.is_some(),
        }
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

    /// How many passages lie before a place.
    pub(super) fn count_before(&self, place: i64) -> usize {
        self.rows.partition_point(|row| i64::from(row.place) < place)
    }

    fn push(&mut self, stored: StoredPassage<'_>) {
        let (mut row, vector) = (Row::from(stored), stored.vector.unwrap_or_default());
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
        self.next = stored.place + 1;
    }

    fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Row>() + self.numbers.capacity()
    }
}

/// The matrices that are in memory.
#[derive(Debug, Default)]
pub struct Matrices {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    epoch: i64,
    searches: u64,
    by_conversation: HashMap<i64, Arc<Mutex<Matrix>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic leaves at worst a matrix that ends earlier than it could; rows are pushed whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The matrices of one search, each beside its strand.
#[derive(Debug)]
pub struct Loaded {
    strands: Vec<Strand>,
    matrices: Vec<Arc<Mutex<Matrix>>>,
}

/// Passages that a search has to read first.
#[derive(Clone, Copy, Debug)]
pub struct Missing {
    at: usize,
    /// The conversation's row.
    pub conversation: i64,
    /// The number of the conversation's first passage.
    pub first: i64,
    /// From this place on.
    pub from: i64,
    /// Up to before this place.
    pub to: i64,
}

impl Matrices {
    /// Begins a search over strands in this epoch: what is of an older one is dropped.
    pub fn begin(&self, epoch: i64, mut strands: Vec<Strand>) -> Loaded {
        strands.sort_by_key(|strand| strand.source.first);
        let mut kept = lock(&self.kept);
        if kept.epoch != epoch {
            kept.by_conversation.clear();
            kept.epoch = epoch;
        }
        kept.searches += 1;
        let search = kept.searches;
        let matrices = strands.iter().map(|strand| {
            let kept = kept
                .by_conversation
                .entry(strand.source.conversation)
                .or_default();
            // Its vectors may have come since.
            if lock(kept).pending > 0 {
                *kept = Arc::default();
            }
            lock(kept).used = search;
            Arc::clone(kept)
        });
        Loaded {
            matrices: matrices.collect(),
            strands,
        }
    }

    /// Ends a search: what was not used for longest goes until the rest is small enough.
    pub fn end(&self) {
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
    pub fn resident(&self) -> (usize, usize) {
        let kept = lock(&self.kept);
        kept.by_conversation
            .values()
            .fold((0, 0), |(bytes, rows), matrix| {
                let matrix = lock(matrix);
                (bytes + matrix.bytes(), rows + matrix.rows.len())
            })
    }
}

impl Loaded {
    /// The strands that are searched, by number.
    pub fn strands(&self) -> &[Strand] {
        &self.strands
    }

    /// What is not in memory yet.
    pub fn missing(&self) -> Vec<Missing> {
        let each = self.strands.iter().zip(&self.matrices).enumerate();
        let missing = each.filter_map(|(at, (strand, matrix))| {
            let (from, to) = (lock(matrix).next, strand.source.next);
            (from < to).then_some(Missing {
                at,
                conversation: strand.source.conversation,
                first: strand.source.numbers().start,
                from,
                to,
            })
        });
        missing.collect()
    }

    /// Takes in what was missing: `read` tells every passage of it, in order. Another search may have been quicker.
    pub fn extend<E>(
        &self,
        missing: &Missing,
        read: impl FnOnce(&mut dyn FnMut(StoredPassage<'_>)) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut matrix = lock(&self.matrices[missing.at]);
        let from = matrix.next.max(missing.from);
        if matrix.rows.is_empty() {
            // Most of a conversation comes at once: take what it needs and no more.
            matrix
                .rows
                .reserve_exact(usize::try_from(missing.to - from).unwrap_or(0));
        }
        read(&mut |stored| {
            if stored.place >= from {
                matrix.push(stored);
            }
        })?;
        matrix.next = matrix.next.max(missing.to);
        Ok(())
    }

    /// Each strand with its matrix.
    pub(super) fn each(&self, mut seen: impl FnMut(&Strand, &Matrix)) {
        for (strand, matrix) in self.strands.iter().zip(&self.matrices) {
            seen(strand, &lock(matrix));
        }
    }

    /// How many passages are searched.
    pub fn passages(&self) -> usize {
        let mut all = 0;
        self.each(|strand, matrix| all += matrix.count_before(strand.source.next));
        all
    }
}
