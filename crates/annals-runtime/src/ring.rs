//! What the subscribers of one conversation have still to hear. Each holds only a number, and nothing is held that all of
//! them have heard, so that ten thousand conversations in which nothing happens take no queues.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The sending side: tells all receivers, and waits for none of them.
pub(crate) struct Ring<T> {
    shared: Arc<Shared<T>>,
}

/// One who hears everything that is told while it exists, as far as it keeps up.
pub(crate) struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// The number of what it hears next.
    next: u64,
}

/// A receiver was too slow: this many were left out for it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Lagged(pub(crate) u64);

struct Shared<T> {
    /// Held for a push or a pop.
    told: Mutex<Told<T>>,
    is_told: Notify,
}

struct Told<T> {
    items: VecDeque<Item<T>>,
    /// The number of the first item.
    first: u64,
    items_max: usize,
    receivers: usize,
}

struct Item<T> {
    value: T,
    /// Receivers that have still to hear it.
    awaited_by: usize,
}

impl<T> Shared<T> {
    fn told(&self) -> MutexGuard<'_, Told<T>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Told<T> {
    fn end(&self) -> u64 {
        self.first + self.items.len() as u64
    }

    /// Lets go of what nobody has still to hear, and of the space for it.
    fn forget_heard(&mut self) {
        while self.items.front().is_some_and(|item| item.awaited_by == 0) {
            self.items.pop_front();
            self.first += 1;
        }
        if self.items.is_empty() {
            self.items = VecDeque::new();
        }
    }
}

impl<T: Clone> Ring<T> {
    /// Keeps at most this many for a slow receiver.
    pub(crate) fn new(items_max: usize) -> Self {
        Ring {
            shared: Arc::new(Shared {
                told: Mutex::new(Told {
                    items: VecDeque::new(),
                    first: 0,
                    items_max,
                    receivers: 0,
                }),
                is_told: Notify::new(),
            }),
        }
    }

    /// One who hears what is told from here on.
    pub(crate) fn subscribe(&self) -> Receiver<T> {
        let mut told = self.shared.told();
        told.receivers += 1;
        Receiver {
            next: told.end(),
            shared: self.shared.clone(),
        }
    }

    pub(crate) fn has_receivers(&self) -> bool {
        self.shared.told().receivers > 0
    }

    /// Tells every receiver. The oldest that somebody has not heard makes room.
    pub(crate) fn tell(&self, value: T) {
        let mut told = self.shared.told();
        if told.receivers == 0 {
            return;
        }
        if told.items.len() == told.items_max {
            told.items.pop_front();
            told.first += 1;
        }
        let awaited_by = told.receivers;
        told.items.push_back(Item { value, awaited_by });
        drop(told);
        self.shared.is_told.notify_waiters();
    }
}

impl<T: Clone> Receiver<T> {
    /// The next one; waits for it. A future that is dropped has taken nothing.
    pub(crate) async fn recv(&mut self) -> Result<T, Lagged> {
        let shared = self.shared.clone();
        loop {
            let is_told = shared.is_told.notified();
            tokio::pin!(is_told);
            // Registered before the look, so that nothing falls in between.
            is_told.as_mut().enable();
            if let Some(heard) = self.hear() {
                return heard;
            }
            is_told.await;
        }
    }

    fn hear(&mut self) -> Option<Result<T, Lagged>> {
        let mut told = self.shared.told();
        if self.next < told.first {
            let missed = told.first - self.next;
            self.next = told.first;
            return Some(Err(Lagged(missed)));
        }
        let at = usize::try_from(self.next - told.first).ok()?;
        let item = told.items.get_mut(at)?;
        item.awaited_by -= 1;
        let value = item.value.clone();
        self.next += 1;
        told.forget_heard();
        Some(Ok(value))
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut told = self.shared.told();
        told.receivers -= 1;
        let heard = usize::try_from(self.next.saturating_sub(told.first)).unwrap_or(usize::MAX);
        for item in told.items.iter_mut().skip(heard) {
            item.awaited_by -= 1;
        }
        told.forget_heard();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn heard(receiver: &mut Receiver<u32>) -> Option<Result<u32, Lagged>> {
        receiver.recv().now_or_never()
    }

    fn held(ring: &Ring<u32>) -> usize {
        ring.shared.told().items.capacity()
    }

    #[test]
    fn each_receiver_hears_everything_from_its_beginning_and_nothing_is_kept_after_that() {
        let ring = Ring::new(4);
        ring.tell(0);
        let mut early = ring.subscribe();
        ring.tell(1);
        let mut late = ring.subscribe();
        ring.tell(2);
        assert_eq!(heard(&mut early), Some(Ok(1)));
        assert_eq!(heard(&mut late), Some(Ok(2)));
        assert_eq!(heard(&mut late), None);
        assert!(held(&ring) > 0, "the early one has not heard the last");
        assert_eq!(heard(&mut early), Some(Ok(2)));
        assert_eq!(held(&ring), 0, "idle subscribers hold no queue");
    }

    #[test]
    fn a_slow_receiver_is_told_how_much_it_missed_and_holds_up_nobody() {
        let ring = Ring::new(2);
        let (mut slow, mut quick) = (ring.subscribe(), ring.subscribe());
        for number in 1..=5 {
            ring.tell(number);
            assert_eq!(heard(&mut quick), Some(Ok(number)));
        }
        assert_eq!(heard(&mut slow), Some(Err(Lagged(3))));
        assert_eq!(heard(&mut slow), Some(Ok(4)));
        drop(slow);
        assert_eq!(held(&ring), 0, "what one who left did not hear is let go of");
        assert!(ring.has_receivers());
        drop(quick);
        assert!(!ring.has_receivers());
    }

    #[tokio::test]
    async fn one_who_waits_is_woken() {
        let ring = Ring::new(2);
        let mut receiver = ring.subscribe();
        let waits = tokio::spawn(async move { receiver.recv().await });
        tokio::task::yield_now().await;
        ring.tell(7);
        assert_eq!(waits.await.unwrap(), Ok(7));
    }
}
