//! From parts to an agent: what is missing is said before anything is opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use annals_content::Content;
use annals_core::ids::Scope;
use annals_core::redact::{Redactor, Secrets};
use annals_core::settings::Settings;
use annals_core::view::Layout;
use annals_model::{Model, Window};
use annals_sandbox::{Backend, Limits};
use annals_store::{ArtifactStore, Recall, Store};
use annals_tools::skills::{NoSkills, Skills};
use annals_tools::{Tool, ToolSource, ToolTable, Vault};

use crate::agent::{Agent, AgentParts};
use crate::error::BuildError;
use crate::hooks::{Hooks, NoHooks};
use crate::instructions;
use crate::policy::PolicySource;
use crate::runtime::Runtime;
use crate::sourced::Sourced;
use crate::step::Frame;
use crate::world::World;

/// Makes an [`Agent`].
#[derive(Default)]
pub struct AgentBuilder {
    name: Option<String>,
    model: Option<Arc<dyn Model>>,
    tools: Vec<Arc<dyn Tool>>,
    tool_source: Option<Arc<dyn ToolSource>>,
    instructions: Option<String>,
    settings: Settings,
    layout: Layout,
    context_tokens: Option<u32>,
    home: Option<PathBuf>,
    log: Option<Arc<dyn Store>>,
    recall: Option<Arc<dyn Recall>>,
    artifacts: Option<ArtifactStore>,
    content: Content,
    workspaces: Option<PathBuf>,
    scope: Scope,
    hooks: Option<Arc<dyn Hooks>>,
    policy: Option<Arc<dyn PolicySource>>,
    skills: Option<Arc<dyn Skills>>,
    sandbox: Option<Arc<dyn Backend>>,
    sandbox_limits: Limits,
    secrets: Secrets,
    world: World,
    runtime: Option<Runtime>,
    in_memory: bool,
    lease_ttl: Option<Duration>,
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

    /// More tools, shared or not.
    #[must_use]
    pub fn tools<T: Tool + 'static>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        self.tools
            .extend(tools.into_iter().map(|tool| Arc::new(tool) as Arc<dyn Tool>));
        self
    }

    /// Where more tools come from, which may change: each turn has those that are there when it is taken up.
    #[must_use]
    pub fn tool_source(mut self, source: Arc<dyn ToolSource>) -> Self {
        self.tool_source = Some(source);
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

    /// Everything in memory, and files in a temporary folder that goes with the agent: for tests, and for programs that
    /// keep nothing.
    #[must_use]
    pub fn in_memory(mut self) -> Self {
        self.in_memory = true;
        self
    }

    /// A log of the caller's.
    #[must_use]
    pub fn log(mut self, log: Arc<dyn Store>) -> Self {
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

    /// Helper processes that read what strangers wrote, such as attachments; shared with the tools that need some.
    #[must_use]
    pub fn content(mut self, content: Content) -> Self {
        self.content = content;
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

    /// Rules that allow, ask about or deny calls. Without any, everything is allowed that no hook refuses.
    #[must_use]
    pub fn policy(mut self, source: impl PolicySource + 'static) -> Self {
        self.policy = Some(Arc::new(source));
        self
    }

    /// Skills that the model may read.
    #[must_use]
    pub fn skills(mut self, skills: Arc<dyn Skills>) -> Self {
        self.skills = Some(skills);
        self
    }

    /// Secrets by name. A tool gets those that it declares; their values are in no block, no view and no delta.
    #[must_use]
    pub fn secrets(mut self, secrets: Secrets) -> Self {
        self.secrets = secrets;
        self
    }

    /// Where side effects happen. Without one, tools that need it say so.
    #[must_use]
    pub fn sandbox(mut self, backend: Arc<dyn Backend>) -> Self {
        self.sandbox = Some(backend);
        self
    }

    /// What the tools' commands may use, as far as the backend bounds it ([`Backend::bounds`]).
    #[must_use]
    pub fn sandbox_limits(mut self, limits: Limits) -> Self {
        self.sandbox_limits = limits;
        self
    }

    /// Where time and ids come from.
    #[must_use]
    pub fn world(mut self, world: World) -> Self {
        self.world = world;
        self
    }

    /// How long a lease lasts without being renewed: a process that dies keeps others waiting for as long. One minute,
    /// unless the runtime is shared.
    #[must_use]
    pub fn lease_ttl(mut self, ttl: Duration) -> Self {
        self.lease_ttl = Some(ttl);
        self
    }

    /// The runtime of another agent, to share its stores, its clock and its open conversations.
    #[must_use]
    pub fn runtime(mut self, runtime: Runtime) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Checks the parts, opens the stores and makes the agent.
    pub async fn build(self) -> Result<Agent, BuildError> {
        let model = self.model.ok_or(BuildError::NoModel)?;
        self.settings.validate()?;
        let tools = ToolTable::builder().add_all(self.tools).build()?;
        let runtime = match self.runtime {
            Some(runtime) => runtime,
            None => {
                let stores = Stores {
                    home: self.home,
                    log: self.log,
                    recall: self.recall,
                    artifacts: self.artifacts,
                    workspaces: self.workspaces,
                };
                let runtime = match self.in_memory {
                    true => Runtime::in_memory(self.world)?,
                    false => stores.open(self.world)?,
                };
                match self.lease_ttl {
                    Some(ttl) => runtime.lease_ttl(ttl),
                    None => runtime,
                }
            }
        };
        let skills = self.skills.unwrap_or_else(|| Arc::new(NoSkills));
        let own = model.window();
        let window = Window {
            context_tokens: self.context_tokens.unwrap_or(own.context_tokens),
            ..own
        };
        let system = instructions::system(self.instructions.as_deref(), &*skills);
        let frame = Frame::new(
            system.into(),
            tools.schemas(),
            self.layout,
            window,
            self.settings.max_iterations,
        )?;
        let sourced = self
            .tool_source
            .map(|source| Arc::new(Sourced::new(source, tools.clone(), frame.clone(), self.layout)));
        let (tools, frame) = sourced.as_ref().map_or((tools, frame), |sourced| sourced.now());
        let parts = AgentParts {
            name: self.name.unwrap_or_else(|| "annals".to_owned()),
            model_reads_text: model.name().starts_with("script:"),
            model,
            tools,
            frame,
            sourced,
            offer_kept: Arc::default(),
            layout: self.layout,
            context_tokens: self.context_tokens,
            settings: Arc::new(self.settings),
            scope: self.scope,
            acts_for: None,
            has_hooks: self.hooks.is_some(),
            hooks: self.hooks.unwrap_or_else(|| Arc::new(NoHooks)),
            policy: self.policy,
            skills,
            sandbox: self.sandbox,
            sandbox_limits: self.sandbox_limits,
            content: self.content,
            redactor: Arc::new(Redactor::new(&self.secrets)),
            secrets: Vault::new(self.secrets),
            runtime,
        };
        Ok(Agent {
            parts: Arc::new(parts),
        })
    }
}

impl Agent {
    /// An agent with the same model, settings and rules and without tools, for conversations that lie in another scope:
    /// what they use counts for the scope of this one.
    pub fn without_tools(&self, kept_in: &Scope) -> Result<Agent, BuildError> {
        let parts = &self.parts;
        let tools = ToolTable::builder().build()?;
        let own = parts.model.window();
        let window = Window {
            context_tokens: parts.context_tokens.unwrap_or(own.context_tokens),
            ..own
        };
        let frame = Frame::new(
            instructions::system(None, &NoSkills).into(),
            tools.schemas(),
            parts.layout,
            window,
            parts.settings.max_iterations,
        )?;
        let parts = AgentParts {
            tools,
            frame,
            offer_kept: Arc::default(),
            scope: kept_in.clone(),
            acts_for: Some(parts.ruled_by().clone()),
            skills: Arc::new(NoSkills),
            sandbox: None,
            ..(**parts).clone()
        };
        Ok(Agent {
            parts: Arc::new(parts),
        })
    }
}

/// The stores that were given, and the home for those that were not.
struct Stores {
    home: Option<PathBuf>,
    log: Option<Arc<dyn Store>>,
    recall: Option<Arc<dyn Recall>>,
    artifacts: Option<ArtifactStore>,
    workspaces: Option<PathBuf>,
}

impl Stores {
    fn open(self, world: World) -> Result<Runtime, BuildError> {
        let home = || self.home.as_deref().ok_or(BuildError::NoStore);
        let (log, recall) = match self.log {
            Some(log) => (log, self.recall),
            None => open_log(home()?, self.recall)?,
        };
        let artifacts = match self.artifacts {
            Some(artifacts) => artifacts,
            None => open_artifacts(&home()?.join("artifacts"))?,
        };
        let workspaces = match self.workspaces {
            Some(dir) => dir,
            None => home()?.join("workspace"),
        };
        make_dir(&workspaces)?;
        Ok(Runtime::new(log, recall, artifacts, workspaces, world))
    }
}

fn make_dir(dir: &Path) -> Result<(), BuildError> {
    annals_store::home::make_folder(dir).map_err(|error| BuildError::Open {
        what: dir.display().to_string(),
        reason: error.to_string(),
    })
}

/// The log of a home, with memory search.
type Log = (Arc<dyn Store>, Option<Arc<dyn Recall>>);

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
