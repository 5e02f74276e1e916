//! The index by turn: where each begins, how far it got, and how it ended.

use std::collections::HashMap;
use std::sync::Arc;

use super::Ix;
use super::calls::Calls;
use crate::block::payload::{Notice, PayloadError, TurnEnd, TurnReport};
use crate::block::{Block, BlockKind, MessageKind};
use crate::code::Code;
use crate::ids::{Seq, TurnId};
use crate::time::Timestamp;

/// One turn, as far as it got.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Its id.
    pub id: TurnId,
    /// When it began.
    pub started: Timestamp,
    pub(crate) first: Ix,
    /// Its prompt block.
    pub prompt: Option<Seq>,
    /// Its answer block.
    pub answer: Option<Seq>,
    /// How often the person said something while it ran.
    pub steers: u32,
    /// Model calls before the last of these.
    pub(crate) steered_at: Option<u32>,
    /// Whether it asked the person something.
    pub clarified: bool,
    /// How it ended, once it has.
    pub end: Option<TurnEnd>,
    /// Model calls so far.
    pub steps: u32,
    /// When a model last answered in it: the moment the provider's cache was last touched.
    pub last_answer: Option<Timestamp>,
    /// The violation that came back most often in a row, as of the last model call that committed any.
    pub streak: Option<Streak>,
    /// The last run of each violation; one answer may commit several.
    streaks: Vec<Streak>,
    /// Whether a hide was asked for in it.
    pub hid: bool,
    /// Whether the provider refused a prompt of this turn for its length, and where.
    pub context_limit: Option<Seq>,
}

/// A protocol violation that keeps coming back, of one tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Streak {
    /// The notice's code.
    pub code: Code,
    /// The tool whose call committed it; none when the answer had no call.
    pub tool: Option<Arc<str>>,
    /// The last model call that committed it.
    pub step: u32,
    /// How many model calls in a row did.
    pub length: u32,
}

#[derive(Clone, Default)]
pub(crate) struct Turns {
    list: Vec<Turn>,
    by_id: HashMap<TurnId, u32>,
}

impl Turns {
    pub(crate) fn list(&self) -> &[Turn] {
        &self.list
    }

    pub(crate) fn get(&self, id: &TurnId) -> Option<&Turn> {
        self.by_id.get(id).map(|&at| &self.list[at as usize])
    }

    pub(crate) fn end_of(&self, turn: &Turn) -> Option<usize> {
        let next = *self.by_id.get(&turn.id)? as usize + 1;
        self.list.get(next).map(|next| next.first as usize)
    }

    /// Whether this block begins a turn of its own.
    pub(crate) fn begins_with(&self, block: &Block) -> bool {
        self.list.last().is_none_or(|turn| turn.id != block.turn) && !self.by_id.contains_key(&block.turn)
    }

    pub(crate) fn push(&mut self, block: &Block, ix: Ix, calls: &Calls) -> Result<(), PayloadError> {
        if self.begins_with(block) {
            self.by_id.insert(block.turn.clone(), self.list.len() as u32);
            self.list.push(Turn::begun(block, ix));
        }
        // A later block of an older turn (feedback on it, for one) says nothing about the running one.
        let Some(turn) = self.list.last_mut().filter(|turn| turn.id == block.turn) else {
            return Ok(());
        };
        turn.push(block, calls)
    }
}

impl Turn {
    fn begun(block: &Block, ix: Ix) -> Self {
        Turn {
            id: block.turn.clone(),
            started: block.ts,
            first: ix,
            prompt: None,
            answer: None,
            steers: 0,
            steered_at: None,
            clarified: false,
            end: None,
            steps: 0,
            last_answer: None,
            streak: None,
            streaks: Vec::new(),
            hid: false,
            context_limit: None,
        }
    }

    /// The turn's first block.
    pub fn first_seq(&self) -> Seq {
        Seq::try_new(u64::from(self.first) + 1).expect("an index plus one is a place")
    }

    fn push(&mut self, block: &Block, calls: &Calls) -> Result<(), PayloadError> {
        if let Some(step) = block.meta().step {
            self.steps = self.steps.max(step);
            self.last_answer = Some(block.ts);
        }
        match &block.kind {
            BlockKind::UserPrompt => self.prompt = self.prompt.or(Some(block.seq)),
            BlockKind::AssistantCompletion => self.answer = Some(block.seq),
            BlockKind::StageClarification => self.clarified = true,
            // An end that cannot be read is an end all the same: a newer version may know more of them.
            BlockKind::ReactCompletion => match block.payload::<TurnReport>() {
                Ok(report) => self.end = Some(report.outcome),
                Err(error) => {
                    self.end = Some(TurnEnd::Failed);
                    return Err(error);
                }
            },
            BlockKind::UserSteer => {
                self.steers += 1;
                self.steered_at = Some(self.steps);
                (self.answer, self.clarified) = (None, false);
            }
            BlockKind::TimelineHide => self.hid = true,
            BlockKind::Notice => self.push_notice(block, calls)?,
            BlockKind::SystemMessage if block.meta().message_kind() == Some(MessageKind::ContextLimit) => {
                self.context_limit = Some(block.seq);
            }
            _ => {}
        }
        Ok(())
    }

    fn push_notice(&mut self, block: &Block, calls: &Calls) -> Result<(), PayloadError> {
        let notice: Notice = block.payload()?;
        let Some(code) = Code::of(&notice.code).filter(|code| code.is_refusal()) else {
            return Ok(());
        };
        let call = block.meta().call.as_ref().and_then(|call| calls.get(call));
        let step = block
            .meta()
            .step
            .or(call.map(|call| call.step))
            .unwrap_or(self.steps);
        let tool = call.map(|call| call.tool.clone());
        let at = self
            .streaks
            .iter()
            .position(|streak| streak.code == code && streak.tool == tool)
            .unwrap_or_else(|| {
                self.streaks.push(Streak {
                    code,
                    tool,
                    step,
                    length: 0,
                });
                self.streaks.len() - 1
            });
        let streak = &mut self.streaks[at];
        let length = match step.checked_sub(streak.step) {
            Some(0) => streak.length.max(1),
            Some(1) => streak.length + 1,
            _ => 1,
        };
        (streak.step, streak.length) = (step, length);
        if self
            .streak
            .as_ref()
            .is_none_or(|worst| worst.step != step || worst.length <= length)
        {
            self.streak = Some(streak.clone());
        }
        Ok(())
    }
}
