//! The trait every tool implements.

use std::sync::Arc;

use annals_core::ids::{CallId, TurnId};
use annals_core::path::LogicalPath;
use annals_core::turn::outcome::Outcome;
use annals_core::turn::round::CutTo;
use async_trait::async_trait;
use serde_json::Value;

use crate::access::Access;
use crate::cx::ToolCx;
use crate::proposal::Proposal;
use crate::spec::{BodyParam, ToolSpec};

/// Something a model can call.
///
/// Rules of an implementation:
/// 1. Arguments were validated against the schema before `run`; nothing else is promised about them.
/// 2. A failure is an [`Outcome`] with an error, never a panic (a panic is caught and shown to the model).
/// 3. `run` writes no blocks: what it returns is written, in the order of calls, when it is done.
/// 4. `run` stops soon after `cx.cancel()` fires, and leaves no process or half-written file behind.
/// 5. Calls of one answer whose [`access`](Self::access) conflicts run one after the other, in the order given; all others
///    may run at the same time.
/// 6. A tool that declares [`Effect::Replayable`](crate::Effect::Replayable) may be run again with the same
///    arguments and call id after a crash, and must leave the same things behind.
#[async_trait]
pub trait Tool: Send + Sync {
    /// What it declares; the same value every time.
    fn spec(&self) -> &ToolSpec;

    /// What a call with these arguments reads and writes, as the spec declares it; `None` when it declares nothing. Only
    /// tools whose uses cannot be declared by parameter say it themselves.
    fn access(&self, turn: &TurnId, args: &Value) -> Option<Access> {
        self.spec().access(turn, args)
    }

    /// The artifact that the body parameter of such a call becomes, for `... [see <path>]` in the call block.
    /// Only tools with a [`BodyParam::Content`] are asked.
    fn body_path(&self, turn: &TurnId, call: &CallId, args: &Value) -> Option<LogicalPath> {
        let _ = (turn, call, args);
        None
    }

    /// What the call would make of a file, without doing it. A person who is asked about the call looks at it; a tool that
    /// changes no single file has nothing to say.
    async fn proposes(&self, cx: &ToolCx, args: &Value) -> Option<Proposal> {
        let _ = (cx, args);
        None
    }

    /// The tool that a call with these arguments is passed on to, and what it gets: of a tool that stands for others. The
    /// rules, hooks and people are asked about that one, and it runs in place of this one.
    fn passes_on(&self, args: &Value) -> Option<(Arc<dyn Tool>, Value)> {
        let _ = args;
        None
    }

    /// The tools that calls may be passed on to, so that rules can name them.
    fn behind(&self) -> Vec<Arc<dyn Tool>> {
        Vec::new()
    }

    /// The call waited for an answer, and its turn has ended without one: it is not run again, and what is kept for it can
    /// go. Where another process asked, nothing is.
    fn abandoned(&self, cx: &ToolCx) {
        for tool in self.behind() {
            tool.abandoned(cx);
        }
    }

    /// Performs one call with arguments that fit the schema. Failures are outcomes, too.
    async fn run(&self, cx: &ToolCx, args: Value) -> Outcome;
}

/// A shared tool is a tool, so that lists may hold either.
#[async_trait]
impl<T: Tool + ?Sized> Tool for Arc<T> {
    fn spec(&self) -> &ToolSpec {
        (**self).spec()
    }

    fn access(&self, turn: &TurnId, args: &Value) -> Option<Access> {
        (**self).access(turn, args)
    }

    fn body_path(&self, turn: &TurnId, call: &CallId, args: &Value) -> Option<LogicalPath> {
        (**self).body_path(turn, call, args)
    }

    async fn proposes(&self, cx: &ToolCx, args: &Value) -> Option<Proposal> {
        (**self).proposes(cx, args).await
    }

    fn passes_on(&self, args: &Value) -> Option<(Arc<dyn Tool>, Value)> {
        (**self).passes_on(args)
    }

    fn behind(&self) -> Vec<Arc<dyn Tool>> {
        (**self).behind()
    }

    fn abandoned(&self, cx: &ToolCx) {
        (**self).abandoned(cx);
    }

    async fn run(&self, cx: &ToolCx, args: Value) -> Outcome {
        (**self).run(cx, args).await
    }
}

/// Which parameter of this call the call block shows cut, and what it names instead.
pub fn cut_of(tool: &dyn Tool, turn: &TurnId, call: &CallId, args: &Value) -> Option<CutTo> {
    let body = tool.spec().body()?;
    let see = match body {
        BodyParam::Content(_) => tool.body_path(turn, call, args)?,
        BodyParam::Code(_) => LogicalPath::code(turn, call),
        BodyParam::Streamed(_) => return None,
    };
    Some(CutTo {
        param: body.name().to_owned(),
        see,
        is_code: matches!(body, BodyParam::Code(_)),
        whole: None,
    })
}
