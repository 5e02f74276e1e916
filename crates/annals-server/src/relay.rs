//! What the owner of a conversation, another node, is producing, for subscribers on this one.
//!
//! Blocks come from the log on every node. What happens between them is known to the owner alone, so this node reads the
//! owner's stream, once for all subscribers of a conversation, as best effort: whatever goes wrong, they miss pieces of a
//! text and get its block. What only the owner can write is handed on to it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use annals_core::ids::{CallId, ConversationId, ConversationKey, Seq, TurnId};
use annals_core::limits;
use annals_runtime::{Agent, Delta, DeltaChannel, Relayed, Update};
use annals_store::{LogError, Role};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::{HeaderMap, header};
use serde::Deserialize;

use crate::app::App;
use crate::door::NODE_TICKET;
use crate::idempotency::IDEMPOTENCY_KEY;
use crate::problem::{Code, Problem};
use crate::secrets::{Ticket, seconds};

/// An owner that does not answer in this time is not waited for.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// An owner that performs nothing in this time is asked again by its client.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// Streams say something at least every fifteen seconds; an owner that is silent for longer is gone.
const SILENCE_MAX: Duration = Duration::from_secs(40);
/// For how long a ticket is good: clocks of nodes may differ by less.
const TICKET_SECONDS: i64 = 300;
/// Between two looks at who owns a conversation.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// A turn that was posted begins in this time, or nobody reads what is not there.
const REST_MAX: Duration = Duration::from_secs(2);
/// An event of another node that is longer than this is none of ours.
const EVENT_MAX_BYTES: usize = 4 << 20;

/// The conversations that other nodes may own and subscribers of this one watch, and whether something has happened there
/// since somebody last looked who owns it.
#[derive(Default)]
pub(crate) struct Relays(Mutex<HashMap<ConversationKey, bool>>);

impl Relays {
    fn watched(&self) -> MutexGuard<'_, HashMap<ConversationKey, bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody is to begin to look. Who looks already is told to look once more.
    fn begin(&self, key: &ConversationKey) -> bool {
        self.watched().insert(key.clone(), true).is_none()
    }

    /// Whether there is a reason for a look; without one, nobody looks any more.
    fn is_due(&self, key: &ConversationKey) -> bool {
        let mut watched = self.watched();
        match watched.get_mut(key) {
            Some(is_due @ true) => {
                *is_due = false;
                true
            }
            _ => {
                watched.remove(key);
                false
            }
        }
    }
}

/// Something happens in a conversation that somebody watches here: what its owner produces elsewhere is read for them,
/// until it rests.
pub(crate) fn watch(app: &App, agent: &Agent, id: &ConversationId) {
    let key = agent.key(id);
    if !app.relays.begin(&key) {
        return;
    }
    let (app, agent, id) = (app.clone(), agent.clone(), id.clone());
    let tasks = app.tasks.clone();
    tasks.spawn(async move {
        let read = async {
            while app.relays.is_due(&key) {
                match Owner::of(&app, &agent, &id).await {
                    Ok(Some(owner)) => owner.relay(&app, &agent, &id).await,
                    Ok(None) => {}
                    Err(error) => tracing::debug!(%error, "who owns a conversation could not be found out"),
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        tokio::select! {
            () = app.stopping.cancelled() => {}
            () = read => {}
        }
    });
}

/// Another node that owns a conversation.
struct Owner {
    address: String,
    /// The last block when it was looked for.
    tail: u64,
}

impl Owner {
    /// None when nobody, or this process, owns the conversation, or its owner cannot be reached by others.
    async fn of(app: &App, agent: &Agent, id: &ConversationId) -> Result<Option<Self>, LogError> {
        if agent.is_open_here(id).await {
            return Ok(None);
        }
        let info = app.store().get(&agent.key(id)).await?;
        let Some(holding) = info.holding.filter(|holding| holding.by != agent.owner()) else {
            return Ok(None);
        };
        let members = app.store().alive().await?;
        let member = members.into_iter().find(|member| member.owner == holding.by);
        Ok(member.and_then(|member| member.address).map(|address| Owner {
            address,
            tail: info.tail.map_or(0, Seq::get),
        }))
    }

    async fn relay(self, app: &App, agent: &Agent, id: &ConversationId) {
        let url = format!(
            "{}/v1/conversations/{id}/events?after={}",
            self.address, self.tail
        );
        let asked = app.outside.peers.get(url).header(NODE_TICKET, ticket(app, agent));
        let asked = asked.send().await;
        let mut response = match asked.and_then(reqwest::Response::error_for_status) {
            Ok(response) => response,
            Err(error) => return tracing::debug!(%error, "the owner of a conversation was not reached"),
        };
        let (mut text, mut has_begun, mut silence_max) = (Vec::new(), false, SILENCE_MAX);
        while let Ok(Ok(Some(piece))) = tokio::time::timeout(silence_max, response.chunk()).await {
            text.extend_from_slice(&piece);
            while let Some(event) = take_event(&mut text) {
                let is_heard = match read(&event, id) {
                    Said::Relayed(relayed) => {
                        (has_begun, silence_max) = (true, SILENCE_MAX);
                        agent.relay(id, relayed)
                    }
                    // At first, what was posted may not have begun.
                    Said::Rests if !has_begun => {
                        silence_max = REST_MAX;
                        true
                    }
                    Said::Rests => false,
                    Said::Nothing => true,
                };
                if !is_heard {
                    return;
                }
            }
            if text.len() > EVENT_MAX_BYTES || agent.is_open_here(id).await {
                return;
            }
        }
    }
}

/// Proves to another node that this one asks, for a caller of this scope.
fn ticket(app: &App, agent: &Agent) -> String {
    app.signer.node_ticket(&Ticket {
        scope: agent.scope().clone(),
        roles: [Role::Use].into_iter().collect(),
        until: seconds(agent.world().now()) + TICKET_SECONDS,
        token: None,
    })
}

/// Hands a request on to the node that owns the conversation, which alone can perform it, and gives its answer; none when no
/// other node owns it, or its owner cannot be reached by others.
pub(crate) async fn hand_on(
    app: &App,
    agent: &Agent,
    id: &ConversationId,
    path: &str,
    request: (&HeaderMap, Bytes),
) -> Result<Option<Response>, Problem> {
    let Some(owner) = Owner::of(app, agent, id).await? else {
        return Ok(None);
    };
    let (headers, body) = request;
    let mut asked = app
        .outside
        .peers
        .post(format!("{}{path}", owner.address))
        .header(NODE_TICKET, ticket(app, agent))
        .timeout(ANSWER_MAX)
        .body(body);
    for name in [header::CONTENT_TYPE, IDEMPOTENCY_KEY] {
        if let Some(value) = headers.get(&name) {
            asked = asked.header(name, value);
        }
    }
    let silent = |error: reqwest::Error| {
        tracing::debug!(%error, "the owner of a conversation was not reached");
        let detail = "the node that owns the conversation does not answer; try again";
        Problem::new(Code::Unavailable, detail).retry_after(1)
    };
    let answered = asked.send().await.map_err(silent)?;
    let (status, kind) = (
        answered.status(),
        answered.headers().get(header::CONTENT_TYPE).cloned(),
    );
    let body = match bounded(answered, limits::NODE_ANSWER_MAX_BYTES)
        .await
        .map_err(silent)?
    {
        Some(body) => body,
        None => {
            let detail = "the node that owns the conversation answered with more than a node may";
            return Err(Problem::new(Code::Unavailable, detail));
        }
    };
    let mut response = (status, body).into_response();
    if let Some(kind) = kind {
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    Ok(Some(response))
}

/// The whole body of an answer; none if it has more than this many bytes, of which no more are read.
async fn bounded(mut answered: reqwest::Response, max_bytes: usize) -> reqwest::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    while let Some(piece) = answered.chunk().await? {
        if body.len() + piece.len() > max_bytes {
            return Ok(None);
        }
        body.extend_from_slice(&piece);
    }
    Ok(Some(body))
}

/// A client for other nodes, which lie in the same network.
pub(crate) fn peers() -> Result<reqwest::Client, reqwest::Error> {
    let client = reqwest::Client::builder().no_proxy().connect_timeout(CONNECT_MAX);
    client.redirect(reqwest::redirect::Policy::none()).build()
}

/// The first whole event, taken out.
fn take_event(text: &mut Vec<u8>) -> Option<String> {
    let end = text.windows(2).position(|pair| pair == b"\n\n")?;
    let event = text.drain(..end + 2).collect();
    String::from_utf8(event).ok()
}

/// What an event of the owner means here.
enum Said {
    Relayed(Relayed),
    /// There is nothing more to relay until the next block.
    Rests,
    Nothing,
}

#[derive(Deserialize)]
struct DeltaEvent {
    turn_id: String,
    step: u32,
    channel: DeltaChannel,
    from: usize,
    text: String,
    path: Option<String>,
}

#[derive(Deserialize)]
struct StateEvent {
    state: String,
    turn_id: Option<String>,
    call_id: Option<String>,
    tool: Option<String>,
    reason: Option<String>,
}

#[derive(Deserialize)]
struct ProgressEvent {
    turn_id: String,
    step: u32,
    call_id: String,
    progress: f64,
    total: Option<f64>,
    message: Option<String>,
}

fn read(event: &str, id: &ConversationId) -> Said {
    let field = |name: &str| {
        event
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    };
    let (Some(name), Some(data)) = (field("event:"), field("data:")) else {
        return Said::Nothing;
    };
    let relayed = match name {
        "delta" => delta(data, id).map(Update::Delta),
        "progress" => progress(data, id),
        "settled" => return Said::Relayed(Relayed::Settled),
        "state" => match serde_json::from_str::<StateEvent>(data) {
            Ok(state) if matches!(&*state.state, "ended" | "idle" | "waiting") => return Said::Rests,
            Ok(state) => between_blocks(state),
            Err(_) => None,
        },
        _ => None,
    };
    relayed.map_or(Said::Nothing, |update| Said::Relayed(Relayed::Update(update)))
}

fn delta(data: &str, id: &ConversationId) -> Option<Delta> {
    let said: DeltaEvent = serde_json::from_str(data).ok()?;
    let turn = TurnId::parse(&said.turn_id).ok()?;
    let place = (said.channel, said.path);
    Some(Delta::relayed(
        id.clone(),
        (turn, said.step),
        place,
        said.from,
        said.text,
    ))
}

fn progress(data: &str, id: &ConversationId) -> Option<Update> {
    let said: ProgressEvent = serde_json::from_str(data).ok()?;
    Some(Update::ToolProgress {
        conversation: id.clone(),
        turn: TurnId::parse(&said.turn_id).ok()?,
        step: said.step,
        call: CallId::parse(&said.call_id).ok()?,
        progress: said.progress,
        total: said.total,
        message: said.message,
    })
}

fn between_blocks(state: StateEvent) -> Option<Update> {
    match (&*state.state, state.call_id, state.tool, state.turn_id) {
        ("running", Some(call), Some(tool), _) => Some(Update::ToolStarted {
            call: CallId::parse(&call).ok()?,
            tool,
        }),
        ("restarted", _, _, Some(turn)) => Some(Update::Restarted {
            turn: TurnId::parse(&turn).ok()?,
            reason: state.reason.unwrap_or_default(),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_a_call_has_come_is_told_as_the_owner_told_it() {
        let id = ConversationId::parse("c1").unwrap();
        let event = "event: progress\ndata: {\"turn_id\":\"turn_1\",\"step\":2,\"call_id\":\"tc_1\",\"progress\":1.0,\"total\":4.0}\n\n";
        let Said::Relayed(Relayed::Update(Update::ToolProgress {
            conversation,
            turn,
            step,
            call,
            progress,
            total,
            message,
        })) = read(event, &id)
        else {
            panic!("it is not relayed");
        };
        assert_eq!((conversation, turn.as_str(), step), (id.clone(), "turn_1", 2));
        assert_eq!(
            (call.as_str(), progress, total, message),
            ("tc_1", 1.0, Some(4.0), None)
        );
        let of_no_turn = event.replace("turn_1", "");
        assert!(matches!(read(&of_no_turn, &id), Said::Nothing));
    }

    #[tokio::test]
    async fn no_more_of_a_nodes_answer_is_held_than_a_node_may_say() {
        let answer = |bytes: usize| reqwest::Response::from(http::Response::new("x".repeat(bytes)));
        let whole = bounded(answer(9), 10).await.unwrap();
        assert_eq!(whole.as_deref(), Some(&b"xxxxxxxxx"[..]));
        assert_eq!(bounded(answer(11), 10).await.unwrap(), None);
    }
}
