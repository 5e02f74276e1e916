//! Group commit across the wire: a few connections, each of which merges whatever waits into one statement.
//!
//! A conversation always goes to the same writer of a process, so its appends keep their order. While one statement is on
//! its way the next one gathers; that is all the batching there is, and a lonely append never waits for company.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use annals_core::ids::Seq;
use annals_store::{Append, Clock, Lease, LogError, Stale};
use tokio::sync::{mpsc, oneshot};

use crate::append::{self, Appender, Prepared, Verdict};
use crate::fault::{Fault, Remedy};
use crate::link;
use crate::pool::{Pauses, Pool};

/// What one statement carries at most.
const MERGED_MAX: usize = 256;
const MERGED_MAX_BYTES: usize = 1 << 20;

/// Appends that wait for a writer; further callers wait for room.
const QUEUE: usize = 1_024;

/// For this many conversations a writer remembers what it acknowledged.
const REMEMBERED_MAX: usize = 100_000;

/// An append and who waits for it.
struct Job {
    append: Prepared,
    answer: oneshot::Sender<Result<Option<Seq>, LogError>>,
}

/// The writers of a process.
#[derive(Debug)]
pub(crate) struct Writers {
    queues: Vec<mpsc::Sender<Job>>,
}

impl Writers {
    /// Starts this many. They end when this is dropped and everything that waits is answered.
    pub(crate) fn start(
        count: usize,
        pool: &Arc<Pool>,
        clock: Option<&Arc<dyn Clock>>,
        patience: Duration,
    ) -> Self {
        let start = |_| {
            let (sender, jobs) = mpsc::channel(QUEUE);
            let writer = Writer {
                pool: Arc::clone(pool),
                clock: clock.cloned(),
                patience,
                appender: None,
                has_own_session: pool.address().has_own_sessions(),
                acknowledged: HashMap::new(),
            };
            tokio::spawn(writer.run(jobs));
            sender
        };
        Writers {
            queues: (0..count.max(1)).map(start).collect(),
        }
    }

    /// Appends; gives the new tail.
    pub(crate) async fn append(&self, lease: &Lease, append: Append) -> Result<Option<Seq>, LogError> {
        let append = Prepared::new(lease, append)?;
        let queue = &self.queues[append.conversation.unsigned_abs() as usize % self.queues.len()];
        let (answer, answered) = oneshot::channel();
        let sent = queue.send(Job { append, answer }).await;
        sent.map_err(|_| LogError::Closed)?;
        answered.await.map_err(|_| LogError::Closed)?
    }
}

struct Writer {
    pool: Arc<Pool>,
    clock: Option<Arc<dyn Clock>>,
    patience: Duration,
    appender: Option<Appender>,
    /// Whether the server keeps what belongs to a connection from one statement to the next.
    has_own_session: bool,
    /// The token and the tail of the last append of each conversation: a tail below it means that the database lost it.
    acknowledged: HashMap<i64, (u64, Seq)>,
}

impl Writer {
    async fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut waiting = VecDeque::new();
        loop {
            if waiting.is_empty() {
                match jobs.recv().await {
                    Some(job) => waiting.push_back(job),
                    None => return,
                }
            }
            while waiting.len() < MERGED_MAX
                && let Ok(job) = jobs.try_recv()
            {
                waiting.push_back(job);
            }
            let merged = take_mergeable(&mut waiting);
            self.write(merged).await;
        }
    }

    /// Writes appends of different conversations and answers them.
    async fn write(&mut self, mut jobs: Vec<Job>) {
        let mut pauses = Pauses::new(self.patience);
        while !jobs.is_empty() {
            match self.try_write(&mut jobs).await {
                Ok(()) if jobs.is_empty() => return,
                // What met another statement is sent again.
                Ok(()) => {
                    if !pauses.pause().await {
                        let log = self.pool.address().name();
                        return refuse(jobs, || LogError::Busy { log: log.to_owned() });
                    }
                }
                // One of them cannot be written: each is tried alone, so that the others do not suffer.
                Err(fault) if fault.remedy() == Remedy::None && jobs.len() > 1 => {
                    for job in std::mem::take(&mut jobs) {
                        Box::pin(self.write(vec![job])).await;
                    }
                }
                Err(fault) => {
                    if fault.is_of_foreign_session() {
                        // Somebody put a pooler between and did not say so.
                        self.has_own_session = false;
                    }
                    if fault.remedy() == Remedy::Elsewhere {
                        self.appender = None;
                    }
                    if fault.remedy() == Remedy::None || !pauses.pause().await {
                        return refuse(jobs, || fault.to_log(self.pool.address().name()));
                    }
                }
            }
        }
    }

    /// One statement. What it settles is answered and taken out.
    async fn try_write(&mut self, jobs: &mut Vec<Job>) -> Result<(), Fault> {
        let appender = match self
            .appender
            .take()
            .filter(|appender| !appender.client.is_closed())
        {
            Some(appender) => appender,
            None => {
                let (address, known) = (self.pool.address(), self.pool.identity());
                let client = link::connect(address, known, self.pool.answer_max()).await?;
                Appender::new(client, self.has_own_session)
            }
        };
        let appender = self.appender.insert(appender);
        let now = self.clock.as_ref().map(|clock| clock.now().unix_micros());
        let appends: Vec<&Prepared> = jobs.iter().map(|job| &job.append).collect();
        let sent = tokio::time::timeout(self.pool.answer_max(), append::send(appender, now, &appends)).await;
        let client = &appender.client;
        let done: HashSet<i64> = match sent.map_err(|_| Fault::Silent).flatten() {
            Ok(done) => done.into_iter().collect(),
            // The answer that one append carries was kept by another request meanwhile, or is too old to count.
            Err(fault) if fault.is_unique_violation() && appends.len() == 1 => {
                appends[0].forget_answer(client, now).await?;
                HashSet::new()
            }
            Err(fault) => return Err(fault),
        };
        let mut again = Vec::new();
        let mut unsettled = std::mem::take(jobs).into_iter();
        while let Some(job) = unsettled.next() {
            if done.contains(&job.append.conversation) {
                acknowledge(&mut self.acknowledged, job);
                continue;
            }
            let asked =
                tokio::time::timeout(self.pool.answer_max(), append::verdict(client, now, &job.append)).await;
            match asked.map_err(|_| Fault::Silent).flatten() {
                Ok(Verdict::Done) => acknowledge(&mut self.acknowledged, job),
                Ok(Verdict::Again) => again.push(job),
                Ok(Verdict::Refused(error)) => {
                    let error = or_lost(error, &self.acknowledged, &job.append);
                    let _gone = job.answer.send(Err(error));
                }
                // Everything that is not answered yet is asked for again.
                Err(fault) => {
                    again.push(job);
                    again.extend(unsettled);
                    *jobs = again;
                    return Err(fault);
                }
            }
        }
        *jobs = again;
        Ok(())
    }
}

/// Takes appends of different conversations out of the queue, the oldest first, as many as one statement carries.
fn take_mergeable(waiting: &mut VecDeque<Job>) -> Vec<Job> {
    let (mut merged, mut later) = (Vec::new(), VecDeque::new());
    let (mut conversations, mut bytes) = (HashSet::new(), 0);
    while let Some(job) = waiting.pop_front() {
        let has_room = merged.is_empty() || bytes + job.append.bytes <= MERGED_MAX_BYTES;
        // A conversation's later append stays behind its earlier one.
        if merged.len() < MERGED_MAX && conversations.insert(job.append.conversation) && has_room {
            bytes += job.append.bytes;
            merged.push(job);
        } else {
            later.push_back(job);
        }
    }
    *waiting = later;
    merged
}

/// Tells the caller that its append is durable.
fn acknowledge(acknowledged: &mut HashMap<i64, (u64, Seq)>, job: Job) {
    let tail = job.append.tail_after();
    if let Some(tail) = tail {
        if acknowledged.len() >= REMEMBERED_MAX {
            acknowledged.clear();
        }
        acknowledged.insert(job.append.conversation, (job.append.lease.token(), tail));
    }
    // A caller that does not wait any more is as if the process had died.
    let _gone = job.answer.send(Ok(tail));
}

fn refuse(jobs: Vec<Job>, error: impl Fn() -> LogError) {
    for job in jobs {
        let _gone = job.answer.send(Err(error()));
    }
}

/// A stale tail below what this lease's writer was told is no other writer's doing.
fn or_lost(error: LogError, acknowledged: &HashMap<i64, (u64, Seq)>, append: &Prepared) -> LogError {
    let known = acknowledged.get(&append.conversation);
    match (&error, known) {
        (
            LogError::Conflict {
                stale: Stale::Tail { actual, .. },
                ..
            },
            Some((token, tail)),
        ) if *token == append.lease.token() && *actual < Some(*tail) => LogError::Lost {
            id: append.lease.key().id.clone(),
            acknowledged: *tail,
            actual: *actual,
        },
        _ => error,
    }
}
