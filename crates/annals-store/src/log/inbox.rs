//! What waits for a conversation's owner: prompts, steers, cancels, decisions, posted by anybody at any time.

use std::time::Duration;

use annals_core::block::BlobDigest;
use annals_core::ids::ConversationKey;
use annals_core::time::Timestamp;
use async_trait::async_trait;
use futures::stream::BoxStream;
use sha2::{Digest as _, Sha256};

use super::{BlockLog, ConversationInfo, Lease, LogError, Owner, StoredAnswer, digests_in};

/// For at least this long after a post, its client key is known, also when the row has been consumed.
pub const CLIENT_KEY_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// A row of the inbox; later posts of a conversation have higher ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InboxId(u64);

impl InboxId {
    /// The row of this number, given out by a backend.
    pub fn new(number: u64) -> Self {
        InboxId(number)
    }

    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }
}

/// What to post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Post {
    /// The sender's name for it: posting it again changes nothing.
    pub client_key: String,
    /// What it is: `prompt`, `steer`, … The store does not look at it.
    pub kind: String,
    /// Its content. The store does not look at it.
    pub body: Vec<u8>,
    /// What its request is answered, if it may be sent again: see [`Answers`](super::Answers). Not part of what waits.
    pub answer: Option<StoredAnswer>,
}

impl Post {
    /// A post without an answer of its own.
    pub fn new(client_key: impl Into<String>, kind: impl Into<String>, body: impl Into<Vec<u8>>) -> Self {
        Post {
            client_key: client_key.into(),
            kind: kind.into(),
            body: body.into(),
            answer: None,
        }
    }

    /// With what its request is answered.
    #[must_use]
    pub fn answering(mut self, answer: Option<StoredAnswer>) -> Self {
        self.answer = answer;
        self
    }
}

impl Post {
    /// Tells it from another post under the same key: for backends that keep the digest after the body is consumed.
    pub fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update((self.kind.len() as u64).to_le_bytes());
        hash.update(&self.kind);
        hash.update(&self.body);
        hash.finalize().into()
    }
}

/// The digests that the body of a post names, anywhere in it: while it waits, their bytes must be kept.
pub fn named_in_post(body: &[u8]) -> Vec<BlobDigest> {
    let mut named = Vec::new();
    digests_in(&String::from_utf8_lossy(body), &mut named);
    named
}

/// What became of a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// It waits.
    New(InboxId),
    /// It was posted before; it may have been consumed since.
    Duplicate(InboxId),
}

impl Posted {
    /// Its row.
    pub fn id(self) -> InboxId {
        match self {
            Posted::New(id) | Posted::Duplicate(id) => id,
        }
    }
}

/// A row that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Its place in line.
    pub id: InboxId,
    /// What was posted.
    pub post: Post,
    /// When, by the store's clock.
    pub posted: Timestamp,
}

/// A conversation that was just taken, with what its new owner begins with.
#[derive(Clone, Debug)]
pub struct Taken {
    /// The right to write.
    pub lease: Lease,
    /// What is known of it apart from its blocks.
    pub info: ConversationInfo,
    /// What waits, the oldest first.
    pub pending: Vec<Pending>,
}

/// The inbox of every conversation.
///
/// 1. **Durable when `Ok`**, as in [`BlockLog`](super::BlockLog).
/// 2. **Consumed once.** A row waits until an append names it in [`consumes`](super::Append::consumes), and is gone in the
///    same commit. An append that names a row which does not wait there changes nothing and fails with
///    [`Stale::Inbox`](super::Stale::Inbox).
/// 3. **Posted once.** A client key that was used for this conversation within [`CLIENT_KEY_KEPT`] gives
///    [`Posted::Duplicate`]; with another kind or body it fails with [`LogError::KeyReused`].
/// 4. **Not overtaken.** An append that [has seen](super::Append::having_seen) the posts up to a row takes effect only while
///    no later one waits, so that a turn does not end past a post that was acknowledged before.
/// 5. **A post is work**: the conversation is due at once, as [`Claims`](super::Claims) says.
#[async_trait]
pub trait Inbox: BlockLog {
    /// Posts to a conversation, whoever holds it.
    async fn post(&self, key: &ConversationKey, post: Post) -> Result<Posted, LogError>;

    /// What waits, the oldest first.
    async fn pending(&self, key: &ConversationKey) -> Result<Vec<Pending>, LogError>;

    /// Takes the right to write as [`acquire`](BlockLog::acquire) does, and reads what the owner begins with.
    async fn take(&self, key: &ConversationKey, owner: &Owner, ttl: Duration) -> Result<Taken, LogError> {
        let lease = self.acquire(key, owner, ttl).await?;
        let (info, pending) = (self.get(key).await?, self.pending(key).await?);
        Ok(Taken { lease, info, pending })
    }

    /// Posts, and then takes the right to write. The post stands whether or not that succeeds: it fails with
    /// [`LogError::Held`] where another has the conversation. A backend that can does both in one commit.
    async fn post_and_take(
        &self,
        key: &ConversationKey,
        post: Post,
        owner: &Owner,
        ttl: Duration,
    ) -> Result<(Posted, Result<Taken, LogError>), LogError> {
        let posted = self.post(key, post).await?;
        Ok((posted, self.take(key, owner, ttl).await))
    }

    /// Tells of every row after one (`None`: of all): its item is the highest id so far, so a slow reader skips some.
    /// Ends with an error when the conversation is gone.
    fn posted(
        &self,
        key: &ConversationKey,
        after: Option<InboxId>,
    ) -> BoxStream<'static, Result<InboxId, LogError>>;
    /// The same for a caller that looks into the inbox after this call: what was posted before it need not be told, which
    /// may save a look into the store.
    fn posted_later(&self, key: &ConversationKey) -> BoxStream<'static, Result<InboxId, LogError>> {
        self.posted(key, None)
    }
}
