//! One append: blocks, what they consume of the inbox, and what work remains, in one commit.

use std::time::Duration;

use annals_core::block::Block;
use annals_core::ids::Seq;

use super::{InboxId, StoredAnswer};

/// Names one append, so that it can be asked for again when its answer was lost. Drawn at random by the caller; never
/// used for other content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BatchId(u64);

impl BatchId {
    /// The batch of these random bits.
    pub fn new(random: u64) -> Self {
        BatchId(random)
    }

    /// The bits.
    pub fn get(self) -> u64 {
        self.0
    }
}

/// What remains to be done for a conversation once nobody holds it: see [`Claims`](super::Claims).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Work {
    /// As before.
    #[default]
    Keep,
    /// Somebody must take it up after this time, by the store's clock.
    DueIn(Duration),
    /// Nothing, unless the inbox holds more.
    Done,
}

/// What to append.
#[derive(Clone, Debug, PartialEq)]
pub struct Append {
    /// The last block that the writer knows; none when it takes the log for empty.
    pub expected_tail: Option<Seq>,
    /// The blocks, numbered on from there. There may be none if something is consumed or the work changes.
    pub blocks: Vec<Block>,
    /// Which append this is.
    pub batch: BatchId,
    /// Rows of the inbox that these blocks write down. They are gone when the blocks are there.
    pub consumes: Vec<InboxId>,
    /// What work remains.
    pub work: Work,
    /// What its request is answered, if it may be sent again: see [`Answers`](super::Answers).
    pub answer: Option<StoredAnswer>,
    /// The last row of the inbox that the writer has looked at, when the append must not overtake a post: if a later
    /// one waits, nothing is changed and the call fails with [`Stale::Posted`](super::Stale::Posted).
    pub seen: Option<InboxId>,
}

impl Append {
    /// Blocks that consume nothing and leave the work as it is.
    pub fn new(batch: BatchId, expected_tail: Option<Seq>, blocks: Vec<Block>) -> Self {
        Append {
            expected_tail,
            blocks,
            batch,
            consumes: Vec::new(),
            work: Work::Keep,
            answer: None,
            seen: None,
        }
    }

    /// Consuming these rows of the inbox.
    #[must_use]
    pub fn consuming(mut self, rows: impl IntoIterator<Item = InboxId>) -> Self {
        self.consumes.extend(rows);
        self
    }

    /// With this work remaining.
    #[must_use]
    pub fn work(mut self, work: Work) -> Self {
        self.work = work;
        self
    }

    /// With what its request is answered.
    #[must_use]
    pub fn answering(mut self, answer: Option<StoredAnswer>) -> Self {
        self.answer = answer;
        self
    }

    /// Only if no post after this row waits.
    #[must_use]
    pub fn having_seen(mut self, row: InboxId) -> Self {
        self.seen = Some(row);
        self
    }

    /// The last block's place once this is appended.
    pub fn tail_after(&self) -> Option<Seq> {
        self.blocks.last().map(|block| block.seq).or(self.expected_tail)
    }
}
