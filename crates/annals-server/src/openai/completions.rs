//! The handler of Chat Completions.

use axum::Json;
use axum::extract::State;
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use futures::{StreamExt as _, stream};
use http::HeaderMap;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use super::ask::{Ask, Face};
use super::chat::{ChatAnswer, ChatRequest};
use super::error::{ApiError, Wrapped};
use super::headers::{ToolsUse, names, origin, places, terms};
use super::pieces::Piece;
use super::routes::{ClientBody, MODEL};
use super::sse::{Events, data, events, stopped, stream_permit};
use crate::app::App;
use crate::door::Caller;
use crate::secrets::seconds;

pub(super) async fn chat(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    ClientBody {
        value: mut request,
        once,
    }: ClientBody<ChatRequest>,
) -> Result<Response, ApiError> {
    let face = Face::of(&app, &caller);
    let transcript = face.transcript(request.messages()?).await?;
    let metadata = request.metadata.clone().map(Value::Object);
    let functions = request.functions()?;
    let sent = functions.len();
    let ask = Ask {
        transcript,
        names: names(&headers, request.conversation.as_ref(), None, metadata.as_ref())?,
        terms: terms(&app, &headers, request.schema()?, functions),
        once,
        is_background: false,
        origin: origin(&app, &headers),
    };
    let tools = ToolsUse::of(&ask.terms, sent);
    // Before the turn: a refusal after it would have it asked for again.
    let permit = stream_permit(&app, &caller, request.stream)?;
    let started = face.start(ask).await?;
    let headers = places(&started, tools);
    let answer = ChatAnswer::new(
        started.part.to_string().replacen("resp_", "chatcmpl-", 1),
        seconds(face.agent.world().now()),
        request.model.clone().unwrap_or_else(|| MODEL.to_owned()),
        request.includes_usage(),
    );
    if let Some(permit) = permit {
        return Ok((headers, events(chat_events(answer, started.pieces), &app, permit)).into_response());
    }
    let mut metadata = metadata.unwrap_or_else(|| json!({}));
    metadata["conversation"] = json!(started.part.conversation);
    let whole = whole_chat(answer, started.pieces, metadata).await?;
    Ok((headers, Json(whole)).into_response())
}

async fn whole_chat(
    mut answer: ChatAnswer,
    mut pieces: UnboundedReceiver<Result<Piece, ApiError>>,
    metadata: Value,
) -> Result<Value, ApiError> {
    while let Some(piece) = pieces.recv().await {
        let piece = piece?;
        answer.chunks(&piece);
        if let Some(whole) = answer.whole(&piece, &metadata) {
            return whole;
        }
    }
    Err(stopped())
}

fn chat_events(answer: ChatAnswer, pieces: UnboundedReceiver<Result<Piece, ApiError>>) -> Events {
    let first = data(&answer.first());
    let rest = stream::unfold(Some((answer, pieces)), |state| async {
        let (mut answer, mut pieces) = state?;
        let (events, is_last) = match pieces.recv().await {
            Some(Ok(piece)) => {
                let is_last = piece.is_last();
                let chunks = answer.chunks(&piece);
                let is_error = chunks.iter().any(|chunk| chunk.get("error").is_some());
                let mut events: Vec<Event> = chunks.iter().map(data).collect();
                if is_last && !is_error {
                    events.push(Event::default().data("[DONE]"));
                }
                (events, is_last)
            }
            // Silence would be taken for success.
            Some(Err(error)) => (vec![data(&json!(Wrapped { error: &error.body }))], true),
            None => (
                vec![data(&json!(Wrapped {
                    error: &stopped().body
                }))],
                true,
            ),
        };
        Some((stream::iter(events), (!is_last).then_some((answer, pieces))))
    });
    stream::iter([first]).chain(rest.flatten()).boxed()
}
