//! The one hand that writes: append before act, append before show.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use annals_core::block::{Block, NewBlock};
use annals_core::view::View;
use annals_store::{Append, BatchId, BlockLog, Lease};
use annals_tools::SharedTimeline;

use crate::error::RunError;
use crate::listen::{Listen, Nobody, Update};
use crate::world::World;

/// How long a writer may be silent before another may take its place.
pub(crate) const LEASE_TTL: Duration = Duration::from_secs(60);

/// Writes one conversation: seals drafts, makes them durable, folds them in, shows them. In this order.
pub(crate) struct Journal {
    log: Arc<dyn BlockLog>,
    lease: Lease,
    timeline: SharedTimeline,
    world: World,
    listener: Arc<dyn Listen>,
}

impl Journal {
    pub(crate) fn new(log: Arc<dyn BlockLog>, lease: Lease, timeline: SharedTimeline, world: World) -> Self {
        Journal {
            log,
            lease,
            timeline,
            world,
            listener: Arc::new(Nobody),
        }
    }

    pub(crate) fn set_listener(&mut self, listener: Arc<dyn Listen>) {
        self.listener = listener;
    }

    pub(crate) fn tell(&self, update: Update) {
        self.listener.on(update);
    }

    pub(crate) fn listener(&self) -> &Arc<dyn Listen> {
        &self.listener
    }

    /// Makes these blocks durable, all or none, then shows them.
    pub(crate) async fn append(&mut self, drafts: Vec<NewBlock>) -> Result<(), RunError> {
        if drafts.is_empty() {
            return Ok(());
        }
        let now = self.world.now();
        let (tail, mut seq) = self.read(|timeline| (timeline.tail(), timeline.next_seq()));
        let mut blocks = Vec::with_capacity(drafts.len());
        for draft in drafts {
            blocks.push(draft.seal(seq, now));
            seq = seq.next();
        }
        let batch = BatchId::new(self.world.random());
        let append = Append::new(batch, tail, blocks.clone());
        self.log.append(&self.lease, append).await?;
        let blocks: Vec<Arc<Block>> = blocks.into_iter().map(Arc::new).collect();
        {
            let mut timeline = self.timeline.write().unwrap_or_else(PoisonError::into_inner);
            let timeline = Arc::make_mut(&mut timeline);
            for block in &blocks {
                timeline.push(block.clone()).map_err(|source| RunError::Fold {
                    conversation: self.lease.key().id.clone(),
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

    /// The timeline as it is now, shared; whoever still holds it at the next append makes that one costly.
    pub(crate) fn snapshot(&self) -> Arc<View> {
        self.timeline
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Keeps the right to write while nothing is written; ends when dropped.
    pub(crate) fn keep_alive(&self) -> KeepAlive {
        let (log, lease) = (self.log.clone(), self.lease.clone());
        KeepAlive(tokio::spawn(async move {
            let mut ticks = tokio::time::interval(LEASE_TTL / 3);
            ticks.tick().await;
            loop {
                ticks.tick().await;
                // A lost lease shows at the next append, which is where it can be handled.
                if log.renew(&lease).await.is_err() {
                    return;
                }
            }
        }))
    }

    /// Gives the right to write back.
    pub(crate) async fn release(&self) -> Result<(), RunError> {
        Ok(self.log.release(&self.lease).await?)
    }
}

/// Renews a lease until dropped.
pub(crate) struct KeepAlive(tokio::task::JoinHandle<()>);

impl Drop for KeepAlive {
    fn drop(&mut self) {
        self.0.abort();
    }
}
