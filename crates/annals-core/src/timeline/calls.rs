//! The index by call: which tool, where its blocks are, and whether all its results are there.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Ix, NONE};
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
    pub(crate) code: Ix,
    /// First result block of the latest group of results.
    pub(crate) group: Ix,
    /// Result blocks of that group still to come.
    pub(crate) missing: u32,
}

impl CallRecord {
    /// Whether the call has all its results.
    pub fn is_complete(&self) -> bool {
        self.group != NONE && self.missing == 0
    }
}

/// The text of a `react.tool.call` block.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallText<'a> {
    /// The tool, such as `react.write`.
    #[serde(borrow)]
    pub tool_id: Cow<'a, str>,
    /// The call.
    #[serde(borrow)]
    pub tool_call_id: Cow<'a, str>,
    /// The parameters as JSON text, in the model's order.
    #[serde(borrow)]
    pub params: Cow<'a, RawValue>,
    /// When the call was made.
    #[serde(borrow)]
    pub ts: Cow<'a, str>,
}

impl<'a> CallText<'a> {
    /// Reads a call block's text; `None` when it is not of that form.
    pub fn parse(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

#[derive(Clone, Default)]
pub(crate) struct Calls {
    records: Vec<CallRecord>,
    by_id: HashMap<CallId, u32>,
    /// Records without complete results, in call order.
    open: Vec<u32>,
    /// A code block waits here for its call.
    code: Option<(CallId, Ix)>,
    tools: Vec<Arc<str>>,
}

impl Calls {
    pub(crate) fn get(&self, id: &CallId) -> Option<&CallRecord> {
        self.by_id.get(id).map(|&at| &self.records[at as usize])
    }

    pub(crate) fn open(&self) -> impl Iterator<Item = &CallRecord> {
        self.open.iter().map(|&at| &self.records[at as usize])
    }

    pub(crate) fn push(&mut self, blocks: &[Arc<Block>], ix: Ix) {
        let block = &blocks[ix as usize];
        let Some(call) = &block.meta().call else { return };
        match block.kind {
            BlockKind::ToolCode => self.code = Some((call.clone(), ix)),
            BlockKind::ToolCall => self.push_call(call, block, ix),
            BlockKind::ToolResult => self.push_result(call, block, ix),
            _ => {}
        }
    }

    fn push_call(&mut self, call: &CallId, block: &Block, ix: Ix) {
        let tool = block.text().and_then(tool_id).unwrap_or_default();
        let code = match self.code.take() {
            Some((owner, code)) if owner == *call => code,
            _ => NONE,
        };
        let record = CallRecord {
            id: call.clone(),
            tool: self.intern(&tool),
            step: block.meta().step.unwrap_or(0),
            call: ix,
            code,
            group: NONE,
            missing: 0,
        };
        let at = self.records.len() as u32;
        self.records.push(record);
        self.by_id.insert(call.clone(), at);
        self.open.push(at);
    }

    fn push_result(&mut self, call: &CallId, block: &Block, ix: Ix) {
        let Some(&at) = self.by_id.get(call) else { return };
        let record = &mut self.records[at as usize];
        if record.missing == 0 {
            record.group = ix;
            record.missing = block.meta().result_count.unwrap_or(1).max(1);
        }
        record.missing -= 1;
        if record.missing == 0 {
            self.open.retain(|&open| open != at);
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

/// The tool that a call block names, without reading the rest of it.
fn tool_id(text: &str) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(borrow)]
        tool_id: Cow<'a, str>,
    }
    serde_json::from_str::<Head<'_>>(text).ok().map(|head| head.tool_id)
}
