//! Watching a conversation: its blocks without loss, and what happens between them as far as the watcher keeps up.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use annals_core::block::Block;
use annals_core::ids::{ConversationKey, Seq, TurnId};
use annals_store::{BlockLogExt as _, LogError, Store};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use tokio::time::Sleep;

use crate::error::RunError;
use crate::listen::{Delta, Update};
use crate::ring::{Lagged, Receiver};
use crate::runtime::Slot;

/// Blocks read from the log at once.
const PAGE_BLOCKS: usize = 256;

/// A block that was committed here is handed over within this, unless its owner is gone.
const HANDED_OVER_WITHIN: Duration = Duration::from_millis(20);

/// One subscriber of a conversation. It never holds up the turn: blocks come from the log, in order and without a gap;
/// deltas, and when tools begin, are left out where the subscriber is too slow, and an [`Update::Gap`] says so. What the
/// model has produced so far of an answer comes first, and again after a gap. Where the log has lost blocks that were handed
/// out, an [`Update::Lost`] says so, and what is there in their place follows.
pub struct Subscription {
    key: ConversationKey,
    log: Arc<dyn Store>,
    /// The last block that was handed out.
    last: Option<Seq>,
    /// By what it is known again; none while only its number is known.
    last_mark: Option<u64>,
    /// The last model call of which a block was handed out: what it produced is durable.
    durable: Option<(TurnId, u32)>,
    /// Whether the log may hold blocks after it.
    is_behind: bool,
    /// Blocks that the log told of while their owner in this process was about to hand them over.
    awaited: Option<Awaited>,
    ready: VecDeque<Update>,
    /// What the model had produced when `live` began; handed out once the blocks before it are.
    open: Option<Vec<Delta>>,
    live: Receiver<Arc<Update>>,
    /// Tells of blocks that other processes write.
    tails: BoxStream<'static, Result<Seq, LogError>>,
    /// Keeps what `live` is told by.
    slot: Arc<Slot>,
}

/// Blocks on their way from the owner of the conversation.
struct Awaited {
    /// The last of them.
    seq: Seq,
    /// Until it is read from the log instead.
    patience: Pin<Box<Sleep>>,
}

/// Ends with the patience for blocks that are awaited.
async fn in_vain(awaited: Option<&mut Awaited>) {
    match awaited {
        Some(awaited) => awaited.patience.as_mut().await,
        None => std::future::pending().await,
    }
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
            tails: log.follow_later(&key),
            key,
            log,
            last: after,
            last_mark: None,
            durable: None,
            is_behind: true,
            awaited: None,
            ready: VecDeque::new(),
            open: Some(open),
            live,
            slot,
        }
    }

    pub(crate) fn key(&self) -> &ConversationKey {
        &self.key
    }

    /// The conversation had come so far after the subscription was made: what is after it will be told.
    pub(crate) fn begin(&mut self, tail: Option<Seq>) {
        self.is_behind = tail > self.last;
    }

    /// Whether this process owns the conversation, or is about to.
    pub fn is_open_here(&self) -> bool {
        self.slot.is_open()
    }

    /// The next update; waits for it.
    pub async fn next(&mut self) -> Result<Update, RunError> {
        loop {
            if let Some(update) = self.ready.pop_front() {
                match &update {
                    Update::Block(block) => {
                        self.last = Some(block.seq);
                        self.last_mark = Some(mark(block));
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
            let last = self.last;
            self.awaited = self.awaited.take().filter(|awaited| Some(awaited.seq) > last);
            tokio::select! {
                biased;
                told = self.live.recv() => self.hear(told),
                tail = self.tails.next() => match tail {
                    Some(tail) => self.told_of(tail?),
                    None => return Err(RunError::Stopped),
                },
                () = in_vain(self.awaited.as_mut()) => {
                    self.awaited = None;
                    self.is_behind = true;
                }
            }
        }
    }

    /// The log has grown. Where its owner is in this process, the blocks come from there a moment later, and need not be read.
    fn told_of(&mut self, tail: Seq) {
        if Some(tail) <= self.last {
            return;
        }
        if !self.slot.is_open() {
            self.is_behind = true;
            return;
        }
        match &mut self.awaited {
            // Patience began with the first of them.
            Some(awaited) => awaited.seq = awaited.seq.max(tail),
            None => {
                self.awaited = Some(Awaited {
                    seq: tail,
                    patience: Box::pin(tokio::time::sleep(HANDED_OVER_WITHIN)),
                });
            }
        }
    }

    fn hear(&mut self, told: Result<Arc<Update>, Lagged>) {
        match told.map(Arc::unwrap_or_clone) {
            Ok(Update::Block(block)) => match block.seq.cmp(&self.expected()) {
                Ordering::Less if self.is_in_place_of_last(&block) => self.go_back(Seq::FIRST),
                Ordering::Less => {}
                Ordering::Equal => self.ready.push_back(Update::Block(block)),
                Ordering::Greater => self.is_behind = true,
            },
            Ok(Update::Lost { first }) if self.last >= Some(first) => self.go_back(first),
            // None of them was handed out.
            Ok(Update::Lost { .. }) => self.is_behind = true,
            Ok(update) => self.ready.push_back(update),
            Err(Lagged(missed)) => {
                self.ready.push_back(Update::Gap { missed });
                let (live, open) = self.slot.subscribers.subscribe();
                (self.live, self.open) = (live, Some(open));
                self.is_behind = true;
            }
        }
    }

    fn is_durable(&self, delta: &Delta) -> bool {
        let durable = self.durable.as_ref();
        durable.is_some_and(|(turn, step)| *turn == delta.turn && delta.step <= *step)
    }

    fn expected(&self) -> Seq {
        self.last.map_or(Seq::FIRST, Seq::next)
    }

    /// Whether this is another block than the one that was handed out last, with its number.
    fn is_in_place_of_last(&self, block: &Block) -> bool {
        Some(block.seq) == self.last && self.last_mark.is_some_and(|known| known != mark(block))
    }

    /// Blocks from this one on were handed out and are no longer the conversation's.
    fn go_back(&mut self, first: Seq) {
        self.last = first.get().checked_sub(1).and_then(|seq| Seq::try_new(seq).ok());
        (self.last_mark, self.durable, self.awaited) = (None, None, None);
        self.ready.push_back(Update::Lost { first });
        self.is_behind = true;
    }

    /// Reads on after the last block that was handed out, and that one again: where it is gone, or another in its place, it
    /// is not known which of those before it still hold.
    async fn read_on(&mut self) -> Result<(), RunError> {
        let known = self.last.filter(|_| self.last_mark.is_some());
        let after = match known {
            Some(last) => last.get().checked_sub(1).and_then(|seq| Seq::try_new(seq).ok()),
            None => self.last,
        };
        let read_max = PAGE_BLOCKS + usize::from(known.is_some());
        let page = self.log.read_after(&self.key, after, read_max).await?;
        let is_full = page.len() == read_max;
        let mut blocks = page.into_iter();
        if known.is_some() && blocks.next().map(|block| mark(&block)) != self.last_mark {
            self.go_back(Seq::FIRST);
            return Ok(());
        }
        self.is_behind = is_full;
        self.ready
            .extend(blocks.map(|block| Update::Block(Arc::new(block))));
        Ok(())
    }
}

/// By what a block is known again. Another one in its place has another time, in microseconds.
fn mark(block: &Block) -> u64 {
    let mut hasher = DefaultHasher::new();
    (block.seq, block.ts, &block.turn, &block.kind, &block.path).hash(&mut hasher);
    hasher.finish()
}
