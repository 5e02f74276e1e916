//! What the log knows of a conversation apart from its blocks.

use std::fmt;
use std::str::FromStr;

use annals_core::ids::{ConversationId, ConversationKey, Seq};
use annals_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Holding, StoredAnswer};

/// How a conversation came out of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Operator {
    /// It shares the parent's blocks up to a cut.
    Fork,
    /// It goes on without its sandbox.
    Detach,
    /// It holds the blocks of several parents, one after the other.
    Merge,
    /// It was read from an export file.
    Import,
}

/// One parent of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ancestor {
    /// The conversation it came from, of the same scope.
    pub parent: ConversationId,
    /// The parent's last block that it has; absent when it has none of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Seq>,
    /// How it came about.
    pub operator: Operator,
}

/// A conversation to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewConversation {
    /// What names it, chosen by the caller.
    pub key: ConversationKey,
    /// A title for people.
    pub title: Option<String>,
    /// When it was made, by the caller's clock.
    pub created: Timestamp,
    /// Where it came from; empty for a new one.
    pub lineage: Vec<Ancestor>,
    /// What its request is answered, if it may be sent again: see [`Answers`](super::Answers).
    pub answer: Option<StoredAnswer>,
}

impl NewConversation {
    /// A conversation without title or parents.
    pub fn new(key: ConversationKey, created: Timestamp) -> Self {
        NewConversation {
            key,
            title: None,
            created,
            lineage: Vec::new(),
            answer: None,
        }
    }

    /// With this title.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// With what its request is answered.
    #[must_use]
    pub fn answering(mut self, answer: Option<StoredAnswer>) -> Self {
        self.answer = answer;
        self
    }

    /// With one more parent.
    pub fn from_parent(mut self, parent: ConversationId, at: Option<Seq>, operator: Operator) -> Self {
        self.lineage.push(Ancestor { parent, at, operator });
        self
    }
}

/// What is known of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationInfo {
    /// What names it.
    pub key: ConversationKey,
    /// A title for people.
    pub title: Option<String>,
    /// When it was made.
    pub created: Timestamp,
    /// The last block's time.
    pub updated: Option<Timestamp>,
    /// The last block's place.
    pub tail: Option<Seq>,
    /// Where it came from.
    pub lineage: Vec<Ancestor>,
    /// Who may write, if anybody took that right and did not give it back; it may have expired.
    pub holding: Option<Holding>,
}

/// A place in a listing: a short text of the backend's own, safe in a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(String);

/// A text that no listing gave out.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not a cursor: pass the one that the previous page gave")]
pub struct CursorError(String);

impl Cursor {
    const MAX_BYTES: usize = 200;

    /// A cursor of this number, for backends that count.
    pub fn of_number(number: u64) -> Self {
        Cursor(format!("{number:x}"))
    }

    /// The number of [`of_number`](Self::of_number).
    pub fn number(&self) -> Result<u64, CursorError> {
        u64::from_str_radix(&self.0, 16).map_err(|_| CursorError(self.0.clone()))
    }

    /// The backend's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        match (1..=Self::MAX_BYTES).contains(&text.len()) && text.bytes().all(is_safe) {
            true => Ok(Cursor(text.to_owned())),
            false => Err(CursorError(
                text.chars().filter(|c| !c.is_control()).take(40).collect(),
            )),
        }
    }
}

/// One page of conversations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The conversations, the newest first.
    pub items: Vec<ConversationInfo>,
    /// Where the next page begins, if there may be one.
    pub next: Option<Cursor>,
}
