//! Memory search beside the log, in the same file.
//!
//! `index` says what is written of a block and when, `lag` brings the index along the log, `removal` takes out what left
//! the log, `source` is a conversation's place in the index, `lexical` looks words up, `search` reads what a search needs,
//! `upkeep` makes missing vectors, and rebuilds the index. Nothing here is a second truth: all of it can be dropped and
//! made again from the log.

mod index;
mod lag;
mod lexical;
mod removal;
mod search;
mod source;
mod upkeep;

use std::sync::Arc;

use annals_embed::{Embedder, Vector};
use async_trait::async_trait;
use rusqlite::Connection;

pub(super) use self::index::{Indexer, LAG_MAX_PASSAGES};
pub(super) use self::removal::Removal;
use self::search::{Behind, CatchUp, Looked};
use super::reader::Readers;
use super::writer::Writer;
use crate::log::LogError;
use crate::recall::matrix::Matrices;
use crate::recall::{Progress, Query, Recall, RecallHits, RecallIndex, ReindexError, Shortfall, vector_of};

/// Finds what was said in the conversations of a [`SqliteLog`](super::SqliteLog). Cheap to clone.
#[derive(Clone)]
pub struct SqliteRecall {
    writer: Arc<Writer>,
    readers: Arc<Readers>,
    embedder: Arc<dyn Embedder>,
    matrices: Arc<Matrices>,
    /// Held while missing vectors are made.
    filling: Arc<tokio::sync::Mutex<()>>,
}

impl std::fmt::Debug for SqliteRecall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteRecall")
            .field("embedder", &self.embedder.identity())
            .finish_non_exhaustive()
    }
}

impl SqliteRecall {
    pub(super) fn new(writer: Arc<Writer>, readers: Arc<Readers>, embedder: Arc<dyn Embedder>) -> Self {
        SqliteRecall {
            writer,
            readers,
            embedder,
            matrices: Arc::default(),
            filling: Arc::default(),
        }
    }

    /// Who makes the vectors.
    pub fn embedder(&self) -> &Arc<dyn Embedder> {
        &self.embedder
    }

    /// Bytes of memory that vectors and what belongs to them take now, and for how many passages.
    pub fn resident(&self) -> (usize, usize) {
        self.matrices.resident()
    }

    async fn look(
        &self,
        query: &Query,
        vector: Option<&Vector>,
        catch_up: CatchUp,
    ) -> Result<Looked, LogError> {
        let (query, vector) = (query.clone(), vector.cloned());
        let (matrices, identity) = (Arc::clone(&self.matrices), self.embedder.identity().to_owned());
        self.readers
            .read(move |words, tx| {
                search::look(words, tx, &matrices, &identity, &query, vector.as_ref(), catch_up)
            })
            .await
    }

    /// Brings into the index what a search misses.
    async fn wait_for(&self, behind: Behind) -> Result<(), LogError> {
        match behind {
            Behind::Log { row } => self.catch_up_to(row).await,
            Behind::Conversations { keys, .. } => {
                for key in keys {
                    self.catch_up_with(key).await?;
                }
                Ok(())
            }
        }
    }
}

#[async_trait]
impl Recall for SqliteRecall {
    async fn search(&self, query: Query) -> Result<RecallHits, LogError> {
        let (vector, shortfall) = match vector_of(&query, &*self.embedder).await {
            Ok(vector) => (vector, None),
            Err(shortfall) => (None, Some(shortfall)),
        };
        let mut catch_up = CatchUp::Wait;
        let mut found = loop {
            match self.look(&query, vector.as_ref(), catch_up).await? {
                Looked::Done(found) => break found,
                Looked::Behind(behind) => self.wait_for(behind).await?,
            }
            catch_up = CatchUp::DontWait;
        };
        if matches!(found.shortfall, Some(Shortfall::Pending { .. })) {
            self.fill_in_background();
        }
        found.shortfall = shortfall.or(found.shortfall);
        Ok(found)
    }
}

#[async_trait]
impl RecallIndex for SqliteRecall {
    fn embedder(&self) -> &Arc<dyn Embedder> {
        SqliteRecall::embedder(self)
    }

    async fn reindex(
        &self,
        seen: &mut (dyn FnMut(Progress) -> bool + Send),
    ) -> Result<Progress, ReindexError> {
        SqliteRecall::reindex(self, seen).await
    }

    async fn catch_up(&self) -> Result<Progress, ReindexError> {
        SqliteRecall::catch_up(self).await
    }
}

/// What the index knows of itself.
pub(super) struct State {
    /// Rises with each rebuild.
    pub(super) epoch: i64,
    /// Everything up to this row of the log is in the index.
    pub(super) block: i64,
    /// Whose vectors there are.
    pub(super) embedder: Option<String>,
}

impl State {
    pub(super) fn read(tx: &Connection) -> rusqlite::Result<Self> {
        tx.prepare_cached("SELECT epoch, block, embedder FROM recall_state")?
            .query_row([], |row| {
                Ok(State {
                    epoch: row.get(0)?,
                    block: row.get(1)?,
                    embedder: row.get(2)?,
                })
            })
    }
}

/// The last row of the log.
pub(super) fn last_block(tx: &Connection) -> rusqlite::Result<i64> {
    let last: Option<i64> = tx
        .prepare_cached("SELECT max(key) FROM block")?
        .query_row([], |row| row.get(0))?;
    Ok(last.unwrap_or(0))
}
