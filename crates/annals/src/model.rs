//! Models by name. The one place of the library where keys are taken from the environment, because it is its edge.
//!
//! A model is opened when it is first needed, so that naming one never fails: what is wrong with it (no key, no such
//! script) shows when it is opened by hand with [`Model::open`], or else when it is asked.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

/// The trait that every model implements.
pub use annals_model::Model as AnyModel;
pub use annals_model::script::{Script, ScriptCall, Step};
pub use annals_model::*;

/// Where the key of an OpenAI-compatible server is looked for.
pub const OPENAI_API_KEY: &str = "OPENAI_API_KEY";
/// Where the key of Anthropic is looked for.
pub const ANTHROPIC_API_KEY: &str = "ANTHROPIC_API_KEY";

/// A model, named and not yet opened.
pub struct Model {
    name: String,
    source: Source,
    opened: OnceLock<Result<Arc<dyn AnyModel>, OpenError>>,
}

/// Where a model comes from.
enum Source {
    Spec(Box<ModelSpec>),
    Here(Arc<dyn AnyModel>),
}

impl Model {
    /// OpenAI's model of this name, or any OpenAI-compatible server's with [`base_url`](Self::base_url). The key is
    /// the value of `OPENAI_API_KEY`.
    pub fn openai(name: &str) -> Self {
        Self::of(Provider::OpenAi, name)
    }

    /// Anthropic's model of this name. The key is the value of `ANTHROPIC_API_KEY`.
    pub fn anthropic(name: &str) -> Self {
        Self::of(Provider::Anthropic, name)
    }

    /// A model of the Ollama on this machine.
    pub fn ollama(name: &str) -> Self {
        Self::of(Provider::Ollama, name)
    }

    /// A file that plays the model.
    pub fn script_file(path: impl AsRef<Path>) -> Self {
        Self::of(Provider::Script, &path.as_ref().to_string_lossy())
    }

    /// A script that plays the model; for tests, demos and replays.
    pub fn script(name: &str, script: Script) -> Self {
        Self::from_model(Arc::new(ScriptModel::new(name, script)))
    }

    /// A model of the caller's.
    pub fn from_model(model: Arc<dyn AnyModel>) -> Self {
        Model {
            name: model.name().to_owned(),
            source: Source::Here(model),
            opened: OnceLock::new(),
        }
    }

    /// `script:FILE`, `openai:NAME`, `anthropic:NAME` or `ollama:NAME`.
    pub fn parse(name: &str) -> Result<Self, ModelNameError> {
        Ok(Self::from_spec(from_env(ModelSpec::new(name.parse()?, seed()))))
    }

    /// A model of which everything is said already; nothing is taken from the environment.
    pub fn from_spec(spec: ModelSpec) -> Self {
        Model {
            name: spec.name.to_string(),
            source: Source::Spec(Box::new(spec)),
            opened: OnceLock::new(),
        }
    }

    /// At this server instead of the provider's own.
    #[must_use]
    pub fn base_url(mut self, url: &str) -> Self {
        if let Source::Spec(spec) = &mut self.source {
            spec.base_url = Some(url.to_owned());
        }
        self.opened = OnceLock::new();
        self
    }

    /// With this key instead of the environment's.
    #[must_use]
    pub fn key(mut self, key: &str) -> Self {
        if let Source::Spec(spec) = &mut self.source {
            let key = Some(ApiKey::new(key));
            match spec.name.provider {
                Provider::Anthropic => spec.anthropic_key = key,
                Provider::OpenAi | Provider::Ollama | Provider::Script => spec.openai_key = key,
            }
        }
        self.opened = OnceLock::new();
        self
    }

    /// Opens it now, to learn what is wrong with it. Touches the disk for a script, and the network never.
    pub fn open(&self) -> Result<&Arc<dyn AnyModel>, &OpenError> {
        let opened = self.opened.get_or_init(|| match &self.source {
            Source::Spec(spec) => open(spec),
            Source::Here(model) => Ok(model.clone()),
        });
        opened.as_ref()
    }

    fn of(provider: Provider, name: &str) -> Self {
        Self::from_spec(from_env(ModelSpec::new(
            ModelName {
                provider,
                name: name.to_owned(),
            },
            seed(),
        )))
    }
}

/// With the keys of this process's environment.
fn from_env(mut spec: ModelSpec) -> ModelSpec {
    spec.openai_key = key_from_env(OPENAI_API_KEY);
    spec.anthropic_key = key_from_env(ANTHROPIC_API_KEY);
    spec
}

/// A key that this process's environment has under a name.
pub fn key_from_env(name: &str) -> Option<ApiKey> {
    let key = std::env::var(name).ok().filter(|key| !key.is_empty());
    key.map(|key| ApiKey::new(&key))
}

/// Drives the jitter of retries: clients that failed together should not come back together.
fn seed() -> u64 {
    annals_runtime::World::default().random()
}

#[async_trait]
impl AnyModel for Model {
    fn name(&self) -> &str {
        self.open().map_or(self.name.as_str(), |model| model.name())
    }

    fn window(&self) -> Window {
        self.open()
            .map_or(catalog::UNKNOWN_WINDOW, |model| model.window())
    }

    fn price(&self) -> Option<Price> {
        self.open().ok().and_then(|model| model.price())
    }

    async fn stream(&self, request: Request, cancel: &CancellationToken) -> Result<EventStream, ModelError> {
        match self.open() {
            Ok(model) => model.stream(request, cancel).await,
            Err(error @ OpenError::NoKey { .. }) => Err(ModelError::Auth {
                message: error.to_string(),
            }),
            Err(error) => Err(ModelError::BadRequest {
                message: error.to_string(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naming_a_model_never_fails_and_opening_it_says_what_is_missing() {
        let name = ModelName {
            provider: Provider::Anthropic,
            name: "claude-sonnet-4-5".to_owned(),
        };
        let model = Model::from_spec(ModelSpec::new(name, 0));
        assert_eq!(model.name(), "anthropic:claude-sonnet-4-5");
        assert!(
            model
                .open()
                .err()
                .unwrap()
                .to_string()
                .contains(ANTHROPIC_API_KEY)
        );
        assert!(model.key("k").open().is_ok());
    }

    #[test]
    fn a_script_keeps_its_own_name() {
        assert_eq!(Model::script("demo", Script::default()).name(), "script:demo");
    }
}
