//! Work that no process has: turns whose process died, posts that nobody took in, requests whose time ran out.
//!
//! A worker makes its process a member of those that share the store, claims what is due, and goes on with it until it is
//! done or waits for a person. What ends its process again and again is ended itself.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use annals_core::ids::{ConversationKey, NodeId};
use annals_core::limits;
use annals_store::{Claimed, LogError, Owner};
use async_trait::async_trait;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::agent::Agent;
use crate::conversation::Conversation;
use crate::error::RunError;
use crate::membership::{Life, until_lost};
use crate::runtime::Runtime;
use crate::session::Session;

/// After a failure a conversation is kept from others this long, doubled at each further one.
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);
/// A process that ends gives tools this long to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Says which agent goes on with a conversation.
#[async_trait]
pub trait Agents: Send + Sync {
    /// The agent for this conversation, on the worker's own runtime; none when this process has none for it, and then it
    /// is left to others.
    async fn agent(&self, key: &ConversationKey) -> Option<Agent>;
}

/// An agent goes on with the conversations of its scope.
#[async_trait]
impl Agents for Agent {
    async fn agent(&self, key: &ConversationKey) -> Option<Agent> {
        (key.scope == *self.scope()).then(|| self.clone())
    }
}

/// How a worker works.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    node: Option<NodeId>,
    address: Option<String>,
    max_turns: usize,
    poll: Duration,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        WorkerOptions {
            node: None,
            address: None,
            max_turns: 32,
            poll: Duration::from_millis(500),
        }
    }
}

impl WorkerOptions {
    /// As which node this process takes part; a name of its own unless set. Of two processes with one name, the one that
    /// joined last counts.
    #[must_use]
    pub fn node(mut self, node: NodeId) -> Self {
        self.node = Some(node);
        self
    }

    /// Where other members reach this process.
    #[must_use]
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.address = Some(address.into());
        self
    }

    /// How many claimed turns run at a time; 32 unless set. Those that wait for a person do not count.
    #[must_use]
    pub fn max_turns(mut self, max_turns: usize) -> Self {
        self.max_turns = max_turns.max(1);
        self
    }

    /// How often it looks for work; every half second unless set.
    #[must_use]
    pub fn poll(mut self, every: Duration) -> Self {
        self.poll = every;
        self
    }
}

impl Runtime {
    /// Joins those that share the store, and goes on with what nobody owns until the worker is stopped.
    ///
    /// From now on this process counts as gone when it cannot reach the store for a lease's time: its turns then stop
    /// before others may take them up. A runtime has at most one worker.
    pub async fn worker(
        &self,
        agents: impl Agents + 'static,
        options: WorkerOptions,
    ) -> Result<Worker, RunError> {
        let crew = Arc::new(Crew {
            runtime: self.clone(),
            agents: Box::new(agents),
            options,
            running: AtomicUsize::new(0),
            stop: CancellationToken::new(),
        });
        crew.join().await?;
        Ok(Worker {
            work: Some(tokio::spawn(crew.clone().work())),
            crew,
        })
    }
}

/// Takes up work until it is stopped. Dropped without [`stop`](Self::stop), it leaves at once, and what runs stops.
pub struct Worker {
    crew: Arc<Crew>,
    work: Option<tokio::task::JoinHandle<Option<Beats>>>,
}

/// Keeps the process a member until dropped.
type Beats = AbortOnDropHandle<()>;

impl Worker {
    /// Who this process is among those that share the store.
    pub fn owner(&self) -> Owner {
        self.crew.life().owner
    }

    /// Takes up nothing more. What runs goes on, and the process stays a member.
    pub fn take_up_no_more(&self) {
        self.crew.stop.cancel();
    }

    /// Takes up nothing more, gives the turns of the runtime this long to come to their end, and leaves. Turns that need
    /// longer are left as they are, for others or the next start: nothing of them is cancelled.
    pub async fn stop(mut self, grace: Duration) {
        self.take_up_no_more();
        let Some(work) = self.work.take() else {
            return;
        };
        self.settle(work, grace).await;
        self.crew.leave().await;
    }

    /// Waits until nothing runs. The process is a member until then, so turns that were not claimed are its own, too; after
    /// this it beats no more.
    async fn settle(&self, work: tokio::task::JoinHandle<Option<Beats>>, grace: Duration) {
        let runtime = &self.crew.runtime;
        let settled = async {
            let _beats = work.await;
            runtime.settled().await;
        };
        tokio::pin!(settled);
        if tokio::time::timeout(grace, &mut settled).await.is_err() {
            runtime.parts.membership.stop();
            let _ = tokio::time::timeout(STOP_PATIENCE, settled).await;
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            work.abort();
            self.crew.runtime.parts.membership.stop();
            let parts = &self.crew.runtime.parts;
            parts.membership.left(&parts.world);
        }
    }
}

/// How a conversation was left when nothing more could be done for it here.
enum Rest {
    Done,
    /// Its turn waits for a person.
    Waiting,
    /// Its turn, or a post, is there still.
    Unfinished,
}

impl Conversation {
    /// How it was left, once it has settled.
    async fn rest(&self) -> Result<Rest, RunError> {
        Ok(if self.is_waiting() {
            Rest::Waiting
        } else if self.has_open_turn() || self.has_posts().await? {
            Rest::Unfinished
        } else {
            Rest::Done
        })
    }
}

struct Crew {
    runtime: Runtime,
    agents: Box<dyn Agents>,
    options: WorkerOptions,
    /// Claimed conversations with something to do.
    running: AtomicUsize,
    stop: CancellationToken,
}

impl Crew {
    fn life(&self) -> Life {
        self.runtime.parts.membership.life()
    }

    fn ttl(&self) -> Duration {
        self.runtime.parts.lease_ttl
    }

    async fn join(&self) -> Result<(), LogError> {
        let parts = &self.runtime.parts;
        let node = self
            .options
            .node
            .clone()
            .unwrap_or_else(|| self.life().owner.node);
        let address = self.options.address.as_deref();
        let asked = Instant::now();
        let owner = parts.log.join(&node, address, parts.lease_ttl).await?;
        parts.membership.joined(owner, asked, parts.lease_ttl);
        Ok(())
    }

    async fn leave(&self) {
        let parts = &self.runtime.parts;
        let owner = self.life().owner;
        parts.membership.left(&parts.world);
        if let Err(error) = parts.log.leave(&owner).await {
            tracing::debug!(%error, "a member could not leave and will count as gone");
        }
    }

    /// One life after the other, until it is to stop; gives what keeps the last one.
    async fn work(self: Arc<Self>) -> Option<Beats> {
        loop {
            let life = self.life();
            let beats = self.beat(&life);
            self.claim_until_over(&life).await;
            if self.stop.is_cancelled() {
                return Some(beats);
            }
            drop(beats);
            tracing::warn!(owner = %life.owner, "this process counted as gone, and joins again");
            while let Err(error) = self.join().await {
                tracing::warn!(%error, "this process cannot join again yet");
                tokio::select! {
                    () = self.stop.cancelled() => return None,
                    () = tokio::time::sleep(self.options.poll) => {}
                }
            }
        }
    }

    /// Beats until dropped; when that fails for too long, the life is over.
    fn beat(&self, life: &Life) -> Beats {
        let (log, ttl) = (self.runtime.log().clone(), self.ttl());
        let (owner, until) = (life.owner.clone(), life.until.clone());
        let membership = self.runtime.parts.membership.clone();
        AbortOnDropHandle::new(tokio::spawn(async move {
            let beat = || {
                let (log, owner) = (log.clone(), owner.clone());
                async move { log.beat(&owner).await }
            };
            until_lost(ttl, &until, beat).await;
            membership.lost();
        }))
    }

    /// Claims until the life is over or the worker is to stop, and waits for what runs.
    async fn claim_until_over(self: &Arc<Self>, life: &Life) {
        let mut tasks = JoinSet::new();
        for round in 0_u64.. {
            if life.is_over() || self.stop.is_cancelled() {
                break;
            }
            let free = self
                .options
                .max_turns
                .saturating_sub(self.running.load(Ordering::Acquire));
            if free > 0 {
                let asking = life.asking();
                match self.runtime.log().claim(&life.owner, self.ttl(), free).await {
                    Ok(claimed) => {
                        for claimed in claimed {
                            self.running.fetch_add(1, Ordering::AcqRel);
                            tasks.spawn(self.clone().take_up(claimed, asking.clone()));
                        }
                    }
                    Err(LogError::NotAMember { .. }) => self.runtime.parts.membership.lost(),
                    Err(error) => tracing::warn!(%error, "no work can be claimed"),
                }
            }
            tokio::select! {
                () = self.stop.cancelled() => {}
                () = life.over.cancelled() => {}
                () = tokio::time::sleep(spread(self.options.poll, &life.owner, round)) => {}
                Some(_) = tasks.join_next() => {}
            }
        }
        while tasks.join_next().await.is_some() {}
    }

    /// Goes on with one conversation until there is nothing left to do for it here.
    async fn take_up(self: Arc<Self>, claimed: Claimed, life: Life) {
        let running = Running::new(&self);
        let (lease, attempts) = (claimed.lease.clone(), claimed.attempts);
        let (session, went_on) = match self.open(claimed, &life).await {
            Ok(Some(session)) => {
                let rest = self.finish(&session.conversation, &running).await;
                (Some(session), rest)
            }
            Ok(None) => (None, Ok(Rest::Unfinished)),
            Err(error) => (None, Err(error)),
        };
        let is_settled = matches!(went_on, Ok(Rest::Done | Rest::Waiting));
        if let Err(error) = went_on {
            let key = lease.key();
            tracing::warn!(%key, attempts, %error, "a conversation could not be gone on with");
        }
        if !is_settled {
            // The lease keeps it from being claimed again at once.
            tokio::select! {
                () = tokio::time::sleep(self.backoff(attempts)) => {}
                () = life.over.cancelled() => {}
                () = self.stop.cancelled() => {}
            }
        }
        let released = match session {
            Some(session) => session.close().await,
            None => self.runtime.log().release(&lease).await.map_err(RunError::from),
        };
        if let Err(error) = released {
            tracing::debug!(%error, "a lease was not released and will run out");
        }
    }

    fn backoff(&self, attempts: u32) -> Duration {
        let doubled = FIRST_BACKOFF.saturating_mul(2u32.saturating_pow(attempts.saturating_sub(1)));
        doubled.min(LONGEST_BACKOFF).min(self.ttl() / 2)
    }

    async fn open(&self, claimed: Claimed, life: &Life) -> Result<Option<Session>, RunError> {
        let key = claimed.lease.key();
        let Some(agent) = self.agents.agent(key).await else {
            tracing::warn!(%key, "this process has no agent for a conversation that is due");
            return Ok(None);
        };
        if !agent.runtime().is(&self.runtime) {
            tracing::error!(%key, "the agent of a conversation is on another runtime than the worker");
            return Ok(None);
        }
        let is_poison = claimed.attempts > limits::TURN_MAX_ATTEMPTS;
        agent
            .take_over(claimed.lease, life.clone(), is_poison)
            .await
            .map(Some)
    }

    /// Waits until the conversation rests. One that waits for a person while more is posted stays here: it is due all the
    /// time, and would be claimed without end.
    async fn finish(
        &self,
        conversation: &Arc<Conversation>,
        running: &Running<'_>,
    ) -> Result<Rest, RunError> {
        loop {
            conversation.settled().await;
            let rest = conversation.rest().await?;
            if !matches!(rest, Rest::Waiting) || !conversation.has_posts().await? {
                return Ok(rest);
            }
            let lost = CancellationToken::new();
            let _alive = conversation.writer().await.journal.keep_alive(lost.clone());
            let _paused = running.pause();
            tokio::select! {
                () = conversation.begins() => {}
                () = lost.cancelled() => return Ok(Rest::Waiting),
                () = self.stop.cancelled() => return Ok(Rest::Waiting),
            }
        }
    }
}

/// A pause within a quarter of this one, another each time and on each node: nodes that were started together would otherwise
/// claim together, and skip what the others are just taking.
fn spread(pause: Duration, owner: &Owner, round: u64) -> Duration {
    let mut hash = DefaultHasher::new();
    (owner.node.as_str(), owner.epoch, round).hash(&mut hash);
    let share = u32::try_from(hash.finish() % 501).unwrap_or(0);
    pause * (750 + share) / 1_000
}

/// Counts a conversation as running for as long as it lives, except while paused.
struct Running<'a>(&'a AtomicUsize);

impl<'a> Running<'a> {
    /// Of a conversation that was counted when it was claimed.
    fn new(crew: &'a Crew) -> Self {
        Running(&crew.running)
    }

    fn pause(&self) -> Paused<'_> {
        self.0.fetch_sub(1, Ordering::AcqRel);
        Paused(self.0)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

struct Paused<'a>(&'a AtomicUsize);

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_do_not_ask_for_work_in_step() {
        let second = Duration::from_secs(1);
        let moments = |name: &str| {
            let owner = Owner::new(NodeId::parse(name).unwrap(), 1);
            let pauses = (0..100).map(move |round| spread(second, &owner, round));
            pauses.collect::<Vec<Duration>>()
        };
        let (one, other) = (moments("n1"), moments("n2"));
        assert_ne!(one, other);
        for pause in one.iter().chain(&other) {
            assert!((second * 3 / 4..=second * 5 / 4).contains(pause), "{pause:?}");
        }
        let mean = one.iter().sum::<Duration>() / 100;
        assert!(mean.abs_diff(second) < second / 10, "{mean:?}");
    }
}
