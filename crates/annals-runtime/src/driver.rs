//! The loop: ask the turn machine what is next, do it, write it down.

use std::collections::HashMap;
use std::sync::Arc;

use annals_core::block::{BlockKind, Meta, NewBlock};
use annals_core::ids::{CallId, TurnId};
use annals_core::path::LogicalPath;
use annals_core::timeline::HideReason;
use annals_core::turn::opening::completion_block;
use annals_core::turn::{Next, TurnEnd, TurnReport, TurnUsage, next, round};
use annals_core::view::prune;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::agent::AgentParts;
use crate::ask::Asked;
use crate::error::RunError;
use crate::hooks::may_contribute;
use crate::listen::Update;
use crate::session::Session;

/// One turn being driven.
pub(crate) struct Drive<'a> {
    pub(crate) agent: &'a Arc<AgentParts>,
    pub(crate) session: &'a mut Session,
    pub(crate) turn: TurnId,
    pub(crate) cancel: CancellationToken,
    /// Whole arguments of calls that this process has just written down and not yet started.
    pub(crate) fresh: HashMap<CallId, Map<String, Value>>,
}

impl Drive<'_> {
    /// Goes on with the turn until it has ended.
    pub(crate) async fn run(&mut self) -> Result<TurnEnd, RunError> {
        let _alive = self.session.journal.keep_alive();
        loop {
            if self.cancel.is_cancelled() {
                return self.finish(TurnEnd::Cancelled, None).await;
            }
            let budget = self.agent.frame.budget();
            match self.session.journal.read(|timeline| next(timeline, &budget)) {
                Next::CallModel(call) => match self.ask(call).await? {
                    Asked::Answered => {}
                    Asked::Failed(reason) => return self.finish(TurnEnd::ModelError, Some(reason)).await,
                },
                Next::CallTools(calls) => self.run_calls(calls).await?,
                Next::Compact(plan) => self.compact(&plan).await?,
                Next::Done(end) => return self.finish(end, None).await,
                Next::Wait => return Ok(TurnEnd::Complete),
            }
        }
    }

    /// Once the provider's cache has gone cold, gives up what is old.
    pub(crate) async fn prune(&mut self) -> Result<(), RunError> {
        let (settings, now) = (&self.agent.settings.session, self.agent.world.now());
        let turn = &self.turn;
        let blocks = self.session.journal.read(|timeline| {
            let plan = prune::plan(timeline, settings, now)?;
            let count = plan.items.len();
            let hide = round::hide_block(timeline, turn, HideReason::Ttl, plan.items)?;
            let text = format!("{count} old blocks were shortened; read one whole with react.read(path)");
            Some(vec![hide, system_message(turn, "cache_ttl_pruned", text)])
        });
        self.session.journal.append(blocks.unwrap_or_default()).await
    }

    /// Appends what a hook contributed, as far as it may.
    pub(crate) async fn contribute(&mut self, blocks: Vec<NewBlock>) -> Result<(), RunError> {
        let (allowed, refused): (Vec<_>, Vec<_>) = blocks.into_iter().partition(may_contribute);
        for block in refused {
            tracing::warn!(kind = %block.kind, "a hook may contribute stage.*, system.message and x.* blocks only");
        }
        self.session.journal.append(allowed).await
    }

    /// Writes down how the turn ended. Calls still open get a result first, so that none is ever without.
    pub(crate) async fn finish(&mut self, end: TurnEnd, reason: Option<String>) -> Result<TurnEnd, RunError> {
        self.close_open_calls(end).await?;
        if end.is_success() {
            let timeline = self.session.journal.snapshot();
            let blocks = self.agent.hooks.turn_ending(&self.turn, &timeline).await;
            self.contribute(blocks).await?;
        }
        let report = self.report(end, reason);
        self.session
            .journal
            .append(vec![completion_block(&self.turn, &report)])
            .await?;
        self.session.journal.tell(Update::TurnEnded {
            turn: self.turn.clone(),
            end,
        });
        Ok(end)
    }

    fn report(&self, outcome: TurnEnd, error: Option<String>) -> TurnReport {
        let now = self.agent.world.now();
        self.session.journal.read(|timeline| {
            let Some(turn) = timeline.turn(&self.turn) else {
                return TurnReport::empty(outcome, error);
            };
            let blocks = timeline.turn_blocks(turn);
            let usage_by_call: Vec<TurnUsage> =
                blocks.iter().filter_map(|block| block.meta().usage()).collect();
            let mut usage = TurnUsage::default();
            usage_by_call.iter().for_each(|call| usage.add(*call));
            let rounds = blocks
                .iter()
                .filter(|block| block.kind == BlockKind::ToolCall)
                .count() as u32;
            TurnReport {
                outcome,
                rounds,
                iterations: turn.steps,
                usage,
                usage_by_call,
                elapsed_ms: now.micros_since(turn.started) / 1_000,
                error,
            }
        })
    }
}

/// A `system.message` block of this kind.
pub(crate) fn system_message(turn: &TurnId, kind: &str, text: impl Into<Arc<str>>) -> NewBlock {
    let path = LogicalPath::system_message(turn, kind).expect("kinds are plain words");
    let meta = Meta::EMPTY.with("kind", kind);
    NewBlock::new(BlockKind::SystemMessage, turn, path)
        .text("text/plain", text)
        .meta(meta)
}
