//! As which node this process writes, and how all of its turns hear that it may not write as that node any more.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use annals_core::ids::NodeId;
use annals_store::{LogError, Owner};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::world::World;

/// A writer that could not renew its lease, or a member that could not beat, stops this share of its time before others
/// may take its place.
const MARGIN: u32 = 6;

/// Until when this process may act in its own name, by its own clock. A process that was stopped and goes on finds here that
/// its time is over, before any of its tasks has had a chance to say so.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deadline(Arc<Mutex<Option<Instant>>>);

impl Deadline {
    /// The time of what was asked for at this moment.
    pub(crate) fn of(asked: Instant, ttl: Duration) -> Self {
        let deadline = Deadline::default();
        deadline.renewed(asked, ttl);
        deadline
    }

    /// The time was prolonged by asking at this moment; gives its end.
    pub(crate) fn renewed(&self, asked: Instant, ttl: Duration) -> Instant {
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let deadline = (asked + ttl - ttl / MARGIN).max(own.unwrap_or(asked));
        *own = Some(deadline);
        deadline
    }

    pub(crate) fn get(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a third of the time is left, or less.
    pub(crate) fn is_near(&self, ttl: Duration) -> bool {
        self.get()
            .is_some_and(|deadline| deadline <= Instant::now() + ttl / 3)
    }

    pub(crate) fn has_passed(&self) -> bool {
        self.get().is_some_and(|deadline| deadline <= Instant::now())
    }
}

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
    /// Until when it lasts unless it is prolonged; without end for one that never joined.
    pub(crate) until: Deadline,
    /// When this was looked at: the time of a lease that is then asked for begins here, not when the answer comes.
    pub(crate) asking: Instant,
}

impl Life {
    fn new(owner: Owner) -> Self {
        Life {
            owner,
            over: CancellationToken::new(),
            stopping: CancellationToken::new(),
            until: Deadline::default(),
            asking: Instant::now(),
        }
    }

    /// The same life, about to ask for a lease.
    pub(crate) fn asking(&self) -> Self {
        Life {
            asking: Instant::now(),
            ..self.clone()
        }
    }

    /// A node of its own that never joined. Its leases are judged by their expiry, and by its process where the store can
    /// see it.
    pub(crate) fn alone(world: &World) -> Self {
        Life::new(Owner::new(NodeId::made(std::process::id(), world.random()), 1))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.is_cancelled() || self.until.has_passed()
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
        self.0.read().unwrap_or_else(PoisonError::into_inner).asking()
    }

    /// Goes on as this owner, which asked to join at this moment. Joining for the first time under the present node keeps
    /// what it holds.
    pub(crate) fn joined(&self, owner: Owner, asked: Instant, ttl: Duration) {
        let mut life = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if life.owner != owner || life.is_over() {
            life.over.cancel();
            *life = Life::new(owner);
        }
        life.until.renewed(asked, ttl);
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

/// Calls `renew` at each third of `ttl`, and moves the deadline on. Ends when the store says that it is over, or when it
/// could not be asked for so long that another may act soon.
pub(crate) async fn until_lost<F>(ttl: Duration, until: &Deadline, renew: impl Fn() -> F + Send)
where
    F: Future<Output = Result<(), LogError>> + Send,
{
    let mut deadline = until.get().unwrap_or_else(|| until.renewed(Instant::now(), ttl));
    loop {
        tokio::time::sleep_until(deadline - (ttl - ttl / MARGIN - ttl / 3)).await;
        let asked = Instant::now();
        match tokio::time::timeout_at(deadline, persistently(ttl, &renew, deadline)).await {
            Ok(Ok(())) => deadline = until.renewed(asked, ttl),
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
