//! The index brought up to the log, its missing vectors made, or all of it rebuilt.
//!
//! Everything is done in small transactions between those of others, and each leaves a whole index that merely ends
//! earlier: it may be stopped at any moment and goes on where it was.

use std::sync::Arc;

use rusqlite::{Connection, params};

use super::index::Indexer;
use super::lag::{self, Advance};
use super::{SqliteRecall, State};
use crate::log::LogError;
use crate::recall::remembered::remembered;
use crate::recall::{Progress, ReindexError};
use crate::sqlite::fault::Fault;
use crate::sqlite::reader;
use crate::sqlite::words::Words;

/// One request asks for this many vectors.
const STEP_VECTORS: usize = 64;

impl SqliteRecall {
    /// Rebuilds the whole index, with the configured embedder; tells `seen` how far it is, and stops when told `false`.
    /// What is not there yet when it stops is added by the next search or reindex.
    pub async fn reindex(&self, mut seen: impl FnMut(Progress) -> bool) -> Result<Progress, ReindexError> {
        let identity = self.embedder.identity().to_owned();
        self.writer
            .write_derived(move |work| Ok(clear(work.tx, &identity)?))
            .await?;
        self.complete(&mut seen).await
    }

    /// Adds what is missing: blocks that the index has not come to, and vectors that could not be made at once.
    pub async fn catch_up(&self) -> Result<Progress, ReindexError> {
        self.complete(&mut |_| true).await
    }

    async fn complete(&self, seen: &mut impl FnMut(Progress) -> bool) -> Result<Progress, ReindexError> {
        let mut progress = Progress {
            of_blocks: self.readers.read(|_, tx| Ok(count_left(tx)?)).await?,
            ..Progress::default()
        };
        loop {
            let step = self.advance().await?;
            progress.blocks += step.blocks;
            // More may have been written meanwhile.
            progress.of_blocks = progress.of_blocks.max(progress.blocks);
            if !seen(progress) {
                return Ok(progress);
            }
            if step.is_last {
                break;
            }
        }
        self.fill(&mut progress, seen).await?;
        Ok(progress)
    }

    async fn advance(&self) -> Result<Advance, LogError> {
        let mut indexer = Indexer::new(Arc::clone(&self.embedder));
        self.writer
            .write_derived(move |work| Ok(lag::advance(work.tx, &mut indexer)?))
            .await
    }

    /// Brings the index on to a row of the log.
    pub(super) async fn catch_up_to(&self, row: i64) -> Result<(), LogError> {
        loop {
            let step = self.advance().await?;
            if step.is_last || step.upto >= row {
                return Ok(());
            }
        }
    }

    /// Brings one conversation up to the log.
    pub(super) async fn catch_up_with(&self, conversation: i64) -> Result<(), LogError> {
        loop {
            let mut indexer = Indexer::new(Arc::clone(&self.embedder));
            let is_done = self
                .writer
                .write_derived(move |work| Ok(lag::advance_one(work.tx, &mut indexer, conversation)?))
                .await?;
            if is_done {
                return Ok(());
            }
        }
    }

    /// Makes missing vectors without anybody waiting for them.
    pub(super) fn fill_in_background(&self) {
        let recall = self.clone();
        tokio::spawn(async move {
            // The task that holds the lock does this too. A failed batch is retried by the next search.
            if let Ok(_filling) = Arc::clone(&recall.filling).try_lock_owned() {
                let _ = recall.fill(&mut Progress::default(), &mut |_| true).await;
            }
        });
    }

    async fn fill(
        &self,
        progress: &mut Progress,
        seen: &mut impl FnMut(Progress) -> bool,
    ) -> Result<(), ReindexError> {
        let identity = self.embedder.identity().to_owned();
        progress.of_vectors = self.readers.read(|_, tx| Ok(count_pending(tx)?)).await?;
        if !seen(*progress) {
            return Ok(());
        }
        let mut after = 0;
        loop {
            let own = identity.clone();
            let batch = self
                .readers
                .read(move |words, tx| pending(words, tx, &own, after))
                .await?;
            let Some(last) = batch.docs.last() else {
                return Ok(());
            };
            after = last + 1;
            let vectors = self.embedder.embed(&batch.texts).await?;
            let bytes = vectors.iter().map(annals_embed::Vector::to_bytes);
            let filled: Vec<(i64, Vec<u8>)> = batch.docs.into_iter().zip(bytes).collect();
            progress.vectors += filled.len() as u64;
            self.writer
                .write_derived(move |work| Ok(put(work.tx, batch.epoch, &filled)?))
                .await?;
            if !seen(*progress) {
                return Ok(());
            }
        }
    }
}

/// Drops everything; from here on vectors are of this embedder.
fn clear(tx: &Connection, identity: &str) -> rusqlite::Result<()> {
    tx.execute_batch(
        "INSERT INTO recall_text (recall_text) VALUES ('delete-all');
         DELETE FROM recall_passage; DELETE FROM recall_file; DELETE FROM recall_source; DELETE FROM recall_scope;",
    )?;
    tx.execute(
        "UPDATE recall_state SET epoch = epoch + 1, block = 0, embedder = ?1",
        [identity],
    )?;
    Ok(())
}

/// How many blocks the index has not come to.
fn count_left(tx: &Connection) -> rusqlite::Result<u64> {
    let count: i64 = match State::read(tx)?.block {
        // All of them: SQLite counts the rows of the smallest index and reads no block.
        0 => tx.query_row("SELECT count(*) FROM block", [], |row| row.get(0))?,
        upto => tx.query_row("SELECT count(*) FROM block WHERE key > ?1", [upto], |row| {
            row.get(0)
        })?,
    };
    Ok(count.unsigned_abs())
}

fn count_pending(tx: &Connection) -> rusqlite::Result<u64> {
    let count: i64 = tx.query_row(
        "SELECT count(*) FROM recall_passage WHERE vector IS NULL",
        [],
        |row| row.get(0),
    )?;
    Ok(count.unsigned_abs())
}

/// Passages without a vector.
#[derive(Default)]
struct Pending {
    epoch: i64,
    docs: Vec<i64>,
    /// What is to be embedded of each.
    texts: Vec<String>,
}

/// Some passages without a vector, from a number on.
fn pending(words: &mut Words, tx: &Connection, identity: &str, from: i64) -> Result<Pending, Fault> {
    let state = State::read(tx)?;
    if state.embedder.as_deref() != Some(identity) {
        return Ok(Pending::default());
    }
    let mut statement = tx.prepare_cached(
        "SELECT p.doc, p.seq, p.start, p.length,
                (SELECT conversation FROM recall_source WHERE first <= p.doc ORDER BY first DESC LIMIT 1)
         FROM recall_passage p WHERE p.vector IS NULL AND p.doc >= ?1 ORDER BY p.doc LIMIT ?2",
    )?;
    let mut rows = statement.query(params![from, STEP_VECTORS as i64])?;
    let mut found = Pending {
        epoch: state.epoch,
        ..Pending::default()
    };
    while let Some(row) = rows.next()? {
        let (doc, seq, start, length): (i64, i64, i64, i64) =
            (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        let (start, length) = (start as usize, length as usize);
        let block = reader::own_block(words, tx, row.get(4)?, seq)?;
        let text = block.as_ref().and_then(|block| {
            let entry = remembered(block)?.entry(start..start + length)?;
            Some(entry.embedded().into_owned())
        });
        found.docs.push(doc);
        found.texts.push(text.unwrap_or_default());
    }
    Ok(found)
}

/// Keeps vectors, unless everything was rebuilt since they were asked for.
fn put(tx: &Connection, epoch: i64, vectors: &[(i64, Vec<u8>)]) -> rusqlite::Result<()> {
    if State::read(tx)?.epoch != epoch {
        return Ok(());
    }
    let mut statement =
        tx.prepare_cached("UPDATE recall_passage SET vector = ?2 WHERE doc = ?1 AND vector IS NULL")?;
    for (doc, vector) in vectors {
        statement.execute(params![doc, vector])?;
    }
    Ok(())
}
