//! Where parsers meet bytes from strangers: a thread with a deep stack, a deadline, and a net for panics.
//!
//! A thread cannot be killed, so one that is late is left to itself; only so many may be at work at once, late
//! ones included, and everything that enters was capped before.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::LazyLock;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};

/// Parsers at work at once.
const WORKERS_MAX_COUNT: usize = 8;
/// Readers of trees recurse; their depth is capped to what this holds in a debug build.
const STACK_BYTES: usize = 64 << 20;
/// Nothing worth reading takes longer.
const DEADLINE_SECONDS: u64 = 20;

/// Why there is no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escaped {
    /// The parser broke.
    Panicked,
    /// It is still at it.
    Late,
    /// Too many are at work.
    Busy,
}

/// Runs `work` on a thread of its own.
pub async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Escaped> {
    static WORKERS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(WORKERS_MAX_COUNT)));
    bounded(&WORKERS, Duration::from_secs(DEADLINE_SECONDS), work).await
}

async fn bounded<T: Send + 'static>(
    workers: &Arc<Semaphore>,
    deadline: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Escaped> {
    let waited = tokio::time::timeout(deadline, workers.clone().acquire_owned()).await;
    let Ok(Ok(slot)) = waited else {
        return Err(Escaped::Busy);
    };
    let (done, result) = oneshot::channel();
    let thread = std::thread::Builder::new()
        .name("annals-reader".into())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            let _slot = slot;
            // A caller that has gone no longer wants it.
            let _ = done.send(catch_unwind(AssertUnwindSafe(work)));
        });
    if thread.is_err() {
        return Err(Escaped::Busy);
    }
    match tokio::time::timeout(deadline, result).await {
        Ok(Ok(Ok(value))) => Ok(value),
        Ok(_) => Err(Escaped::Panicked),
        Err(_) => Err(Escaped::Late),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_caught_and_a_late_worker_is_left_behind_but_counted() {
        assert_eq!(run(|| 7).await, Ok(7));
        let broken = run(|| -> u32 { panic!("a parser's own panic") });
        assert_eq!(broken.await, Err(Escaped::Panicked));
        let workers = Arc::new(Semaphore::new(1));
        let (release, held) = std::sync::mpsc::channel::<()>();
        let soon = Duration::from_millis(20);
        assert_eq!(
            bounded(&workers, soon, move || held.recv().is_ok()).await,
            Err(Escaped::Late)
        );
        assert_eq!(bounded(&workers, soon, || ()).await, Err(Escaped::Busy));
        drop(release);
        assert_eq!(bounded(&workers, Duration::from_secs(10), || 1).await, Ok(1));
    }
}
