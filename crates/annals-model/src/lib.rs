//! Language models behind one streaming trait.
//!
//! A model is asked once per step of a turn and answers with a stream of small events. Nothing here runs a tool,
//! keeps a conversation or reads the environment: prompts, keys, timeouts and randomness come in from outside.
//! Read in this order:
//!
//! 1. [`model`]: the trait, what is asked;
//! 2. [`event`], [`answer`], [`usage`], [`error`]: what comes back, folded, counted, or gone wrong;
//! 3. [`script`]: a file that plays the model, for demos, tests and replays;
//! 4. `openai`, `anthropic`: the two wire forms, over [`wire`], each by a feature of its own (`openai` and `ollama`,
//!    `anthropic`);
//! 5. [`retry`]: a decorator that tries again;
//! 6. [`catalog`], [`cache_sim`]: windows and prices of known models, a provider's cache rules as a simulation;
//! 7. [`spec`]: from `anthropic:NAME` to a model ready to be asked;
//! 8. `embeddings` (with `openai` or `ollama`): vectors of texts, from any server that speaks OpenAI's form.

#![forbid(unsafe_code)]

pub mod answer;
#[cfg(feature = "anthropic")]
pub mod anthropic;
pub mod cache_sim;
pub mod catalog;
#[cfg(any(feature = "openai", feature = "ollama"))]
pub mod embeddings;
pub mod error;
pub mod event;
pub mod model;
#[cfg(any(feature = "openai", feature = "ollama"))]
pub mod openai;
pub mod retry;
pub mod script;
pub mod spec;
#[cfg_attr(
    not(feature = "anthropic"),
    allow(dead_code, reason = "only some providers sign their reasoning")
)]
mod thinking;
pub mod usage;
#[cfg_attr(
    not(all(feature = "anthropic", any(feature = "openai", feature = "ollama"))),
    allow(dead_code, reason = "no provider needs everything that they share")
)]
pub mod wire;

pub use answer::{Answer, Assembler, RawCall, Thinking};
pub use catalog::{Catalog, Known, Wire};
#[cfg(any(feature = "openai", feature = "ollama"))]
pub use embeddings::{EmbeddingsEndpoint, EmbeddingsSpec};
pub use error::{ModelError, StallPhase};
pub use event::{Event, StopReason};
pub use model::{EventStream, Layout, Model, Purpose, Request, Window};
pub use retry::{Jitter, MidStream, RetryPolicy, Retrying};
pub use script::ScriptModel;
pub use spec::{CacheLife, ModelName, ModelNameError, ModelSpec, OpenError, Provider, Reasoning, open};
pub use usage::{Cost, LongPrice, Price, Usage};
#[cfg(feature = "http")]
pub use wire::EndpointError;
pub use wire::{ApiKey, Timeouts};
