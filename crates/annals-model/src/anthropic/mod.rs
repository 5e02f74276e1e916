//! Anthropic's Messages.
//!
//! [`request`] is what is sent, with the cache's breakpoints; [`stream`] what comes back.

pub(crate) mod request;
pub(crate) mod stream;

use annals_core::tokens::MediaRule;
use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::error::ModelError;
use crate::model::{EventStream, Model, Request, Window};
use crate::spec::{CacheLife, Reasoning};
use crate::usage::Price;
use crate::wire::http::{self, Endpoint, EndpointError, KeyHeader};
use crate::wire::names::ToolNames;
use crate::wire::{ApiKey, Timeouts, pairs};

/// Where Anthropic listens.
pub const DEFAULT_BASE_URL: &str = "https://api.anthropic.com";

/// The version of the protocol that this speaks.
const VERSION: &str = "2023-06-01";

/// Everything that makes one model.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// The name in full, such as `anthropic:claude-sonnet-4-5`.
    pub(crate) name: String,
    /// The vendor's name for the model.
    pub(crate) model: String,
    pub(crate) base_url: String,
    pub(crate) key: Option<ApiKey>,
    pub(crate) timeouts: Timeouts,
    pub(crate) window: Window,
    pub(crate) price: Option<Price>,
    pub(crate) media: MediaRule,
    pub(crate) options: request::Options,
    /// Further fields of the request's body.
    pub(crate) extra: serde_json::Map<String, serde_json::Value>,
}

/// A model behind the Messages protocol.
#[derive(Debug)]
pub struct AnthropicModel {
    config: Config,
    endpoint: Endpoint,
}

impl AnthropicModel {
    pub(crate) fn new(config: Config) -> Result<Self, EndpointError> {
        let base = config.base_url.trim_end_matches('/');
        let url = format!("{}/v1/messages", base.strip_suffix("/v1").unwrap_or(base));
        let header = KeyHeader {
            name: "x-api-key",
            prefix: "",
        };
        let fixed = [("anthropic-version", VERSION)];
        let endpoint = Endpoint::new(&url, config.timeouts, config.key.clone(), header, &fixed)?;
        Ok(AnthropicModel { config, endpoint })
    }
}

#[async_trait]
impl Model for AnthropicModel {
    fn name(&self) -> &str {
        &self.config.name
    }

    fn window(&self) -> Window {
        self.config.window
    }

    fn media_rule(&self) -> MediaRule {
        self.config.media
    }

    fn price(&self) -> Option<Price> {
        self.config.price
    }

    async fn stream(&self, request: Request, cancel: &CancellationToken) -> Result<EventStream, ModelError> {
        pairs::check(&request.prompt)?;
        let names = ToolNames::of(&request.prompt.tools);
        let body = request::body(&self.config.model, self.config.options, &request, &names);
        let body = http::body_json(&body, &self.config.extra);
        self.endpoint
            .stream(body, stream::MessagesDecoder::new(names), cancel)
            .await
    }
}
