//! The handlers of Responses.

use std::collections::HashMap;

use annals_runtime::{Agent, TurnTerms};
use annals_store::BlockLogExt as _;
use axum::Json;
use axum::extract::{Path, Query, State};
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use futures::{StreamExt as _, stream};
use http::{HeaderMap, StatusCode};
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use super::ask::{Ask, Face, Started};
use super::error::ApiError;
use super::headers::{ToolsUse, names, origin, places, terms};
use super::part::Part;
use super::pieces::Piece;
use super::responses::{Numbered, ResponseAnswer, ResponsesRequest};
use super::routes::ClientBody;
use super::sse::{Events, events, stopped, stream_permit};
use crate::app::App;
use crate::door::Caller;
use crate::limits::StreamPermit;
use crate::secrets::seconds;

/// What comes back of a turn.
type Incoming = UnboundedReceiver<Result<Piece, ApiError>>;

pub(super) async fn responses(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    ClientBody {
        value: mut request,
        once,
    }: ClientBody<ResponsesRequest>,
) -> Result<Response, ApiError> {
    let face = Face::of(&app, &caller);
    let transcript = face.transcript(request.messages()?).await?;
    let functions = request.functions()?;
    let sent = functions.len();
    let created = seconds(face.agent.world().now());
    let mut terms = terms(&app, &headers, request.schema()?, functions);
    terms.request = Some(request.note(created));
    let ask = Ask {
        transcript,
        names: names(
            &headers,
            request.conversation.as_ref(),
            request.previous_response_id.as_deref(),
            request.rest.get("metadata"),
        )?,
        terms,
        once,
        is_background: request.background == Some(true),
        origin: origin(&app, &headers),
    };
    let tools = ToolsUse::of(&ask.terms, sent);
    // Before the turn: a refusal after it would have it asked for again.
    let permit = stream_permit(&app, &caller, request.stream)?;
    let started = face.start(ask).await?;
    let headers = places(&started, tools);
    if started.is_replayed {
        // What was asked first is what is answered.
        let asked = Asked::of(&face, &started.part, request.stream == Some(true)).await?;
        let answer = asked.answer(&started, None);
        return respond(&face, answer, started, &asked.request, permit, headers).await;
    }
    let asked = Asked { request, created };
    let answer = asked.answer(&started, None);
    respond(&face, answer, started, &asked.request, permit, headers).await
}

/// A request and when it came.
struct Asked {
    request: ResponsesRequest,
    created: i64,
}

impl Asked {
    /// What was asked for an answer that is looked at again: the log has it with the turn.
    async fn of(face: &Face, part: &Part, is_stream: bool) -> Result<Self, ApiError> {
        let agent = face.agent_of(part).await?;
        let timeline = agent.timeline(&part.conversation).await?;
        let blocks = timeline
            .turn(&part.turn)
            .map_or(&[][..], |turn| timeline.turn_blocks(turn));
        let note = match blocks.first() {
            Some(header) => TurnTerms::of_header(header).request,
            None => queued_request(&agent, part).await?,
        };
        let mut request = ResponsesRequest::kept(note, is_stream);
        let began = blocks.iter().find(|block| part.begins_before(block.seq));
        let began = seconds(began.map_or_else(|| agent.world().now(), |block| block.ts));
        let created = match part.after {
            None => request.created().unwrap_or(began),
            // The request that brought results of the client's tools.
            Some(_) => {
                request.previous_response_id = None;
                began
            }
        };
        Ok(Asked { request, created })
    }

    fn answer(&self, started: &Started, after: Option<u64>) -> ResponseAnswer {
        let id = started.part.to_string();
        let mut answer = ResponseAnswer::new(&id, self.created, &self.request, after);
        if !started.is_stand_alone {
            answer.note("conversation", started.part.conversation.as_str());
        }
        answer
    }
}

/// What was asked with a prompt that waits for the turns before it.
async fn queued_request(agent: &Agent, part: &Part) -> Result<Option<Value>, ApiError> {
    let waiting = agent.log().pending(&agent.key(&part.conversation)).await?;
    let mut posts = waiting
        .into_iter()
        .filter_map(|row| serde_json::from_slice::<Value>(&row.post.body).ok());
    let post = posts.find(|post| post["turn"] == part.turn.as_str());
    Ok(post.map(|post| post["terms"]["request"].clone()))
}

/// The answer to a request for a response: its events, the object when it is done, or as it is now.
async fn respond(
    face: &Face,
    answer: ResponseAnswer,
    started: Started,
    request: &ResponsesRequest,
    permit: Option<StreamPermit>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if let Some(permit) = permit {
        let stream = response_events(answer, started.pieces);
        return Ok((headers, events(stream, &face.app, permit)).into_response());
    }
    if request.background == Some(true) {
        return Ok((headers, Json(answer.object("queued"))).into_response());
    }
    let object = whole_response(answer, started.pieces).await?;
    Ok((headers, Json(object)).into_response())
}

async fn whole_response(mut answer: ResponseAnswer, mut pieces: Incoming) -> Result<Value, ApiError> {
    while let Some(piece) = pieces.recv().await {
        if let Some(whole) = answer.finished(&piece?) {
            return whole;
        }
    }
    Err(stopped())
}

fn response_events(answer: ResponseAnswer, pieces: Incoming) -> Events {
    let first: Vec<Event> = answer.first().iter().map(numbered).collect();
    let rest = stream::unfold(Some((answer, pieces)), |state| async {
        let (mut answer, mut pieces) = state?;
        let (events, is_last) = match pieces.recv().await {
            Some(Ok(piece)) => {
                let events = answer.events(&piece).iter().map(numbered).collect();
                (events, piece.is_last())
            }
            Some(Err(error)) => (vec![failed(&error)], true),
            None => (vec![failed(&stopped())], true),
        };
        Some((
            stream::iter::<Vec<Event>>(events),
            (!is_last).then_some((answer, pieces)),
        ))
    });
    stream::iter(first).chain(rest.flatten()).boxed()
}

fn numbered(event: &Numbered) -> Event {
    Event::default().event(event.kind).data(event.data.to_string())
}

fn failed(error: &ApiError) -> Event {
    let data = json!({"type": "error", "code": error.body.code, "message": error.body.message, "param": null,
        "sequence_number": 0});
    Event::default().event("error").data(data.to_string())
}

pub(super) async fn response(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let face = Face::of(&app, &caller);
    let part = Part::parse(&id)?;
    let is_stream = query.get("stream").is_some_and(|value| value == "true");
    let after = query.get("starting_after").and_then(|value| value.parse().ok());
    let agent = face.agent_of(&part).await?;
    let status = agent
        .conversation(&part.conversation)
        .turn_status(&part.turn)
        .await?;
    let status = status.ok_or_else(|| ApiError::missing("response"))?;
    let timeline = agent.timeline(&part.conversation).await?;
    let is_over = status.outcome.is_some() || face.is_handed_over(&timeline, &part);
    let permit = stream_permit(&app, &caller, Some(is_stream))?;
    let asked = Asked::of(&face, &part, is_stream).await?;
    let mut started = face.follow(part, origin(&app, &headers)).await?;
    let headers = places(&started, ToolsUse::None);
    let mut answer = asked.answer(&started, after);
    if let Some(permit) = permit {
        let stream = response_events(answer, started.pieces);
        return Ok((headers, events(stream, &app, permit)).into_response());
    }
    if is_over {
        let object = looked_at(&mut answer, &mut started.pieces).await?;
        return Ok((headers, Json(object)).into_response());
    }
    let state = match status.state {
        annals_runtime::TurnState::Queued => "queued",
        _ => "in_progress",
    };
    Ok((headers, Json(answer.object(state))).into_response())
}

/// A response that is over. One that failed is still a response.
async fn looked_at(answer: &mut ResponseAnswer, pieces: &mut Incoming) -> Result<Value, ApiError> {
    while let Some(piece) = pieces.recv().await {
        if let Some(object) = answer.last(&piece?) {
            return Ok(object);
        }
    }
    Err(stopped())
}

pub(super) async fn keep_response(Path(_): Path<String>) -> ApiError {
    let message =
        "a response is part of a conversation's timeline and is not deleted: delete the conversation";
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "not_deleted", message)
}

pub(super) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    ClientBody { once, .. }: ClientBody<IgnoredAny>,
) -> Result<Response, ApiError> {
    let face = Face::of(&app, &caller);
    let part = Part::parse(&id)?;
    let agent = face.agent_of(&part).await?;
    let asked = Asked::of(&face, &part, false).await?;
    let handle = agent.conversation(&part.conversation).of_turn(part.turn.clone());
    let ending = match once.stored(&app).await? {
        Some(known) => Part::parse(&String::from_utf8_lossy(&known.body))?,
        None => {
            // What follows is the end, also of a response that has handed its calls over.
            let after = agent.log().tail(&agent.key(&part.conversation)).await?;
            let ending = Part {
                after,
                ..part.clone()
            };
            let answer = once.answer(StatusCode::OK, ending.to_string().into_bytes());
            handle.answering(answer).cancel().await?;
            ending
        }
    };
    let mut started = face.follow(ending, String::new()).await?;
    // The response keeps its name.
    started.part = part;
    let headers = places(&started, ToolsUse::None);
    let mut answer = asked.answer(&started, None);
    let object = looked_at(&mut answer, &mut started.pieces).await?;
    Ok((headers, Json(object)).into_response())
}
