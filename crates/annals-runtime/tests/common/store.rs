//! A store in front of another one, which can be replaced while it is used, with faults on demand.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use annals_core::block::{BlobDigest, Block};
use annals_core::ids::{ConversationKey, NodeId, Scope, Seq};
use annals_store::{
    Answers, Append, AskingPage, BlockLog, Claimed, Claims, ConversationInfo, Cursor, IdempotencyKey, Inbox,
    InboxId, Lease, Listing, LogError, Member, Members, NewConversation, Owner, Pending, Post, Posted, Store,
    StoredAnswer, Tails, Token, Tokens,
};
use futures::stream::BoxStream;

pub struct FrontStore {
    inner: RwLock<Arc<dyn Store>>,
    /// The process dies at the append that makes this 0.
    appends_left: AtomicUsize,
    death: Death,
    /// How many looks into inboxes fail from now on.
    pub failing_pendings: AtomicUsize,
    /// How long the answer to the next acquire takes.
    pub slow_acquire: Mutex<Option<Duration>>,
    /// How often a lease was renewed.
    pub renewed: AtomicUsize,
}

/// Just before an append, or just after it became durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    BeforeAppend,
    AfterAppend,
}

impl FrontStore {
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self::dying(inner, usize::MAX, Death::BeforeAppend)
    }

    /// One whose process dies at the n-th append.
    pub fn dying(inner: Arc<dyn Store>, at_append: usize, death: Death) -> Self {
        FrontStore {
            inner: RwLock::new(inner),
            appends_left: AtomicUsize::new(at_append),
            death,
            failing_pendings: AtomicUsize::new(0),
            slow_acquire: Mutex::default(),
            renewed: AtomicUsize::new(0),
        }
    }

    /// Another store takes the place of the one behind.
    pub fn replace(&self, inner: Arc<dyn Store>) {
        *self.inner.write().unwrap() = inner;
    }

    fn inner(&self) -> Arc<dyn Store> {
        self.inner.read().unwrap().clone()
    }
}

#[async_trait::async_trait]
impl BlockLog for FrontStore {
    async fn create(&self, new: NewConversation) -> Result<(), LogError> {
        self.inner().create(new).await
    }
    async fn get(&self, id: &ConversationKey) -> Result<ConversationInfo, LogError> {
        self.inner().get(id).await
    }
    async fn list(&self, scope: &Scope, cursor: Option<Cursor>, limit: usize) -> Result<Listing, LogError> {
        self.inner().list(scope, cursor, limit).await
    }
    async fn asking(
        &self,
        scope: &Scope,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<AskingPage, LogError> {
        self.inner().asking(scope, cursor, limit).await
    }
    async fn acquire(&self, key: &ConversationKey, owner: &Owner, ttl: Duration) -> Result<Lease, LogError> {
        let lease = self.inner().acquire(key, owner, ttl).await;
        // The answer takes its time.
        let slow = self.slow_acquire.lock().unwrap().take();
        tokio::time::sleep(slow.unwrap_or_default()).await;
        lease
    }
    async fn renew(&self, lease: &Lease) -> Result<(), LogError> {
        self.renewed.fetch_add(1, Ordering::SeqCst);
        self.inner().renew(lease).await
    }
    async fn release(&self, lease: &Lease) -> Result<(), LogError> {
        self.inner().release(lease).await
    }
    async fn append(&self, lease: &Lease, append: Append) -> Result<Option<Seq>, LogError> {
        let left = self.appends_left.fetch_sub(1, Ordering::SeqCst);
        match (left, self.death) {
            (1, Death::BeforeAppend) => Err(LogError::Closed),
            (1, Death::AfterAppend) => {
                self.inner().append(lease, append).await?;
                Err(LogError::Closed)
            }
            _ => self.inner().append(lease, append).await,
        }
    }
    async fn read(&self, id: &ConversationKey, from: Seq, limit: usize) -> Result<Vec<Block>, LogError> {
        self.inner().read(id, from, limit).await
    }
    async fn fork(&self, parent: &ConversationKey, at: Seq, new: NewConversation) -> Result<(), LogError> {
        self.inner().fork(parent, at, new).await
    }
    async fn named_blobs(
        &self,
        after: Option<BlobDigest>,
        limit: usize,
    ) -> Result<Vec<BlobDigest>, LogError> {
        self.inner().named_blobs(after, limit).await
    }
    async fn delete(&self, lease: &Lease) -> Result<(), LogError> {
        self.inner().delete(lease).await
    }
}

#[async_trait::async_trait]
impl Inbox for FrontStore {
    async fn post(&self, key: &ConversationKey, post: Post) -> Result<Posted, LogError> {
        self.inner().post(key, post).await
    }
    async fn pending(&self, key: &ConversationKey) -> Result<Vec<Pending>, LogError> {
        let has_fault = |left: usize| left.checked_sub(1);
        let faults = &self.failing_pendings;
        match faults.fetch_update(Ordering::SeqCst, Ordering::SeqCst, has_fault) {
            Ok(_) => Err(LogError::Busy { log: "test".into() }),
            Err(_) => self.inner().pending(key).await,
        }
    }
    fn posted(
        &self,
        key: &ConversationKey,
        after: Option<InboxId>,
    ) -> BoxStream<'static, Result<InboxId, LogError>> {
        self.inner().posted(key, after)
    }
}

#[async_trait::async_trait]
impl Claims for FrontStore {
    async fn claim(&self, owner: &Owner, ttl: Duration, limit: usize) -> Result<Vec<Claimed>, LogError> {
        self.inner().claim(owner, ttl, limit).await
    }
}

#[async_trait::async_trait]
impl Members for FrontStore {
    async fn join(&self, node: &NodeId, address: Option<&str>, ttl: Duration) -> Result<Owner, LogError> {
        self.inner().join(node, address, ttl).await
    }
    async fn beat(&self, owner: &Owner) -> Result<(), LogError> {
        self.inner().beat(owner).await
    }
    async fn leave(&self, owner: &Owner) -> Result<(), LogError> {
        self.inner().leave(owner).await
    }
    async fn alive(&self) -> Result<Vec<Member>, LogError> {
        self.inner().alive().await
    }
}

#[async_trait::async_trait]
impl Answers for FrontStore {
    async fn answered(&self, to: &IdempotencyKey) -> Result<Option<StoredAnswer>, LogError> {
        self.inner().answered(to).await
    }
    async fn keep_answer(&self, answer: StoredAnswer) -> Result<(), LogError> {
        self.inner().keep_answer(answer).await
    }
}

#[async_trait::async_trait]
impl Tokens for FrontStore {
    async fn add_token(&self, token: Token) -> Result<(), LogError> {
        self.inner().add_token(token).await
    }
    async fn find_token(&self, hash: &[u8; 32]) -> Result<Option<Token>, LogError> {
        self.inner().find_token(hash).await
    }
    async fn tokens(&self) -> Result<Vec<Token>, LogError> {
        self.inner().tokens().await
    }
    async fn revoke_token(&self, name: &str) -> Result<bool, LogError> {
        self.inner().revoke_token(name).await
    }
    async fn server_key(&self, name: &str, fresh: [u8; 32]) -> Result<[u8; 32], LogError> {
        self.inner().server_key(name, fresh).await
    }
}

impl Tails for FrontStore {
    fn follow(&self, key: &ConversationKey, after: Option<Seq>) -> BoxStream<'static, Result<Seq, LogError>> {
        self.inner().follow(key, after)
    }
}
