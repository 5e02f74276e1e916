//! Conversations: made, listed, described, forked, deleted.

use annals_core::ids::Seq;
use annals_runtime::lineage::ForkPoint;
use annals_runtime::{TurnState, TurnStatus};
use annals_store::{ConversationInfo, Cursor};
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::app::App;
use crate::door::Caller;
use crate::problem::{Code, Problem};
use crate::request::{JsonBody, Params, Place};

/// A conversation to make.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewConversation {
    /// A title for people.
    #[serde(default)]
    title: Option<String>,
}

/// What was made.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Made {
    /// The conversation.
    pub(crate) id: String,
}

/// A conversation.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Conversation {
    id: String,
    /// A title for people.
    title: Option<String>,
    /// Whose it is: tenant/project/user.
    scope: String,
    /// When it was made, RFC 3339.
    created: String,
    /// The last block's time.
    updated: Option<String>,
    /// How many blocks it has; the last one's `seq`.
    blocks: u64,
    /// Where it came from.
    lineage: Vec<Value>,
    /// Its last turn; only when one conversation is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<Turn>,
}

/// A turn and how far it has come.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Turn {
    pub(crate) turn_id: String,
    /// `queued`, `running`, `waiting`, `unfinished` or `ended`.
    pub(crate) state: String,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<String>,
}

impl From<TurnStatus> for Turn {
    fn from(status: TurnStatus) -> Self {
        Turn {
            turn_id: status.turn_id.to_string(),
            state: state_name(status.state).to_owned(),
            outcome: status.outcome.map(|end| end.as_str().to_owned()),
        }
    }
}

pub(crate) fn state_name(state: TurnState) -> &'static str {
    match state {
        TurnState::Queued => "queued",
        TurnState::Running => "running",
        TurnState::Waiting => "waiting",
        TurnState::Ended => "ended",
        _ => "unfinished",
    }
}

/// A page of conversations, the newest first.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Conversations {
    items: Vec<Conversation>,
    /// Where the next page begins, if there is one.
    next_cursor: Option<String>,
}

impl Conversation {
    fn of(info: ConversationInfo, turn: Option<TurnStatus>) -> Self {
        let json = |ancestor| serde_json::to_value(ancestor).unwrap_or_default();
        Conversation {
            id: info.key.id.to_string(),
            title: info.title,
            scope: info.key.scope.to_string(),
            created: info.created.to_string(),
            updated: info.updated.map(|updated| updated.to_string()),
            blocks: info.tail.map_or(0, Seq::get),
            lineage: info.lineage.into_iter().map(json).collect(),
            turn: turn.map(Turn::from),
        }
    }
}

pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    JsonBody { value, once }: JsonBody<NewConversation>,
) -> Result<Response, Problem> {
    let agent = app.agent(&caller.scope);
    let id = agent.world().conversation_id();
    let made = Made { id: id.to_string() };
    once.perform(&app, StatusCode::CREATED, &made, async |answer| {
        agent.create_conversation(&id, value.title, answer).await
    })
    .await
}

#[derive(Deserialize)]
pub(crate) struct PageQuery {
    limit: Option<usize>,
    cursor: Option<String>,
}

const PAGE_DEFAULT: usize = 50;
const PAGE_MAX: usize = 500;

pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(query): Params<PageQuery>,
) -> Result<Json<Conversations>, Problem> {
    let limit = query.limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX);
    let cursor = query.cursor.map(|text| text.parse::<Cursor>()).transpose();
    let cursor = cursor.map_err(Problem::bad_request)?;
    let page = app.store().list(&caller.scope, cursor, limit).await?;
    let items = page.items.into_iter().map(|info| Conversation::of(info, None));
    Ok(Json(Conversations {
        items: items.collect(),
        next_cursor: page.next.map(|next| next.to_string()),
    }))
}

pub(crate) async fn get(
    State(app): State<App>,
    caller: Caller,
    place: Place,
) -> Result<Json<Conversation>, Problem> {
    let (agent, id) = (app.agent(&caller.scope), place.conversation()?);
    let info = app.store().get(&agent.key(&id)).await?;
    let turn = agent.conversation(&id).status().await?;
    Ok(Json(Conversation::of(info, turn)))
}

pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    place: Place,
) -> Result<StatusCode, Problem> {
    let (agent, id) = (app.agent(&caller.scope), place.conversation()?);
    let status = agent.conversation(&id).status().await?;
    if status.is_some_and(|turn| turn.state == TurnState::Running) {
        let detail = format!("a turn of conversation `{id}` runs");
        return Err(Problem::new(Code::TurnRunning, detail));
    }
    agent.delete_conversation(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Where to fork.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fork {
    /// The last block to share, 0 for none of them; the last one of all, if none is given.
    #[serde(default)]
    at: Option<u64>,
}

pub(crate) async fn fork(
    State(app): State<App>,
    caller: Caller,
    place: Place,
    JsonBody { value, once }: JsonBody<Fork>,
) -> Result<Response, Problem> {
    let (agent, parent) = (app.agent(&caller.scope), place.conversation()?);
    let at = match value.at {
        Some(blocks) => ForkPoint::try_from(blocks).map_err(Problem::bad_request)?,
        None => ForkPoint::End,
    };
    let id = agent.world().conversation_id();
    let made = Made { id: id.to_string() };
    once.perform(&app, StatusCode::CREATED, &made, async |answer| {
        agent.fork_as(&parent, at, &id, answer).await.map(drop)
    })
    .await
}

/// A block's number as a client gave it.
pub(crate) fn seq(number: u64) -> Result<Seq, Problem> {
    Seq::try_new(number).map_err(Problem::bad_request)
}
