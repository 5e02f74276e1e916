//! What this process knows the log to hold, so that a database that went back in time is noticed.
//!
//! A failover to a standby that was behind, or a restored backup, takes back what was acknowledged. Fencing tokens and tails
//! never fall otherwise, so whoever finds fewer blocks than it was told of, or others, says so instead of going on with what
//! is left. Who reads a conversation for the first time cannot know.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use annals_core::ids::{ConversationKey, Seq};
use annals_store::{Lease, LogError};
use tokio_postgres::Client;

/// Number of conversations, at least, of which it is remembered what they held.
const REMEMBERED_MAX: usize = 50_000;

/// What one conversation held.
#[derive(Clone, Debug)]
pub(crate) struct Last {
    incarnation: i64,
    /// Its last block, as it was last acknowledged or found.
    pub(crate) tail: Option<Seq>,
    /// The checksum of that block, if this process wrote it.
    sum: Option<i64>,
    /// The last block that a session of this process may have folded in, whatever was found since.
    longest: Option<Seq>,
    /// The history of the server at that time.
    history: Option<String>,
    /// When this was learnt.
    learnt: Moment,
}

/// A time in the order in which this process learnt what the log holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

#[derive(Debug, Default)]
struct Known {
    young: HashMap<ConversationKey, Last>,
    /// What was not used since `young` was full: the next to be forgotten.
    old: HashMap<ConversationKey, Last>,
    history: Option<String>,
    now: Moment,
}

impl Known {
    fn get(&self, key: &ConversationKey) -> Option<&Last> {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    fn put(&mut self, key: &ConversationKey, last: Last) {
        if self.young.len() >= REMEMBERED_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.now.0 += 1;
        let learnt = self.now;
        self.young.insert(key.clone(), Last { learnt, ..last });
    }
}

/// What this process knows of every conversation that it wrote or held lately. Held only for a look.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<Known>);

impl Seen {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection was made to a server with this history.
    pub(crate) fn connected(&self, history: Option<String>) {
        self.known().history = history;
    }

    /// Asked before a statement whose answer is for [`found`](Self::found).
    pub(crate) fn now(&self) -> Moment {
        self.known().now
    }

    /// What was known of a conversation.
    pub(crate) fn last(&self, key: &ConversationKey) -> Option<Last> {
        self.known().get(key).cloned()
    }

    /// An append is durable: its last block and that block's checksum.
    pub(crate) fn acknowledged(&self, lease: &Lease, tail: Option<Seq>, sum: Option<i64>) {
        let mut known = self.known();
        let before = known.get(lease.key());
        let same = before.filter(|last| last.incarnation == lease.incarnation() as i64);
        // An append without blocks leaves the last one as it was.
        let before_sum = same.filter(|last| last.tail == tail).and_then(|last| last.sum);
        let longest = same.and_then(|last| last.longest);
        let last = Last {
            incarnation: lease.incarnation() as i64,
            tail,
            sum: sum.or(before_sum),
            longest: longest.max(tail),
            history: known.history.clone(),
            learnt: known.now,
        };
        known.put(lease.key(), last);
    }

    /// Compares what a conversation was found to hold with what had been known of it when that was `asked`, and remembers what
    /// was found. `sum` is the checksum of the block that was the last one then, if it is there. What this process has learnt
    /// since is newer than the answer, which says nothing against it.
    pub(crate) fn found(
        &self,
        key: &ConversationKey,
        asked: Moment,
        incarnation: i64,
        (tail, sum): (Option<Seq>, Option<i64>),
    ) -> Result<(), LogError> {
        let mut known = self.known();
        let last = known
            .get(key)
            .filter(|last| last.incarnation == incarnation)
            .cloned();
        if last.as_ref().is_some_and(|last| last.learnt > asked) {
            return Ok(());
        }
        let is_shorter = last.as_ref().is_some_and(|last| tail < last.tail);
        let is_another = last
            .as_ref()
            .is_some_and(|last| last.sum.is_some() && sum.is_some() && last.sum != sum);
        let is_same = last.as_ref().is_some_and(|last| last.tail == tail);
        let found = Last {
            incarnation,
            tail,
            sum: last
                .as_ref()
                .and_then(|last| last.sum)
                .filter(|_| is_same && !is_another),
            longest: last.as_ref().and_then(|last| last.longest).max(tail),
            history: known.history.clone(),
            learnt: known.now,
        };
        known.put(key, found);
        match last.and_then(|last| last.tail) {
            Some(acknowledged) if is_shorter || is_another => Err(LogError::Lost {
                id: key.id.clone(),
                acknowledged,
                actual: tail,
            }),
            _ => Ok(()),
        }
    }

    /// What to say to a writer that builds on blocks which are not there, if they were there once.
    pub(crate) fn lost(&self, lease: &Lease, expected: Option<Seq>, actual: Option<Seq>) -> Option<LogError> {
        let known = self.known();
        let last = known
            .get(lease.key())
            .filter(|last| last.incarnation == lease.incarnation() as i64)?;
        let acknowledged = last.longest?;
        (actual < expected && expected <= Some(acknowledged)).then(|| LogError::Lost {
            id: lease.key().id.clone(),
            acknowledged,
            actual,
        })
    }

    /// What to say of a conversation that is not there. Another node may have deleted it; if the server's history is another
    /// than when its blocks were acknowledged, the server never had it.
    pub(crate) fn gone(&self, key: &ConversationKey, history: Option<&str>) -> Option<LogError> {
        let mut known = self.known();
        let last = known.get(key)?;
        let is_another_history =
            matches!((last.history.as_deref(), history), (Some(then), Some(now)) if then != now);
        let acknowledged = last.longest.filter(|_| is_another_history)?;
        known.young.remove(key);
        known.old.remove(key);
        Some(LogError::Lost {
            id: key.id.clone(),
            acknowledged,
            actual: None,
        })
    }

    /// A conversation was deleted here.
    pub(crate) fn forget(&self, key: &ConversationKey) {
        let mut known = self.known();
        known.young.remove(key);
        known.old.remove(key);
    }
}

/// What the server calls its history: a standby that takes over begins another. None where it does not tell.
pub(crate) async fn history(client: &Client) -> Option<String> {
    let row = client
        .query_typed_one("SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)", &[])
        .await;
    row.ok()?.try_get(0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use annals_store::testing::{conversation, owner};
    use std::time::Duration;

    fn lease(token: u64) -> Lease {
        Lease::new(conversation("c"), owner("a"), token, Duration::from_secs(1), 7)
    }

    fn seq(number: u64) -> Option<Seq> {
        Seq::try_new(number).ok()
    }

    fn is_lost<T>(outcome: &Result<T, LogError>, of: u64, left: Option<Seq>) -> bool {
        matches!(outcome, Err(LogError::Lost { acknowledged, actual, .. })
            if Some(*acknowledged) == seq(of) && *actual == left)
    }

    #[test]
    fn a_log_that_is_shorter_is_told_once_to_whoever_takes_it_and_always_to_whoever_builds_on_what_is_gone() {
        let (seen, key) = (Seen::default(), conversation("c"));
        seen.acknowledged(&lease(1), seq(7), Some(70));
        assert!(is_lost(
            &seen.found(&key, seen.now(), 7, (seq(3), None)),
            7,
            seq(3)
        ));
        assert!(
            seen.found(&key, seen.now(), 7, (seq(3), None)).is_ok(),
            "it has been said"
        );
        assert!(seen.lost(&lease(9), seq(7), seq(3)).is_some());
        assert!(seen.lost(&lease(9), seq(5), seq(4)).is_some());
        assert!(
            seen.lost(&lease(9), seq(8), seq(3)).is_none(),
            "nobody was told of block 8"
        );
        assert!(seen.lost(&lease(9), seq(3), seq(4)).is_none());
        seen.acknowledged(&lease(9), seq(5), Some(50));
        assert!(
            is_lost(&seen.found(&key, seen.now(), 7, (None, None)), 5, None),
            "lost again"
        );
    }

    #[test]
    fn a_log_that_has_other_blocks_in_their_place_is_told_too() {
        let (seen, key) = (Seen::default(), conversation("c"));
        seen.acknowledged(&lease(1), seq(7), Some(70));
        assert!(
            seen.found(&key, seen.now(), 7, (seq(9), Some(70))).is_ok(),
            "others wrote on"
        );
        seen.acknowledged(&lease(3), seq(10), Some(100));
        assert!(is_lost(
            &seen.found(&key, seen.now(), 7, (seq(12), Some(101))),
            10,
            seq(12)
        ));
        assert!(seen.found(&key, seen.now(), 7, (seq(12), None)).is_ok());
    }

    #[test]
    fn a_conversation_that_is_gone_is_lost_only_if_the_server_is_another() {
        let (seen, key) = (Seen::default(), conversation("c"));
        seen.connected(Some("00000001".to_owned()));
        seen.acknowledged(&lease(1), seq(2), None);
        assert!(seen.gone(&key, Some("00000001")).is_none(), "somebody deleted it");
        assert!(seen.gone(&key, None).is_none(), "nobody knows");
        assert!(seen.gone(&key, Some("00000002")).is_some());
        assert!(seen.gone(&key, Some("00000002")).is_none(), "it has been said");
        // One of the same name is another.
        seen.acknowledged(&lease(1), seq(2), None);
        assert!(seen.found(&key, seen.now(), 8, (None, None)).is_ok());
    }

    #[test]
    fn an_answer_that_is_older_than_what_was_learnt_meanwhile_is_no_loss() {
        let (seen, key) = (Seen::default(), conversation("c"));
        seen.acknowledged(&lease(1), seq(7), Some(70));
        let asked = seen.now();
        // While the answer is on its way, another session of this process writes on.
        seen.acknowledged(&lease(2), seq(8), Some(80));
        assert!(
            seen.found(&key, asked, 7, (seq(7), Some(70))).is_ok(),
            "shorter, and older"
        );
        assert!(
            seen.found(&key, asked, 7, (seq(8), Some(70))).is_ok(),
            "of the block before"
        );
        let outcome = seen.found(&key, seen.now(), 7, (seq(7), None));
        assert!(
            is_lost(&outcome, 8, seq(7)),
            "block 8 is still known: {outcome:?}"
        );
    }
}
