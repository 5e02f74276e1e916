//! The one gate: every call, fresh or left over from a crash, is read from the log, parsed, checked and allowed here.

use std::sync::Arc;

use annals_core::block::{BlobDigest, BlockKind, CutParam};
use annals_core::code::Code;
use annals_core::ids::CallId;
use annals_core::timeline::{CallRecord, CallText, Timeline};
use annals_core::turn::outcome::{GateNote, Notice, Outcome};
use annals_core::turn::recovery;
use annals_policy::Policy;
use annals_tools::dispatch::Dispatched;
use annals_tools::{Access, Effect, Tool, ToolCx, dispatch, facet, reference, validate};
use serde_json::{Map, Value};

use crate::approval::{self, Ask, Standing, args_digest};
use crate::driver::Drive;
use crate::error::RunError;
use crate::hooks::{HookCx, Hooks, Verdict, guarded};
use crate::input;
use crate::policy::{self, Passage};

/// A call that was read and checked, before anybody was asked whether it may run.
pub(crate) struct Checked {
    pub(crate) id: CallId,
    /// The tool that runs it, or the one it names, known or not.
    pub(crate) tool: String,
    pub(crate) state: State,
}

pub(crate) enum State {
    /// It can run.
    Ready(Ready),
    /// It cannot, and this is its result.
    Refused(Outcome),
}

/// A call that can run.
pub(crate) struct Ready {
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) cx: ToolCx,
    /// Its arguments, valid.
    pub(crate) args: Value,
    /// What was changed about them.
    pub(crate) notices: Vec<Notice>,
    /// The calls on the way to it, each of a tool that passed it on.
    pub(crate) passed: Vec<(Arc<dyn Tool>, Value)>,
    /// A person has said yes to these arguments, or makes the call.
    pub(crate) is_approved: bool,
    /// What a person allowed, where these are not the arguments that the person saw: the hooks may make them so.
    pub(crate) decided: Option<Decided>,
    /// The rules in force.
    pub(crate) policy: Option<Arc<Policy>>,
    /// Whether what it runs is kept in a sandbox.
    pub(crate) is_isolated: bool,
    /// The rules that let it pass.
    pub(crate) gate: Option<Box<GateNote>>,
}

/// What a person allowed.
pub(crate) struct Decided {
    /// The arguments that the person saw.
    digest: BlobDigest,
    /// What the person made of them.
    edited: Option<Map<String, Value>>,
}

/// What the hooks say of a call.
pub(crate) enum Allowed {
    Run(Ready),
    Refused(Outcome),
    /// A person is to be asked about a call with these arguments.
    Ask(Ask, BlobDigest),
}

impl Checked {
    /// What it uses, as far as its tool says so.
    pub(crate) fn access(&self, turn: &annals_core::ids::TurnId) -> Option<Access> {
        match &self.state {
            State::Ready(ready) => ready.tool.access(turn, &ready.args),
            State::Refused(_) => Some(Access::NOTHING),
        }
    }
}

impl Ready {
    /// Asks the hooks, then the rules, which see the arguments as the hooks leave them. A person's yes answers a question,
    /// never a refusal.
    pub(crate) async fn allowed(self, hooks: &dyn Hooks, cx: &HookCx) -> Allowed {
        let denied = |why| Allowed::Refused(recovery::failed(Code::DeniedByPolicy, why));
        let mut ready = self;
        loop {
            let said = guarded(
                "before_call",
                hooks.before_call(cx, ready.tool.spec(), &ready.args),
            )
            .await;
            ready = match said {
                Ok(Verdict::Allow) => return ready.judged(cx, None),
                Ok(Verdict::Ask(ask)) => return ready.judged(cx, Some(ask)),
                Ok(Verdict::Deny(why)) => return denied(why),
                Ok(Verdict::Edit(args)) => match ready.edited(args) {
                    Ok(ready) => ready,
                    Err(why) => return denied(format!("a policy {why}")),
                },
                Err(said) => {
                    return denied(format!(
                        "whether the call is allowed could not be found out: {said}"
                    ));
                }
            };
            // What a person makes of the arguments passes the hooks like a model's.
            let Some(args) = ready.take_decided() else {
                return ready.judged(cx, None);
            };
            ready = match ready.edited(args) {
                Ok(ready) => ready,
                Err(why) => return Allowed::Refused(misfit_of_person(&why)),
            };
        }
    }

    /// A decision holds for the arguments that the person saw. Gives what the person made of them.
    fn take_decided(&mut self) -> Option<Map<String, Value>> {
        let digest = args_digest(&self.args);
        let decided = self.decided.take_if(|decided| decided.digest == digest)?;
        self.is_approved = true;
        decided.edited
    }

    /// What the rules say, and a hook's question if they have none.
    fn judged(mut self, cx: &HookCx, asked: Option<Ask>) -> Allowed {
        let judged = self.policy.as_ref().map(|policy| {
            let as_call =
                |tool: &dyn Tool, args: &Value| facet::call_of(tool.spec(), &cx.turn, args, self.is_isolated);
            let passed: Vec<_> = self
                .passed
                .iter()
                .map(|(tool, args)| as_call(&**tool, args))
                .collect();
            policy::judge(policy, &as_call(&*self.tool, &self.args), &passed)
        });
        let asked = match judged {
            Some(Passage::Deny(why, gate)) => {
                let denied = recovery::failed(Code::DeniedByPolicy, why);
                return Allowed::Refused(Outcome { gate, ..denied });
            }
            Some(Passage::Ask(ask)) => Some(ask),
            Some(Passage::Allow(gate)) => {
                self.gate = gate;
                asked
            }
            None => asked,
        };
        match asked.filter(|_| !self.is_approved) {
            Some(ask) => Allowed::Ask(ask, args_digest(&self.args)),
            None => Allowed::Run(self),
        }
    }

    /// With other arguments than the model's, checked like them.
    fn edited(mut self, args: Map<String, Value>) -> Result<Self, String> {
        let checked = validate::check(self.tool.spec(), args).map_err(|violation| {
            format!(
                "changed the arguments, and they do not fit: {}",
                violation.message
            )
        })?;
        // Of several changes the last is the one that the call runs with.
        self.notices
            .retain(|notice| notice.code != Code::CallEdited.as_str());
        self.notices.push(edited(&checked.args));
        self.args = checked.args;
        Ok(self)
    }
}

fn misfit_of_person(why: &str) -> Outcome {
    recovery::failed(Code::DeniedByPerson, format!("a person {why}"))
}

/// Tells the model with which arguments its call ran.
fn edited(args: &Value) -> Notice {
    Notice::new(Code::CallEdited, "the call ran with other arguments than yours").with("params", args.clone())
}

/// A call as the log has it.
struct LoggedCall {
    tool: String,
    params: String,
    cut: Vec<CutParam>,
    unreadable: Option<String>,
    /// Whether it has surely not begun.
    is_fresh: bool,
    /// Whether a model made it, of what it was offered.
    is_of_model: bool,
}

impl Drive<'_> {
    /// Reads and checks one call.
    pub(crate) async fn check(&mut self, id: CallId) -> Result<Checked, RunError> {
        let fresh = self.fresh.remove(&id);
        let call = self
            .writer
            .journal
            .read(|timeline| LoggedCall::of(timeline, &id, fresh.is_some()));
        let fresh = fresh.flatten();
        let Some(call) = call else {
            let gone = recovery::failed(Code::Interrupted, "the call block cannot be read".into());
            return Ok(Checked {
                id,
                tool: String::new(),
                state: State::Refused(gone),
            });
        };
        let named = call.tool.clone();
        let state = self.check_logged(&id, call, fresh).await?;
        let tool = match &state {
            State::Ready(ready) => ready.tool.spec().name().to_string(),
            State::Refused(_) => named,
        };
        Ok(Checked { id, tool, state })
    }

    async fn check_logged(
        &mut self,
        id: &CallId,
        call: LoggedCall,
        fresh: Option<Map<String, Value>>,
    ) -> Result<State, RunError> {
        let imported = &self.writer.grants.imported;
        let standing = self
            .writer
            .journal
            .read(|timeline| approval::standing(timeline, id, imported, self.agent.world()));
        if let Standing::Refused(outcome) = standing {
            return Ok(State::Refused(outcome));
        }
        let tool = match self.dispatched(&call.tool, call.is_of_model).await {
            Ok(tool) => tool,
            Err(refused) => return Ok(State::Refused(refused)),
        };
        let params = match (&call.unreadable, fresh) {
            (Some(raw), _) => validate::read(raw),
            (None, Some(params)) => Ok(params),
            (None, None) => match validate::read(&call.params) {
                Ok(params) => Ok(self.whole(id, &call, params).await?),
                refused => refused,
            },
        };
        let Dispatched {
            tool,
            args,
            notices,
            passed,
        } = match params.and_then(|params| dispatch::follow(&tool, params)) {
            Ok(dispatched) => dispatched,
            Err(violation) => return Ok(State::Refused(violation.outcome())),
        };
        if !call.is_fresh && tool.spec().effect() == Effect::Once {
            return Ok(State::Refused(recovery::interrupted(tool.spec().name().as_str())));
        }
        let cx = self
            .call_cx(id)
            .granting(tool.spec().secrets())
            .attended(!self.is_unattended())
            .answered(self.writer.journal.read(|timeline| input::answers(timeline, id)));
        let args = match reference::resolve(&cx, args).await {
            Ok(args) => args,
            Err(not_visible) => return Ok(State::Refused(not_visible.outcome())),
        };
        let mut ready = Ready {
            tool,
            cx,
            is_approved: self.is_person || self.granted.contains(id),
            args,
            notices,
            passed,
            policy: self.policy.clone(),
            is_isolated: self.agent.is_isolated(),
            gate: None,
            decided: match standing {
                Standing::Allowed { digest, edited } => Some(Decided { digest, edited }),
                _ => None,
            },
        };
        Ok(match ready.take_decided() {
            None => State::Ready(ready),
            Some(args) => match ready.edited(args) {
                Ok(ready) => State::Ready(ready),
                Err(why) => State::Refused(misfit_of_person(&why)),
            },
        })
    }

    /// The surroundings of a call of this turn.
    pub(crate) fn call_cx(&self, id: &CallId) -> ToolCx {
        let now = self.agent.world().now();
        ToolCx::new(
            self.cx.clone(),
            self.turn.clone(),
            id.clone(),
            now,
            self.cancel.child_token(),
        )
    }

    /// The arguments of a call that another process wrote down, with what its block shows cut put back.
    async fn whole(
        &self,
        id: &CallId,
        call: &LoggedCall,
        mut params: Map<String, Value>,
    ) -> Result<Map<String, Value>, RunError> {
        for cut in &call.cut {
            let code = self.writer.journal.read(|timeline| code_of(timeline, id));
            let whole = match code {
                Some(code) => code,
                None => {
                    let bytes = self.agent.artifacts().get(&cut.blob).await;
                    let bytes = bytes.map_err(|error| RunError::Artifact(error.to_string()))?;
                    String::from_utf8_lossy(&bytes).into_owned()
                }
            };
            params.insert(cut.name.clone(), Value::String(whole));
        }
        Ok(params)
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
            is_fresh: is_fresh || timeline.call(id).is_some_and(CallRecord::is_held),
            is_of_model: block.meta().step.is_some_and(|step| step > 0),
        })
    }
}

fn code_of(timeline: &Timeline, id: &CallId) -> Option<String> {
    let block = timeline.call_block(id)?;
    let path = annals_core::path::LogicalPath::code(&block.turn, id);
    timeline.latest(&path)?.text().map(str::to_owned)
}
