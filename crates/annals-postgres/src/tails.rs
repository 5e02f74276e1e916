//! Growth on other nodes: coalesced hints, and polling as the net below them.
//!
//! An append never notifies: committing notifiers hold one lock of the whole server across their flush. What was appended
//! or posted here is told on a connection of its own, at most every [`GATHERED`]; that connection also listens. Where there
//! is none, or a hint is lost, the followed heads are read every [`POLLED`], and at once when it listens again.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use annals_core::ids::{ConversationKey, Seq};
use annals_store::log::{Followers, Mark};
use annals_store::{Clock, InboxId, LogError};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::fault::Fault;
use crate::pool::{Pool, attempt};
use crate::{answers, inbox, link, pooler};

/// How long hints are gathered after the last ones were told.
const GATHERED: Duration = Duration::from_millis(20);

/// How long growth on another node may stay unnoticed without hints.
const POLLED: Duration = Duration::from_millis(500);

/// The pauses before a connection for hints is made again grow from the first to the last.
const HINTLESS_MIN: Duration = Duration::from_millis(20);
const HINTLESS_MAX: Duration = Duration::from_secs(1);

/// A connection on which nothing was heard for this long is asked whether it still is one: a network that swallows everything
/// does not say so.
const HEARD: Duration = Duration::from_secs(5);

/// Such a connection is given up when it has not answered by then.
const SILENT_MAX: Duration = Duration::from_secs(5);

/// Consumed posts are forgotten once in this many polls.
const POLLS_PER_CLEANING: u32 = 120;

/// What one notification carries at most; the server takes less than 8,000 bytes.
const PAYLOAD_MAX_BYTES: usize = 7_900;

/// Gathered hints beyond this many are left to polling.
const GATHERED_MAX: usize = 20_000;

const CHANNEL: &str = "annals";

/// Tells this node's followers what happens anywhere.
#[derive(Debug, Default)]
pub(crate) struct News {
    pub(crate) followers: Arc<Followers>,
    followed: Mutex<Followed>,
    gathered: Mutex<HashMap<i64, Mark>>,
    is_gathered: Notify,
    /// Nobody listened for a while.
    is_behind: Arc<Notify>,
}

/// Followed conversations by name and by number.
#[derive(Debug, Default)]
struct Followed {
    numbers: HashMap<ConversationKey, i64>,
    names: HashMap<i64, ConversationKey>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl News {
    /// Starts telling and listening. Both end when the last strong reference is gone.
    pub(crate) fn start(pool: &Arc<Pool>, clock: Option<Arc<dyn Clock>>) -> Arc<Self> {
        let news = Arc::<News>::default();
        tokio::spawn(poll(Arc::downgrade(&news), Arc::clone(pool), clock));
        if pool.address().direct.is_some() {
            tokio::spawn(hint(Arc::downgrade(&news), Arc::clone(pool)));
        }
        news
    }

    /// This node changed a conversation.
    pub(crate) fn advance(&self, key: &ConversationKey, number: i64, mark: Mark) {
        self.followers.advance(key, mark);
        self.gather([(number, mark)]);
        self.is_gathered.notify_one();
    }

    /// Other nodes are to be told of these.
    fn gather(&self, hints: impl IntoIterator<Item = (i64, Mark)>) {
        let mut gathered = lock(&self.gathered);
        for (number, mark) in hints {
            if gathered.len() < GATHERED_MAX {
                let known = gathered.entry(number).or_default();
                known.tail = known.tail.max(mark.tail);
                known.posted = known.posted.max(mark.posted);
            }
        }
    }

    /// Somebody follows this conversation, which has this number.
    pub(crate) fn follow(&self, key: &ConversationKey, number: i64) {
        let mut followed = lock(&self.followed);
        followed.numbers.insert(key.clone(), number);
        followed.names.insert(number, key.clone());
    }

    /// The numbers of what is followed still.
    fn followed(&self) -> Vec<i64> {
        let keys = self.followers.keys();
        let mut followed = lock(&self.followed);
        let Followed { numbers, names } = &mut *followed;
        if names.len() > keys.len() * 2 {
            let kept: std::collections::HashSet<&ConversationKey> = keys.iter().collect();
            numbers.retain(|key, _| kept.contains(key));
            names.retain(|number, key| numbers.get(key) == Some(number));
        }
        keys.iter().filter_map(|key| numbers.get(key).copied()).collect()
    }

    /// Tells followers of what is known of a number; none if the conversation is gone.
    fn tell(&self, number: i64, mark: Option<Mark>) {
        let mut followed = lock(&self.followed);
        let Some(key) = followed.names.get(&number).cloned() else {
            return;
        };
        match mark {
            Some(mark) => self.followers.advance(&key, mark),
            // A later conversation of that name is another one.
            None if followed.numbers.get(&key) == Some(&number) => {
                followed.numbers.remove(&key);
                followed.names.remove(&number);
                self.followers.end(&key);
            }
            None => {
                followed.names.remove(&number);
            }
        }
    }
}

/// A mark from the columns of a head.
pub(crate) fn mark_of(tail: Option<Seq>, posted: Option<i64>) -> Mark {
    Mark {
        tail,
        posted: posted.map(|id| InboxId::new(id.unsigned_abs())),
    }
}

/// Reads the followed heads again and again.
async fn poll(news: Weak<News>, pool: Arc<Pool>, clock: Option<Arc<dyn Clock>>) {
    let Some(is_behind) = news.upgrade().map(|news| Arc::clone(&news.is_behind)) else {
        return;
    };
    for round in 1_u32.. {
        // Who was not listening for a while looks at once.
        let _waited = tokio::time::timeout(POLLED, is_behind.notified()).await;
        let Some(news) = news.upgrade() else { return };
        let numbers = news.followed();
        // What fails is tried again at the next round: those who read the log are told why it fails.
        if !numbers.is_empty() {
            let _failed = look(&pool, &news, &numbers).await;
        }
        if round % POLLS_PER_CLEANING == 0 {
            let now = clock.as_ref().map(|clock| clock.now().unix_micros());
            let _failed = clean(&pool, now).await;
        }
    }
}

/// Takes away what need not be known any more.
async fn clean(pool: &Pool, now: Option<i64>) -> Result<(), LogError> {
    attempt!(pool, |client, attempts| async {
        inbox::forget(client, now).await?;
        answers::forget(client, now).await
    })
}

async fn look(pool: &Pool, news: &News, numbers: &[i64]) -> Result<(), LogError> {
    let rows: Vec<tokio_postgres::Row> = {
        let outcome: Result<_, LogError> = attempt!(pool, |client, attempts| read_heads(client, numbers));
        outcome?
    };
    let found: HashMap<i64, Mark> = rows
        .iter()
        .map(|row| {
            let tail = crate::conversations::tail_of(row.get(1));
            (row.get(0), mark_of(tail, row.get(2)))
        })
        .collect();
    for number in numbers {
        news.tell(*number, found.get(number).copied());
    }
    Ok(())
}

async fn read_heads(client: &Client, numbers: &[i64]) -> Result<Vec<tokio_postgres::Row>, Fault> {
    Ok(client
        .query_typed(
            "SELECT conversation, tail, posted FROM annals.head WHERE conversation = ANY ($1)",
            &[(&numbers, Type::INT8_ARRAY)],
        )
        .await?)
}

/// Keeps a connection that tells and listens.
async fn hint(news: Weak<News>, pool: Arc<Pool>) {
    let mut pause = HINTLESS_MIN;
    while news.strong_count() > 0 {
        match hint_until_it_breaks(&news, &pool).await {
            Ok(Ended::Broken) => pause = HINTLESS_MIN,
            Ok(Ended::Pooled) => {
                tracing::warn!(
                    "a pooler stands before {}: growth on other nodes is found by polling; name the way around it with \
                     `direct_host` or `direct_port`, or say `pooled=true`",
                    pool.address().name()
                );
                return;
            }
            Err(fault) => tracing::debug!("hints are left to polling for now: {fault}"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(HINTLESS_MAX);
    }
}

/// Why a connection for hints is not used any more.
enum Ended {
    Broken,
    Pooled,
}

/// Sends statements on the connection for hints, and gives it up when it does not answer.
async fn say(client: &Client, statements: &str) -> Result<(), Fault> {
    let said = tokio::time::timeout(SILENT_MAX, client.batch_execute(statements)).await;
    Ok(said.map_err(|_| Fault::Silent)??)
}

async fn hint_until_it_breaks(news: &Weak<News>, pool: &Pool) -> Result<Ended, Fault> {
    let Some(direct) = &pool.address().direct else {
        return Ok(Ended::Pooled);
    };
    let (wire, mut heard) = link::open(pool.address(), direct).await?;
    let client = wire.client;
    let pooled = tokio::time::timeout(SILENT_MAX, pooler::is_between(&client)).await;
    if pooled.map_err(|_| Fault::Silent)?? {
        return Ok(Ended::Pooled);
    }
    say(&client, &format!("LISTEN {CHANNEL}")).await?;
    if let Some(news) = news.upgrade() {
        news.is_behind.notify_one();
    }
    // When the hints that are being gathered are due: what nobody was told of while there was no connection, at once.
    let mut due = Some(Instant::now());
    let mut told = Instant::now();
    let mut alive = Instant::now();
    loop {
        let Some(strong) = news.upgrade() else {
            return Ok(Ended::Broken);
        };
        tokio::select! {
            hint = heard.recv() => match hint {
                Some(hint) => {
                    alive = Instant::now();
                    strong.hear(&hint, &mut heard);
                }
                None => return Ok(Ended::Broken),
            },
            // The first after a while is told at once; what comes soon after it is gathered.
            () = strong.is_gathered.notified(), if due.is_none() => due = Some(told + GATHERED),
            () = tokio::time::sleep_until(due.unwrap_or(told)), if due.is_some() => {
                (due, told) = (None, Instant::now());
                if strong.tell_others(&client).await.is_err() {
                    return Ok(Ended::Broken);
                }
            }
            () = tokio::time::sleep_until(alive + HEARD) => {
                if say(&client, "").await.is_err() {
                    return Ok(Ended::Broken);
                }
                alive = Instant::now();
            }
            // Looks now and then whether anybody still wants to know.
            () = tokio::time::sleep(POLLED) => {}
        }
    }
}

impl News {
    /// Tells other nodes what was gathered. What they could not be told of is gathered again.
    async fn tell_others(&self, client: &Client) -> Result<(), Fault> {
        let gathered = std::mem::take(&mut *lock(&self.gathered));
        for payload in payloads(&gathered) {
            // A lost hint is found by polling: it need not be flushed. Numbers and colons need no quotes.
            let hint =
                format!("BEGIN; SET LOCAL synchronous_commit = off; NOTIFY {CHANNEL}, '{payload}'; COMMIT");
            let said = say(client, &hint).await;
            if said.is_err() {
                self.gather(gathered);
                return said;
            }
        }
        Ok(())
    }
}

impl News {
    fn hear(&self, first: &str, more: &mut mpsc::Receiver<String>) {
        let mut hint = Some(first.to_owned());
        while let Some(text) = hint {
            for (number, mark) in text.split(' ').filter_map(read_hint) {
                self.tell(number, Some(mark));
            }
            hint = more.try_recv().ok();
        }
    }
}

/// `number:tail:posted`, in hexadecimal, as few notifications as carry them.
fn payloads(gathered: &HashMap<i64, Mark>) -> Vec<String> {
    let mut payloads = vec![String::new()];
    for (number, mark) in gathered {
        let tail = mark.tail.map_or(0, Seq::get);
        let posted = mark.posted.map_or(0, InboxId::get);
        let mut hint = String::new();
        // Writing to a string cannot fail.
        let _ = write!(hint, "{number:x}:{tail:x}:{posted:x}");
        match payloads.last_mut() {
            Some(last) if last.is_empty() => *last = hint,
            Some(last) if last.len() + hint.len() < PAYLOAD_MAX_BYTES => {
                last.push(' ');
                last.push_str(&hint);
            }
            _ => payloads.push(hint),
        }
    }
    payloads.retain(|payload| !payload.is_empty());
    payloads
}

fn read_hint(text: &str) -> Option<(i64, Mark)> {
    let mut numbers = text.split(':').map(|number| u64::from_str_radix(number, 16).ok());
    let (number, tail, posted) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let mark = Mark {
        tail: Seq::try_new(tail).ok(),
        posted: (posted > 0).then(|| InboxId::new(posted)),
    };
    Some((i64::try_from(number).ok()?, mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_fit_their_notifications_and_come_back_as_they_were() {
        let gathered: HashMap<i64, Mark> = (1..5_000_i64)
            .map(|n| {
                let tail = Seq::try_new(n.unsigned_abs() * 7 % 13).ok();
                (n, mark_of(tail, (n % 2 == 0).then_some(n * 3)))
            })
            .collect();
        let payloads = payloads(&gathered);
        assert!(payloads.len() > 1);
        assert!(payloads.iter().all(|payload| payload.len() <= PAYLOAD_MAX_BYTES));
        let read: HashMap<i64, Mark> = payloads
            .iter()
            .flat_map(|payload| payload.split(' ').filter_map(read_hint))
            .collect();
        assert_eq!(read, gathered);
    }

    #[test]
    fn what_is_no_hint_is_left_out() {
        for text in ["", "x", "1:2", "1:2:z", "ffffffffffffffff:1:1"] {
            assert_eq!(read_hint(text), None);
        }
    }
}
