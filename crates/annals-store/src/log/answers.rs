//! What was answered to a request that may be sent again: kept in the commit of its effect, so that both are there or
//! neither.

use std::time::Duration;

use annals_core::ids::Scope;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::LogError;

/// For at least this long, an answer is known.
pub const ANSWER_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// What a client calls one request, within its scope and route.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct IdempotencyKey {
    /// Whose request.
    pub scope: Scope,
    /// Which method and path.
    pub route: String,
    /// The client's name for it.
    pub key: String,
}

/// An answer with what it answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredAnswer {
    /// What it answers.
    pub to: IdempotencyKey,
    /// The digest of the request, to tell a request sent again from another one under the same key.
    pub digest: [u8; 32],
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// Answers to requests that may be sent again.
///
/// 1. **With the effect.** [`Append`](super::Append), [`Post`](super::Post) and
///    [`NewConversation`](super::NewConversation) may carry an answer: it is kept in their commit.
/// 2. **Once.** An effect that carries an answer to a key that was answered within [`ANSWER_KEPT`] changes nothing and
///    fails with [`LogError::Answered`]; the caller then reads the first answer. Of two requests at once one takes effect.
#[async_trait]
pub trait Answers: Send + Sync {
    /// What was answered to this key.
    async fn answered(&self, to: &IdempotencyKey) -> Result<Option<StoredAnswer>, LogError>;

    /// Keeps the answer to a request whose effect is not in the store, or whose repetition changes nothing.
    async fn keep_answer(&self, answer: StoredAnswer) -> Result<(), LogError>;
}
