//! What is written into the index of a block, and when: an append only counts, and the index follows in batches.
//!
//! A batch costs a fraction of what its blocks would cost one by one: FTS5 writes one segment a transaction and merges
//! them all again later, and every transaction writes the pages of its bookkeeping.

use std::sync::Arc;

use annals_core::block::Block;
use annals_embed::Embedder;
use rusqlite::{Connection, params};

use super::State;
use super::lag;
use crate::recall::passage;
use crate::recall::remembered::{Remembered, remembered};
use crate::recall::source::Source;
use crate::sqlite::observer::LogObserver;

/// The index is behind the log by less than this many passages, of the blocks that this process wrote: a search that finds
/// it there adds them in a few milliseconds.
pub(in crate::sqlite) const LAG_MAX_PASSAGES: usize = 64;
/// Blocks without passages are passed over quickly, but not for nothing.
const LAG_MAX_BLOCKS: usize = 8 * LAG_MAX_PASSAGES;

#[derive(Clone, Copy, Debug, Default)]
struct Lag {
    blocks: usize,
    passages: usize,
}

/// Writes passages.
pub(in crate::sqlite) struct Indexer {
    embedder: Arc<dyn Embedder>,
    /// A guess at what is not in the index: it may be more than there is, after a rollback or a search.
    lag: Lag,
    lag_max_passages: usize,
    /// The terms of one passage; kept for its memory.
    terms: String,
}

impl Indexer {
    pub(in crate::sqlite) fn new(embedder: Arc<dyn Embedder>) -> Self {
        Indexer {
            embedder,
            lag: Lag::default(),
            lag_max_passages: LAG_MAX_PASSAGES,
            terms: String::new(),
        }
    }

    /// Follows once this many passages are missing.
    pub(in crate::sqlite) fn lag_max_passages(self, lag_max_passages: usize) -> Self {
        Indexer {
            lag_max_passages,
            ..self
        }
    }

    /// Adds a block that follows the last one of this source; how many passages it gave.
    pub(super) fn add(
        &mut self,
        tx: &Connection,
        state: &State,
        source: &mut Source,
        block: &Block,
    ) -> rusqlite::Result<usize> {
        source.upto = block.seq.get() as i64;
        let Some(found) = remembered(block) else {
            return Ok(0);
        };
        if !is_new(tx, source.conversation, &found)? {
            return Ok(0);
        }
        let ours = state.embedder.as_deref() == Some(self.embedder.identity());
        let before = source.next;
        for entry in found.entries() {
            let Some(place) = source.take_place() else { break };
            let doc = source.numbers().start + place;
            let vector = match ours {
                true => self.embedder.at_once(&entry.embedded()),
                false => None,
            };
            tx.prepare_cached(
                "INSERT INTO recall_passage (doc, seq, start, length, ts, target, vector)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                doc,
                source.upto,
                entry.range.start as i64,
                entry.range.len() as i64,
                block.ts.unix_millis() / 1_000,
                found.target as i64,
                vector.map(|vector| vector.to_bytes()),
            ])?;
            self.terms.clear();
            let all = &mut self.terms;
            entry.terms(|term| {
                all.push_str(term);
                all.push(' ');
            });
            tx.prepare_cached("INSERT INTO recall_text (rowid, terms) VALUES (?1, ?2)")?
                .execute(params![doc, self.terms])?;
        }
        Ok((source.next - before) as usize)
    }
}

/// Whether a file's content is met for the first time in its conversation; what is merely said always is.
fn is_new(tx: &Connection, conversation: i64, found: &Remembered<'_>) -> rusqlite::Result<bool> {
    let Some(digest) = found.file() else {
        return Ok(true);
    };
    let added = tx
        .prepare_cached("INSERT OR IGNORE INTO recall_file (conversation, digest) VALUES (?1, ?2)")?
        .execute(params![conversation, digest])?;
    Ok(added > 0)
}

impl LogObserver for Indexer {
    fn prepare(&mut self, tx: &Connection) -> rusqlite::Result<()> {
        // The first to come decides; a change of mind is a reindex.
        tx.execute(
            "UPDATE recall_state SET embedder = ?1 WHERE embedder IS NULL",
            [self.embedder.identity()],
        )?;
        // What others left, or a process that ended, may all be passages. However much it is, it counts as reason for
        // one step: with the blocks to come a few steps more than they need bring it to an end.
        let left = usize::try_from(lag::lag(tx, &State::read(tx)?)?).unwrap_or(usize::MAX);
        self.lag = Lag {
            blocks: left.min(LAG_MAX_BLOCKS),
            passages: left.min(self.lag_max_passages),
        };
        Ok(())
    }

    fn appended(&mut self, blocks: &[Block]) {
        self.lag.blocks += blocks.len();
        let texts = blocks.iter().filter_map(remembered);
        self.lag.passages += texts.map(|found| passage::about(found.text)).sum::<usize>();
    }

    fn is_behind(&self) -> bool {
        self.lag.passages >= self.lag_max_passages || self.lag.blocks >= LAG_MAX_BLOCKS
    }

    fn catch_up(&mut self, tx: &Connection) -> rusqlite::Result<()> {
        // If it fails, it is tried again only after as many blocks more.
        let before = std::mem::take(&mut self.lag);
        let step = lag::advance(tx, self)?;
        if !step.is_last {
            self.lag = Lag {
                blocks: before.blocks.saturating_sub(step.blocks as usize),
                passages: before.passages.saturating_sub(step.passages),
            };
        }
        Ok(())
    }
}
