//! The right to write to one conversation.

use std::time::Duration;

use annals_core::ids::ConversationId;
use annals_core::time::Timestamp;

/// The right to write, fenced: of all leases ever given for a conversation, only the one with the highest token
/// still writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub(crate) conversation: ConversationId,
    pub(crate) holder: String,
    /// Which conversation of that id: one made again after a deletion is another.
    pub(crate) made: u64,
    pub(crate) token: u64,
    pub(crate) ttl: Duration,
}

impl Lease {
    /// The conversation it is for.
    pub fn conversation(&self) -> &ConversationId {
        &self.conversation
    }

    /// Who holds it.
    pub fn holder(&self) -> &str {
        &self.holder
    }

    /// The fencing token: higher than that of any earlier lease of the conversation.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// How long it lasts without being renewed.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }
}

/// Who holds a conversation, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The holder's name for itself.
    pub by: String,
    /// When the lease expires unless it is renewed.
    pub until: Timestamp,
}

/// When a lease taken at `now` ends.
pub(crate) fn expiry(now: Timestamp, ttl: Duration) -> Timestamp {
    let ttl_micros = i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_unix_micros(now.unix_micros().saturating_add(ttl_micros))
}
