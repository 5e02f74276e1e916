//! How much one caller may have at once: requests by a token bucket, streams by a count, bodies by their size.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use annals_core::ids::{Scope, TurnId};
use tokio::time::Instant;

use crate::problem::{Code, Problem};

/// The limits of a server.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of a request's head that are waited for: its first line and its headers. A head of twice as many is refused.
    pub head_max_bytes: usize,
    /// A client has this long to send the head of a request.
    pub head_timeout: Duration,
    /// A client has this long between two pieces of a body.
    pub body_timeout: Duration,
    /// After that time, a body must have come at this rate on the whole.
    pub body_bytes_per_second: u64,
    /// A client that takes nothing of an answer for this long is gone.
    pub write_timeout: Duration,
    /// Bytes of a JSON body; attachments in it are base64.
    pub json_max_bytes: usize,
    /// Bytes of a body with files: multipart, and exports that are imported.
    pub upload_max_bytes: u64,
    /// Files that may come with one prompt.
    pub attachments_max: usize,
    /// Requests a second that one token may send for long.
    pub requests_per_second: u32,
    /// Requests that one token may send at once after a pause.
    pub requests_burst: u32,
    /// Streams of events that one token may have open.
    pub streams_per_token: usize,
    /// Prompts that may wait in one conversation.
    pub queue_max: usize,
    /// Turns that one scope may have under way in this process; those that wait for a person do not count.
    pub turns_per_scope: usize,
    /// Scopes that may have sessions of the Model Context Protocol in this process.
    pub mcp_scopes: usize,
    /// Connections at once.
    pub connections_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            head_max_bytes: 32 * 1024,
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            body_bytes_per_second: 4 * 1024,
            write_timeout: Duration::from_secs(60),
            json_max_bytes: 16 * 1024 * 1024,
            upload_max_bytes: 512 * 1024 * 1024,
            attachments_max: 32,
            requests_per_second: 200,
            requests_burst: 1_000,
            streams_per_token: 12_000,
            queue_max: 100,
            turns_per_scope: 4_000,
            mcp_scopes: 1_024,
            connections_max: 16_384,
        }
    }
}

/// What every caller uses of its limits.
#[derive(Default)]
pub(crate) struct Usage {
    callers: Mutex<HashMap<String, Used>>,
    turns: Mutex<Turns>,
}

/// Turns under way, by scope.
#[derive(Default)]
struct Turns {
    begun: HashMap<TurnId, (Scope, Instant)>,
    counts: HashMap<Scope, usize>,
}

/// A turn that was posted here and taken up elsewhere is not heard of again; it counts no longer than this.
const UNHEARD: Duration = Duration::from_secs(600);

impl Turns {
    fn forget(&mut self, turn: &TurnId) {
        let Some((scope, _)) = self.begun.remove(turn) else {
            return;
        };
        if let Some(count) = self.counts.get_mut(&scope) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&scope);
            }
        }
    }

    fn forget_unheard(&mut self, now: Instant) {
        let unheard = |begun: &Instant| now.saturating_duration_since(*begun) >= UNHEARD;
        let turns = self.begun.iter().filter(|(_, (_, begun))| unheard(begun));
        let turns: Vec<TurnId> = turns.map(|(turn, _)| turn.clone()).collect();
        turns.iter().for_each(|turn| self.forget(turn));
    }
}

struct Used {
    /// Requests that may be sent now, in thousandths.
    left_milli: u64,
    counted: Instant,
    streams: usize,
}

/// An open stream; it counts until it is dropped.
pub(crate) struct StreamPermit {
    usage: Arc<Usage>,
    caller: String,
}

/// A turn that is counted and not posted yet: dropped, it counts no more.
pub(crate) struct TurnPlace {
    usage: Arc<Usage>,
    turn: TurnId,
    is_posted: bool,
}

impl TurnPlace {
    /// The turn was posted: it counts until it rests.
    pub(crate) fn posted(mut self) {
        self.is_posted = true;
    }
}

impl Drop for TurnPlace {
    fn drop(&mut self) {
        if !self.is_posted {
            self.usage.turn_rests(&self.turn);
        }
    }
}

impl Usage {
    fn callers(&self) -> MutexGuard<'_, HashMap<String, Used>> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request.
    pub(crate) fn request(&self, caller: &str, limits: &Limits, now: Instant) -> Result<(), Problem> {
        let mut callers = self.callers();
        let used = entry(&mut callers, caller, limits, now);
        let rate = u64::from(limits.requests_per_second);
        let passed_millis = u64::try_from(now.saturating_duration_since(used.counted).as_millis());
        let full_milli = u64::from(limits.requests_burst) * 1_000;
        used.left_milli = passed_millis
            .unwrap_or(u64::MAX)
            .saturating_mul(rate)
            .saturating_add(used.left_milli)
            .min(full_milli);
        used.counted = now;
        match used.left_milli.checked_sub(1_000) {
            Some(left) => {
                used.left_milli = left;
                Ok(())
            }
            None => {
                let detail = format!("this token may send {rate} requests a second");
                Err(Problem::new(Code::TooManyRequests, detail).retry_after(1))
            }
        }
    }

    /// Counts a stream for as long as the permit lives.
    pub(crate) fn stream(
        self: &Arc<Self>,
        caller: &str,
        limits: &Limits,
        now: Instant,
    ) -> Result<StreamPermit, Problem> {
        let mut callers = self.callers();
        let used = entry(&mut callers, caller, limits, now);
        if used.streams >= limits.streams_per_token {
            let detail = format!("this token has {} streams open", used.streams);
            return Err(Problem::new(Code::TooManyStreams, detail).retry_after(5));
        }
        used.streams += 1;
        Ok(StreamPermit {
            usage: Arc::clone(self),
            caller: caller.to_owned(),
        })
    }

    /// Counts a turn that is about to be posted; once it is, until [`turn_rests`](Self::turn_rests).
    pub(crate) fn turn(
        self: &Arc<Self>,
        scope: &Scope,
        turn: &TurnId,
        limits: &Limits,
        now: Instant,
    ) -> Result<TurnPlace, Problem> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let count = |turns: &Turns| turns.counts.get(scope).copied().unwrap_or_default();
        if count(&turns) >= limits.turns_per_scope {
            turns.forget_unheard(now);
        }
        if count(&turns) >= limits.turns_per_scope {
            let detail = format!("{} turns of `{scope}` are under way", count(&turns));
            return Err(Problem::new(Code::TooManyTurns, detail).retry_after(5));
        }
        *turns.counts.entry(scope.clone()).or_default() += 1;
        turns.begun.insert(turn.clone(), (scope.clone(), now));
        Ok(TurnPlace {
            usage: Arc::clone(self),
            turn: turn.clone(),
            is_posted: false,
        })
    }

    /// A turn has ended, waits for somebody, or never came about.
    pub(crate) fn turn_rests(&self, turn: &TurnId) {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.forget(turn);
    }

    /// Streams that are open.
    pub(crate) fn streams(&self) -> usize {
        self.callers().values().map(|used| used.streams).sum()
    }
}

fn entry<'c>(
    callers: &'c mut HashMap<String, Used>,
    caller: &str,
    limits: &Limits,
    now: Instant,
) -> &'c mut Used {
    if callers.len() == callers.capacity() && !callers.contains_key(caller) {
        // Who has been away long enough has a full bucket again, and need not be remembered.
        const AWAY: Duration = Duration::from_secs(600);
        callers.retain(|_, used| used.streams > 0 || now.saturating_duration_since(used.counted) < AWAY);
    }
    callers.entry(caller.to_owned()).or_insert_with(|| Used {
        left_milli: u64::from(limits.requests_burst) * 1_000,
        counted: now,
        streams: 0,
    })
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        if let Some(used) = self.usage.callers().get_mut(&self.caller) {
            used.streams = used.streams.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let limits = Limits {
            requests_per_second: 10,
            requests_burst: 3,
            ..Limits::default()
        };
        let (usage, begin) = (Usage::default(), Instant::now());
        let takes = |millis: u64, caller| {
            usage
                .request(caller, &limits, begin + Duration::from_millis(millis))
                .is_ok()
        };
        assert_eq!([0, 0, 0, 0].map(|at| takes(at, "a")), [true, true, true, false]);
        assert!(takes(0, "b"), "every caller has its own");
        assert_eq!([99, 100, 100].map(|at| takes(at, "a")), [false, true, false]);
        assert_eq!(
            [10_000; 4].map(|at| takes(at, "a")),
            [true, true, true, false],
            "never more than the burst"
        );
    }

    #[test]
    fn a_turn_counts_for_its_scope_until_it_rests() {
        let limits = Limits {
            turns_per_scope: 1,
            ..Limits::default()
        };
        let (usage, [one, two]) = (
            Arc::new(Usage::default()),
            ["turn_1", "turn_2"].map(|id| TurnId::parse(id).unwrap()),
        );
        let [mine, other] = ["a/b/c", "a/b/d"].map(|scope| Scope::parse(scope).unwrap());
        let now = Instant::now();
        let takes = |scope: &Scope, turn: &TurnId, now| {
            let place = usage.turn(scope, turn, &limits, now);
            place.map(TurnPlace::posted).is_ok()
        };
        drop(usage.turn(&mine, &one, &limits, now).ok());
        assert!(takes(&mine, &one, now));
        assert!(!takes(&mine, &two, now));
        assert!(takes(&other, &two, now), "another scope has its own");
        usage.turn_rests(&one);
        usage.turn_rests(&one);
        assert!(takes(&mine, &one, now));
        assert!(
            takes(&mine, &one, now + UNHEARD),
            "one that another node ended does not count for ever"
        );
    }

    #[test]
    fn a_stream_counts_until_it_is_dropped() {
        let limits = Limits {
            streams_per_token: 1,
            ..Limits::default()
        };
        let (usage, now) = (Arc::new(Usage::default()), Instant::now());
        let open = usage.stream("a", &limits, now).ok();
        assert!(usage.stream("a", &limits, now).is_err());
        assert!(usage.stream("b", &limits, now).is_ok());
        drop(open);
        assert_eq!(usage.streams(), 0);
        assert!(usage.stream("a", &limits, now).is_ok());
    }
}
