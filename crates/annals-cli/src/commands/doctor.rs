//! `annals doctor`: what works here, what does not, and where every setting came from.

use std::time::Duration;

use annals::content::Content;
use annals::core::redact::SafeUrl;
use annals::embed::StaticTable;
use annals::model::{ANTHROPIC_API_KEY, ModelName, OPENAI_API_KEY, Provider};
use annals::opensandbox::Timing;
use annals::sandbox::facts::Facts;
use annals::sandbox::{Bound, Language};
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::JsonArgs;
use crate::config::{BUILT_IN, Config, Resolved};
use crate::failure::{Ended, Failure};
use crate::paint::{self, BAD, BOLD, DIM, GOOD, WARN, styled};
use crate::sandboxes::{self, SandboxServer};
use crate::screen_text::ScreenText;
use crate::{bucket, setup, shown};

/// One thing that was looked at.
#[derive(Serialize)]
struct Finding {
    name: String,
    state: State,
    detail: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    /// Works without it.
    Missing,
    /// Something does not work.
    Broken,
}

impl Finding {
    fn new(name: impl Into<String>, state: State, detail: impl Into<String>) -> Self {
        Finding {
            name: name.into(),
            state,
            detail: detail.into(),
        }
    }
}

/// A setting and where it came from.
#[derive(Serialize)]
struct Setting {
    name: &'static str,
    value: Value,
    origin: String,
}

#[derive(Serialize)]
struct Report {
    version: &'static str,
    isolation: Vec<Finding>,
    interpreters: Vec<Finding>,
    renderers: Vec<Finding>,
    model: Vec<Finding>,
    stores: Vec<Finding>,
    /// What commands may use, as far as the sandbox that is configured bounds it.
    bounds: Vec<Bound>,
    settings: Vec<Setting>,
}

pub(crate) async fn run(args: JsonArgs, config: Config) -> Result<Ended, Failure> {
    let (renderers, sandbox) = (renderers().await, sandbox(&config).await);
    let stores = stores(&config).await.into_iter().chain(sandbox).collect();
    let report = tokio::task::spawn_blocking(move || examine(&config, renderers, stores))
        .await
        .map_err(Failure::environment)?;
    if args.json {
        let json = serde_json::to_string_pretty(&report).map_err(Failure::environment)?;
        paint::print_json(&format!("{json}\n"))?;
    } else {
        paint::print(for_people(&report))?;
    }
    Ok(Ended::Well)
}

fn examine(config: &Config, renderers: Vec<Finding>, stores: Vec<Finding>) -> Report {
    let (isolation, interpreters) = isolation();
    Report {
        version: env!("CARGO_PKG_VERSION"),
        isolation,
        interpreters,
        renderers,
        model: vec![model(config), web(config)],
        stores,
        bounds: bounds(config),
        settings: settings(config),
    }
}

fn bounds(config: &Config) -> Vec<Bound> {
    let backend = sandboxes::backend(config, None);
    backend.map_or_else(
        |_| Vec::new(),
        |backend| backend.bounds(&config.sandbox_options.limits),
    )
}

fn isolation() -> (Vec<Finding>, Vec<Finding>) {
    let facts = match Facts::gather() {
        Ok(facts) => facts,
        Err(error) => {
            return (
                vec![Finding::new("launcher", State::Broken, error.to_string())],
                Vec::new(),
            );
        }
    };
    let layers = facts.layers.iter().map(|fact| {
        let (state, detail) = match (&fact.missing, fact.layer.is_required()) {
            (None, _) => (State::Ok, String::new()),
            (Some(why), true) => (State::Broken, why.clone()),
            (Some(why), false) => (State::Missing, why.clone()),
        };
        Finding::new(fact.layer.as_str(), state, detail)
    });
    let interpreters = Language::ALL.into_iter().map(|language| {
        let found = facts
            .interpreters
            .iter()
            .find(|interpreter| interpreter.language == language);
        match found {
            Some(found) => {
                let detail = format!("{} {}", found.version, found.program.display());
                Finding::new(language.as_str(), State::Ok, detail)
            }
            None => Finding::new(
                language.as_str(),
                State::Missing,
                "not installed: its exec tool is not offered",
            ),
        }
    });
    (layers.collect(), interpreters.collect())
}

async fn renderers() -> Vec<Finding> {
    let facts = match Content::new().facts().await {
        Ok(facts) => facts,
        Err(error) => return vec![Finding::new("embedded", State::Missing, error.to_string())],
    };
    let fonts = format!("{} families", facts.font_families.len());
    let chromium = match &facts.chromium {
        Some(path) => Finding::new("chromium", State::Ok, path.display().to_string()),
        None => Finding::new(
            "chromium",
            State::Missing,
            "not installed: HTML is laid out by the embedded engine",
        ),
    };
    vec![
        Finding::new("embedded", State::Ok, "pdf, png, docx, pptx"),
        Finding::new("fonts", State::Ok, fonts),
        chromium,
    ]
}

fn model(config: &Config) -> Finding {
    let Some(model) = &config.model else {
        return Finding::new(
            "model",
            State::Missing,
            "none: give `--model`, set `ANNALS_MODEL`, or try `annals demo`",
        );
    };
    let name = match model.value.parse::<ModelName>() {
        Ok(name) => name,
        Err(error) => return Finding::new("model", State::Broken, error.to_string()),
    };
    let variable = match name.provider {
        Provider::OpenAi => Some(OPENAI_API_KEY),
        Provider::Anthropic => Some(ANTHROPIC_API_KEY),
        _ => None,
    };
    let has_key = variable.is_none_or(|variable| std::env::var(variable).is_ok_and(|key| !key.is_empty()));
    let place = config
        .base_url
        .as_ref()
        .map(|url| format!(" at {}", SafeUrl(&url.value)))
        .unwrap_or_default();
    match variable {
        Some(variable) if !has_key && config.base_url.is_none() => Finding::new(
            "model",
            State::Broken,
            format!("`{name}` needs a key: set `{variable}`"),
        ),
        _ => Finding::new(
            "model",
            State::Ok,
            format!("{name}{place}, configured (not asked)"),
        ),
    }
}

fn web(config: &Config) -> Finding {
    let web = &config.web;
    let providers: Vec<&str> = [
        ("searxng", web.searxng_url.is_some()),
        ("brave", web.brave_key.is_some()),
    ]
    .into_iter()
    .filter(|(_, is_set)| *is_set)
    .map(|(name, _)| name)
    .collect();
    match providers.is_empty() {
        false => Finding::new("web search", State::Ok, providers.join(", ")),
        true => Finding::new(
            "web search",
            State::Missing,
            "no provider: set `ANNALS_SEARXNG_URL` or `ANNALS_BRAVE_KEY`",
        ),
    }
}

async fn stores(config: &Config) -> Vec<Finding> {
    let finding = |name: &str, url: &str, opened: Result<(), Failure>| match opened {
        Ok(()) => Finding::new(name, State::Ok, SafeUrl(url).to_string()),
        Err(Failure::Usage(message) | Failure::Environment(message)) => {
            Finding::new(name, State::Broken, message)
        }
        Err(Failure::ClosedPipe | Failure::Interrupted) => {
            Finding::new(name, State::Broken, SafeUrl(url).to_string())
        }
    };
    let (log, artifacts) = (&config.store.value, &config.artifacts.value);
    let opened = setup::open_log(log, StaticTable::embedder(), None).await;
    let mut findings = vec![
        finding("log", log, opened.map(|_| ())),
        memory(config),
        finding(
            "artifacts",
            artifacts,
            setup::open_artifacts(artifacts, &config.home.value).map(|_| ()),
        ),
    ];
    findings.extend(bucket(artifacts).await);
    findings
}

/// What the server of a bucket is worth.
async fn bucket(url: &str) -> Option<Finding> {
    let (state, detail) = match bucket::examined(url).await {
        Ok(None) => return None,
        Ok(Some((_, probe))) => match probe.lacks() {
            lacks if lacks.is_empty() => (State::Ok, "honours conditional writes".to_owned()),
            lacks => (State::Missing, lacks.join("; ")),
        },
        Err(failure) => (State::Broken, failure.message()),
    };
    Some(Finding::new("bucket", state, detail))
}

/// How long a server of sandboxes is waited for.
const SERVER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a sandbox on trial may take; an image may have to be fetched first.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(60);

/// The sandbox that is configured: of a server what it says, and what a sandbox of it can do.
async fn sandbox(config: &Config) -> Vec<Finding> {
    let name = SafeUrl(&config.sandbox.value).to_string();
    let broken = |failure: Failure| vec![Finding::new("sandbox", State::Broken, failure.message())];
    let timing = Timing {
        retry: SERVER_TIMEOUT,
        ..Timing::default()
    };
    let server = match SandboxServer::configured(config, None, timing) {
        Ok(Some(server)) => server,
        Ok(None) => {
            return match sandboxes::backend(config, None) {
                Ok(_) => vec![Finding::new("sandbox", State::Ok, name)],
                Err(failure) => broken(failure),
            };
        }
        Err(failure) => return broken(failure),
    };
    let facts = match server.backend.facts().await {
        Ok(facts) => facts,
        Err(error) => {
            let variable = server.backend.key_variable();
            let hint = match std::env::var_os(variable) {
                Some(_) => format!("check the address and the key in `{variable}`"),
                None => format!("check the address; no key is set in `{variable}`"),
            };
            let detail = format!("{name}: {error}; {hint}");
            return vec![Finding::new("sandbox", State::Broken, detail)];
        }
    };
    let version = facts.version.map(|version| format!(", version {version}"));
    let detail = format!(
        "{name}{}; {} sandboxes of this installation are there",
        version.unwrap_or_default(),
        facts.sandboxes
    );
    vec![Finding::new("sandbox", State::Ok, detail), trial(&server).await]
}

/// What a sandbox of the server offers, and what it lacks.
async fn trial(server: &SandboxServer) -> Finding {
    let name = "sandbox on trial";
    let origin = &server.origin;
    let offered = match tokio::time::timeout(TRIAL_TIMEOUT, server.backend.trial()).await {
        Ok(Ok(capabilities)) => capabilities.languages,
        Ok(Err(error)) => return Finding::new(name, State::Broken, format!("{origin}: {error}")),
        Err(_) => {
            let seconds = TRIAL_TIMEOUT.as_secs();
            let detail = format!("{origin}: no sandbox was ready after {seconds} s");
            return Finding::new(name, State::Broken, detail);
        }
    };
    let (has, lacks): (Vec<Language>, Vec<Language>) = Language::ALL
        .into_iter()
        .partition(|language| offered.contains(language));
    let listed = |languages: &[Language]| {
        let names: Vec<&str> = languages.iter().map(|language| language.as_str()).collect();
        names.join(", ")
    };
    match lacks.is_empty() {
        true => Finding::new(name, State::Ok, format!("{origin}: {}", listed(&has))),
        false => Finding::new(
            name,
            State::Missing,
            format!("{origin}: {}; no programs for {}", listed(&has), listed(&lacks)),
        ),
    }
}

fn memory(config: &Config) -> Finding {
    match setup::embedder(&config.embeddings) {
        Ok(embedder) if config.embeddings.name.value == BUILT_IN => Finding::new(
            "memory search",
            State::Ok,
            format!("built-in vectors ({})", embedder.identity()),
        ),
        Ok(embedder) => Finding::new(
            "memory search",
            State::Ok,
            format!("{}, configured (not asked)", embedder.identity()),
        ),
        Err(Failure::Usage(message) | Failure::Environment(message)) => {
            Finding::new("memory search", State::Broken, message)
        }
        Err(Failure::ClosedPipe | Failure::Interrupted) => Finding::new("memory search", State::Broken, ""),
    }
}

fn settings(config: &Config) -> Vec<Setting> {
    fn row<T: Serialize>(name: &'static str, resolved: &Resolved<T>) -> Setting {
        Setting {
            name,
            value: json!(resolved.value),
            origin: resolved.origin.to_string(),
        }
    }
    fn maybe<T: Serialize>(name: &'static str, resolved: &Option<Resolved<T>>) -> Setting {
        match resolved {
            Some(resolved) => row(name, resolved),
            None => Setting {
                name,
                value: Value::Null,
                origin: "not set".to_owned(),
            },
        }
    }
    let secrets = Setting {
        name: "secrets",
        value: json!(config.secrets.names().collect::<Vec<_>>().join(", ")),
        origin: "config.toml `secrets`, keys of the environment, addresses".to_owned(),
    };
    let address = |url: &Resolved<String>| Resolved {
        value: SafeUrl(&url.value).to_string(),
        origin: url.origin.clone(),
    };
    let secret = config.web.brave_key.as_ref().map(|key| Resolved {
        value: "set",
        origin: key.origin.clone(),
    });
    let scope = Resolved {
        value: config.scope.value.to_string(),
        origin: config.scope.origin.clone(),
    };
    vec![
        row("home", &config.home),
        row("config", &config.config_file),
        row("store", &address(&config.store)),
        row("artifacts", &address(&config.artifacts)),
        row("sandbox", &config.sandbox),
        maybe("model", &config.model),
        maybe("base_url", &config.base_url.as_ref().map(address)),
        maybe("context_tokens", &config.context_tokens),
        row("max_iterations", &config.max_iterations),
        row("layout", &config.layout),
        maybe("wire", &config.wire),
        row("scope", &scope),
        row("skills", &config.skills),
        secrets,
        maybe("searxng_url", &config.web.searxng_url.as_ref().map(address)),
        maybe("brave_key", &secret),
        maybe("web_allow", &config.web.allow),
        row("embeddings", &config.embeddings.name),
        maybe("embeddings_url", &config.embeddings.url.as_ref().map(address)),
        maybe("embeddings_dimensions", &config.embeddings.dimensions),
    ]
}

fn for_people(report: &Report) -> ScreenText {
    let sections = [
        ("Isolation", &report.isolation),
        ("Interpreters", &report.interpreters),
        ("Documents", &report.renderers),
        ("Model and web", &report.model),
        ("Stores", &report.stores),
    ];
    let mut out = shown!("{} {}\n", styled(BOLD, "annals"), report.version);
    for (title, findings) in sections {
        out.push(shown!("\n{}\n", styled(BOLD, title)));
        for finding in findings {
            let mark = match finding.state {
                State::Ok => styled(GOOD, "✓"),
                State::Missing => styled(WARN, "–"),
                State::Broken => styled(BAD, "✗"),
            };
            out.push(shown!(
                "  {} {} {}\n",
                mark,
                format!("{:<18}", finding.name),
                styled(DIM, &finding.detail)
            ));
        }
    }
    if !report.bounds.is_empty() {
        out.push(shown!("\n{}\n", styled(BOLD, "Bounds of the sandbox")));
    }
    for bound in &report.bounds {
        out.push(shown!(
            "    {} {}\n",
            format!("{:<28}", bound.what),
            bound.most.as_str()
        ));
    }
    out.push(shown!("\n{}\n", styled(BOLD, "Settings")));
    for setting in &report.settings {
        let value = match &setting.value {
            Value::Null => "–".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        out.push(shown!(
            "    {} {} {}\n",
            format!("{:<18}", setting.name),
            value,
            styled(DIM, format!("({})", setting.origin))
        ));
    }
    out
}
