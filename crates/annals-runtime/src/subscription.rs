//! Watching a conversation: its blocks without loss, and what happens between them as far as the watcher keeps up.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use annals_core::ids::{ConversationKey, Seq, TurnId};
use annals_store::{BlockLogExt as _, LogError, Store};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::error::RunError;
use crate::listen::{Delta, Update};
use crate::runtime::Slot;

/// Blocks read from the log at once.
const PAGE_BLOCKS: usize = 256;

/// One subscriber of a conversation. It never holds up the turn: blocks come from the log, in order and without a gap;
/// deltas, and when tools begin, are left out where the subscriber is too slow, and an [`Update::Gap`] says so. What the
/// model has produced so far of an answer comes first, and again after a gap.
pub struct Subscription {
    key: ConversationKey,
    log: Arc<dyn Store>,
    /// The last block that was handed out.
    last: Option<Seq>,
    /// The last model call of which a block was handed out: what it produced is durable.
    durable: Option<(TurnId, u32)>,
    /// Whether the log may hold blocks after it.
    is_behind: bool,
    ready: VecDeque<Update>,
    /// What the model had produced when `live` began; handed out once the blocks before it are.
    open: Option<Vec<Delta>>,
    live: Receiver<Arc<Update>>,
    /// Tells of blocks that other processes write.
    tails: BoxStream<'static, Result<Seq, LogError>>,
    /// Keeps the sender of `live`.
    slot: Arc<Slot>,
}

impl Subscription {
    pub(crate) fn new(
        key: ConversationKey,
        log: Arc<dyn Store>,
        after: Option<Seq>,
        slot: Arc<Slot>,
    ) -> Self {
        // Subscribed before the first look into the log, so that nothing falls in between.
        let (live, open) = slot.subscribers.subscribe();
        Subscription {
            tails: log.follow(&key, after),
            key,
            log,
            last: after,
            durable: None,
            is_behind: true,
            ready: VecDeque::new(),
            open: Some(open),
            live,
            slot,
        }
    }

    /// The next update; waits for it.
    pub async fn next(&mut self) -> Result<Update, RunError> {
        loop {
            if let Some(update) = self.ready.pop_front() {
                match &update {
                    Update::Block(block) => {
                        self.last = Some(block.seq);
                        let step = block.meta().step;
                        self.durable = step
                            .map(|step| (block.turn.clone(), step))
                            .or(self.durable.take());
                    }
                    // Its block came from the log before it came from the turn.
                    Update::Delta(delta) if self.is_durable(delta) => continue,
                    _ => {}
                }
                return Ok(update);
            }
            if self.is_behind {
                self.read_on().await?;
                continue;
            }
            if let Some(open) = self.open.take() {
                self.ready.extend(open.into_iter().map(Update::Delta));
                continue;
            }
            tokio::select! {
                biased;
                told = self.live.recv() => self.hear(told)?,
                tail = self.tails.next() => match tail {
                    Some(tail) => self.is_behind = Some(tail?) > self.last,
                    None => return Err(RunError::Stopped),
                },
            }
        }
    }

    fn hear(&mut self, told: Result<Arc<Update>, RecvError>) -> Result<(), RunError> {
        match told.map(Arc::unwrap_or_clone) {
            Ok(Update::Block(block)) => match block.seq.cmp(&self.expected()) {
                Ordering::Less => {}
                Ordering::Equal => self.ready.push_back(Update::Block(block)),
                Ordering::Greater => self.is_behind = true,
            },
            Ok(update) => self.ready.push_back(update),
            Err(RecvError::Lagged(missed)) => {
                self.ready.push_back(Update::Gap { missed });
                let (live, open) = self.slot.subscribers.subscribe();
                (self.live, self.open) = (live, Some(open));
                self.is_behind = true;
            }
            // The slot keeps the sender.
            Err(RecvError::Closed) => return Err(RunError::Stopped),
        }
        Ok(())
    }

    fn is_durable(&self, delta: &Delta) -> bool {
        let durable = self.durable.as_ref();
        durable.is_some_and(|(turn, step)| *turn == delta.turn && delta.step <= *step)
    }

    fn expected(&self) -> Seq {
        self.last.map_or(Seq::FIRST, Seq::next)
    }

    async fn read_on(&mut self) -> Result<(), RunError> {
        let page = self.log.read_after(&self.key, self.last, PAGE_BLOCKS).await?;
        self.is_behind = page.len() == PAGE_BLOCKS;
        let blocks = page.into_iter().map(|block| Update::Block(Arc::new(block)));
        self.ready.extend(blocks);
        Ok(())
    }
}
