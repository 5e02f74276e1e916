//! How long this process waits for a server and its sandboxes.

use std::time::Duration;

/// Every wait for a server, so that a test can have short ones on the same paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// For one answer that is short.
    pub request: Duration,
    /// For a sandbox to be made; an image may have to be fetched.
    pub create: Duration,
    /// A request that is harmless to repeat is repeated for this long: a server may be one process, and restart.
    pub retry: Duration,
    /// A download may take long, but not without a byte for this long.
    pub stall: Duration,
    /// An upload, too; its server may have to write all of it before it answers.
    pub upload_stall: Duration,
    /// Services send a sign of life every three seconds; a stream of events that is silent for longer than this is dead.
    pub silence: Duration,
    /// A sandbox that the server calls running may be out of reach for this long before it counts as lost.
    pub reach: Duration,
    /// How often a sandbox in use is renewed within the life it was given.
    pub renewals: u32,
    /// Between the first attempt and the second; doubled from attempt to attempt.
    pub backoff_first: Duration,
    /// The longest wait between two attempts.
    pub backoff_most: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(15),
            create: Duration::from_secs(120),
            retry: Duration::from_secs(30),
            stall: Duration::from_secs(10),
            upload_stall: Duration::from_secs(30),
            silence: Duration::from_secs(10),
            reach: Duration::from_secs(30),
            renewals: 3,
            backoff_first: Duration::from_millis(20),
            backoff_most: Duration::from_secs(2),
        }
    }
}

impl Timing {
    /// Waits between attempts, from the first on.
    pub fn backoff(&self) -> Backoff {
        Backoff {
            next: self.backoff_first,
            most: self.backoff_most,
        }
    }

    /// How long a body of this size may take.
    pub(crate) fn transfer(&self, bytes: usize) -> Duration {
        const SLOWEST_BYTES_PER_SECOND: u64 = 256 << 10;
        self.request + Duration::from_secs(bytes as u64 / SLOWEST_BYTES_PER_SECOND)
    }
}

/// Waits between attempts, doubling up to a bound.
#[derive(Debug)]
pub struct Backoff {
    next: Duration,
    most: Duration,
}

impl Backoff {
    /// Waits longer than the last time.
    pub async fn wait(&mut self) {
        tokio::time::sleep(self.next).await;
        self.next = (self.next * 2).min(self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_double_up_to_the_bound() {
        let timing = Timing {
            backoff_first: Duration::from_millis(20),
            backoff_most: Duration::from_millis(50),
            ..Timing::default()
        };
        let mut backoff = timing.backoff();
        let started = tokio::time::Instant::now();
        let mut at = Vec::new();
        for _ in 0..4 {
            backoff.wait().await;
            at.push(started.elapsed().as_millis());
        }
        assert_eq!(at, [20, 60, 110, 160]);
    }
}
