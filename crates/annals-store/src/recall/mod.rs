//! Finding again what was said: the port of memory search, and the parts of it that touch no disk.
//!
//! [`Recall`] is the contract; `SqliteRecall` (feature `sqlite`) keeps it beside the log. Here are also the rules
//! that make an index the same whoever builds it: what is remembered ([`remembered`]), how a text is cut
//! ([`passage`]), into which terms ([`terms`]), and how hits are ranked ([`rank`]). It decides nothing about turns.

pub mod passage;
pub mod rank;
pub mod remembered;
pub mod terms;

use annals_core::ids::{ConversationId, Scope, Seq, TurnId};
use annals_core::path::LogicalPath;
use annals_core::time::Timestamp;
use async_trait::async_trait;

use crate::log::LogError;
use rank::SearchMode;

/// Whose words a passage has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// Prompts.
    User,
    /// Answers, notes and written files.
    Assistant,
    /// Files that came with a prompt.
    Attachment,
}

impl Target {
    /// All of them.
    pub const ALL: [Target; 3] = [Target::User, Target::Assistant, Target::Attachment];

    /// The word that stands for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Target::User => "user",
            Target::Assistant => "assistant",
            Target::Attachment => "attachment",
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
    pub targets: Vec<Target>,
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
    pub target: Target,
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
        /// Why.
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
