//! From `anthropic:NAME` to a model ready to be asked.
//!
//! Reads no environment: the program passes keys, base URL and a seed in. Everything opened here tries again by the
//! spec's policy. What is wrong with a model (no key, no such script, a provider that was not built in) is an error
//! here and not at the first question.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use annals_core::settings::SessionSettings;
#[cfg(feature = "http")]
use annals_core::tokens::MediaRule;

#[cfg(feature = "anthropic")]
use crate::anthropic::{self, AnthropicModel};
#[cfg(feature = "http")]
use crate::catalog::{self, Known};
use crate::catalog::{Catalog, Wire};
use crate::model::{Model, Window};
#[cfg(any(feature = "openai", feature = "ollama"))]
use crate::openai::{self, OpenAiModel};
use crate::retry::{Jitter, RetryPolicy, Retrying};
use crate::script::{ScriptError, ScriptModel};
#[cfg(feature = "http")]
use crate::usage::LongPrice;
use crate::usage::Price;
#[cfg(feature = "http")]
use crate::wire::EndpointError;
use crate::wire::{ApiKey, Timeouts};

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Provider {
    /// A file.
    Script,
    /// OpenAI, or any server that speaks chat completions.
    OpenAi,
    /// Anthropic.
    Anthropic,
    /// An Ollama on this machine.
    Ollama,
}

impl Provider {
    /// The word before the colon.
    pub fn as_str(self) -> &'static str {
        match self {
            Provider::Script => "script",
            Provider::OpenAi => "openai",
            Provider::Anthropic => "anthropic",
            Provider::Ollama => "ollama",
        }
    }
}

/// `script:FILE`, `openai:NAME`, `anthropic:NAME` or `ollama:NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelName {
    /// Who speaks.
    pub provider: Provider,
    /// The provider's name for the model, or the script's file.
    pub name: String,
}

/// A text that names no model.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no model: expected `script:FILE`, `openai:NAME`, `anthropic:NAME` or `ollama:NAME`")]
pub struct ModelNameError(String);

impl FromStr for ModelName {
    type Err = ModelNameError;

    fn from_str(text: &str) -> Result<Self, ModelNameError> {
        let bad = || ModelNameError(text.to_owned());
        let (provider, name) = text.split_once(':').ok_or_else(bad)?;
        let provider = [
            Provider::Script,
            Provider::OpenAi,
            Provider::Anthropic,
            Provider::Ollama,
        ]
        .into_iter()
        .find(|known| known.as_str() == provider)
        .ok_or_else(bad)?;
        if name.is_empty() {
            return Err(bad());
        }
        Ok(ModelName {
            provider,
            name: name.to_owned(),
        })
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.provider.as_str(), self.name)
    }
}

/// How much the model may reason before it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reasoning {
    /// Not at all.
    #[default]
    Off,
    /// As much as it sees fit; for models that decide themselves.
    Adaptive,
    /// Up to this many tokens.
    Budget {
        /// At least 1,024; kept below the request's `max_tokens`.
        tokens: u32,
    },
}

/// How long Anthropic keeps what it was told to cache. The settings' `session.cache_ttl_seconds` must say the same,
/// because pruning waits for that long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheLife {
    /// Writing costs a quarter more than an uncached token.
    #[default]
    FiveMinutes,
    /// Writing costs twice as much as an uncached token.
    OneHour,
}

impl CacheLife {
    /// The life that these settings count on.
    pub fn of(settings: &SessionSettings) -> Self {
        match settings.cache_ttl_seconds >= 3_600 {
            true => CacheLife::OneHour,
            false => CacheLife::FiveMinutes,
        }
    }

    #[cfg(feature = "http")]
    fn price(self, price: Price) -> Price {
        match self {
            CacheLife::FiveMinutes => price,
            CacheLife::OneHour => Price {
                cache_write_nanousd: price.input_nanousd * 2,
                long: price.long.map(|long| LongPrice {
                    cache_write_nanousd: long.input_nanousd * 2,
                    ..long
                }),
                ..price
            },
        }
    }
}

/// Everything needed to open a model.
#[derive(Clone, Debug)]
pub struct ModelSpec {
    /// Which one.
    pub name: ModelName,
    /// Where the server is, instead of the provider's own place.
    pub base_url: Option<String>,
    /// For `openai:` (the value of `OPENAI_API_KEY`); servers at another base URL may need none.
    pub openai_key: Option<ApiKey>,
    /// For `anthropic:` (the value of `ANTHROPIC_API_KEY`).
    pub anthropic_key: Option<ApiKey>,
    /// How long each part of a request may take.
    pub timeouts: Timeouts,
    /// When to try again.
    pub retry: RetryPolicy,
    /// Where the randomness of the waits comes from.
    pub jitter: Jitter,
    /// Instead of what the catalog says.
    pub window: Option<Window>,
    /// Instead of what the catalog says.
    pub price: Option<Price>,
    /// What is known of models by name.
    pub catalog: Catalog,
    /// Which of OpenAI's protocols, instead of what the catalog says of the model and only OpenAI itself is sure to speak.
    pub wire: Option<Wire>,
    /// How much an Anthropic model may reason.
    pub reasoning: Reasoning,
    /// How long Anthropic keeps what it was told to cache.
    pub cache_life: CacheLife,
    /// Further fields of every request's body, such as `reasoning_effort` or `temperature`.
    pub extra: serde_json::Map<String, serde_json::Value>,
}

impl ModelSpec {
    /// The model of this name with nothing special about it. `seed` drives the jitter of retries.
    pub fn new(name: ModelName, seed: u64) -> Self {
        ModelSpec {
            name,
            base_url: None,
            openai_key: None,
            anthropic_key: None,
            timeouts: Timeouts::default(),
            retry: RetryPolicy::default(),
            jitter: Jitter::seeded(seed),
            window: None,
            price: None,
            catalog: Catalog::default(),
            wire: None,
            reasoning: Reasoning::default(),
            cache_life: CacheLife::default(),
            extra: serde_json::Map::new(),
        }
    }

    #[cfg(feature = "http")]
    fn window(&self) -> Window {
        let known = self.known().map(|known| known.window);
        let unknown = if self.name.provider == Provider::Ollama {
            catalog::LOCAL_WINDOW
        } else {
            catalog::UNKNOWN_WINDOW
        };
        self.window.or(known).unwrap_or(unknown)
    }

    /// List prices hold at the vendor itself; at another server only what the caller says does.
    #[cfg(feature = "http")]
    fn price(&self) -> Option<Price> {
        let is_vendor = self.base_url.is_none() && self.name.provider != Provider::Ollama;
        let listed = self.known().filter(|_| is_vendor).and_then(|known| known.price);
        self.price.or(listed.map(|price| self.cache_life.price(price)))
    }

    /// How pictures are counted, whichever server has the model.
    #[cfg(feature = "http")]
    fn media(&self, usual: MediaRule) -> MediaRule {
        self.known().and_then(|known| known.media).unwrap_or(usual)
    }

    #[cfg(feature = "http")]
    fn known(&self) -> Option<&Known> {
        self.catalog.find(&self.name.name)
    }

    /// Other servers than OpenAI's own speak chat completions unless the caller says otherwise.
    #[cfg(any(feature = "openai", feature = "ollama"))]
    fn wire(&self) -> Wire {
        let is_vendor = self.base_url.is_none() && self.name.provider == Provider::OpenAi;
        let listed = self.known().filter(|_| is_vendor).map(|known| known.wire);
        self.wire.or(listed).unwrap_or_default()
    }
}

/// Why a model cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no such model.
    #[error(transparent)]
    Name(#[from] ModelNameError),
    /// The script cannot be played.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// The vendor needs a key and there is none.
    #[error("`{model}` needs a key: set `{variable}`")]
    NoKey {
        /// Which model.
        model: String,
        /// Where the key is looked for.
        variable: &'static str,
    },
    /// The provider is not part of this build.
    #[error("`{model}` is not part of this build: build `annals` with the feature `{feature}`")]
    NotBuiltIn {
        /// Which model.
        model: String,
        /// What to build with.
        feature: &'static str,
    },
    /// The server cannot be addressed.
    #[cfg(feature = "http")]
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}

/// Opens a model. Touches the disk for a script, and the network never.
pub fn open(spec: &ModelSpec) -> Result<Arc<dyn Model>, OpenError> {
    if spec.name.name.is_empty() {
        return Err(ModelNameError(spec.name.to_string()).into());
    }
    match spec.name.provider {
        Provider::Script => {
            let model = ScriptModel::load(Path::new(&spec.name.name))?;
            // A script is not elsewhere: waiting for it to recover would only be theatre.
            Ok(Arc::new(Retrying::new(
                model,
                spec.retry.without_waits(),
                spec.jitter.clone(),
            )))
        }
        Provider::OpenAi => open_openai(spec),
        Provider::Ollama => open_ollama(spec),
        Provider::Anthropic => open_anthropic(spec),
    }
}

#[cfg(feature = "openai")]
fn open_openai(spec: &ModelSpec) -> Result<Arc<dyn Model>, OpenError> {
    if spec.openai_key.is_none() && spec.base_url.is_none() {
        return Err(no_key(spec, "OPENAI_API_KEY"));
    }
    open_chat(spec, openai::DEFAULT_BASE_URL, spec.openai_key.clone())
}

#[cfg(not(feature = "openai"))]
fn open_openai(spec: &ModelSpec) -> Result<Arc<dyn Model>, OpenError> {
    Err(not_built_in(spec))
}

#[cfg(feature = "ollama")]
fn open_ollama(spec: &ModelSpec) -> Result<Arc<dyn Model>, OpenError> {
    open_chat(spec, openai::OLLAMA_BASE_URL, None)
}

#[cfg(not(feature = "ollama"))]
fn open_ollama(spec: &ModelSpec) -> Result<Arc<dyn Model>, OpenError> {
    Err(not_built_in(spec))
}

#[cfg(feature = "anthropic")]
fn open_anthropic(spec: &ModelSpec) -> Result<Arc<dyn Model>, OpenError> {
    if spec.anthropic_key.is_none() && spec.base_url.is_none() {
        return Err(no_key(spec, "ANTHROPIC_API_KEY"));
    }
    let model = AnthropicModel::new(anthropic::Config {
        name: spec.name.to_string(),
        model: spec.name.name.clone(),
        base_url: spec
            .base_url
            .clone()
            .unwrap_or_else(|| anthropic::DEFAULT_BASE_URL.to_owned()),
        key: spec.anthropic_key.clone(),
        timeouts: spec.timeouts,
        window: spec.window(),
        price: spec.price(),
        media: spec.media(MediaRule::Area),
        options: anthropic::request::Options {
            reasoning: spec.reasoning,
            cache_life: spec.cache_life,
        },
        extra: spec.extra.clone(),
    })?;
    Ok(Arc::new(Retrying::new(model, spec.retry, spec.jitter.clone())))
}

#[cfg(not(feature = "anthropic"))]
fn open_anthropic(spec: &ModelSpec) -> Result<Arc<dyn Model>, OpenError> {
    Err(not_built_in(spec))
}

#[cfg(any(feature = "openai", feature = "ollama"))]
fn open_chat(spec: &ModelSpec, base_url: &str, key: Option<ApiKey>) -> Result<Arc<dyn Model>, OpenError> {
    let model = OpenAiModel::new(openai::Config {
        name: spec.name.to_string(),
        model: spec.name.name.clone(),
        base_url: spec.base_url.clone().unwrap_or_else(|| base_url.to_owned()),
        key,
        timeouts: spec.timeouts,
        window: spec.window(),
        price: spec.price(),
        media: spec.media(MediaRule::Tiles),
        wire: spec.wire(),
        reasons: spec.known().is_some_and(|known| known.reasons),
        extra: spec.extra.clone(),
    })?;
    Ok(Arc::new(Retrying::new(model, spec.retry, spec.jitter.clone())))
}

#[cfg(any(feature = "openai", feature = "anthropic"))]
fn no_key(spec: &ModelSpec, variable: &'static str) -> OpenError {
    OpenError::NoKey {
        model: spec.name.to_string(),
        variable,
    }
}

/// The feature of a provider is called as the provider is.
#[cfg(not(all(feature = "openai", feature = "ollama", feature = "anthropic")))]
fn not_built_in(spec: &ModelSpec) -> OpenError {
    OpenError::NotBuiltIn {
        model: spec.name.to_string(),
        feature: spec.name.provider.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_provider_and_what_it_calls_the_model() {
        let name: ModelName = "ollama:qwen3:8b".parse().unwrap();
        assert_eq!(
            (name.provider, name.name.as_str()),
            (Provider::Ollama, "qwen3:8b")
        );
        assert_eq!(name.to_string(), "ollama:qwen3:8b");
        for bad in ["gpt-5", "openai:", "mistral:large", ""] {
            assert_eq!(bad.parse::<ModelName>(), Err(ModelNameError(bad.to_owned())));
        }
    }

    #[cfg(not(feature = "openai"))]
    #[test]
    fn a_provider_that_was_not_built_in_names_its_feature() {
        let spec = ModelSpec::new("openai:gpt-5".parse().unwrap(), 0);
        assert_eq!(
            open(&spec).err().unwrap().to_string(),
            "`openai:gpt-5` is not part of this build: build `annals` with the feature `openai`"
        );
    }

    #[cfg(feature = "anthropic")]
    #[test]
    fn a_vendor_without_a_key_says_which_variable_to_set() {
        let spec = ModelSpec::new("anthropic:claude-sonnet-4-5".parse().unwrap(), 0);
        let error = open(&spec).err().unwrap();
        assert_eq!(
            error.to_string(),
            "`anthropic:claude-sonnet-4-5` needs a key: set `ANTHROPIC_API_KEY`"
        );
    }

    #[cfg(feature = "anthropic")]
    #[test]
    fn windows_and_prices_come_from_the_catalog_unless_they_are_given() {
        let mut spec = ModelSpec::new("anthropic:claude-sonnet-4-5".parse().unwrap(), 0);
        spec.anthropic_key = Some(ApiKey::new("k"));
        let model = open(&spec).unwrap();
        assert_eq!(model.window().context_tokens, 200_000);
        assert_eq!(model.price().unwrap().output_nanousd, 15_000);
        spec.window = Some(Window {
            context_tokens: 10_000,
            max_output_tokens: 500,
        });
        spec.base_url = Some("http://localhost:1".to_owned());
        let model = open(&spec).unwrap();
        assert_eq!((model.window().context_tokens, model.price()), (10_000, None));
    }

    #[test]
    fn a_spec_does_not_print_its_keys() {
        let mut spec = ModelSpec::new("openai:gpt-5".parse().unwrap(), 0);
        spec.openai_key = Some(ApiKey::new("sk-very-secret"));
        assert!(!format!("{spec:?}").contains("secret"));
    }
}
