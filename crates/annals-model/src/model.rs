//! The trait every model implements, and what it is asked.
//!
//! Keeps no vendor's wire form and no retry: a model does one attempt, a decorator does more.

use std::collections::HashMap;
use std::sync::Arc;

use annals_core::block::BlobDigest;
use annals_core::tokens::MediaRule;
pub use annals_core::view::Layout;
use annals_core::view::prompt::Prompt;
use async_trait::async_trait;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::error::ModelError;
use crate::event::Event;
use crate::usage::Price;

/// What a model answers with. It ends after [`Event::Finished`] or after its first error.
pub type EventStream = BoxStream<'static, Result<Event, ModelError>>;

/// A language model.
///
/// Rules for implementors:
/// - one call is one attempt; a failure is returned, never retried or hidden;
/// - a stream that ended without [`Event::Finished`] or an error is a defect: silence is an error
///   ([`ModelError::CutOff`], [`ModelError::Stalled`]), so that no half answer is taken for a whole one;
/// - cancelling ends the call within moments, with [`ModelError::Cancelled`];
/// - calls do not wait for each other.
#[async_trait]
pub trait Model: Send + Sync {
    /// The name in full, such as `anthropic:claude-sonnet-4-5` or `script:demo`.
    fn name(&self) -> &str;

    /// How much fits in, and how much may come out.
    fn window(&self) -> Window;

    /// By which rule the provider counts pictures and documents.
    fn media_rule(&self) -> MediaRule {
        MediaRule::default()
    }

    /// What tokens cost, if known.
    fn price(&self) -> Option<Price> {
        None
    }

    /// Asks. An error here means that nothing was streamed.
    async fn stream(&self, request: Request, cancel: &CancellationToken) -> Result<EventStream, ModelError>;
}

#[async_trait]
impl<M: Model + ?Sized> Model for Arc<M> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn window(&self) -> Window {
        (**self).window()
    }

    fn media_rule(&self) -> MediaRule {
        (**self).media_rule()
    }

    fn price(&self) -> Option<Price> {
        (**self).price()
    }

    async fn stream(&self, request: Request, cancel: &CancellationToken) -> Result<EventStream, ModelError> {
        (**self).stream(request, cancel).await
    }
}

/// How many tokens a model takes and gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Prompt and answer together.
    pub context_tokens: u32,
    /// The longest answer.
    pub max_output_tokens: u32,
}

/// Why the model is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Purpose {
    /// The next step of a turn.
    #[default]
    Turn,
    /// A summary of what a compaction will no longer show.
    Summary,
}

/// One question to a model. Cheap to clone: text and bytes are shared.
#[derive(Clone, Debug)]
pub struct Request {
    /// What it is sent.
    pub prompt: Arc<Prompt>,
    /// The bytes of the prompt's media pieces; one that is missing is named in a text note instead.
    pub media: HashMap<BlobDigest, Arc<[u8]>>,
    /// The longest answer wanted.
    pub max_tokens: u32,
    /// How the prompt is laid out; in the timeline layout no tools are offered to the provider.
    pub layout: Layout,
    /// Why the model is asked.
    pub purpose: Purpose,
    /// What the answer must fit. A provider that has no way to say so leaves it out; who asks validates all the same.
    pub answer_schema: Option<Arc<Value>>,
    /// What requests with a common beginning share, so that a provider sends them where that is cached.
    pub cache_key: Option<Arc<str>>,
    /// The same view as timeline text, which a script's `expect` is matched against.
    pub rendered: Option<Arc<str>>,
}

impl Request {
    /// A step of a turn in chat layout, without media.
    pub fn new(prompt: impl Into<Arc<Prompt>>, max_tokens: u32) -> Self {
        Request {
            prompt: prompt.into(),
            media: HashMap::new(),
            max_tokens,
            layout: Layout::default(),
            purpose: Purpose::default(),
            answer_schema: None,
            cache_key: None,
            rendered: None,
        }
    }
}
