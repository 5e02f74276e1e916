//! The log in one SQLite file: write-ahead log, synchronous FULL, one writing thread, readers beside it.
//!
//! Start at [`SqliteLog`]; `schema` has the tables, `row` the form of a block, `writer` the group commit. Nothing
//! here decides anything about turns.

mod conversations;
mod fault;
mod observer;
mod process;
mod reader;
mod recall;
mod row;
mod schema;
mod words;
mod writer;

pub use observer::LogObserver;
pub use recall::{Progress, ReindexError, SqliteRecall};

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use annals_core::block::{BlobDigest, Block};
use annals_core::ids::{ConversationId, Scope, Seq};
use annals_core::time::Timestamp;
use annals_embed::Embedder;
use async_trait::async_trait;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use self::fault::{Database, Fault};
use self::reader::Readers;
use self::writer::{Work, Writer};
use crate::log::{
    BlockLog, ConversationInfo, Cursor, Lease, Listing, LogError, NewConversation, Stale, check_order, expiry,
};

/// How long a commit waits for another process's commit before it gives up.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The write-ahead log moves into the database once it has so many pages: rarely enough that a page which
/// changes often is moved once for many changes.
const CHECKPOINT_PAGES: u32 = 2_000;

/// How to open a log.
pub struct SqliteOptions {
    observers: Vec<Box<dyn LogObserver>>,
    embedder: Option<Arc<dyn Embedder>>,
    lag_max_passages: usize,
    vfs: Option<String>,
    checkpoint_pages: u32,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        SqliteOptions {
            observers: Vec::new(),
            embedder: None,
            lag_max_passages: recall::LAG_MAX_PASSAGES,
            vfs: None,
            checkpoint_pages: CHECKPOINT_PAGES,
        }
    }
}

impl SqliteOptions {
    /// With somebody who follows every change inside its transaction.
    pub fn observer(mut self, observer: Box<dyn LogObserver>) -> Self {
        self.observers.push(observer);
        self
    }

    /// With memory search, whose vectors this embedder makes. Its index follows the log a few blocks behind it; a search
    /// brings it up to the log first. Without it, what is written is added to the index when somebody opens the log with
    /// one.
    pub fn recall(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.embedder = Some(embedder);
        self
    }

    /// Through a file layer registered with SQLite under this name: how tests break disks.
    #[doc(hidden)]
    pub fn vfs(mut self, name: impl Into<String>) -> Self {
        self.vfs = Some(name.into());
        self
    }

    /// Lets the index of memory search be behind the log by less than so many passages.
    #[doc(hidden)]
    pub fn lag_max_passages(mut self, passages: usize) -> Self {
        self.lag_max_passages = passages;
        self
    }

    /// Moves the write-ahead log into the database once it has so many pages.
    #[doc(hidden)]
    pub fn checkpoint_pages(mut self, pages: u32) -> Self {
        self.checkpoint_pages = pages;
        self
    }
}

/// A block log in one SQLite file.
///
/// Several processes may open the same file; each conversation has one writer at a time among all of them.
/// Dropping the log finishes what was asked of it.
#[derive(Debug)]
pub struct SqliteLog {
    writer: Arc<Writer>,
    readers: Arc<Readers>,
    recall: Option<SqliteRecall>,
}

impl SqliteLog {
    /// Opens the log at `path`, making it and its folders if they are missing.
    ///
    /// Blocks for a few syncs when the file is new.
    pub fn open(path: impl AsRef<Path>, mut options: SqliteOptions) -> Result<Self, LogError> {
        let path = path.as_ref();
        let database = Database::new(path);
        let storage = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::StorageFull => LogError::DiskFull {
                log: database.name().to_owned(),
            },
            std::io::ErrorKind::ReadOnlyFilesystem | std::io::ErrorKind::PermissionDenied => {
                LogError::ReadOnly {
                    log: database.name().to_owned(),
                }
            }
            _ => LogError::Storage {
                log: database.name().to_owned(),
                detail: error.to_string(),
            },
        };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            crate::disk::make_folders(folder).map_err(storage)?;
        }
        let fault = |error| database.error(error);
        let mut connection = connect(path, options.vfs.as_deref()).map_err(fault)?;
        schema::prepare(&mut connection, &database)?;
        // Until the first commit of the writer, which sets what each commit needs.
        connection
            .pragma_update(None, "synchronous", "FULL")
            .map_err(fault)?;
        connection
            .pragma_update(None, "wal_autocheckpoint", options.checkpoint_pages)
            .map_err(fault)?;
        let mut observers = std::mem::take(&mut options.observers);
        observers.push(Box::new(recall::Removal));
        if let Some(embedder) = &options.embedder {
            let indexer = recall::Indexer::new(Arc::clone(embedder));
            observers.push(Box::new(indexer.lag_max_passages(options.lag_max_passages)));
        }
        let tx = connection.transaction().map_err(fault)?;
        observers
            .iter_mut()
            .try_for_each(|observer| observer.prepare(&tx))
            .map_err(fault)?;
        tx.commit().map_err(fault)?;
        // SQLite syncs the folder for its write-ahead log; this holds also when that file was there before.
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            crate::disk::sync_folder(folder).map_err(storage)?;
        }
        let readers = Arc::new(Readers::new(path, &options, database.clone()));
        let writer = Arc::new(Writer::start(connection, database.clone(), observers).map_err(storage)?);
        let recall = options
            .embedder
            .map(|embedder| SqliteRecall::new(Arc::clone(&writer), Arc::clone(&readers), embedder));
        Ok(SqliteLog {
            writer,
            readers,
            recall,
        })
    }

    /// Memory search over this log, if it was opened with it.
    pub fn recall(&self) -> Option<&SqliteRecall> {
        self.recall.as_ref()
    }
}

/// A connection with what both sides need.
fn connect(path: &Path, vfs: Option<&str>) -> rusqlite::Result<Connection> {
    // Not shared between threads at once, so SQLite need not lock for it.
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs)?,
        None => Connection::open_with_flags(path, flags)?,
    };
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(64);
    // A statement keeps its plan. Otherwise SQLite plans anew at every binding, in the hope of a better one.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // The references in the schema are for readers of it; every insert would pay for checking them.
    connection.pragma_update(None, "foreign_keys", false)?;
    // In KiB when negative.
    connection.pragma_update(None, "cache_size", -8_192)?;
    Ok(connection)
}

#[async_trait]
impl BlockLog for SqliteLog {
    async fn create(&self, new: NewConversation) -> Result<(), LogError> {
        self.writer
            .write(move |work| conversations::insert(work.tx, &new, None).map(drop))
            .await
    }

    async fn get(&self, id: &ConversationId) -> Result<ConversationInfo, LogError> {
        let id = id.clone();
        self.readers
            .read(move |_, tx, database| conversations::info(tx, database, &id))
            .await
    }

    async fn list(&self, scope: &Scope, cursor: Option<Cursor>, limit: usize) -> Result<Listing, LogError> {
        let scope = scope.clone();
        self.readers
            .read(move |_, tx, database| conversations::list(tx, database, &scope, cursor, limit))
            .await
    }

    async fn acquire(
        &self,
        id: &ConversationId,
        holder: &str,
        now: Timestamp,
        ttl: Duration,
    ) -> Result<Lease, LogError> {
        let (id, holder) = (id.clone(), holder.to_owned());
        self.writer
            .write(move |work| conversations::acquire(work.tx, &id, &holder, now, ttl))
            .await
    }

    async fn renew(&self, lease: &Lease, now: Timestamp) -> Result<(), LogError> {
        let lease = lease.clone();
        self.writer
            .write(move |work| {
                let (place, _) = conversations::held(work.tx, &lease)?;
                Ok(conversations::keep(work.tx, place.key, expiry(now, lease.ttl))?)
            })
            .await
    }

    async fn release(&self, lease: &Lease) -> Result<(), LogError> {
        let lease = lease.clone();
        self.writer
            .write(move |work| match conversations::held(work.tx, &lease) {
                Ok((place, _)) => Ok(conversations::free(work.tx, place.key)?),
                Err(Fault::Refused(LogError::Conflict { .. })) => Ok(()),
                Err(fault) => Err(fault),
            })
            .await
    }

    async fn append(
        &self,
        lease: &Lease,
        expected_tail: Option<Seq>,
        blocks: Vec<Block>,
    ) -> Result<Seq, LogError> {
        let lease = lease.clone();
        self.writer
            .write(move |work| append(work, &lease, expected_tail, &blocks))
            .await
    }

    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Vec<Block>, LogError> {
        let id = id.clone();
        self.readers
            .read(move |words, tx, database| reader::blocks(words, tx, database, &id, from, limit))
            .await
    }

    async fn fork(&self, parent: &ConversationId, at: Seq, new: NewConversation) -> Result<(), LogError> {
        let parent = parent.clone();
        self.writer
            .write(move |work| {
                let place = conversations::find(work.tx, &parent)?;
                let tail = conversations::tail(work.tx, place)?;
                if tail.is_none_or(|tail| tail < at) {
                    return Err(LogError::NoSuchBlock {
                        id: parent.clone(),
                        at,
                        tail,
                    }
                    .into());
                }
                let owner = conversations::owner(work.tx, place, at)?;
                conversations::insert(work.tx, &new, Some((owner, at)))?;
                for observer in work.observers.iter_mut() {
                    observer.forked(work.tx, &parent, &new.id)?;
                }
                Ok(())
            })
            .await
    }

    async fn delete(&self, lease: &Lease) -> Result<(), LogError> {
        let lease = lease.clone();
        self.writer
            .write(move |work| {
                let (place, _) = conversations::held(work.tx, &lease)?;
                for observer in work.observers.iter_mut() {
                    observer.deleted(work.tx, lease.conversation())?;
                }
                let Work { tx, observers, .. } = work;
                Ok(conversations::delete(tx, place, |key, above| {
                    observers
                        .iter_mut()
                        .try_for_each(|observer| observer.removed(tx, key, above))
                })?)
            })
            .await
    }

    async fn named_blobs(&self) -> Result<Vec<BlobDigest>, LogError> {
        self.readers.read(|_, tx, _| reader::named(tx)).await
    }
}

fn append(work: &mut Work<'_>, lease: &Lease, expected: Option<Seq>, blocks: &[Block]) -> Result<Seq, Fault> {
    let id = lease.conversation();
    let (place, until) = conversations::held(work.tx, lease)?;
    let actual = conversations::tail(work.tx, place)?;
    if actual != expected {
        return Err(LogError::Conflict {
            id: id.clone(),
            stale: Stale::Tail { expected, actual },
        }
        .into());
    }
    let last = check_order(id, actual, blocks)?;
    // Everything is checked: from here on only the storage can fail.
    for block in blocks {
        row::insert(work.tx, work.words, place.key, block)?;
    }
    for observer in work.observers.iter_mut() {
        observer.appended(work.tx, id, blocks)?;
    }
    let renewed = expiry(last.ts, lease.ttl);
    if until.is_some_and(|until| is_worth_renewing(until, renewed, lease.ttl)) {
        conversations::keep(work.tx, place.key, renewed)?;
    }
    Ok(last.seq)
}

/// A quarter of its time is left to a lease before an append spends a page on renewing it.
fn is_worth_renewing(until: Timestamp, renewed: Timestamp, ttl: Duration) -> bool {
    let gained_micros = renewed.unix_micros().saturating_sub(until.unix_micros());
    u128::from(gained_micros.max(0).unsigned_abs()) * 4 >= ttl.as_micros()
}
