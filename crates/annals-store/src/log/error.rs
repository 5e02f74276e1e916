//! What can go wrong with a log, as small facts.

use std::fmt;

use annals_core::block::BlobDigest;
use annals_core::ids::{ConversationId, Seq};
use annals_core::time::Timestamp;

use super::{CursorError, InboxId, Owner};

/// Why a log could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// No conversation of this scope has this id.
    #[error("conversation `{id}` does not exist: list the conversations to see their ids")]
    NotFound {
        /// The id asked for.
        id: ConversationId,
    },
    /// The id is taken.
    #[error("conversation `{id}` exists already: choose another id")]
    Exists {
        /// The id asked for.
        id: ConversationId,
    },
    /// Another holder's lease lasts.
    #[error("conversation `{id}` is being written by `{by}` until {until}: wait, or end that process")]
    Held {
        /// The conversation.
        id: ConversationId,
        /// The holder.
        by: Owner,
        /// When its lease expires.
        until: Timestamp,
    },
    /// The writer is stale. Nothing was changed.
    #[error("conversation `{id}` was not changed: {stale}; read it again before writing")]
    Conflict {
        /// The conversation.
        id: ConversationId,
        /// What is stale.
        stale: Stale,
    },
    /// The blocks are not numbered on from the tail. Nothing was changed.
    #[error("conversation `{id}` was not changed: the next block is {expected}, but block {given} was given")]
    OutOfOrder {
        /// The conversation.
        id: ConversationId,
        /// The place that comes next.
        expected: Seq,
        /// The place the block claims.
        given: Seq,
    },
    /// An append without blocks.
    #[error("conversation `{id}` was not changed: there is nothing to append")]
    Nothing {
        /// The conversation.
        id: ConversationId,
    },
    /// A fork's cut lies after the parent's end.
    #[error("conversation `{id}` has no block {at} to fork at: its last block is {}", shown(*tail))]
    NoSuchBlock {
        /// The parent.
        id: ConversationId,
        /// The cut asked for.
        at: Seq,
        /// The parent's last block.
        tail: Option<Seq>,
    },
    /// The client key was used for another post.
    #[error("conversation `{id}` has got something else under the key `{client_key}`: choose a new key")]
    KeyReused {
        /// The conversation.
        id: ConversationId,
        /// The key.
        client_key: String,
    },
    /// The request was answered before. Nothing was changed.
    #[error("the request `{key}` was answered before: read that answer")]
    Answered {
        /// The client's name for the request.
        key: String,
    },
    /// A token has this name.
    #[error("a token named `{name}` exists already: choose another name, or revoke it first")]
    TokenExists {
        /// The name.
        name: String,
    },
    /// The node has left, was silent for too long, or has joined again since.
    #[error("the node `{owner}` is not a member any more: stop what it does, then join again")]
    NotAMember {
        /// The node that was.
        owner: Owner,
    },
    /// The cursor is of another listing.
    #[error(transparent)]
    Cursor(#[from] CursorError),
    /// The stored bytes contradict themselves.
    #[error("the log `{log}` is damaged: {detail}; restore it from a backup, or export what still reads")]
    Corrupt {
        /// Where the log is.
        log: String,
        /// What was found.
        detail: String,
    },
    /// The object that has an archived conversation's blocks cannot be used. Nothing was changed.
    #[error(
        "the blocks of conversation `{conversation}` are archived in `{object}`, which cannot be used: {detail}"
    )]
    Archived {
        /// The conversation, with its scope.
        conversation: String,
        /// The object, in the artifact store.
        object: BlobDigest,
        /// What keeps it from being read.
        detail: String,
    },
    /// A newer version of the program wrote the log.
    #[error("the log `{log}` has schema {found}, this program knows up to {known}: use a newer `annals`")]
    NewerSchema {
        /// Where the log is.
        log: String,
        /// The schema found.
        found: i64,
        /// The newest schema this program knows.
        known: i64,
    },
    /// The storage has an older form than this program needs, or none yet.
    #[error("the log `{log}` is not ready for this program: run `annals store {command}`")]
    Unprepared {
        /// Where the log is.
        log: String,
        /// What makes it ready: `init` or `migrate`.
        command: &'static str,
    },
    /// The storage has fewer blocks than it acknowledged, or others: a failover or a backup took it back in time.
    #[error(
        "the log has lost blocks of conversation `{id}`: {}; look at how the database failed over, then read the \
         conversation again",
        lost(*acknowledged, *actual)
    )]
    Lost {
        /// The conversation.
        id: ConversationId,
        /// The last block that was acknowledged.
        acknowledged: Seq,
        /// The last block that is there. Where it is not before the acknowledged one, others were written in its place.
        actual: Option<Seq>,
    },
    /// The file is a database of another program.
    #[error("`{log}` is a database of another program: choose another home")]
    Foreign {
        /// Where it is.
        log: String,
    },
    /// There is no room. Nothing was changed.
    #[error("no space is left for the log `{log}`: free some; nothing that was acknowledged is lost")]
    DiskFull {
        /// Where the log is.
        log: String,
    },
    /// The place cannot be written to.
    #[error("the log `{log}` cannot be written: its disk or folder is read-only")]
    ReadOnly {
        /// Where the log is.
        log: String,
    },
    /// Another process kept the database locked for too long.
    #[error("the log `{log}` stayed locked by another process: try again, or end that process")]
    Busy {
        /// Where the log is.
        log: String,
    },
    /// The storage failed otherwise.
    #[error("the log `{log}` failed: {detail}")]
    Storage {
        /// Where the log is.
        log: String,
        /// What the storage said.
        detail: String,
    },
    /// The log was closed, or its writer ended.
    #[error("the log is closed")]
    Closed,
}

/// What is stale about a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stale {
    /// Another owner has acquired the conversation since.
    Lease {
        /// The writer's token.
        token: u64,
        /// The token that counts.
        current: u64,
    },
    /// The log has grown, or was never that long.
    Tail {
        /// The writer's idea of the last block.
        expected: Option<Seq>,
        /// The last block.
        actual: Option<Seq>,
    },
    /// A row of the inbox has been consumed, or was never there.
    Inbox {
        /// The row.
        row: InboxId,
    },
    /// Something was posted that the writer wanted to see first.
    Posted {
        /// The row.
        row: InboxId,
    },
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stale::Lease { token, current } => {
                write!(
                    f,
                    "the writer's lease (token {token}) was taken over (token {current})"
                )
            }
            Stale::Tail { expected, actual } => {
                write!(
                    f,
                    "the writer expected the last block to be {}, it is {}",
                    shown(*expected),
                    shown(*actual)
                )
            }
            Stale::Inbox { row } => write!(f, "post {} does not wait in its inbox", row.get()),
            Stale::Posted { row } => write!(f, "post {} came first", row.get()),
        }
    }
}

fn lost(acknowledged: Seq, actual: Option<Seq>) -> String {
    match acknowledged.get().saturating_sub(actual.map_or(0, Seq::get)) {
        0 => format!("block {acknowledged} was acknowledged, and another one is in its place"),
        count => format!(
            "block {acknowledged} was acknowledged, its last one is {}, so {count} are gone",
            shown(actual)
        ),
    }
}

fn shown(seq: Option<Seq>) -> String {
    seq.map_or_else(|| "none".to_owned(), |seq| seq.to_string())
}
