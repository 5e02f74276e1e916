//! Finding again what was said: the port of memory search, and the parts of it that touch no disk.
//!
//! [`Recall`] is the contract; `SqliteRecall` (feature `sqlite`) keeps it beside the log. Here are also the rules
//! that make an index and its answers the same on every backend: what is remembered ([`remembered`]), how a text is cut
//! ([`passage`]), into which terms ([`terms`]), where a conversation's passages are ([`source`]), how words are looked up
//! ([`lexical`]), how vectors are held ([`matrix`]), how hits are ranked ([`rank`]), and how a search goes ([`search`]).
//! It decides nothing about turns.

pub mod lexical;
pub mod matrix;
pub mod passage;
pub mod rank;
pub mod remembered;
pub mod search;
pub mod source;
pub mod terms;

use std::sync::Arc;

use annals_core::ids::{ConversationId, Scope, Seq, TurnId};
use annals_core::path::LogicalPath;
use annals_core::time::Timestamp;
use annals_embed::{EmbedError, Embedder, Vector};
use async_trait::async_trait;

use crate::log::LogError;
use rank::SearchMode;

/// Whose words a passage has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecallTarget {
    /// Prompts.
    User,
    /// Answers, notes and written files.
    Assistant,
    /// Files that came with a prompt.
    Attachment,
}

impl RecallTarget {
    /// All of them.
    pub const ALL: [RecallTarget; 3] = [
        RecallTarget::User,
        RecallTarget::Assistant,
        RecallTarget::Attachment,
    ];

    /// The word that stands for it.
    pub fn as_str(self) -> &'static str {
        match self {
            RecallTarget::User => "user",
            RecallTarget::Assistant => "assistant",
            RecallTarget::Attachment => "attachment",
        }
    }

    /// The target of this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|target| target.as_str() == word)
    }
}

/// Where to look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Within {
    /// One conversation, with what it shares with those it was forked from.
    Conversation(ConversationId),
    /// All conversations of the scope.
    Scope,
}

/// What to look for.
#[derive(Clone, Debug)]
pub struct Query {
    /// Who asks. Nothing of another scope is ever found.
    pub scope: Scope,
    /// Where to look.
    pub within: Within,
    /// The words, in any language, spelt right or nearly so.
    pub text: String,
    /// Whose words; all if empty.
    pub targets: Vec<RecallTarget>,
    /// At most this many hits.
    pub limit: usize,
    /// Nothing older.
    pub since: Option<Timestamp>,
    /// In this conversation, nothing from this block on: what is being said now is no memory.
    pub before: Option<(ConversationId, Seq)>,
    /// How to look.
    pub by: SearchMode,
    /// When it is asked: newer hits are a little better.
    pub now: Timestamp,
}

impl Query {
    /// These words, in one conversation.
    pub fn new(scope: Scope, conversation: ConversationId, text: impl Into<String>, now: Timestamp) -> Self {
        Query {
            scope,
            within: Within::Conversation(conversation),
            text: text.into(),
            targets: Vec::new(),
            limit: annals_core::limits::MEMSEARCH_DEFAULT_HITS,
            since: None,
            before: None,
            by: SearchMode::default(),
            now,
        }
    }

    /// Not older than this number of days.
    #[must_use]
    pub fn days(mut self, days: u32) -> Self {
        const DAY_MICROS: i64 = 86_400_000_000;
        self.since = Some(self.now.plus_micros(-i64::from(days) * DAY_MICROS));
        self
    }
}

/// A passage that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// The conversation to read it in.
    pub conversation: ConversationId,
    /// Its block.
    pub seq: Seq,
    /// The turn it was said in.
    pub turn: TurnId,
    /// What names it.
    pub path: Option<LogicalPath>,
    /// Whose words.
    pub target: RecallTarget,
    /// The passage.
    pub text: String,
    /// How good it is, from 0 to 1; comparable within one answer only.
    pub score: f32,
    /// When it was said.
    pub ts: Timestamp,
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecallHits {
    /// The best first.
    pub hits: Vec<Hit>,
    /// What keeps this answer from being as good as it could be.
    pub shortfall: Option<Shortfall>,
}

/// What keeps an answer from being as good as it could be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Shortfall {
    /// The vectors were made by another embedder.
    #[error(
        "searched by words only: the vectors are of `{found}`, configured is `{configured}`; run `annals memory reindex`"
    )]
    OtherEmbedder {
        /// Whose vectors there are.
        found: String,
        /// Who is configured.
        configured: String,
    },
    /// The embedder gave no vector for the query.
    #[error("searched by words only: {reason}")]
    NoVector {
        /// What the embedder said.
        reason: String,
    },
    /// Some passages have no vector yet.
    #[error("{passages} passages were searched by words only: their vectors are still being made")]
    Pending {
        /// How many.
        passages: u64,
    },
    /// Older blocks are not in the index.
    #[error("{blocks} older blocks are not in the index: run `annals memory reindex`")]
    Behind {
        /// How many.
        blocks: u64,
    },
}

/// Finds what was said.
///
/// 1. What an acknowledged append wrote is found by the next search.
/// 2. Nothing outside the query's scope is ever returned, nor is anything of a deleted conversation.
/// 3. Hidden, pruned and summarised blocks are found like all others.
/// 4. Searching changes nothing that the log says.
#[async_trait]
pub trait Recall: Send + Sync {
    /// The best passages for a query.
    async fn search(&self, query: Query) -> Result<RecallHits, LogError>;
}

/// The index behind a [`Recall`]: derived from the log, so that it can be dropped and made again.
#[async_trait]
pub trait RecallIndex: Recall {
    /// Who makes the vectors.
    fn embedder(&self) -> &Arc<dyn Embedder>;

    /// Rebuilds the whole index, with the configured embedder; tells `seen` how far it is, and stops when told `false`.
    /// What is not there yet when it stops is added by the next search or reindex.
    async fn reindex(
        &self,
        seen: &mut (dyn FnMut(Progress) -> bool + Send),
    ) -> Result<Progress, ReindexError>;

    /// Adds what is missing: blocks that the index has not come to, and vectors that could not be made at once.
    async fn catch_up(&self) -> Result<Progress, ReindexError>;
}

/// How far a reindex is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Blocks that were looked at.
    pub blocks: u64,
    /// Blocks in all.
    pub of_blocks: u64,
    /// Vectors that were made afterwards, by an embedder that cannot make them at once.
    pub vectors: u64,
    /// Such vectors in all.
    pub of_vectors: u64,
}

/// Why an index could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReindexError {
    /// The log failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// There are no vectors to be had; words are found all the same.
    #[error("{0}; words are in the index, vectors are missing: run `annals memory reindex` again")]
    Embed(#[from] EmbedError),
}

/// The vector of a query, if it is looked for by meaning; or why there is none.
pub async fn vector_of(query: &Query, embedder: &dyn Embedder) -> Result<Option<Vector>, Shortfall> {
    if query.by == SearchMode::Lexical {
        return Ok(None);
    }
    if let Some(vector) = embedder.at_once(&query.text) {
        return Ok(Some(vector));
    }
    match embedder.embed(std::slice::from_ref(&query.text)).await {
        Ok(vectors) => Ok(vectors.into_iter().next()),
        Err(error) => Err(Shortfall::NoVector {
            reason: error.to_string(),
        }),
    }
}
