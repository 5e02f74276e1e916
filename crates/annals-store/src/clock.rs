//! Where time comes in: leases, claims and client keys are judged by the store's clock, never by a caller's.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use annals_core::time::Timestamp;

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "the one place where time comes in")]
    fn now(&self) -> Timestamp {
        let since_epoch = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp::from_unix_micros(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
    }
}

/// A clock that moves only when it is told to: for tests of leases.
#[derive(Debug)]
pub struct ManualClock {
    now_micros: AtomicI64,
}

impl Default for ManualClock {
    /// A clock that stands at the morning of 2026-02-02.
    fn default() -> Self {
        ManualClock::new(Timestamp::from_unix_millis(1_770_000_000_000))
    }
}

impl ManualClock {
    /// A clock that stands at this time.
    pub fn new(now: Timestamp) -> Self {
        ManualClock {
            now_micros: AtomicI64::new(now.unix_micros()),
        }
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.now_micros.fetch_add(micros, Ordering::SeqCst);
    }

    /// Sets the time, back too.
    pub fn set(&self, now: Timestamp) {
        self.now_micros.store(now.unix_micros(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_micros(self.now_micros.load(Ordering::SeqCst))
    }
}

impl<C: Clock + ?Sized> Clock for std::sync::Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}
