//! OpenAI's two protocols: chat completions, which many servers speak (vLLM, llama.cpp, LM Studio, LiteLLM, Ollama and
//! more), and [`responses`], which OpenAI's own models want.
//!
//! [`request`] is what chat completions are sent, [`stream`] what comes back. Servers differ in small ways; what is
//! tolerated is said in these two files. Prompt caching is automatic here: all it needs is the stable prefix that every
//! prompt has, and for Responses a key that requests of one conversation share.

pub(crate) mod request;
pub(crate) mod responses;
pub(crate) mod stream;

use annals_core::tokens::MediaRule;
use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::catalog::Wire;
use crate::error::ModelError;
use crate::model::{EventStream, Model, Request, Window};
use crate::usage::Price;
use crate::wire::http::{self, Endpoint, EndpointError, KeyHeader};
use crate::wire::names::ToolNames;
use crate::wire::{ApiKey, Timeouts, pairs};
use responses::request::Reasons;
use responses::stream::ResponsesDecoder;

/// Where OpenAI itself listens.
pub const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";

/// Where Ollama listens unless it is told otherwise.
pub const OLLAMA_BASE_URL: &str = "http://localhost:11434/v1";

/// What a server understands beyond what all of them do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// OpenAI itself: `max_completion_tokens`, PDFs as file parts.
    OpenAi,
    /// Anybody else.
    Compatible,
}

/// Everything that makes one model at one server.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// The name in full, such as `openai:gpt-5`.
    pub(crate) name: String,
    /// The server's name for the model.
    pub(crate) model: String,
    pub(crate) base_url: String,
    pub(crate) key: Option<ApiKey>,
    pub(crate) timeouts: Timeouts,
    pub(crate) window: Window,
    pub(crate) price: Option<Price>,
    pub(crate) media: MediaRule,
    /// Which protocol, and for Responses whether the model reasons.
    pub(crate) wire: Wire,
    pub(crate) reasons: bool,
    /// Further fields of the request's body.
    pub(crate) extra: serde_json::Map<String, serde_json::Value>,
}

/// A model behind a server that speaks one of OpenAI's protocols.
#[derive(Debug)]
pub struct OpenAiModel {
    config: Config,
    dialect: Dialect,
    endpoint: Endpoint,
}

/// Where a server offers something. An address without a path means the usual one.
pub(crate) fn url(base_url: &str, what: &str) -> String {
    let base = base_url.trim_end_matches('/');
    let is_bare = base
        .split_once("://")
        .is_some_and(|(_, rest)| !rest.contains('/'));
    format!("{base}{}/{what}", if is_bare { "/v1" } else { "" })
}

impl OpenAiModel {
    pub(crate) fn new(config: Config) -> Result<Self, EndpointError> {
        let base = config.base_url.trim_end_matches('/');
        let dialect = if base == DEFAULT_BASE_URL {
            Dialect::OpenAi
        } else {
            Dialect::Compatible
        };
        let url = match config.wire {
            Wire::Chat => url(base, "chat/completions"),
            Wire::Responses => url(base, "responses"),
        };
        let header = KeyHeader {
            name: "authorization",
            prefix: "Bearer ",
        };
        let endpoint = Endpoint::new(&url, config.timeouts, config.key.clone(), header, &[])?;
        Ok(OpenAiModel {
            config,
            dialect,
            endpoint,
        })
    }
}

#[async_trait]
impl Model for OpenAiModel {
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
        let Config { model, extra, .. } = &self.config;
        match self.config.wire {
            Wire::Chat => {
                let body = request::body(model, self.dialect, &request, &names);
                let body = http::body_json(&body, extra);
                self.endpoint
                    .stream(body, stream::ChatDecoder::new(names), cancel)
                    .await
            }
            Wire::Responses => {
                let reasons = match self.config.reasons {
                    true => Reasons::Yes,
                    false => Reasons::No,
                };
                let body = responses::request::body(model, reasons, &request, &names);
                let body = http::body_json(&body, extra);
                self.endpoint
                    .stream(body, ResponsesDecoder::new(names), cancel)
                    .await
            }
        }
    }
}
