//! The one hand that writes: append before act, append before show. It holds the lease and knows when it is behind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use annals_core::block::{Block, NewBlock};
use annals_core::ids::{ConversationKey, Seq};
use annals_core::redact::Redactor;
use annals_core::view::View;
use annals_store::{
    Append, BatchId, BlockLogExt as _, InboxId, Lease, LogError, Stale, Store, StoredAnswer, Work,
};
use annals_tools::SharedTimeline;
use annals_tools::cx::Guard;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::durations::Durations;
use crate::error::RunError;
use crate::listen::{Audience, Listen, Subscribers, Update};
use crate::membership::{Deadline, Life, Membership, until_lost};
use crate::redaction::Redaction;
use crate::runtime::RuntimeParts;
use crate::world::World;

/// How long a writer may be silent before another may take its place, unless the runtime is told otherwise.
pub(crate) const LEASE_TTL: Duration = Duration::from_secs(60);

/// Writes one conversation: seals drafts, makes them durable, folds them in, shows them. In this order.
pub(crate) struct Journal {
    key: ConversationKey,
    log: Arc<dyn Store>,
    membership: Arc<Membership>,
    ttl: Duration,
    /// None once it was lost to another writer.
    held: Option<Held>,
    /// Whether the log may hold blocks that are not folded in: an append whose end nobody saw, or a lost lease.
    is_behind: bool,
    /// Whether the conversation was removed, and another may bear its name.
    is_deleted: bool,
    timeline: SharedTimeline,
    /// How long appends took.
    appended: Arc<Durations>,
    world: World,
    audience: Audience,
    redaction: Redaction,
}

impl Journal {
    pub(crate) fn new(
        runtime: &RuntimeParts,
        lease: Lease,
        life: Life,
        timeline: SharedTimeline,
        subscribers: Subscribers,
    ) -> Self {
        Journal {
            key: lease.key().clone(),
            ttl: lease.ttl(),
            log: runtime.log.clone(),
            membership: runtime.membership.clone(),
            held: Some(Held::new(lease, life)),
            is_behind: false,
            is_deleted: false,
            timeline,
            world: runtime.world.clone(),
            appended: runtime.appended.clone(),
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
        if self.is_deleted {
            let id = self.key.id.clone();
            return Err(LogError::NotFound { id }.into());
        }
        if !self.is_held_for_long().await {
            let life = self.membership.life();
            let lease = self.log.acquire(&self.key, &life.owner, self.ttl).await?;
            self.adopt(lease, life);
        }
        match self.is_behind {
            true => self.catch_up().await,
            false => Ok(()),
        }
    }

    /// Folds in what the log has beyond the last block that is known. Where it does not have that one, or another in its
    /// place, the log went back, as a server does that takes the place of one whose last commits it never got: then
    /// everything is folded again, and the loss is reported, once.
    async fn catch_up(&mut self) -> Result<(), RunError> {
        let known = self.read(|timeline| timeline.blocks().last().cloned());
        let before = known.as_ref().and_then(|known| known.seq.get().checked_sub(1));
        let before = before.and_then(|seq| Seq::try_new(seq).ok());
        let mut blocks = self.log.read_after(&self.key, before, usize::MAX).await?;
        match known {
            Some(known) if !blocks.first().is_some_and(|first| is_same(first, &known)) => {
                return self.fold_again().await;
            }
            Some(_) => drop(blocks.remove(0)),
            None => {}
        }
        self.fold(blocks.into_iter().map(Arc::new).collect())?;
        self.is_behind = false;
        Ok(())
    }

    async fn fold_again(&mut self) -> Result<(), RunError> {
        let blocks = self.log.read_all(&self.key).await?;
        let conversation = self.key.id.clone();
        let (same, known, rule) = self.read(|timeline| {
            let pairs = timeline.blocks().iter().zip(&blocks);
            let same = pairs.take_while(|(known, stored)| is_same(known, stored)).count();
            (same, timeline.blocks().len(), timeline.media_rule())
        });
        let folded = View::new(rule).with(blocks.into_iter().map(Arc::new));
        let folded = folded.map_err(|source| RunError::Fold {
            conversation: conversation.clone(),
            source,
        })?;
        *self.timeline.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(folded);
        self.is_behind = false;
        let first = Seq::try_new(same as u64 + 1).unwrap_or(Seq::FIRST);
        let lost = RunError::BlocksLost {
            conversation,
            lost: (known - same) as u64,
            first,
        };
        tracing::error!(error = %lost, "the log went back");
        self.audience.tell(Update::Lost { first });
        Err(lost)
    }

    /// Removes the conversation from the log. What is left of it here is empty and cannot be written.
    pub(crate) async fn delete(&mut self) -> Result<(), RunError> {
        let lease = self.held()?.lease.clone();
        self.log.delete(&lease).await?;
        (self.held, self.is_deleted) = (None, true);
        let rule = self.read(|timeline| timeline.media_rule());
        *self.timeline.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(View::new(rule));
        Ok(())
    }

    /// Whether the lease lasts, renewed if it would end soon.
    async fn is_held_for_long(&self) -> bool {
        let Ok(held) = self.held() else { return false };
        if !held.until.is_near(self.ttl) {
            return true;
        }
        let asked = Instant::now();
        let renewed = self.log.renew(&held.lease).await;
        if renewed.is_ok() {
            held.until.renewed(asked, self.ttl);
        }
        renewed.is_ok()
    }

    /// Writes on with a lease that the store gave out, unless the one it has is newer.
    pub(crate) fn adopt(&mut self, lease: Lease, life: Life) {
        let own = self.held.as_ref().map(|held| held.lease.token());
        if own > Some(lease.token()) {
            return;
        }
        self.held = Some(Held::new(lease, life));
        self.is_behind = true;
    }

    /// Makes these blocks durable, all or none, then shows them.
    pub(crate) async fn append(&mut self, drafts: Vec<NewBlock>) -> Result<(), RunError> {
        self.append_consuming(drafts, Vec::new(), Work::Keep).await
    }

    /// Makes these blocks durable, and in the same commit what their request is answered.
    pub(crate) async fn append_answering(
        &mut self,
        drafts: Vec<NewBlock>,
        answer: Option<StoredAnswer>,
    ) -> Result<(), RunError> {
        let blocks = self.seal(drafts);
        self.commit(blocks, |append| append.answering(answer)).await
    }

    /// Makes these blocks durable; the rows of the inbox that they write down are gone in the same commit, which also says
    /// what remains to be done once nobody holds the conversation.
    pub(crate) async fn append_consuming(
        &mut self,
        drafts: Vec<NewBlock>,
        rows: Vec<InboxId>,
        work: Work,
    ) -> Result<(), RunError> {
        if drafts.is_empty() && rows.is_empty() && work == Work::Keep {
            return Ok(());
        }
        let blocks = self.seal(drafts);
        self.commit(blocks, |append| append.consuming(rows).work(work))
            .await
    }

    /// Makes the last blocks of a turn durable, unless something was posted after the row that was seen last: then nothing
    /// is changed, and the answer is no.
    pub(crate) async fn append_unless_posted(
        &mut self,
        drafts: Vec<NewBlock>,
        rows: Vec<InboxId>,
        seen: InboxId,
    ) -> Result<bool, RunError> {
        let blocks = self.seal(drafts);
        let last = |append: Append| append.consuming(rows).work(Work::Done).having_seen(seen);
        match self.commit(blocks, last).await {
            Err(RunError::Log(LogError::Conflict {
                stale: Stale::Posted { .. },
                ..
            })) => Ok(false),
            done => done.map(|()| true),
        }
    }

    /// Numbers drafts on from the last block.
    fn seal(&mut self, drafts: Vec<NewBlock>) -> Vec<Block> {
        let now = self.world.now();
        let mut seq = self.read(|timeline| timeline.next_seq());
        let mut blocks = Vec::with_capacity(drafts.len());
        for draft in drafts {
            blocks.push(self.redaction.block(draft).seal(seq, now));
            seq = seq.next();
        }
        blocks
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
            false => self.commit(blocks, |append| append).await,
        }
    }

    /// Appends these blocks, with what else goes into the commit.
    async fn commit(
        &mut self,
        blocks: Vec<Block>,
        complete: impl FnOnce(Append) -> Append,
    ) -> Result<(), RunError> {
        let held = self.held()?;
        let tail = self.read(|timeline| timeline.tail());
        let batch = BatchId::new(self.world.random());
        let append = complete(Append::new(batch, tail, blocks.clone()));
        let (lease, until) = (held.lease.clone(), held.until.clone());
        // Until the answer is here, and when this future is dropped, nobody knows whether the blocks are in the log.
        self.is_behind = true;
        let (asked, began) = (Instant::now(), self.world.now());
        let appended = self.log.append(&lease, append).await;
        self.appended
            .observe(Duration::from_micros(self.world.now().micros_since(began)));
        if let Err(error) = appended {
            match &error {
                // Refused as it was meant to be: the lease holds, and nothing was written.
                LogError::Conflict {
                    stale: Stale::Posted { .. },
                    ..
                } => self.is_behind = false,
                LogError::Conflict { .. } => self.held = None,
                _ => {}
            }
            return Err(error.into());
        }
        // An append prolongs its lease.
        until.renewed(asked, lease.ttl());
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

    /// Fails once another process may act in this one's place.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        self.held().map(drop)
    }

    /// What tells tools until when this process may act, whenever they ask.
    pub(crate) fn guard(&self) -> Guard {
        let held = self.held.clone();
        Arc::new(move || held.as_ref()?.acts_until())
    }

    fn held(&self) -> Result<&Held, RunError> {
        let held = self.held.as_ref();
        let held = held.ok_or_else(|| RunError::LeaseLost(self.key.id.clone()))?;
        held.check().map(|()| held)
    }

    /// Keeps the lease while a turn runs; ends when dropped. When the lease is lost, or might be because it could not be
    /// renewed in time, `stop` fires: the next owner must not meet a tool of this turn.
    pub(crate) fn keep_alive(&self, stop: CancellationToken) -> KeepAlive {
        let Some(kept) = self.held.clone() else {
            stop.cancel();
            return KeepAlive { _task: None };
        };
        let log = self.log.clone();
        let task = tokio::spawn(async move {
            let renew = || {
                let (log, lease) = (log.clone(), kept.lease.clone());
                async move { log.renew(&lease).await }
            };
            tokio::select! {
                () = kept.life.over.cancelled() => {}
                () = until_lost(kept.lease.ttl(), &kept.until, renew) => {}
            }
            kept.is_lost.store(true, Ordering::Release);
            stop.cancel();
        });
        KeepAlive {
            _task: Some(AbortOnDropHandle::new(task)),
        }
    }

    /// Gives the right to write back.
    pub(crate) async fn release(&mut self) -> Result<(), RunError> {
        match self.held.take() {
            Some(held) => Ok(self.log.release(&held.lease).await?),
            None => Ok(()),
        }
    }

    /// What [`release`](Self::release) would do, for a journal that is going away.
    pub(crate) fn take_lease(&mut self) -> Option<(Arc<dyn Store>, Lease)> {
        Some((self.log.clone(), self.held.take()?.lease))
    }
}

/// Whether a block that was read is the one that is known. What only describes it may come back in another form.
fn is_same(read: &Block, known: &Block) -> bool {
    let told = |block: &Block| (block.seq, block.ts, block.kind.clone(), block.path.clone());
    told(read) == told(known) && read.turn == known.turn && read.body == known.body
}

/// A lease, the life of this process in which it was taken, and whether it must be taken for lost.
#[derive(Clone)]
struct Held {
    lease: Lease,
    life: Life,
    until: Deadline,
    is_lost: Arc<AtomicBool>,
}

impl Held {
    fn new(lease: Lease, life: Life) -> Self {
        Held {
            until: Deadline::of(life.asking, lease.ttl()),
            lease,
            life,
            is_lost: Arc::default(),
        }
    }

    /// Until when this process may act, unless that is prolonged; nothing once another may act in its place.
    fn acts_until(&self) -> Option<std::time::Instant> {
        self.check().ok()?;
        let own = self.until.get()?;
        Some(self.life.until.get().map_or(own, |life| life.min(own)).into_std())
    }

    /// Fails once another process may act in this one's place.
    fn check(&self) -> Result<(), RunError> {
        match self.is_lost.load(Ordering::Acquire) || self.life.is_over() || self.until.has_passed() {
            false => Ok(()),
            true if self.life.is_stopping() => Err(RunError::Stopped),
            true => Err(RunError::LeaseLost(self.lease.key().id.clone())),
        }
    }
}

/// Renews a lease until dropped.
pub(crate) struct KeepAlive {
    _task: Option<AbortOnDropHandle<()>>,
}
