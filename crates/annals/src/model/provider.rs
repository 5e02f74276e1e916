//! One type for each provider, made by name or with a builder.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use annals_model::{
    ApiKey, CacheLife, EventStream, Model, ModelError, ModelName, ModelSpec, OpenError, Price, Provider,
    Request, RetryPolicy, Timeouts, Window, Wire, catalog, open,
};
use async_trait::async_trait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::spec_from_env;

/// A model to be made, when more than its name has to be said.
///
/// ```
/// # #[cfg(feature = "openai")] {
/// use annals::model::OpenAi;
///
/// let model = OpenAi::builder("qwen3-32b").base_url("http://localhost:8000/v1").context_tokens(32_768).build();
/// assert!(model.is_ok(), "a server of one's own may need no key");
/// # }
/// ```
#[derive(Debug)]
#[must_use]
pub struct ModelBuilder<M> {
    spec: ModelSpec,
    makes: PhantomData<fn() -> M>,
}

impl<M: From<Opened>> ModelBuilder<M> {
    fn new(provider: Provider, name: &str) -> Self {
        let name = ModelName {
            provider,
            name: name.to_owned(),
        };
        ModelBuilder {
            spec: spec_from_env(name),
            makes: PhantomData,
        }
    }

    /// At this server instead of the provider's own.
    pub fn base_url(mut self, url: &str) -> Self {
        self.spec.base_url = Some(url.to_owned());
        self
    }

    /// With this key instead of the environment's.
    pub fn key(mut self, key: &str) -> Self {
        let key = Some(ApiKey::new(key));
        match self.spec.name.provider {
            Provider::Anthropic => self.spec.anthropic_key = key,
            _ => self.spec.openai_key = key,
        }
        self
    }

    /// The model's window, when the catalog does not know it.
    pub fn context_tokens(mut self, tokens: u32) -> Self {
        let known = self.spec.catalog.find(&self.spec.name.name);
        let known = known.map_or(catalog::UNKNOWN_WINDOW, |known| known.window);
        self.spec.window = Some(Window {
            context_tokens: tokens,
            max_output_tokens: known.max_output_tokens.min(tokens),
        });
        self
    }

    /// How long each part of a request may take.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.spec.timeouts = timeouts;
        self
    }

    /// When to try again.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.spec.retry = policy;
        self
    }

    /// What tokens cost, when the catalog does not know it.
    pub fn price(mut self, price: Price) -> Self {
        self.spec.price = Some(price);
        self
    }

    /// With one of OpenAI's protocols instead of the one that the catalog says.
    pub fn wire(mut self, wire: Wire) -> Self {
        self.spec.wire = Some(wire);
        self
    }

    /// With a cache of Anthropic's that lives this long; the settings' `session.cache_ttl_seconds` must say the same.
    pub fn cache_life(mut self, life: CacheLife) -> Self {
        self.spec.cache_life = life;
        self
    }

    /// A further field of every request's body, such as `temperature`.
    pub fn field(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.spec.extra.insert(name.to_owned(), value.into());
        self
    }

    /// Checks what was said. Touches no network.
    pub fn build(self) -> Result<M, OpenError> {
        open(&self.spec).map(|model| M::from(Opened(model)))
    }
}

/// A model that was opened; only a [`ModelBuilder`] has one.
#[doc(hidden)]
pub struct Opened(Arc<dyn Model>);

/// One type a provider, so that a program names the provider it was built with.
macro_rules! provider {
    ($feature:literal, $(#[$docs:meta])* $name:ident, $provider:expr) => {
        $(#[$docs])*
        #[cfg(feature = $feature)]
        #[derive(Clone)]
        pub struct $name(Arc<dyn Model>);

        #[cfg(feature = $feature)]
        impl $name {
            /// The provider's model of this name, with nothing special about it.
            pub fn new(name: &str) -> Result<Self, OpenError> {
                Self::builder(name).build()
            }

            /// The provider's model of this name, with more to say about it.
            pub fn builder(name: &str) -> ModelBuilder<Self> {
                ModelBuilder::new($provider, name)
            }
        }

        #[cfg(feature = $feature)]
        impl From<Opened> for $name {
            fn from(opened: Opened) -> Self {
                $name(opened.0)
            }
        }

        #[cfg(feature = $feature)]
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($name)).field(&self.0.name()).finish()
            }
        }

        #[cfg(feature = $feature)]
        #[async_trait]
        impl Model for $name {
            fn name(&self) -> &str {
                self.0.name()
            }

            fn window(&self) -> Window {
                self.0.window()
            }

            fn price(&self) -> Option<Price> {
                self.0.price()
            }

            async fn stream(&self, request: Request, cancel: &CancellationToken) -> Result<EventStream, ModelError> {
                self.0.stream(request, cancel).await
            }
        }
    };
}

provider! {
    "openai",
    /// A model of OpenAI, or of any server that speaks its form (vLLM, llama.cpp, LM Studio, LiteLLM …) with
    /// [`base_url`](ModelBuilder::base_url). The key is the value of `OPENAI_API_KEY`.
    OpenAi, Provider::OpenAi
}

provider! {
    "anthropic",
    /// A model of Anthropic. The key is the value of `ANTHROPIC_API_KEY`.
    Anthropic, Provider::Anthropic
}

provider! {
    "ollama",
    /// A model of the Ollama on this machine, or at [`base_url`](ModelBuilder::base_url). It needs no key.
    Ollama, Provider::Ollama
}

#[cfg(feature = "anthropic")]
impl ModelBuilder<Anthropic> {
    /// How much the model may reason before it answers.
    pub fn reasoning(mut self, reasoning: annals_model::Reasoning) -> Self {
        self.spec.reasoning = reasoning;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "anthropic")]
    #[test]
    fn a_model_that_cannot_be_asked_is_not_made() {
        let mut builder = Anthropic::builder("claude-sonnet-4-5");
        builder.spec.anthropic_key = None;
        assert_eq!(
            builder.build().unwrap_err().to_string(),
            "`anthropic:claude-sonnet-4-5` needs a key: set `ANTHROPIC_API_KEY`"
        );
        let model = Anthropic::builder("claude-sonnet-4-5").key("k").build().unwrap();
        assert_eq!(model.name(), "anthropic:claude-sonnet-4-5");
        assert_eq!(format!("{model:?}"), "Anthropic(\"anthropic:claude-sonnet-4-5\")");
    }

    #[cfg(feature = "ollama")]
    #[test]
    fn a_model_without_a_name_is_refused() {
        assert!(matches!(Ollama::new(""), Err(OpenError::Name(_))));
        assert!(matches!(crate::model::named("gpt-5"), Err(OpenError::Name(_))));
    }

    #[cfg(feature = "openai")]
    #[test]
    fn what_the_builder_is_told_wins_over_the_catalog() {
        let model = OpenAi::builder("gpt-5")
            .key("k")
            .context_tokens(9_000)
            .build()
            .unwrap();
        assert_eq!(model.window().context_tokens, 9_000);
        assert!(model.window().max_output_tokens <= 9_000);
    }
}
