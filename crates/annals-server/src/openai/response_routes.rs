//! The handlers of Responses.

use std::collections::HashMap;

use annals_store::BlockLogExt as _;
use axum::Json;
use axum::extract::{Path, Query, State};
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use futures::{StreamExt as _, stream};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use super::ask::{Ask, Face, Started};
use super::error::ApiError;
use super::headers::{IDEMPOTENCY_KEY, ToolsUse, names, origin, places, terms, text_of};
use super::part::Part;
use super::pieces::Piece;
use super::responses::{Numbered, ResponseAnswer, ResponsesRequest};
use super::routes::ClientBody;
use super::sse::{Events, events, stopped};
use crate::app::App;
use crate::door::Caller;
use crate::secrets::seconds;

pub(super) async fn responses(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    ClientBody(mut request): ClientBody<ResponsesRequest>,
) -> Result<Response, ApiError> {
    let face = Face::of(&app, &caller);
    let transcript = face.transcript(request.messages()?).await?;
    let functions = request.functions()?;
    let sent = functions.len();
    let ask = Ask {
        transcript,
        names: names(
            &headers,
            request.conversation.as_ref(),
            request.previous_response_id.as_deref(),
            request.rest.get("metadata"),
        )?,
        terms: terms(&app, &headers, request.schema()?, functions),
        idempotency: text_of(&headers, &IDEMPOTENCY_KEY),
        origin: origin(&app, &headers),
    };
    let tools = ToolsUse::of(&ask.terms, sent);
    let started = face.start(ask).await?;
    let headers = places(&started, tools);
    respond(&face, &caller, started, &request, None, headers).await
}

/// The answer to a request for a response: its events, the object when it is done, or as it is now.
async fn respond(
    face: &Face,
    caller: &Caller,
    started: Started,
    request: &ResponsesRequest,
    after: Option<u64>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let id = started.part.to_string();
    let now = seconds(face.agent.world().now());
    let mut answer = ResponseAnswer::new(&id, now, request, after);
    if !started.is_stand_alone {
        answer.note("conversation", started.part.conversation.as_str());
    }
    if request.stream == Some(true) {
        let app = &face.app;
        let permit = app
            .usage
            .stream(&caller.name, &app.limits, tokio::time::Instant::now())?;
        let stream = response_events(answer, started.pieces, face.clone());
        return Ok((headers, events(stream, app, permit)).into_response());
    }
    if request.background == Some(true) {
        return Ok((headers, Json(answer.object("queued"))).into_response());
    }
    let object = whole_response(answer, started.pieces, face).await?;
    Ok((headers, Json(object)).into_response())
}

async fn whole_response(
    mut answer: ResponseAnswer,
    mut pieces: UnboundedReceiver<Result<Piece, ApiError>>,
    face: &Face,
) -> Result<Value, ApiError> {
    while let Some(piece) = pieces.recv().await {
        let piece = piece?;
        let now = seconds(face.agent.world().now());
        if let Some(whole) = answer.finished(&piece, now) {
            return whole;
        }
    }
    Err(stopped())
}

fn response_events(
    answer: ResponseAnswer,
    pieces: UnboundedReceiver<Result<Piece, ApiError>>,
    face: Face,
) -> Events {
    let first: Vec<Event> = answer.first().iter().map(numbered).collect();
    let rest = stream::unfold(Some((answer, pieces, face)), |state| async {
        let (mut answer, mut pieces, face) = state?;
        let now = seconds(face.agent.world().now());
        let (events, is_last) = match pieces.recv().await {
            Some(Ok(piece)) => {
                let events = answer.events(&piece, now).iter().map(numbered).collect();
                (events, piece.is_last())
            }
            Some(Err(error)) => (vec![failed(&error)], true),
            None => (vec![failed(&stopped())], true),
        };
        Some((
            stream::iter::<Vec<Event>>(events),
            (!is_last).then_some((answer, pieces, face)),
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
    let handle = face.agent.conversation(&part.conversation);
    let status = handle.turn_status(&part.turn).await?;
    let status = status.ok_or_else(|| ApiError::missing("response"))?;
    if is_stream || status.outcome.is_some() || face.is_handed_over(&part).await? {
        let started = face.follow(part, origin(&app, &headers)).await?;
        let headers = places(&started, ToolsUse::None);
        return respond(
            &face,
            &caller,
            started,
            &ResponsesRequest::empty(is_stream),
            after,
            headers,
        )
        .await
        .or_else(|error| failed_response(&id, &face, error));
    }
    let now = seconds(face.agent.world().now());
    let answer = ResponseAnswer::new(&id, now, &ResponsesRequest::empty(false), None);
    let state = match status.state {
        annals_runtime::TurnState::Queued => "queued",
        _ => "in_progress",
    };
    Ok(Json(answer.object(state)).into_response())
}

/// A response that failed is still a response.
fn failed_response(id: &str, face: &Face, error: ApiError) -> Result<Response, ApiError> {
    if error.status == StatusCode::NOT_FOUND {
        return Err(error);
    }
    let now = seconds(face.agent.world().now());
    let mut object = ResponseAnswer::new(id, now, &ResponsesRequest::empty(false), None).object("failed");
    object["error"] = json!({"code": "server_error", "message": error.body.message});
    if error.body.code.as_deref() == Some("cancelled") {
        object["status"] = json!("cancelled");
        object["error"] = Value::Null;
    }
    Ok(Json(object).into_response())
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
) -> Result<Response, ApiError> {
    let face = Face::of(&app, &caller);
    let part = Part::parse(&id)?;
    let handle = face.agent.conversation(&part.conversation);
    // What follows is the end, also of a response that has handed its calls over.
    let tail = face.agent.log().tail(&face.agent.key(&part.conversation)).await?;
    handle.of_turn(part.turn.clone()).cancel().await?;
    let started = face.follow(Part { after: tail, ..part }, String::new()).await?;
    let headers = places(&started, ToolsUse::None);
    respond(
        &face,
        &caller,
        started,
        &ResponsesRequest::empty(false),
        None,
        headers,
    )
    .await
    .or_else(|error| failed_response(&id, &face, error))
}
