//! What a turn waits for, and what came: `approval.request` and `approval.decision` before a call may run,
//! `input.request` and `input.response` for what only a person or a client can give.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::block::{BlobDigest, BlockKind, Meta, NewBlock};
use crate::ids::{CallId, RequestId, TurnId};
use crate::path::LogicalPath;
use crate::time::Timestamp;

/// A call that may not run before a person says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// Names this request: `<turn>.<call>.<n>`.
    pub approval_id: RequestId,
    /// The call that waits.
    pub call_id: CallId,
    /// The tool it calls, by the name people know it.
    pub tool: String,
    /// What those who offer the tool call it, where its name here had to be another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_as: Option<String>,
    /// What the rules look at: `tool`, `path`, `command`, `host`, `effect`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub facets: Map<String, Value>,
    /// SHA-256 of the arguments as JSON: a decision holds for these and no others.
    pub args_digest: BlobDigest,
    /// The rule that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Why it asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The narrow rule that `always` would write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposed_rule: Option<String>,
    /// When the request lapses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
}

/// What a person may decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Decision {
    /// This call may run.
    Once,
    /// Calls like it may run in this conversation.
    Conversation,
    /// Calls like it may always run.
    Always,
    /// This call may not run; the model is told and goes on.
    Deny,
    /// This call may not run and the turn ends.
    DenyAndStop,
}

impl Decision {
    /// Whether the call may run.
    pub fn allows(self) -> bool {
        matches!(self, Decision::Once | Decision::Conversation | Decision::Always)
    }
}

/// What a person decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalDecision {
    /// The request it answers.
    pub approval_id: RequestId,
    /// What was decided.
    pub decision: Decision,
    /// Who decided.
    pub by: String,
    /// Through which face: `cli`, `http`, `page`, `acp`, …
    pub via: String,
    /// The arguments to run with instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_args: Option<Map<String, Value>>,
    /// The person's words; on a refusal the model reads them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Something that only a person or a client can give.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InputRequest {
    /// Names this request: `<turn>.<call>.<n>`.
    pub input_id: RequestId,
    /// The call that waits.
    pub call_id: CallId,
    /// The tool it calls.
    pub tool: String,
    /// What the person reads.
    pub message: String,
    /// JSON Schema of what is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// A page that the person is to open, and that nothing opens by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// When the request lapses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
}

/// What became of an input request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InputAction {
    /// Here it is.
    Accept,
    /// No.
    Decline,
    /// The person went away from the question.
    Cancel,
}

/// The answer to an input request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InputResponse {
    /// The request it answers.
    pub input_id: RequestId,
    /// What became of it.
    pub action: InputAction,
    /// What was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Value>,
    /// Who answered.
    pub by: String,
    /// Through which face.
    pub via: String,
}

impl ApprovalRequest {
    /// The block that asks. Written by the system, about a call of this turn.
    pub fn block(&self, turn: &TurnId) -> NewBlock {
        let path = LogicalPath::approval_request(turn, &self.call_id);
        of_call(
            NewBlock::new(BlockKind::ApprovalRequest, turn, path),
            &self.call_id,
        )
        .json(self)
    }
}

impl ApprovalDecision {
    /// The block that answers a request about this call.
    pub fn block(&self, turn: &TurnId, call: &CallId) -> NewBlock {
        let path = LogicalPath::approval_decision(turn, call);
        of_call(NewBlock::new(BlockKind::ApprovalDecision, turn, path), call).json(self)
    }
}

impl InputRequest {
    /// The block that asks.
    pub fn block(&self, turn: &TurnId) -> NewBlock {
        let path = LogicalPath::input_request(turn, &self.call_id);
        of_call(NewBlock::new(BlockKind::InputRequest, turn, path), &self.call_id).json(self)
    }
}

impl InputResponse {
    /// The block that answers a request about this call.
    pub fn block(&self, turn: &TurnId, call: &CallId) -> NewBlock {
        let path = LogicalPath::input_response(turn, call);
        of_call(NewBlock::new(BlockKind::InputResponse, turn, path), call).json(self)
    }
}

fn of_call(block: NewBlock, call: &CallId) -> NewBlock {
    block.meta(Meta::of_call(call))
}
