//! `react.plan`: the steps the model sets itself, as snapshots. Progress is read from its notes, elsewhere.

use annals_core::block::{BlobDigest, BlockKind, Meta, NewBlock, ShownError};
use annals_core::code::Code;
use annals_core::ids::PlanId;
use annals_core::limits;
use annals_core::path::LogicalPath;
use annals_core::plan::{Plan, PlanMode};
use annals_core::turn::outcome::{Outcome, Output, Payload};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::access::Uses;
use crate::cx::ToolCx;
use crate::serialise;
use crate::spec::{Effect, Family, ToolSpec};
use crate::tool::Tool;

/// The tool.
pub struct PlanTool {
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Args {
    mode: PlanMode,
    #[serde(default)]
    steps: Vec<String>,
}

impl PlanTool {
    /// `react.plan`.
    pub fn new() -> Self {
        let spec = ToolSpec::builder("react.plan")
            .description(
                "Keep a plan for work of several steps. Report progress in the text beside your calls: `✓ [1]` done, \
                 `✗ [2] … — why` failed, `→ [3]` in progress.",
            )
            .family(Family::React)
            .effect(Effect::Replayable)
            .writes(Uses::named("plan"))
            .parameters(json!({
                "type": "object",
                "properties": {
                    "mode": {
                        "type": "string",
                        "enum": ["new", "update", "close"],
                        "description": "FIRST FIELD. `new` starts a plan, `update` gives it other steps (a step whose \
                            text stays keeps its state), `close` ends it."
                    },
                    "steps": {
                        "type": "array",
                        "items": {"type": "string"},
                        "maxItems": limits::PLAN_MAX_STEPS,
                        "description": "SECOND FIELD. All steps, in order. Not for `close`."
                    },
                },
                "required": ["mode"],
                "additionalProperties": false,
            }))
            .build()
            .expect("a built-in's declaration is valid");
        PlanTool { spec }
    }
}

impl Default for PlanTool {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Tool for PlanTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, cx: &ToolCx, args: Value) -> Outcome {
        let args: Args = match serde_json::from_value(args) {
            Ok(args) => args,
            Err(error) => {
                return serialise::refused(ShownError::new(Code::InvalidToolArguments, error.to_string()));
            }
        };
        let active = cx.timeline(|timeline| timeline.plan().cloned());
        let snapshot = match snapshot(cx, args, active.as_ref()) {
            Ok(snapshot) => snapshot,
            Err(error) => return serialise::refused(error),
        };
        let status = if snapshot.is_closed() { "closed" } else { "active" };
        let answer = json!({"plan_id": snapshot.plan_id, "status": status, "steps": snapshot.lines()});
        let path = LogicalPath::plan(cx.turn(), &snapshot.plan_id);
        let block = NewBlock::new(BlockKind::Plan, cx.turn(), path)
            .json(&snapshot)
            .meta(Meta::of_call(cx.call()));
        Outcome {
            output: Output::Payload(Payload::json(&answer)),
            beside: vec![block],
            ..Outcome::default()
        }
    }
}

fn snapshot(cx: &ToolCx, args: Args, active: Option<&Plan>) -> Result<Plan, ShownError> {
    let invalid = |error: annals_core::plan::PlanError| ShownError::new(Code::InvalidPlan, error.to_string());
    let no_plan = || {
        ShownError::new(
            Code::NoActivePlan,
            "there is no active plan: start one with mode `new` and its steps",
        )
    };
    match args.mode {
        PlanMode::New => Plan::try_new(plan_id(cx), args.steps, cx.now()).map_err(invalid),
        PlanMode::Update => active
            .ok_or_else(no_plan)?
            .try_updated(args.steps, cx.now())
            .map_err(invalid),
        PlanMode::Close => Ok(active.ok_or_else(no_plan)?.closed(cx.now())),
    }
}

/// From the call's id, so that a call that runs again after a crash makes the same plan.
fn plan_id(cx: &ToolCx) -> PlanId {
    let digest = BlobDigest::of(cx.call().as_str().as_bytes()).0;
    PlanId::made(cx.turn(), [digest[0], digest[1], digest[2], digest[3]])
}
