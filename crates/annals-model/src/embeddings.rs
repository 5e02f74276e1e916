//! Vectors from a server: OpenAI's embeddings, which many others speak (vLLM, llama.cpp, Ollama, LiteLLM and more).
//!
//! One request a batch, with the timeouts, retries and key handling of the models. It must not keep texts or vectors.

use std::sync::OnceLock;
use std::time::Duration;

use annals_core::redact::SafeUrl;
use annals_embed::{EmbedError, Embedder, Vector};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::error::ModelError;
use crate::openai;
use crate::retry::{Jitter, RetryPolicy, attempts};
use crate::wire::http::{Endpoint, EndpointError, KeyHeader};
use crate::wire::{ApiKey, Timeouts};

/// Everything needed to ask a server for vectors.
#[derive(Clone, Debug)]
pub struct EmbeddingsSpec {
    /// The server's name for the model.
    pub model: String,
    /// Where the server is.
    pub base_url: String,
    /// Servers of one's own may need none.
    pub key: Option<ApiKey>,
    /// How many numbers a vector shall have; only some models take the wish.
    pub dimensions: Option<usize>,
    /// How long each part of a request may take.
    pub timeouts: Timeouts,
    /// When to try again.
    pub retry: RetryPolicy,
    /// Where the randomness of the waits comes from.
    pub jitter: Jitter,
}

impl EmbeddingsSpec {
    /// This model at OpenAI itself. `seed` drives the jitter of retries. Somebody waits for the answer of a search, so
    /// that less patience is shown than with a model.
    pub fn new(model: impl Into<String>, seed: u64) -> Self {
        EmbeddingsSpec {
            model: model.into(),
            base_url: openai::DEFAULT_BASE_URL.to_owned(),
            key: None,
            dimensions: None,
            timeouts: Timeouts {
                connect: Duration::from_secs(5),
                first_byte: Duration::from_secs(30),
                idle: Duration::from_secs(30),
                whole: Duration::from_secs(120),
                ..Timeouts::default()
            },
            retry: RetryPolicy {
                max_attempts: 3,
                max_total: Duration::from_secs(30),
                ..RetryPolicy::default()
            },
            jitter: Jitter::seeded(seed),
        }
    }
}

/// An embedder behind a server.
#[derive(Debug)]
pub struct EmbeddingsEndpoint {
    spec: EmbeddingsSpec,
    identity: String,
    endpoint: Endpoint,
    /// As the server said first.
    dimension: OnceLock<usize>,
}

#[derive(Serialize)]
struct Body<'r> {
    model: &'r str,
    input: &'r [&'r str],
    encoding_format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<usize>,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    index: Option<usize>,
    embedding: Vec<f32>,
}

impl EmbeddingsEndpoint {
    /// Ready to be asked; touches no network.
    pub fn new(spec: EmbeddingsSpec) -> Result<Self, EndpointError> {
        let url = openai::url(&spec.base_url, "embeddings");
        let header = KeyHeader {
            name: "authorization",
            prefix: "Bearer ",
        };
        let endpoint = Endpoint::new(&url, spec.timeouts, spec.key.clone(), header, &[])?;
        let wish = spec.dimensions.map_or(String::new(), |n| format!(":{n}"));
        Ok(EmbeddingsEndpoint {
            identity: format!(
                "openai:{}{wish}@{}",
                spec.model,
                SafeUrl(spec.base_url.trim_end_matches('/'))
            ),
            endpoint,
            dimension: OnceLock::new(),
            spec,
        })
    }

    async fn ask(&self, texts: &[&str]) -> Result<Answer, ModelError> {
        let body = Body {
            model: &self.spec.model,
            input: texts,
            encoding_format: "float",
            dimensions: self.spec.dimensions,
        };
        let body = serde_json::to_vec(&body).expect("a request's body is plain data");
        let cancel = CancellationToken::new();
        let answer = attempts(&self.spec.retry, &self.spec.jitter, &cancel, || {
            self.endpoint.json(body.clone(), &cancel)
        })
        .await?;
        serde_json::from_value(answer).map_err(|error| ModelError::Malformed {
            message: format!("no embeddings: {error}"),
        })
    }

    /// A vector of the length that all others have.
    fn vector(&self, numbers: &[f32]) -> Result<Vector, EmbedError> {
        let found = numbers.len();
        let expected = *self
            .dimension
            .get_or_init(|| self.spec.dimensions.unwrap_or(found));
        match found == expected && found > 0 {
            true => Ok(Vector::of(numbers)),
            false => Err(EmbedError::WrongDimension { expected, found }),
        }
    }
}

#[async_trait]
impl Embedder for EmbeddingsEndpoint {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn dimension(&self) -> Option<usize> {
        self.dimension.get().copied()
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vector>, EmbedError> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        // Servers refuse an empty text; a space means as little.
        let shown = |text: &'_ String| {
            if text.trim().is_empty() {
                " ".to_owned()
            } else {
                text.clone()
            }
        };
        let texts: Vec<String> = texts.iter().map(shown).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let answer = self.ask(&texts).await.map_err(|error| EmbedError::Endpoint {
            message: error.to_string(),
        })?;
        let mut items = answer.data;
        if items.len() != texts.len() {
            return Err(EmbedError::WrongCount {
                asked: texts.len(),
                found: items.len(),
            });
        }
        // The order is the texts' unless the server says otherwise.
        items.sort_by_key(|item| item.index.unwrap_or(0));
        items.iter().map(|item| self.vector(&item.embedding)).collect()
    }
}
