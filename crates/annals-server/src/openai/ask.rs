//! From a request to a turn: the prompt posted where it belongs, the pieces that come back.

use std::sync::Arc;

use annals_core::block::BlobDigest;
use annals_core::ids::{ConversationId, Scope, Seq};
use annals_core::sources::SourceRow;
use annals_runtime::{Agent, Attachment, ConversationHandle, Prompt, RunError, Subscription, TurnTerms};
use annals_store::LogError;
use http::StatusCode;
use tokio::sync::{Mutex, MutexGuard, mpsc};
use tokio::time::Instant;

use super::error::ApiError;
use super::follow::{Follow, Seen};
use super::lineage::{ClientKey, Index, Place};
use super::part::Part;
use super::pieces::{Link, Piece};
use super::target::PromptTarget;
use super::transcript::{File, Held, Transcript};
use crate::app::App;
use crate::artifacts::signed_url;
use crate::idempotency::Once;
use crate::problem::{Code, Problem};
use crate::secrets::seconds;
use crate::turns::{check, new_key};

/// How long links to files in an answer open them.
const LINK_SECONDS: i64 = 7 * 24 * 60 * 60;

/// What a client wants answered.
pub(crate) struct Ask {
    pub(crate) transcript: Transcript,
    pub(crate) names: Names,
    /// What holds for the turn: a schema for the answer, whether somebody can be asked.
    pub(crate) terms: TurnTerms,
    /// The client's name for this request, if it gave one: sent again, it is the same turn.
    pub(crate) once: Once,
    /// Whether the answer is looked for later.
    pub(crate) is_background: bool,
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
    /// Whether an earlier request with the same key started it.
    pub(crate) is_replayed: bool,
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
        let transcript = &ask.transcript;
        let makes = matches!(target, PromptTarget::New(None) | PromptTarget::Fork(_));
        let (conversation, mut prompt) = match target {
            PromptTarget::Continue(id) => (id, new_prompt(transcript)),
            PromptTarget::Fork(place) => (self.forked(place, &ask.once).await?, new_prompt(transcript)),
            PromptTarget::New(id) => (
                self.create(id, transcript, &ask.once).await?,
                whole_prompt(transcript),
            ),
            PromptTarget::StandAlone => return self.stand_alone(ask).await,
        };
        prompt.terms = ask.terms.clone();
        let posted = self.checked_and_posted(&self.agent, &conversation, prompt, &ask.once);
        let (part, subscription) = match posted.await {
            Ok(Some(posted)) => posted,
            Ok(None) => return self.answered_meanwhile(&ask).await,
            Err(error) => {
                if makes {
                    self.unmake(&self.agent, &conversation).await;
                }
                return Err(error);
            }
        };
        let sources = async {
            self.remember(&ask, &part).await?;
            self.sources(&part.conversation).await
        };
        let sources = sources.await.map_err(ApiError::not_again)?;
        let follow = Follow::new(self, &self.agent, part.clone(), ask.origin)
            .keeping(Some(Seen::turn(ask.transcript, key)));
        Ok(Started {
            pieces: follow.begin(subscription, sources),
            part,
            is_stand_alone: false,
            is_replayed: false,
        })
    }

    /// Posts a prompt that can be taken, and gives its turn from its first block on. None when the same request was answered
    /// meanwhile.
    pub(super) async fn checked_and_posted(
        &self,
        agent: &Agent,
        conversation: &ConversationId,
        prompt: Prompt,
        once: &Once,
    ) -> Result<Option<(Part, Subscription)>, ApiError> {
        let checked = agent.check_attachments(&prompt.attachments).await;
        checked.map_err(|error| ApiError::invalid("messages", "attachment_refused", error))?;
        let subscription = self.subscription(agent, conversation).await?;
        let posted = self.post(agent, conversation, prompt, once).await?;
        Ok(posted.map(|part| (part, subscription)))
    }

    /// Removes a conversation that was made for a prompt which was then refused: a client that tries again would leave one
    /// each time.
    pub(super) async fn unmake(&self, agent: &Agent, conversation: &ConversationId) {
        if let Err(error) = agent.delete_conversation(conversation).await {
            tracing::debug!(%error, "a conversation without a turn stays");
        }
    }

    /// Posts a prompt, counted among the turns of the caller's scope, with the answer to its request in the same commit.
    /// None when that request was answered meanwhile. What has begun is done whole, also for a client that goes away.
    async fn post(
        &self,
        agent: &Agent,
        conversation: &ConversationId,
        mut prompt: Prompt,
        once: &Once,
    ) -> Result<Option<Part>, ApiError> {
        check(&self.app, agent, conversation, &[]).await?;
        let client_key = new_key(agent);
        let turn = ConversationHandle::turn_of_key(&client_key);
        prompt.client_key = Some(client_key);
        let part = Part::whole(conversation.clone(), turn);
        let counted = self
            .app
            .usage
            .turn(self.scope(), &part.turn, &self.app.limits, Instant::now())?;
        let answer = once.answer(StatusCode::OK, part.to_string().into_bytes());
        let is_announced = agent.scope() == self.scope();
        let (app, agent, posts) = (self.app.clone(), agent.clone(), part.clone());
        let posted = self.app.tasks.spawn(async move {
            let Part {
                conversation, turn, ..
            } = &posts;
            if is_announced {
                app.outside.webhooks.owe(&agent, conversation, turn).await?;
            }
            let handle = agent.conversation(conversation).answering(answer);
            handle.post(prompt).await?;
            counted.posted();
            Ok::<_, RunError>(())
        });
        match posted.await.map_err(Problem::internal)? {
            Ok(()) => Ok(Some(part)),
            Err(RunError::Log(LogError::Answered { .. })) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// An answer to an earlier request, from its first piece on. Its turn has been posted; one that has not begun yet comes
    /// after every block there is.
    pub(crate) async fn follow(&self, part: Part, origin: String) -> Result<Started, ApiError> {
        let agent = self.agent_of(&part).await?;
        let timeline = agent.timeline(&part.conversation).await?;
        let before = match timeline.turn(&part.turn) {
            Some(turn) => Seq::try_new(turn.first_seq().get() - 1).ok(),
            None => timeline.tail(),
        };
        let sources: Vec<SourceRow> = timeline.pool().iter().cloned().collect();
        let subscription = agent.subscribe(&part.conversation, before).await?;
        let follow = Follow::new(self, &agent, part.clone(), origin);
        Ok(Started {
            pieces: follow.begin(subscription, sources),
            part,
            is_stand_alone: agent.scope() != self.scope(),
            is_replayed: false,
        })
    }

    /// The answer to a request that was sent before under the same key.
    pub(super) async fn again(&self, ask: &Ask) -> Result<Option<Started>, ApiError> {
        let Some(known) = ask.once.stored(&self.app).await? else {
            return Ok(None);
        };
        let id = String::from_utf8_lossy(&known.body);
        let started = self.follow(Part::parse(&id)?, ask.origin.clone()).await?;
        Ok(Some(Started {
            is_replayed: true,
            ..started
        }))
    }

    /// The answer to the same request, which was under way in another process.
    pub(super) async fn answered_meanwhile(&self, ask: &Ask) -> Result<Started, ApiError> {
        let again = self.again(ask).await?;
        again.ok_or_else(|| Problem::new(Code::Unavailable, "the first answer is gone").into())
    }

    /// The id of a conversation that a request makes: the same when it is sent again under its key.
    pub(super) fn new_id(&self, once: &Once) -> ConversationId {
        let key = once.client_key();
        let id = key.and_then(|key| {
            let digest = BlobDigest::of(key.as_bytes()).hex();
            ConversationId::parse(&format!("conv_{}", &digest[..32])).ok()
        });
        id.unwrap_or_else(|| self.agent.world().conversation_id())
    }

    /// Whether a conversation that exists under the id of this request was made by it and not used yet: then its process
    /// died before the prompt was posted.
    pub(super) async fn is_unused(
        &self,
        agent: &Agent,
        id: &ConversationId,
        end: Option<Seq>,
    ) -> Result<bool, ApiError> {
        let key = agent.key(id);
        let info = agent.log().get(&key).await?;
        Ok(info.tail == end && agent.log().pending(&key).await?.is_empty())
    }

    async fn forked(&self, place: Place, once: &Once) -> Result<ConversationId, ApiError> {
        let id = self.new_id(once);
        let (parent, end) = (&place.conversation, Some(place.end));
        match self.agent.fork_as(parent, end, &id, None).await {
            Err(RunError::Log(LogError::Exists { .. })) if self.is_unused(&self.agent, &id, end).await? => {
                Ok(id)
            }
            Err(RunError::Log(LogError::Exists { .. })) => Ok(self.agent.fork(parent, end).await?),
            forked => Ok(forked?),
        }
    }

    pub(crate) async fn remember(&self, ask: &Ask, part: &Part) -> Result<(), ApiError> {
        let now = self.agent.world().now();
        self.sweep_if_due();
        if let Some(hint) = &ask.names.hint {
            let conversation = part.conversation.to_string();
            self.index().set_named("k", hint, conversation, now).await?;
        }
        Ok(())
    }

    async fn create(
        &self,
        named: Option<ConversationId>,
        transcript: &Transcript,
        once: &Once,
    ) -> Result<ConversationId, ApiError> {
        const TITLE_MAX_CHARS: usize = 60;
        if let Some(id) = named {
            drop(self.agent.session(id.as_str()).await?);
            return Ok(id);
        }
        let text = self.agent.redact(&transcript.prompt.text);
        let line = text.lines().find(|line| !line.trim().is_empty());
        let title = line.map(|line| line.trim().chars().take(TITLE_MAX_CHARS).collect());
        self.made(&self.agent, title, once).await
    }

    /// Makes the conversation of a request, once.
    pub(super) async fn made(
        &self,
        agent: &Agent,
        title: Option<String>,
        once: &Once,
    ) -> Result<ConversationId, ApiError> {
        let id = self.new_id(once);
        match agent.create_conversation(&id, title.clone(), None).await {
            Err(RunError::Log(LogError::Exists { .. })) if !self.is_unused(agent, &id, None).await? => {
                let id = agent.world().conversation_id();
                agent.create_conversation(&id, title, None).await?;
                Ok(id)
            }
            Err(RunError::Log(LogError::Exists { .. })) | Ok(()) => Ok(id),
            Err(error) => Err(error.into()),
        }
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
pub(super) fn whole_prompt(transcript: &Transcript) -> Prompt {
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
