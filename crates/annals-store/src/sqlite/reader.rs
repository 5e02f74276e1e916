//! Reading: connections of their own, so that no reader waits for the writer or makes it wait.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use annals_core::block::{BlobDigest, Block};
use annals_core::ids::{ConversationKey, Seq};
use rusqlite::{Connection, params};
use tokio::sync::Semaphore;

use super::conversations::{self, Place};
use super::fault::{Database, Fault};
use super::row::{COLUMNS, RowReader};
use super::words::Words;
use super::{SqliteOptions, connect};
use crate::log::{LogError, named_in_post};

/// At most this many read at once, each on a connection of its own; more would wait for the same disk,
/// and a thousand conversations opened together must not make a thousand connections. All are kept when nobody reads: to
/// open one takes longer than most reads.
const READERS_MAX: usize = 8;

/// Pages that a reader keeps; the system keeps them all.
const READER_CACHE_KIB: i32 = 4_096;

/// Connections that only read.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    vfs: Option<String>,
    database: Database,
    /// Taken out for a read and put back after it; held only for a push or a pop.
    idle: Mutex<Vec<Reader>>,
    turns: Semaphore,
}

/// One connection and the words it has met.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) connection: Connection,
    pub(super) words: Words,
}

impl Readers {
    pub(super) fn new(path: &Path, options: &SqliteOptions, database: Database) -> Self {
        Readers {
            path: path.to_owned(),
            vfs: options.vfs.clone(),
            database,
            idle: Mutex::default(),
            turns: Semaphore::new(READERS_MAX),
        }
    }

    /// Runs `work` on a thread that may block, over one consistent state of the database.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut Words, &Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, LogError> {
        let _turn = self.turns.acquire().await.map_err(|_| LogError::Closed)?;
        let readers = Arc::clone(self);
        let task = tokio::task::spawn_blocking(move || readers.read_blocking(work));
        match task.await {
            Ok(outcome) => outcome,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(LogError::Closed),
        }
    }

    fn read_blocking<T>(
        &self,
        work: impl FnOnce(&mut Words, &Connection) -> Result<T, Fault>,
    ) -> Result<T, LogError> {
        let fault = |error| self.database.error(error);
        let idle = self.lock().pop();
        let mut reader = match idle {
            Some(reader) => reader,
            None => self.open().map_err(fault)?,
        };
        let tx = reader.connection.transaction().map_err(fault)?;
        let outcome = work(&mut reader.words, &tx);
        // Nothing was written, so there is nothing to lose if this fails.
        let ended = tx.rollback();
        let mut idle = self.lock();
        if ended.is_ok() {
            idle.push(reader);
        }
        outcome.map_err(|fault| fault.into_log(&self.database))
    }

    fn open(&self) -> rusqlite::Result<Reader> {
        let connection = connect(&self.path, self.vfs.as_deref())?;
        connection.pragma_update(None, "query_only", true)?;
        // In KiB when negative.
        connection.pragma_update(None, "cache_size", -READER_CACHE_KIB)?;
        Ok(Reader {
            connection,
            words: Words::default(),
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Reader>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Blocks `from..=to` of a conversation, its own and those it shares.
pub(super) fn blocks(
    words: &mut Words,
    tx: &Connection,
    key: &ConversationKey,
    from: Seq,
    limit: usize,
) -> Result<Vec<Block>, Fault> {
    let place = conversations::find(tx, key)?;
    let Some(tail) = conversations::tail(tx, place)? else {
        return Ok(Vec::new());
    };
    let to = from
        .get()
        .saturating_add(limit as u64)
        .saturating_sub(1)
        .min(tail.get());
    let mut found = Vec::with_capacity((to + 1).saturating_sub(from.get()) as usize);
    let mut reader = RowReader::new(tx, words);
    for (strand, from, to) in strands(tx, place, from.get(), to)? {
        let mut statement = tx.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM block WHERE conversation = ?1 AND seq BETWEEN ?2 AND ?3 ORDER BY seq"
        ))?;
        let mut rows = statement.query(params![strand, from as i64, to as i64])?;
        let mut expected = from;
        while let Some(row) = rows.next()? {
            let block = reader.block(row).map_err(|fault| match fault {
                Fault::Damaged(what) => Fault::Damaged(format!("conversation `{}`: {what}", key.id)),
                fault => fault,
            })?;
            if block.seq.get() != expected {
                break;
            }
            expected += 1;
            found.push(block);
        }
        if expected != to + 1 {
            let id = &key.id;
            return Err(Fault::Damaged(format!(
                "conversation `{id}`: block {expected} is missing"
            )));
        }
    }
    Ok(found)
}

/// Which conversation has which of the blocks `from..=to`, in order.
pub(super) fn strands(
    tx: &Connection,
    place: Place,
    from: u64,
    to: u64,
) -> Result<Vec<(i64, u64, u64)>, Fault> {
    let mut strands = Vec::new();
    let (mut place, mut to) = (place, to);
    while from <= to {
        if to > place.cut {
            strands.push((place.key, from.max(place.cut + 1), to));
        }
        to = to.min(place.cut);
        match place.base {
            Some(base) if from <= to => place = conversations::by_key(tx, base)?,
            _ => break,
        }
    }
    strands.reverse();
    Ok(strands)
}

/// One block of a conversation's own, by its key; none if it is not there or damaged.
pub(super) fn own_block(
    words: &mut Words,
    tx: &Connection,
    conversation: i64,
    seq: i64,
) -> rusqlite::Result<Option<Block>> {
    let mut statement = tx.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM block WHERE conversation = ?1 AND seq = ?2"
    ))?;
    let mut rows = statement.query([conversation, seq])?;
    match rows.next()? {
        Some(row) => readable(RowReader::new(tx, words).block(row)),
        None => Ok(None),
    }
}

/// Tells `seen` the blocks of a conversation's own, by its key, after one place and up to another, that `which` picks: a
/// condition on columns that are not long, so that other blocks' texts are not read. A damaged block is left out; the log
/// says so to the reader. Stops when told `false`.
pub(super) fn own_blocks(
    words: &mut Words,
    tx: &Connection,
    conversation: i64,
    (after, to): (i64, i64),
    which: &str,
    mut seen: impl FnMut(Block) -> rusqlite::Result<bool>,
) -> rusqlite::Result<()> {
    let mut statement = tx.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM block WHERE conversation = ?1 AND seq > ?2 AND seq <= ?3 AND {which} ORDER BY seq"
    ))?;
    let mut reader = RowReader::new(tx, words);
    let mut rows = statement.query([conversation, after, to])?;
    while let Some(row) = rows.next()? {
        if let Some(block) = readable(reader.block(row))?
            && !seen(block)?
        {
            break;
        }
    }
    Ok(())
}

fn readable(block: Result<Block, Fault>) -> rusqlite::Result<Option<Block>> {
    match block {
        Ok(block) => Ok(Some(block)),
        Err(Fault::Storage(error)) => Err(error),
        Err(Fault::Damaged(_) | Fault::Refused(_)) => Ok(None),
    }
}

/// Digests that blocks name, in order, after one.
pub(super) fn named(
    tx: &Connection,
    after: Option<BlobDigest>,
    limit: usize,
) -> Result<Vec<BlobDigest>, Fault> {
    let mut statement =
        tx.prepare_cached("SELECT DISTINCT digest FROM named WHERE digest > ?1 ORDER BY digest LIMIT ?2")?;
    // No digest is shorter than the empty one, so that all of them come after it.
    let after = after.map_or_else(Vec::new, |after| after.0.to_vec());
    let most = limit;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let digests = statement.query_map(params![after, limit], |row| {
        row.get::<_, [u8; 32]>(0).map(BlobDigest)
    })?;
    let mut all = digests.collect::<Result<BTreeSet<BlobDigest>, _>>()?;
    let mut statement = tx.prepare_cached("SELECT body FROM inbox WHERE body IS NOT NULL")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let waiting = named_in_post(row.get_ref(0)?.as_blob().unwrap_or_default());
        all.extend(waiting.into_iter().filter(|digest| digest.0[..] > after[..]));
    }
    Ok(all.into_iter().take(most).collect())
}
