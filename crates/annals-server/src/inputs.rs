//! What calls wait to be told by a person, in all conversations of the caller's scope, and what the person says.

use annals_core::ids::RequestId;
use annals_runtime::{InputResponse, PendingInput};
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::app::App;
use crate::door::Caller;
use crate::problem::Problem;
use crate::request::{JsonBody, Place};

/// What waits.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Inputs {
    items: Vec<Input>,
    /// Always null: there is one page.
    next_cursor: Option<String>,
}

/// A call that waits to be told something.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Input {
    /// Where it waits.
    conversation: String,
    /// The content of the `input.request` block.
    #[serde(flatten)]
    request: Value,
}

impl Input {
    fn of(waits: PendingInput) -> Result<Self, Problem> {
        Ok(Input {
            conversation: waits.conversation.to_string(),
            request: serde_json::to_value(&waits.request).map_err(Problem::internal)?,
        })
    }
}

pub(crate) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<Inputs>, Problem> {
    let waiting = app.agent(&caller.scope).pending_inputs().await?;
    let items = waiting.into_iter().map(Input::of).collect::<Result<_, _>>()?;
    Ok(Json(Inputs {
        items,
        next_cursor: None,
    }))
}

/// What a person says.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewInput {
    /// `accept`, `decline` or `cancel`.
    #[serde(default = "accept")]
    action: String,
    /// What fits the request's schema, when it is accepted.
    #[serde(default)]
    content: Option<Value>,
}

fn accept() -> String {
    "accept".to_owned()
}

/// What was said.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Told {
    input_id: String,
    action: String,
}

pub(crate) async fn tell(
    State(app): State<App>,
    caller: Caller,
    place: Place,
    JsonBody { value, once }: JsonBody<NewInput>,
) -> Result<Response, Problem> {
    let (agent, id) = (app.agent(&caller.scope), place.conversation()?);
    let input = RequestId::parse(place.approval()).map_err(|_| Problem::not_found("the request"))?;
    let told = Told {
        input_id: input.to_string(),
        action: value.action.clone(),
    };
    let mut said = json!({
        "input_id": input, "action": value.action, "by": caller.scope.user(), "via": "http",
    });
    if let Some(content) = value.content {
        said["content"] = content;
    }
    let response: InputResponse = serde_json::from_value(said)
        .map_err(|error| Problem::bad_request(format_args!("the answer cannot be read: {error}")))?;
    once.perform(&app, StatusCode::ACCEPTED, &told, async |answer| {
        agent.conversation(&id).answering(answer).respond(response).await
    })
    .await
}
