//! Which nodes share a store, and which of them live.

use std::time::Duration;

use annals_core::ids::NodeId;
use annals_core::time::Timestamp;
use async_trait::async_trait;

use super::{LogError, Owner};

/// A node that shares the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Who it is.
    pub owner: Owner,
    /// Where other nodes reach it.
    pub address: Option<String>,
    /// When it counts as gone unless it beats.
    pub until: Timestamp,
}

/// The nodes that share a store.
///
/// 1. **One life at a time.** `join` raises the node's epoch; its former self is gone.
/// 2. **Gone is final.** Once a member left, was silent for its `ttl`, or the backend can prove that its process ended,
///    `beat` fails with [`LogError::NotAMember`]; it must stop what it does and join again.
/// 3. **What a member held is free when it is gone**: `acquire` and `claim` do not wait for its leases to expire. Its
///    tokens fence it, so that this is safe when it only seemed to be gone.
#[async_trait]
pub trait Members: Send + Sync {
    /// Comes in, with a new epoch, for `ttl`.
    async fn join(&self, node: &NodeId, address: Option<&str>, ttl: Duration) -> Result<Owner, LogError>;

    /// Stays for another `ttl`.
    async fn beat(&self, owner: &Owner) -> Result<(), LogError>;

    /// Goes. Leaving twice does nothing.
    async fn leave(&self, owner: &Owner) -> Result<(), LogError>;

    /// Who is there, in the order of node ids.
    async fn alive(&self) -> Result<Vec<Member>, LogError>;
}
