//! The timeline: a fold over blocks, with the indexes that make every question cheap at any length.
//!
//! Pushing a block costs the size of that block. Nothing is ever scanned: artifacts are found by path, results by
//! call, rounds and turns by their lists. Hides, prunes and summaries are blocks too, so folding a prefix of the log
//! gives the exact state of that moment ([`Timeline::at`]). The timeline must not do IO and never edits a block.
//!
//! Start at [`Timeline::push`]; [`discovery`] answers "what does this path name".

mod calls;
mod discovery;
mod paths;
mod requests;
mod turns;

pub use crate::block::payload::{CallText, HideReason, HideText};
pub use calls::CallRecord;
pub use requests::{Ask, Request};
pub use turns::{Streak, Turn};

use std::sync::Arc;

use crate::block::payload::{ChildResult, PayloadError, ToolsTable, TurnReport};
use crate::block::{Block, BlockKind};
use crate::ids::{CallId, Seq, Sid, TurnId};
use crate::plan::Plan;
use crate::sources::SourcesPool;
use calls::Calls;
use paths::Paths;
use requests::Requests;
use turns::Turns;

/// Adds to a list that grows for as long as the conversation does. Doubling would keep up to half of it empty.
pub(crate) fn push_tightly<T>(list: &mut Vec<T>, value: T) {
    const DOUBLES_UP_TO: usize = 1_024;
    if list.len() == list.capacity() && list.len() >= DOUBLES_UP_TO {
        list.reserve_exact(list.len() / 8);
    }
    list.push(value);
}

/// Cited sources that are remembered as such.
const CITED_KEPT: usize = 32;

/// Index of a block in the timeline: its `seq` less one, as four bytes.
pub(crate) type Ix = u32;

/// "No block", where an index is stored in four bytes.
pub(crate) const NONE: Ix = Ix::MAX;

/// The index of the block with this place; one that no timeline reaches, for a place that is too high.
pub(crate) fn ix_of(seq: Seq) -> Ix {
    Ix::try_from(seq.get() - 1).unwrap_or(NONE)
}

/// Why a block cannot follow the ones before it.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum FoldError {
    /// A gap or a repetition in the numbering.
    #[error("block {found} cannot follow block {tail}: `seq` counts from 1 without gaps")]
    OutOfOrder {
        /// The last block folded.
        tail: u64,
        /// The block that came.
        found: u64,
    },
}

/// A conversation folded from its blocks.
#[derive(Clone, Default)]
pub struct Timeline {
    blocks: Vec<Arc<Block>>,
    paths: Paths,
    calls: Calls,
    turns: Turns,
    requests: Requests,
    pool: SourcesPool,
    plan: Option<Plan>,
    /// Sources that texts cite, the latest last.
    cited: Vec<Sid>,
    /// Internal notes.
    notes: Vec<Ix>,
    tools: Option<ToolsTable>,
    malformed: Vec<PayloadError>,
    hides: u32,
    last_summary: Option<Seq>,
}

impl Timeline {
    /// The timeline of these blocks.
    pub fn fold(blocks: impl IntoIterator<Item = Arc<Block>>) -> Result<Self, FoldError> {
        let mut timeline = Timeline::default();
        for block in blocks {
            timeline.push(block)?;
        }
        Ok(timeline)
    }

    /// Folds one more block in.
    pub fn push(&mut self, block: Arc<Block>) -> Result<(), FoldError> {
        let ix = self.blocks.len() as Ix;
        if block.seq.get() != u64::from(ix) + 1 {
            return Err(FoldError::OutOfOrder {
                tail: u64::from(ix),
                found: block.seq.get(),
            });
        }
        push_tightly(&mut self.blocks, block);
        let block = &self.blocks[ix as usize];
        if self.turns.begins_with(block) {
            self.calls.abandon_open(ix);
            self.requests.forget();
        }
        let digest = self.paths.push(&self.blocks, ix);
        let call = self.calls.push(&self.blocks, ix);
        let turn = self.turns.push(block, ix, &self.calls);
        let request = self.requests.push(block);
        let meaning = self.fold_meaning(ix);
        let read = [digest, call, turn, request, meaning];
        self.malformed.extend(read.into_iter().filter_map(Result::err));
        Ok(())
    }

    fn fold_meaning(&mut self, ix: Ix) -> Result<(), PayloadError> {
        let block = &self.blocks[ix as usize];
        if !block.meta().sources.is_empty() {
            self.pool.restore(&block.meta().sources);
        }
        for sid in &block.meta().sources_used {
            self.cited.retain(|known| known != sid);
            self.cited.push(*sid);
        }
        self.cited.drain(..self.cited.len().saturating_sub(CITED_KEPT));
        match &block.kind {
            BlockKind::Plan => self.plan = Some(block.payload()?),
            BlockKind::ToolsTable => self.tools = Some(block.payload()?),
            BlockKind::ChildResult => drop(block.payload::<ChildResult>()?),
            BlockKind::Note => self.notes.push(ix),
            BlockKind::TimelineHide => self.hides += 1,
            BlockKind::RangeSummary => self.last_summary = Some(block.seq),
            _ => {}
        }
        Ok(())
    }

    /// The timeline as it was when this block was the last one.
    pub fn at(&self, seq: Seq) -> Timeline {
        let end = (seq.get() as usize).min(self.blocks.len());
        Timeline::fold(self.blocks[..end].iter().cloned()).expect("a prefix of a timeline is a timeline")
    }

    /// All blocks, oldest first.
    pub fn blocks(&self) -> &[Arc<Block>] {
        &self.blocks
    }

    /// The block with this place.
    pub fn block(&self, seq: Seq) -> Option<&Arc<Block>> {
        self.blocks.get(usize::try_from(seq.get()).ok()?.checked_sub(1)?)
    }

    pub(crate) fn at_ix(&self, ix: Ix) -> &Block {
        &self.blocks[ix as usize]
    }

    /// The last block's place, if there is one.
    pub fn tail(&self) -> Option<Seq> {
        self.blocks.last().map(|block| block.seq)
    }

    /// The place the next block gets.
    pub fn next_seq(&self) -> Seq {
        self.tail().map_or(Seq::FIRST, Seq::next)
    }

    /// The sources pool.
    pub fn pool(&self) -> &SourcesPool {
        &self.pool
    }

    /// Sources that texts cite, the latest last; at most a few dozen.
    pub fn cited(&self) -> &[Sid] {
        &self.cited
    }

    /// Internal notes before this block, oldest first.
    pub(crate) fn notes_before(&self, end: Seq) -> impl DoubleEndedIterator<Item = &Block> {
        let end = self.notes.partition_point(|&ix| ix < ix_of(end));
        self.notes[..end].iter().map(|&ix| self.at_ix(ix))
    }

    /// The active plan: the latest snapshot, unless it was closed.
    pub fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref().filter(|plan| !plan.is_closed())
    }

    /// All turns, oldest first.
    pub fn turns(&self) -> &[Turn] {
        self.turns.list()
    }

    /// The last turn, finished or not.
    pub fn current_turn(&self) -> Option<&Turn> {
        self.turns.list().last()
    }

    /// The turn with this id.
    pub fn turn(&self, id: &TurnId) -> Option<&Turn> {
        self.turns.get(id)
    }

    /// The blocks of a turn. Turns are contiguous: a turn ends where the next one begins.
    pub fn turn_blocks(&self, turn: &Turn) -> &[Arc<Block>] {
        &self.blocks[turn.first as usize..self.turn_end(turn)]
    }

    /// How a turn says that it ended; nothing while it runs, or when what it says cannot be read.
    pub fn report(&self, turn: &Turn) -> Option<TurnReport> {
        let mut blocks = self.turn_blocks(turn).iter().rev();
        let end = blocks.find(|block| block.kind == BlockKind::ReactCompletion && block.turn == turn.id)?;
        end.folded_payload()
    }

    /// Where the blocks of a turn end.
    pub(crate) fn turn_end(&self, turn: &Turn) -> usize {
        self.turns.end_of(turn).unwrap_or(self.blocks.len())
    }

    /// The turn that was running when this block was written.
    pub(crate) fn turn_around(&self, ix: Ix) -> &Turn {
        let begun = self.turns().partition_point(|turn| turn.first <= ix);
        &self.turns()[begun - 1]
    }

    /// What is known of a call.
    pub fn call(&self, id: &CallId) -> Option<&CallRecord> {
        self.calls.get(id)
    }

    /// Which tool a call called.
    pub fn tool_of(&self, id: &CallId) -> Option<&str> {
        self.calls.get(id).map(|call| &*call.tool)
    }

    /// The call block of a call; [`CallText`] is its form.
    pub fn call_block(&self, id: &CallId) -> Option<&Block> {
        self.calls.get(id).map(|record| self.at_ix(record.call))
    }

    /// Calls of the current turn that have not all their results yet, in the order the model made them.
    pub fn open_calls(&self) -> impl Iterator<Item = &CallRecord> {
        self.calls.open()
    }

    /// What the current turn waits for: requests without an answer, whose calls have no result.
    pub fn waiting(&self) -> impl Iterator<Item = &Request> {
        self.requests.pending(&self.calls)
    }

    /// Everything the current turn asked for, answered or not, oldest first.
    pub fn requests(&self) -> &[Request] {
        self.requests.list()
    }

    /// What was asked about a call of the current turn, in order.
    pub fn requests_of(&self, call: &CallId) -> impl DoubleEndedIterator<Item = &Request> {
        self.requests
            .list()
            .iter()
            .filter(move |request| request.call == *call)
    }

    /// The call of the current turn that a person refused in a way that ends the turn.
    pub(crate) fn stopped_by(&self) -> Option<&CallId> {
        self.requests.stopped_by()
    }

    /// The tools that the model was last offered, if that was written down.
    pub fn tools(&self) -> Option<&ToolsTable> {
        self.tools.as_ref()
    }

    /// Blocks whose text has not the form of their type. They are kept and shown as text, and mean nothing else.
    pub fn malformed(&self) -> &[PayloadError] {
        &self.malformed
    }

    /// Notes a block whose text only another fold reads.
    pub(crate) fn note_malformed(&mut self, error: PayloadError) {
        self.malformed.push(error);
    }

    /// How many `timeline.hide` blocks there are; the next one's number is one more.
    pub fn hides(&self) -> u32 {
        self.hides
    }

    /// The latest summary, at which the view starts.
    pub fn last_summary(&self) -> Option<Seq> {
        self.last_summary
    }

    pub(crate) fn paths(&self) -> &Paths {
        &self.paths
    }
}
