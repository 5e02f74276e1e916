//! How long something took, many times.

use std::time::Duration;

/// Times of one contestant.
#[derive(Default)]
pub(crate) struct Times(pub(crate) Vec<Duration>);

impl Times {
    /// The time that this share of them stays below.
    pub(crate) fn below(&self, share: f64) -> Duration {
        let mut times = self.0.clone();
        times.sort();
        let at = (times.len() as f64 * share) as usize;
        times.get(at).copied().unwrap_or_default()
    }

    pub(crate) fn say(&self, what: &str) {
        let times = [0.0, 0.25, 0.5, 0.75, 0.95].map(|share| self.below(share).as_secs_f64() * 1e6);
        let times = times.map(|micros| format!("{micros:>7.0}"));
        println!("{what:<40} least, 25, 50, 75, 95 %: {} µs", times.join(" "));
    }

    /// The ratio of the medians.
    pub(crate) fn against(&self, other: &Times) -> f64 {
        self.below(0.5).as_secs_f64() / other.below(0.5).as_secs_f64()
    }
}
