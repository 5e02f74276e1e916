//! Calls that wait for a person: what is asked, what was decided, and what a decision is good for.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use annals_core::block::BlobDigest;
use annals_core::block::payload::{ApprovalDecision, ApprovalRequest, Decision};
use annals_core::block::{BlockKind, NewBlock};
use annals_core::code::Code;
use annals_core::ids::{CallId, RequestId, Seq, TurnId};
use annals_core::time::Timestamp;
use annals_core::timeline::{Ask as Asked, Request, Timeline};
use annals_core::turn::outcome::Outcome;
use annals_core::turn::recovery;
use annals_policy::{Layer, Rule};
use serde_json::{Map, Value};

use crate::world::World;

/// What a hook wants a person to be asked about a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ask {
    /// What the rules look at: `tool`, `path`, `command`, `host`, `effect`.
    pub facets: Map<String, Value>,
    /// The rule that asks. Without a proposed rule, a decision for the conversation covers what the same rule asks about the
    /// same tool if there are no facets, and the same arguments otherwise.
    pub rule: Option<String>,
    /// Why it asks.
    pub why: Option<String>,
    /// The narrow rules that `always` would write, and by which a decision for the conversation covers later calls.
    pub proposed_rule: Option<String>,
    /// After this time the request lapses and the turn ends with `approval_expired`.
    pub expires_in: Option<Duration>,
}

/// What binds a decision to the arguments it was made about.
pub(crate) fn args_digest(args: &Value) -> BlobDigest {
    BlobDigest::of(args.to_string().as_bytes())
}

impl Ask {
    /// The request that is written down.
    pub(crate) fn request(
        self,
        timeline: &Timeline,
        turn: &TurnId,
        call: &CallId,
        tool: &str,
        args_digest: BlobDigest,
        now: Timestamp,
    ) -> ApprovalRequest {
        let earlier = timeline
            .requests()
            .iter()
            .filter(|request| request.call == *call)
            .count();
        let expires = self.expires_in.map(|after| {
            let micros = i64::try_from(after.as_micros()).unwrap_or(i64::MAX);
            Timestamp::from_unix_micros(now.unix_micros().saturating_add(micros))
        });
        ApprovalRequest {
            approval_id: RequestId::of(turn, call, earlier as u32 + 1),
            call_id: call.clone(),
            tool: tool.to_owned(),
            known_as: None,
            facets: self.facets,
            args_digest,
            rule: self.rule,
            why: self.why,
            proposed_rule: self.proposed_rule,
            expires,
        }
    }
}

/// How a request about a call stands.
pub(crate) enum Standing {
    /// Nobody was asked.
    Unasked,
    /// A person allowed these arguments, perhaps edited.
    Allowed {
        digest: BlobDigest,
        edited: Option<Map<String, Value>>,
    },
    /// It ends here.
    Refused(Outcome),
}

/// How what was asked about a call stands: whether something lapsed, and what the latest decision is. What a call asks
/// for after it was allowed takes nothing of that back.
///
/// What an imported file says was decided is a stranger's word: the person here is asked again.
pub(crate) fn standing(timeline: &Timeline, call: &CallId, imported: &Imported, world: &World) -> Standing {
    let of_call = || {
        timeline
            .requests_of(call)
            .rev()
            .filter(|request| !imported.covers(request.seq))
    };
    let now = world.now();
    if let Some(late) = of_call().find(|request| request.is_unanswered() && has_lapsed(request, now)) {
        return Standing::Refused(lapsed(late));
    }
    let Some(request) = of_call().find(|request| matches!(request.ask, Asked::Approval { .. })) else {
        return Standing::Unasked;
    };
    match &request.ask {
        Asked::Approval {
            request: asked,
            decision: Some(decision),
        } if decision.decision.allows() => Standing::Allowed {
            digest: asked.args_digest,
            edited: decision.edited_args.clone(),
        },
        Asked::Approval {
            decision: Some(decision),
            ..
        } => Standing::Refused(denied(decision)),
        _ => Standing::Unasked,
    }
}

fn has_lapsed(request: &Request, now: Timestamp) -> bool {
    request.expires.is_some_and(|expires| expires <= now)
}

/// Whether something that the turn waits for has lapsed.
pub(crate) fn any_lapsed(timeline: &Timeline, now: Timestamp) -> bool {
    timeline.waiting().any(|request| has_lapsed(request, now))
}

fn denied(decision: &ApprovalDecision) -> Outcome {
    let said = decision
        .note
        .as_deref()
        .map(str::trim)
        .filter(|note| !note.is_empty());
    let message = match said {
        Some(said) => format!("a person refused this call, it did not run: {said}"),
        None => "a person refused this call, it did not run".to_owned(),
    };
    recovery::failed(Code::DeniedByPerson, message)
}

fn lapsed(request: &Request) -> Outcome {
    let id = &request.id;
    match request.ask {
        Asked::Input { .. } => {
            let message = format!("nobody answered `{id}` in time: the call did not run");
            recovery::failed(Code::InputExpired, message)
        }
        _ => {
            let message = format!("nobody decided about `{id}` in time: the call did not run");
            recovery::failed(Code::ApprovalExpired, message)
        }
    }
}

/// A decision that something waits for.
pub(crate) struct Awaited {
    /// The block that writes it down.
    pub(crate) block: NewBlock,
    /// The rules that it keeps for other conversations.
    pub(crate) keeps: Option<String>,
}

/// What becomes of a decision; none when nothing waits for it any more.
pub(crate) fn awaited(timeline: &Timeline, turn: &TurnId, decision: &ApprovalDecision) -> Option<Awaited> {
    let waiting = timeline
        .waiting()
        .find(|request| request.id == decision.approval_id)?;
    let Asked::Approval { request, .. } = &waiting.ask else {
        return None;
    };
    let is_kept = decision.decision == Decision::Always;
    Some(Awaited {
        block: decision.block(turn, &waiting.call),
        keeps: request.proposed_rule.clone().filter(|_| is_kept),
    })
}

/// The blocks whose origin is a stranger's file, or cannot be told: places in this conversation, in no order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Imported(pub(crate) Arc<[RangeInclusive<u64>]>);

impl Imported {
    pub(crate) fn covers(&self, seq: Seq) -> bool {
        self.0.iter().any(|places| places.contains(&seq.get()))
    }
}

/// What people allowed for the rest of a conversation. Read from its blocks at the first question, and only then.
pub(crate) struct Grants {
    known: Option<Granted>,
    pub(crate) imported: Imported,
}

#[derive(Default)]
struct Granted {
    /// Tools, with the rule that asked or the arguments that were asked about.
    plain: HashSet<(String, String)>,
    rules: Vec<Rule>,
}

impl Grants {
    pub(crate) fn new(imported: Imported) -> Self {
        Grants {
            known: None,
            imported,
        }
    }

    /// Whether a decision of this conversation covers the request.
    pub(crate) fn cover(&mut self, timeline: &Timeline, request: &ApprovalRequest) -> bool {
        let known = self
            .known
            .get_or_insert_with(|| granted(timeline, &self.imported));
        request.proposed_rule.is_none() && known.plain.contains(&grant(request))
    }

    /// The rules that decisions of this conversation amount to.
    pub(crate) fn rules(&mut self, timeline: &Timeline) -> &[Rule] {
        &self
            .known
            .get_or_insert_with(|| granted(timeline, &self.imported))
            .rules
    }

    /// A decision was written: what it grants has to be looked up again.
    pub(crate) fn forget(&mut self) {
        self.known = None;
    }
}

fn grant(request: &ApprovalRequest) -> (String, String) {
    let by_rule = request.rule.clone().filter(|_| request.facets.is_empty());
    let about = by_rule.unwrap_or_else(|| request.args_digest.to_string());
    (request.tool.clone(), about)
}

fn granted(timeline: &Timeline, imported: &Imported) -> Granted {
    let mut asked: Vec<ApprovalRequest> = Vec::new();
    let mut granted = Granted::default();
    for block in timeline
        .blocks()
        .iter()
        .filter(|block| !imported.covers(block.seq))
    {
        match block.kind {
            BlockKind::ApprovalRequest => asked.extend(block.payload::<ApprovalRequest>()),
            BlockKind::ApprovalDecision => {
                let Ok(decision) = block.payload::<ApprovalDecision>() else {
                    continue;
                };
                let lasts = matches!(decision.decision, Decision::Conversation | Decision::Always);
                let about = asked
                    .iter()
                    .find(|request| request.approval_id == decision.approval_id);
                if let (true, Some(request)) = (lasts, about) {
                    granted.add(request);
                }
            }
            _ => {}
        }
    }
    granted
}

impl Granted {
    fn add(&mut self, request: &ApprovalRequest) {
        match &request.proposed_rule {
            None => {
                self.plain.insert(grant(request));
            }
            // Rules that a newer version proposed may not be readable here; then people are asked again.
            Some(rules) => {
                let read = Layer::parse("conversation", rules, &[]).unwrap_or_default();
                self.rules.extend(read.rules);
            }
        }
    }
}
