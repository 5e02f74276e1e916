//! Blocks as they are stored, and what the model sees of them.

use annals_core::block::{Block, BlockJson, Body};
use annals_core::ids::Seq;
use annals_core::view::View;
use annals_store::BlockLogExt as _;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::app::App;
use crate::conversations::seq;
use crate::door::Caller;
use crate::problem::{Code, Problem};
use crate::request::{Params, Place};
use crate::schemas::BlockSchema;

const LIMIT_DEFAULT: usize = 500;
const LIMIT_MAX: usize = 5_000;

#[derive(Deserialize)]
pub(crate) struct BlocksQuery {
    after: Option<u64>,
    /// The `next_cursor` of the page before.
    cursor: Option<u64>,
    limit: Option<usize>,
    #[serde(default)]
    fields: Fields,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Fields {
    #[default]
    All,
    /// Without bodies and metadata.
    Head,
}

/// A block without its body.
#[derive(Serialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
struct Head<'a> {
    #[schemars(with = "u64")]
    seq: Seq,
    r#type: &'a str,
    author: &'a str,
    turn_id: &'a str,
    #[schemars(with = "String")]
    ts: annals_core::time::Timestamp,
    mime: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<u32>,
    /// Bytes of the body.
    size_bytes: u64,
    tokens: u32,
    /// The code of the error that it reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl<'a> Head<'a> {
    fn of(block: &'a Block) -> Self {
        let meta = block.meta();
        let size_bytes = match &block.body {
            Body::Empty => 0,
            Body::Text(text) => text.len() as u64,
            Body::Blob(blob) => blob.size_bytes,
        };
        Head {
            seq: block.seq,
            r#type: block.kind.tag(),
            author: &block.author,
            turn_id: block.turn.as_str(),
            ts: block.ts,
            mime: &block.mime,
            path: block.path.as_ref().map(|path| path.as_str()),
            call_id: meta.call.as_ref().map(|call| call.as_str()),
            step: meta.step,
            size_bytes,
            tokens: block.tokens,
            error: meta.error.as_ref().map(|error| error.code.to_string()),
        }
    }
}

/// A block, whole or without its body.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Item<'a> {
    Whole(BlockSchema),
    Head(Head<'a>),
}

/// A page of blocks.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Blocks", extend("additionalProperties" = false))]
pub(crate) struct Page {
    #[schemars(with = "Vec<Item<'static>>")]
    items: Vec<Value>,
    /// What `after` of the next page is, if there is one.
    next_cursor: Option<String>,
}

pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    place: Place,
    Params(query): Params<BlocksQuery>,
) -> Result<Response, Problem> {
    let (agent, id) = (app.agent(&caller.scope), place.conversation()?);
    let after = query.cursor.or(query.after).filter(|after| *after > 0);
    let after = after.map(seq).transpose()?;
    let limit = query.limit.unwrap_or(LIMIT_DEFAULT).clamp(1, LIMIT_MAX);
    let blocks = app.store().read_after(&agent.key(&id), after, limit).await?;
    let last = blocks.last().map(|block| block.seq.to_string());
    let next_cursor = last.filter(|_| blocks.len() == limit);
    let json = |block: &Block| match query.fields {
        Fields::All => serde_json::to_value(BlockJson::from(block)),
        Fields::Head => serde_json::to_value(Head::of(block)),
    };
    let items = blocks.iter().map(json).collect::<Result<_, _>>();
    let page = Page {
        items: items.map_err(Problem::internal)?,
        next_cursor,
    };
    Ok((
        [(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))],
        Json(page),
    )
        .into_response())
}

#[derive(Deserialize)]
pub(crate) struct RenderQuery {
    at: Option<u64>,
}

/// What the model sees: now, or when block `at` was the last one.
pub(crate) async fn render(
    State(app): State<App>,
    caller: Caller,
    place: Place,
    Params(query): Params<RenderQuery>,
) -> Result<Response, Problem> {
    let (agent, id) = (app.agent(&caller.scope), place.conversation()?);
    let whole = agent.timeline(&id).await?;
    let at = place_in(&whole, query.at)?;
    Ok(Json(agent.rendered(&whole, at).await?).into_response())
}

/// The place of a block that there is.
fn place_in(timeline: &View, number: Option<u64>) -> Result<Option<Seq>, Problem> {
    let Some(number) = number else { return Ok(None) };
    let place = seq(number)?;
    match timeline.block(place) {
        Some(_) => Ok(Some(place)),
        None => {
            let last = timeline.tail().map_or(0, Seq::get);
            let detail = format!("there is no block {number}: the last one is {last}");
            Err(Problem::new(Code::BeyondEnd, detail))
        }
    }
}
