//! As which node this process writes, and how all of its turns hear that it may not write as that node any more.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use annals_core::ids::NodeId;
use annals_store::{LogError, Owner};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::world::World;

/// A writer that could not renew its lease, or a member that could not beat, stops this share of its time before others
/// may take its place.
const MARGIN: u32 = 6;

/// The present life of this process among those that share the store.
#[derive(Debug)]
pub(crate) struct Membership(RwLock<Life>);

/// One life of a node: every lease is taken in one, and none outlives it.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) owner: Owner,
    /// Fires when leases of this life may be taken by others.
    pub(crate) over: CancellationToken,
    /// Fires before `over` when the life ends because the program does.
    stopping: CancellationToken,
}

impl Life {
    fn new(owner: Owner) -> Self {
        Life {
            owner,
            over: CancellationToken::new(),
            stopping: CancellationToken::new(),
        }
    }

    /// A node of its own that never joined. Its leases are judged by their expiry, and by its process where the store can
    /// see it.
    pub(crate) fn alone(world: &World) -> Self {
        Life::new(Owner::new(NodeId::made(std::process::id(), world.random()), 1))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }
}

impl Membership {
    pub(crate) fn new(world: &World) -> Arc<Self> {
        Arc::new(Membership(RwLock::new(Life::alone(world))))
    }

    /// The present life.
    pub(crate) fn life(&self) -> Life {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Goes on as this owner. Joining for the first time under the present node keeps what it holds.
    pub(crate) fn joined(&self, owner: Owner) {
        let mut life = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if life.owner != owner || life.is_over() {
            life.over.cancel();
            *life = Life::new(owner);
        }
    }

    /// The node counts as gone, or soon will: everything that writes in its name stops.
    pub(crate) fn lost(&self) {
        self.life().over.cancel();
    }

    /// The program ends: everything that writes stops where it is, and goes on elsewhere.
    pub(crate) fn stop(&self) {
        let life = self.life();
        life.stopping.cancel();
        life.over.cancel();
    }

    /// Goes on as a node that never joined.
    pub(crate) fn left(&self, world: &World) {
        let mut life = self.0.write().unwrap_or_else(PoisonError::into_inner);
        life.over.cancel();
        *life = Life::alone(world);
    }
}

/// Calls `renew` at each third of `ttl`. Ends when the store says that it is over, or when it could not be asked for so
/// long that another may act soon.
pub(crate) async fn until_lost<F>(ttl: Duration, renew: impl Fn() -> F + Send)
where
    F: Future<Output = Result<(), LogError>> + Send,
{
    let mut last_renewed = Instant::now();
    loop {
        let deadline = last_renewed + ttl - ttl / MARGIN;
        tokio::time::sleep_until((last_renewed + ttl / 3).min(deadline)).await;
        let asked = Instant::now();
        match tokio::time::timeout_at(deadline, persistently(ttl, &renew, deadline)).await {
            Ok(Ok(())) => last_renewed = asked,
            Ok(Err(_)) | Err(_) => return,
        }
    }
}

/// Renews until it works, it is certain that it never will, or the deadline has passed.
async fn persistently<F>(
    ttl: Duration,
    renew: &(impl Fn() -> F + Send),
    deadline: Instant,
) -> Result<(), LogError>
where
    F: Future<Output = Result<(), LogError>> + Send,
{
    let pause = ttl / 60;
    loop {
        match renew().await {
            Ok(()) => return Ok(()),
            Err(
                error @ (LogError::Conflict { .. }
                | LogError::NotAMember { .. }
                | LogError::NotFound { .. }
                | LogError::Closed),
            ) => return Err(error),
            Err(error) if Instant::now() + pause >= deadline => return Err(error),
            Err(_) => tokio::time::sleep(pause).await,
        }
    }
}
