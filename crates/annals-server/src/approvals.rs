//! Calls that wait for a person, in all conversations of the caller's scope, and what the person decides.

use annals_core::ids::RequestId;
use annals_runtime::{ApprovalDecision, PendingApproval};
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::app::App;
use crate::door::Caller;
use crate::problem::Problem;
use crate::request::{JsonBody, Place};

/// What waits.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Approvals {
    items: Vec<Approval>,
    /// Always null: there is one page.
    next_cursor: Option<String>,
}

/// A call that waits for a person.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Approval {
    /// Where it waits.
    conversation: String,
    /// When the person was asked, RFC 3339.
    asked: String,
    /// The content of the `approval.request` block.
    #[serde(flatten)]
    request: Value,
}

impl Approval {
    fn of(waits: PendingApproval) -> Result<Self, Problem> {
        Ok(Approval {
            conversation: waits.conversation.to_string(),
            asked: waits.asked.to_string(),
            request: serde_json::to_value(&waits.request).map_err(Problem::internal)?,
        })
    }
}

pub(crate) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<Approvals>, Problem> {
    let waiting = app.agent(&caller.scope).pending_approvals().await?;
    let items = waiting.into_iter().map(Approval::of).collect::<Result<_, _>>()?;
    Ok(Json(Approvals {
        items,
        next_cursor: None,
    }))
}

/// What a person decided.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewDecision {
    /// `once`, `conversation`, `always`, `deny` or `deny_and_stop`.
    decision: String,
    /// Why, for the model and for those who read the timeline.
    #[serde(default)]
    note: Option<String>,
    /// Arguments to run the call with instead.
    #[serde(default)]
    edited_args: Option<Value>,
}

/// What was decided.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Decided {
    approval_id: String,
    decision: String,
}

pub(crate) async fn decide(
    State(app): State<App>,
    caller: Caller,
    place: Place,
    JsonBody { value, once }: JsonBody<NewDecision>,
) -> Result<Response, Problem> {
    let (agent, id) = (app.agent(&caller.scope), place.conversation()?);
    let approval = RequestId::parse(place.approval()).map_err(|_| Problem::not_found("the approval"))?;
    let decided = Decided {
        approval_id: approval.to_string(),
        decision: value.decision.clone(),
    };
    let decision: ApprovalDecision = decision(&approval, value, &caller)?;
    once.perform(&app, StatusCode::ACCEPTED, &decided, async |answer| {
        agent.conversation(&id).answering(answer).decide(decision).await
    })
    .await
}

fn decision(approval: &RequestId, value: NewDecision, caller: &Caller) -> Result<ApprovalDecision, Problem> {
    let mut said = serde_json::json!({
        "approval_id": approval,
        "decision": value.decision,
        "by": caller.scope.user(),
        "via": "http",
    });
    if let Some(note) = value.note {
        said["note"] = Value::String(note);
    }
    if let Some(args) = value.edited_args {
        said["edited_args"] = args;
    }
    serde_json::from_value(said)
        .map_err(|error| Problem::bad_request(format_args!("the decision cannot be read: {error}")))
}
