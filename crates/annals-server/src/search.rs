//! What was said before, found by words and by meaning, in the caller's scope.

use annals_core::ids::ConversationId;
use annals_core::limits::MEMSEARCH_MAX_HITS;
use annals_store::recall::rank::SearchMode;
use annals_store::recall::{Hit, Query, Within};
use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::door::Caller;
use crate::problem::{Code, Problem};
use crate::request::Params;

const HITS_DEFAULT: usize = 10;
const DAYS_DEFAULT: u32 = 3_650;

#[derive(Deserialize)]
pub(crate) struct SearchQuery {
    q: String,
    conversation: Option<String>,
    limit: Option<usize>,
    days: Option<u32>,
}

/// Passages, the best first.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Passages {
    items: Vec<Passage>,
    /// Always null: a search has one page.
    next_cursor: Option<String>,
    /// What the search could not look at, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    shortfall: Option<String>,
}

/// Something that was said.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Passage {
    conversation: String,
    turn_id: String,
    seq: u64,
    path: Option<String>,
    /// `user`, `assistant` or `attachment`.
    role: String,
    text: String,
    score: f32,
    ts: String,
}

impl From<Hit> for Passage {
    fn from(hit: Hit) -> Self {
        Passage {
            conversation: hit.conversation.to_string(),
            turn_id: hit.turn.to_string(),
            seq: hit.seq.get(),
            path: hit.path.map(|path| path.to_string()),
            role: hit.target.as_str().to_owned(),
            text: hit.text,
            score: hit.score,
            ts: hit.ts.to_string(),
        }
    }
}

pub(crate) async fn search(
    State(app): State<App>,
    caller: Caller,
    Params(query): Params<SearchQuery>,
) -> Result<Json<Passages>, Problem> {
    if query.q.trim().is_empty() {
        return Err(Problem::bad_request("the query has no words: give `q`"));
    }
    let Some(recall) = app.agent.recall() else {
        return Err(Problem::new(
            Code::Unavailable,
            "this server has no memory search",
        ));
    };
    let conversation = query.conversation.as_deref().map(ConversationId::parse);
    let conversation = conversation.transpose().map_err(Problem::bad_request)?;
    let asked = Query {
        scope: caller.scope.clone(),
        within: conversation.map_or(Within::Scope, Within::Conversation),
        text: query.q,
        targets: Vec::new(),
        limit: query.limit.unwrap_or(HITS_DEFAULT).clamp(1, MEMSEARCH_MAX_HITS),
        since: None,
        before: None,
        by: SearchMode::Hybrid,
        now: app.agent.world().now(),
    };
    let found = recall
        .search(asked.days(query.days.unwrap_or(DAYS_DEFAULT)))
        .await?;
    Ok(Json(Passages {
        items: found.hits.into_iter().map(Passage::from).collect(),
        next_cursor: None,
        shortfall: found.shortfall.map(|shortfall| shortfall.to_string()),
    }))
}
