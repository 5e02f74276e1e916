//! The one hand that writes: append before act, append before show. It holds the lease and knows when it is behind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use annals_core::block::{Block, NewBlock};
use annals_core::ids::ConversationKey;
use annals_core::redact::Redactor;
use annals_core::view::View;
use annals_store::{Append, BatchId, BlockLogExt as _, InboxId, Lease, LogError, Owner, Store};
use annals_tools::SharedTimeline;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::RunError;
use crate::listen::{Audience, Listen, Subscribers, Update};
use crate::redaction::Redaction;
use crate::world::World;

/// How long a writer may be silent before another may take its place, unless the runtime is told otherwise.
pub(crate) const LEASE_TTL: Duration = Duration::from_secs(60);
/// A writer that could not renew its lease stops this share of its time before others may take it.
const LEASE_MARGIN: u32 = 6;

/// Writes one conversation: seals drafts, makes them durable, folds them in, shows them. In this order.
pub(crate) struct Journal {
    key: ConversationKey,
    log: Arc<dyn Store>,
    owner: Owner,
    ttl: Duration,
    /// None once it was lost to another writer.
    lease: Option<Lease>,
    /// Whether the log may hold blocks that are not folded in: an append whose end nobody saw, or a lost lease.
    is_behind: bool,
    timeline: SharedTimeline,
    world: World,
    audience: Audience,
    redaction: Redaction,
}

impl Journal {
    pub(crate) fn new(
        log: Arc<dyn Store>,
        lease: Lease,
        timeline: SharedTimeline,
        world: World,
        subscribers: Subscribers,
    ) -> Self {
        Journal {
            key: lease.key().clone(),
            owner: lease.owner().clone(),
            ttl: lease.ttl(),
            log,
            lease: Some(lease),
            is_behind: false,
            timeline,
            world,
            audience: Audience::of(subscribers),
            redaction: Redaction::new(Arc::default()),
        }
    }

    /// Takes these secrets, too, out of what is written down and told.
    pub(crate) fn redacting(mut self, redactor: Arc<Redactor>) -> Self {
        self.redaction = Redaction::new(redactor);
        self
    }

    /// The conversation it writes.
    pub(crate) fn key(&self) -> &ConversationKey {
        &self.key
    }

    pub(crate) fn set_listener(&mut self, listener: Arc<dyn Listen>) {
        self.audience.listener = listener;
    }

    pub(crate) fn audience(&self) -> &Audience {
        &self.audience
    }

    pub(crate) fn tell(&self, update: Update) {
        self.redaction.tell(update, |update| self.audience.tell(update));
    }

    /// Takes the lease again if it was lost, and folds in what others, or an append that nobody waited for, have written.
    pub(crate) async fn ready(&mut self) -> Result<(), RunError> {
        if self.lease.is_none() {
            let lease = self.log.acquire(&self.key, &self.owner, self.ttl).await?;
            self.lease = Some(lease);
            self.is_behind = true;
        }
        if self.is_behind {
            let tail = self.read(|timeline| timeline.tail());
            let blocks = self.log.read_after(&self.key, tail, usize::MAX).await?;
            self.fold(blocks.into_iter().map(Arc::new).collect())?;
            self.is_behind = false;
        }
        Ok(())
    }

    /// Makes these blocks durable, all or none, then shows them.
    pub(crate) async fn append(&mut self, drafts: Vec<NewBlock>) -> Result<(), RunError> {
        self.append_consuming(drafts, Vec::new()).await
    }

    /// Makes these blocks durable; the rows of the inbox that they write down are gone in the same commit.
    pub(crate) async fn append_consuming(
        &mut self,
        drafts: Vec<NewBlock>,
        rows: Vec<InboxId>,
    ) -> Result<(), RunError> {
        if drafts.is_empty() && rows.is_empty() {
            return Ok(());
        }
        let now = self.world.now();
        let mut seq = self.read(|timeline| timeline.next_seq());
        let mut blocks = Vec::with_capacity(drafts.len());
        for draft in drafts {
            blocks.push(self.redaction.block(draft).seal(seq, now));
            seq = seq.next();
        }
        self.commit(blocks, rows).await
    }

    /// Makes copies of another conversation's blocks durable, with their own times and new places.
    pub(crate) async fn append_copies(&mut self, mut blocks: Vec<Block>) -> Result<(), RunError> {
        let mut seq = self.read(|timeline| timeline.next_seq());
        for block in &mut blocks {
            block.seq = seq;
            seq = seq.next();
        }
        match blocks.is_empty() {
            true => Ok(()),
            false => self.commit(blocks, Vec::new()).await,
        }
    }

    async fn commit(&mut self, blocks: Vec<Block>, rows: Vec<InboxId>) -> Result<(), RunError> {
        let Some(lease) = &self.lease else {
            return Err(RunError::LeaseLost(self.key.id.clone()));
        };
        let tail = self.read(|timeline| timeline.tail());
        let batch = BatchId::new(self.world.random());
        let append = Append::new(batch, tail, blocks.clone()).consuming(rows);
        // Until the answer is here, and when this future is dropped, nobody knows whether the blocks are in the log.
        self.is_behind = true;
        if let Err(error) = self.log.append(lease, append).await {
            if matches!(error, LogError::Conflict { .. }) {
                self.lease = None;
            }
            return Err(error.into());
        }
        self.is_behind = false;
        self.fold(blocks.into_iter().map(Arc::new).collect())
    }

    fn fold(&mut self, blocks: Vec<Arc<Block>>) -> Result<(), RunError> {
        {
            let mut timeline = self.timeline.write().unwrap_or_else(PoisonError::into_inner);
            let timeline = Arc::make_mut(&mut timeline);
            for block in &blocks {
                timeline.push(block.clone()).map_err(|source| RunError::Fold {
                    conversation: self.key.id.clone(),
                    source,
                })?;
            }
        }
        blocks
            .into_iter()
            .for_each(|block| self.tell(Update::Block(block)));
        Ok(())
    }

    /// Asks the timeline something.
    pub(crate) fn read<T>(&self, ask: impl FnOnce(&View) -> T) -> T {
        ask(&self.timeline.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The timeline as it is now, shared. Held across an append, it makes that append copy the whole timeline.
    pub(crate) fn snapshot(&self) -> Arc<View> {
        self.timeline
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Keeps the lease while a turn runs; ends when dropped. When the lease is lost, or might be because it could not be
    /// renewed in time, `stop` fires: the next owner must not meet a tool of this turn.
    pub(crate) fn keep_alive(&self, stop: CancellationToken) -> KeepAlive {
        let is_lost = Arc::new(AtomicBool::new(false));
        let Some(lease) = self.lease.clone() else {
            is_lost.store(true, Ordering::Release);
            stop.cancel();
            return KeepAlive { is_lost, task: None };
        };
        let (log, lost, ttl) = (self.log.clone(), is_lost.clone(), self.ttl);
        let task = tokio::spawn(async move {
            let mut last_renewed = Instant::now();
            loop {
                let deadline = last_renewed + ttl - ttl / LEASE_MARGIN;
                tokio::time::sleep_until((last_renewed + ttl / 3).min(deadline)).await;
                let asked = Instant::now();
                let renewed = tokio::time::timeout_at(deadline, renew(&*log, &lease, deadline)).await;
                match renewed {
                    Ok(Ok(())) => last_renewed = asked,
                    Ok(Err(_)) | Err(_) => {
                        lost.store(true, Ordering::Release);
                        stop.cancel();
                        return;
                    }
                }
            }
        });
        KeepAlive {
            is_lost,
            task: Some(task),
        }
    }

    /// Gives the right to write back.
    pub(crate) async fn release(&mut self) -> Result<(), RunError> {
        match self.lease.take() {
            Some(lease) => Ok(self.log.release(&lease).await?),
            None => Ok(()),
        }
    }

    /// What [`release`](Self::release) would do, for a journal that is going away.
    pub(crate) fn take_lease(&mut self) -> Option<(Arc<dyn Store>, Lease)> {
        Some((self.log.clone(), self.lease.take()?))
    }
}

/// Renews until it works, it is certain that it never will, or the deadline has passed.
async fn renew(log: &dyn Store, lease: &Lease, deadline: Instant) -> Result<(), LogError> {
    let pause = lease.ttl() / 60;
    loop {
        match log.renew(lease).await {
            Ok(()) => return Ok(()),
            Err(error @ (LogError::Conflict { .. } | LogError::NotFound { .. } | LogError::Closed)) => {
                return Err(error);
            }
            Err(error) if Instant::now() + pause >= deadline => return Err(error),
            Err(_) => tokio::time::sleep(pause).await,
        }
    }
}

/// Renews a lease until dropped.
pub(crate) struct KeepAlive {
    is_lost: Arc<AtomicBool>,
    task: Option<tokio::task::JoinHandle<()>>,
}

impl KeepAlive {
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }
}

impl Drop for KeepAlive {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}
