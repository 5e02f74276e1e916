//! From a request to a turn: which conversation it belongs to, the prompt posted there, the pieces that come back.

use std::sync::Arc;

use annals_core::block::BlockKind;
use annals_core::ids::{ConversationId, Scope, Seq, TurnId};
use annals_core::sources::SourceRow;
use annals_core::view::View;
use annals_runtime::{Agent, Attachment, Prompt, RunError, Subscription, TurnTerms, Update};
use annals_store::{BlockLogExt as _, LogError};
use tokio::sync::{Mutex, MutexGuard, mpsc};

use super::error::ApiError;
use super::lineage::{ClientKey, Index, Lineage, Place, is_one_client, side_scope};
use super::pieces::{Link, Piece, Pieces};
use super::transcript::{File, Said, Transcript};
use crate::app::App;
use crate::artifacts::signed_url;
use crate::secrets::seconds;

/// How long links to files in an answer open them.
const LINK_SECONDS: i64 = 7 * 24 * 60 * 60;
/// Blocks after a turn that are looked at to see whether another turn follows.
const AFTER_TURN_BLOCKS: usize = 64;

/// What a client wants answered.
pub(crate) struct Ask {
    pub(crate) transcript: Transcript,
    pub(crate) names: Names,
    /// What holds for the turn: a schema for the answer, whether somebody can be asked.
    pub(crate) terms: TurnTerms,
    /// The client's name for this request: sent again, it is the same turn.
    pub(crate) idempotency: Option<String>,
    /// Where this server is reached, for links.
    pub(crate) origin: String,
}

/// What a request says of its conversation, the strongest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    /// `conversation`: what is sent is only what is new.
    pub(crate) conversation: Option<ConversationId>,
    /// `previous_response_id`: likewise, after that turn.
    pub(crate) after: Option<(ConversationId, TurnId)>,
    /// A conversation of the agent's, named beside a whole history.
    pub(crate) named: Option<ConversationId>,
    /// A name of the client's own for its chat.
    pub(crate) hint: Option<String>,
}

/// Where a prompt goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Continue(ConversationId),
    Fork(Place),
    /// A new conversation, of this id if one was named. What was said before, elsewhere, comes with the prompt.
    New(Option<ConversationId>),
    /// A conversation of nobody's, removed when it is answered.
    StandAlone,
}

/// A turn that was started, or found again.
pub(crate) struct Started {
    pub(crate) conversation: ConversationId,
    pub(crate) turn: TurnId,
    pub(crate) pieces: mpsc::UnboundedReceiver<Result<Piece, ApiError>>,
    pub(crate) is_stand_alone: bool,
}

/// Requests for one lineage are decided one after the other: two that continue the same head must not both.
#[derive(Default)]
pub(crate) struct Turnstile([Mutex<()>; 32]);

impl Turnstile {
    async fn pass(&self, name: &str) -> MutexGuard<'_, ()> {
        let sum = name.bytes().fold(0_usize, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(byte.into())
        });
        self.0[sum % self.0.len()].lock().await
    }
}

/// One caller's side of this API.
#[derive(Clone)]
pub(crate) struct Face {
    pub(crate) app: App,
    pub(crate) agent: Agent,
    pub(crate) turnstile: Arc<Turnstile>,
}

impl Face {
    pub(crate) fn scope(&self) -> &Scope {
        self.agent.scope()
    }

    pub(crate) fn index(&self) -> Index<'_> {
        Index::new(&**self.agent.log(), self.scope())
    }

    /// Starts the turn that a request asks for.
    pub(crate) async fn start(&self, ask: Ask) -> Result<Started, ApiError> {
        let key = ask.names.key();
        let lineage = ask.transcript.lineage(&key);
        let _passing = self.turnstile.pass(&format!("{}{lineage:?}", self.scope())).await;
        if let Some(again) = self.again(&ask).await? {
            return Ok(again);
        }
        let target = self.target(&ask, &key).await?;
        if target == Target::StandAlone {
            return self.stand_alone(ask).await;
        }
        let transcript = &ask.transcript;
        let (conversation, mut prompt) = match target {
            Target::Continue(id) => (id, new_prompt(transcript)),
            Target::Fork(place) => (
                self.agent.fork(&place.conversation, Some(place.end)).await?,
                new_prompt(transcript),
            ),
            Target::New(id) => (self.create(id, transcript).await?, whole_prompt(transcript)),
            Target::StandAlone => return Err(ApiError::missing("conversation")),
        };
        self.agent
            .check_attachments(&prompt.attachments)
            .await
            .map_err(|error| ApiError::invalid("messages", "attachment_refused", error))?;
        prompt.terms = ask.terms.clone();
        let subscription = self.subscription(&self.agent, &conversation).await?;
        let turn = self.agent.conversation(&conversation).post(prompt).await?;
        self.remember(&ask, &conversation, &turn).await?;
        let follow = Follow {
            face: self.clone(),
            agent: self.agent.clone(),
            conversation: conversation.clone(),
            turn: turn.clone(),
            origin: ask.origin,
            is_structured: ask.terms.schema.is_some(),
            seen: Some((ask.transcript, key)),
        };
        Ok(Started {
            pieces: follow.begin(subscription, self.sources(&conversation).await?),
            conversation,
            turn,
            is_stand_alone: false,
        })
    }

    /// A turn of an earlier request, from its first piece on.
    pub(crate) async fn follow(
        &self,
        conversation: ConversationId,
        turn: TurnId,
        origin: String,
    ) -> Result<Started, ApiError> {
        let timeline = self.agent.timeline(&conversation).await?;
        let before = timeline
            .turn(&turn)
            .map(|turn| turn.first_seq().get() - 1)
            .ok_or_else(|| ApiError::missing("response"))?;
        let is_structured = is_structured(&timeline, &turn);
        let sources: Vec<SourceRow> = timeline.pool().iter().cloned().collect();
        let subscription = self
            .agent
            .subscribe(&conversation, Seq::try_new(before).ok())
            .await?;
        let follow = Follow {
            face: self.clone(),
            agent: self.agent.clone(),
            conversation: conversation.clone(),
            turn: turn.clone(),
            origin,
            is_structured,
            seen: None,
        };
        Ok(Started {
            pieces: follow.begin(subscription, sources),
            conversation,
            turn,
            is_stand_alone: false,
        })
    }

    /// The turn of a request that was sent before under the same key.
    async fn again(&self, ask: &Ask) -> Result<Option<Started>, ApiError> {
        let Some(key) = &ask.idempotency else {
            return Ok(None);
        };
        let Some(known) = self.index().named("i", key).await? else {
            return Ok(None);
        };
        let place = known.split_once(' ').and_then(|(conversation, turn)| {
            Some((
                ConversationId::parse(conversation).ok()?,
                TurnId::parse(turn).ok()?,
            ))
        });
        let Some((conversation, turn)) = place else {
            return Ok(None);
        };
        // Posted, and perhaps not begun: then it is waited for from the end.
        match self
            .follow(conversation.clone(), turn.clone(), ask.origin.clone())
            .await
        {
            Ok(started) => Ok(Some(started)),
            Err(_) => {
                let follow = Follow {
                    face: self.clone(),
                    agent: self.agent.clone(),
                    conversation: conversation.clone(),
                    turn: turn.clone(),
                    origin: ask.origin.clone(),
                    is_structured: ask.terms.schema.is_some(),
                    seen: None,
                };
                let subscription = self.subscription(&self.agent, &conversation).await?;
                Ok(Some(Started {
                    pieces: follow.begin(subscription, Vec::new()),
                    conversation,
                    turn,
                    is_stand_alone: false,
                }))
            }
        }
    }

    async fn remember(
        &self,
        ask: &Ask,
        conversation: &ConversationId,
        turn: &TurnId,
    ) -> Result<(), ApiError> {
        let now = self.agent.world().now();
        if let Some(hint) = &ask.names.hint {
            self.index()
                .set_named("k", hint, conversation.to_string(), now)
                .await?;
        }
        if let Some(key) = &ask.idempotency {
            let value = format!("{conversation} {turn}");
            self.index().set_named("i", key, value, now).await?;
        }
        Ok(())
    }

    /// Where the prompt goes.
    pub(crate) async fn target(&self, ask: &Ask, key: &ClientKey) -> Result<Target, ApiError> {
        let (names, transcript) = (&ask.names, &ask.transcript);
        if let Some(id) = &names.conversation {
            self.agent.log().get(&self.agent.key(id)).await?;
            return Ok(Target::Continue(id.clone()));
        }
        if let Some((conversation, turn)) = &names.after {
            let place = self.end_of(conversation, turn).await?;
            return self.at(place).await;
        }
        if transcript.is_side_request() {
            return Ok(Target::StandAlone);
        }
        if transcript.history.is_empty() {
            return self.first(names).await;
        }
        let mut found = self.index().find(transcript.lineage(key)).await?;
        if let (None, Some(named)) = (&found, &names.named) {
            found = self.seen_in(named, transcript).await?;
        }
        match found {
            Some(place) => self.at(place).await,
            None if self.is_known(names).await? => Ok(Target::StandAlone),
            None => Ok(Target::New(names.named.clone())),
        }
    }

    /// The first prompt of a chat. In a conversation that has turns, it is another beginning.
    async fn first(&self, names: &Names) -> Result<Target, ApiError> {
        let Some(named) = &names.named else {
            return Ok(Target::New(None));
        };
        match self.agent.log().get(&self.agent.key(named)).await {
            Ok(info) if info.tail.is_none() && self.waiting(named).await? == 0 => {
                Ok(Target::Continue(named.clone()))
            }
            Ok(_) => Ok(Target::New(None)),
            Err(LogError::NotFound { .. }) => Ok(Target::New(Some(named.clone()))),
            Err(error) => Err(error.into()),
        }
    }

    async fn is_known(&self, names: &Names) -> Result<bool, ApiError> {
        if let Some(named) = &names.named {
            return match self.agent.log().get(&self.agent.key(named)).await {
                Ok(_) => Ok(true),
                Err(LogError::NotFound { .. }) => Ok(false),
                Err(error) => Err(error.into()),
            };
        }
        match &names.hint {
            Some(hint) => Ok(self.index().named("k", hint).await?.is_some()),
            None => Ok(false),
        }
    }

    async fn waiting(&self, id: &ConversationId) -> Result<usize, ApiError> {
        Ok(self.agent.log().pending(&self.agent.key(id)).await?.len())
    }

    /// After a turn: on with its conversation if nothing followed it, else with a fork.
    async fn at(&self, place: Place) -> Result<Target, ApiError> {
        let key = self.agent.key(&place.conversation);
        let after = self
            .agent
            .log()
            .read_after(&key, Some(place.end), AFTER_TURN_BLOCKS)
            .await?;
        let is_head = !after.iter().any(|block| block.kind == BlockKind::TurnHeader);
        Ok(match is_head && self.waiting(&place.conversation).await? == 0 {
            true => Target::Continue(place.conversation),
            false => Target::Fork(place),
        })
    }

    async fn end_of(&self, conversation: &ConversationId, turn: &TurnId) -> Result<Place, ApiError> {
        let timeline = self.agent.timeline(conversation).await?;
        let found = timeline.turn(turn).ok_or_else(|| ApiError::missing("response"))?;
        let blocks = timeline.turn_blocks(found);
        let last = blocks
            .iter()
            .find(|block| block.kind == BlockKind::ReactCompletion);
        let end = last.ok_or_else(|| {
            let message = "the previous response is still in progress: wait for it, or cancel it";
            ApiError::new(http::StatusCode::CONFLICT, "turn_running", message)
        })?;
        Ok(Place {
            conversation: conversation.clone(),
            end: end.seq,
        })
    }

    /// Where a conversation that was not made by this API shows what the client remembers.
    async fn seen_in(
        &self,
        conversation: &ConversationId,
        transcript: &Transcript,
    ) -> Result<Option<Place>, ApiError> {
        let timeline = match self.agent.timeline(conversation).await {
            Err(RunError::Log(LogError::NotFound { .. })) => return Ok(None),
            timeline => timeline?,
        };
        let sources: Vec<SourceRow> = timeline.pool().iter().cloned().collect();
        let wanted = Lineage::of(&ClientKey::default(), None, &transcript.history);
        let mut seen = Lineage::of(&ClientKey::default(), None, &[]);
        for turn in timeline.turns() {
            let link = self.link(conversation.clone(), String::new());
            let is_structured = is_structured(&timeline, &turn.id);
            let mut pieces =
                Pieces::new(turn.id.clone(), sources.iter().cloned(), link).structured(is_structured);
            let (mut end, mut user, mut instructions) = (None, Said::default(), None);
            for block in timeline.turn_blocks(turn) {
                pieces.push(&Update::Block(block.clone()));
                match block.kind {
                    BlockKind::UserPrompt => user.text = block.text().unwrap_or_default().to_owned(),
                    BlockKind::UserAttachment => user.files.extend(File::of(block)),
                    BlockKind::UserInstructions => instructions = block.text(),
                    BlockKind::ReactCompletion => end = Some(block.seq),
                    _ => {}
                }
            }
            let Some(end) = end else { continue };
            seen = seen.then(&user, &pieces.said());
            // A turn without a system text was not started by a chat client, and any may go on with it.
            let is_its =
                instructions.is_none_or(|text| is_one_client(text, transcript.instructions.as_deref()));
            if seen == wanted && is_its {
                return Ok(Some(Place {
                    conversation: conversation.clone(),
                    end,
                }));
            }
        }
        Ok(None)
    }

    async fn create(
        &self,
        id: Option<ConversationId>,
        transcript: &Transcript,
    ) -> Result<ConversationId, ApiError> {
        const TITLE_MAX_CHARS: usize = 60;
        match id {
            Some(id) => {
                drop(self.agent.session(id.as_str()).await?);
                Ok(id)
            }
            None => {
                let line = transcript
                    .prompt
                    .text
                    .lines()
                    .find(|line| !line.trim().is_empty());
                let title = line.map(|line| line.trim().chars().take(TITLE_MAX_CHARS).collect());
                let session = self.agent.new_session(title).await?;
                Ok(session.id().clone())
            }
        }
    }

    /// Answers without a conversation of the caller's: no tools, nothing is listed, nothing stays.
    async fn stand_alone(&self, ask: Ask) -> Result<Started, ApiError> {
        let side = Agent::builder()
            .model(self.agent.model().clone())
            .runtime(self.agent.runtime().clone())
            .scope(side_scope(self.scope()))
            .build()
            .await
            .map_err(|error| ApiError::from(crate::problem::Problem::internal(error)))?;
        let session = side.new_session(None).await?;
        let conversation = session.id().clone();
        drop(session);
        let mut prompt = whole_prompt(&ask.transcript);
        prompt.terms = ask.terms.clone();
        side.check_attachments(&prompt.attachments)
            .await
            .map_err(|error| ApiError::invalid("messages", "attachment_refused", error))?;
        let subscription = self.subscription(&side, &conversation).await?;
        let turn = side.conversation(&conversation).post(prompt).await?;
        let follow = Follow {
            face: self.clone(),
            agent: side,
            conversation: conversation.clone(),
            turn: turn.clone(),
            origin: ask.origin,
            is_structured: ask.terms.schema.is_some(),
            seen: None,
        };
        Ok(Started {
            pieces: follow.begin(subscription, Vec::new()),
            conversation,
            turn,
            is_stand_alone: true,
        })
    }

    async fn subscription(&self, agent: &Agent, id: &ConversationId) -> Result<Subscription, ApiError> {
        let tail = agent.log().get(&agent.key(id)).await?.tail;
        Ok(agent.subscribe(id, tail).await?)
    }

    async fn sources(&self, id: &ConversationId) -> Result<Vec<SourceRow>, ApiError> {
        let info = self.agent.log().get(&self.agent.key(id)).await?;
        if info.tail.is_none() {
            return Ok(Vec::new());
        }
        let timeline = self.agent.timeline(id).await?;
        Ok(timeline.pool().iter().cloned().collect())
    }

    /// Links that open one file each for a week, for clients that cannot send a token with them.
    fn link(&self, conversation: ConversationId, origin: String) -> Link {
        let (app, scope) = (self.app.clone(), self.scope().clone());
        let until = seconds(self.agent.world().now()) + LINK_SECONDS;
        Box::new(move |path| {
            let url = signed_url(&app.signer, &scope, &conversation, path, until);
            Some(format!("{origin}{url}"))
        })
    }
}

/// Whether a turn's answer must fit a schema.
fn is_structured(timeline: &View, turn: &TurnId) -> bool {
    TurnTerms::of(timeline, turn).schema.is_some()
}

impl Names {
    /// The namespace in which the client's history is looked up.
    fn key(&self) -> ClientKey {
        let named = self.named.as_ref().map(ToString::to_string);
        ClientKey(named.or_else(|| self.hint.clone()))
    }
}

/// What is new, for a conversation that knows the rest.
fn new_prompt(transcript: &Transcript) -> Prompt {
    let files = transcript.prompt.files.iter();
    prompt(transcript, transcript.prompt.text.clone(), files)
}

/// Everything, for a conversation that knows nothing.
fn whole_prompt(transcript: &Transcript) -> Prompt {
    prompt(transcript, transcript.as_prompt(), transcript.files())
}

fn prompt<'t>(transcript: &Transcript, text: String, files: impl Iterator<Item = &'t File>) -> Prompt {
    Prompt {
        text,
        attachments: files
            .map(|file| Attachment::new(file.name.clone(), file.bytes.clone()))
            .collect(),
        instructions: transcript.instructions.clone(),
        ..Prompt::default()
    }
}

/// Somebody who follows a turn to its end, whether or not the client does.
struct Follow {
    face: Face,
    agent: Agent,
    conversation: ConversationId,
    turn: TurnId,
    origin: String,
    is_structured: bool,
    /// What the client had seen before, to be kept with what it sees now.
    seen: Option<(Transcript, ClientKey)>,
}

impl Follow {
    fn begin(
        self,
        subscription: Subscription,
        sources: Vec<SourceRow>,
    ) -> mpsc::UnboundedReceiver<Result<Piece, ApiError>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let tasks = self.face.app.tasks.clone();
        tasks.spawn(self.run(subscription, sources, sender));
        receiver
    }

    async fn run(
        self,
        mut subscription: Subscription,
        sources: Vec<SourceRow>,
        sender: mpsc::UnboundedSender<Result<Piece, ApiError>>,
    ) {
        let link = self.face.link(self.conversation.clone(), self.origin.clone());
        let mut pieces = Pieces::new(self.turn.clone(), sources, link).structured(self.is_structured);
        let stopping = self.face.app.stopping.clone();
        loop {
            let update = tokio::select! {
                update = subscription.next() => update,
                () = stopping.cancelled() => return,
            };
            let update = match update {
                Ok(update) => update,
                Err(error) => {
                    let _ = sender.send(Err(error.into()));
                    return;
                }
            };
            let end = match &update {
                Update::Block(block) => Some(block.seq),
                _ => None,
            };
            for piece in pieces.push(&update) {
                if let (Piece::Ended(_), Some(end)) = (&piece, end) {
                    // Kept before the client hears of the end, so that its next request finds it.
                    self.ended(&pieces.said(), end).await;
                    let _ = sender.send(Ok(piece));
                    return;
                }
                // A client that went away does not end the turn.
                let _ = sender.send(Ok(piece));
            }
        }
    }

    async fn ended(&self, said: &str, end: Seq) {
        let done = match &self.seen {
            Some((transcript, key)) => self
                .keep(transcript, key, said, end)
                .await
                .map_err(RunError::from),
            None if self.agent.scope() != self.face.scope() => self.remove().await,
            None => Ok(()),
        };
        if let Err(error) = done {
            tracing::warn!(%error, "what a client has seen could not be kept");
        }
    }

    async fn keep(
        &self,
        transcript: &Transcript,
        key: &ClientKey,
        said: &str,
        end: Seq,
    ) -> Result<(), LogError> {
        let place = Place {
            conversation: self.conversation.clone(),
            end,
        };
        let (index, now) = (self.face.index(), self.agent.world().now());
        index.keep(transcript.answered(key, said), &place, now).await?;
        if *key != ClientKey::default() {
            index
                .keep(transcript.answered(&ClientKey::default(), said), &place, now)
                .await?;
        }
        Ok(())
    }

    /// Removes a stand-alone conversation.
    async fn remove(&self) -> Result<(), RunError> {
        self.agent.conversation(&self.conversation).settled().await;
        self.agent.delete_conversation(&self.conversation).await
    }
}
