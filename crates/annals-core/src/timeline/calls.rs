//! The index by call: which tool, where its blocks are, and whether all its results are there.
//!
//! A call is *open* until it is *settled*: by the last block of a group of results, or by the next turn, which
//! leaves it without. Once settled its record never changes, so whatever was rendered from it stays true; results
//! that come later still stand on the timeline, each for itself.

use std::borrow::Cow;
use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};
use serde::Deserialize;

use super::{Ix, NONE, push_tightly};
use crate::block::payload::PayloadError;
use crate::block::{Block, BlockKind};
use crate::ids::CallId;

/// What is known of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// The call.
    pub id: CallId,
    /// The tool it called.
    pub tool: Arc<str>,
    /// Which model call of the turn made it.
    pub step: u32,
    pub(crate) call: Ix,
    /// Its code block.
    pub(crate) code: Ix,
    /// What the model sent, if it could not be read.
    pub(crate) raw: Ix,
    /// First result block of the group that answers it.
    pub(crate) group: Ix,
    /// Result blocks of that group still to come.
    missing: u32,
    /// Whether it has begun; `None` where the log does not say.
    pub(crate) started: Option<bool>,
    /// The block after which the call was no longer open.
    pub(crate) settled: Ix,
}

impl CallRecord {
    /// Whether the log shows that it has not begun: then it did nothing, whatever became of its process.
    pub fn is_held(&self) -> bool {
        self.started == Some(false)
    }

    /// Whether its turn ended without any result.
    pub(crate) fn is_lost(&self) -> bool {
        self.settled != NONE && self.group == NONE
    }

    /// Whether this result block begins a group: the one that answers the call, or a late one for itself.
    pub(crate) fn begins_group(&self, ix: Ix) -> bool {
        ix == self.group || ix > self.settled
    }
}

#[derive(Clone, Default)]
pub(crate) struct Calls {
    records: Vec<CallRecord>,
    hasher: DefaultHashBuilder,
    /// Numbers of records, by id; of two calls with one id the later.
    by_id: HashTable<u32>,
    /// Records that are not settled, in call order.
    open: Vec<u32>,
    /// A code block and an unreadable answer wait here for their call.
    code: Option<(CallId, Ix)>,
    raw: Option<(CallId, Ix)>,
    tools: Vec<Arc<str>>,
}

impl Calls {
    pub(crate) fn get(&self, id: &CallId) -> Option<&CallRecord> {
        self.find(id).map(|at| &self.records[at as usize])
    }

    pub(crate) fn open(&self) -> impl Iterator<Item = &CallRecord> {
        self.open.iter().map(|&at| &self.records[at as usize])
    }

    /// A new turn begins with the block at `ix`: calls that are still open will not be answered any more.
    pub(crate) fn abandon_open(&mut self, ix: Ix) {
        for at in self.open.drain(..) {
            self.records[at as usize].settled = ix.saturating_sub(1);
        }
    }

    pub(crate) fn push(&mut self, blocks: &[Arc<Block>], ix: Ix) -> Result<(), PayloadError> {
        let block = &blocks[ix as usize];
        let Some(call) = &block.meta().call else {
            return Ok(());
        };
        match block.kind {
            BlockKind::ToolCode => self.code = Some((call.clone(), ix)),
            BlockKind::DecisionRaw => self.raw = Some((call.clone(), ix)),
            BlockKind::ToolCall => return self.push_call(call, block, ix),
            BlockKind::ToolResult => self.push_result(call, block, ix),
            BlockKind::ToolStarted => self.push_started(call),
            _ => {}
        }
        Ok(())
    }

    fn push_call(&mut self, call: &CallId, block: &Block, ix: Ix) -> Result<(), PayloadError> {
        /// The tool that a call names; the rest is not read.
        #[derive(Default, Deserialize)]
        struct Head<'a> {
            #[serde(borrow)]
            tool_id: Cow<'a, str>,
        }
        // A call that cannot be read is a call all the same: it waits for a result.
        let (Head { tool_id: tool }, read) = match block.payload() {
            Ok(head) => (head, Ok(())),
            Err(error) => (Head::default(), Err(error)),
        };
        let waiting = |slot: &mut Option<(CallId, Ix)>| match slot.take() {
            Some((owner, ix)) if owner == *call => ix,
            _ => NONE,
        };
        let record = CallRecord {
            id: call.clone(),
            tool: self.intern(&tool),
            step: block.meta().step.unwrap_or(0),
            call: ix,
            code: waiting(&mut self.code),
            raw: waiting(&mut self.raw),
            group: NONE,
            missing: 0,
            started: block.meta().started,
            settled: NONE,
        };
        let at = self.records.len() as u32;
        push_tightly(&mut self.records, record);
        self.open.push(at);
        self.name(at);
        read
    }

    fn push_started(&mut self, call: &CallId) {
        if let Some(at) = self.find(call) {
            self.records[at as usize].started = Some(true);
        }
    }

    fn push_result(&mut self, call: &CallId, block: &Block, ix: Ix) {
        let Some(at) = self.find(call) else { return };
        let record = &mut self.records[at as usize];
        if record.settled != NONE {
            return;
        }
        let count = block.meta().result_count;
        // A count begins a group even where an earlier one never came to its end.
        if record.missing == 0 || count.is_some() {
            record.group = ix;
            record.missing = count.unwrap_or(1).max(1);
        }
        record.missing -= 1;
        if record.missing == 0 {
            record.settled = ix;
            self.open.retain(|&open| open != at);
        }
    }

    fn find(&self, id: &CallId) -> Option<u32> {
        let hash = self.hasher.hash_one(id.as_str());
        self.by_id
            .find(hash, |&at| self.records[at as usize].id == *id)
            .copied()
    }

    fn name(&mut self, at: u32) {
        let (records, hasher) = (&self.records, &self.hasher);
        let id = &records[at as usize].id;
        let hash_of = |at: &u32| hasher.hash_one(records[*at as usize].id.as_str());
        match self.by_id.find_mut(hasher.hash_one(id.as_str()), |&known| {
            records[known as usize].id == *id
        }) {
            Some(known) => {
                let earlier = std::mem::replace(known, at);
                self.open.retain(|&open| open != earlier);
            }
            None => {
                self.by_id
                    .insert_unique(hasher.hash_one(id.as_str()), at, hash_of);
            }
        }
    }

    /// Tool names repeat thousands of times; keep one of each.
    fn intern(&mut self, tool: &str) -> Arc<str> {
        match self.tools.iter().find(|known| &***known == tool) {
            Some(known) => known.clone(),
            None => {
                self.tools.push(tool.into());
                self.tools[self.tools.len() - 1].clone()
            }
        }
    }
}
