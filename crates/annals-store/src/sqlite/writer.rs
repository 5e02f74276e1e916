//! The one thread that writes: it gathers what many conversations want written and commits it with one sync.
//!
//! While a commit waits for the disk, requests queue up; the next commit takes them all. A request is answered
//! only after the commit that holds it. What observers left for later is done between groups, after the answers. Nothing
//! here knows what a request means.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::oneshot;

use super::fault::{Database, Fault};
use super::observer::LogObserver;
use super::words::WordKeys;
use crate::failpoint::failpoint;
use crate::log::LogError;

/// One commit takes at most this many requests.
const GROUP_MAX_JOBS: usize = 1024;

/// The first request of a commit waits for others at most so long, and never longer than this share of what the
/// last commit took: a wait that saves a sync must be short beside one.
const GATHER_MAX: Duration = Duration::from_millis(4);
const GATHER_SHARE: u32 = 4;

/// What an answer promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Durability {
    /// Nothing takes it back: the commit is synced before it is answered.
    Synced,
    /// Power loss may take it back, whole. Only for what is made from the log and can be made again.
    Derived,
}

impl Durability {
    /// The value of SQLite's `synchronous`. NORMAL leaves out the sync of a commit and nothing else: the write-ahead log
    /// is still synced before it moves into the database, and the next synced commit syncs all that is before it, so
    /// that no acknowledged block ever depends on an unsynced one; for a sync that fails see [`Committer::settle`].
    fn synchronous(self) -> &'static str {
        match self {
            Durability::Synced => "FULL",
            Durability::Derived => "NORMAL",
        }
    }
}

/// What a request works with, inside the transaction.
pub(super) struct Work<'w> {
    pub(super) tx: &'w Connection,
    pub(super) database: &'w Database,
    pub(super) words: &'w mut WordKeys,
    pub(super) observers: &'w mut [Box<dyn LogObserver>],
}

/// A request that may be run again after a rollback, and answered once.
trait Job: Send {
    fn durability(&self) -> Durability;
    fn run(&mut self, work: &mut Work<'_>) -> Result<(), rusqlite::Error>;
    fn answer(self: Box<Self>, failed: Option<LogError>);
}

struct Request<T, F> {
    durability: Durability,
    run: F,
    outcome: Option<Result<T, LogError>>,
    reply: oneshot::Sender<Result<T, LogError>>,
}

impl<T, F> Job for Request<T, F>
where
    T: Send,
    F: FnMut(&mut Work<'_>) -> Result<T, Fault> + Send,
{
    fn durability(&self) -> Durability {
        self.durability
    }

    fn run(&mut self, work: &mut Work<'_>) -> Result<(), rusqlite::Error> {
        self.outcome = Some(match (self.run)(work) {
            Ok(value) => Ok(value),
            Err(Fault::Refused(error)) => Err(error),
            Err(Fault::Damaged(detail)) => Err(work.database.damaged(detail)),
            Err(Fault::Storage(error)) => return Err(error),
        });
        Ok(())
    }

    fn answer(self: Box<Self>, failed: Option<LogError>) {
        let outcome = match failed {
            Some(error) => Err(error),
            None => self.outcome.unwrap_or(Err(LogError::Closed)),
        };
        // Whoever asked may have gone away; the work is done all the same.
        let _ = self.reply.send(outcome);
    }
}

/// Where requests for the writing thread are put.
#[derive(Clone, Debug)]
struct Line {
    jobs: Sender<Box<dyn Job>>,
    /// Requests that were sent and not yet answered.
    pending: Arc<AtomicUsize>,
}

impl Line {
    fn send<T: Send + 'static>(
        &self,
        durability: Durability,
        work: impl FnMut(&mut Work<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<oneshot::Receiver<Result<T, LogError>>, LogError> {
        let (reply, answer) = oneshot::channel();
        let request = Request {
            durability,
            run: work,
            outcome: None,
            reply,
        };
        self.pending.fetch_add(1, Ordering::Relaxed);
        self.jobs.send(Box::new(request)).map_err(|_| LogError::Closed)?;
        Ok(answer)
    }
}

/// A way to the writing thread that does not keep it: once the [`Writer`] is gone, every request is refused.
#[derive(Clone, Debug)]
pub(super) struct Asker(Arc<Mutex<Option<Line>>>);

impl Asker {
    /// Runs `work`, which changes nothing, inside a transaction, for a thread that may block.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut Work<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, LogError> {
        let answer = {
            let line = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let line = line.as_ref().ok_or(LogError::Closed)?;
            line.send(Durability::Derived, work)?
        };
        answer.blocking_recv().unwrap_or(Err(LogError::Closed))
    }
}

/// The way to the writing thread. Dropping it lets the thread finish what is queued, and waits for it.
#[derive(Debug)]
pub(super) struct Writer {
    line: Option<Line>,
    /// What others ask through.
    asker: Asker,
    thread: Option<JoinHandle<()>>,
    /// The log whose changes are refused, because what is open is only a copy of it.
    read_only: Option<Database>,
}

impl Writer {
    pub(super) fn start(
        connection: Connection,
        database: Database,
        observers: Vec<Box<dyn LogObserver>>,
        is_copy: bool,
    ) -> std::io::Result<Self> {
        let read_only = is_copy.then(|| database.clone());
        let (jobs, queue) = channel();
        let pending = Arc::new(AtomicUsize::new(0));
        let committer = Committer {
            connection,
            database,
            observers,
            words: WordKeys::default(),
            durability: None,
            is_in_doubt: false,
            pending: Arc::clone(&pending),
            expected: 1,
            last_commit: Duration::ZERO,
        };
        let thread = std::thread::Builder::new()
            .name("annals-log".to_owned())
            .spawn(move || committer.serve(&queue))?;
        let line = Line { jobs, pending };
        Ok(Writer {
            asker: Asker(Arc::new(Mutex::new(Some(line.clone())))),
            line: Some(line),
            thread: Some(thread),
            read_only,
        })
    }

    /// For a thread that only asks.
    pub(super) fn asker(&self) -> Asker {
        self.asker.clone()
    }

    /// Runs `work` inside a transaction and gives its value once that is durable. It may run more than once, each
    /// time after everything it did before was rolled back.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut Work<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, LogError> {
        if let Some(database) = &self.read_only {
            let log = database.name().to_owned();
            return Err(LogError::ReadOnly { log });
        }
        self.request(Durability::Synced, work).await
    }

    /// The same for what is derived from the log: readers see it, but power loss may take it back.
    pub(super) async fn write_derived<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut Work<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, LogError> {
        self.request(Durability::Derived, work).await
    }

    async fn request<T: Send + 'static>(
        &self,
        durability: Durability,
        work: impl FnMut(&mut Work<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, LogError> {
        let line = self.line.as_ref().ok_or(LogError::Closed)?;
        let answer = line.send(durability, work)?;
        answer.await.unwrap_or(Err(LogError::Closed))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.line = None;
        *self.asker.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Whether the disk failed, a sync perhaps.
fn is_of_the_disk(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::SystemIoFailure)
}

struct Committer {
    connection: Connection,
    database: Database,
    observers: Vec<Box<dyn LogObserver>>,
    words: WordKeys,
    /// What the connection is set to; unknown before the first commit.
    durability: Option<Durability>,
    /// A sync failed: commits before it that had none of their own may be lost, though they can still be read.
    is_in_doubt: bool,
    pending: Arc<AtomicUsize>,
    /// How many requests were under way when the last commit ended: as many may come again.
    expected: usize,
    last_commit: Duration,
}

impl Committer {
    fn serve(mut self, queue: &Receiver<Box<dyn Job>>) {
        while let Ok(first) = queue.recv() {
            let group = self.gather(first, queue);
            let begun = Instant::now();
            self.commit(group);
            self.last_commit = begun.elapsed();
            self.catch_up();
        }
    }

    /// Lets observers do what they left for later, now that nobody waits for it. However fast blocks come, it is never
    /// more than they say: the next commit waits.
    fn catch_up(&mut self) {
        for at in 0..self.observers.len() {
            while self.observers[at].is_behind() {
                // What fails is tried again after the blocks to come; whoever needs it before that is told why it fails.
                if self.catch_up_one(at).is_err() {
                    break;
                }
            }
        }
    }

    fn catch_up_one(&mut self, at: usize) -> Result<(), rusqlite::Error> {
        failpoint("index.begin");
        self.promise(Durability::Derived)?;
        let outcome = Self::derive(&mut self.connection, self.observers[at].as_mut());
        outcome.inspect_err(|error| self.is_in_doubt |= is_of_the_disk(error))
    }

    fn derive(connection: &mut Connection, observer: &mut dyn LogObserver) -> Result<(), rusqlite::Error> {
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        observer.catch_up(&tx)?;
        failpoint("index.written");
        tx.commit()?;
        failpoint("index.committed");
        Ok(())
    }

    /// Takes what is queued. When more requests were under way before, their writers have just been answered and
    /// are about to ask again: waiting a moment for them saves a sync. A lone writer never waits.
    fn gather(&self, first: Box<dyn Job>, queue: &Receiver<Box<dyn Job>>) -> Vec<Box<dyn Job>> {
        let mut group = vec![first];
        let deadline = Instant::now() + GATHER_MAX.min(self.last_commit / GATHER_SHARE);
        while group.len() < GROUP_MAX_JOBS {
            match queue.try_recv() {
                Ok(job) => group.push(job),
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) if group.len() >= self.expected => break,
                Err(TryRecvError::Empty) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    match queue.recv_timeout(left) {
                        Ok(job) => group.push(job),
                        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
                    }
                }
            }
        }
        group
    }

    /// One transaction for the whole group; when the storage fails, one for each, so that a request fails only
    /// for its own reasons.
    fn commit(&mut self, mut group: Vec<Box<dyn Job>>) {
        match self.transact(&mut group) {
            Ok(()) => {
                self.expected = self.pending.load(Ordering::Relaxed);
                group.into_iter().for_each(|job| self.answer(job, None));
            }
            Err(error) => match group.len() {
                1 => self.answer(group.remove(0), Some(self.database.error(error))),
                _ => group.into_iter().for_each(|job| self.commit(vec![job])),
            },
        }
    }

    fn answer(&self, job: Box<dyn Job>, failed: Option<LogError>) {
        self.pending.fetch_sub(1, Ordering::Relaxed);
        job.answer(failed);
    }

    /// Sets what the next commits promise. SQLite allows it between transactions only.
    fn promise(&mut self, durability: Durability) -> Result<(), rusqlite::Error> {
        self.settle()?;
        if self.durability != Some(durability) {
            self.durability = None;
            self.connection
                .pragma_update(None, "synchronous", durability.synchronous())?;
            self.durability = Some(durability);
        }
        Ok(())
    }

    /// After a sync that failed, the system takes for written what the disk may never have got, and no later sync writes
    /// it again; a block that follows it in the write-ahead log would be lost with it. So all of that log is written once
    /// more, into the database, before anything is promised again.
    fn settle(&mut self) -> Result<(), rusqlite::Error> {
        if !self.is_in_doubt {
            return Ok(());
        }
        let busy: bool = self
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        if busy {
            let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
            return Err(rusqlite::Error::SqliteFailure(busy, None));
        }
        self.is_in_doubt = false;
        Ok(())
    }

    fn transact(&mut self, group: &mut [Box<dyn Job>]) -> Result<(), rusqlite::Error> {
        let is_derived = group.iter().all(|job| job.durability() == Durability::Derived);
        self.promise(match is_derived {
            true => Durability::Derived,
            false => Durability::Synced,
        })?;
        let outcome = self.attempt(group);
        outcome.inspect_err(|error| {
            self.words.forget();
            self.is_in_doubt |= is_of_the_disk(error);
        })
    }

    fn attempt(&mut self, group: &mut [Box<dyn Job>]) -> Result<(), rusqlite::Error> {
        failpoint("log.begin");
        // Dropped without a commit, the transaction rolls back.
        let tx = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        for job in group {
            job.run(&mut Work {
                tx: &tx,
                database: &self.database,
                words: &mut self.words,
                observers: &mut self.observers,
            })?;
            failpoint("log.written");
        }
        failpoint("log.commit");
        tx.commit()?;
        failpoint("log.committed");
        Ok(())
    }
}
