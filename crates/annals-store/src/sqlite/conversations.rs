//! Conversations, leases and forks as statements. Each function runs inside a transaction of its caller.

use annals_core::ids::{ConversationId, Scope, Seq};
use annals_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::fault::{Database, Fault};
use super::process;
use crate::log::{
    ConversationInfo, Cursor, Holding, Lease, Listing, LogError, NewConversation, Stale, expiry,
};

/// Where a conversation's blocks lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) key: i64,
    /// Whose blocks it begins with.
    pub(super) base: Option<i64>,
    /// How many of them.
    pub(super) cut: u64,
}

/// Finds a conversation by its id.
pub(super) fn find(tx: &Connection, id: &ConversationId) -> Result<Place, Fault> {
    tx.prepare_cached("SELECT key, base, cut FROM conversation WHERE id = ?1")?
        .query_row([id.as_str()], place)
        .optional()?
        .ok_or_else(|| LogError::NotFound { id: id.clone() }.into())
}

/// Finds a conversation by its key, also one that was deleted while forks still share its blocks.
pub(super) fn by_key(tx: &Connection, key: i64) -> rusqlite::Result<Place> {
    tx.prepare_cached("SELECT key, base, cut FROM conversation WHERE key = ?1")?
        .query_row([key], place)
}

fn place(row: &Row<'_>) -> rusqlite::Result<Place> {
    Ok(Place {
        key: row.get(0)?,
        base: row.get(1)?,
        cut: row.get::<_, i64>(2)?.unsigned_abs(),
    })
}

/// The last block's place; what is shared counts.
pub(super) fn tail(tx: &Connection, place: Place) -> rusqlite::Result<Option<Seq>> {
    let own: Option<i64> = tx
        .prepare_cached("SELECT max(seq) FROM block WHERE conversation = ?1")?
        .query_row([place.key], |row| row.get(0))?;
    Ok(Seq::try_new(own.map_or(place.cut, i64::unsigned_abs)).ok())
}

/// Makes a conversation, with `base`'s first blocks or none.
pub(super) fn insert(tx: &Connection, new: &NewConversation, base: Option<(i64, Seq)>) -> Result<i64, Fault> {
    let taken: bool = tx
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM conversation WHERE id = ?1)")?
        .query_row([new.id.as_str()], |row| row.get(0))?;
    if taken {
        return Err(LogError::Exists { id: new.id.clone() }.into());
    }
    let lineage = match new.lineage.is_empty() {
        true => None,
        false => serde_json::to_string(&new.lineage).ok(),
    };
    tx.prepare_cached(
        "INSERT INTO conversation (id, scope, title, created, lineage, base, cut)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        new.id.as_str(),
        new.scope.to_string(),
        new.title,
        new.created.unix_micros(),
        lineage,
        base.map(|(key, _)| key),
        base.map_or(0, |(_, cut)| cut.get() as i64),
    ])?;
    Ok(tx.last_insert_rowid())
}

/// The conversation that itself has block `at`, which `parent` has or shares.
pub(super) fn owner(tx: &Connection, parent: Place, at: Seq) -> rusqlite::Result<i64> {
    let mut owner = parent;
    while let Some(base) = owner.base.filter(|_| at.get() <= owner.cut) {
        owner = by_key(tx, base)?;
    }
    Ok(owner.key)
}

/// What the lease table says of a conversation.
struct Stored {
    token: u64,
    holding: Option<(Holding, String)>,
}

fn stored_lease(tx: &Connection, key: i64) -> rusqlite::Result<Stored> {
    let stored = tx
        .prepare_cached("SELECT token, holder, process, until FROM lease WHERE conversation = ?1")?
        .query_row([key], |row| {
            let until: Option<i64> = row.get(3)?;
            let holding = match (row.get(1)?, row.get::<_, Option<String>>(2)?, until) {
                (Some(by), process, Some(until)) => {
                    let until = Timestamp::from_unix_micros(until);
                    Some((Holding { by, until }, process.unwrap_or_default()))
                }
                _ => None,
            };
            Ok(Stored {
                token: row.get::<_, i64>(0)?.unsigned_abs(),
                holding,
            })
        })
        .optional()?;
    Ok(stored.unwrap_or(Stored {
        token: 0,
        holding: None,
    }))
}

/// Gives out a new lease, unless another holder's lasts.
pub(super) fn acquire(
    tx: &Connection,
    id: &ConversationId,
    holder: &str,
    now: Timestamp,
    ttl: std::time::Duration,
) -> Result<Lease, Fault> {
    let place = find(tx, id)?;
    let stored = stored_lease(tx, place.key)?;
    let mut until = expiry(now, ttl);
    if let Some((holding, process)) = stored.holding {
        let own = holding.by == holder && process == process::this();
        if !own && holding.until > now && !process::is_gone(&process) {
            return Err(LogError::Held {
                id: id.clone(),
                by: holding.by,
                until: holding.until,
            }
            .into());
        }
        if own {
            until = until.max(holding.until);
        }
    }
    let token = stored.token + 1;
    tx.prepare_cached(
        "INSERT OR REPLACE INTO lease (conversation, token, holder, process, until) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![place.key, token as i64, holder, process::this(), until.unix_micros()])?;
    let conversation = id.clone();
    Ok(Lease {
        conversation,
        holder: holder.to_owned(),
        made: place.key.unsigned_abs(),
        token,
        ttl,
    })
}

/// The conversation of a lease, if no other has been given out since; with its expiry.
pub(super) fn held(tx: &Connection, lease: &Lease) -> Result<(Place, Option<Timestamp>), Fault> {
    let place = find(tx, lease.conversation())?;
    let stored = stored_lease(tx, place.key)?;
    if (place.key.unsigned_abs(), stored.token) != (lease.made, lease.token) {
        let stale = Stale::Lease {
            token: lease.token,
            current: stored.token,
        };
        return Err(LogError::Conflict {
            id: lease.conversation().clone(),
            stale,
        }
        .into());
    }
    Ok((place, stored.holding.map(|(holding, _)| holding.until)))
}

/// Moves a lease's expiry forward, never back.
pub(super) fn keep(tx: &Connection, key: i64, until: Timestamp) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "UPDATE lease SET until = max(until, ?2) WHERE conversation = ?1 AND until IS NOT NULL",
    )?
    .execute(params![key, until.unix_micros()])?;
    Ok(())
}

/// Ends a lease: the next token is used up, so that the lease writes no more.
pub(super) fn free(tx: &Connection, key: i64) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "UPDATE lease SET token = token + 1, holder = NULL, process = NULL, until = NULL WHERE conversation = ?1",
    )?
    .execute([key])?;
    Ok(())
}

/// Removes a conversation. What forks share stays, under a row without id, until the last of them is gone. Tells `gone`
/// of which conversations (by key) the blocks above which place went.
pub(super) fn delete(
    tx: &Connection,
    place: Place,
    mut gone: impl FnMut(i64, u64) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    tx.prepare_cached("UPDATE conversation SET id = NULL WHERE key = ?1")?
        .execute([place.key])?;
    tx.prepare_cached("DELETE FROM lease WHERE conversation = ?1")?
        .execute([place.key])?;
    let mut orphan = Some(place.key);
    while let Some(key) = orphan {
        let shared: Option<i64> = tx
            .prepare_cached("SELECT max(cut) FROM conversation WHERE base = ?1")?
            .query_row([key], |row| row.get(0))?;
        tx.prepare_cached("DELETE FROM block WHERE conversation = ?1 AND seq > ?2")?
            .execute([key, shared.unwrap_or(0)])?;
        gone(key, shared.unwrap_or(0).unsigned_abs())?;
        if shared.is_some() {
            return Ok(());
        }
        let base = by_key(tx, key)?.base;
        tx.prepare_cached("DELETE FROM named WHERE conversation = ?1")?
            .execute([key])?;
        tx.prepare_cached("DELETE FROM conversation WHERE key = ?1")?
            .execute([key])?;
        orphan = match base {
            None => None,
            Some(base) => tx
                .prepare_cached("SELECT key FROM conversation WHERE key = ?1 AND id IS NULL")?
                .query_row([base], |row| row.get(0))
                .optional()?,
        };
    }
    Ok(())
}

const INFO: &str =
    "SELECT c.key, c.id, c.scope, c.title, c.created, c.lineage, c.base, c.cut, l.holder, l.until
    FROM conversation c LEFT JOIN lease l ON l.conversation = c.key";

/// What is known of one conversation.
pub(super) fn info(
    tx: &Connection,
    database: &Database,
    id: &ConversationId,
) -> Result<ConversationInfo, Fault> {
    tx.prepare_cached(&format!("{INFO} WHERE c.id = ?1"))?
        .query_row([id.as_str()], |row| Ok(read_info(tx, database, row)))
        .optional()?
        .ok_or_else(|| LogError::NotFound { id: id.clone() })?
        .map(|(_, info)| info)
}

/// A page of a scope's conversations.
pub(super) fn list(
    tx: &Connection,
    database: &Database,
    scope: &Scope,
    cursor: Option<Cursor>,
    limit: usize,
) -> Result<Listing, Fault> {
    let before = cursor.map_or(i64::MAX, |cursor| i64::try_from(cursor.0).unwrap_or(i64::MAX));
    let one_more = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let mut statement = tx.prepare_cached(&format!(
        "{INFO} WHERE c.scope = ?1 AND c.key < ?2 AND c.id IS NOT NULL ORDER BY c.key DESC LIMIT ?3"
    ))?;
    let mut rows = statement.query(params![scope.to_string(), before, one_more])?;
    let (mut items, mut last, mut next) = (Vec::new(), None, None);
    while let Some(row) = rows.next()? {
        if items.len() == limit {
            next = last;
            break;
        }
        let (key, info) = read_info(tx, database, row)?;
        last = Some(Cursor(key.unsigned_abs()));
        items.push(info);
    }
    Ok(Listing { items, next })
}

fn read_info(tx: &Connection, database: &Database, row: &Row<'_>) -> Result<(i64, ConversationInfo), Fault> {
    let place = Place {
        key: row.get(0)?,
        base: row.get(6)?,
        cut: row.get::<_, i64>(7)?.unsigned_abs(),
    };
    let id: String = row.get(1)?;
    let malformed = |what: &str| database.damaged(format!("conversation `{id}` has a malformed {what}"));
    let scope: String = row.get(2)?;
    let lineage: Option<String> = row.get(5)?;
    let holding = match (row.get(8)?, row.get::<_, Option<i64>>(9)?) {
        (Some(by), Some(until)) => Some(Holding {
            by,
            until: Timestamp::from_unix_micros(until),
        }),
        _ => None,
    };
    let tail = tail(tx, place)?;
    let info = ConversationInfo {
        id: ConversationId::parse(&id).map_err(|_| malformed("id"))?,
        scope: Scope::parse(&scope).map_err(|_| malformed("scope"))?,
        title: row.get(3)?,
        created: Timestamp::from_unix_micros(row.get(4)?),
        updated: match tail {
            Some(tail) => Some(time_of(tx, place, tail)?),
            None => None,
        },
        tail,
        lineage: match lineage {
            None => Vec::new(),
            Some(json) => serde_json::from_str(&json).map_err(|_| malformed("lineage"))?,
        },
        holding,
    };
    Ok((place.key, info))
}

fn time_of(tx: &Connection, place: Place, seq: Seq) -> rusqlite::Result<Timestamp> {
    let owner = owner(tx, place, seq)?;
    let micros = tx
        .prepare_cached("SELECT ts FROM block WHERE conversation = ?1 AND seq = ?2")?
        .query_row(params![owner, seq.get() as i64], |row| row.get(0))?;
    Ok(Timestamp::from_unix_micros(micros))
}
