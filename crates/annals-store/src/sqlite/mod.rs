//! The log in one SQLite file: write-ahead log, synchronous FULL, one writing thread, readers beside it.
//!
//! Start at [`SqliteLog`]; `schema` has the tables, `row` the form of a block, `head` leases and appends, `writer` the
//! group commit, `poll` how growth by other processes is noticed. Nothing here decides anything about turns.

mod answers;
mod asking;
mod checksum;
mod conversations;
mod fault;
mod head;
mod inbox;
mod members;
mod observer;
mod place;
mod poll;
mod process;
mod reader;
mod recall;
mod row;
mod schema;
mod tokens;
mod words;
mod writer;

pub use recall::SqliteRecall;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use annals_core::block::{BlobDigest, Block};
use annals_core::ids::{ConversationKey, NodeId, Scope, Seq};
use annals_core::time::Timestamp;
use annals_embed::Embedder;
use async_trait::async_trait;
use futures::stream::BoxStream;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use self::fault::{Database, Fault};
use self::observer::LogObserver;
use self::place::Place;
use self::poll::Poll;
use self::reader::Readers;
use self::writer::{Work, Writer};
use crate::clock::{Clock, SystemClock};
use crate::log::{
    Answers, Append, AskingPage, BlockLog, Claimed, Claims, ConversationInfo, Cursor, Followers,
    IdempotencyKey, Inbox, InboxId, Lease, Listing, LogError, Mark, Member, Members, NewConversation, Owner,
    Pending, Post, Posted, StoredAnswer, Tails, Taken, Token, TokenHash, Tokens, expiry,
};

/// How long a commit waits for another process's commit before it gives up.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The write-ahead log moves into the database once it has this many pages: rarely enough that a page which
/// changes often is moved once for many changes.
const CHECKPOINT_PAGES: u32 = 2_000;

/// How to open a log.
pub struct SqliteOptions {
    clock: Arc<dyn Clock>,
    embedder: Option<Arc<dyn Embedder>>,
    lag_max_passages: usize,
    vfs: Option<String>,
    checkpoint_pages: u32,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        SqliteOptions {
            clock: Arc::new(SystemClock),
            embedder: None,
            lag_max_passages: recall::LAG_MAX_PASSAGES,
            vfs: None,
            checkpoint_pages: CHECKPOINT_PAGES,
        }
    }
}

impl SqliteOptions {
    /// With leases that live by this clock.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
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

    /// Lets the index of memory search be behind the log by less than this many passages.
    #[doc(hidden)]
    pub fn lag_max_passages(mut self, passages: usize) -> Self {
        self.lag_max_passages = passages;
        self
    }

    /// Moves the write-ahead log into the database once it has this many pages.
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
pub struct SqliteLog {
    writer: Arc<Writer>,
    readers: Arc<Readers>,
    recall: Option<SqliteRecall>,
    followers: Arc<Followers>,
    poll: Poll,
    clock: Arc<dyn Clock>,
    /// What is read instead of a file that may not be written; after everything that has it open.
    _copy: Option<tempfile::TempDir>,
}

impl std::fmt::Debug for SqliteLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteLog")
            .field("readers", &self.readers)
            .finish_non_exhaustive()
    }
}

impl SqliteLog {
    /// Opens the log at `path`, making it and its folders if they are missing.
    ///
    /// Blocks for a few syncs when the file is new. Where nothing may be written, a copy is read: the log is as it was
    /// then, and every change fails with [`LogError::ReadOnly`].
    pub fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self, LogError> {
        let path = path.as_ref();
        let database = Database::new(path);
        let failed = |error: std::io::Error| database.file_error(&error);
        match options.vfs {
            Some(_) => Self::open_at(path, database.clone(), options, None),
            None => match place::prepare(path).map_err(failed)? {
                Place::Writable => Self::open_at(path, database.clone(), options, None),
                Place::Copied(copy) => {
                    let beside = copy.path().join("annals.db");
                    Self::open_at(&beside, database.clone(), options, Some(copy))
                }
            },
        }
    }

    fn open_at(
        path: &Path,
        database: Database,
        options: SqliteOptions,
        copy: Option<tempfile::TempDir>,
    ) -> Result<Self, LogError> {
        let mut connection = open_connection(path, &database, &options)?;
        let observers =
            prepare_observers(&mut connection, &options).map_err(|error| database.error(error))?;
        // SQLite syncs the folder for its write-ahead log; this holds also when that file was there before.
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            crate::disk::sync_folder(folder).map_err(|error| database.file_error(&error))?;
        }
        let readers = Arc::new(Readers::new(path, &options, database.clone()));
        let writer = Writer::start(connection, database.clone(), observers, copy.is_some());
        let writer = Arc::new(writer.map_err(|error| database.file_error(&error))?);
        let recall = options
            .embedder
            .map(|embedder| SqliteRecall::new(Arc::clone(&writer), Arc::clone(&readers), embedder));
        let followers = Arc::<Followers>::default();
        let poll = Poll::new(path, options.vfs, Arc::clone(&followers), writer.asker());
        Ok(SqliteLog {
            writer,
            readers,
            recall,
            followers,
            poll,
            clock: options.clock,
            _copy: copy,
        })
    }

    /// Memory search over this log, if it was opened with it.
    pub fn recall(&self) -> Option<&SqliteRecall> {
        self.recall.as_ref()
    }

    /// Reads a conversation's mark when it is polled.
    fn mark(&self, key: &ConversationKey) -> impl Future<Output = Result<Mark, LogError>> + Send + 'static {
        let (readers, key) = (Arc::clone(&self.readers), key.clone());
        async move { readers.read(move |_, tx| poll::mark(tx, &key)).await }
    }
}

/// The writer's connection, with the newest schema.
fn open_connection(
    path: &Path,
    database: &Database,
    options: &SqliteOptions,
) -> Result<Connection, LogError> {
    let fault = |error| database.error(error);
    let mut connection = connect(path, options.vfs.as_deref()).map_err(fault)?;
    schema::prepare(&mut connection, database)?;
    // Until the first commit of the writer, which sets what each commit needs.
    connection
        .pragma_update(None, "synchronous", "FULL")
        .map_err(fault)?;
    connection
        .pragma_update(None, "wal_autocheckpoint", options.checkpoint_pages)
        .map_err(fault)?;
    Ok(connection)
}

fn prepare_observers(
    connection: &mut Connection,
    options: &SqliteOptions,
) -> rusqlite::Result<Vec<Box<dyn LogObserver>>> {
    let mut observers: Vec<Box<dyn LogObserver>> = vec![Box::new(recall::Removal)];
    if let Some(embedder) = &options.embedder {
        let indexer = recall::Indexer::new(Arc::clone(embedder));
        observers.push(Box::new(indexer.lag_max_passages(options.lag_max_passages)));
    }
    let tx = connection.transaction()?;
    observers
        .iter_mut()
        .try_for_each(|observer| observer.prepare(&tx))?;
    tx.commit()?;
    Ok(observers)
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
        let now = self.clock.now();
        self.writer
            .write(move |work| insert(work.tx, &new, None, now))
            .await
    }

    async fn get(&self, key: &ConversationKey) -> Result<ConversationInfo, LogError> {
        let key = key.clone();
        self.readers
            .read(move |_, tx| conversations::info(tx, &key))
            .await
    }

    async fn list(&self, scope: &Scope, cursor: Option<Cursor>, limit: usize) -> Result<Listing, LogError> {
        let scope = scope.clone();
        let before = cursor.map(|cursor| cursor.number()).transpose()?;
        self.readers
            .read(move |_, tx| conversations::list(tx, &scope, before, limit))
            .await
    }

    async fn asking(
        &self,
        scope: &Scope,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<AskingPage, LogError> {
        let (scope, after) = (scope.clone(), cursor.map(|cursor| cursor.number()).transpose()?);
        self.readers
            .read(move |_, tx| asking::list(tx, &scope, after.unwrap_or(0), limit))
            .await
    }

    async fn acquire(&self, key: &ConversationKey, owner: &Owner, ttl: Duration) -> Result<Lease, LogError> {
        let (key, owner, now) = (key.clone(), owner.clone(), self.clock.now());
        self.writer
            .write(move |work| head::acquire(work.tx, &key, &owner, ttl, now))
            .await
    }

    async fn renew(&self, lease: &Lease) -> Result<(), LogError> {
        let (lease, until) = (lease.clone(), expiry(self.clock.now(), lease.ttl()));
        self.writer
            .write(move |work| {
                let (place, _) = head::held(work.tx, &lease)?;
                Ok(head::keep(work.tx, place.key, until)?)
            })
            .await
    }

    async fn release(&self, lease: &Lease) -> Result<(), LogError> {
        let lease = lease.clone();
        self.writer
            .write(move |work| match head::held(work.tx, &lease) {
                Ok((place, _)) => Ok(head::free(work.tx, place.key)?),
                Err(Fault::Refused(LogError::Conflict { .. })) => Ok(()),
                Err(fault) => Err(fault),
            })
            .await
    }

    async fn append(&self, lease: &Lease, append: Append) -> Result<Option<Seq>, LogError> {
        let (held, now) = (lease.clone(), self.clock.now());
        let tail = self
            .writer
            .write(move |work| head::append(work, &held, &append, now))
            .await?;
        self.followers.advance(lease.key(), Mark { tail, posted: None });
        Ok(tail)
    }

    async fn read(&self, key: &ConversationKey, from: Seq, limit: usize) -> Result<Vec<Block>, LogError> {
        let key = key.clone();
        self.readers
            .read(move |words, tx| reader::blocks(words, tx, &key, from, limit))
            .await
    }

    async fn fork(&self, parent: &ConversationKey, at: Seq, new: NewConversation) -> Result<(), LogError> {
        let (parent, now) = (parent.clone(), self.clock.now());
        self.writer
            .write(move |work| fork(work.tx, &parent, at, &new, now))
            .await
    }

    async fn delete(&self, lease: &Lease) -> Result<(), LogError> {
        let held = lease.clone();
        self.writer
            .write(move |work| {
                let (place, _) = head::held(work.tx, &held)?;
                let Work { tx, observers, .. } = work;
                conversations::delete(tx, place, |key, above| {
                    observers
                        .iter_mut()
                        .try_for_each(|observer| observer.removed(tx, key, above))
                })
            })
            .await?;
        self.followers.end(lease.key());
        Ok(())
    }

    async fn named_blobs(
        &self,
        after: Option<BlobDigest>,
        limit: usize,
    ) -> Result<Vec<BlobDigest>, LogError> {
        self.readers
            .read(move |_, tx| reader::named(tx, after, limit))
            .await
    }

    async fn check_writes(&self) -> Result<(), LogError> {
        // A row that is set to what it is would not be written; the header of the file is.
        self.writer
            .write(|work| {
                let version: i64 = work
                    .tx
                    .pragma_query_value(None, "user_version", |row| row.get(0))?;
                work.tx.pragma_update(None, "user_version", version)?;
                Ok(())
            })
            .await
    }
}

/// Makes a conversation and keeps the answer that says so.
fn insert(
    tx: &Connection,
    new: &NewConversation,
    base: Option<(i64, Seq)>,
    now: Timestamp,
) -> Result<(), Fault> {
    answers::check(tx, new.answer.as_ref(), now)?;
    let key = conversations::insert(tx, new, base)?;
    if base.is_some() {
        asking::note(tx, conversations::by_key(tx, key)?)?;
    }
    Ok(answers::keep(tx, new.answer.as_ref(), now)?)
}

fn fork(
    tx: &Connection,
    parent: &ConversationKey,
    at: Seq,
    new: &NewConversation,
    now: Timestamp,
) -> Result<(), Fault> {
    if parent.scope != new.key.scope {
        let id = parent.id.clone();
        return Err(LogError::NotFound { id }.into());
    }
    let place = conversations::find(tx, parent)?;
    let tail = conversations::tail(tx, place)?;
    if tail.is_none_or(|tail| tail < at) {
        return Err(LogError::NoSuchBlock {
            id: parent.id.clone(),
            at,
            tail,
        }
        .into());
    }
    let owner = conversations::owner(tx, place, at)?;
    insert(tx, new, Some((owner, at)), now)
}

/// Takes the right to write, and reads what the owner begins with.
fn take(
    tx: &Connection,
    key: &ConversationKey,
    owner: &Owner,
    ttl: Duration,
    now: Timestamp,
) -> Result<Taken, Fault> {
    let lease = head::acquire(tx, key, owner, ttl, now)?;
    Ok(Taken {
        info: conversations::info(tx, key)?,
        pending: inbox::pending(tx, key)?,
        lease,
    })
}

#[async_trait]
impl Inbox for SqliteLog {
    async fn post(&self, key: &ConversationKey, post: Post) -> Result<Posted, LogError> {
        let (to, now) = (key.clone(), self.clock.now());
        let posted = self
            .writer
            .write(move |work| inbox::post(work.tx, &to, &post, now))
            .await?;
        self.followers.advance(key, Mark::of_post(posted.id()));
        Ok(posted)
    }

    async fn pending(&self, key: &ConversationKey) -> Result<Vec<Pending>, LogError> {
        let key = key.clone();
        self.readers.read(move |_, tx| inbox::pending(tx, &key)).await
    }

    async fn take(&self, key: &ConversationKey, owner: &Owner, ttl: Duration) -> Result<Taken, LogError> {
        let (key, owner, now) = (key.clone(), owner.clone(), self.clock.now());
        self.writer
            .write(move |work| take(work.tx, &key, &owner, ttl, now))
            .await
    }

    async fn post_and_take(
        &self,
        key: &ConversationKey,
        post: Post,
        owner: &Owner,
        ttl: Duration,
    ) -> Result<(Posted, Result<Taken, LogError>), LogError> {
        let (to, owner, now) = (key.clone(), owner.clone(), self.clock.now());
        let (posted, taken) = self
            .writer
            .write(move |work| {
                let posted = inbox::post(work.tx, &to, &post, now)?;
                match take(work.tx, &to, &owner, ttl, now) {
                    Ok(taken) => Ok((posted, Ok(taken))),
                    // Who is refused has changed nothing: the post stands by itself.
                    Err(Fault::Refused(error)) => Ok((posted, Err(error))),
                    Err(fault) => Err(fault),
                }
            })
            .await?;
        self.followers.advance(key, Mark::of_post(posted.id()));
        Ok((posted, taken))
    }

    fn posted(
        &self,
        key: &ConversationKey,
        after: Option<InboxId>,
    ) -> BoxStream<'static, Result<InboxId, LogError>> {
        let posts = self.followers.posts(key, after, self.mark(key));
        self.poll.start();
        posts
    }

    fn posted_later(&self, key: &ConversationKey) -> BoxStream<'static, Result<InboxId, LogError>> {
        let posts = self.followers.later_posts(key);
        self.poll.start();
        posts
    }
}

#[async_trait]
impl Claims for SqliteLog {
    async fn claim(&self, owner: &Owner, ttl: Duration, limit: usize) -> Result<Vec<Claimed>, LogError> {
        let (owner, now) = (owner.clone(), self.clock.now());
        self.writer
            .write(move |work| head::claim(work.tx, &owner, ttl, limit, now))
            .await
    }
}

#[async_trait]
impl Members for SqliteLog {
    async fn join(&self, node: &NodeId, address: Option<&str>, ttl: Duration) -> Result<Owner, LogError> {
        let (node, address, now) = (node.clone(), address.map(str::to_owned), self.clock.now());
        self.writer
            .write(move |work| members::join(work.tx, &node, address.as_deref(), ttl, now))
            .await
    }

    async fn beat(&self, owner: &Owner) -> Result<(), LogError> {
        let (owner, now) = (owner.clone(), self.clock.now());
        self.writer
            .write(move |work| members::beat(work.tx, &owner, now))
            .await
    }

    async fn leave(&self, owner: &Owner) -> Result<(), LogError> {
        let (owner, now) = (owner.clone(), self.clock.now());
        self.writer
            .write(move |work| Ok(members::leave(work.tx, &owner, now)?))
            .await
    }

    async fn alive(&self) -> Result<Vec<Member>, LogError> {
        let now = self.clock.now();
        self.readers.read(move |_, tx| members::alive(tx, now)).await
    }
}

#[async_trait]
impl Answers for SqliteLog {
    async fn answered(&self, to: &IdempotencyKey) -> Result<Option<StoredAnswer>, LogError> {
        let (to, now) = (to.clone(), self.clock.now());
        self.readers.read(move |_, tx| answers::find(tx, &to, now)).await
    }

    async fn keep_answer(&self, answer: StoredAnswer) -> Result<(), LogError> {
        let now = self.clock.now();
        self.writer
            .write(move |work| {
                answers::check(work.tx, Some(&answer), now)?;
                Ok(answers::keep(work.tx, Some(&answer), now)?)
            })
            .await
    }
}

#[async_trait]
impl Tokens for SqliteLog {
    async fn add_token(&self, token: Token) -> Result<(), LogError> {
        self.writer.write(move |work| tokens::add(work.tx, &token)).await
    }

    async fn find_token(&self, hash: &TokenHash) -> Result<Option<Token>, LogError> {
        let (hash, now) = (*hash, self.clock.now());
        let found = self.readers.read(move |_, tx| tokens::find(tx, &hash)).await?;
        Ok(found.filter(|token| token.is_valid(now)))
    }

    async fn tokens(&self) -> Result<Vec<Token>, LogError> {
        self.readers.read(|_, tx| tokens::all(tx)).await
    }

    async fn revoke_token(&self, name: &str) -> Result<bool, LogError> {
        let name = name.to_owned();
        self.writer
            .write(move |work| Ok(tokens::revoke(work.tx, &name)?))
            .await
    }

    async fn server_key(&self, name: &str, fresh: [u8; 32]) -> Result<[u8; 32], LogError> {
        let name = name.to_owned();
        self.writer
            .write(move |work| Ok(tokens::server_key(work.tx, &name, &fresh)?))
            .await
    }
}

impl Tails for SqliteLog {
    fn follow(&self, key: &ConversationKey, after: Option<Seq>) -> BoxStream<'static, Result<Seq, LogError>> {
        let tails = self.followers.tails(key, after, self.mark(key));
        self.poll.start();
        tails
    }

    fn follow_later(&self, key: &ConversationKey) -> BoxStream<'static, Result<Seq, LogError>> {
        let tails = self.followers.later_tails(key);
        self.poll.start();
        tails
    }
}
