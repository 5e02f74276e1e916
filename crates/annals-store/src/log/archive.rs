//! Idle conversations as objects: their blocks leave the log, and come back when somebody needs them.

use std::time::Duration;

use annals_core::block::Blob;
use annals_core::ids::{ConversationKey, Seq};
use async_trait::async_trait;

use super::{Cursor, LogError};

/// An idle conversation, as it was when it was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idle {
    /// Which.
    pub key: ConversationKey,
    /// How many blocks it has of its own, those that it shares with a parent not counted.
    pub blocks: u64,
    /// Its last block.
    pub tail: Seq,
    /// The fencing token of its last lease.
    pub token: u64,
    /// Which conversation of that key: see [`Lease::incarnation`](super::Lease::incarnation).
    pub incarnation: u64,
}

/// Some idle conversations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdlePage {
    /// The conversations, the oldest first. There may be none although there is a next page.
    pub items: Vec<Idle>,
    /// Where the next page begins, if there may be one.
    pub next: Option<Cursor>,
}

/// A conversation whose blocks lie in an object now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Archived {
    /// The object, in the artifact store.
    pub object: Blob,
    /// How many blocks it has.
    pub blocks: u64,
}

/// Keeps blocks of idle conversations in the artifact store instead of the log.
///
/// 1. **Nobody notices.** Whoever reads, forks, exports, searches or follows an archived conversation gets what was there
///    before, byte for byte: its blocks come back first, once, whoever else asks for them at the same time. Listings, titles,
///    tails and times, leases, appends and posts need no blocks and bring none back.
/// 2. **Idle** is a conversation that nobody holds, for which nothing is due and nothing waits, that asks nobody for anything,
///    that has blocks of its own which no fork shares, and to which nothing was appended and of which nothing came back for
///    the time that the caller says.
/// 3. **All or nothing.** The object is durable before its conversation is changed, and the conversation is changed only if it
///    is as it was found: an append, a lease, a post, a fork or a deletion that was quicker leaves it as it is. Who dies in
///    between leaves an object that garbage collection removes.
/// 4. **Fenced.** Archiving takes the conversation over for a moment, as an owner would: an expired lease writes no more.
/// 5. **Kept while it is needed.** Garbage collection leaves the object alone until the blocks have come back or the
///    conversation is deleted.
/// 6. **A bad object loses nothing.** One that is missing or damaged fails what needs its blocks with
///    [`LogError::Archived`], and works again once it is put back.
#[async_trait]
pub trait Archive: Send + Sync {
    /// Conversations of any scope that were idle for at least this long, at most `limit` of them, going on after `cursor`.
    async fn idle(
        &self,
        at_least: Duration,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<IdlePage, LogError>;

    /// Archives a conversation; none if it is not as it was found any more.
    async fn archive(&self, idle: &Idle) -> Result<Option<Archived>, LogError>;
}
