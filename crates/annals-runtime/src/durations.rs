//! How long something took, counted in buckets: for figures of the whole process, without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets, in microseconds; what took longer is in a last one.
const BOUNDS_MICROS: [u64; 12] = [
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    100_000,
    250_000,
    1_000_000,
    5_000_000,
    30_000_000,
    120_000_000,
];

/// Durations, counted.
#[derive(Debug, Default)]
pub struct Durations {
    buckets: [AtomicU64; BOUNDS_MICROS.len() + 1],
    sum_micros: AtomicU64,
}

/// What was counted up to a moment.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Counted {
    /// Upper bounds in seconds, and how many took at most that long.
    pub at_most: Vec<(f64, u64)>,
    /// How many there were.
    pub count: u64,
    /// How long all of them took, in seconds.
    pub seconds: f64,
}

impl Durations {
    /// Counts one.
    pub fn observe(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_MICROS.partition_point(|bound| *bound < micros);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// What was counted so far.
    pub fn counted(&self) -> Counted {
        let mut count = 0;
        let mut at_most = Vec::with_capacity(BOUNDS_MICROS.len());
        for (at, bucket) in self.buckets.iter().enumerate() {
            count += bucket.load(Ordering::Relaxed);
            at_most.extend(BOUNDS_MICROS.get(at).map(|bound| (*bound as f64 / 1e6, count)));
        }
        Counted {
            at_most,
            count,
            seconds: self.sum_micros.load(Ordering::Relaxed) as f64 / 1e6,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_took_at_most_its_bound() {
        let durations = Durations::default();
        for micros in [500, 501, 130_000_000] {
            durations.observe(Duration::from_micros(micros));
        }
        let counted = durations.counted();
        assert_eq!(counted.at_most[..2], [(0.0005, 1), (0.001, 2)]);
        assert_eq!(
            counted.at_most.last(),
            Some(&(120.0, 2)),
            "the longest is in no bucket but the count"
        );
        assert_eq!((counted.count, counted.seconds), (3, 130.001_001));
    }
}
