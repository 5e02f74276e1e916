//! The agent: a model and tools on a runtime, ready to run turns.

use std::borrow::Cow;
use std::sync::{Arc, RwLock};

use annals_content::Content;
use annals_core::block::NewBlock;
use annals_core::ids::{CallId, ConversationId, ConversationKey, Scope, Seq, TurnId};
use annals_core::redact::Redactor;
use annals_core::settings::{BudgetSettings, Settings};
use annals_core::turn::TurnEnd;
use annals_core::turn::round::CutTo;
use annals_core::view::{Layout, View};
use annals_model::Model;
use annals_policy::{KnownTool, Policy};
use annals_sandbox::{Backend, Bound, LazySandbox, Limits, LocalTree, SandboxName, SandboxSpec};
use annals_store::{
    ArtifactStore, BlockLogExt as _, ConversationInfo, Lease, LogError, NewConversation, Owner, Post, Recall,
    Store, StoredAnswer, Taken, Workspace, workspace_folder,
};
use annals_tools::skills::Skills;
use annals_tools::tool::cut_of;
use annals_tools::{ConversationCx, Tool, ToolTable, Vault};
use serde_json::Value;

use crate::builder::AgentBuilder;
use crate::conversation::Conversation;
use crate::error::RunError;
use crate::hooks::{Hooks, may_contribute};
use crate::journal::Journal;
use crate::listen::{Relayed, Subscribers};
use crate::membership::Life;
use crate::offer::LastKept;
use crate::policy::PolicySource;
use crate::request::TurnRequest;
use crate::runtime::Runtime;
use crate::session::Session;
use crate::sourced::Sourced;
use crate::step::Frame;
use crate::subscription::Subscription;
use crate::terms::TurnTerms;
use crate::turn::{Ended, RunFailed, Turn};
use crate::world::World;

/// What an agent is made of.
#[derive(Clone)]
pub(crate) struct AgentParts {
    pub(crate) name: String,
    pub(crate) model: Arc<dyn Model>,
    /// Whether the model wants the view as text beside the messages.
    pub(crate) model_reads_text: bool,
    pub(crate) tools: ToolTable,
    pub(crate) frame: Frame,
    /// Where more tools come from.
    pub(crate) sourced: Option<Arc<Sourced>>,
    pub(crate) offer_kept: Arc<LastKept>,
    pub(crate) layout: Layout,
    /// The model's window, where somebody said it.
    pub(crate) context_tokens: Option<u32>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) scope: Scope,
    /// Whose rules hold and who pays, where that is not the scope in which the conversations lie.
    pub(crate) acts_for: Option<Scope>,
    pub(crate) hooks: Arc<dyn Hooks>,
    /// Whether there are hooks that could refuse a call, or take their time over it.
    pub(crate) has_hooks: bool,
    pub(crate) policy: Option<Arc<dyn PolicySource>>,
    pub(crate) skills: Arc<dyn Skills>,
    pub(crate) sandbox: Option<Arc<dyn Backend>>,
    pub(crate) sandbox_limits: Limits,
    pub(crate) content: Content,
    pub(crate) secrets: Vault,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) runtime: Runtime,
}

impl AgentParts {
    pub(crate) fn world(&self) -> &World {
        self.runtime.world()
    }

    pub(crate) fn log(&self) -> &Arc<dyn Store> {
        self.runtime.log()
    }

    pub(crate) fn artifacts(&self) -> &ArtifactStore {
        self.runtime.artifacts()
    }

    /// Whether what tools run is kept in a sandbox.
    pub(crate) fn is_isolated(&self) -> bool {
        self.sandbox.as_ref().is_none_or(|backend| backend.isolates())
    }

    /// The agent as it is during a turn on these terms: with what the turn's client performs among its tools.
    pub(crate) fn on_terms(self: &Arc<Self>, terms: &TurnTerms) -> Result<Arc<Self>, RunError> {
        let now = self.up_to_date();
        if terms.client_tools.is_empty() {
            return Ok(now);
        }
        let unusable = |error: &dyn std::fmt::Display| RunError::ClientTools(error.to_string());
        let offered = terms.tools().map_err(|error| unusable(&error))?;
        let tools = now.tools.with(offered).map_err(|error| unusable(&error))?;
        let frame = now.frame.with_tools(tools.schemas(), now.layout);
        Ok(Arc::new(AgentParts {
            frame: frame.map_err(|error| unusable(&error))?,
            tools,
            ..(*now).clone()
        }))
    }

    /// Whose rules and budget hold for its turns.
    pub(crate) fn ruled_by(&self) -> &Scope {
        self.acts_for.as_ref().unwrap_or(&self.scope)
    }

    /// The agent with what its source of tools has now.
    fn up_to_date(self: &Arc<Self>) -> Arc<Self> {
        let Some(sourced) = &self.sourced else {
            return self.clone();
        };
        let (tools, frame) = sourced.now();
        Arc::new(AgentParts {
            tools,
            frame,
            ..(**self).clone()
        })
    }

    /// The rules in force; none when the agent has no policy.
    pub(crate) async fn read_policy(&self) -> Result<Option<Arc<Policy>>, RunError> {
        let Some(source) = &self.policy else {
            return Ok(None);
        };
        let known = self.known_tools();
        Ok(Some(Arc::new(source.read(self.ruled_by(), &known).await?)))
    }

    fn known_tools(&self) -> Vec<KnownTool> {
        self.tools.reachable().map(|tool| tool.spec().known()).collect()
    }

    /// What turns of the scope may use up.
    pub(crate) async fn read_budget(&self) -> Result<BudgetSettings, RunError> {
        let general = &self.settings.budget;
        match &self.policy {
            Some(source) => Ok(source.budget(self.ruled_by(), general).await?),
            None => Ok(general.clone()),
        }
    }

    /// Which parameter a call's block shows cut; the whole is kept before any block names its digest.
    pub(crate) async fn kept_cut(
        &self,
        tool: &dyn Tool,
        turn: &TurnId,
        call: &CallId,
        args: &Value,
    ) -> Option<CutTo> {
        let to = cut_of(tool, turn, call, args)?;
        let whole = args.get(&to.param)?.as_str()?;
        match self.artifacts().put(whole.to_owned().into_bytes()).await {
            Ok(stored) => Some(CutTo {
                whole: Some(stored.blob),
                ..to
            }),
            // What the store cannot keep, a block must: code has one of its own, the call's shows the rest.
            Err(_) => Some(to).filter(|to| to.is_code),
        }
    }
}

/// A model and tools on a [`Runtime`], ready to run turns. Cheap to clone; many sessions may share it.
#[derive(Clone)]
pub struct Agent {
    pub(crate) parts: Arc<AgentParts>,
}

/// Where a conversation's side effects happen: named by the conversation and its owner's fencing token, on the files of
/// its working tree.
fn target(backend: &Arc<dyn Backend>, limits: &Limits, lease: &Lease, workspace: &Workspace) -> LazySandbox {
    let spec = SandboxSpec {
        limits: limits.clone(),
        ..SandboxSpec::new(SandboxName::new(lease.key().to_string(), lease.token()))
    };
    LazySandbox::new(backend.clone(), spec).local(LocalTree::at(workspace.root()))
}

impl Agent {
    /// Starts making an agent.
    pub fn builder() -> AgentBuilder {
        AgentBuilder::default()
    }

    /// What it shares with other agents of this process.
    pub fn runtime(&self) -> &Runtime {
        &self.parts.runtime
    }

    /// The tools it offers.
    pub fn tools(&self) -> &ToolTable {
        &self.parts.tools
    }

    /// What rules may speak of.
    pub fn known_tools(&self) -> Vec<KnownTool> {
        self.parts.known_tools()
    }

    /// The model it asks.
    pub fn model(&self) -> &Arc<dyn Model> {
        &self.parts.model
    }

    /// The log it writes to.
    pub fn log(&self) -> &Arc<dyn Store> {
        self.parts.log()
    }

    /// Memory search over the log, if it has one.
    pub fn recall(&self) -> Option<&Arc<dyn Recall>> {
        self.parts.runtime.recall()
    }

    /// Where it keeps bytes.
    pub fn artifacts(&self) -> &ArtifactStore {
        self.parts.artifacts()
    }

    /// Whose conversations it sees.
    pub fn scope(&self) -> &Scope {
        &self.parts.scope
    }

    /// What names a conversation of its scope.
    pub fn key(&self, id: &ConversationId) -> ConversationKey {
        ConversationKey::new(self.parts.scope.clone(), id.clone())
    }

    /// The same agent for the conversations of another scope.
    pub fn in_scope(&self, scope: &Scope) -> Agent {
        if *scope == self.parts.scope {
            return self.clone();
        }
        let parts = AgentParts {
            scope: scope.clone(),
            acts_for: None,
            ..(*self.parts).clone()
        };
        Agent {
            parts: Arc::new(parts),
        }
    }

    /// Where its tools run commands, if they do.
    pub fn sandbox(&self) -> Option<&Arc<dyn Backend>> {
        self.parts.sandbox.as_ref()
    }

    /// The bounds that hold for what its tools run; none without a sandbox.
    pub fn sandbox_bounds(&self) -> Vec<Bound> {
        let backend = self.parts.sandbox.as_ref();
        backend.map_or_else(Vec::new, |backend| backend.bounds(&self.parts.sandbox_limits))
    }

    /// Who it is among those that write to the log.
    pub fn owner(&self) -> Owner {
        self.parts.runtime.parts.membership.life().owner
    }

    /// Where its time and ids come from.
    pub fn world(&self) -> &World {
        self.parts.world()
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.parts.settings
    }

    /// What the model is told before everything else.
    pub fn system_message(&self) -> &str {
        self.parts.frame.offering.system()
    }

    /// How views become messages.
    pub fn layout(&self) -> Layout {
        self.parts.layout
    }

    /// What the system message and the tools take of every request, in tokens.
    pub fn fixed_tokens(&self) -> u32 {
        self.parts.frame.fixed_tokens
    }

    /// Opens a conversation for writing; makes it if it does not exist.
    pub async fn session(&self, conversation: &str) -> Result<Session, RunError> {
        let id = ConversationId::parse(conversation)
            .map_err(|_| RunError::BadConversationId(conversation.to_owned()))?;
        match self.parts.log().get(&self.key(&id)).await {
            Ok(_) => {}
            Err(LogError::NotFound { .. }) => self.create(&id, None).await?,
            Err(error) => return Err(error.into()),
        }
        self.open(&id).await
    }

    /// Makes a new conversation and opens it.
    pub async fn new_session(&self, title: Option<String>) -> Result<Session, RunError> {
        let id = self.parts.world().conversation_id();
        self.create(&id, title).await?;
        self.open(&id).await
    }

    /// Makes a new conversation without opening it; `answer` is kept in the same commit.
    pub async fn create_conversation(
        &self,
        id: &ConversationId,
        title: Option<String>,
        answer: Option<StoredAnswer>,
    ) -> Result<(), RunError> {
        let mut new = NewConversation::new(self.key(id), self.parts.world().now()).answering(answer);
        new.title = title.map(|title| self.redact(&title).into_owned());
        Ok(self.parts.log().create(new).await?)
    }

    /// A text without this agent's secrets. Whoever makes a title of a prompt asks for this before cutting it: half a
    /// secret is not recognised.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.parts.redactor.redact(text)
    }

    /// What reading the paths of a conversation needs, without taking the right to write. `at` gives the conversation as
    /// it was when that block was the last one.
    pub async fn reading(&self, id: &ConversationId, at: Option<Seq>) -> Result<ConversationCx, RunError> {
        let parts = &self.parts;
        let timeline = match at {
            Some(at) => self.timeline(id).await?.at(at),
            None => match self.open_here(id).await {
                Some(session) => return Ok((**session.cx()).clone()),
                None => self.timeline(id).await?,
            },
        };
        let dir = workspace_folder(&parts.runtime.parts.workspaces, &self.key(id));
        let workspace = Workspace::at(&dir).map_err(|error| RunError::Artifact(error.to_string()))?;
        Ok(ConversationCx {
            skills: parts.skills.clone(),
            settings: parts.settings.clone(),
            ..ConversationCx::new(
                id.clone(),
                parts.scope.clone(),
                Arc::new(RwLock::new(Arc::new(timeline))),
                Arc::new(workspace),
                parts.artifacts().clone(),
            )
        })
    }

    async fn create(&self, id: &ConversationId, title: Option<String>) -> Result<(), RunError> {
        match self.create_conversation(id, title, None).await {
            // Somebody else made it in between; then it is opened like any other.
            Err(RunError::Log(LogError::Exists { .. })) => Ok(()),
            made => made,
        }
    }

    /// Opens an existing conversation of this agent's scope for writing. In this process it may be open already: then
    /// both sessions share it, and their turns queue.
    pub async fn open(&self, id: &ConversationId) -> Result<Session, RunError> {
        let open = |subscribers| self.take(id, subscribers);
        let conversation = self.parts.runtime.conversation(&self.key(id), open).await?;
        Ok(Session::new(conversation))
    }

    /// The conversation if it is open in this process.
    pub(crate) async fn open_here(&self, id: &ConversationId) -> Option<Session> {
        let conversation = self.parts.runtime.open_here(&self.key(id)).await?;
        Some(Session::new(conversation))
    }

    /// Posts, and sees to it that somebody looks: where nobody has the conversation, this process opens it in the commit of
    /// the post.
    pub(crate) async fn post(&self, id: &ConversationId, post: Post) -> Result<(), RunError> {
        let (key, mut post) = (self.key(id), Some(post));
        let (to, given) = (&key, &mut post);
        let open = |subscribers| async move {
            let runtime = &self.parts.runtime.parts;
            let (life, post) = (runtime.membership.life(), given.take().ok_or(RunError::Stopped)?);
            let log = &runtime.log;
            let (_, taken) = log
                .post_and_take(to, post, &life.owner, runtime.lease_ttl)
                .await?;
            self.taken(taken?, life, subscribers).await
        };
        match (self.parts.runtime.conversation(&key, open).await, post) {
            // It was open here.
            (Ok(conversation), Some(post)) => {
                self.log().post(&key, post).await?;
                conversation.mail_came().await;
                Ok(())
            }
            (Ok(_), None) => Ok(()),
            // Its owner follows the inbox.
            (Err(RunError::Log(LogError::Held { .. })), _) => Ok(()),
            (Err(error), _) => Err(error),
        }
    }

    /// Takes the lease and folds the conversation.
    async fn take(&self, id: &ConversationId, subscribers: Subscribers) -> Result<Conversation, RunError> {
        let runtime = &self.parts.runtime.parts;
        let (life, log) = (runtime.membership.life(), &runtime.log);
        let taken = log.take(&self.key(id), &life.owner, runtime.lease_ttl).await?;
        self.taken(taken, life, subscribers).await
    }

    /// Folds a conversation that the store gave to this process, and takes in what waits for it.
    async fn taken(
        &self,
        taken: Taken,
        life: Life,
        subscribers: Subscribers,
    ) -> Result<Conversation, RunError> {
        let conversation = self.opened(taken.lease, taken.info, life, subscribers).await?;
        conversation.take_in(taken.pending);
        Ok(conversation)
    }

    /// Opens a conversation with a lease that the store gave to this process, and goes on with the turn that another left
    /// open before it does anything else. A poisonous one, which ended the processes that tried, is ended instead.
    pub(crate) async fn take_over(
        &self,
        lease: Lease,
        life: Life,
        is_poison: bool,
    ) -> Result<Session, RunError> {
        let key = lease.key().clone();
        let mut claimed = Some((lease, life));
        let given = &mut claimed;
        let open = |subscribers| async move {
            let (lease, life) = given.take().ok_or(RunError::Stopped)?;
            let info = self.log().get(lease.key()).await?;
            let conversation = self.opened(lease, info, life, subscribers).await?;
            conversation.take_up_first(is_poison);
            Ok(conversation)
        };
        let conversation = self.parts.runtime.conversation(&key, open).await?;
        if let Some((lease, life)) = claimed {
            // It is open here, with a lease that had run out.
            conversation.writer().await.journal.adopt(lease, life);
            conversation.take_up_first(is_poison);
        }
        conversation.start();
        Ok(Session::new(conversation))
    }

    /// Folds the conversation of a lease.
    async fn opened(
        &self,
        lease: Lease,
        info: ConversationInfo,
        life: Life,
        subscribers: Subscribers,
    ) -> Result<Conversation, RunError> {
        let (parts, runtime) = (&self.parts, &self.parts.runtime.parts);
        let (key, id) = (lease.key().clone(), &lease.key().id);
        let timeline = Arc::new(RwLock::new(Arc::new(self.fold(&info).await?)));
        let imported = self.imported(info).await?;
        let dir = workspace_folder(&runtime.workspaces, &key);
        let workspace = Workspace::at(&dir).map_err(|error| RunError::Artifact(error.to_string()))?;
        let workspace = Arc::new(workspace);
        let sandbox = parts
            .sandbox
            .as_ref()
            .map(|backend| Arc::new(target(backend, &parts.sandbox_limits, &lease, &workspace)));
        let cx = ConversationCx {
            sandbox,
            skills: parts.skills.clone(),
            recall: runtime.recall.clone(),
            settings: parts.settings.clone(),
            secrets: parts.secrets.clone(),
            ..ConversationCx::new(
                id.clone(),
                parts.scope.clone(),
                timeline.clone(),
                workspace,
                parts.artifacts().clone(),
            )
        };
        let journal =
            Journal::new(runtime, lease, life, timeline, subscribers).redacting(parts.redactor.clone());
        Ok(Conversation::new(parts.clone(), Arc::new(cx), journal, imported))
    }

    /// Watches a conversation from the block after `after` on, whether or not it is open here.
    pub async fn subscribe(&self, id: &ConversationId, after: Option<Seq>) -> Result<Subscription, RunError> {
        self.subscribe_and_get(id, after)
            .await
            .map(|(subscription, _)| subscription)
    }

    /// The same, with what is known of the conversation at the moment at which the subscription begins.
    pub async fn subscribe_and_get(
        &self,
        id: &ConversationId,
        after: Option<Seq>,
    ) -> Result<(Subscription, ConversationInfo), RunError> {
        let (log, key) = (self.parts.log(), self.key(id));
        let slot = self.parts.runtime.slot(&key);
        // Subscribed before the look, so that nothing falls in between.
        let mut subscription = Subscription::new(key, log.clone(), after, slot);
        let info = log.get(subscription.key()).await?;
        subscription.begin(info.tail);
        Ok((subscription, info))
    }

    /// Tells the subscribers of this process what the owner of a conversation, another process, told its own. Blocks are not
    /// told in this way: they come from the log. Gives whether anybody listens.
    pub fn relay(&self, id: &ConversationId, update: Relayed) -> bool {
        self.parts.runtime.slot(&self.key(id)).subscribers.relay(update)
    }

    /// Whether a conversation is open in this process, which then tells its subscribers itself.
    pub async fn is_open_here(&self, id: &ConversationId) -> bool {
        self.open_here(id).await.is_some()
    }

    /// Folds a conversation without opening it for writing.
    pub async fn timeline(&self, id: &ConversationId) -> Result<View, RunError> {
        let info = self.parts.log().get(&self.key(id)).await?;
        self.fold(&info).await
    }

    /// Folds a conversation that has come at least so far. An empty one is not read.
    async fn fold(&self, info: &ConversationInfo) -> Result<View, RunError> {
        let fold = |source| RunError::Fold {
            conversation: info.key.id.clone(),
            source,
        };
        let blocks = match info.tail {
            Some(_) => self.parts.log().read_whole(&info.key, info.tail).await?,
            None => Vec::new(),
        };
        View::new(self.parts.model.media_rule())
            .with(blocks.into_iter().map(Arc::new))
            .map_err(fold)
    }

    /// Runs one turn: takes the session, and gives it back with what the turn came to, or with what went wrong. Turns of
    /// one conversation queue. A turn that a crash left unfinished is closed first, unless the request goes on with it.
    /// Dropping the future cancels the turn.
    pub async fn run(&self, session: Session, request: impl Into<TurnRequest>) -> Result<Turn, RunFailed> {
        match self.run_request(&session, request.into()).await {
            Ok(ended) => Ok(Turn { session, ended }),
            Err(error) => Err(RunFailed { error, session }),
        }
    }

    /// Runs one turn in a session that the caller keeps.
    pub async fn run_in(
        &self,
        session: &Session,
        request: impl Into<TurnRequest>,
    ) -> Result<TurnEnd, RunError> {
        self.run_request(session, request.into())
            .await
            .map(|ended| ended.end())
    }

    async fn run_request(&self, session: &Session, mut request: TurnRequest) -> Result<Ended, RunError> {
        request.cancel = request.cancel.child_token();
        request.found = session.take_found();
        let cancels_when_dropped = request.cancel.clone().drop_guard();
        let ended = session.conversation.submit(self.parts.clone(), request).await;
        cancels_when_dropped.disarm();
        // A reply is missing only when the executor ends with the turn still running.
        ended.unwrap_or(Err(RunError::Stopped))
    }

    /// Appends blocks of the caller's own making: imported history, tests. They are durable when this returns, and the
    /// caller answers for their order.
    pub async fn append(&self, session: &Session, blocks: Vec<NewBlock>) -> Result<(), RunError> {
        let mut writer = session.conversation.writer().await;
        writer.ready().await?;
        writer.journal.append(blocks).await
    }

    /// Appends blocks of the host's own, such as a person's feedback: `stage.*`, `system.message` and `x.*`. All of them
    /// or none, and between turns. `answer` is kept in the same commit.
    pub async fn contribute(
        &self,
        session: &Session,
        blocks: Vec<NewBlock>,
        answer: Option<StoredAnswer>,
    ) -> Result<(), RunError> {
        if let Some(refused) = blocks.iter().find(|block| !may_contribute(block)) {
            return Err(RunError::MayNotContribute(refused.kind.to_string()));
        }
        let mut writer = session.conversation.writer().await;
        writer.ready().await?;
        writer.journal.append_answering(blocks, answer).await
    }
}
