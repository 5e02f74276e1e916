//! The right to write to one conversation, and who has it.

use std::fmt;
use std::time::Duration;

use annals_core::ids::{ConversationKey, NodeId};
use annals_core::time::Timestamp;

/// Who may hold conversations: one run of one process.
///
/// The epoch tells a node that joined again from its former self. A node that never joins
/// ([`Members`](super::Members)) uses an id of its own and any epoch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// Which node.
    pub node: NodeId,
    /// Which of its lives.
    pub epoch: u64,
}

impl Owner {
    /// This life of this node.
    pub fn new(node: NodeId, epoch: u64) -> Self {
        Owner { node, epoch }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.node, self.epoch)
    }
}

/// The right to write, fenced: of all leases ever given for a conversation, only the one with the highest token
/// still writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    key: ConversationKey,
    owner: Owner,
    token: u64,
    ttl: Duration,
    incarnation: u64,
}

impl Lease {
    /// A lease, given out by a backend. `incarnation` is the backend's own: it tells a conversation from one that was
    /// made again under the same key after a deletion.
    pub fn new(key: ConversationKey, owner: Owner, token: u64, ttl: Duration, incarnation: u64) -> Self {
        Lease {
            key,
            owner,
            token,
            ttl,
            incarnation,
        }
    }

    /// The conversation it is for.
    pub fn key(&self) -> &ConversationKey {
        &self.key
    }

    /// Who holds it.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The fencing token: higher than that of any earlier lease of the conversation.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// How long it lasts without being renewed.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Which conversation of that key.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }
}

/// Who holds a conversation, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The holder.
    pub by: Owner,
    /// When the lease expires unless it is renewed.
    pub until: Timestamp,
}

/// When a lease taken at `now` ends.
pub fn expiry(now: Timestamp, ttl: Duration) -> Timestamp {
    now.plus_micros(i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX))
}
