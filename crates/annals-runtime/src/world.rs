//! Time and chance: everything a run takes from outside that its log does not hold.
//!
//! Time comes in through a [`Clock`], chance through an [`Entropy`], so that a test can give its own.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use annals_core::ids::{CallId, ConversationId, TurnId};
use annals_core::time::Timestamp;
pub use annals_store::{Clock, SystemClock};

/// Draws random numbers.
pub trait Entropy: Send + Sync {
    /// Sixty-four random bits.
    fn next_u64(&self) -> u64;
}

/// Random bits from the operating system's seed of the standard library's hasher.
#[derive(Debug, Default)]
pub struct SystemEntropy {
    seed: RandomState,
    drawn: AtomicU64,
}

impl Entropy for SystemEntropy {
    fn next_u64(&self) -> u64 {
        // SipHash of a counter under a secret key: unpredictable enough for ids, and never the same twice.
        self.seed.hash_one(self.drawn.fetch_add(1, Ordering::Relaxed))
    }
}

/// A clock that advances by a fixed step each time it is read: for tests and replays.
#[derive(Debug)]
pub struct SteppingClock {
    next_micros: AtomicI64,
    step_micros: i64,
}

impl SteppingClock {
    /// A clock that starts there and advances so far at each reading.
    pub fn new(start: Timestamp, step_micros: i64) -> Self {
        SteppingClock {
            next_micros: AtomicI64::new(start.unix_micros()),
            step_micros,
        }
    }

    /// Lets time pass.
    pub fn advance_seconds(&self, seconds: i64) {
        self.next_micros.fetch_add(seconds * 1_000_000, Ordering::Relaxed);
    }
}

impl Clock for SteppingClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_micros(self.next_micros.fetch_add(self.step_micros, Ordering::Relaxed))
    }
}

/// Numbers that follow from a seed: for tests and replays.
#[derive(Debug)]
pub struct SeededEntropy(AtomicU64);

impl SeededEntropy {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        SeededEntropy(AtomicU64::new(seed))
    }
}

impl Entropy for SeededEntropy {
    fn next_u64(&self) -> u64 {
        // splitmix64: a counter through a fixed mixing function.
        let mut mixed = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Where time, chance and so new ids come from.
#[derive(Clone)]
pub struct World {
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
}

impl Default for World {
    fn default() -> Self {
        World {
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy::default()),
        }
    }
}

impl World {
    /// A world with this clock and these numbers.
    pub fn new(clock: impl Clock + 'static, entropy: impl Entropy + 'static) -> Self {
        World {
            clock: Arc::new(clock),
            entropy: Arc::new(entropy),
        }
    }

    /// A world whose time and ids follow from a seed.
    pub fn seeded(seed: u64) -> Self {
        let start = Timestamp::from_unix_millis(1_770_000_000_000);
        World::new(SteppingClock::new(start, 1_000), SeededEntropy::new(seed))
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A new turn's id.
    pub fn turn_id(&self) -> TurnId {
        TurnId::made(self.now().unix_millis(), self.bytes())
    }

    /// A new call's id.
    pub fn call_id(&self) -> CallId {
        CallId::made(self.entropy.next_u64())
    }

    /// A new conversation's id.
    pub fn conversation_id(&self) -> ConversationId {
        ConversationId::made(self.entropy.next_u64())
    }

    /// Sixty-four random bits.
    pub fn random(&self) -> u64 {
        self.entropy.next_u64()
    }

    fn bytes<const N: usize>(&self) -> [u8; N] {
        let drawn = self.entropy.next_u64().to_le_bytes();
        std::array::from_fn(|at| drawn[at % drawn.len()])
    }
}
