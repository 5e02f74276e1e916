//! What all turns of a scope have used up in a period: an hour, a day, a month.
//!
//! Kept as one value a scope and period beside the log, so that it holds across processes and restarts. A turn says what
//! it has used so far, again and again; what it said last counts, so that a process which takes it up says the same.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use annals_core::ids::{Scope, TurnId};
use annals_core::settings::Period;
use annals_core::time::Timestamp;
use annals_store::register::Hand;
use annals_store::{LogError, Register, Store};
use serde::{Deserialize, Serialize};

use crate::bounds::Spent;

/// The books of every scope. Clones share them.
#[derive(Clone)]
pub(crate) struct ScopeBudgets {
    register: Register,
    /// What was said and is not written yet, by book.
    said: Arc<Mutex<HashMap<Book, Vec<Entry>>>>,
}

/// Where a turn's spending is written down.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Book {
    scope: Scope,
    /// The beginning of a time in RFC 3339, as far as the period goes.
    period: String,
    /// The period before the last, in which no turn can be any more that counts.
    long_over: String,
}

/// What a turn has used.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) turn: TurnId,
    pub(crate) spent: Spent,
    /// Whether it uses no more.
    pub(crate) is_over: bool,
}

/// A book as it is kept.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Page {
    /// Turns that have ended, together.
    ended: Spent,
    /// Turns that may use more.
    open: BTreeMap<TurnId, Spent>,
}

impl Book {
    /// The book of a turn that began at this time. It stays in it, however long it takes.
    pub(crate) fn of(scope: &Scope, period: Period, began: Timestamp) -> Self {
        let digits = match period {
            Period::Hour => "2026-11-17T12".len(),
            Period::Day => "2026-11-17".len(),
            Period::Month => "2026-11".len(),
        };
        let written = began.to_string();
        const HOUR_SECONDS: i64 = 60 * 60;
        let back_seconds = match period {
            Period::Hour => 2 * HOUR_SECONDS,
            Period::Day => 2 * 24 * HOUR_SECONDS,
            Period::Month => {
                let days_of_month: i64 = written[8..10].parse().unwrap_or(31);
                (days_of_month + 31) * 24 * HOUR_SECONDS
            }
        };
        let long_over = began.plus_micros(-back_seconds * 1_000_000).to_string();
        Book {
            scope: scope.clone(),
            period: written[..digits].to_owned(),
            long_over: long_over[..digits].to_owned(),
        }
    }

    fn name(&self) -> String {
        format!("{} {}", self.scope, self.period)
    }

    fn name_long_over(&self) -> String {
        format!("{} {}", self.scope, self.long_over)
    }
}

impl Page {
    fn read(text: Option<&str>) -> Self {
        text.and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }

    fn take(&mut self, entry: &Entry) {
        match entry.is_over {
            true => {
                self.open.remove(&entry.turn);
                self.ended = self.ended.and(entry.spent);
            }
            false => {
                self.open.insert(entry.turn.clone(), entry.spent);
            }
        }
    }

    fn total_but(&self, turn: &TurnId) -> Spent {
        let open = self.open.iter().filter(|(open, _)| *open != turn);
        open.fold(self.ended, |total, (_, spent)| total.and(*spent))
    }
}

impl ScopeBudgets {
    pub(crate) fn new(log: Arc<dyn Store>) -> Self {
        ScopeBudgets {
            register: Register::new(log, "spending"),
            said: Arc::default(),
        }
    }

    /// What the other turns of the book have used.
    pub(crate) async fn others(&self, book: &Book, turn: &TurnId) -> Result<Spent, LogError> {
        let text = self.register.get(&book.name()).await?;
        Ok(Page::read(text.as_deref()).total_but(turn))
    }

    /// Writes down what a turn has used. Turns that say so at the same time are written together.
    pub(crate) async fn say(&self, book: &Book, entry: Entry, hand: &Hand) -> Result<(), LogError> {
        {
            let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
            said.entry(book.clone()).or_default().push(entry);
        }
        let (mut taken, mut is_new): (Option<Vec<Entry>>, bool) = (None, false);
        let written = self
            .register
            .change(&book.name(), hand, |before| {
                // Asked again, it writes the same entries on what is there then.
                let entries = taken.get_or_insert_with(|| {
                    let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
                    said.remove(book).unwrap_or_default()
                });
                is_new = before.is_none();
                let mut page = Page::read(before);
                entries.iter().for_each(|entry| page.take(entry));
                serde_json::to_string(&page).expect("plain data always serialises to JSON")
            })
            .await;
        if let (Err(_), Some(entries)) = (&written, taken) {
            // They are written with what is said next.
            let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
            said.entry(book.clone()).or_default().splice(0..0, entries);
        }
        if written.is_ok() && is_new {
            let removed = self.register.remove(&book.name_long_over(), &hand.owner).await;
            if let Err(error) = removed {
                tracing::debug!(%error, "an old book of a scope's budget was not removed");
            }
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use annals_core::ids::NodeId;
    use annals_store::{MemoryLog, Owner};

    use super::*;

    fn spent(model_calls: u64) -> Spent {
        Spent {
            model_calls,
            ..Spent::default()
        }
    }

    #[tokio::test]
    async fn what_a_turn_said_last_counts_in_the_period_it_began_in() {
        let log: Arc<dyn Store> = Arc::new(MemoryLog::default());
        let budgets = ScopeBudgets::new(log.clone());
        let began = Timestamp::parse("2026-11-17T23:59:59Z").unwrap();
        let scope = Scope::default();
        let book = Book::of(&scope, Period::Day, began);
        let [one, two] = ["turn_1", "turn_2"].map(|id| TurnId::parse(id).unwrap());
        let hand = |random| Hand {
            owner: Owner::new(NodeId::parse("n").unwrap(), 1),
            now: began,
            random,
        };
        let old = Book::of(&scope, Period::Day, began.plus_micros(-2 * 86_400_000_000));
        let says = [
            (&old, &two, 9, false),
            (&book, &one, 2, false),
            (&book, &one, 3, false),
            (&book, &two, 4, true),
        ];
        for (random, (book, turn, calls, is_over)) in says.into_iter().enumerate() {
            let entry = Entry {
                turn: turn.clone(),
                spent: spent(calls),
                is_over,
            };
            budgets.say(book, entry, &hand(random as u64)).await.unwrap();
        }
        // Another process reads the same.
        let budgets = ScopeBudgets::new(log);
        let others = |book: Book, turn: TurnId| {
            let budgets = budgets.clone();
            async move { budgets.others(&book, &turn).await.unwrap().model_calls }
        };
        assert_eq!(others(old, one.clone()).await, 0, "what is long over is gone");
        assert_eq!(others(book.clone(), one).await, 4);
        assert_eq!(others(book, two.clone()).await, 7);
        for (period, long_over) in [
            (Period::Hour, "2026-11-17T21"),
            (Period::Day, "2026-11-15"),
            (Period::Month, "2026-09"),
        ] {
            assert_eq!(Book::of(&scope, period, began).long_over, long_over);
        }
        let month = Book::of(&scope, Period::Month, began);
        let next = Book::of(&scope, Period::Day, began.plus_micros(1_000_000));
        assert_eq!(
            (others(month, two.clone()).await, others(next, two).await),
            (0, 0)
        );
    }
}
