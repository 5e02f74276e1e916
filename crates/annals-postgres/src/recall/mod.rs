//! Memory search beside the log, in the same database.
//!
//! `index` brings conversations into the index, `lag` says when, `removal` takes out what left the log, `lexical` looks words
//! up, `search` reads what a search needs, `upkeep` makes missing vectors and rebuilds. What is remembered, how it is cut
//! and how it is ranked is `annals_store::recall`'s, the same for every backend.
//!
//! Nothing of it happens inside an append. Nodes may index at the same time: whoever does locks the conversation's row of
//! bookkeeping, and what it says decides what is missing, so that nothing is added twice. Nothing here is a second truth.

mod index;
mod lag;
mod lexical;
mod removal;
mod search;
mod upkeep;

use std::sync::Arc;

use annals_core::block::Block;
use annals_embed::{Embedder, Vector};
use annals_store::LogError;
use annals_store::recall::matrix::Matrices;
use annals_store::recall::source::{PASSAGE_BITS, Source};
use annals_store::recall::{
    Progress, Query, Recall, RecallHits, RecallIndex, ReindexError, Shortfall, vector_of,
};
use async_trait::async_trait;
use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use self::index::Locked;
pub(crate) use self::lag::LAG_MAX_PASSAGES;
use self::lag::Lag;
pub(crate) use self::removal::forget;
use self::search::{CatchUp, Looked};
use crate::archive::{Archives, Fetched, Rounds};
use crate::fault::Fault;
use crate::pool::{Pool, attempt};

/// A chunk holds the places that differ in these bits only.
const CHUNK_BITS: u32 = 8;

/// Conversations with higher keys have no numbers for their passages.
const KEY_MAX: i64 = 1 << (i64::BITS - 1 - PASSAGE_BITS);

/// Finds what was said in the conversations of a [`PostgresLog`](crate::PostgresLog). Cheap to clone.
#[derive(Clone)]
pub struct PostgresRecall {
    pool: Arc<Pool>,
    archives: Arc<Archives>,
    embedder: Arc<dyn Embedder>,
    matrices: Arc<Matrices>,
    lag: Arc<Lag>,
    /// Held by whoever is making missing vectors.
    filling: Arc<tokio::sync::Mutex<()>>,
}

impl std::fmt::Debug for PostgresRecall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresRecall")
            .field("embedder", &self.embedder.identity())
            .finish_non_exhaustive()
    }
}

impl PostgresRecall {
    pub(crate) fn new(
        pool: &Arc<Pool>,
        archives: &Arc<Archives>,
        embedder: Arc<dyn Embedder>,
        lag_max_passages: usize,
    ) -> Self {
        PostgresRecall {
            pool: Arc::clone(pool),
            archives: Arc::clone(archives),
            embedder,
            matrices: Arc::default(),
            lag: Arc::new(Lag::new(lag_max_passages)),
            filling: Arc::default(),
        }
    }

    /// Blocks were appended to the conversation of this row.
    pub(crate) fn appended(&self, conversation: i64, about: lag::About) {
        if self.lag.note(conversation, about) {
            self.follow_in_background();
        }
    }

    /// About how much of these blocks is to be indexed.
    pub(crate) fn about(blocks: &[Block]) -> lag::About {
        lag::About::of(blocks)
    }

    async fn look(
        &self,
        query: &Query,
        vector: Option<&Vector>,
        catch_up: CatchUp,
    ) -> Result<Looked, LogError> {
        let identity = self.embedder.identity();
        attempt!(self.pool, |client, attempts| search::look(
            client,
            &self.matrices,
            identity,
            (query, vector),
            catch_up
        ))
    }

    /// Brings conversations up to the log, whoever else is at it.
    pub(crate) async fn catch_up_with(&self, mut keys: Vec<i64>) -> Result<(), LogError> {
        while !keys.is_empty() {
            keys = self.step(&keys, Locked::Wait).await?.left;
        }
        Ok(())
    }

    async fn step(&self, keys: &[i64], locked: Locked) -> Result<index::Step, LogError> {
        let mut rounds = Rounds::default();
        loop {
            let step: Result<Fetched<index::Step>, LogError> =
                attempt!(self.pool, |client, attempts| index::advance(
                    client,
                    &self.embedder,
                    keys,
                    locked
                ));
            match step? {
                Fetched::Done(step) => return Ok(step),
                Fetched::Archived(number) => self.archives.bring_back(number, &mut rounds).await?,
            }
        }
    }
}

#[async_trait]
impl Recall for PostgresRecall {
    async fn search(&self, query: Query) -> Result<RecallHits, LogError> {
        let (vector, shortfall) = match vector_of(&query, &*self.embedder).await {
            Ok(vector) => (vector, None),
            Err(shortfall) => (None, Some(shortfall)),
        };
        let (mut catch_up, mut rounds) = (CatchUp::Wait, Rounds::default());
        let mut found = loop {
            match self.look(&query, vector.as_ref(), catch_up).await? {
                Looked::Done(found) => break found,
                Looked::Archived(number) => self.archives.bring_back(number, &mut rounds).await?,
                Looked::Behind { keys, epoch } => {
                    self.catch_up_with(keys).await?;
                    catch_up = CatchUp::Waited { epoch };
                }
            }
        };
        if matches!(found.shortfall, Some(Shortfall::Pending { .. })) {
            self.fill_in_background();
        }
        found.shortfall = shortfall.or(found.shortfall);
        Ok(found)
    }
}

#[async_trait]
impl RecallIndex for PostgresRecall {
    fn embedder(&self) -> &Arc<dyn Embedder> {
        &self.embedder
    }

    async fn reindex(
        &self,
        seen: &mut (dyn FnMut(Progress) -> bool + Send),
    ) -> Result<Progress, ReindexError> {
        self.rebuild(seen).await
    }

    async fn catch_up(&self) -> Result<Progress, ReindexError> {
        self.complete(&mut |_| true).await
    }
}

/// What the index knows of itself.
struct State {
    /// Rises with each rebuild.
    epoch: i64,
    /// Whose vectors there are.
    embedder: Option<String>,
}

impl State {
    /// Notes that vectors are of this embedder, if there are none yet: a change of mind is a reindex.
    async fn claim(self, tx: &Transaction<'_>, identity: &str) -> Result<Self, Fault> {
        if self.embedder.is_some() {
            return Ok(self);
        }
        tx.query_typed(
            "UPDATE annals.recall_state SET embedder = $1 WHERE embedder IS NULL",
            &[(&identity, Type::TEXT)],
        )
        .await?;
        // Somebody else may have been first.
        Self::read(tx).await
    }

    /// Whether vectors of this embedder may be compared with those that are there.
    fn is_of(&self, identity: &str) -> bool {
        self.embedder.as_deref().is_none_or(|found| found == identity)
    }

    async fn read(tx: &Transaction<'_>) -> Result<Self, Fault> {
        let row = tx
            .query_typed_one("SELECT epoch, embedder FROM annals.recall_state", &[])
            .await?;
        Ok(State {
            epoch: row.get(0),
            embedder: row.get(1),
        })
    }
}

/// The chunks of a conversation, from the first to before the last.
fn chunks(conversation: i64) -> (i64, i64) {
    let bits = PASSAGE_BITS - CHUNK_BITS;
    (conversation << bits, (conversation + 1) << bits)
}

/// A conversation as its row of bookkeeping says.
fn source_of(conversation: i64, next: i64, upto: i64) -> Source {
    Source {
        conversation,
        first: (conversation < KEY_MAX).then_some(conversation << PASSAGE_BITS),
        next,
        upto,
    }
}
