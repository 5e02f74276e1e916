//! The one gate: every call, fresh or left over from a crash, is read from the log, parsed, checked and allowed here.

use std::sync::Arc;

use annals_core::block::{BlockKind, CutParam};
use annals_core::ids::CallId;
use annals_core::timeline::{CallText, Timeline};
use annals_core::turn::outcome::{Notice, Outcome};
use annals_core::turn::recovery;
use annals_tools::{Effect, Tool, ToolCx, execute, reference, validate};
use serde_json::{Map, Value};

use crate::driver::Drive;
use crate::error::RunError;
use crate::hooks::Verdict;

/// What the gate says of a call.
pub(crate) enum Gated {
    /// It may run.
    Run {
        /// The tool.
        tool: Arc<dyn Tool>,
        /// Its surroundings.
        cx: ToolCx,
        /// Its arguments, valid.
        args: Value,
        /// What was changed about them.
        notices: Vec<Notice>,
    },
    /// It may not, and this is its result.
    Refused(Outcome),
}

/// A call as the log has it.
struct LoggedCall {
    tool: String,
    params: String,
    cut: Vec<CutParam>,
    unreadable: Option<String>,
    is_fresh: bool,
}

impl Drive<'_> {
    /// Reads, checks and allows one call.
    pub(crate) async fn gate(&mut self, id: &CallId) -> Result<(String, Gated), RunError> {
        let fresh = self.fresh.remove(id);
        let call = self
            .session
            .journal
            .read(|timeline| LoggedCall::of(timeline, id, fresh.is_some()));
        let Some(call) = call else {
            let gone = recovery::failed("interrupted", "the call block cannot be read".into());
            return Ok((String::new(), Gated::Refused(gone)));
        };
        let name = call.tool.clone();
        let gated = self.gate_logged(id, call, fresh).await?;
        Ok((name, gated))
    }

    async fn gate_logged(
        &mut self,
        id: &CallId,
        call: LoggedCall,
        fresh: Option<Map<String, Value>>,
    ) -> Result<Gated, RunError> {
        let Some(tool) = self.agent.tools.get(&call.tool).cloned() else {
            return Ok(Gated::Refused(execute::unknown_tool(
                &self.agent.tools,
                &call.tool,
            )));
        };
        if !call.is_fresh && tool.spec().effect() == Effect::Once {
            return Ok(Gated::Refused(recovery::interrupted(&call.tool)));
        }
        let raw = match (call.unreadable.clone(), fresh) {
            (Some(raw), _) => raw,
            (None, Some(params)) => Value::Object(params).to_string(),
            (None, None) => self.whole_params(id, &call).await?,
        };
        let checked = match validate::check(tool.spec(), &raw) {
            Ok(checked) => checked,
            Err(violation) => return Ok(Gated::Refused(violation.outcome())),
        };
        let cx = ToolCx::new(
            self.session.cx.clone(),
            self.turn.clone(),
            id.clone(),
            self.agent.world.now(),
            self.cancel.child_token(),
        );
        let args = match reference::resolve(&cx, checked.args).await {
            Ok(args) => args,
            Err(not_visible) => return Ok(Gated::Refused(not_visible.outcome())),
        };
        match self.agent.hooks.before_call(id, &call.tool, &args).await {
            Verdict::Allow => Ok(Gated::Run {
                tool,
                cx,
                args,
                notices: checked.notices,
            }),
            Verdict::Refuse(why) => Ok(Gated::Refused(recovery::failed("not_allowed", why))),
        }
    }

    /// The arguments of a call that another process wrote down, with what its block shows cut put back.
    async fn whole_params(&self, id: &CallId, call: &LoggedCall) -> Result<String, RunError> {
        let Ok(mut params) = serde_json::from_str::<Map<String, Value>>(&call.params) else {
            return Ok(call.params.clone());
        };
        for cut in &call.cut {
            let code = self.session.journal.read(|timeline| code_of(timeline, id));
            let whole = match code {
                Some(code) => code,
                None => {
                    let bytes = self.agent.artifacts.get(&cut.blob).await;
                    let bytes = bytes.map_err(|error| RunError::Artifact(error.to_string()))?;
                    String::from_utf8_lossy(&bytes).into_owned()
                }
            };
            params.insert(cut.name.clone(), Value::String(whole));
        }
        Ok(Value::Object(params).to_string())
    }
}

impl LoggedCall {
    fn of(timeline: &Timeline, id: &CallId, is_fresh: bool) -> Option<Self> {
        let block = timeline.call_block(id)?;
        let text = CallText::parse(block.text()?)?;
        let before = block
            .seq
            .get()
            .checked_sub(2)
            .and_then(|at| timeline.blocks().get(at as usize));
        let raw = before.filter(|before| before.kind == BlockKind::DecisionRaw && before.turn == block.turn);
        Some(LoggedCall {
            tool: text.tool_id.into_owned(),
            params: text.params.get().to_owned(),
            cut: block.meta().cut.to_vec(),
            unreadable: raw.and_then(|raw| raw.text()).map(str::to_owned),
            is_fresh,
        })
    }
}

fn code_of(timeline: &Timeline, id: &CallId) -> Option<String> {
    let block = timeline.call_block(id)?;
    let path = annals_core::path::LogicalPath::code(&block.turn, id);
    timeline.latest(&path)?.text().map(str::to_owned)
}
