//! From a request to a turn: the prompt posted where it belongs, the pieces that come back.

use std::sync::Arc;

use annals_core::ids::{ConversationId, Scope, Seq, TurnId};
use annals_core::sources::SourceRow;
use annals_runtime::{Agent, Attachment, ConversationHandle, Prompt, Subscription, TurnTerms};
use tokio::sync::{Mutex, MutexGuard, mpsc};
use tokio::time::Instant;

use super::error::ApiError;
use super::follow::{Follow, Seen};
use super::lineage::{ClientKey, Index, side_scope};
use super::part::Part;
use super::pieces::{Link, Piece};
use super::target::Target;
use super::transcript::{File, Held, Transcript};
use crate::app::App;
use crate::artifacts::signed_url;
use crate::secrets::seconds;
use crate::turns::new_key;

/// How long links to files in an answer open them.
const LINK_SECONDS: i64 = 7 * 24 * 60 * 60;

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
    pub(crate) after: Option<Part>,
    /// A conversation of the agent's, named beside a whole history.
    pub(crate) named: Option<ConversationId>,
    /// A name of the client's own for its chat.
    pub(crate) hint: Option<String>,
}

/// A turn that was started, or found again.
pub(crate) struct Started {
    pub(crate) part: Part,
    pub(crate) pieces: mpsc::UnboundedReceiver<Result<Piece, ApiError>>,
    pub(crate) is_stand_alone: bool,
}

/// Requests for one lineage are decided one after the other: two that continue the same head must not both.
#[derive(Default)]
pub(crate) struct Turnstile([Mutex<()>; 32]);

impl Turnstile {
    pub(super) async fn pass(&self, name: &str) -> MutexGuard<'_, ()> {
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
        if !ask.transcript.outputs.is_empty() {
            return self.deliver(ask).await;
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
        let turn = self.post(&conversation, prompt).await?;
        let part = Part::whole(conversation, turn);
        self.remember(&ask, &part).await?;
        let follow = Follow::new(self, &self.agent, part.clone(), ask.origin)
            .keeping(Some(Seen::turn(ask.transcript, key)));
        Ok(Started {
            pieces: follow.begin(subscription, self.sources(&part.conversation).await?),
            part,
            is_stand_alone: false,
        })
    }

    /// Posts a prompt, counted among the turns of its scope.
    async fn post(&self, conversation: &ConversationId, mut prompt: Prompt) -> Result<TurnId, ApiError> {
        let client_key = new_key(&self.agent);
        let turn = ConversationHandle::turn_of_key(&client_key);
        prompt.client_key = Some(client_key);
        let usage = &self.app.usage;
        usage.turn(self.scope(), &turn, &self.app.limits, Instant::now())?;
        let webhooks = &self.app.outside.webhooks;
        webhooks.owe(&self.agent, conversation, &turn).await?;
        let posted = self.agent.conversation(conversation).post(prompt).await;
        posted
            .inspect_err(|_| usage.turn_rests(&turn))
            .map_err(ApiError::from)
    }

    /// An answer to an earlier request, from its first piece on. Its turn has been posted; one that has not begun yet comes
    /// after every block there is.
    pub(crate) async fn follow(&self, part: Part, origin: String) -> Result<Started, ApiError> {
        let timeline = self.agent.timeline(&part.conversation).await?;
        let before = match timeline.turn(&part.turn) {
            Some(turn) => Seq::try_new(turn.first_seq().get() - 1).ok(),
            None => timeline.tail(),
        };
        let sources: Vec<SourceRow> = timeline.pool().iter().cloned().collect();
        let subscription = self.agent.subscribe(&part.conversation, before).await?;
        let follow = Follow::new(self, &self.agent, part.clone(), origin);
        Ok(Started {
            pieces: follow.begin(subscription, sources),
            part,
            is_stand_alone: false,
        })
    }

    /// The answer to a request that was sent before under the same key.
    async fn again(&self, ask: &Ask) -> Result<Option<Started>, ApiError> {
        let Some(key) = &ask.idempotency else {
            return Ok(None);
        };
        let known = self.index().named("i", key).await?;
        let Some(part) = known.as_deref().and_then(|id| Part::parse(id).ok()) else {
            return Ok(None);
        };
        self.follow(part, ask.origin.clone()).await.map(Some)
    }

    pub(crate) async fn remember(&self, ask: &Ask, part: &Part) -> Result<(), ApiError> {
        let now = self.agent.world().now();
        if self.app.is_sweep_due(self.scope()) {
            let face = self.clone();
            self.app.tasks.spawn(async move {
                if let Err(error) = face.index().sweep(&face.agent.owner(), now).await {
                    tracing::warn!(%error, "what clients left behind could not be swept");
                }
            });
        }
        if let Some(hint) = &ask.names.hint {
            let conversation = part.conversation.to_string();
            self.index().set_named("k", hint, conversation, now).await?;
        }
        if let Some(key) = &ask.idempotency {
            self.index().set_named("i", key, part.to_string(), now).await?;
        }
        Ok(())
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
                let text = self.agent.redact(&transcript.prompt.text);
                let line = text.lines().find(|line| !line.trim().is_empty());
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
        prompt.terms.client_tools.clear();
        side.check_attachments(&prompt.attachments)
            .await
            .map_err(|error| ApiError::invalid("messages", "attachment_refused", error))?;
        let subscription = self.subscription(&side, &conversation).await?;
        let turn = side.conversation(&conversation).post(prompt).await?;
        let part = Part::whole(conversation, turn);
        let follow = Follow::new(self, &side, part.clone(), ask.origin);
        Ok(Started {
            pieces: follow.begin(subscription, Vec::new()),
            part,
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
    pub(super) fn link(&self, conversation: ConversationId, origin: String) -> Link {
        let (app, scope) = (self.app.clone(), self.scope().clone());
        let until = seconds(self.agent.world().now()) + LINK_SECONDS;
        Box::new(move |path| {
            let url = signed_url(&app.signer, &scope, &conversation, path, until);
            Some(format!("{origin}{url}"))
        })
    }
}

impl Names {
    /// The namespace in which the client's history is looked up.
    pub(super) fn key(&self) -> ClientKey {
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
            .map(|file| match &file.held {
                Held::Here(bytes) => Attachment::new(file.name.clone(), bytes.clone()),
                Held::Kept(blob) => Attachment::stored(file.name.clone(), *blob),
            })
            .collect(),
        instructions: transcript.instructions.clone(),
        ..Prompt::default()
    }
}
