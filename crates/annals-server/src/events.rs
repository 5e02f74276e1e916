//! Live events of a conversation. A subscriber is a number: blocks are read from the log after it, so that none is
//! missed and none comes twice, whatever connection, process or reader dies in between.
//!
//! `block` has the block's `seq` as its id, so that a browser asks on after the last durable one, and `lost` that of the last
//! block that still holds. `delta`, `tree`, `state` and `gap` have none: they are about this moment only.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use annals_core::block::{Block, BlockJson, BlockKind};
use annals_core::ids::{ConversationId, Seq};
use annals_core::turn::TurnReport;
use annals_runtime::{Agent, Delta, RunError, Subscription, TurnStatus, Update};
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::conversations::{seq, state_name};
use crate::door::Caller;
use crate::limits::StreamPermit;
use crate::page::{Arriving, TreeEvent};
use crate::problem::{Code, Problem};
use crate::relay;
use crate::request::{Params, Place};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// A browser that lost its connection comes back after this long.
const RETRY: Duration = Duration::from_secs(1);
/// Proxies close what is silent.
const COMMENT_EVERY: Duration = Duration::from_secs(15);

#[derive(Deserialize)]
pub(crate) struct EventsQuery {
    after: Option<u64>,
    /// Whether prose that is arriving is wanted as trees as well.
    #[serde(default)]
    trees: bool,
}

/// A piece of what the model is producing.
#[derive(Serialize)]
struct DeltaEvent<'a> {
    turn_id: &'a str,
    step: u32,
    channel: annals_runtime::DeltaChannel,
    /// 0: the text begins anew with this piece.
    from: usize,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
}

/// How far the last turn has come.
#[derive(Default, Serialize)]
struct StateEvent<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    turn_id: Option<&'a str>,
    state: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

/// A tool says how far it has come.
#[derive(Serialize)]
struct ProgressEvent<'a> {
    turn_id: &'a str,
    step: u32,
    call_id: &'a str,
    progress: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

/// For another node: a block was written.
#[derive(Serialize)]
struct Settled {}

#[derive(Serialize)]
struct GapEvent {
    missed: u64,
}

/// The store has lost blocks that were sent.
#[derive(Serialize)]
struct LostEvent {
    /// The first that no longer holds.
    first: Seq,
}

pub(crate) async fn events(
    State(app): State<App>,
    caller: Caller,
    place: Place,
    Params(query): Params<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (agent, id) = (app.agent(&caller.scope), place.conversation()?);
    let after = match headers.get(&LAST_EVENT_ID) {
        Some(last) => after_last(last)?,
        None => query.after.filter(|after| *after > 0).map(seq).transpose()?,
    };
    let (subscription, info) = agent.subscribe_and_get(&id, after).await?;
    let tail = info.tail;
    if after > tail {
        let detail = format!(
            "block {} was asked for as the last one known; conversation `{id}` ends at {}",
            after.map_or(0, Seq::get),
            tail.map_or(0, Seq::get)
        );
        return Err(Problem::new(Code::BeyondEnd, detail));
    }
    let permit = match caller.is_node {
        true => None,
        false => Some(app.usage.stream(&caller.name, &app.limits, Instant::now())?),
    };
    // Without a block there is no turn.
    let status = match tail {
        Some(_) => agent.conversation(&id).status().await?,
        None => None,
    };
    let elsewhere = (!caller.is_node).then(|| Elsewhere {
        app: app.clone(),
        agent: agent.clone(),
        id: id.clone(),
    });
    if info.holding.is_some_and(|holding| holding.by != agent.owner()) {
        elsewhere.iter().for_each(Elsewhere::watch);
    }
    let feed = Feed {
        waiting: vec![status_event(status.as_ref()).retry(RETRY)],
        subscription,
        arriving: query.trees.then(|| Arriving::new(app.clone())),
        elsewhere,
        stopping: app.stopping.clone(),
        _permit: permit,
    };
    let events = stream::unfold(feed, |mut feed| async move {
        let event = feed.next().await?;
        Some((Ok::<_, Infallible>(event), feed))
    });
    let stream = Sse::new(events).keep_alive(KeepAlive::new().interval(COMMENT_EVERY));
    let headers = [
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (
            HeaderName::from_static("x-accel-buffering"),
            HeaderValue::from_static("no"),
        ),
    ];
    Ok((headers, stream).into_response())
}

/// What `Last-Event-ID` names. An empty one names nothing.
fn after_last(last: &HeaderValue) -> Result<Option<Seq>, Problem> {
    let malformed = || Problem::bad_request("the Last-Event-ID is no number of a block");
    match last.to_str().map_err(|_| malformed())?.trim() {
        "" | "0" => Ok(None),
        number => number.parse().map_err(|_| malformed()).and_then(seq).map(Some),
    }
}

/// One subscriber's stream.
struct Feed {
    /// Events to send before the next update, the last one first.
    waiting: Vec<Event>,
    subscription: Subscription,
    /// For a subscriber that draws.
    arriving: Option<Arriving>,
    /// What another node may be producing; none for a stream that another node reads, which has the blocks itself.
    elsewhere: Option<Elsewhere>,
    stopping: CancellationToken,
    _permit: Option<StreamPermit>,
}

/// A conversation that another node may own.
struct Elsewhere {
    app: App,
    agent: Agent,
    id: ConversationId,
}

impl Elsewhere {
    fn watch(&self) {
        relay::watch(&self.app, &self.agent, &self.id);
    }
}

impl Feed {
    /// The next event; none when the server stops or the conversation is gone.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.waiting.pop() {
                return Some(event);
            }
            let update = tokio::select! {
                biased;
                () = self.stopping.cancelled() => return None,
                update = self.subscription.next() => update,
                drawn = drawn(self.arriving.as_mut()) => return Some(event("tree", &drawn)),
            };
            match update {
                Ok(update) => self.take(update),
                Err(error) => {
                    report(&error);
                    return None;
                }
            }
        }
    }

    fn take(&mut self, update: Update) {
        if let Some(arriving) = &mut self.arriving {
            match &update {
                Update::Delta(delta) => arriving.hear(delta),
                Update::Block(_) | Update::Restarted { .. } | Update::Lost { .. } => arriving.clear(),
                _ => {}
            }
        }
        match update {
            Update::Block(block) => {
                self.waiting.extend(state_of(&block));
                match &self.elsewhere {
                    None => self.waiting.push(event("settled", &Settled {})),
                    Some(elsewhere) => {
                        self.waiting.push(block_event(&block));
                        // After an answer nothing is produced unless somebody says something, which is a block.
                        let goes_on = !matches!(
                            block.kind,
                            BlockKind::AssistantCompletion | BlockKind::ReactCompletion
                        );
                        if goes_on && !self.subscription.is_open_here() {
                            elsewhere.watch();
                        }
                    }
                }
            }
            Update::Delta(delta) => self.waiting.push(delta_event(&delta)),
            Update::ToolStarted { call, tool } => self.waiting.push(state(&StateEvent {
                state: "running",
                call_id: Some(call.as_str()),
                tool: Some(&tool),
                ..StateEvent::default()
            })),
            Update::Restarted { turn, reason } => self.waiting.push(state(&StateEvent {
                turn_id: Some(turn.as_str()),
                state: "restarted",
                reason: Some(&reason),
                ..StateEvent::default()
            })),
            Update::ToolProgress {
                turn,
                step,
                call,
                progress,
                total,
                message,
                ..
            } => self.waiting.push(event(
                "progress",
                &ProgressEvent {
                    turn_id: turn.as_str(),
                    step,
                    call_id: call.as_str(),
                    progress,
                    total,
                    message: message.as_deref(),
                },
            )),
            Update::Gap { missed } => self.waiting.push(event("gap", &GapEvent { missed })),
            Update::Lost { first } => self.waiting.push(lost_event(first)),
            // The end is a block.
            _ => {}
        }
    }
}

async fn drawn(arriving: Option<&mut Arriving>) -> TreeEvent {
    match arriving {
        Some(arriving) => arriving.next().await,
        None => std::future::pending().await,
    }
}

fn report(error: &RunError) {
    match error {
        RunError::Log(annals_store::LogError::NotFound { .. }) => {}
        error => tracing::warn!(%error, "a stream of events ended early"),
    }
}

fn event(name: &'static str, data: &impl Serialize) -> Event {
    let data = serde_json::to_string(data).expect("plain data always serialises to JSON");
    Event::default().event(name).data(data)
}

fn block_event(block: &Block) -> Event {
    event("block", &BlockJson::from(block)).id(block.seq.to_string())
}

/// With the id of the last block that still holds, after which a browser asks on.
fn lost_event(first: Seq) -> Event {
    event("lost", &LostEvent { first }).id((first.get() - 1).to_string())
}

fn delta_event(delta: &Delta) -> Event {
    let said = DeltaEvent {
        turn_id: delta.turn.as_str(),
        step: delta.step,
        channel: delta.channel,
        from: delta.from,
        text: &delta.text,
        path: delta.path.as_deref(),
    };
    event("delta", &said)
}

fn state(state: &StateEvent<'_>) -> Event {
    event("state", state)
}

fn status_event(status: Option<&TurnStatus>) -> Event {
    match status {
        None => state(&StateEvent {
            state: "idle",
            ..StateEvent::default()
        }),
        Some(status) => state(&StateEvent {
            turn_id: Some(status.turn_id.as_str()),
            state: state_name(status.state),
            outcome: status.outcome.map(|end| end.as_str()),
            ..StateEvent::default()
        }),
    }
}

/// What a block says of its turn's state.
fn state_of(block: &Arc<Block>) -> Option<Event> {
    let (name, outcome) = match block.kind {
        BlockKind::TurnHeader => ("running", None),
        BlockKind::ApprovalRequest => ("waiting", None),
        BlockKind::ApprovalDecision => ("running", None),
        BlockKind::ReactCompletion => ("ended", block.payload::<TurnReport>().ok()),
        _ => return None,
    };
    Some(state(&StateEvent {
        turn_id: Some(block.turn.as_str()),
        state: name,
        outcome: outcome.map(|report| report.outcome.as_str()),
        ..StateEvent::default()
    }))
}
