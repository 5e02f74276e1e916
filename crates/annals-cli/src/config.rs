//! What the command line, the environment and the configuration file mean together, resolved once, each value with
//! where it came from.
//!
//! Flags win over the environment, the environment over the file, the file over the defaults.

use std::fmt;
use std::path::{Path, PathBuf};

use annals::core::ids::Scope;
use annals::core::redact::Secrets;
use annals::core::settings::Settings;
use annals::core::view::Layout;
use annals::e2b::E2bOptions;
use annals::mcp::Servers;
use annals::mcp::file::ServerFile;
use annals::model::Wire;
use annals::opensandbox::OpenSandboxOptions;
use annals::sandbox::Limits;
use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

use crate::args::{GlobalArgs, LayoutArg, WireArg};
use crate::secrets;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "from", content = "name")]
pub(crate) enum Origin {
    /// A flag on the command line.
    Flag(&'static str),
    /// An environment variable.
    Env(&'static str),
    /// The configuration file.
    File(&'static str),
    /// Nobody said otherwise.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag(name) => write!(f, "flag {name}"),
            Origin::Env(name) => write!(f, "env {name}"),
            Origin::File(name) => write!(f, "config.toml `{name}`"),
            Origin::Default => f.write_str("default"),
        }
    }
}

/// A value and where it came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Resolved<T> {
    /// The value.
    pub(crate) value: T,
    /// Where it came from.
    #[serde(flatten)]
    pub(crate) origin: Origin,
}

impl<T> Resolved<T> {
    fn or_default(found: Option<Self>, default: impl FnOnce() -> T) -> Self {
        found.unwrap_or_else(|| Resolved {
            value: default(),
            origin: Origin::Default,
        })
    }

    fn try_map<U>(self, change: impl FnOnce(T) -> anyhow::Result<U>) -> anyhow::Result<Resolved<U>> {
        Ok(Resolved {
            value: change(self.value)?,
            origin: self.origin,
        })
    }

    fn map<U>(self, change: impl FnOnce(T) -> U) -> Resolved<U> {
        Resolved {
            value: change(self.value),
            origin: self.origin,
        }
    }
}

/// Everything that can be configured.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) home: Resolved<PathBuf>,
    pub(crate) config_file: Resolved<PathBuf>,
    pub(crate) store: Resolved<String>,
    pub(crate) artifacts: Resolved<String>,
    pub(crate) sandbox: Resolved<String>,
    pub(crate) sandbox_options: SandboxOptions,
    pub(crate) model: Option<Resolved<String>>,
    pub(crate) base_url: Option<Resolved<String>>,
    pub(crate) context_tokens: Option<Resolved<u32>>,
    pub(crate) layout: Resolved<Layout>,
    pub(crate) wire: Option<Resolved<Wire>>,
    pub(crate) scope: Resolved<Scope>,
    /// Whose home it is: the scope without what was typed.
    pub(crate) home_scope: Scope,
    pub(crate) skills: Resolved<PathBuf>,
    pub(crate) max_iterations: Resolved<u32>,
    pub(crate) settings: Settings,
    pub(crate) web: WebConfig,
    pub(crate) embeddings: EmbeddingsConfig,
    pub(crate) secrets: Secrets,
    /// MCP servers, of the file and of `mcp.json` in the home.
    pub(crate) mcp: Servers,
    pub(crate) webhooks: Vec<WebhookConfig>,
    /// How long a process that dies keeps others waiting, where a command says so.
    pub(crate) lease: Option<std::time::Duration>,
}

/// One `[[webhook]]`: who is told of turns that end and of calls that wait for a person.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebhookConfig {
    pub(crate) url: String,
    /// `whsec_…`, or the environment variable that has it.
    #[serde(default)]
    pub(crate) secret: Option<String>,
    #[serde(default)]
    pub(crate) secret_env: Option<String>,
    /// All of them if none is named.
    #[serde(default)]
    pub(crate) events: Vec<String>,
}

impl fmt::Debug for WebhookConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookConfig")
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}

/// The tables below `[sandbox]`.
#[derive(Clone, Debug, Default)]
pub(crate) struct SandboxOptions {
    /// What commands may use.
    pub(crate) limits: Limits,
    pub(crate) opensandbox: OpenSandboxOptions,
    pub(crate) e2b: E2bOptions,
}

/// The sandbox of a program that was told nothing.
fn local() -> String {
    "local".to_owned()
}

/// Who makes the vectors of memory search.
#[derive(Clone, Debug)]
pub(crate) struct EmbeddingsConfig {
    /// `built-in`, `openai:NAME` or `ollama:NAME`.
    pub(crate) name: Resolved<String>,
    pub(crate) url: Option<Resolved<String>>,
    pub(crate) dimensions: Option<Resolved<u32>>,
}

/// The embedder that is part of the program.
pub(crate) const BUILT_IN: &str = "built-in";

impl EmbeddingsConfig {
    fn resolve(env: &impl Fn(&str) -> Option<String>, file: &mut ConfigFile) -> anyhow::Result<Self> {
        let name = from_env(env, "ANNALS_EMBEDDINGS").or(file.text("embeddings")?);
        Ok(EmbeddingsConfig {
            name: Resolved::or_default(name, || BUILT_IN.to_owned()),
            url: from_env(env, "ANNALS_EMBEDDINGS_URL").or(file.text("embeddings_url")?),
            dimensions: file.number("embeddings_dimensions")?,
        })
    }
}

/// What the web tools need.
#[derive(Clone, Debug, Default)]
pub(crate) struct WebConfig {
    pub(crate) searxng_url: Option<Resolved<String>>,
    pub(crate) brave_key: Option<Resolved<String>>,
    pub(crate) allow: Option<Resolved<String>>,
}

impl WebConfig {
    fn resolve(env: &impl Fn(&str) -> Option<String>, file: &mut ConfigFile) -> anyhow::Result<Self> {
        Ok(WebConfig {
            searxng_url: from_env(env, "ANNALS_SEARXNG_URL").or(file.text("searxng_url")?),
            brave_key: from_env(env, "ANNALS_BRAVE_KEY"),
            allow: from_env(env, "ANNALS_WEB_ALLOW").or(file.text("web_allow")?),
        })
    }
}

impl Config {
    /// Resolves what was typed against the environment and the file.
    pub(crate) fn resolve(args: &GlobalArgs) -> anyhow::Result<Self> {
        Config::resolve_in(args, |name| {
            std::env::var(name).ok().filter(|value| !value.is_empty())
        })
    }

    fn resolve_in(args: &GlobalArgs, env: impl Fn(&str) -> Option<String>) -> anyhow::Result<Self> {
        let home = flag("--home", args.home.clone());
        let home = home.or_else(|| from_env(&env, "ANNALS_HOME").map(|home| home.map(Into::into)));
        let home = Resolved::or_default(home, || default_home(&env));
        let config_file = Resolved::or_default(flag("--config", args.config.clone()), || {
            home.value.join("config.toml")
        });
        let mut file = ConfigFile::read(&config_file)?;
        let store = Resolved::or_default(
            flag("--store", args.store.clone()).or(file.text("store")?),
            || format!("sqlite:{}", home.value.join("annals.db").display()),
        );
        let artifacts = Resolved::or_default(
            flag("--artifacts", args.artifacts.clone()).or(file.text("artifacts")?),
            || format!("file:{}", home.value.join("artifacts").display()),
        );
        let (sandbox, sandbox_options) = file.sandbox()?;
        let sandbox = Resolved::or_default(flag("--sandbox", args.sandbox.clone()).or(sandbox), local);
        let model = flag("--model", args.model.clone())
            .or_else(|| from_env(&env, "ANNALS_MODEL"))
            .or(file.text("model")?);
        let base_url = flag("--base-url", args.base_url.clone())
            .or_else(|| from_env(&env, "ANNALS_BASE_URL"))
            .or(file.text("base_url")?);
        let context_tokens = flag("--context-tokens", args.context_tokens).or(file.number("context_tokens")?);
        let skills = Resolved::or_default(file.text("skills")?.map(|dir| dir.map(PathBuf::from)), || {
            home.value.join("skills")
        });
        let layout = flag("--layout", args.layout.map(layout_of)).or(file.parsed("layout", parse_layout)?);
        let wire = flag("--wire", args.wire.map(wire_of)).or(file.parsed("wire", parse_wire)?);
        let (scope, home_scope) = scopes(args, &mut file)?;
        let web = WebConfig::resolve(&env, &mut file)?;
        let embeddings = EmbeddingsConfig::resolve(&env, &mut file)?;
        let secrets = secrets::configured(file.table.remove("secrets"), &env)?;
        let addresses = [&base_url, &web.searxng_url, &embeddings.url]
            .into_iter()
            .flatten()
            .chain([&store, &artifacts, &sandbox])
            .map(|address| address.value.as_str());
        let secrets = secrets::with_own(secrets, &env, addresses);
        let (mcp, webhooks) = (file.servers(&home.value)?, file.webhooks(&env)?);
        let in_file = file.has("max_iterations");
        let mut settings = file.settings(&config_file.value)?;
        let max_iterations = max_iterations(args, in_file, &settings);
        settings.max_iterations = max_iterations.value;
        settings.validate().context("the settings cannot be used")?;
        Ok(Config {
            home,
            config_file,
            store,
            artifacts,
            sandbox,
            sandbox_options,
            model,
            base_url,
            context_tokens,
            layout: Resolved::or_default(layout, Layout::default),
            wire,
            scope,
            home_scope,
            skills,
            max_iterations,
            settings,
            web,
            embeddings,
            secrets,
            mcp,
            webhooks,
            lease: None,
        })
    }
}

/// The scope that is worked in, and that of the home.
fn scopes(args: &GlobalArgs, file: &mut ConfigFile) -> anyhow::Result<(Resolved<Scope>, Scope)> {
    let own = file.scope()?;
    let home = own.as_ref().map(|scope| scope.value.clone()).unwrap_or_default();
    let typed = args.scope.as_deref().map(Scope::parse).transpose()?;
    let scope = flag("--scope", typed).or(own);
    Ok((Resolved::or_default(scope, Scope::default), home))
}

/// Of all settings, the one that can be typed as well.
fn max_iterations(args: &GlobalArgs, in_file: bool, settings: &Settings) -> Resolved<u32> {
    Resolved {
        value: args.max_iterations.unwrap_or(settings.max_iterations),
        origin: match (args.max_iterations, in_file) {
            (Some(_), _) => Origin::Flag("--max-iterations"),
            (None, true) => Origin::File("max_iterations"),
            (None, false) => Origin::Default,
        },
    }
}

fn flag<T>(name: &'static str, value: Option<T>) -> Option<Resolved<T>> {
    value.map(|value| Resolved {
        value,
        origin: Origin::Flag(name),
    })
}

fn from_env(env: &impl Fn(&str) -> Option<String>, name: &'static str) -> Option<Resolved<String>> {
    env(name).map(|value| Resolved {
        value,
        origin: Origin::Env(name),
    })
}

/// Limits with those of `[sandbox.limits]`.
fn limits(table: Option<toml::Value>) -> anyhow::Result<Limits> {
    let mut limits = Limits::default();
    let named: std::collections::BTreeMap<String, u64> = match table {
        None => return Ok(limits),
        Some(table) => table
            .try_into()
            .context("`[sandbox.limits]` holds whole numbers above zero")?,
    };
    for (name, value) in named {
        limits
            .set(&name, value)
            .context("`[sandbox.limits]` cannot be used")?;
    }
    Ok(limits)
}

/// The options of a server, from its table.
fn options<T: serde::de::DeserializeOwned + Default>(
    table: &mut toml::Table,
    name: &'static str,
) -> anyhow::Result<T> {
    match table.remove(name) {
        None => Ok(T::default()),
        Some(options) => options
            .try_into()
            .with_context(|| format!("`[sandbox.{name}]` cannot be used")),
    }
}

fn default_home(env: &impl Fn(&str) -> Option<String>) -> PathBuf {
    let data = env("XDG_DATA_HOME").map(PathBuf::from);
    let data = data.or_else(|| env("HOME").map(|home| Path::new(&home).join(".local/share")));
    data.unwrap_or_else(|| PathBuf::from(".")).join("annals")
}

fn layout_of(layout: LayoutArg) -> Layout {
    match layout {
        LayoutArg::Chat => Layout::Chat,
        LayoutArg::Timeline => Layout::Timeline,
    }
}

fn wire_of(wire: WireArg) -> Wire {
    match wire {
        WireArg::Chat => Wire::Chat,
        WireArg::Responses => Wire::Responses,
    }
}

fn parse_wire(word: &str) -> anyhow::Result<Wire> {
    match word {
        "chat" => Ok(Wire::Chat),
        "responses" => Ok(Wire::Responses),
        other => bail!("`wire` is `{other}`: give `chat` or `responses`"),
    }
}

fn parse_layout(word: &str) -> anyhow::Result<Layout> {
    match word {
        "chat" => Ok(Layout::Chat),
        "timeline" => Ok(Layout::Timeline),
        other => bail!("`layout` is `{other}`: give `chat` or `timeline`"),
    }
}

/// A home that is no folder has no file either; what is wrong with it shows when it is opened.
fn is_absent(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
    )
}

/// The configuration file, taken apart name by name, so that what is left over can be refused.
struct ConfigFile {
    table: toml::Table,
}

impl ConfigFile {
    fn read(path: &Resolved<PathBuf>) -> anyhow::Result<Self> {
        let shown = path.value.display();
        let text = match std::fs::read_to_string(&path.value) {
            Ok(text) => text,
            Err(error) if is_absent(&error) && path.origin == Origin::Default => String::new(),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read the configuration `{shown}`"));
            }
        };
        let mut table: toml::Table = text.parse().with_context(|| format!("`{shown}` is not TOML"))?;
        // Rules of the policy, which are read at the start of every turn.
        table.remove("rule");
        Ok(ConfigFile { table })
    }

    fn has(&self, name: &str) -> bool {
        self.table.contains_key(name)
    }

    fn text(&mut self, name: &'static str) -> anyhow::Result<Option<Resolved<String>>> {
        match self.table.remove(name) {
            None => Ok(None),
            Some(toml::Value::String(value)) => Ok(Some(Resolved {
                value,
                origin: Origin::File(name),
            })),
            Some(other) => bail!(
                "`{name}` in the configuration is {}: give a text",
                other.type_str()
            ),
        }
    }

    /// `sandbox = "NAME"`, or a table with the name as `backend`, limits, and the options of servers.
    fn sandbox(&mut self) -> anyhow::Result<(Option<Resolved<String>>, SandboxOptions)> {
        let Some(toml::Value::Table(mut table)) = self.table.get("sandbox").cloned() else {
            return Ok((self.text("sandbox")?, SandboxOptions::default()));
        };
        self.table.remove("sandbox");
        let options = SandboxOptions {
            limits: limits(table.remove("limits"))?,
            opensandbox: options(&mut table, "opensandbox")?,
            e2b: options(&mut table, "e2b")?,
        };
        let backend = match table.remove("backend") {
            None => None,
            Some(toml::Value::String(value)) => Some(Resolved {
                value,
                origin: Origin::File("sandbox.backend"),
            }),
            Some(other) => bail!("`backend` in `[sandbox]` is {}: give a text", other.type_str()),
        };
        match table.keys().next() {
            None => Ok((backend, options)),
            Some(unknown) => bail!(
                "`[sandbox]` has no setting `{unknown}`; it has `backend`, `limits`, `opensandbox` and `e2b`"
            ),
        }
    }

    fn parsed<T>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&str) -> anyhow::Result<T>,
    ) -> anyhow::Result<Option<Resolved<T>>> {
        let found = self.text(name)?;
        found.map(|found| found.try_map(|word| parse(&word))).transpose()
    }

    fn number(&mut self, name: &'static str) -> anyhow::Result<Option<Resolved<u32>>> {
        let Some(value) = self.table.remove(name) else {
            return Ok(None);
        };
        let number = value.as_integer().and_then(|number| u32::try_from(number).ok());
        let value =
            number.with_context(|| format!("`{name}` in the configuration is not a number above zero"))?;
        Ok(Some(Resolved {
            value,
            origin: Origin::File(name),
        }))
    }

    /// The MCP servers of `[mcp]` and of the home's own list.
    fn servers(&mut self, home: &Path) -> anyhow::Result<Servers> {
        let listed = ServerFile::of_home(home).servers()?;
        match self.table.remove("mcp") {
            None => Ok(listed),
            Some(toml::Value::Table(table)) => Ok(Servers::from_toml(table)?.and(listed)?),
            Some(other) => bail!(
                "`mcp` in the configuration is {}: give a table `[mcp.NAME]` for each server",
                other.type_str()
            ),
        }
    }

    /// Who is told of what happens.
    fn webhooks(&mut self, env: &impl Fn(&str) -> Option<String>) -> anyhow::Result<Vec<WebhookConfig>> {
        let Some(value) = self.table.remove("webhook") else {
            return Ok(Vec::new());
        };
        let mut webhooks: Vec<WebhookConfig> = value.try_into().context("`[[webhook]]` cannot be used")?;
        for webhook in &mut webhooks {
            if let Some(name) = &webhook.secret_env {
                let secret =
                    env(name).with_context(|| format!("`{name}`, the secret of a webhook, is not set"))?;
                webhook.secret = Some(secret);
            }
        }
        Ok(webhooks)
    }

    /// Whose conversations.
    fn scope(&mut self) -> anyhow::Result<Option<Resolved<Scope>>> {
        let parsed = self
            .text("scope")?
            .map(|scope| scope.try_map(|text| Ok(Scope::parse(&text)?)));
        parsed.transpose()
    }

    /// What is left must be settings.
    fn settings(self, path: &Path) -> anyhow::Result<Settings> {
        self.table
            .try_into()
            .with_context(|| format!("`{}` has a setting that is not known", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::Cli;

    fn resolve(flags: &[&str], env: &[(&str, &str)], file: &str) -> anyhow::Result<Config> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        std::fs::write(&path, file).unwrap();
        let path = path.to_str().unwrap().to_owned();
        let args = ["annals", "doctor", "--config", &path]
            .into_iter()
            .chain(flags.iter().copied());
        let cli = Cli::parse_from(args);
        Config::resolve_in(&cli.global, |name| {
            env.iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.to_string())
        })
    }

    #[test]
    fn flags_win_over_the_environment_and_that_over_the_file() {
        let env = [("ANNALS_MODEL", "openai:b")];
        let config = resolve(&["--model", "openai:a"], &env, "model = 'openai:c'").unwrap();
        assert_eq!(config.model.unwrap().origin, Origin::Flag("--model"));
        let config = resolve(&[], &env, "model = 'openai:c'").unwrap();
        assert_eq!(config.model.unwrap().value, "openai:b");
        let config = resolve(&[], &[], "model = 'openai:c'").unwrap();
        assert_eq!(config.model.unwrap().origin, Origin::File("model"));
    }

    #[test]
    fn a_misspelt_setting_is_refused_by_name() {
        let error = format!("{:#}", resolve(&[], &[], "max_iteration = 3").unwrap_err());
        assert!(error.contains("max_iteration"), "{error}");
    }

    #[test]
    fn a_webhooks_secret_may_stand_in_the_environment() {
        let file =
            "[[webhook]]\nurl = 'https://a.example/hook'\nsecret_env = 'HOOK'\nevents = ['turn.ended']";
        let config = resolve(&[], &[("HOOK", "whsec_1")], file).unwrap();
        assert_eq!(config.webhooks[0].secret.as_deref(), Some("whsec_1"));
        assert!(!format!("{config:?}").contains("whsec_1"));
        assert!(resolve(&[], &[], file).is_err());
    }

    #[test]
    fn limits_of_the_sandbox_are_set_by_name_and_a_wrong_one_is_refused() {
        let file = "[sandbox]\nbackend = 'local'\n[sandbox.limits]\nmemory_mib = 512\ntimeout_seconds = 30";
        let config = resolve(&[], &[], file).unwrap();
        let limits = config.sandbox_options.limits;
        assert_eq!(limits.memory_bytes, 512 << 20);
        assert_eq!(limits.timeout.as_secs(), 30);
        assert_eq!(limits.processes, Limits::default().processes);
        for (wrong, told) in [
            ("memory = 1", "`memory`; limits are"),
            ("memory_mib = 1", "give 32"),
            ("processes = 'many'", "whole numbers"),
            ("cpu_seconds = -1", "whole numbers"),
        ] {
            let error = resolve(&[], &[], &format!("[sandbox.limits]\n{wrong}")).unwrap_err();
            assert!(format!("{error:#}").contains(told), "{error:#}");
        }
    }

    #[test]
    fn settings_keep_their_names() {
        let config = resolve(
            &[],
            &[],
            "max_iterations = 3\n[cache]\ncache_point_min_rounds = 5",
        )
        .unwrap();
        assert_eq!(
            (
                config.max_iterations.value,
                config.settings.cache.cache_point_min_rounds
            ),
            (3, 5)
        );
    }
}
