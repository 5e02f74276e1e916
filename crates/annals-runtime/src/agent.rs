//! The agent: a model, tools and a place for data, ready to run turns.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use annals_core::block::{BlockKind, NewBlock};
use annals_core::ids::{ConversationId, ConversationKey, NodeId, Scope, TurnId};
use annals_core::limits;
use annals_core::path::LogicalPath;
use annals_core::settings::Settings;
use annals_core::timeline::Timeline;
use annals_core::turn::TurnEnd;
use annals_core::turn::opening::Opening;
use annals_core::turn::round::{NewAnswer, NewCall, answer_blocks};
use annals_core::view::Layout;
use annals_core::view::View;
use annals_model::{Model, Window};
use annals_sandbox::{Backend, LocalTree, SandboxName, SandboxSpec, Target};
use annals_store::{
    ArtifactStore, BatchId, BlockLog, BlockLogExt as _, Lease, LogError, NewConversation, Owner, Recall,
    Workspace, workspace_folder,
};
use annals_tools::skills::{NoSkills, Skills};
use annals_tools::{ConversationCx, Tool, ToolTable};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use crate::attach::Attachment;
use crate::driver::Drive;
use crate::error::{BuildError, RunError};
use crate::hooks::{Hooks, NoHooks};
use crate::instructions;
use crate::journal::{Journal, LEASE_TTL};
use crate::listen::{Listen, Nobody};
use crate::session::Session;
use crate::step::Frame;
use crate::world::World;

/// What an agent is made of.
pub(crate) struct AgentParts {
    pub(crate) name: String,
    pub(crate) model: Arc<dyn Model>,
    /// Whether the model wants the view as text beside the messages.
    pub(crate) model_reads_text: bool,
    pub(crate) tools: ToolTable,
    pub(crate) frame: Frame,
    pub(crate) layout: Layout,
    pub(crate) settings: Arc<Settings>,
    pub(crate) log: Arc<dyn BlockLog>,
    pub(crate) recall: Option<Arc<dyn Recall>>,
    pub(crate) artifacts: ArtifactStore,
    pub(crate) workspaces: PathBuf,
    pub(crate) scope: Scope,
    pub(crate) hooks: Arc<dyn Hooks>,
    pub(crate) skills: Arc<dyn Skills>,
    pub(crate) sandbox: Option<Arc<dyn Backend>>,
    pub(crate) world: World,
    /// Names this process among the writers of a conversation.
    pub(crate) owner: Owner,
}

impl AgentParts {
    pub(crate) fn key(&self, id: &ConversationId) -> ConversationKey {
        ConversationKey::new(self.scope.clone(), id.clone())
    }

    pub(crate) fn batch(&self) -> BatchId {
        BatchId::new(self.world.random())
    }
}

/// A model, tools and a place for data, ready to run turns. Cheap to clone; many sessions may share it.
#[derive(Clone)]
pub struct Agent {
    pub(crate) parts: Arc<AgentParts>,
}

/// What to do in one turn: a prompt, perhaps with files, somebody who watches, a way to cancel.
pub struct TurnRequest {
    prompt: String,
    attachments: Vec<Attachment>,
    turn: Option<TurnId>,
    listener: Arc<dyn Listen>,
    cancel: CancellationToken,
}

impl TurnRequest {
    /// A turn for this prompt.
    pub fn new(prompt: impl Into<String>) -> Self {
        TurnRequest {
            prompt: prompt.into(),
            attachments: Vec::new(),
            turn: None,
            listener: Arc::new(Nobody),
            cancel: CancellationToken::new(),
        }
    }

    /// With this file.
    #[must_use]
    pub fn attach(mut self, attachment: Attachment) -> Self {
        self.attachments.push(attachment);
        self
    }

    /// With this id instead of a new one.
    #[must_use]
    pub fn turn_id(mut self, turn: TurnId) -> Self {
        self.turn = Some(turn);
        self
    }

    /// Watched by this listener.
    #[must_use]
    pub fn listen(mut self, listener: Arc<dyn Listen>) -> Self {
        self.listener = listener;
        self
    }

    /// Cancelled by this token.
    #[must_use]
    pub fn cancel(mut self, cancel: CancellationToken) -> Self {
        self.cancel = cancel;
        self
    }
}

impl<T: Into<String>> From<T> for TurnRequest {
    fn from(prompt: T) -> Self {
        TurnRequest::new(prompt)
    }
}

/// Where a conversation's side effects happen: named by the conversation and its owner's fencing token, on the files of
/// its working tree.
fn target(backend: &Arc<dyn Backend>, lease: &Lease, workspace: &Workspace) -> Target {
    let name = SandboxName::new(lease.key().to_string(), lease.token());
    Target::new(backend.clone(), SandboxSpec::new(name)).local(LocalTree::at(workspace.root()))
}

impl Agent {
    /// Starts making an agent.
    pub fn builder() -> AgentBuilder {
        AgentBuilder::default()
    }

    /// The tools it offers.
    pub fn tools(&self) -> &ToolTable {
        &self.parts.tools
    }

    /// The model it asks.
    pub fn model(&self) -> &Arc<dyn Model> {
        &self.parts.model
    }

    /// The log it writes to.
    pub fn log(&self) -> &Arc<dyn BlockLog> {
        &self.parts.log
    }

    /// Memory search over the log, if it has one.
    pub fn recall(&self) -> Option<&Arc<dyn Recall>> {
        self.parts.recall.as_ref()
    }

    /// Where it keeps bytes.
    pub fn artifacts(&self) -> &ArtifactStore {
        &self.parts.artifacts
    }

    /// Whose conversations it sees.
    pub fn scope(&self) -> &Scope {
        &self.parts.scope
    }

    /// What names a conversation of its scope.
    pub fn key(&self, id: &ConversationId) -> ConversationKey {
        self.parts.key(id)
    }

    /// Who it is among those that write to the log.
    pub fn owner(&self) -> &Owner {
        &self.parts.owner
    }

    /// Where its time and ids come from.
    pub fn world(&self) -> &World {
        &self.parts.world
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.parts.settings
    }

    /// What the model is told before everything else.
    pub fn system_message(&self) -> &str {
        &self.parts.frame.system
    }

    /// Opens a conversation for writing; makes it if it does not exist.
    pub async fn session(&self, conversation: &str) -> Result<Session, RunError> {
        let id = ConversationId::parse(conversation)
            .map_err(|_| RunError::BadConversationId(conversation.to_owned()))?;
        match self.parts.log.get(&self.key(&id)).await {
            Ok(_) => {}
            Err(LogError::NotFound { .. }) => match self.create(&id, None).await {
                // Another process made it in between: whoever holds it now is named by the lease.
                Err(RunError::Log(LogError::Exists { .. })) => {}
                made => made?,
            },
            Err(error) => return Err(error.into()),
        }
        self.open(&id).await
    }

    /// Makes a new conversation and opens it.
    pub async fn new_session(&self, title: Option<String>) -> Result<Session, RunError> {
        let id = self.parts.world.conversation_id();
        self.create(&id, title).await?;
        self.open(&id).await
    }

    async fn create(&self, id: &ConversationId, title: Option<String>) -> Result<(), RunError> {
        let mut new = NewConversation::new(self.key(id), self.parts.world.now());
        new.title = title;
        Ok(self.parts.log.create(new).await?)
    }

    /// Opens an existing conversation of this agent's scope for writing.
    pub async fn open(&self, id: &ConversationId) -> Result<Session, RunError> {
        let parts = &self.parts;
        let key = parts.key(id);
        let lease = parts.log.acquire(&key, &parts.owner, LEASE_TTL).await?;
        let timeline = Arc::new(RwLock::new(Arc::new(self.timeline(id).await?)));
        let dir = workspace_folder(&parts.workspaces, &key);
        let workspace = Workspace::at(&dir).map_err(|error| RunError::Artifact(error.to_string()))?;
        let workspace = Arc::new(workspace);
        let sandbox = parts
            .sandbox
            .as_ref()
            .map(|backend| Arc::new(target(backend, &lease, &workspace)));
        let cx = ConversationCx {
            sandbox,
            skills: parts.skills.clone(),
            recall: parts.recall.clone(),
            settings: parts.settings.clone(),
            ..ConversationCx::new(
                id.clone(),
                parts.scope.clone(),
                timeline.clone(),
                workspace,
                parts.artifacts.clone(),
            )
        };
        let journal = Journal::new(parts.log.clone(), lease, timeline, parts.world.clone());
        Ok(Session {
            cx: Arc::new(cx),
            journal,
            renderer: None,
        })
    }

    /// Folds a conversation without opening it for writing.
    pub async fn timeline(&self, id: &ConversationId) -> Result<View, RunError> {
        let fold = |source| RunError::Fold {
            conversation: id.clone(),
            source,
        };
        let blocks = self.parts.log.read_all(&self.key(id)).await?;
        View::fold(blocks.into_iter().map(Arc::new)).map_err(fold)
    }

    /// Runs one turn: takes the session and gives it back with the turn on its timeline. A turn that a crash left
    /// unfinished is closed first.
    pub async fn run(&self, session: Session, request: impl Into<TurnRequest>) -> Result<Session, RunError> {
        let (agent, request, mut session) = (self.clone(), request.into(), session);
        // On a task of its own the tools' tasks start and end on the same thread; awaited from a program's `main`, each
        // would wake a thread twice.
        let turn = async move {
            agent.run_in(&mut session, request).await?;
            Ok(session)
        };
        match AbortOnDropHandle::new(tokio::spawn(turn.in_current_span())).await {
            Ok(ended) => ended,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(RunError::Stopped),
            },
        }
    }

    /// Runs one turn in a session that the caller keeps, also when it fails.
    pub async fn run_in(&self, session: &mut Session, request: TurnRequest) -> Result<TurnEnd, RunError> {
        let TurnRequest {
            prompt,
            attachments,
            turn,
            listener,
            cancel,
        } = request;
        check_prompt(&prompt, &attachments)?;
        session.journal.set_listener(listener);
        let turn = self.begin(session, turn, &cancel).await?;
        let attachments = self.take_in(session, &turn, attachments).await?;
        let agent = format!("{} | model: {}", self.parts.name, self.parts.model.name());
        let opening = Opening {
            turn: turn.clone(),
            prompt,
            attachments,
            agent,
        };
        let blocks = session.journal.read(|timeline| {
            let resolved = clarification_resolved(timeline, &turn);
            opening.blocks(timeline).into_iter().chain(resolved).collect()
        });
        session.journal.append(blocks).await?;
        let mut drive = self.drive(session, turn, cancel);
        drive.prune().await?;
        let timeline = drive.session.journal.snapshot();
        let contributed = self.parts.hooks.turn_started(&drive.turn, &timeline).await;
        drop(timeline);
        drive.contribute(contributed).await?;
        let end = drive.run().await;
        session.rest();
        end
    }

    /// Goes on with the turn that a crash or a cancelled process left open.
    pub async fn resume(
        &self,
        session: &mut Session,
        listener: Arc<dyn Listen>,
        cancel: CancellationToken,
    ) -> Result<TurnEnd, RunError> {
        let turn = session.timeline(|timeline| {
            timeline
                .current_turn()
                .filter(|turn| turn.end.is_none())
                .map(|turn| (turn.id.clone(), turn.prompt))
        });
        let Some((turn, prompt)) = turn else {
            return Err(RunError::NothingToResume(session.id().clone()));
        };
        session.journal.set_listener(listener);
        let mut drive = self.drive(session, turn, cancel);
        let end = match prompt {
            Some(_) => drive.run().await,
            None => drive.finish(TurnEnd::Interrupted, None).await,
        };
        session.rest();
        end
    }

    /// Runs one tool in a turn of its own, as a person would: the same blocks, notices and limits as a model's call.
    pub async fn call_tool(
        &self,
        session: &mut Session,
        tool: &str,
        params: Map<String, Value>,
        turn: Option<TurnId>,
        listener: Arc<dyn Listen>,
    ) -> Result<TurnEnd, RunError> {
        let tool = self
            .parts
            .tools
            .get_wire(tool)
            .ok_or_else(|| RunError::NoSuchTool(tool.to_owned()))?;
        session.journal.set_listener(listener);
        let cancel = CancellationToken::new();
        let turn = self.begin(session, turn, &cancel).await?;
        let call = self.parts.world.call_id();
        let args = Value::Object(params.clone());
        let cut = annals_tools::tool::cut_of(&**tool, &turn, &call, &args);
        let new = NewCall {
            id: call.clone(),
            tool: tool.spec().name().to_string(),
            params: params.clone(),
            unreadable: None,
            cut,
        };
        let answer = NewAnswer {
            calls: vec![new],
            ..NewAnswer::default()
        };
        let mut blocks = vec![NewBlock::new(
            BlockKind::TurnHeader,
            &turn,
            LogicalPath::turn_header(&turn),
        )];
        blocks.extend(answer_blocks(&turn, 0, self.parts.world.now(), &answer));
        blocks
            .iter_mut()
            .skip(1)
            .for_each(|block| block.author = "user".into());
        session.journal.append(blocks).await?;
        let mut drive = self.drive(session, turn, cancel);
        drive.fresh.insert(call.clone(), params);
        drive.run_calls(vec![call]).await?;
        let end = drive.finish(TurnEnd::Complete, None).await;
        session.rest();
        end
    }

    /// Appends blocks of the caller's own making: feedback, stages, imported history. They are durable when this
    /// returns, and the caller answers for their order.
    pub async fn append(&self, session: &mut Session, blocks: Vec<NewBlock>) -> Result<(), RunError> {
        session.journal.append(blocks).await
    }

    /// Closes what a crash left open, and gives the new turn its id.
    async fn begin(
        &self,
        session: &mut Session,
        turn: Option<TurnId>,
        cancel: &CancellationToken,
    ) -> Result<TurnId, RunError> {
        let turn = turn.unwrap_or_else(|| self.parts.world.turn_id());
        if session.timeline(|timeline| timeline.turn(&turn).is_some()) {
            return Err(RunError::TurnExists(turn));
        }
        let unfinished = session.timeline(|timeline| {
            timeline
                .current_turn()
                .filter(|turn| turn.end.is_none())
                .map(|turn| turn.id.clone())
        });
        if let Some(unfinished) = unfinished {
            let mut drive = self.drive(session, unfinished, cancel.clone());
            drive
                .finish(
                    TurnEnd::Interrupted,
                    Some("a new prompt came before the turn had ended".into()),
                )
                .await?;
        }
        Ok(turn)
    }

    fn drive<'a>(&'a self, session: &'a mut Session, turn: TurnId, cancel: CancellationToken) -> Drive<'a> {
        Drive {
            agent: &self.parts,
            session,
            turn,
            cancel,
            fresh: HashMap::new(),
        }
    }
}

fn check_prompt(prompt: &str, attachments: &[Attachment]) -> Result<(), RunError> {
    if prompt.len() > limits::PROMPT_MAX_BYTES {
        return Err(RunError::PromptTooLong {
            given: prompt.len(),
            most: limits::PROMPT_MAX_BYTES,
        });
    }
    if prompt.trim().is_empty() && attachments.is_empty() {
        return Err(RunError::PromptEmpty);
    }
    Ok(())
}

/// When the last turn asked the person something, the new prompt is the answer.
fn clarification_resolved(timeline: &Timeline, turn: &TurnId) -> Option<NewBlock> {
    let asked = timeline.current_turn().filter(|turn| turn.clarified)?;
    let path = LogicalPath::stage(turn, "clarification.resolved").expect("a plain name");
    let text = serde_json::json!({ "asked_in": asked.id, "answered_in": turn });
    Some(NewBlock::new(BlockKind::StageClarificationResolved, turn, path).json(&text))
}

/// Makes an [`Agent`].
#[derive(Default)]
pub struct AgentBuilder {
    name: Option<String>,
    model: Option<Arc<dyn Model>>,
    tools: Vec<Arc<dyn Tool>>,
    instructions: Option<String>,
    settings: Settings,
    layout: Layout,
    context_tokens: Option<u32>,
    home: Option<PathBuf>,
    log: Option<Arc<dyn BlockLog>>,
    recall: Option<Arc<dyn Recall>>,
    artifacts: Option<ArtifactStore>,
    workspaces: Option<PathBuf>,
    scope: Scope,
    hooks: Option<Arc<dyn Hooks>>,
    skills: Option<Arc<dyn Skills>>,
    sandbox: Option<Arc<dyn Backend>>,
    world: World,
}

impl AgentBuilder {
    /// The agent's name on the timeline.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The model to ask.
    #[must_use]
    pub fn model(mut self, model: impl Model + 'static) -> Self {
        self.model = Some(Arc::new(model));
        self
    }

    /// One more tool.
    #[must_use]
    pub fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// More tools.
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// What the agent is for, put before the general instructions.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Settings other than the defaults.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// How prompts are laid out.
    #[must_use]
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// The model's window, when it is not what the model says.
    #[must_use]
    pub fn context_tokens(mut self, tokens: u32) -> Self {
        self.context_tokens = Some(tokens);
        self
    }

    /// The folder for everything: `annals.db`, `artifacts/`, `workspace/`.
    #[must_use]
    pub fn home(mut self, home: impl AsRef<Path>) -> Self {
        self.home = Some(home.as_ref().to_owned());
        self
    }

    /// A log of the caller's.
    #[must_use]
    pub fn log(mut self, log: Arc<dyn BlockLog>) -> Self {
        self.log = Some(log);
        self
    }

    /// Memory search over the log of the caller's. The log of a [`home`](Self::home) has its own.
    #[must_use]
    pub fn recall(mut self, recall: Arc<dyn Recall>) -> Self {
        self.recall = Some(recall);
        self
    }

    /// An artifact store of the caller's.
    #[must_use]
    pub fn artifacts(mut self, artifacts: ArtifactStore) -> Self {
        self.artifacts = Some(artifacts);
        self
    }

    /// Where working trees go; they may be deleted at any time.
    #[must_use]
    pub fn workspaces(mut self, dir: impl AsRef<Path>) -> Self {
        self.workspaces = Some(dir.as_ref().to_owned());
        self
    }

    /// Whose conversations these are.
    #[must_use]
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// Who may interfere.
    #[must_use]
    pub fn hooks(mut self, hooks: impl Hooks + 'static) -> Self {
        self.hooks = Some(Arc::new(hooks));
        self
    }

    /// Skills that the model may read.
    #[must_use]
    pub fn skills(mut self, skills: Arc<dyn Skills>) -> Self {
        self.skills = Some(skills);
        self
    }

    /// Where side effects happen. Without one, tools that need it say so.
    #[must_use]
    pub fn sandbox(mut self, backend: Arc<dyn Backend>) -> Self {
        self.sandbox = Some(backend);
        self
    }

    /// Where time and ids come from.
    #[must_use]
    pub fn world(mut self, world: World) -> Self {
        self.world = world;
        self
    }

    /// Checks the parts, opens the stores and makes the agent.
    pub async fn build(self) -> Result<Agent, BuildError> {
        let model = self.model.ok_or(BuildError::NoModel)?;
        self.settings.validate()?;
        let tools = ToolTable::builder().add_all(self.tools).build()?;
        let skills = self.skills.unwrap_or_else(|| Arc::new(NoSkills));
        let (log, recall) = match (self.log, &self.home) {
            (Some(log), _) => (log, self.recall),
            (None, Some(home)) => open_log(home, self.recall)?,
            (None, None) => return Err(BuildError::NoStore),
        };
        let artifacts: ArtifactStore = match (self.artifacts, &self.home) {
            (Some(artifacts), _) => artifacts,
            (None, Some(home)) => open_artifacts(&home.join("artifacts"))?,
            (None, None) => return Err(BuildError::NoStore),
        };
        let workspaces = match (self.workspaces, &self.home) {
            (Some(dir), _) => dir,
            (None, Some(home)) => home.join("workspace"),
            (None, None) => return Err(BuildError::NoStore),
        };
        make_dir(&workspaces)?;
        let own = model.window();
        let window = Window {
            context_tokens: self.context_tokens.unwrap_or(own.context_tokens),
            ..own
        };
        let system = instructions::system(self.instructions.as_deref(), &*skills);
        let frame = Frame::new(
            system.into(),
            tools.schemas(),
            window,
            self.settings.max_iterations,
        );
        let node = NodeId::made(std::process::id(), self.world.random());
        let parts = AgentParts {
            name: self.name.unwrap_or_else(|| "annals".to_owned()),
            model_reads_text: model.name().starts_with("script:"),
            model,
            tools,
            frame,
            layout: self.layout,
            settings: Arc::new(self.settings),
            log,
            recall,
            artifacts,
            workspaces,
            scope: self.scope,
            hooks: self.hooks.unwrap_or_else(|| Arc::new(NoHooks)),
            skills,
            sandbox: self.sandbox,
            world: self.world,
            owner: Owner::new(node, 1),
        };
        Ok(Agent {
            parts: Arc::new(parts),
        })
    }
}

fn make_dir(dir: &Path) -> Result<(), BuildError> {
    std::fs::create_dir_all(dir).map_err(|error| BuildError::Open {
        what: dir.display().to_string(),
        reason: error.to_string(),
    })
}

/// The log of a home, with memory search.
type Log = (Arc<dyn BlockLog>, Option<Arc<dyn Recall>>);

#[cfg(feature = "sqlite")]
fn open_log(home: &Path, recall: Option<Arc<dyn Recall>>) -> Result<Log, BuildError> {
    use annals_store::{SqliteLog, SqliteOptions};

    make_dir(home)?;
    let options = SqliteOptions::default();
    #[cfg(feature = "embed")]
    let options = options.recall(annals_embed::StaticTable::embedder());
    let log = SqliteLog::open(home.join("annals.db"), options)?;
    let own = log.recall().cloned().map(|own| Arc::new(own) as Arc<dyn Recall>);
    Ok((Arc::new(log), recall.or(own)))
}

#[cfg(not(feature = "sqlite"))]
fn open_log(_: &Path, _: Option<Arc<dyn Recall>>) -> Result<Log, BuildError> {
    Err(BuildError::NotBuiltIn {
        what: "the log of a home",
        feature: "sqlite",
    })
}

fn open_artifacts(dir: &Path) -> Result<ArtifactStore, BuildError> {
    ArtifactStore::open(dir).map_err(|error| BuildError::Open {
        what: dir.display().to_string(),
        reason: error.to_string(),
    })
}
