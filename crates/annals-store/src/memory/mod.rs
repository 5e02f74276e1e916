//! A log that lives and dies with the process: for tests, demos and as the plainest statement of the contract.
//!
//! It keeps every rule of a [`Store`](crate::log::Store) except that nothing survives the process.

mod recall;
mod state;
mod strand;

pub use recall::MemoryRecall;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use annals_core::block::{BlobDigest, Block};
use annals_core::ids::{ConversationKey, NodeId, Scope, Seq};
use annals_embed::Embedder;
use async_trait::async_trait;
use futures::stream::BoxStream;

use self::state::State;
use crate::clock::{Clock, SystemClock};
use crate::log::{
    Answers, Append, AskingPage, BlockLog, Claimed, Claims, ConversationInfo, Cursor, Followers,
    IdempotencyKey, Inbox, InboxId, Lease, Listing, LogError, Mark, Member, Members, NewConversation, Owner,
    Pending, Post, Posted, StoredAnswer, Tails, Token, TokenHash, Tokens,
};

/// A block log in memory.
pub struct MemoryLog {
    /// One lock: no operation holds it across an await, and all are short.
    state: Arc<Mutex<State>>,
    followers: Arc<Followers>,
    clock: Arc<dyn Clock>,
}

impl Default for MemoryLog {
    fn default() -> Self {
        MemoryLog::with_clock(SystemClock)
    }
}

impl std::fmt::Debug for MemoryLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryLog").finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while holding these locks half-way through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryLog {
    /// A log whose leases live by this clock.
    pub fn with_clock(clock: impl Clock + 'static) -> Self {
        MemoryLog {
            state: Arc::default(),
            followers: Arc::default(),
            clock: Arc::new(clock),
        }
    }

    /// Memory search over this log, whose vectors this embedder makes.
    pub fn recall(&self, embedder: Arc<dyn Embedder>) -> MemoryRecall {
        MemoryRecall {
            state: Arc::clone(&self.state),
            embedder,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Reads a conversation's mark when it is polled.
    fn mark(&self, key: &ConversationKey) -> impl Future<Output = Result<Mark, LogError>> + Send + 'static {
        let (state, key) = (Arc::clone(&self.state), key.clone());
        async move { Ok(lock(&state).find(&key)?.mark()) }
    }
}

#[async_trait]
impl BlockLog for MemoryLog {
    async fn create(&self, new: NewConversation) -> Result<(), LogError> {
        let now = self.clock.now();
        self.state().create(new, now)
    }

    async fn get(&self, key: &ConversationKey) -> Result<ConversationInfo, LogError> {
        Ok(self.state().find(key)?.info())
    }

    async fn list(&self, scope: &Scope, cursor: Option<Cursor>, limit: usize) -> Result<Listing, LogError> {
        let before = cursor.map(|cursor| cursor.number()).transpose()?;
        Ok(self.state().list(scope, before, limit))
    }

    async fn asking(
        &self,
        scope: &Scope,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<AskingPage, LogError> {
        let after = cursor.map(|cursor| cursor.number()).transpose()?;
        Ok(self.state().asking(scope, after.unwrap_or(0), limit))
    }

    async fn acquire(&self, key: &ConversationKey, owner: &Owner, ttl: Duration) -> Result<Lease, LogError> {
        let now = self.clock.now();
        self.state().acquire(key, owner, ttl, now)
    }

    async fn renew(&self, lease: &Lease) -> Result<(), LogError> {
        let now = self.clock.now();
        self.state().held(lease)?.keep(lease, now);
        Ok(())
    }

    async fn release(&self, lease: &Lease) -> Result<(), LogError> {
        match self.state().held(lease) {
            Ok(conversation) => {
                conversation.free();
                Ok(())
            }
            Err(LogError::Conflict { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn append(&self, lease: &Lease, append: Append) -> Result<Option<Seq>, LogError> {
        let now = self.clock.now();
        let tail = self.state().append(lease, append, now)?;
        let mark = Mark { tail, posted: None };
        self.followers.advance(lease.key(), mark);
        Ok(tail)
    }

    async fn read(&self, key: &ConversationKey, from: Seq, limit: usize) -> Result<Vec<Block>, LogError> {
        let strand = self.state().find(key)?.strand();
        let mut found = Vec::new();
        let to = from.get().saturating_add(limit as u64).saturating_sub(1);
        strand.read(from.get(), to, &mut found);
        Ok(found)
    }

    async fn fork(&self, parent: &ConversationKey, at: Seq, new: NewConversation) -> Result<(), LogError> {
        let now = self.clock.now();
        self.state().fork(parent, at, new, now)
    }

    async fn delete(&self, lease: &Lease) -> Result<(), LogError> {
        self.state().remove(lease)?;
        self.followers.end(lease.key());
        Ok(())
    }

    async fn named_blobs(
        &self,
        after: Option<BlobDigest>,
        limit: usize,
    ) -> Result<Vec<BlobDigest>, LogError> {
        let mut named = BTreeSet::new();
        self.state().name_blobs(&mut named);
        let rest = named
            .into_iter()
            .filter(|digest| after.is_none_or(|after| *digest > after));
        Ok(rest.take(limit).collect())
    }
}

#[async_trait]
impl Inbox for MemoryLog {
    async fn post(&self, key: &ConversationKey, post: Post) -> Result<Posted, LogError> {
        let now = self.clock.now();
        let posted = self.state().post(key, post, now)?;
        self.followers.advance(key, Mark::of_post(posted.id()));
        Ok(posted)
    }

    async fn pending(&self, key: &ConversationKey) -> Result<Vec<Pending>, LogError> {
        Ok(self.state().find(key)?.pending())
    }

    fn posted(
        &self,
        key: &ConversationKey,
        after: Option<InboxId>,
    ) -> BoxStream<'static, Result<InboxId, LogError>> {
        self.followers.posts(key, after, self.mark(key))
    }
}

#[async_trait]
impl Claims for MemoryLog {
    async fn claim(&self, owner: &Owner, ttl: Duration, limit: usize) -> Result<Vec<Claimed>, LogError> {
        let now = self.clock.now();
        self.state().claim(owner, ttl, limit, now)
    }
}

#[async_trait]
impl Members for MemoryLog {
    async fn join(&self, node: &NodeId, address: Option<&str>, ttl: Duration) -> Result<Owner, LogError> {
        let now = self.clock.now();
        Ok(self.state().join(node, address, ttl, now))
    }

    async fn beat(&self, owner: &Owner) -> Result<(), LogError> {
        let now = self.clock.now();
        self.state().beat(owner, now)
    }

    async fn leave(&self, owner: &Owner) -> Result<(), LogError> {
        self.state().leave(owner);
        Ok(())
    }

    async fn alive(&self) -> Result<Vec<Member>, LogError> {
        let now = self.clock.now();
        Ok(self.state().alive(now))
    }
}

#[async_trait]
impl Answers for MemoryLog {
    async fn answered(&self, to: &IdempotencyKey) -> Result<Option<StoredAnswer>, LogError> {
        let now = self.clock.now();
        Ok(self.state().answered(to, now).cloned())
    }

    async fn keep_answer(&self, answer: StoredAnswer) -> Result<(), LogError> {
        let now = self.clock.now();
        let mut state = self.state();
        state.check_answer(Some(&answer), now)?;
        state.keep_answer(Some(answer), now);
        Ok(())
    }
}

#[async_trait]
impl Tokens for MemoryLog {
    async fn add_token(&self, token: Token) -> Result<(), LogError> {
        self.state().add_token(token)
    }

    async fn find_token(&self, hash: &TokenHash) -> Result<Option<Token>, LogError> {
        let now = self.clock.now();
        Ok(self.state().find_token(hash, now).cloned())
    }

    async fn tokens(&self) -> Result<Vec<Token>, LogError> {
        Ok(self.state().tokens())
    }

    async fn revoke_token(&self, name: &str) -> Result<bool, LogError> {
        Ok(self.state().revoke_token(name))
    }

    async fn server_key(&self, name: &str, fresh: [u8; 32]) -> Result<[u8; 32], LogError> {
        Ok(self.state().server_key(name, fresh))
    }
}

impl Tails for MemoryLog {
    fn follow(&self, key: &ConversationKey, after: Option<Seq>) -> BoxStream<'static, Result<Seq, LogError>> {
        self.followers.tails(key, after, self.mark(key))
    }
}
