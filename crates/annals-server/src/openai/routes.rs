//! The handlers of the OpenAI-compatible API.

use std::collections::HashMap;
use std::convert::Infallible;
use std::time::Duration;

use annals_core::ids::{ConversationId, TurnId};
use annals_runtime::TurnTerms;
use annals_store::Role;
use axum::Json;
use axum::extract::{Multipart, Path, Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use super::ask::{Ask, Face, Names, Started};
use super::chat::{ChatAnswer, ChatRequest};
use super::error::{ApiError, Wrapped};
use super::input::RawMessage;
use super::pieces::Piece;
use super::responses::{Numbered, ResponseAnswer, ResponsesRequest};
use super::transcript::Transcript;
use crate::app::App;
use crate::door::{Access, Caller};
use crate::limits::StreamPermit;
use crate::request::{in_time, too_large};
use crate::routes::Route;
use crate::secrets::seconds;

/// User interfaces give up after a minute of silence, proxies sooner.
const COMMENT_EVERY: Duration = Duration::from_secs(10);
const MODEL: &str = "annals";

const CONVERSATION: HeaderName = HeaderName::from_static("x-annals-conversation");
const TURN: HeaderName = HeaderName::from_static("x-annals-turn");
const TOOLS: HeaderName = HeaderName::from_static("x-annals-tools");
const ATTENDED: HeaderName = HeaderName::from_static("x-annals-attended");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Names that chat clients give to a chat: Open WebUI, LibreChat and others by configuration, opencode, Codex.
const HINTS: [HeaderName; 4] = [
    HeaderName::from_static("x-openwebui-chat-id"),
    HeaderName::from_static("x-conversation-id"),
    HeaderName::from_static("x-session-id"),
    HeaderName::from_static("session-id"),
];

/// The routes of this API.
pub(crate) fn table() -> Vec<Route> {
    use Method as M;
    const USE: Access = Access::Role(Role::Use);
    vec![
        Route::new(M::POST, "/v1/chat/completions", USE, chat)
            .about("Chat Completions, whole or streamed.")
            .gives_object(),
        Route::new(M::POST, "/v1/responses", USE, responses)
            .about("Responses, whole, streamed or in the background.")
            .gives_object(),
        Route::new(M::GET, "/v1/responses/{id}", USE, response)
            .about("A response; its stream goes on after an event.")
            .gives_object(),
        Route::new(M::DELETE, "/v1/responses/{id}", USE, keep_response)
            .about("Refused: nothing is deleted this way.")
            .gives_object(),
        Route::new(M::POST, "/v1/responses/{id}/cancel", USE, cancel)
            .about("Cancels a response that is under way.")
            .gives_object(),
        Route::new(M::GET, "/v1/models", USE, models)
            .about("The models of the OpenAI-compatible API.")
            .gives_object(),
        Route::new(M::GET, "/v1/models/{*id}", USE, model)
            .about("One of them.")
            .gives_object(),
        Route::new(M::POST, "/v1/files", USE, upload)
            .about("Keeps a file for later requests.")
            .gives_object(),
        Route::new(M::GET, "/v1/files", USE, files)
            .about("The files that were kept.")
            .gives_object(),
        Route::new(M::GET, "/v1/files/{id}", USE, file)
            .about("A file that was kept.")
            .gives_object(),
        Route::new(M::DELETE, "/v1/files/{id}", USE, remove_file)
            .about("Forgets a file.")
            .gives_object(),
        Route::new(M::GET, "/v1/files/{id}/content", USE, file_content)
            .about("The bytes of a file.")
            .gives_bytes("application/octet-stream"),
    ]
}

impl Face {
    fn of(app: &App, caller: &Caller) -> Self {
        Face {
            app: app.clone(),
            agent: app.agent(&caller.scope),
            turnstile: app.turnstile.clone(),
        }
    }

    async fn transcript(&self, raw: Vec<RawMessage>) -> Result<Transcript, ApiError> {
        let mut messages = Vec::with_capacity(raw.len());
        let mut files = 0;
        for message in raw {
            let message = message.loaded(files, self).await?;
            files += message.said.files.len();
            messages.push(message);
        }
        Transcript::of(messages).map_err(|error| ApiError::invalid("messages", "nothing_asked", error))
    }
}

/// Reads a body. Clients are told what is wrong in their own form.
fn body<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, ApiError> {
    serde_json::from_slice(bytes).map_err(|error| {
        ApiError::new(
            StatusCode::BAD_REQUEST,
            "invalid_json",
            format_args!("the body cannot be read: {error}"),
        )
    })
}

fn text_of(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?.trim();
    Some(value.to_owned()).filter(|value| !value.is_empty())
}

fn conversation_id(param: &'static str, text: &str) -> Result<ConversationId, ApiError> {
    ConversationId::parse(text).map_err(|error| ApiError::invalid(param, "invalid_conversation", error))
}

/// What a request says of its conversation.
fn names(
    headers: &HeaderMap,
    conversation: Option<&Value>,
    previous: Option<&str>,
    metadata: Option<&Value>,
) -> Result<Names, ApiError> {
    let given = conversation.and_then(|value| value.as_str().or_else(|| value["id"].as_str()));
    let named = text_of(headers, &CONVERSATION).or_else(|| {
        metadata
            .and_then(|metadata| metadata["conversation"].as_str())
            .map(str::to_owned)
    });
    Ok(Names {
        conversation: given.map(|id| conversation_id("conversation", id)).transpose()?,
        after: previous.map(response_id).transpose()?,
        named: named.map(|id| conversation_id("conversation", &id)).transpose()?,
        hint: HINTS.iter().find_map(|name| text_of(headers, name)),
    })
}

/// What a response's id names.
fn response_id(id: &str) -> Result<(ConversationId, TurnId), ApiError> {
    let missing = || ApiError::missing("response");
    let (conversation, turn) = id
        .strip_prefix("resp_")
        .and_then(|rest| rest.rsplit_once('.'))
        .ok_or_else(missing)?;
    let conversation = ConversationId::parse(conversation).map_err(|_| missing())?;
    let turn = TurnId::parse(turn).map_err(|_| missing())?;
    Ok((conversation, turn))
}

/// What holds for a turn. A chat client shows no approvals: unless it says that somebody looks at them elsewhere, what a
/// person would have to allow is denied instead of waited for.
fn terms(headers: &HeaderMap, schema: Option<Value>) -> TurnTerms {
    TurnTerms {
        unattended: text_of(headers, &ATTENDED).as_deref() != Some("true"),
        schema,
    }
}

/// Where this server is reached.
fn origin(app: &App, headers: &HeaderMap) -> String {
    match &app.door.public {
        Some(public) => public.origin.clone(),
        None => format!("http://{}", text_of(headers, &header::HOST).unwrap_or_default()),
    }
}

/// The headers that tell a client where its turn is.
fn places(started: &Started, ignores_tools: bool) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let value = |text: &str| HeaderValue::from_str(text).ok();
    headers.extend(value(started.conversation.as_str()).map(|value| (CONVERSATION, value)));
    headers.extend(value(started.turn.as_str()).map(|value| (TURN, value)));
    if ignores_tools {
        headers.insert(TOOLS, HeaderValue::from_static("ignored"));
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers
}

async fn chat(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, ApiError> {
    let mut request: ChatRequest = body(&bytes)?;
    let face = Face::of(&app, &caller);
    let transcript = face.transcript(request.messages()?).await?;
    let metadata = request.metadata.clone().map(Value::Object);
    let ask = Ask {
        transcript,
        names: names(&headers, request.conversation.as_ref(), None, metadata.as_ref())?,
        terms: terms(&headers, request.schema()?),
        idempotency: text_of(&headers, &IDEMPOTENCY_KEY),
        origin: origin(&app, &headers),
    };
    let started = face.start(ask).await?;
    let headers = places(
        &started,
        request.tools.as_ref().is_some_and(|tools| !tools.is_empty()),
    );
    let answer = ChatAnswer::new(
        format!("chatcmpl-{}", started.turn),
        seconds(face.agent.world().now()),
        request.model.clone().unwrap_or_else(|| MODEL.to_owned()),
        request.includes_usage(),
    );
    if request.stream == Some(true) {
        let permit = app
            .usage
            .stream(&caller.name, &app.limits, tokio::time::Instant::now())?;
        return Ok((headers, events(chat_events(answer, started.pieces), &app, permit)).into_response());
    }
    let mut metadata = metadata.unwrap_or_else(|| json!({}));
    metadata["conversation"] = json!(started.conversation);
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
        if let Piece::Ended(report) = &piece {
            return match ApiError::of_turn(report) {
                Some(error) => Err(error),
                None => Ok(answer.whole(report, metadata)),
            };
        }
    }
    Err(stopped())
}

/// The server stops; the turn goes on when it is back.
fn stopped() -> ApiError {
    let message = "the server is stopping: the turn is kept, ask again later";
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", message)
}

type Events = stream::BoxStream<'static, Event>;

fn chat_events(answer: ChatAnswer, pieces: UnboundedReceiver<Result<Piece, ApiError>>) -> Events {
    let first = data(&answer.first());
    let rest = stream::unfold(Some((answer, pieces)), |state| async {
        let (mut answer, mut pieces) = state?;
        let (events, is_last) = match pieces.recv().await {
            Some(Ok(piece)) => {
                let is_last = matches!(piece, Piece::Ended(_));
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

fn data(value: &Value) -> Event {
    Event::default().data(value.to_string())
}

fn events(events: Events, app: &App, permit: StreamPermit) -> Response {
    let stopping = app.stopping.clone();
    let events = events.map(move |event| {
        let _open = &permit;
        Ok::<_, Infallible>(event)
    });
    let sse = Sse::new(until(events, stopping)).keep_alive(KeepAlive::new().interval(COMMENT_EVERY));
    let headers = [(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    )];
    (headers, sse).into_response()
}

/// The stream as long as the server does; what is ready is sent first.
fn until<T>(
    events: impl Stream<Item = T> + Send + 'static,
    stopping: tokio_util::sync::CancellationToken,
) -> impl Stream<Item = T> + Send + 'static {
    // The one who follows the turn hears of the stop, too, and closes its channel: then the last event says so.
    let grace = async move {
        stopping.cancelled().await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    events.take_until(Box::pin(grace))
}

async fn responses(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, ApiError> {
    let mut request: ResponsesRequest = body(&bytes)?;
    let face = Face::of(&app, &caller);
    let transcript = face.transcript(request.messages()?).await?;
    let ask = Ask {
        transcript,
        names: names(
            &headers,
            request.conversation.as_ref(),
            request.previous_response_id.as_deref(),
            request.rest.get("metadata"),
        )?,
        terms: terms(&headers, request.schema()?),
        idempotency: text_of(&headers, &IDEMPOTENCY_KEY),
        origin: origin(&app, &headers),
    };
    let started = face.start(ask).await?;
    let headers = places(&started, request.tools() > 0);
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
    let id = format!("resp_{}.{}", started.conversation, started.turn);
    let now = seconds(face.agent.world().now());
    let mut answer = ResponseAnswer::new(&id, now, request, after);
    if !started.is_stand_alone {
        answer.note("conversation", started.conversation.as_str());
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
        if let Piece::Ended(report) = &piece {
            return match ApiError::of_turn(report) {
                Some(error) => Err(error),
                None => Ok(answer.finished(report, now)),
            };
        }
        answer.events(&piece, now);
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
                (events, matches!(piece, Piece::Ended(_)))
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

async fn response(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let face = Face::of(&app, &caller);
    let (conversation, turn) = response_id(&id)?;
    let is_stream = query.get("stream").is_some_and(|value| value == "true");
    let after = query.get("starting_after").and_then(|value| value.parse().ok());
    let status = face.agent.conversation(&conversation).turn_status(&turn).await?;
    let status = status.ok_or_else(|| ApiError::missing("response"))?;
    if is_stream || status.outcome.is_some() {
        let started = face.follow(conversation, turn, origin(&app, &headers)).await?;
        let headers = places(&started, false);
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

async fn keep_response(Path(_): Path<String>) -> ApiError {
    let message =
        "a response is part of a conversation's timeline and is not deleted: delete the conversation";
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "not_deleted", message)
}

async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let face = Face::of(&app, &caller);
    let (conversation, turn) = response_id(&id)?;
    face.agent
        .conversation(&conversation)
        .of_turn(turn.clone())
        .cancel()
        .await?;
    let started = face.follow(conversation, turn, String::new()).await?;
    let headers = places(&started, false);
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

fn model_object(id: &str) -> Value {
    json!({"id": id, "object": "model", "created": 0, "owned_by": "annals"})
}

async fn models() -> Json<Value> {
    Json(json!({"object": "list", "data": [model_object(MODEL)]}))
}

async fn model(Path(id): Path<String>) -> Result<Json<Value>, ApiError> {
    match id == MODEL {
        true => Ok(Json(model_object(MODEL))),
        false => Err(ApiError::missing("model")),
    }
}

async fn upload(
    State(app): State<App>,
    caller: Caller,
    mut form: Multipart,
) -> Result<Json<Value>, ApiError> {
    let face = Face::of(&app, &caller);
    let broken = |error: axum::extract::multipart::MultipartError| {
        ApiError::new(StatusCode::BAD_REQUEST, "invalid_form", error.body_text())
    };
    let (mut file, mut purpose) = (None, "user_data".to_owned());
    while let Some(mut field) = in_time(form.next_field(), &app.limits).await?.map_err(broken)? {
        let filename = field.file_name().map(str::to_owned);
        let name = field.name().unwrap_or_default().to_owned();
        let max_bytes = annals_core::limits::ATTACHMENT_MAX_BYTES;
        let mut bytes = Vec::new();
        while let Some(piece) = in_time(field.chunk(), &app.limits).await?.map_err(broken)? {
            if bytes.len() as u64 + piece.len() as u64 > max_bytes {
                return Err(too_large(max_bytes).into());
            }
            bytes.extend_from_slice(&piece);
        }
        match name.as_str() {
            "file" => file = Some((filename.unwrap_or_else(|| "file".to_owned()), bytes)),
            "purpose" => purpose = String::from_utf8_lossy(&bytes).into_owned(),
            _ => {}
        }
    }
    let Some((name, bytes)) = file else {
        return Err(ApiError::invalid(
            "file",
            "missing_file",
            "the form has no field `file`",
        ));
    };
    Ok(Json(face.keep_file(name, purpose, bytes.into()).await?))
}

async fn files(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Json<Value>, ApiError> {
    let face = Face::of(&app, &caller);
    Ok(Json(face.files(query.get("after").map(String::as_str)).await?))
}

async fn file(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    Ok(Json(Face::of(&app, &caller).file(&id).await?))
}

async fn remove_file(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    Ok(Json(Face::of(&app, &caller).remove_file(&id).await?))
}

async fn file_content(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let (_, bytes) = Face::of(&app, &caller).file_content(&id).await?;
    // Never a page of this server's, whatever is in it.
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/octet-stream"),
        ),
        (
            header::CONTENT_DISPOSITION,
            HeaderValue::from_static("attachment"),
        ),
    ];
    Ok((headers, bytes).into_response())
}
