//! The ports of a store, on one database.

use std::sync::Arc;
use std::time::Duration;

use annals_core::block::{Blob, BlobDigest, Block};
use annals_core::ids::{ConversationKey, NodeId, Scope, Seq};
use annals_embed::Embedder;
use annals_store::artifacts::{Keeping, MARK, Marked, Removal};
use annals_store::log::{Archive, Archived, Idle, IdlePage, Mark, TokenHash};
use annals_store::{
    Answers, Append, ArtifactLedger, ArtifactStore, AskingPage, BlockLog, Claimed, Claims, Clock,
    ConversationInfo, Cursor, IdempotencyKey, Inbox, InboxId, Lease, Listing, LogError, Member, Members,
    NewConversation, Owner, Pending, Post, Posted, StoredAnswer, Swept, Tails, Token, Tokens,
};
use async_trait::async_trait;
use futures::stream::BoxStream;

use crate::address::Address;
use crate::answers::Keepable;
use crate::archive::{Archives, Fetched, Rounds};
use crate::pool::{Pauses, Pool, Promise, attempt};
use crate::recall::{self, PostgresRecall};
use crate::seen::Seen;
use crate::tails::{News, mark_of};
use crate::writable::Writable;
use crate::writer::Writers;
use crate::{answers, artifacts, asking, blocks, conversations, head, inbox, link, members, schema, tokens};

/// Connections that append.
const WRITERS: usize = 4;

/// For this long, what fails in a way that passes is tried again.
const PATIENCE: Duration = Duration::from_secs(30);

/// How to open a log.
#[derive(Clone)]
pub struct PostgresOptions {
    clock: Option<Arc<dyn Clock>>,
    writers: usize,
    patience: Duration,
    embedder: Option<Arc<dyn Embedder>>,
    lag_max_passages: usize,
    artifacts: Option<ArtifactStore>,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        PostgresOptions {
            clock: None,
            writers: WRITERS,
            patience: PATIENCE,
            embedder: None,
            lag_max_passages: recall::LAG_MAX_PASSAGES,
            artifacts: None,
        }
    }
}

impl PostgresOptions {
    /// With leases that live by this clock instead of the database's: for tests.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// With this many connections that append.
    pub fn writers(mut self, writers: usize) -> Self {
        self.writers = writers;
        self
    }

    /// Trying for this long what fails in a way that passes: a failover, a restart, a full server.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// With memory search, whose vectors this embedder makes. Its index follows what this node writes a few blocks behind;
    /// a search brings it up to the log first. Without it, what is written is added when somebody searches.
    pub fn recall(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.embedder = Some(embedder);
        self
    }

    /// With the artifact store in which archived conversations lie. Without it, what needs the blocks of one fails.
    pub fn artifacts(mut self, artifacts: ArtifactStore) -> Self {
        self.artifacts = Some(artifacts);
        self
    }

    /// Lets the index of memory search be behind what this node writes by about this many passages.
    #[doc(hidden)]
    pub fn lag_max_passages(mut self, passages: usize) -> Self {
        self.lag_max_passages = passages;
        self
    }
}

/// A block log on PostgreSQL, shared by any number of nodes.
///
/// Leases, memberships and due work are judged by the database's clock. Must be made and used inside a Tokio runtime.
pub struct PostgresLog {
    pool: Arc<Pool>,
    writers: Writers,
    seen: Arc<Seen>,
    news: Arc<News>,
    archives: Arc<Archives>,
    recall: Option<PostgresRecall>,
    clock: Option<Arc<dyn Clock>>,
    writable: Writable,
}

/// Which database answers. One that starts up says so, and is waited for.
async fn identify(address: &Address, patience: Duration) -> Result<schema::Identity, LogError> {
    let mut pauses = Pauses::new(patience);
    loop {
        let opened = async {
            let (wire, _) = link::open(address, &address.config).await?;
            schema::identify(&wire.client, &address.name).await
        };
        match opened.await {
            Ok(identity) => return Ok(identity),
            Err(fault) if fault.is_of_a_server_that_starts() && pauses.pause().await => {}
            Err(fault) => return Err(fault.into_log(&address.name)),
        }
    }
}

impl std::fmt::Debug for PostgresLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresLog")
            .field("address", self.pool.address())
            .finish_non_exhaustive()
    }
}

impl PostgresLog {
    /// Opens the log of a database whose tables `annals store init` has made.
    pub async fn open(address: Address, options: PostgresOptions) -> Result<Self, LogError> {
        let identity = identify(&address, options.patience).await?;
        let pool = Pool::new(address, identity, options.patience);
        let archives = Archives::new(&pool, options.artifacts, options.clock.as_ref());
        let recall = options
            .embedder
            .map(|embedder| PostgresRecall::new(&pool, &archives, embedder, options.lag_max_passages));
        let seen = Arc::<Seen>::default();
        let clock = options.clock.as_ref();
        Ok(PostgresLog {
            archives,
            recall,
            writers: Writers::start(options.writers, &pool, &seen, clock, options.patience),
            seen,
            news: News::start(&pool, options.clock.clone()),
            clock: options.clock,
            writable: Writable::default(),
            pool,
        })
    }

    /// What tells this database from every other, whichever way it is reached.
    pub fn cluster(&self) -> &str {
        &self.pool.identity().cluster
    }

    /// Memory search over this log, if it was opened with it.
    pub fn recall(&self) -> Option<&PostgresRecall> {
        self.recall.as_ref()
    }

    /// Keeps what blocks name from garbage collection until the append that names it is there.
    async fn renew_artifacts(&self, blocks: &[Block]) -> Result<(), LogError> {
        let Some(names) = artifacts::Names::of(blocks) else {
            return Ok(());
        };
        let now = self.now();
        attempt!(self.pool, |client, attempts| artifacts::renew(
            client, now, &names
        ))
    }

    /// The time of a test's clock; none where the database's counts.
    fn now(&self) -> Option<i64> {
        self.clock.as_ref().map(|clock| clock.now().unix_micros())
    }

    /// Reads a conversation's mark when it is polled, and notes that it is followed.
    fn mark(&self, key: &ConversationKey) -> impl Future<Output = Result<Mark, LogError>> + Send + 'static {
        let (pool, news, key) = (Arc::clone(&self.pool), Arc::clone(&self.news), key.clone());
        async move {
            let place = {
                let found: Result<_, LogError> =
                    attempt!(pool, |client, attempts| conversations::find(client, &key));
                found?
            };
            news.follow(&key, place.key);
            Ok(mark_of(place.tail, place.posted))
        }
    }
}

#[async_trait]
impl BlockLog for PostgresLog {
    async fn create(&self, new: NewConversation) -> Result<(), LogError> {
        let now = self.now();
        attempt!(Promise::Durable, self.pool, |client, attempts| {
            conversations::create(client, now, &new, attempts.in_doubt())
        })
    }

    async fn get(&self, key: &ConversationKey) -> Result<ConversationInfo, LogError> {
        attempt!(self.pool, |client, attempts| conversations::info(client, key))
    }

    async fn list(&self, scope: &Scope, cursor: Option<Cursor>, limit: usize) -> Result<Listing, LogError> {
        let before = cursor.map(|cursor| cursor.number()).transpose()?;
        attempt!(self.pool, |client, attempts| conversations::list(
            client, scope, before, limit
        ))
    }

    async fn asking(
        &self,
        scope: &Scope,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<AskingPage, LogError> {
        let after = cursor.map_or(Ok(0), |cursor| cursor.number())?;
        attempt!(self.pool, |client, attempts| asking::list(
            client, scope, after, limit
        ))
    }

    async fn acquire(&self, key: &ConversationKey, owner: &Owner, ttl: Duration) -> Result<Lease, LogError> {
        let now = self.now();
        attempt!(self.pool, |client, attempts| head::acquire(
            client, now, key, owner, ttl, &self.seen
        ))
    }

    async fn renew(&self, lease: &Lease) -> Result<(), LogError> {
        let now = self.now();
        attempt!(self.pool, |client, attempts| head::renew(client, now, lease))
    }

    async fn release(&self, lease: &Lease) -> Result<(), LogError> {
        attempt!(self.pool, |client, attempts| head::release(client, lease))
    }

    async fn append(&self, lease: &Lease, append: Append) -> Result<Option<Seq>, LogError> {
        self.renew_artifacts(&append.blocks).await?;
        let about = self
            .recall
            .as_ref()
            .map(|_| PostgresRecall::about(&append.blocks));
        let appended = self.writers.append(lease, append).await;
        self.writable.note(&appended);
        let tail = appended?;
        if let (Some(recall), Some(about)) = (&self.recall, about) {
            recall.appended(lease.incarnation() as i64, about);
        }
        let mark = Mark { tail, posted: None };
        self.news.advance(lease.key(), lease.incarnation() as i64, mark);
        Ok(tail)
    }

    async fn read(&self, key: &ConversationKey, from: Seq, limit: usize) -> Result<Vec<Block>, LogError> {
        let mut rounds = Rounds::default();
        loop {
            let read: Result<Fetched<Vec<Block>>, LogError> =
                attempt!(self.pool, |client, attempts| blocks::read(
                    client, key, from, limit
                ));
            match read? {
                Fetched::Done(blocks) => return Ok(blocks),
                Fetched::Archived(number) => self.archives.bring_back(number, &mut rounds).await?,
            }
        }
    }

    async fn fork(&self, parent: &ConversationKey, at: Seq, new: NewConversation) -> Result<(), LogError> {
        let (now, mut rounds) = (self.now(), Rounds::default());
        loop {
            let forked: Result<Fetched<()>, LogError> =
                attempt!(Promise::Durable, self.pool, |client, attempts| {
                    conversations::fork(client, now, (parent, at), &new, attempts.in_doubt())
                });
            match forked? {
                Fetched::Done(()) => return Ok(()),
                Fetched::Archived(number) => self.archives.bring_back(number, &mut rounds).await?,
            }
        }
    }

    async fn delete(&self, lease: &Lease) -> Result<(), LogError> {
        let deleted: Result<(), LogError> = attempt!(Promise::Durable, self.pool, |client, attempts| {
            conversations::delete(client, lease, attempts.in_doubt())
        });
        deleted?;
        self.seen.forget(lease.key());
        self.news.followers.end(lease.key());
        Ok(())
    }

    async fn named_blobs(
        &self,
        after: Option<BlobDigest>,
        limit: usize,
    ) -> Result<Vec<BlobDigest>, LogError> {
        attempt!(self.pool, |client, attempts| blocks::named(client, after, limit))
    }

    async fn check_writes(&self) -> Result<(), LogError> {
        self.writable.check(&self.pool).await
    }
}

#[async_trait]
impl Inbox for PostgresLog {
    async fn post(&self, key: &ConversationKey, post: Post) -> Result<Posted, LogError> {
        let now = self.now();
        let (number, posted) = {
            let outcome: Result<_, LogError> =
                attempt!(Promise::Durable, self.pool, |client, attempts| inbox::post(
                    client, now, key, &post
                ));
            self.writable.note(&outcome);
            outcome?
        };
        let mark = Mark {
            tail: None,
            posted: Some(posted.id()),
        };
        self.news.advance(key, number, mark);
        Ok(posted)
    }

    async fn pending(&self, key: &ConversationKey) -> Result<Vec<Pending>, LogError> {
        attempt!(self.pool, |client, attempts| inbox::pending(client, key))
    }

    fn posted(
        &self,
        key: &ConversationKey,
        after: Option<InboxId>,
    ) -> BoxStream<'static, Result<InboxId, LogError>> {
        self.news.followers.posts(key, after, self.mark(key))
    }
}

#[async_trait]
impl Claims for PostgresLog {
    async fn claim(&self, owner: &Owner, ttl: Duration, limit: usize) -> Result<Vec<Claimed>, LogError> {
        let now = self.now();
        attempt!(self.pool, |client, attempts| head::claim(
            client, now, owner, ttl, limit, &self.seen
        ))
    }
}

#[async_trait]
impl Members for PostgresLog {
    async fn join(&self, node: &NodeId, address: Option<&str>, ttl: Duration) -> Result<Owner, LogError> {
        let now = self.now();
        attempt!(self.pool, |client, attempts| members::join(
            client, now, node, address, ttl
        ))
    }

    async fn beat(&self, owner: &Owner) -> Result<(), LogError> {
        let now = self.now();
        attempt!(self.pool, |client, attempts| members::beat(client, now, owner))
    }

    async fn leave(&self, owner: &Owner) -> Result<(), LogError> {
        let now = self.now();
        attempt!(self.pool, |client, attempts| members::leave(client, now, owner))
    }

    async fn alive(&self) -> Result<Vec<Member>, LogError> {
        let now = self.now();
        attempt!(self.pool, |client, attempts| members::alive(client, now))
    }
}

#[async_trait]
impl ArtifactLedger for PostgresLog {
    async fn keeping(&self, blob: Blob) -> Result<Keeping, LogError> {
        let mut pauses = Pauses::new(2 * MARK);
        loop {
            let now = self.now();
            let kept: Result<Option<Keeping>, LogError> =
                attempt!(Promise::Durable, self.pool, |client, attempts| artifacts::keep(
                    client, now, blob
                ));
            if let Some(kept) = kept? {
                return Ok(kept);
            }
            // A collector is removing these very bytes: a matter of moments, or of its mark if it has died.
            if !pauses.pause().await {
                let log = self.pool.address().name.to_string();
                return Err(LogError::Busy { log });
            }
        }
    }

    async fn rewritten(&self, blob: Blob, removal: Removal) -> Result<bool, LogError> {
        attempt!(Promise::Durable, self.pool, |client, attempts| {
            artifacts::rewritten(client, blob, removal)
        })
    }

    async fn mark(
        &self,
        older_than: Duration,
        after: Option<BlobDigest>,
        limit: usize,
    ) -> Result<Vec<Marked>, LogError> {
        let now = self.now();
        attempt!(self.pool, |client, attempts| artifacts::mark(
            client, now, older_than, after, limit
        ))
    }

    async fn removed(&self, marks: &[Marked]) -> Result<(), LogError> {
        let now = self.now();
        attempt!(self.pool, |client, attempts| artifacts::removed(
            client, now, marks
        ))
    }

    async fn garbage(&self, older_than: Duration) -> Result<Swept, LogError> {
        let now = self.now();
        attempt!(self.pool, |client, attempts| artifacts::garbage(
            client, now, older_than
        ))
    }
}

#[async_trait]
impl Archive for PostgresLog {
    async fn idle(
        &self,
        at_least: Duration,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<IdlePage, LogError> {
        self.archives.idle(at_least, cursor, limit).await
    }

    async fn archive(&self, idle: &Idle) -> Result<Option<Archived>, LogError> {
        if let Some(recall) = &self.recall {
            // So that a search need not bring it back to read what it has never seen.
            recall.catch_up_with(vec![idle.incarnation as i64]).await?;
        }
        self.archives.archive(self, idle).await
    }
}

#[async_trait]
impl Answers for PostgresLog {
    async fn answered(&self, to: &IdempotencyKey) -> Result<Option<StoredAnswer>, LogError> {
        let now = self.now();
        attempt!(self.pool, |client, attempts| answers::find(client, now, to))
    }

    async fn keep_answer(&self, answer: StoredAnswer) -> Result<(), LogError> {
        let (now, answer) = (self.now(), Keepable::new(answer));
        attempt!(Promise::Durable, self.pool, |client, attempts| answer
            .keep(client, now))
    }
}

#[async_trait]
impl Tokens for PostgresLog {
    async fn add_token(&self, token: Token) -> Result<(), LogError> {
        attempt!(Promise::Durable, self.pool, |client, attempts| tokens::add(
            client,
            &token,
            attempts.in_doubt()
        ))
    }

    async fn find_token(&self, hash: &TokenHash) -> Result<Option<Token>, LogError> {
        let now = self.now();
        attempt!(self.pool, |client, attempts| tokens::find(client, now, hash))
    }

    async fn tokens(&self) -> Result<Vec<Token>, LogError> {
        attempt!(self.pool, |client, attempts| tokens::all(client))
    }

    async fn revoke_token(&self, name: &str) -> Result<bool, LogError> {
        attempt!(Promise::Durable, self.pool, |client, attempts| tokens::revoke(
            client,
            name,
            attempts.in_doubt()
        ))
    }

    async fn server_key(&self, name: &str, fresh: [u8; 32]) -> Result<[u8; 32], LogError> {
        attempt!(
            Promise::Durable,
            self.pool,
            |client, attempts| tokens::server_key(client, name, &fresh)
        )
    }
}

impl Tails for PostgresLog {
    fn follow(&self, key: &ConversationKey, after: Option<Seq>) -> BoxStream<'static, Result<Seq, LogError>> {
        self.news.followers.tails(key, after, self.mark(key))
    }
}
