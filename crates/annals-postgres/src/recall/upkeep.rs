//! The index brought up to the log, its missing vectors made, or all of it rebuilt.
//!
//! Everything is done in small transactions between those of others, and each leaves a whole index that merely ends
//! earlier: it may be stopped at any moment and goes on where it was. A rebuild begins an epoch; what is of an older one
//! counts for nothing, and goes when its conversation is taken in again. So several nodes may be at it at once.

use std::sync::Arc;

use annals_store::LogError;
use annals_store::recall::remembered::remembered;
use annals_store::recall::{Progress, ReindexError};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::index::Locked;
use super::search::{TEXT, TEXT_AT, block_columns};
use super::{PostgresRecall, State, forget};
use crate::fault::Fault;
use crate::pool::attempt;
use crate::row::RowReader;

/// One request asks for this many vectors.
const STEP_VECTORS: i64 = 64;
/// Conversations that are looked up at once.
const STEP_CONVERSATIONS: i64 = 64;

/// Conversations with what is missing of each: `$1` is the last one that was looked at.
macro_rules! behind {
    () => {
        "(SELECT c.key, coalesce(s.upto, c.cut) AS upto, coalesce(CASE WHEN c.id IS NULL
              THEN (SELECT max(b.seq) FROM annals.block b WHERE b.conversation = c.key)
              ELSE (SELECT h.tail FROM annals.head h WHERE h.conversation = c.key) END, c.cut) AS tail
          FROM annals.conversation c LEFT JOIN annals.recall_source s ON s.conversation = c.key
              AND s.epoch = (SELECT epoch FROM annals.recall_state) WHERE c.key > $1) behind"
    };
}

impl PostgresRecall {
    pub(super) async fn rebuild(
        &self,
        seen: &mut (dyn FnMut(Progress) -> bool + Send),
    ) -> Result<Progress, ReindexError> {
        let identity = self.embedder.identity();
        let begun: Result<(), LogError> =
            attempt!(self.pool, |client, attempts| begin_epoch(client, identity));
        begun?;
        self.complete(seen).await
    }

    pub(super) async fn complete(
        &self,
        seen: &mut (dyn FnMut(Progress) -> bool + Send),
    ) -> Result<Progress, ReindexError> {
        let swept: Result<(), LogError> = attempt!(self.pool, |client, attempts| sweep(client));
        swept?;
        let left: Result<u64, LogError> = attempt!(self.pool, |client, attempts| count_left(client));
        let mut progress = Progress {
            of_blocks: left?,
            ..Progress::default()
        };
        // First whatever nobody else is at, then the rest.
        for locked in [Locked::Skip, Locked::Wait] {
            let mut after = 0;
            loop {
                let page: Result<Vec<i64>, LogError> =
                    attempt!(self.pool, |client, attempts| behind(client, after));
                let mut keys = page?;
                let Some(last) = keys.last() else { break };
                after = *last;
                while !keys.is_empty() {
                    let step = self.step(&keys, locked).await?;
                    progress.blocks += step.blocks;
                    // More may have been written meanwhile.
                    progress.of_blocks = progress.of_blocks.max(progress.blocks);
                    if !seen(progress) {
                        return Ok(progress);
                    }
                    keys = step.left;
                }
            }
        }
        self.fill(&mut progress, seen).await?;
        Ok(progress)
    }

    /// Makes missing vectors without anybody waiting for them.
    pub(super) fn fill_in_background(&self) {
        let recall = self.clone();
        tokio::spawn(async move {
            // Whoever is at it already does this too. What fails is tried again by the next search.
            if let Ok(_filling) = Arc::clone(&recall.filling).try_lock_owned() {
                let _ = recall.fill(&mut Progress::default(), &mut |_| true).await;
            }
        });
    }

    async fn fill(
        &self,
        progress: &mut Progress,
        seen: &mut (dyn FnMut(Progress) -> bool + Send),
    ) -> Result<(), ReindexError> {
        let identity = self.embedder.identity();
        let pending: Result<u64, LogError> = attempt!(self.pool, |client, attempts| count_pending(client));
        progress.of_vectors = pending?;
        if !seen(*progress) {
            return Ok(());
        }
        let mut after = (0, -1);
        loop {
            let batch: Result<Pending, LogError> = attempt!(self.pool, |client, attempts| pending_after(
                client, identity, after
            ));
            let batch = batch?;
            let Some(last) = batch.docs.last() else {
                return Ok(());
            };
            after = *last;
            let vectors = self.embedder.embed(&batch.texts).await?;
            let bytes: Vec<Vec<u8>> = vectors.iter().map(|vector| vector.to_bytes()).collect();
            progress.vectors += bytes.len() as u64;
            let kept: Result<(), LogError> =
                attempt!(self.pool, |client, attempts| put(client, &batch, &bytes));
            kept?;
            if !seen(*progress) {
                return Ok(());
            }
        }
    }
}

/// From here on everything is rebuilt, with vectors of this embedder.
async fn begin_epoch(client: &Client, identity: &str) -> Result<(), Fault> {
    client
        .query_typed(
            "UPDATE annals.recall_state SET epoch = epoch + 1, embedder = $1",
            &[(&identity, Type::TEXT)],
        )
        .await?;
    Ok(())
}

/// Takes out what a program that did not know the index has deleted.
async fn sweep(client: &mut Client) -> Result<(), Fault> {
    let tx = client.transaction().await?;
    let rows = tx
        .query_typed(
            "SELECT s.conversation FROM annals.recall_source s WHERE NOT EXISTS
                 (SELECT FROM annals.conversation c WHERE c.key = s.conversation)
             ORDER BY s.conversation FOR UPDATE SKIP LOCKED",
            &[],
        )
        .await?;
    for row in &rows {
        forget(&tx, row.get(0), 0).await?;
    }
    Ok(tx.commit().await?)
}

/// How many blocks the index has not come to.
async fn count_left(client: &Client) -> Result<u64, Fault> {
    let row = client
        .query_typed_one(
            concat!(
                "SELECT coalesce(sum(tail - upto), 0)::int8 FROM ",
                behind!(),
                " WHERE tail > upto"
            ),
            &[(&0_i64, Type::INT8)],
        )
        .await?;
    Ok(row.get::<_, i64>(0).unsigned_abs())
}

/// Some conversations that the index has not come to the end of.
async fn behind(client: &Client, after: i64) -> Result<Vec<i64>, Fault> {
    let rows = client
        .query_typed(
            concat!(
                "SELECT key FROM ",
                behind!(),
                " WHERE tail > upto ORDER BY key LIMIT $2"
            ),
            &[(&after, Type::INT8), (&STEP_CONVERSATIONS, Type::INT8)],
        )
        .await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

async fn count_pending(client: &Client) -> Result<u64, Fault> {
    let row = client
        .query_typed_one(
            "SELECT count(*) FROM annals.recall_passage WHERE vector IS NULL",
            &[],
        )
        .await?;
    Ok(row.get::<_, i64>(0).unsigned_abs())
}

/// Passages without a vector.
#[derive(Default)]
struct Pending {
    epoch: i64,
    docs: Vec<(i64, i32)>,
    /// What is to be embedded of each.
    texts: Vec<String>,
}

/// Some passages without a vector, after one.
async fn pending_after(client: &mut Client, identity: &str, after: (i64, i32)) -> Result<Pending, Fault> {
    let tx = client.transaction().await?;
    let state = State::read(&tx).await?;
    if state.embedder.as_deref() != Some(identity) {
        return Ok(Pending::default());
    }
    let statement = format!(
        "SELECT {}, {TEXT} FROM annals.recall_passage p
         JOIN annals.recall_source s ON s.conversation = p.conversation AND s.epoch = $1
         JOIN annals.block b ON b.conversation = p.conversation AND b.seq = p.seq
         WHERE p.vector IS NULL AND (p.conversation, p.place) > ($2, $3)
         ORDER BY p.conversation, p.place LIMIT $4",
        block_columns()
    );
    let rows = tx
        .query_typed(
            &statement,
            &[
                (&state.epoch, Type::INT8),
                (&after.0, Type::INT8),
                (&after.1, Type::INT4),
                (&STEP_VECTORS, Type::INT8),
            ],
        )
        .await?;
    let mut found = Pending {
        epoch: state.epoch,
        ..Pending::default()
    };
    let mut reader = RowReader::default();
    for row in &rows {
        let number = |column: usize| row.try_get::<_, i32>(column);
        let start = number(TEXT_AT + 1)?.unsigned_abs() as usize;
        let length = number(TEXT_AT + 2)?.unsigned_abs() as usize;
        let block = reader.block(row)?;
        let entry = remembered(&block).and_then(|found| found.entry(start..start + length));
        found.docs.push((row.try_get(0)?, number(TEXT_AT)?));
        found.texts.push(
            entry
                .map(|entry| entry.embedded().into_owned())
                .unwrap_or_default(),
        );
    }
    tx.commit().await?;
    Ok(found)
}

/// Keeps vectors, unless everything was rebuilt since they were asked for.
async fn put(client: &Client, batch: &Pending, vectors: &[Vec<u8>]) -> Result<(), Fault> {
    let (keys, places): (Vec<i64>, Vec<i32>) = batch.docs.iter().copied().unzip();
    client
        .query_typed(
            "UPDATE annals.recall_passage p SET vector = u.vector
             FROM unnest($1::int8[], $2::int4[], $3::bytea[]) u (key, place, vector)
             WHERE p.conversation = u.key AND p.place = u.place AND p.vector IS NULL
                 AND (SELECT epoch FROM annals.recall_state) = $4",
            &[
                (&keys, Type::INT8_ARRAY),
                (&places, Type::INT4_ARRAY),
                (&vectors, Type::BYTEA_ARRAY),
                (&batch.epoch, Type::INT8),
            ],
        )
        .await?;
    Ok(())
}
