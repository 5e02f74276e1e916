//! Callers that come to a turn which its owner goes on with by itself: they hear the rest of it, and what they missed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use annals_core::block::Block;
use annals_core::ids::{Seq, TurnId};
use annals_core::timeline::Timeline;

use crate::listen::{Listen, Update};

/// The turn that was unfinished when somebody opened its conversation.
///
/// The owner may go on with it before the one who opened it says what to do, because an answer for it lay in the inbox. Who
/// then asks to go on with it means this turn, even when it has ended meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct UnfinishedTurn {
    pub(crate) turn: TurnId,
    /// The last block that was there.
    tail: Seq,
}

impl UnfinishedTurn {
    pub(crate) fn in_timeline(timeline: &Timeline) -> Option<Self> {
        let open = timeline.current_turn().filter(|turn| turn.end.is_none())?;
        Some(UnfinishedTurn {
            turn: open.id.clone(),
            tail: timeline.tail()?,
        })
    }

    pub(crate) fn has_ended(&self, timeline: &Timeline) -> bool {
        timeline.turn(&self.turn).is_some_and(|turn| turn.end.is_some())
    }

    /// What the turn has got since it was found.
    pub(crate) fn missed(&self, timeline: &Timeline) -> Vec<Arc<Block>> {
        let blocks = timeline.turn(&self.turn).map(|turn| timeline.turn_blocks(turn));
        let missed = blocks.unwrap_or_default().iter();
        missed.filter(|block| block.seq > self.tail).cloned().collect()
    }
}

/// The listeners of a turn that its owner goes on with.
#[derive(Default)]
pub(crate) struct Joined(Mutex<Vec<Joiner>>);

struct Joiner {
    listener: Arc<dyn Listen>,
    /// The last block it was told.
    told: Option<Seq>,
    /// Whether it has heard the present answer from its beginning.
    hears_deltas: bool,
}

impl Joined {
    fn joiners(&self) -> MutexGuard<'_, Vec<Joiner>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody who was there before it went on.
    pub(crate) fn was_there(&self, listener: Arc<dyn Listen>) {
        self.joiners().push(Joiner {
            listener,
            told: None,
            hears_deltas: true,
        });
    }

    /// Somebody who comes while it runs, and is told at once what it missed. A block is on the timeline before anybody is
    /// told of it, so what `missed` does not give is told from here on.
    pub(crate) fn joins(&self, listener: Arc<dyn Listen>, missed: impl FnOnce() -> Vec<Arc<Block>>) {
        let mut joiners = self.joiners();
        let missed = missed();
        let told = missed.last().map(|block| block.seq);
        missed
            .into_iter()
            .for_each(|block| listener.on(Update::Block(block)));
        joiners.push(Joiner {
            listener,
            told,
            hears_deltas: false,
        });
    }
}

impl Listen for Joined {
    fn on(&self, update: Update) {
        for joiner in &mut *self.joiners() {
            match &update {
                Update::Block(block) if joiner.told >= Some(block.seq) => continue,
                Update::Block(block) => {
                    joiner.told = Some(block.seq);
                    joiner.hears_deltas = true;
                }
                Update::Restarted { .. } => joiner.hears_deltas = true,
                Update::Delta(_) if !joiner.hears_deltas => continue,
                _ => {}
            }
            joiner.listener.on(update.clone());
        }
    }
}
