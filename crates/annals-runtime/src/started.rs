//! Which calls have begun, so that after a crash a call that did nothing is told from one that may have done its work.
//!
//! Only calls that must not run twice need it; all others are run again. A call that no hook, rule or person may hold up is
//! written as begun, in the append that it needs anyway, also if it waits for an earlier call of its answer. Every other is
//! written as held, and a `react.tool.started` block becomes durable before its tool starts. A crash between that and the
//! tool's first step counts as begun, which is the safe side.

use annals_core::block::{BlockKind, NewBlock};
use annals_core::ids::CallId;
use annals_core::timeline::CallRecord;
use annals_core::turn::round::{NewCall, started_block};
use annals_tools::{Effect, dispatch, facet};
use serde_json::Value;

use crate::driver::Drive;
use crate::error::RunError;
use crate::policy::{self, Passage};

/// What is known of a call before it is written.
struct Outlook {
    is_once: bool,
    /// What the rules will say, as far as its arguments tell before they are checked.
    passage: Passage,
}

impl Drive<'_> {
    /// Says on the blocks of these calls whether they begin as soon as they are written.
    pub(crate) fn mark_started(&mut self, calls: &mut [NewCall], blocks: &mut [NewBlock]) {
        self.take_in_grants();
        let outlooks: Vec<Outlook> = calls.iter_mut().map(|call| self.outlook(call)).collect();
        let mut is_clear = !self.agent.has_hooks;
        for (call, outlook) in calls.iter().zip(&outlooks) {
            // A call that asks holds up those after it.
            is_clear &= self.is_person || !matches!(outlook.passage, Passage::Ask(_));
            let begins = is_clear && !matches!(outlook.passage, Passage::Deny(..));
            let is_its = |block: &&mut NewBlock| {
                block.kind == BlockKind::ToolCall && block.meta.call.as_ref() == Some(&call.id)
            };
            if let Some(block) = blocks.iter_mut().find(is_its).filter(|_| outlook.is_once) {
                block.meta.started = Some(begins);
            }
        }
    }

    fn outlook(&self, call: &mut NewCall) -> Outlook {
        let tool = self.agent.tools.get(&call.tool);
        let Some(tool) = tool.filter(|_| call.unreadable.is_none()) else {
            return Outlook {
                is_once: false,
                passage: Passage::Allow(None),
            };
        };
        // Lent, not copied: a document may be among them.
        let args = Value::Object(std::mem::take(&mut call.params));
        let judged = |way: &[(&annals_tools::ToolSpec, &Value)]| match &self.policy {
            None => Passage::Allow(None),
            Some(policy) => {
                let is_isolated = self.agent.is_isolated();
                let as_call = |(spec, args): &(&annals_tools::ToolSpec, &Value)| {
                    facet::call_of(spec, &self.turn, args, is_isolated)
                };
                let mut passed: Vec<_> = way.iter().map(as_call).collect();
                let call = passed.pop().unwrap_or_default();
                policy::judge(policy, &call, &passed)
            }
        };
        let outlook = match tool.passes_on(&args) {
            None => Outlook {
                is_once: tool.spec().effect() == Effect::Once,
                passage: judged(&[(tool.spec(), &args)]),
            },
            Some(_) => {
                let way = dispatch::way(tool, &args);
                let specs: Vec<_> = way.iter().map(|(tool, args)| (tool.spec(), args)).collect();
                let last = way.last();
                Outlook {
                    is_once: last.is_some_and(|(tool, _)| tool.spec().effect() == Effect::Once),
                    passage: judged(&specs),
                }
            }
        };
        if let Value::Object(params) = args {
            call.params = params;
        }
        outlook
    }

    /// Writes down that these calls begin, those that were held.
    pub(crate) async fn write_started(
        &mut self,
        calls: impl Iterator<Item = &CallId>,
    ) -> Result<(), RunError> {
        let turn = &self.turn;
        let blocks = self.writer.journal.read(|timeline| {
            let is_held = |call: &&CallId| timeline.call(call).is_some_and(CallRecord::is_held);
            calls
                .filter(is_held)
                .map(|call| started_block(turn, call))
                .collect()
        });
        self.writer.journal.append(blocks).await
    }
}
