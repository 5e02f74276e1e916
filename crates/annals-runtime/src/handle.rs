//! A conversation as somebody outside its turn meets it: post, steer, cancel, decide, watch.
//!
//! What is posted is durable before the call returns, and the owner of the conversation takes it in, in this process or
//! another. If nobody owns the conversation, this process becomes its owner for as long as there is work.

use std::time::Duration;

use annals_core::block::payload::{ApprovalDecision, ApprovalRequest, InputRequest, InputResponse};
use annals_core::block::{BlobDigest, Block, BlockKind};
use annals_core::ids::{ConversationId, Seq, TurnId};
use annals_core::timeline::{Ask as Asked, Timeline, Turn};
use annals_core::turn::{TurnEnd, TurnReport};
use annals_core::view::View;
use annals_store::{BlockLogExt as _, LogError, StoredAnswer};
use futures::TryStreamExt as _;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::agent::Agent;
use crate::attach::Attachment;
use crate::error::RunError;
use crate::input;
use crate::mail::{CLIENT_KEY, Letter, Mail, StoredAttachment};
use crate::subscription::Subscription;
use crate::terms::TurnTerms;

/// How long finding out whether a conversation is owned may take.
const PROBE_TTL: Duration = Duration::from_secs(5);

/// A conversation that any process may own. Cheap to clone.
#[derive(Clone)]
pub struct ConversationHandle {
    agent: Agent,
    id: ConversationId,
    /// The only turn that may be steered or cancelled.
    turn: Option<TurnId>,
    /// Kept in the commit of what is posted.
    answer: Option<StoredAnswer>,
    /// Whether this process becomes the owner where there is none.
    takes_up: bool,
}

/// How far a turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TurnState {
    /// It was posted, and waits for the turns before it.
    Queued,
    /// Some process runs it.
    Running,
    /// It waits for a person.
    Waiting,
    /// Nobody goes on with it.
    Unfinished,
    /// It has ended.
    Ended,
}

/// A turn and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TurnStatus {
    /// The turn.
    pub turn_id: TurnId,
    /// How far it has come.
    pub state: TurnState,
    /// How it ended, if it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<TurnEnd>,
}

/// A prompt to post.
#[derive(Clone, Debug, Default)]
pub struct Prompt {
    /// What is asked.
    pub text: String,
    /// What comes with it.
    pub attachments: Vec<Attachment>,
    /// A client's own system text for this turn.
    pub instructions: Option<String>,
    /// What holds for this turn.
    pub terms: TurnTerms,
    /// The sender's name for this post: posting it again changes nothing and gives the same turn.
    pub client_key: Option<String>,
}

/// A tool for a program to call, without a model.
#[derive(Clone, Debug, Default)]
pub struct ToolCall {
    /// The tool, by its name or its wire name.
    pub tool: String,
    /// Its arguments.
    pub params: Map<String, Value>,
    /// The sender's name for this post: posting it again changes nothing and gives the same turn.
    pub client_key: Option<String>,
}

impl<T: Into<String>> From<T> for Prompt {
    fn from(text: T) -> Self {
        Prompt {
            text: text.into(),
            ..Prompt::default()
        }
    }
}

impl Agent {
    /// A conversation of this agent's scope, to post to and to watch. Nothing is opened.
    pub fn conversation(&self, id: &ConversationId) -> ConversationHandle {
        ConversationHandle {
            agent: self.clone(),
            id: id.clone(),
            turn: None,
            answer: None,
            takes_up: true,
        }
    }
}

impl ConversationHandle {
    /// The conversation.
    pub fn id(&self) -> &ConversationId {
        &self.id
    }

    /// For this turn only: steering or cancelling any other fails with [`RunError::TurnEnded`].
    #[must_use]
    pub fn of_turn(mut self, turn: TurnId) -> Self {
        self.turn = Some(turn);
        self
    }

    /// With what the request is answered, kept in the commit of what is posted next.
    #[must_use]
    pub fn answering(mut self, answer: Option<StoredAnswer>) -> Self {
        self.answer = answer;
        self
    }

    /// The turn that a prompt with this client key is.
    pub fn turn_of_key(client_key: &str) -> TurnId {
        turn_of(client_key)
    }

    /// How far the last turn has come; none when there is no turn.
    pub async fn status(&self) -> Result<Option<TurnStatus>, RunError> {
        let key = self.agent.key(&self.id);
        let Some(tail) = self.agent.log().tail(&key).await? else {
            return Ok(None);
        };
        let last = self.agent.log().read(&key, tail, 1).await?.pop();
        // When the end of a turn is the last block, nothing need be folded.
        match last.as_ref().and_then(ended) {
            Some(ended) => Ok(Some(ended)),
            None => self.statuses(|timeline| timeline.current_turn().cloned()).await,
        }
    }

    /// How far a turn has come; none when the conversation has no such turn.
    pub async fn turn_status(&self, turn: &TurnId) -> Result<Option<TurnStatus>, RunError> {
        if let Some(status) = self.statuses(|timeline| timeline.turn(turn).cloned()).await? {
            return Ok(Some(status));
        }
        let waiting = self.agent.log().pending(&self.agent.key(&self.id)).await?;
        let is_queued = waiting
            .into_iter()
            .any(|row| Letter::from(row).begins() == Some(turn));
        if is_queued {
            return Ok(Some(TurnStatus {
                turn_id: turn.clone(),
                state: TurnState::Queued,
                outcome: None,
            }));
        }
        // It may have begun between the two looks, and then the log knows it first.
        self.stored_status(|timeline| timeline.turn(turn).cloned()).await
    }

    async fn statuses(&self, find: impl Fn(&View) -> Option<Turn>) -> Result<Option<TurnStatus>, RunError> {
        match self.agent.open_here(&self.id).await {
            Some(session) => {
                Ok(session.timeline(|timeline| find(timeline).map(|turn| status_of(timeline, turn, true))))
            }
            None => self.stored_status(find).await,
        }
    }

    /// What the log says, whoever has the conversation open.
    async fn stored_status(
        &self,
        find: impl Fn(&View) -> Option<Turn>,
    ) -> Result<Option<TurnStatus>, RunError> {
        let info = self.agent.log().get(&self.agent.key(&self.id)).await?;
        let now = self.agent.world().now();
        let is_owned = info.holding.is_some_and(|holding| holding.until > now);
        let timeline = self.agent.timeline(&self.id).await?;
        Ok(find(&timeline).map(|turn| status_of(&timeline, turn, is_owned)))
    }

    /// Only posts: what is posted waits for the process that owns the conversation, or for the next that takes it up. For
    /// programs that could not go on with a turn, having no model.
    #[must_use]
    pub fn only_posting(mut self) -> Self {
        self.takes_up = false;
        self
    }

    /// Queues a turn and gives its id. It runs after the turns before it, also when this process ends first.
    pub async fn post(&self, prompt: impl Into<Prompt>) -> Result<TurnId, RunError> {
        let Prompt {
            text,
            attachments,
            instructions,
            terms,
            client_key,
        } = prompt.into();
        crate::perform::check_prompt(&text, instructions.as_deref(), &attachments)?;
        if let Some(defect) = terms.schema.as_ref().and_then(crate::structured::defect) {
            return Err(RunError::Schema(defect));
        }
        self.agent.parts.on_terms(&terms)?;
        let client_key = client_key.unwrap_or_else(|| self.new_key());
        // The turn follows from the key, so that a repeated post names the same one.
        let turn = turn_of(&client_key);
        let mut stored = Vec::with_capacity(attachments.len());
        for attachment in attachments {
            let kept = attachment.store(self.agent.artifacts()).await?;
            stored.push(StoredAttachment {
                name: attachment.name().to_owned(),
                digest: kept.blob.digest,
            });
        }
        // It may lie there for long; what it becomes on the timeline is redacted too.
        let mail = Mail::Prompt {
            turn: turn.clone(),
            prompt: self.agent.redact(&text).into_owned(),
            attachments: stored,
            instructions,
            terms,
        };
        self.send(&mail, client_key).await?;
        Ok(turn)
    }

    /// Queues a turn in which a program calls one tool, and gives its id. The program is not the person: what rules ask, a
    /// person is asked, and the turn waits until somebody has decided.
    pub async fn post_call(&self, call: ToolCall) -> Result<TurnId, RunError> {
        let ToolCall {
            tool,
            params,
            client_key,
        } = call;
        if self.agent.tools().get_wire(&tool).is_none() {
            return Err(RunError::NoSuchTool(tool));
        }
        let client_key = client_key.unwrap_or_else(|| self.new_key());
        let turn = turn_of(&client_key);
        let mail = Mail::Call {
            turn: turn.clone(),
            tool,
            params,
        };
        self.send(&mail, client_key).await?;
        Ok(turn)
    }

    /// Says something to the turn that runs. It is taken in after the results of the present answer; if the model was
    /// done, the turn goes round once more.
    pub async fn steer(&self, text: impl Into<String>) -> Result<(), RunError> {
        self.steer_as(self.new_key(), text).await
    }

    /// Says something under the sender's own name for it, by which [`came_too_late`](Self::came_too_late) finds it.
    pub async fn steer_as(&self, client_key: String, text: impl Into<String>) -> Result<(), RunError> {
        let unfinished = self.unfinished_turn().await?;
        if !unfinished.is_owned {
            return Err(RunError::TurnEnded(self.id.clone()));
        }
        let (turn, text) = (unfinished.turn, text.into());
        let mail = Mail::Steer {
            turn: Some(turn.clone()),
            text: self.agent.redact(&text).into_owned(),
        };
        self.send(&mail, client_key.clone()).await?;
        match self.came_too_late(&turn, &client_key).await? {
            true => Err(RunError::TurnEnded(self.id.clone())),
            false => Ok(()),
        }
    }

    /// Whether a turn had ended before what was said under this name was posted. A turn does not end past a post, so one
    /// that has ended without taking it in had ended before.
    pub async fn came_too_late(&self, turn: &TurnId, client_key: &str) -> Result<bool, RunError> {
        let key = self.agent.key(&self.id);
        let timeline = self.agent.timeline(&self.id).await?;
        let Some(first) = timeline.turn(turn).map(Turn::first_seq) else {
            return Ok(false);
        };
        let mut blocks = self.agent.log().blocks(&key, first);
        let mut has_ended = false;
        while let Some(block) = blocks.try_next().await? {
            let is_taken_in = block.kind == BlockKind::UserSteer
                && block.meta().get(CLIENT_KEY).as_ref().and_then(|key| key.as_str()) == Some(client_key);
            if is_taken_in {
                return Ok(false);
            }
            has_ended |= block.kind == BlockKind::ReactCompletion && block.turn == *turn;
        }
        Ok(has_ended)
    }

    /// Ends the turn that runs or waits.
    pub async fn cancel(&self) -> Result<(), RunError> {
        let turn = self.unfinished_turn().await?.turn;
        self.send(&Mail::Cancel { turn: Some(turn) }, self.new_key())
            .await
    }

    /// What the turn waits for a person to decide.
    pub async fn approvals(&self) -> Result<Vec<ApprovalRequest>, RunError> {
        let timeline = self.agent.timeline(&self.id).await?;
        Ok(pending(&timeline).collect())
    }

    /// Decides about a call that waits. The first decision holds; the turn goes on in whatever process owns the
    /// conversation, or in this one.
    pub async fn decide(&self, decision: ApprovalDecision) -> Result<(), RunError> {
        let timeline = self.agent.timeline(&self.id).await?;
        let id = &decision.approval_id;
        if !pending(&timeline).any(|request| request.approval_id == *id) {
            return Err(RunError::NothingToDecide(id.clone()));
        }
        drop(timeline);
        let client_key = format!("decision {id}");
        match self.send(&Mail::Decision(decision.clone()), client_key).await {
            Err(RunError::Log(LogError::KeyReused { .. })) => {
                Err(RunError::NothingToDecide(decision.approval_id))
            }
            sent => sent,
        }
    }

    /// Whether a living process has the conversation at present.
    pub async fn is_owned(&self) -> Result<bool, RunError> {
        if self.agent.open_here(&self.id).await.is_some() {
            // Taking it again would fence the owner in this process.
            return Ok(true);
        }
        let (log, key) = (self.agent.log(), self.agent.key(&self.id));
        // Only the store knows whose process is gone, and it says so by giving the conversation away.
        match log.acquire(&key, &self.agent.owner(), PROBE_TTL).await {
            Ok(lease) => {
                log.release(&lease).await?;
                Ok(false)
            }
            Err(LogError::Held { .. }) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// What the turn waits for a person or a client to give.
    pub async fn inputs(&self) -> Result<Vec<InputRequest>, RunError> {
        let timeline = self.agent.timeline(&self.id).await?;
        Ok(input::pending(&timeline).cloned().collect())
    }

    /// Gives what a call waits for. The first answer holds; the turn goes on in whatever process owns the conversation, or
    /// in this one.
    pub async fn respond(&self, response: InputResponse) -> Result<(), RunError> {
        let id = response.input_id.clone();
        let timeline = self.agent.timeline(&self.id).await?;
        let request = input::pending(&timeline).find(|request| request.input_id == id);
        let request = request.ok_or_else(|| RunError::NothingToDecide(id.clone()))?;
        if let Some(why) = input::misfit(request, &response) {
            return Err(RunError::InputMisfit { id, why });
        }
        drop(timeline);
        let client_key = format!("input {id}");
        match self.send(&Mail::Input(response), client_key).await {
            Err(RunError::Log(LogError::KeyReused { .. })) => Err(RunError::NothingToDecide(id)),
            sent => sent,
        }
    }

    /// Watches it from the block after `after` on, whether or not it is open here.
    pub async fn subscribe(&self, after: Option<Seq>) -> Result<Subscription, RunError> {
        self.agent.subscribe(&self.id, after).await
    }

    /// Waits until this process has done what was posted, if it is the owner. Before a program that only posts ends.
    pub async fn settled(&self) {
        if let Some(session) = self.agent.open_here(&self.id).await {
            session.conversation.settled().await;
        }
    }

    /// Posts, and sees to it that somebody looks.
    async fn send(&self, mail: &Mail, client_key: String) -> Result<(), RunError> {
        let post = mail.post(client_key).answering(self.answer.clone());
        match self.takes_up {
            true => self.agent.post(&self.id, post).await,
            false => {
                let key = self.agent.key(&self.id);
                Ok(self.agent.log().post(&key, post).await.map(drop)?)
            }
        }
    }

    /// The turn that runs or waits, and whether any process has it.
    async fn unfinished_turn(&self) -> Result<Unfinished, RunError> {
        let open = |timeline: &View, is_owned: bool| {
            let turn = timeline.current_turn().filter(|turn| turn.end.is_none())?;
            Some(Unfinished {
                turn: turn.id.clone(),
                is_owned: is_owned || timeline.waiting().next().is_some(),
            })
        };
        let turn = match self.agent.open_here(&self.id).await {
            Some(session) => session.timeline(|timeline| open(timeline, true)),
            None => {
                let info = self.agent.log().get(&self.agent.key(&self.id)).await?;
                open(&self.agent.timeline(&self.id).await?, info.holding.is_some())
            }
        };
        turn.filter(|unfinished| self.turn.as_ref().is_none_or(|turn| *turn == unfinished.turn))
            .ok_or_else(|| RunError::TurnEnded(self.id.clone()))
    }

    fn new_key(&self) -> String {
        let world = self.agent.world();
        format!("{:016x}{:016x}", world.random(), world.random())
    }
}

/// The turn that this block ends.
fn ended(block: &Block) -> Option<TurnStatus> {
    let is_end = block.kind == BlockKind::ReactCompletion;
    let report = is_end.then(|| block.payload::<TurnReport>().ok()).flatten()?;
    Some(TurnStatus {
        turn_id: block.turn.clone(),
        state: TurnState::Ended,
        outcome: Some(report.outcome),
    })
}

fn status_of(timeline: &View, turn: Turn, is_owned: bool) -> TurnStatus {
    let is_last = timeline.current_turn().is_some_and(|last| last.id == turn.id);
    let state = match turn.end {
        Some(_) => TurnState::Ended,
        None if is_last && timeline.waiting().next().is_some() => TurnState::Waiting,
        None if is_last && is_owned => TurnState::Running,
        None => TurnState::Unfinished,
    };
    TurnStatus {
        turn_id: turn.id,
        state,
        outcome: turn.end,
    }
}

/// A turn that has not ended.
struct Unfinished {
    turn: TurnId,
    /// Whether somebody goes on with it.
    is_owned: bool,
}

fn pending(timeline: &Timeline) -> impl Iterator<Item = ApprovalRequest> {
    timeline.waiting().filter_map(|request| match &request.ask {
        Asked::Approval { request, .. } => Some((**request).clone()),
        _ => None,
    })
}

fn turn_of(client_key: &str) -> TurnId {
    let digest = BlobDigest::of(client_key.as_bytes()).to_string();
    let hex: String = digest.chars().rev().take(24).collect();
    TurnId::parse(&format!("turn_{hex}")).expect("hex digits are a turn's id")
}
