//! From a configuration to an agent: stores by URL, sandbox and model by name, skills from their folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use annals::Agent;
use annals::content::Content;
use annals::core::ids::{ConversationId, SkillName};
use annals::core::redact::SafeUrl;
use annals::core::skill::Skill;
use annals::core::view::View;
use annals::embed::{Embedder, StaticTable};
use annals::mcp::ServerSet;
use annals::model::{
    self, CacheLife, Catalog, EmbeddingsEndpoint, EmbeddingsSpec, EventStream, Known, Model, ModelError,
    ModelName, OpenError, Provider, Request, Window,
};
use annals::postgres::{Address, PostgresLog, PostgresOptions};
use annals::runtime::{PolicyFiles, PolicyRows};
use annals::s3::{Bucket, Cache};
use annals::sandbox::{Backend, Local};
use annals::store::{
    Archive, ArtifactLedger, ArtifactStore, RecallIndex, SqliteLog, SqliteOptions, Store, Workspace,
    workspace_folder,
};
use annals::tools::skills::Skills;
use annals::tools::web::WebSettings;
use annals::tools::{self, ConversationCx, Tool};
use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::config::{BUILT_IN, Config, EmbeddingsConfig};
use crate::failure::Failure;
use crate::skill_files::{SkillFiles, WithSkillFiles};
use crate::{sandboxes, skills};

/// An agent, and what commands need beside it.
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) agent: Agent,
    recall: Arc<dyn RecallIndex>,
    skills: Arc<dyn Skills>,
    /// The MCP servers that the agent's tools come from.
    pub(crate) servers: Arc<ServerSet>,
}

/// Whether a command asks a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// It does.
    Model,
    /// It does not, and works without one.
    NoModel,
}

impl Setup {
    /// Opens everything that the configuration names.
    pub(crate) async fn open(config: Config, needs: Needs) -> Result<Self, Failure> {
        let model = match needs {
            Needs::Model => named_model(&config)?,
            Needs::NoModel => Arc::new(Unasked),
        };
        if needs == Needs::Model {
            accept_new_servers(&config).await;
        }
        Self::with_model(config, model).await
    }

    /// Opens everything but the model, which is given.
    pub(crate) async fn with_model(config: Config, model: Arc<dyn Model>) -> Result<Self, Failure> {
        let mut artifacts = open_artifacts(&config.artifacts.value, &config.home.value)?;
        let embedder = embedder(&config.embeddings)?;
        let opened = open_log(&config.store.value, embedder, Some(&artifacts)).await?;
        let OpenedLog {
            log,
            recall,
            ledger,
            name,
            ..
        } = opened;
        if let Some(ledger) = ledger {
            artifacts = artifacts.with_ledger(ledger);
        }
        let skills: Arc<dyn Skills> = Arc::new(readable_skills(&config));
        let content = Content::new();
        let tools = built_in_tools(&config, &content)?;
        let servers = Arc::new(server_set(&config));
        let mut builder = Agent::builder()
            .model(model)
            .tools(tools)
            .tool_source(servers.clone())
            .home(&config.home.value)
            .log(log.clone())
            .artifacts(artifacts)
            .content(content)
            .sandbox(sandbox(&config, name.as_deref())?)
            .sandbox_limits(config.sandbox_options.limits.clone())
            .policy(PolicyRows::new(
                policy_files(&config),
                config.home_scope.clone(),
                log.clone(),
            ))
            .skills(skills.clone())
            .secrets(config.secrets.clone())
            .settings(config.settings.clone())
            .layout(config.layout.value)
            .scope(config.scope.value.clone())
            .recall(recall.clone());
        if let Some(tokens) = &config.context_tokens {
            builder = builder.context_tokens(tokens.value);
        }
        if let Some(lease) = config.lease {
            builder = builder.lease_ttl(lease);
        }
        let agent = builder.build().await?;
        Ok(Setup {
            config,
            agent,
            recall,
            skills,
            servers,
        })
    }

    /// Memory search over the log.
    pub(crate) fn recall(&self) -> &dyn RecallIndex {
        &*self.recall
    }

    /// What is known of models by name, the user's entries first.
    pub(crate) fn catalog(&self) -> Result<Catalog, Failure> {
        read_catalog(&self.config.home.value.join(CATALOG_FILE))
    }

    /// The rules of scopes.
    pub(crate) fn policy_rows(&self) -> PolicyRows {
        PolicyRows::new(
            policy_files(&self.config),
            self.config.home_scope.clone(),
            self.agent.log().clone(),
        )
    }

    /// OUT_DIR of a conversation.
    pub(crate) fn workspace(&self, id: &ConversationId) -> PathBuf {
        workspace_folder(&self.config.home.value.join("workspace"), &self.agent.key(id))
    }

    /// The conversation of this name in this scope, folded, without taking the right to write.
    pub(crate) async fn timeline(&self, conversation: &str) -> Result<(ConversationId, View), Failure> {
        let id = conversation_id(conversation)?;
        let timeline = self.agent.timeline(&id).await?;
        Ok((id, timeline))
    }

    /// What reading a path of a conversation needs.
    pub(crate) fn reading(&self, id: ConversationId, timeline: View) -> Result<ConversationCx, Failure> {
        let workspace = Workspace::open(self.workspace(&id)).map_err(Failure::environment)?;
        let scope = self.agent.scope().clone();
        let timeline = Arc::new(RwLock::new(Arc::new(timeline)));
        let cx = ConversationCx::new(
            id,
            scope,
            timeline,
            Arc::new(workspace),
            self.agent.artifacts().clone(),
        );
        Ok(ConversationCx {
            skills: self.skills.clone(),
            settings: Arc::new(self.config.settings.clone()),
            ..cx
        })
    }
}

/// Where the rules are: the owner's file in the home, and the user's configuration.
pub(crate) fn policy_files(config: &Config) -> PolicyFiles {
    PolicyFiles::new(config.home.value.join("policy.toml"), &config.config_file.value)
}

/// A conversation's id as somebody typed it.
pub(crate) fn conversation_id(text: &str) -> Result<ConversationId, Failure> {
    ConversationId::parse(text).map_err(Failure::usage)
}

/// Every tool that comes with Annals.
fn built_in_tools(config: &Config, content: &Content) -> Result<Vec<Arc<dyn Tool>>, Failure> {
    let mut built_in = tools::builtin();
    built_in.extend(tools::web::all(web_settings(config)?, content));
    built_in.extend(tools::rendering::all(content));
    Ok(built_in)
}

/// The MCP servers of the configuration; none is started.
pub(crate) fn server_set(config: &Config) -> ServerSet {
    ServerSet::new(&config.mcp, &config.home.value, &config.secrets)
}

/// Asks MCP servers that nobody has asked yet what they offer. One that does not answer is left out.
async fn accept_new_servers(config: &Config) {
    for accepted in server_set(config).accept_new().await {
        match accepted {
            Ok(accepted) => tracing::warn!(
                "{} tools of the MCP server `{name}` are offered from now on; `annals mcp inspect {name}` shows them",
                accepted.tools,
                name = accepted.server
            ),
            Err(error) => tracing::warn!("{error}"),
        }
    }
}

fn named_model(config: &Config) -> Result<Arc<dyn Model>, Failure> {
    let Some(name) = &config.model else {
        return Err(Failure::usage(
            "no model is configured: give `--model`, set `ANNALS_MODEL`, or try `annals demo`, which needs none",
        ));
    };
    let mut spec = model::spec_from_env(name.value.parse().map_err(Failure::usage)?);
    spec.base_url = config.base_url.as_ref().map(|url| url.value.clone());
    spec.wire = config.wire.as_ref().map(|wire| wire.value);
    spec.cache_life = CacheLife::of(&config.settings.session);
    spec.catalog = read_catalog(&config.home.value.join(CATALOG_FILE))?;
    model::open(&spec).map_err(|error| match error {
        OpenError::Script(_) => Failure::usage(sentence(&error)),
        error => Failure::environment(error),
    })
}

/// What the user knows of models, in the home.
const CATALOG_FILE: &str = "catalog.toml";

/// The catalog with the user's entries, which win over those of the program.
pub(crate) fn read_catalog(file: &Path) -> Result<Catalog, Failure> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct CatalogFile {
        #[serde(default)]
        model: Vec<Known>,
    }
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Catalog::default()),
        Err(error) => {
            return Err(Failure::environment(format!(
                "cannot read the catalog `{}`: {error}",
                file.display()
            )));
        }
    };
    let read: Result<CatalogFile, _> = toml::from_str(&text);
    read.map(|read| Catalog::with(read.model)).map_err(|error| {
        Failure::usage(format!(
            "the catalog `{}` cannot be used: {}",
            file.display(),
            error.message()
        ))
    })
}

/// An error with what caused it, on one line.
fn sentence(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// Who makes the vectors of memory search.
pub(crate) fn embedder(config: &EmbeddingsConfig) -> Result<Arc<dyn Embedder>, Failure> {
    let name = &config.name.value;
    if name == BUILT_IN {
        return Ok(StaticTable::embedder());
    }
    let spec = name
        .parse::<ModelName>()
        .ok()
        .and_then(|name| match name.provider {
            Provider::OpenAi => Some((name.name, model::openai::DEFAULT_BASE_URL)),
            Provider::Ollama => Some((name.name, model::openai::OLLAMA_BASE_URL)),
            _ => None,
        });
    let Some((model, base_url)) = spec else {
        return Err(Failure::usage(format!(
            "`{name}` names no embedder: use `{BUILT_IN}`, `openai:NAME` or `ollama:NAME`"
        )));
    };
    let url = config.url.as_ref().map(|url| url.value.clone());
    let endpoint = EmbeddingsEndpoint::new(EmbeddingsSpec {
        key: model::key_from_env(model::OPENAI_API_KEY),
        base_url: url.unwrap_or_else(|| base_url.to_owned()),
        dimensions: config
            .dimensions
            .as_ref()
            .map(|dimensions| dimensions.value as usize),
        ..EmbeddingsSpec::new(model, annals::runtime::World::default().random())
    });
    Ok(Arc::new(endpoint.map_err(Failure::environment)?))
}

/// A log, with what lies beside it.
pub(crate) struct OpenedLog {
    pub(crate) log: Arc<dyn Store>,
    /// Memory search over it.
    recall: Arc<dyn RecallIndex>,
    /// Rows of artifacts, where machines share the log.
    pub(crate) ledger: Option<Arc<dyn ArtifactLedger>>,
    /// The archive of idle conversations, where machines share the log.
    pub(crate) archive: Option<Arc<dyn Archive>>,
    /// What the log is called by every machine that shares it.
    name: Option<String>,
}

/// The log that a URL names. Archived conversations are read from `artifacts`.
pub(crate) async fn open_log(
    url: &str,
    embedder: Arc<dyn Embedder>,
    artifacts: Option<&ArtifactStore>,
) -> Result<OpenedLog, Failure> {
    match url.split_once(':') {
        Some(("sqlite", path)) => {
            let path = path.strip_prefix("//").unwrap_or(path);
            let log = SqliteLog::open(path, SqliteOptions::default().recall(embedder))?;
            let recall = log.recall().cloned().ok_or_else(without_recall)?;
            Ok(OpenedLog {
                log: Arc::new(log),
                recall: Arc::new(recall),
                ledger: None,
                archive: None,
                name: None,
            })
        }
        Some(("postgres" | "postgresql", _)) => {
            let address = Address::parse(url).map_err(Failure::usage)?;
            let mut options = PostgresOptions::default().recall(embedder);
            if let Some(artifacts) = artifacts {
                options = options.artifacts(artifacts.clone());
            }
            let log = PostgresLog::open(address, options).await?;
            let recall = log.recall().cloned().ok_or_else(without_recall)?;
            let log = Arc::new(log);
            Ok(OpenedLog {
                recall: Arc::new(recall),
                ledger: Some(log.clone()),
                archive: Some(log.clone()),
                name: Some(log.cluster().to_owned()),
                log,
            })
        }
        _ => Err(Failure::usage(format!(
            "`{}` names no store: use `sqlite:FILE` or `postgres://…`",
            SafeUrl(url)
        ))),
    }
}

fn without_recall() -> Failure {
    Failure::environment("the log was opened without memory search")
}

/// The artifact store that a URL names.
///
/// What comes from a bucket is cached below the home.
pub(crate) fn open_artifacts(url: &str, home: &Path) -> Result<ArtifactStore, Failure> {
    if url.starts_with("s3:") {
        let bucket = Bucket::parse(url).map_err(Failure::usage)?;
        let cache = Cache::new(home.join("cache"));
        return bucket.open(Some(cache)).map_err(Failure::environment);
    }
    ArtifactStore::open_url(url).map_err(Failure::environment)
}

fn web_settings(config: &Config) -> Result<WebSettings, Failure> {
    use annals::tools::web::settings::{BRAVE_KEY, SEARXNG_URL, WEB_ALLOW};
    let web = &config.web;
    let value = |name: &str| {
        let resolved = match name {
            SEARXNG_URL => &web.searxng_url,
            BRAVE_KEY => &web.brave_key,
            WEB_ALLOW => &web.allow,
            _ => &None,
        };
        resolved.as_ref().map(|resolved| resolved.value.clone())
    };
    WebSettings::read(value).map_err(Failure::usage)
}

/// The folder of skills, if there is one.
fn skills_folder(config: &Config) -> Option<PathBuf> {
    config
        .skills
        .value
        .canonicalize()
        .ok()
        .filter(|folder| folder.is_dir())
}

/// The sandbox, in which programs see the files beside skills.
fn sandbox(config: &Config, store: Option<&str>) -> Result<Arc<dyn Backend>, Failure> {
    match (config.sandbox.value.as_str(), skills_folder(config)) {
        ("local", Some(folder)) => Ok(Arc::new(Local::new().read_only(folder, skills::IN_SANDBOX))),
        (_, Some(folder)) if sandboxes::remote_workspace(config).is_some() => {
            let files = SkillFiles::of(&folder, &skills::find(&folder));
            let backend = sandboxes::backend(config, store)?;
            Ok(Arc::new(WithSkillFiles::new(backend, files)))
        }
        _ => sandboxes::backend(config, store),
    }
}

/// The skills that the model may read. Where no program can reach the files beside them, they say nothing of these.
fn readable_skills(config: &Config) -> BTreeMap<SkillName, Skill> {
    let Some(folder) = skills_folder(config) else {
        return BTreeMap::new();
    };
    let found = skills::find(&folder);
    if let Some(workspace) = sandboxes::remote_workspace(config) {
        let files = SkillFiles::of(&folder, &found);
        return skills::by_name(&folder, found, |skill| files.seen_at(workspace, skill));
    }
    let seen_at = match config.sandbox.value.as_str() {
        "local" => Some(Path::new(skills::IN_SANDBOX)),
        "trusted-host" => Some(folder.as_path()),
        _ => None,
    };
    skills::by_name(&folder, found, |skill| Some(seen_at?.join(&skill.folder)))
}

/// Stands where a command that asks no model has one.
struct Unasked;

#[async_trait]
impl Model for Unasked {
    fn name(&self) -> &str {
        "none"
    }

    fn window(&self) -> Window {
        model::catalog::UNKNOWN_WINDOW
    }

    async fn stream(&self, _: Request, _: &CancellationToken) -> Result<EventStream, ModelError> {
        Err(ModelError::BadRequest {
            message: "this command asks no model".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_not_built_in_is_said_to_be_missing_and_what_does_not_exist_to_be_wrong() {
        let codes = [
            // Nobody listens there.
            open_log("postgres://127.0.0.1:1/x", StaticTable::embedder(), None)
                .await
                .err()
                .unwrap()
                .exit_code(),
            open_log("mysql:x", StaticTable::embedder(), None)
                .await
                .err()
                .unwrap()
                .exit_code(),
            open_artifacts("s3://bucket?colour=red", Path::new("absent"))
                .err()
                .unwrap()
                .exit_code(),
        ];
        assert_eq!(codes, [3, 2, 2]);
    }
}
