//! Who may interfere with a turn, at named moments.

use std::future::Future;
use std::panic::AssertUnwindSafe;

use annals_core::block::NewBlock;
use annals_core::ids::{CallId, ConversationId, Scope, TurnId};
use annals_core::timeline::Timeline;
use annals_core::turn::outcome::Outcome;
use annals_core::view::Prompt;
use annals_model::Answer;
use annals_tools::ToolSpec;
use annals_tools::execute::panic_text;
use async_trait::async_trait;
use futures::FutureExt as _;
use serde_json::{Map, Value};

use crate::approval::Ask;

/// Where in which conversation a hook is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HookCx {
    /// Whose conversation it is.
    pub scope: Scope,
    /// The conversation.
    pub conversation: ConversationId,
    /// The running turn.
    pub turn: TurnId,
    /// Model calls of the turn so far.
    pub step: u32,
    /// The call, at moments that are about one.
    pub call: Option<CallId>,
}

/// Whether a call may run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Verdict {
    /// It may.
    Allow,
    /// It may not, and this is what the model is told.
    Deny(String),
    /// A person is asked. The turn waits, also when this process ends, until somebody decides.
    Ask(Ask),
    /// It may, with these arguments instead. They are checked like a model's; the model is told of the change.
    Edit(Map<String, Value>),
}

/// Moments at which a host may look on, contribute or refuse. Every method has a default that does nothing.
///
/// 1. A hook never edits what is on the timeline; it contributes blocks of its own (`stage.*`, `system.message`, `x.*`),
///    and any other type is refused.
/// 2. Hooks run inside the turn: a slow hook makes a slow turn. `before_call` of several calls run at the same time.
/// 3. A hook that panics is left out, and the turn goes on; a `before_call` that panics refuses its call.
#[async_trait]
pub trait Hooks: Send + Sync {
    /// A turn has begun; its prompt is on the timeline. What is returned is appended before the model is asked.
    async fn turn_started(&self, cx: &HookCx, timeline: &Timeline) -> Vec<NewBlock> {
        let _ = (cx, timeline);
        Vec::new()
    }

    /// The model is about to be asked.
    async fn before_model(&self, cx: &HookCx, prompt: &Prompt) {
        let _ = (cx, prompt);
    }

    /// The model has answered; nothing is durable yet.
    async fn after_model(&self, cx: &HookCx, answer: &Answer) {
        let _ = (cx, answer);
    }

    /// A call passed the checks and is about to run.
    async fn before_call(&self, cx: &HookCx, tool: &ToolSpec, args: &Value) -> Verdict {
        let _ = (cx, tool, args);
        Verdict::Allow
    }

    /// A call has ended; its result is about to be written.
    async fn after_call(&self, cx: &HookCx, tool: &str, outcome: &Outcome) {
        let _ = (cx, tool, outcome);
    }

    /// The view is about to be compacted; only when it really is.
    async fn before_compaction(&self, cx: &HookCx, timeline: &Timeline) {
        let _ = (cx, timeline);
    }

    /// The view was compacted; the summary is durable.
    async fn after_compaction(&self, cx: &HookCx, timeline: &Timeline) {
        let _ = (cx, timeline);
    }

    /// The turn has its answer. What is returned is appended before the turn is closed. Asked again when a person says
    /// something in that moment and the turn goes on.
    async fn turn_ending(&self, cx: &HookCx, timeline: &Timeline) -> Vec<NewBlock> {
        let _ = (cx, timeline);
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

/// Awaits a hook; one that panics gives what it said.
pub(crate) async fn guarded<T>(moment: &'static str, hook: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(hook).catch_unwind().await.map_err(|panic| {
        let said = panic_text(&*panic).to_owned();
        tracing::error!(moment, said, "a hook panicked and was left out");
        said
    })
}
