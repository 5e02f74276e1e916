//! Group commit across the wire: a few connections, each of which merges whatever waits into one statement.
//!
//! While one statement is on its way the next one gathers; that is all the batching there is, and a lonely append never
//! waits for company: its caller sends it itself, and only what does not go through at once is left to the writer's task.
//! Further writers help only when the first has more than it should carry, or is held up: two that commit at the same time
//! wait for each other's flush of the server's log. Appends of a conversation that are under way together are the same
//! writer's, so they keep their order.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use annals_core::ids::Seq;
use annals_store::{Append, Clock, Lease, LogError};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::append::{self, Appender, Prepared, Verdict};
use crate::fault::{Fault, Remedy};
use crate::link;
use crate::pool::{Pauses, Pool};
use crate::seen::{Seen, history};

/// What one statement carries at most.
const MERGED_MAX: usize = 256;
const MERGED_MAX_BYTES: usize = 1 << 20;

/// Appends that wait for a writer; further callers wait for room.
const QUEUE: usize = 1_024;

/// A writer for whom this number of appends wait is helped by the next one.
const WAITING_MAX: usize = 64;

/// So is one whose statement has been on its way for this long.
const HELD_UP: Duration = Duration::from_millis(50);

/// An append and who waits for it.
struct Job {
    append: Prepared,
    answer: oneshot::Sender<Result<Option<Seq>, LogError>>,
}

/// Where a writer's connection is.
struct Seat {
    /// Held for a statement: by the writer's task, or by a caller with nobody before it.
    appender: tokio::sync::Mutex<Option<Appender>>,
    /// Whether the server keeps what belongs to a connection from one statement to the next.
    has_own_session: AtomicBool,
}

impl Seat {
    /// What a fault says about connections to come.
    fn learn(&self, fault: &Fault) {
        if fault.is_of_foreign_session() {
            // Somebody put a pooler between and did not say so.
            self.has_own_session.store(false, Ordering::Relaxed);
        }
    }
}

/// The writers of a process.
pub(crate) struct Writers {
    queues: Vec<mpsc::Sender<Job>>,
    seats: Vec<Arc<Seat>>,
    desk: Arc<Desk>,
    seen: Arc<Seen>,
    clock: Option<Arc<dyn Clock>>,
    answer_max: Duration,
}

/// What the writers of a process know together. Held only for a look.
#[derive(Debug)]
struct Desk(Mutex<Known>);

#[derive(Debug)]
struct Known {
    loads: Vec<Load>,
    /// Which writer has the appends of a conversation that are under way, and how many those are.
    under_way: HashMap<i64, (usize, usize)>,
}

impl Known {
    /// One append of this conversation is not under way any more.
    fn end(&mut self, conversation: i64) {
        match self.under_way.get_mut(&conversation) {
            Some((_, count)) if *count > 1 => *count -= 1,
            _ => {
                self.under_way.remove(&conversation);
            }
        }
    }
}

/// What a writer has to do.
#[derive(Clone, Debug, Default)]
struct Load {
    waiting: usize,
    /// Since when its statement has been on its way.
    since: Option<Instant>,
}

impl Load {
    fn needs_help(&self, now: Instant) -> bool {
        self.waiting >= WAITING_MAX || self.since.is_some_and(|since| now - since > HELD_UP)
    }
}

impl Desk {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who is to write an append of this conversation, and whether nobody else waits for them.
    fn assign(&self, conversation: i64) -> (usize, bool) {
        let (mut known, now) = (self.known(), Instant::now());
        let under_way = known.under_way.get(&conversation).copied();
        let (writer, count) = under_way.unwrap_or_else(|| {
            let loads = &known.loads;
            let free = loads.iter().position(|load| !load.needs_help(now));
            let least = || (0..loads.len()).min_by_key(|writer| loads[*writer].waiting);
            (free.or_else(least).unwrap_or_default(), 0)
        });
        known.under_way.insert(conversation, (writer, count + 1));
        known.loads[writer].waiting += 1;
        (writer, known.loads[writer].waiting == 1)
    }

    /// A caller sends its own append, until what this gives is dropped.
    fn lend(&self, writer: usize) -> Lent<'_> {
        self.begin(writer, 0);
        Lent { desk: self, writer }
    }

    /// A writer has sent what these waited for.
    fn begin(&self, writer: usize, jobs: usize) {
        let load = &mut self.known().loads[writer];
        load.waiting = load.waiting.saturating_sub(jobs);
        load.since = Some(Instant::now());
    }

    /// A writer has answered these.
    fn rest(&self, writer: usize, conversations: &[i64]) {
        let mut known = self.known();
        known.loads[writer].since = None;
        conversations
            .iter()
            .for_each(|conversation| known.end(*conversation));
    }

    /// An append that a writer was to have does not come.
    fn take_back(&self, writer: usize, conversation: i64) {
        let mut known = self.known();
        known.loads[writer].waiting = known.loads[writer].waiting.saturating_sub(1);
        known.end(conversation);
    }
}

/// Remembers that an append is durable; gives the tail.
fn note(seen: &Seen, append: &Prepared) -> Option<Seq> {
    let tail = append.tail_after();
    seen.acknowledged(&append.lease, tail, append.sum());
    tail
}

/// Tells the caller that its append is durable.
fn acknowledge(seen: &Seen, job: Job) {
    let tail = note(seen, &job.append);
    // A caller that does not wait any more is as if the process had died.
    let _gone = job.answer.send(Ok(tail));
}

/// A writer's connection, lent to a caller.
struct Lent<'d> {
    desk: &'d Desk,
    writer: usize,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.desk.rest(self.writer, &[]);
    }
}

impl Writers {
    /// Starts this many. They end when this is dropped and everything that waits is answered.
    pub(crate) fn start(
        count: usize,
        pool: &Arc<Pool>,
        seen: &Arc<Seen>,
        clock: Option<&Arc<dyn Clock>>,
        patience: Duration,
    ) -> Self {
        let count = count.max(1);
        let desk = Arc::new(Desk(Mutex::new(Known {
            loads: vec![Load::default(); count],
            under_way: HashMap::new(),
        })));
        let seat = |_| {
            Arc::new(Seat {
                appender: tokio::sync::Mutex::default(),
                has_own_session: AtomicBool::new(pool.address().has_own_sessions()),
            })
        };
        let seats: Vec<Arc<Seat>> = (0..count).map(seat).collect();
        let start = |(number, seat): (usize, &Arc<Seat>)| {
            let (sender, jobs) = mpsc::channel(QUEUE);
            let writer = Writer {
                number,
                desk: Arc::clone(&desk),
                seen: Arc::clone(seen),
                pool: Arc::clone(pool),
                clock: clock.cloned(),
                patience,
                seat: Arc::clone(seat),
            };
            tokio::spawn(writer.run(jobs));
            sender
        };
        Writers {
            queues: seats.iter().enumerate().map(start).collect(),
            seats,
            desk,
            seen: Arc::clone(seen),
            clock: clock.cloned(),
            answer_max: pool.answer_max(),
        }
    }

    /// Appends; gives the new tail.
    pub(crate) async fn append(&self, lease: &Lease, append: Append) -> Result<Option<Seq>, LogError> {
        let append = Prepared::new(lease, append)?;
        let (writer, is_alone) = self.desk.assign(append.conversation);
        // A caller that goes away while there is no room leaves no trace.
        let assigned = Assigned {
            desk: &self.desk,
            writer,
            conversation: Some(append.conversation),
        };
        if is_alone && self.send_at_once(writer, &append).await {
            return Ok(note(&self.seen, &append));
        }
        let (answer, answered) = oneshot::channel();
        let room = self.queues[writer].reserve().await;
        let room = room.map_err(|_| LogError::Closed)?;
        assigned.keep();
        room.send(Job { append, answer });
        answered.await.map_err(|_| LogError::Closed)?
    }

    /// Sends an append from here, if its writer is connected and has nothing else to do; says whether it took effect. If not,
    /// for whatever reason, it is for the writer to send it again and to find out why: its batch id says what became of it.
    async fn send_at_once(&self, writer: usize, append: &Prepared) -> bool {
        let seat = &self.seats[writer];
        let Ok(mut held) = seat.appender.try_lock() else {
            return false;
        };
        let Some(appender) = held.as_mut().filter(|appender| !appender.client().is_closed()) else {
            return false;
        };
        let _lent = self.desk.lend(writer);
        let now = self.clock.as_ref().map(|clock| clock.now().unix_micros());
        let sent = tokio::time::timeout(self.answer_max, append::send(appender, now, &[append])).await;
        match sent.map_err(|_| Fault::Silent).flatten() {
            Ok(done) => !done.is_empty(),
            Err(fault) => {
                seat.learn(&fault);
                if fault.remedy() == Remedy::Elsewhere {
                    *held = None;
                }
                false
            }
        }
    }
}

/// An append that a writer is to have; taken back if dropped before.
struct Assigned<'d> {
    desk: &'d Desk,
    writer: usize,
    conversation: Option<i64>,
}

impl Assigned<'_> {
    fn keep(mut self) {
        self.conversation = None;
    }
}

impl Drop for Assigned<'_> {
    fn drop(&mut self) {
        if let Some(conversation) = self.conversation {
            self.desk.take_back(self.writer, conversation);
        }
    }
}

struct Writer {
    number: usize,
    desk: Arc<Desk>,
    seen: Arc<Seen>,
    pool: Arc<Pool>,
    clock: Option<Arc<dyn Clock>>,
    patience: Duration,
    seat: Arc<Seat>,
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
            let seat = Arc::clone(&self.seat);
            let mut appender = seat.appender.lock().await;
            // More may have come while a caller had the connection.
            while waiting.len() < MERGED_MAX
                && let Ok(job) = jobs.try_recv()
            {
                waiting.push_back(job);
            }
            let merged = take_mergeable(&mut waiting);
            let conversations: Vec<i64> = merged.iter().map(|job| job.append.conversation).collect();
            self.desk.begin(self.number, merged.len());
            self.write(&mut appender, merged).await;
            self.desk.rest(self.number, &conversations);
        }
    }

    /// Writes appends of different conversations and answers them.
    async fn write(&mut self, held: &mut Option<Appender>, mut jobs: Vec<Job>) {
        let mut pauses = Pauses::new(self.patience);
        while !jobs.is_empty() {
            match self.try_write(held, &mut jobs).await {
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
                        Box::pin(self.write(held, vec![job])).await;
                    }
                }
                Err(fault) => {
                    self.seat.learn(&fault);
                    if fault.remedy() == Remedy::Elsewhere {
                        *held = None;
                    }
                    if fault.remedy() == Remedy::None || !pauses.pause().await {
                        return refuse(jobs, || fault.to_log(self.pool.address().name()));
                    }
                }
            }
        }
    }

    async fn connect(&self) -> Result<Appender, Fault> {
        let (address, known) = (self.pool.address(), self.pool.identity());
        let wire = link::connect(address, known, self.pool.answer_max()).await?;
        self.seen.connected(history(&wire.client).await);
        Appender::new(wire, self.seat.has_own_session.load(Ordering::Relaxed)).await
    }

    /// One statement. What it settles is answered and taken out.
    async fn try_write(&mut self, held: &mut Option<Appender>, jobs: &mut Vec<Job>) -> Result<(), Fault> {
        let appender = match held.take().filter(|appender| !appender.client().is_closed()) {
            Some(appender) => appender,
            None => {
                let connected = tokio::time::timeout(self.pool.answer_max(), self.connect()).await;
                connected.map_err(|_| Fault::Silent)??
            }
        };
        let appender = held.insert(appender);
        let now = self.clock.as_ref().map(|clock| clock.now().unix_micros());
        let appends: Vec<&Prepared> = jobs.iter().map(|job| &job.append).collect();
        let sent = tokio::time::timeout(self.pool.answer_max(), append::send(appender, now, &appends)).await;
        let wire = &appender.wire;
        let done: HashSet<i64> = match sent.map_err(|_| Fault::Silent).flatten() {
            Ok(done) => done.into_iter().collect(),
            // The answer that one append carries was kept by another request meanwhile, or is too old to count.
            Err(fault) if fault.is_unique_violation() && appends.len() == 1 => {
                appends[0].forget_answer(&wire.client, now).await?;
                HashSet::new()
            }
            Err(fault) => return Err(fault),
        };
        let mut again = Vec::new();
        let mut unsettled = std::mem::take(jobs).into_iter();
        while let Some(job) = unsettled.next() {
            if done.contains(&job.append.conversation) {
                acknowledge(&self.seen, job);
                continue;
            }
            let verdict = append::verdict(wire, now, &job.append, &self.seen);
            let asked = tokio::time::timeout(self.pool.answer_max(), verdict).await;
            match asked.map_err(|_| Fault::Silent).flatten() {
                Ok(Verdict::Done) => acknowledge(&self.seen, job),
                Ok(Verdict::Again) => again.push(job),
                Ok(Verdict::Refused(error)) => {
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

fn refuse(jobs: Vec<Job>, error: impl Fn() -> LogError) {
    for job in jobs {
        let _gone = job.answer.send(Err(error()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desk(writers: usize) -> Desk {
        Desk(Mutex::new(Known {
            loads: vec![Load::default(); writers],
            under_way: HashMap::new(),
        }))
    }

    #[test]
    fn one_writer_takes_everything_until_it_has_more_than_it_should_carry() {
        let desk = desk(2);
        let first = WAITING_MAX as i64;
        assert!((0..first).all(|conversation| desk.assign(conversation).0 == 0));
        assert_eq!(desk.assign(first).0, 1);
        // What is sent does not wait any more.
        desk.begin(0, WAITING_MAX);
        assert_eq!(desk.assign(first + 1).0, 0);
    }

    #[test]
    fn appends_of_a_conversation_that_are_under_way_together_have_one_writer() {
        let desk = desk(2);
        assert_eq!(desk.assign(0).0, 0);
        assert!((1..200).any(|conversation| desk.assign(conversation).0 == 1));
        assert_eq!(desk.assign(0).0, 0, "behind its first");
        desk.rest(0, &[0]);
        assert_eq!(desk.assign(0).0, 0, "one is under way still");
        desk.rest(0, &[0, 0]);
        assert_eq!(desk.known().under_way.get(&0), None);
    }

    #[test]
    fn a_writer_that_is_held_up_is_helped_and_what_does_not_come_is_forgotten() {
        let desk = desk(2);
        desk.begin(0, 0);
        desk.known().loads[0].since = Instant::now().checked_sub(HELD_UP * 2);
        assert_eq!(desk.assign(7).0, 1);
        desk.take_back(1, 7);
        let known = desk.known();
        assert_eq!((known.loads[1].waiting, known.under_way.len()), (0, 0));
    }
}
