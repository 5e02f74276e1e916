//! Connections for everything but appends: taken for one operation, given back after it, tried again when the database
//! fails in a way that passes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use annals_store::LogError;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::address::Address;
use crate::fault::{Fault, Remedy};
use crate::link::{self, Wire};
use crate::schema::{self, Identity};

/// At most this many connections read at once on one node.
const CONNECTIONS_MAX: usize = 8;

/// A statement that has not answered by then is given up with its connection. The server's own timeout does not end a
/// commit that waits for a standby.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// The pauses between attempts grow from the first to the last.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Connections that anybody may use for one operation.
#[derive(Debug)]
pub(crate) struct Pool {
    address: Address,
    identity: Identity,
    patience: Duration,
    /// Taken out for an operation and put back after it; held only for a push or a pop.
    idle: Mutex<Vec<Wire>>,
    turns: Semaphore,
}

/// A connection for one operation. Dropped before the operation has ended, it is closed.
pub(crate) struct Link<'p> {
    pool: &'p Pool,
    pub(crate) wire: Wire,
    _turn: SemaphorePermit<'p>,
}

impl Link<'_> {
    /// Gives the connection back: no statement runs on it and no transaction is open.
    pub(crate) fn give_back(self) {
        if !self.wire.client.is_closed() {
            self.pool.lock().push(self.wire);
        }
    }
}

impl Pool {
    pub(crate) fn new(address: Address, identity: Identity, patience: Duration) -> Arc<Self> {
        Arc::new(Pool {
            address,
            identity,
            patience,
            idle: Mutex::default(),
            turns: Semaphore::new(CONNECTIONS_MAX),
        })
    }

    /// For how long an answer is waited for. Who has less patience in all waits less for one.
    pub(crate) fn answer_max(&self) -> Duration {
        ANSWER_MAX.min(self.patience)
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Wire>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection, without another attempt if it cannot be had.
    pub(crate) async fn link(&self) -> Result<Link<'_>, Fault> {
        let turn = self.turns.acquire().await.map_err(|_| LogError::Closed)?;
        let idle = self.lock().pop();
        let wire = match idle.filter(|wire| !wire.client.is_closed()) {
            Some(wire) => wire,
            None => link::connect(&self.address, &self.identity, self.answer_max()).await?,
        };
        Ok(Link {
            pool: self,
            wire,
            _turn: turn,
        })
    }

    /// Attempts at one operation.
    pub(crate) fn attempts(&self) -> Attempts<'_> {
        Attempts {
            pool: self,
            pauses: Pauses::new(self.patience),
            in_doubt: false,
        }
    }

    /// For a caller of the log.
    pub(crate) fn error(&self, fault: Fault) -> LogError {
        fault.into_log(&self.address.name)
    }
}

/// What an answer promises to whoever asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// Nothing beyond this attempt: it reads, or writes anew each time.
    None,
    /// That what was asked for is there for good, whichever attempt did it.
    Durable,
}

/// Attempts at one operation, until one answers or patience ends.
pub(crate) struct Attempts<'p> {
    pool: &'p Pool,
    pauses: Pauses,
    in_doubt: bool,
}

impl<'p> Attempts<'p> {
    /// Whether an earlier attempt may have taken effect.
    pub(crate) fn in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// A connection for the next attempt.
    pub(crate) async fn link(&mut self) -> Result<Link<'p>, LogError> {
        loop {
            match self.pool.link().await {
                Ok(link) => return Ok(link),
                Err(fault) => self.after(fault).await?,
            }
        }
    }

    /// Makes sure of an answer. An attempt that finds its work done by an earlier one writes nothing and so waits for nobody:
    /// the commit that did it may not have reached the standbys.
    pub(crate) async fn vouch(&self, link: &Link<'p>, promise: Promise) -> Result<(), Fault> {
        link.wire.check_replicated()?;
        if !self.in_doubt || promise == Promise::None {
            return Ok(());
        }
        let confirmed = tokio::time::timeout(self.pool.answer_max(), async {
            let flush = schema::flush(&link.wire.client).await?;
            link.wire.confirm(&flush).await
        });
        confirmed.await.map_err(|_| Fault::Silent)?
    }

    /// What an attempt came to: its answer, or nothing if it is worth another.
    pub(crate) async fn settle<T>(
        &mut self,
        link: Link<'p>,
        outcome: Result<T, Fault>,
    ) -> Result<Option<T>, LogError> {
        match outcome {
            Ok(answer) => {
                link.give_back();
                Ok(Some(answer))
            }
            Err(fault) => {
                match fault.remedy() {
                    Remedy::Elsewhere => {
                        drop(link);
                        self.in_doubt = true;
                    }
                    Remedy::Again | Remedy::None => link.give_back(),
                }
                self.after(fault).await.map(|()| None)
            }
        }
    }

    /// Waits if another attempt may help.
    async fn after(&mut self, fault: Fault) -> Result<(), LogError> {
        match fault.remedy() != Remedy::None && self.pauses.pause().await {
            true => Ok(()),
            false => Err(self.pool.error(fault)),
        }
    }
}

/// Growing pauses within a bound.
pub(crate) struct Pauses {
    next: Duration,
    deadline: Instant,
}

impl Pauses {
    pub(crate) fn new(patience: Duration) -> Self {
        Pauses {
            next: PAUSE_MIN,
            deadline: Instant::now() + patience,
        }
    }

    /// Waits; `false` once patience has ended.
    pub(crate) async fn pause(&mut self) -> bool {
        if Instant::now() + self.next > self.deadline {
            return false;
        }
        tokio::time::sleep(self.next).await;
        self.next = (self.next * 2).min(PAUSE_MAX);
        true
    }
}

/// Runs an operation on a connection of the pool, again if the database failed in a way that passes. `$attempts` tells
/// whether an earlier attempt may have taken effect. With [`Promise::Durable`] in front, what an earlier attempt did is
/// durable, too, when this answers.
macro_rules! attempt {
    ($pool:expr, |$client:ident, $attempts:ident| $operation:expr) => {
        $crate::pool::attempt!(@run $crate::pool::Promise::None; $pool; $client; $attempts; $operation)
    };
    ($promise:expr, $pool:expr, |$client:ident, $attempts:ident| $operation:expr) => {
        $crate::pool::attempt!(@run $promise; $pool; $client; $attempts; $operation)
    };
    (@run $promise:expr; $pool:expr; $client:ident; $attempts:ident; $operation:expr) => {{
        let mut $attempts = $pool.attempts();
        loop {
            #[allow(unused_mut, reason = "transactions need it, statements do not")]
            let mut link = $attempts.link().await?;
            let outcome = {
                #[allow(unused_variables, reason = "each operation takes the one it needs")]
                let $client = &mut link.wire.client;
                match tokio::time::timeout($pool.answer_max(), async { $operation.await }).await {
                    Ok(outcome) => outcome,
                    Err(_) => Err($crate::fault::Fault::Silent),
                }
            };
            let outcome = match outcome {
                Ok(answer) => $attempts.vouch(&link, $promise).await.map(|()| answer),
                outcome => outcome,
            };
            if let Some(answer) = $attempts.settle(link, outcome).await? {
                break Ok(answer);
            }
        }
    }};
}
pub(crate) use attempt;
