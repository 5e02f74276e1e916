//! What the log knows of a conversation apart from its blocks.

use std::fmt;
use std::str::FromStr;

use annals_core::ids::{ConversationId, Scope, Seq};
use annals_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::Holding;

/// How a conversation came out of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
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
    /// The conversation it came from.
    pub parent: ConversationId,
    /// The parent's last block that it has; absent when the parent was empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Seq>,
    /// How it came about.
    pub operator: Operator,
}

/// A conversation to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewConversation {
    /// Its id, made by the caller.
    pub id: ConversationId,
    /// Who owns it.
    pub scope: Scope,
    /// A title for people.
    pub title: Option<String>,
    /// When it was made.
    pub created: Timestamp,
    /// Where it came from; empty for a new one.
    pub lineage: Vec<Ancestor>,
}

impl NewConversation {
    /// A conversation without title or parents.
    pub fn new(id: ConversationId, scope: Scope, created: Timestamp) -> Self {
        NewConversation {
            id,
            scope,
            title: None,
            created,
            lineage: Vec::new(),
        }
    }

    /// With this title.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
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
    /// Its id.
    pub id: ConversationId,
    /// Who owns it.
    pub scope: Scope,
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

/// A place in a listing. Opaque, but short and safe in a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(pub(crate) u64);

/// A text that no listing gave out.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not a cursor: pass the one that the previous page gave")]
pub struct CursorError(String);

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        u64::from_str_radix(text, 16)
            .map(Cursor)
            .map_err(|_| CursorError(text.chars().take(40).collect()))
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
