//! The inbox as statements. A row that was consumed stays without its body while its client key must be known.

use annals_core::ids::ConversationKey;
use annals_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::fault::Fault;
use super::head::conflict;
use super::{answers, checksum, conversations};
use crate::log::{CLIENT_KEY_KEPT, InboxId, Lease, LogError, Pending, Post, Posted, Stale};

/// At each post, this many rows whose client keys need not be known any more go.
const FORGOTTEN_PER_POST: i64 = 100;

/// Adds a row, and makes the conversation due.
pub(super) fn post(
    tx: &Connection,
    key: &ConversationKey,
    post: &Post,
    now: Timestamp,
) -> Result<Posted, Fault> {
    answers::check(tx, post.answer.as_ref(), now)?;
    let place = conversations::find(tx, key)?;
    forget(tx, now)?;
    let digest = post.digest();
    let known: Option<(i64, [u8; 32])> = tx
        .prepare_cached("SELECT id, digest FROM inbox WHERE conversation = ?1 AND client_key = ?2")?
        .query_row(params![place.key, post.client_key], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    match known {
        Some((id, known)) if known == digest => {
            return Ok(Posted::Duplicate(InboxId::new(id.unsigned_abs())));
        }
        Some(_) => {
            return Err(LogError::KeyReused {
                id: key.id.clone(),
                client_key: post.client_key.clone(),
            }
            .into());
        }
        None => {}
    }
    tx.prepare_cached(
        "INSERT INTO inbox (conversation, client_key, kind, body, digest, posted, sum)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        place.key,
        post.client_key,
        post.kind,
        post.body,
        digest,
        now.unix_micros(),
        sum(place.key, now.unix_micros(), post)
    ])?;
    let id = tx.last_insert_rowid();
    tx.prepare_cached(
        "INSERT INTO head (conversation, token, posted, due) VALUES (?1, 0, ?2, ?3)
         ON CONFLICT (conversation) DO UPDATE SET
         posted = excluded.posted, due = min(coalesce(due, excluded.due), excluded.due)",
    )?
    .execute(params![place.key, id, now.unix_micros()])?;
    answers::keep(tx, post.answer.as_ref(), now)?;
    Ok(Posted::New(InboxId::new(id.unsigned_abs())))
}

fn sum(conversation: i64, posted: i64, post: &Post) -> i64 {
    checksum::of(
        &[conversation, posted],
        &[
            Some(post.client_key.as_bytes()),
            Some(post.kind.as_bytes()),
            Some(&post.body),
        ],
    )
}

fn forget(tx: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    let kept_micros = i64::try_from(CLIENT_KEY_KEPT.as_micros()).unwrap_or(i64::MAX);
    tx.prepare_cached(
        "DELETE FROM inbox WHERE id IN
         (SELECT id FROM inbox WHERE body IS NULL AND posted <= ?1 ORDER BY posted LIMIT ?2)",
    )?
    .execute([now.plus_micros(-kept_micros).unix_micros(), FORGOTTEN_PER_POST])?;
    Ok(())
}

/// What waits, the oldest first.
pub(super) fn pending(tx: &Connection, key: &ConversationKey) -> Result<Vec<Pending>, Fault> {
    let place = conversations::find(tx, key)?;
    let mut statement = tx.prepare_cached(
        "SELECT id, client_key, kind, body, posted, sum FROM inbox
         WHERE conversation = ?1 AND body IS NOT NULL ORDER BY id",
    )?;
    let mut rows = statement.query([place.key])?;
    let mut waiting = Vec::new();
    while let Some(row) = rows.next()? {
        waiting.push(read(row, place.key)?);
    }
    Ok(waiting)
}

fn read(row: &Row<'_>, conversation: i64) -> Result<Pending, Fault> {
    let (id, posted): (i64, i64) = (row.get(0)?, row.get(4)?);
    let post = Post::new(
        row.get::<_, String>(1)?,
        row.get::<_, String>(2)?,
        row.get::<_, Vec<u8>>(3)?,
    );
    if sum(conversation, posted, &post) != row.get::<_, i64>(5)? {
        return Err(Fault::Damaged(format!("post {id} does not match its checksum")));
    }
    Ok(Pending {
        id: InboxId::new(id.unsigned_abs()),
        post,
        posted: Timestamp::from_unix_micros(posted),
    })
}

/// Whether anything waits.
pub(super) fn is_waiting(tx: &Connection, conversation: i64) -> rusqlite::Result<bool> {
    tx.prepare_cached("SELECT EXISTS (SELECT 1 FROM inbox WHERE conversation = ?1 AND body IS NOT NULL)")?
        .query_row([conversation], |row| row.get(0))
}

/// Refuses rows that do not wait.
pub(super) fn check(
    tx: &Connection,
    lease: &Lease,
    conversation: i64,
    rows: &[InboxId],
) -> Result<(), Fault> {
    for row in rows {
        let waits: bool = tx
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM inbox WHERE id = ?1 AND conversation = ?2 AND body IS NOT NULL)",
            )?
            .query_row([row.get() as i64, conversation], |row| row.get(0))?;
        if !waits {
            return Err(conflict(lease, Stale::Inbox { row: *row }));
        }
    }
    Ok(())
}

/// Refuses to go past a post that the writer has not looked at.
pub(super) fn check_seen(
    tx: &Connection,
    lease: &Lease,
    conversation: i64,
    seen: Option<InboxId>,
) -> Result<(), Fault> {
    let Some(seen) = seen else {
        return Ok(());
    };
    let later: Option<i64> = tx
        .prepare_cached(
            "SELECT id FROM inbox WHERE conversation = ?1 AND id > ?2 AND body IS NOT NULL ORDER BY id LIMIT 1",
        )?
        .query_row([conversation, seen.get() as i64], |row| row.get(0))
        .optional()?;
    match later {
        Some(row) => {
            let row = InboxId::new(row.unsigned_abs());
            Err(conflict(lease, Stale::Posted { row }))
        }
        None => Ok(()),
    }
}

/// Ends the waiting of rows; their client keys stay known.
pub(super) fn consume(tx: &Connection, rows: &[InboxId]) -> rusqlite::Result<()> {
    for row in rows {
        tx.prepare_cached("UPDATE inbox SET body = NULL WHERE id = ?1")?
            .execute([row.get() as i64])?;
    }
    Ok(())
}
