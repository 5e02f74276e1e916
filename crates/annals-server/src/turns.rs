//! Turns: started by a prompt, looked at, steered, cancelled, judged.

use annals_core::block::{BlockKind, NewBlock};
use annals_core::ids::{ConversationId, TurnId};
use annals_core::path::LogicalPath;
use annals_core::turn::TurnReport;
use annals_runtime::{Agent, Attachment, ConversationHandle, Prompt, RunError};
use axum::extract::{FromRequest, Request, State};
use axum::response::Response;
use axum::{Json, RequestExt as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::app::App;
use crate::conversations::Turn;
use crate::door::Caller;
use crate::form::{Form, Part, Received};
use crate::idempotency::Once;
use crate::limits::TurnPlace;
use crate::problem::{Code, Problem};
use crate::relay;
use crate::request::{JsonBody, Place, json, media_type, read};

/// A turn to run.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTurn {
    /// What is asked.
    prompt: String,
    /// Files that come with it.
    #[serde(default)]
    attachments: Vec<NewAttachment>,
}

/// A file in a JSON body. Larger ones are better sent as multipart.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewAttachment {
    /// Its name.
    name: String,
    /// Its bytes, as base64.
    base64: String,
}

/// A turn that was started.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Started {
    turn_id: String,
}

/// A prompt as it came, in either form.
pub(crate) struct PromptBody {
    prompt: String,
    attachments: Vec<Attachment>,
    once: Once,
}

impl FromRequest<App> for PromptBody {
    type Rejection = Problem;

    async fn from_request(mut request: Request, app: &App) -> Result<Self, Problem> {
        let caller = request.extract_parts::<Caller>().await?;
        match media_type(request.headers()).as_str() {
            "multipart/form-data" => PromptBody::of_form(request, &caller, app).await,
            _ => PromptBody::of_json(request, &caller, app).await,
        }
    }
}

impl PromptBody {
    async fn of_json(request: Request, caller: &Caller, app: &App) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let bytes = read(body, app.limits.json_max_bytes, &app.limits).await?;
        let turn: NewTurn = json(&parts.headers, &bytes)?;
        let decoded = turn.attachments.into_iter().map(|file| {
            let bytes = STANDARD.decode(&file.base64).map_err(|error| {
                Problem::bad_request(format_args!("attachment `{}` is no base64: {error}", file.name))
            })?;
            Ok(Attachment::new(file.name, bytes))
        });
        Ok(PromptBody {
            prompt: turn.prompt,
            attachments: decoded.collect::<Result<_, Problem>>()?,
            once: Once::of(caller, &parts, Sha256::digest(&bytes).into())?,
        })
    }

    async fn of_form(request: Request, caller: &Caller, app: &App) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let mut hash = Sha256::new();
        let rebuilt = Request::from_parts(parts.clone(), body);
        let mut form = Form::from_request(rebuilt, app).await?;
        let (mut prompt, mut attachments) = (String::new(), Vec::new());
        while let Some(part) = form.next(app).await? {
            part.add_to(&mut hash);
            let Part { name, file, received } = part;
            match (received, name.as_str()) {
                (Received::File(blob), _) => {
                    attachments.push(Attachment::stored(file.unwrap_or_default(), blob));
                }
                (Received::Field(bytes), "prompt") => {
                    prompt = String::from_utf8(bytes)
                        .map_err(|_| Problem::bad_request("the field `prompt` is no UTF-8"))?;
                }
                (Received::Field(_), other) => {
                    let other: String = other.chars().take(40).collect();
                    return Err(Problem::bad_request(format_args!(
                        "the form has no field `{}`: send `prompt`, and files",
                        other.escape_default()
                    )));
                }
            }
            if attachments.len() > app.limits.attachments_max {
                let detail = format!(
                    "at most {} files may come with a prompt",
                    app.limits.attachments_max
                );
                return Err(Problem::new(Code::Unprocessable, detail));
            }
        }
        Ok(PromptBody {
            prompt,
            attachments,
            once: Once::of(caller, &parts, hash.finalize().into())?,
        })
    }
}

pub(crate) async fn start(
    State(app): State<App>,
    caller: Caller,
    place: Place,
    body: PromptBody,
) -> Result<Response, Problem> {
    let (agent, id) = (app.agent(&caller.scope), place.conversation()?);
    let PromptBody {
        prompt,
        attachments,
        once,
    } = body;
    if let Some(known) = once.known(&app).await? {
        return Ok(known);
    }
    let Admitted {
        client_key,
        turn,
        place,
    } = admit(&app, &agent, &id, &attachments).await?;
    let started = Started {
        turn_id: turn.to_string(),
    };
    let prompt = Prompt {
        text: prompt,
        attachments,
        client_key: Some(client_key),
        ..Prompt::default()
    };
    // What has begun is done whole, also for a client that goes away.
    let (tasks, shared) = (app.tasks.clone(), app.clone());
    let performed = tasks.spawn(async move {
        let app = shared;
        app.outside.webhooks.owe(&agent, &id, &turn).await?;
        once.perform(&app, StatusCode::ACCEPTED, &started, async |answer| {
            agent.conversation(&id).answering(answer).post(prompt).await?;
            place.posted();
            Ok(())
        })
        .await
    });
    performed.await.map_err(Problem::internal)?
}

pub(crate) fn new_key(agent: &Agent) -> String {
    format!("{:016x}{:016x}", agent.world().random(), agent.world().random())
}

/// A turn that may be posted. Its place among those of its scope is given back unless it is posted.
pub(crate) struct Admitted {
    pub(crate) client_key: String,
    pub(crate) turn: TurnId,
    pub(crate) place: TurnPlace,
}

/// Whether a turn may be posted, by the conditions of every face: the queue of its conversation, its files, the turns of its
/// scope.
pub(crate) async fn admit(
    app: &App,
    agent: &Agent,
    id: &ConversationId,
    attachments: &[Attachment],
) -> Result<Admitted, Problem> {
    check(app, agent, id, attachments).await?;
    let client_key = new_key(agent);
    let turn = ConversationHandle::turn_of_key(&client_key);
    let place = app
        .usage
        .turn(agent.scope(), &turn, &app.limits, Instant::now())?;
    Ok(Admitted {
        client_key,
        turn,
        place,
    })
}

/// What would only be found out after the answer.
pub(crate) async fn check(
    app: &App,
    agent: &Agent,
    id: &ConversationId,
    attachments: &[Attachment],
) -> Result<(), Problem> {
    let waiting = app.store().pending(&agent.key(id)).await?.len();
    if waiting >= app.limits.queue_max {
        let detail = format!("{waiting} posts wait in conversation `{id}`");
        return Err(Problem::new(Code::QueueFull, detail).retry_after(5));
    }
    agent
        .check_attachments(attachments)
        .await
        .map_err(|error| Problem::new(Code::AttachmentRefused, error.to_string()))
}

/// A turn, how far it has come, and what it came to.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TurnAnswer {
    #[serde(flatten)]
    turn: Turn,
    /// The answer, or the question it ended with.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    /// Model calls, time and usage, once it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<Value>,
}

pub(crate) async fn get(
    State(app): State<App>,
    caller: Caller,
    place: Place,
) -> Result<Json<TurnAnswer>, Problem> {
    let (agent, id, turn) = (app.agent(&caller.scope), place.conversation()?, place.turn()?);
    let status = agent.conversation(&id).turn_status(&turn).await?;
    let status = status.ok_or_else(|| Problem::not_found(format_args!("turn `{turn}`")))?;
    let cx = agent.reading(&id, None).await?;
    let timeline = cx
        .timeline
        .read()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .clone();
    let blocks = timeline
        .turn(&turn)
        .map_or(&[][..], |turn| timeline.turn_blocks(turn));
    let last = |kinds: &[BlockKind]| blocks.iter().rev().find(|block| kinds.contains(&block.kind));
    let answer = last(&[BlockKind::AssistantCompletion, BlockKind::StageClarification]);
    let report = last(&[BlockKind::ReactCompletion]);
    let report = report.and_then(|block| block.payload::<TurnReport>().ok());
    Ok(Json(TurnAnswer {
        turn: status.into(),
        answer: answer.and_then(|block| block.text()).map(str::to_owned),
        report: report.and_then(|report| serde_json::to_value(report).ok()),
    }))
}

/// Nothing more is said.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// Taken; the timeline shows what comes of it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Taken {
    turn_id: String,
}

impl Taken {
    fn of(turn: &TurnId) -> Self {
        Taken {
            turn_id: turn.to_string(),
        }
    }
}

pub(crate) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    place: Place,
    JsonBody { once, .. }: JsonBody<Nothing>,
) -> Result<Response, Problem> {
    let (agent, id, turn) = (app.agent(&caller.scope), place.conversation()?, place.turn()?);
    let handle = agent.conversation(&id).of_turn(turn.clone());
    once.perform(&app, StatusCode::ACCEPTED, &Taken::of(&turn), async |answer| {
        handle.answering(answer).cancel().await
    })
    .await
}

/// Words for a running turn.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Steer {
    /// What to say.
    text: String,
}

pub(crate) async fn steer(
    State(app): State<App>,
    caller: Caller,
    place: Place,
    JsonBody { value, once }: JsonBody<Steer>,
) -> Result<Response, Problem> {
    let (agent, id, turn) = (app.agent(&caller.scope), place.conversation()?, place.turn()?);
    if value.text.trim().is_empty() {
        return Err(Problem::new(Code::Unprocessable, "there is nothing to say"));
    }
    let handle = agent.conversation(&id).of_turn(turn.clone());
    let client_key = once.client_key().unwrap_or_else(|| new_key(&agent));
    // What was posted too late is kept with the answer of a success, in the commit that could not know yet.
    if once.known(&app).await?.is_some() && handle.came_too_late(&turn, &client_key).await? {
        return Err(RunError::TurnEnded(id).into());
    }
    once.perform(&app, StatusCode::ACCEPTED, &Taken::of(&turn), async |answer| {
        handle.answering(answer).steer_as(client_key, value.text).await
    })
    .await
}

/// What somebody thinks of a turn.
#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Reaction {
    /// Good.
    Up,
    /// Bad.
    Down,
}

/// Whether a turn was good.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Feedback {
    reaction: Reaction,
    /// What was good or bad about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

pub(crate) async fn feedback(
    State(app): State<App>,
    caller: Caller,
    place: Place,
    request: Request,
) -> Result<Response, Problem> {
    let (agent, id, turn) = (app.agent(&caller.scope), place.conversation()?, place.turn()?);
    let (parts, body) = request.into_parts();
    let bytes = read(body, app.limits.json_max_bytes, &app.limits).await?;
    let JsonBody { value, once } = JsonBody::<Feedback>::of(&caller, &parts, &bytes)?;
    if !caller.is_node {
        let path = format!("/v1/conversations/{id}/turns/{turn}/feedback");
        let sent = (&parts.headers, bytes);
        if let Some(answered) = relay::hand_on(&app, &agent, &id, &path, sent).await? {
            return Ok(answered);
        }
    }
    let session = agent.open(&id).await?;
    if session.timeline(|timeline| timeline.turn(&turn).is_none()) {
        return Err(Problem::not_found(format_args!("turn `{turn}`")));
    }
    let path = LogicalPath::stage(&turn, "feedback").map_err(Problem::internal)?;
    let block = NewBlock::new(BlockKind::StageFeedback, &turn, path).json(&value);
    once.perform(&app, StatusCode::CREATED, &Taken::of(&turn), async |answer| {
        agent.contribute(&session, vec![block], answer).await
    })
    .await
}
