//! Who may interfere with a turn, at named moments.

use annals_core::block::NewBlock;
use annals_core::ids::{CallId, TurnId};
use annals_core::timeline::Timeline;
use annals_core::turn::outcome::Outcome;
use annals_core::view::Prompt;
use annals_model::Answer;
use async_trait::async_trait;
use serde_json::Value;

/// Whether a call may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    Allow,
    /// It may not, and this is what the model is told.
    Refuse(String),
}

/// Moments at which a host may look on, contribute or refuse. Every method has a default that does nothing.
///
/// 1. A hook never edits what is on the timeline; it contributes blocks of its own (`stage.*`, `system.message`, `x.*`),
///    and any other type is refused.
/// 2. Hooks run inside the turn: a slow hook makes a slow turn.
#[async_trait]
pub trait Hooks: Send + Sync {
    /// A turn has begun; its prompt is on the timeline. What is returned is appended before the model is asked.
    async fn turn_started(&self, turn: &TurnId, timeline: &Timeline) -> Vec<NewBlock> {
        let _ = (turn, timeline);
        Vec::new()
    }

    /// The model is about to be asked.
    async fn before_model(&self, turn: &TurnId, prompt: &Prompt) {
        let _ = (turn, prompt);
    }

    /// The model has answered; nothing is durable yet.
    async fn after_model(&self, turn: &TurnId, answer: &Answer) {
        let _ = (turn, answer);
    }

    /// A call passed the checks and is about to run.
    async fn before_call(&self, call: &CallId, tool: &str, args: &Value) -> Verdict {
        let _ = (call, tool, args);
        Verdict::Allow
    }

    /// A call has ended; its result is about to be written.
    async fn after_call(&self, call: &CallId, tool: &str, outcome: &Outcome) {
        let _ = (call, tool, outcome);
    }

    /// The view is about to be compacted; only when it really is.
    async fn before_compaction(&self, timeline: &Timeline) {
        let _ = timeline;
    }

    /// The view was compacted; the summary is durable.
    async fn after_compaction(&self, timeline: &Timeline) {
        let _ = timeline;
    }

    /// The turn has its answer. What is returned is appended before the turn is closed.
    async fn turn_ending(&self, turn: &TurnId, timeline: &Timeline) -> Vec<NewBlock> {
        let _ = (turn, timeline);
        Vec::new()
    }
}

/// Hooks that do nothing.
pub(crate) struct NoHooks;

impl Hooks for NoHooks {}

/// Whether a host may contribute a block of this type.
pub(crate) fn may_contribute(block: &NewBlock) -> bool {
    let tag = block.kind.tag();
    tag.starts_with("stage.") || tag.starts_with("x.") || tag == "system.message"
}
