//! Work that anybody may take up: conversations with a turn to go on with or a post to read.

use std::time::Duration;

use async_trait::async_trait;

use super::{Lease, LogError, Owner};

/// A conversation taken up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The right to write to it.
    pub lease: Lease,
    /// How often it was claimed since its last append, this time included: work that ends each of its nodes shows here.
    pub attempts: u32,
}

/// Gives work out.
///
/// 1. **Due**: a post makes a conversation due at once, [`Work::DueIn`](super::Work::DueIn) after its time. It stays so
///    until an append says [`Work::Done`](super::Work::Done) and the inbox is empty, so that no post is ever forgotten.
/// 2. **To one**: what is due and not held is given to one claimant, as if it had acquired it. What is held is not given
///    to anybody.
/// 3. **The longest due first.**
/// 4. **Nothing to the dead.** An owner that joined and is gone ([`Members`](super::Members)) gets
///    [`LogError::NotAMember`]: what it claimed would be free for everybody at once.
#[async_trait]
pub trait Claims: Send + Sync {
    /// Takes up to `limit` conversations of any scope.
    async fn claim(&self, owner: &Owner, ttl: Duration, limit: usize) -> Result<Vec<Claimed>, LogError>;
}
