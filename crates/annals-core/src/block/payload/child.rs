//! The text of a `child.result` block: what a delegated conversation came to.

use serde::{Deserialize, Serialize};

use super::TurnEnd;
use crate::block::{BlockKind, Meta, NewBlock};
use crate::ids::{CallId, ConversationId, TurnId};
use crate::path::LogicalPath;

/// A child conversation's end, delivered to its parent after the call that began it had its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildResult {
    /// The call that began the child.
    pub call_id: CallId,
    /// The child.
    pub conversation_id: ConversationId,
    /// How it ended.
    pub outcome: TurnEnd,
    /// Its answer.
    pub answer: String,
    /// Its files, below the parent's turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<LogicalPath>,
}

impl ChildResult {
    /// The block that delivers it, in the turn that runs now.
    pub fn block(&self, turn: &TurnId) -> NewBlock {
        let path = LogicalPath::child_result(turn, &self.call_id);
        // The call belongs to the parent's past, where its own result stands: this answers no open call.
        NewBlock::new(BlockKind::ChildResult, turn, path)
            .json(self)
            .meta(Meta::EMPTY)
    }
}
