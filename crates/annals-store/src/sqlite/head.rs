//! The head of each conversation: who may write, what was appended last, what work remains.

use std::time::Duration;

use annals_core::ids::{ConversationKey, Seq};
use annals_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::conversations::{self, Place, read_owner};
use super::fault::Fault;
use super::writer::Work as Writing;
use super::{answers, asking, inbox, members, process, row};
use crate::log::{Append, Claimed, Holding, Lease, LogError, Owner, Stale, Work, asks_from, expiry};

/// One row of the table; a conversation that nobody ever wrote or posted to has none.
#[derive(Default)]
pub(super) struct Head {
    token: u64,
    holding: Option<(Holding, String)>,
    batch: Option<i64>,
    due: Option<i64>,
    attempts: u32,
    asks_from: Option<i64>,
}

type Columns = (
    i64,
    Option<String>,
    Option<i64>,
    Option<String>,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    u32,
    Option<i64>,
);

fn columns(row: &Row<'_>) -> rusqlite::Result<Columns> {
    Ok((
        row.get(0)?,
        row.get(1)?,
        row.get(2)?,
        row.get(3)?,
        row.get(4)?,
        row.get(5)?,
        row.get(6)?,
        row.get(7)?,
        row.get(8)?,
    ))
}

impl Head {
    fn read(tx: &Connection, conversation: i64) -> Result<Self, Fault> {
        let stored = tx
            .prepare_cached(
                "SELECT token, node, epoch, process, until, batch, due, attempts, asks_from FROM head
                 WHERE conversation = ?1",
            )?
            .query_row([conversation], columns)
            .optional()?;
        let Some((token, node, epoch, process, until, batch, due, attempts, asks_from)) = stored else {
            return Ok(Head::default());
        };
        let holding = match (node, epoch, until) {
            (Some(node), Some(epoch), Some(until)) => {
                let holding = Holding {
                    by: read_owner(&node, epoch)?,
                    until: Timestamp::from_unix_micros(until),
                };
                Some((holding, process.unwrap_or_default()))
            }
            _ => None,
        };
        Ok(Head {
            token: token.unsigned_abs(),
            holding,
            batch,
            due,
            attempts,
            asks_from,
        })
    }

    /// Who keeps others from taking the conversation.
    fn holder(&self, tx: &Connection, now: Timestamp) -> Result<Option<&Holding>, Fault> {
        let Some((holding, process)) = &self.holding else {
            return Ok(None);
        };
        let is_free =
            holding.until <= now || process::is_gone(process) || members::is_gone(tx, &holding.by, now)?;
        Ok((!is_free).then_some(holding))
    }

    /// Whether this owner, in this process, is the one that holds it.
    fn is_held_by(&self, owner: &Owner) -> bool {
        self.holding
            .as_ref()
            .is_some_and(|(holding, process)| holding.by == *owner && process == process::this())
    }

    /// Gives the next token out.
    fn give(
        &self,
        tx: &Connection,
        conversation: i64,
        owner: &Owner,
        until: Timestamp,
    ) -> rusqlite::Result<u64> {
        let own = self.holding.as_ref().filter(|_| self.is_held_by(owner));
        let until = own.map_or(until, |(holding, _)| holding.until.max(until));
        let token = self.token + 1;
        tx.prepare_cached(
            "INSERT INTO head (conversation, token, node, epoch, process, until) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (conversation) DO UPDATE SET
             token = excluded.token, node = excluded.node, epoch = excluded.epoch,
             process = excluded.process, until = excluded.until",
        )?
        .execute(params![
            conversation,
            token as i64,
            owner.node.as_str(),
            owner.epoch as i64,
            process::this(),
            until.unix_micros()
        ])?;
        Ok(token)
    }
}

/// Gives out a new lease, unless another owner's lasts.
pub(super) fn acquire(
    tx: &Connection,
    key: &ConversationKey,
    owner: &Owner,
    ttl: Duration,
    now: Timestamp,
) -> Result<Lease, Fault> {
    let place = conversations::find(tx, key)?;
    let head = Head::read(tx, place.key)?;
    if !head.is_held_by(owner)
        && let Some(holding) = head.holder(tx, now)?
    {
        return Err(LogError::Held {
            id: key.id.clone(),
            by: holding.by.clone(),
            until: holding.until,
        }
        .into());
    }
    let token = head.give(tx, place.key, owner, expiry(now, ttl))?;
    let incarnation = place.key.unsigned_abs();
    Ok(Lease::new(key.clone(), owner.clone(), token, ttl, incarnation))
}

/// Gives out what is due and not held, the longest due first.
pub(super) fn claim(
    tx: &Connection,
    owner: &Owner,
    ttl: Duration,
    limit: usize,
    now: Timestamp,
) -> Result<Vec<Claimed>, Fault> {
    if members::is_gone(tx, owner, now)? {
        return Err(LogError::NotAMember { owner: owner.clone() }.into());
    }
    let mut statement = tx.prepare_cached(
        "SELECT h.conversation, s.text || '/' || c.id FROM head h
         JOIN conversation c ON c.key = h.conversation JOIN scope s ON s.key = c.scope_key
         WHERE h.due <= ?1 AND c.id IS NOT NULL ORDER BY h.due, h.conversation",
    )?;
    let mut rows = statement.query([now.unix_micros()])?;
    let mut claimed = Vec::new();
    while claimed.len() < limit
        && let Some(row) = rows.next()?
    {
        let (conversation, key): (i64, String) = (row.get(0)?, row.get(1)?);
        let head = Head::read(tx, conversation)?;
        if head.holder(tx, now)?.is_some() {
            continue;
        }
        let key = ConversationKey::parse(&key).map_err(|error| Fault::Damaged(error.to_string()))?;
        claimed.push((conversation, key, head));
    }
    drop(rows);
    let give = |(conversation, key, head): (i64, ConversationKey, Head)| {
        let token = head.give(tx, conversation, owner, expiry(now, ttl))?;
        let attempts = head.attempts.saturating_add(1);
        tx.prepare_cached("UPDATE head SET attempts = ?2 WHERE conversation = ?1")?
            .execute(params![conversation, attempts])?;
        let lease = Lease::new(key, owner.clone(), token, ttl, conversation.unsigned_abs());
        Ok(Claimed { lease, attempts })
    };
    claimed.into_iter().map(give).collect()
}

/// The conversation of a lease, if no other has been given out since.
pub(super) fn held(tx: &Connection, lease: &Lease) -> Result<(Place, Head), Fault> {
    let place = conversations::find(tx, lease.key())?;
    let head = Head::read(tx, place.key)?;
    if (place.key.unsigned_abs(), head.token) != (lease.incarnation(), lease.token()) {
        let stale = Stale::Lease {
            token: lease.token(),
            current: head.token,
        };
        return Err(conflict(lease, stale));
    }
    Ok((place, head))
}

pub(super) fn conflict(lease: &Lease, stale: Stale) -> Fault {
    let id = lease.key().id.clone();
    LogError::Conflict { id, stale }.into()
}

/// Moves a lease's expiry forward, never back.
pub(super) fn keep(tx: &Connection, conversation: i64, until: Timestamp) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "UPDATE head SET until = max(until, ?2) WHERE conversation = ?1 AND until IS NOT NULL",
    )?
    .execute(params![conversation, until.unix_micros()])?;
    Ok(())
}

/// Ends a lease: the next token is used up, so that the lease writes no more.
pub(super) fn free(tx: &Connection, conversation: i64) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "UPDATE head SET token = token + 1, node = NULL, epoch = NULL, process = NULL, until = NULL
         WHERE conversation = ?1",
    )?
    .execute([conversation])?;
    Ok(())
}

/// Appends; gives the tail.
pub(super) fn append(
    work: &mut Writing<'_>,
    lease: &Lease,
    append: &Append,
    now: Timestamp,
) -> Result<Option<Seq>, Fault> {
    let (place, head) = held(work.tx, lease)?;
    let actual = conversations::tail(work.tx, place)?;
    if is_repeated(work.tx, place, &head, actual, append)? {
        return Ok(actual);
    }
    if actual != append.expected_tail {
        let stale = Stale::Tail {
            expected: append.expected_tail,
            actual,
        };
        return Err(conflict(lease, stale));
    }
    append.check(lease.key())?;
    inbox::check(work.tx, lease, place.key, &append.consumes)?;
    answers::check(work.tx, append.answer.as_ref(), now)?;
    inbox::check_seen(work.tx, lease, place.key, append.seen)?;
    // Everything is checked: from here on only the storage can fail.
    let last = append.blocks.len().saturating_sub(1);
    for (at, block) in append.blocks.iter().enumerate() {
        let batch = (at == last).then_some(append.batch);
        row::insert(work.tx, work.words, place.key, block, batch)?;
    }
    inbox::consume(work.tx, &append.consumes)?;
    answers::keep(work.tx, append.answer.as_ref(), now)?;
    for observer in work.observers.iter_mut() {
        observer.appended(&append.blocks);
    }
    settle(work.tx, place.key, &head, append, now)?;
    let renewed = expiry(now, lease.ttl());
    let until = head.holding.as_ref().map(|(holding, _)| holding.until);
    if until.is_some_and(|until| is_worth_renewing(until, renewed, lease.ttl())) {
        keep(work.tx, place.key, renewed)?;
    }
    Ok(append.tail_after())
}

/// Whether this append is the last one there was. Its batch is in its last block; without blocks, in the head.
fn is_repeated(
    tx: &Connection,
    place: Place,
    head: &Head,
    actual: Option<Seq>,
    append: &Append,
) -> rusqlite::Result<bool> {
    if actual != append.tail_after() {
        return Ok(false);
    }
    let batch = match (append.blocks.is_empty(), actual) {
        (false, Some(tail)) => tx
            .prepare_cached("SELECT batch FROM block WHERE conversation = ?1 AND seq = ?2")?
            .query_row(params![place.key, tail.get() as i64], |row| row.get(0))
            .optional()?
            .flatten(),
        _ => head.batch,
    };
    Ok(batch == Some(append.batch.get() as i64))
}

/// Notes what an append changes in the head; most change nothing there, and spend no page on it.
fn settle(
    tx: &Connection,
    conversation: i64,
    head: &Head,
    append: &Append,
    now: Timestamp,
) -> Result<(), Fault> {
    let due = match append.work {
        Work::Keep => head.due,
        _ if inbox::is_waiting(tx, conversation)? => Some(now.unix_micros()),
        Work::DueIn(wait) => Some(expiry(now, wait).unix_micros()),
        Work::Done => None,
    };
    let batch = match append.blocks.is_empty() {
        true => Some(append.batch.get() as i64),
        false => head.batch,
    };
    let before = head.asks_from.and_then(asking::place);
    let asking = append.blocks.iter().fold(before, asks_from);
    let asking = asking.map(|from| from.get() as i64);
    if (due, batch, 0, asking) != (head.due, head.batch, head.attempts, head.asks_from) {
        tx.prepare_cached(
            "UPDATE head SET due = ?2, batch = ?3, attempts = 0, asks_from = ?4 WHERE conversation = ?1",
        )?
        .execute(params![conversation, due, batch, asking])?;
    }
    Ok(())
}

/// A quarter of its time is left to a lease before an append spends a page on renewing it.
fn is_worth_renewing(until: Timestamp, renewed: Timestamp, ttl: Duration) -> bool {
    let gained_micros = renewed.unix_micros().saturating_sub(until.unix_micros());
    u128::from(gained_micros.max(0).unsigned_abs()) * 4 >= ttl.as_micros()
}
