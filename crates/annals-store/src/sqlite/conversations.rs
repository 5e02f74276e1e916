//! Conversations and forks as statements. Each function runs inside a transaction of its caller.

use annals_core::ids::{ConversationId, ConversationKey, NodeId, Scope, Seq};
use annals_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::checksum;
use super::fault::Fault;
use crate::log::{ConversationInfo, Cursor, Holding, Listing, LogError, NewConversation, Owner};

/// Where a conversation's blocks lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) key: i64,
    /// Whose blocks it begins with.
    pub(super) base: Option<i64>,
    /// How many of them.
    pub(super) cut: u64,
}

/// One row, with its scope as text.
struct Stored {
    key: i64,
    scope: String,
    id: Option<String>,
    title: Option<String>,
    created: i64,
    lineage: Option<String>,
    base: Option<i64>,
    cut: i64,
    sum: i64,
}

/// What [`Stored::read`] reads.
const COLUMNS: &str = "c.key, s.text, c.id, c.title, c.created, c.lineage, c.base, c.cut, c.sum";
const FROM: &str = "FROM conversation c JOIN scope s ON s.key = c.scope_key";

impl Stored {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Stored {
            key: row.get(0)?,
            scope: row.get(1)?,
            id: row.get(2)?,
            title: row.get(3)?,
            created: row.get(4)?,
            lineage: row.get(5)?,
            base: row.get(6)?,
            cut: row.get(7)?,
            sum: row.get(8)?,
        })
    }

    fn checksum(&self) -> i64 {
        checksum::of(
            &[self.key, self.created, self.base.unwrap_or(-1), self.cut],
            &[
                Some(self.scope.as_bytes()),
                self.id.as_deref().map(str::as_bytes),
                self.title.as_deref().map(str::as_bytes),
                self.lineage.as_deref().map(str::as_bytes),
            ],
        )
    }

    /// The row, if it is as it was written.
    fn sound(self) -> Result<Self, Fault> {
        match self.sum == self.checksum() {
            true => Ok(self),
            false => Err(self.damaged("does not match its checksum")),
        }
    }

    fn damaged(&self, what: &str) -> Fault {
        let id = self.id.as_deref().unwrap_or("(deleted)");
        Fault::Damaged(format!("conversation `{}` {what}", id.escape_default()))
    }

    fn place(&self) -> Place {
        Place {
            key: self.key,
            base: self.base,
            cut: self.cut.unsigned_abs(),
        }
    }
}

fn stored(
    tx: &Connection,
    condition: &str,
    parameters: impl rusqlite::Params,
) -> Result<Option<Stored>, Fault> {
    tx.prepare_cached(&format!("SELECT {COLUMNS} {FROM} WHERE {condition}"))?
        .query_row(parameters, Stored::read)
        .optional()?
        .map(Stored::sound)
        .transpose()
}

/// Finds a conversation.
pub(super) fn find(tx: &Connection, key: &ConversationKey) -> Result<Place, Fault> {
    stored(
        tx,
        "s.text = ?1 AND c.id = ?2",
        (key.scope.to_string(), key.id.as_str()),
    )?
    .map(|row| row.place())
    .ok_or_else(|| LogError::NotFound { id: key.id.clone() }.into())
}

/// Finds a conversation by its key, also one that was deleted while forks still share its blocks.
pub(super) fn by_key(tx: &Connection, key: i64) -> Result<Place, Fault> {
    stored(tx, "c.key = ?1", [key])?
        .map(|row| row.place())
        .ok_or_else(|| {
            Fault::Damaged(format!(
                "conversation {key}, whose blocks others share, is missing"
            ))
        })
}

/// Writes the checksum of a row that changed.
pub(super) fn seal(tx: &Connection, key: i64) -> rusqlite::Result<()> {
    let row = tx
        .prepare_cached(&format!("SELECT {COLUMNS} {FROM} WHERE c.key = ?1"))?
        .query_row([key], Stored::read)?;
    tx.prepare_cached("UPDATE conversation SET sum = ?2 WHERE key = ?1")?
        .execute([key, row.checksum()])?;
    Ok(())
}

/// The number of a scope that has, or had, conversations.
pub(super) fn scope_key(tx: &Connection, scope: &Scope) -> rusqlite::Result<Option<i64>> {
    tx.prepare_cached("SELECT key FROM scope WHERE text = ?1")?
        .query_row([scope.to_string()], |row| row.get(0))
        .optional()
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
    let scope = match scope_key(tx, &new.key.scope)? {
        Some(scope) => scope,
        None => {
            tx.prepare_cached("INSERT INTO scope (text) VALUES (?1)")?
                .execute([new.key.scope.to_string()])?;
            tx.last_insert_rowid()
        }
    };
    let taken: bool = tx
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM conversation WHERE scope_key = ?1 AND id = ?2)")?
        .query_row(params![scope, new.key.id.as_str()], |row| row.get(0))?;
    if taken {
        return Err(LogError::Exists {
            id: new.key.id.clone(),
        }
        .into());
    }
    let lineage = match new.lineage.is_empty() {
        true => None,
        false => serde_json::to_string(&new.lineage).ok(),
    };
    tx.prepare_cached(
        "INSERT INTO conversation (scope_key, id, title, created, lineage, base, cut, sum)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0)",
    )?
    .execute(params![
        scope,
        new.key.id.as_str(),
        new.title,
        new.created.unix_micros(),
        lineage,
        base.map(|(key, _)| key),
        base.map_or(0, |(_, cut)| cut.get() as i64),
    ])?;
    let key = tx.last_insert_rowid();
    seal(tx, key)?;
    Ok(key)
}

/// The conversation that itself has block `at`, which `parent` has or shares.
pub(super) fn owner(tx: &Connection, parent: Place, at: Seq) -> Result<i64, Fault> {
    let mut owner = parent;
    while let Some(base) = owner.base.filter(|_| at.get() <= owner.cut) {
        owner = by_key(tx, base)?;
    }
    Ok(owner.key)
}

/// Removes a conversation. What forks share stays, under a row without id, until the last of them is gone. Tells `gone`
/// of which conversations (by key) the blocks above which place went.
pub(super) fn delete(
    tx: &Connection,
    place: Place,
    mut gone: impl FnMut(i64, u64) -> rusqlite::Result<()>,
) -> Result<(), Fault> {
    tx.prepare_cached("UPDATE conversation SET id = NULL WHERE key = ?1")?
        .execute([place.key])?;
    seal(tx, place.key)?;
    for table in ["head", "inbox"] {
        tx.prepare_cached(&format!("DELETE FROM {table} WHERE conversation = ?1"))?
            .execute([place.key])?;
    }
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

/// What is known of one conversation.
pub(super) fn info(tx: &Connection, key: &ConversationKey) -> Result<ConversationInfo, Fault> {
    let row = stored(
        tx,
        "s.text = ?1 AND c.id = ?2",
        (key.scope.to_string(), key.id.as_str()),
    )?
    .ok_or_else(|| LogError::NotFound { id: key.id.clone() })?;
    describe(tx, row)
}

/// A page of a scope's conversations.
pub(super) fn list(
    tx: &Connection,
    scope: &Scope,
    before: Option<u64>,
    limit: usize,
) -> Result<Listing, Fault> {
    let before = before.map_or(i64::MAX, |before| i64::try_from(before).unwrap_or(i64::MAX));
    let one_more = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let mut statement = tx.prepare_cached(&format!(
        "SELECT {COLUMNS} {FROM} WHERE c.scope_key = (SELECT key FROM scope WHERE text = ?1)
         AND c.key < ?2 AND c.id IS NOT NULL ORDER BY c.key DESC LIMIT ?3"
    ))?;
    let mut rows = statement.query(params![scope.to_string(), before, one_more])?;
    let (mut items, mut last, mut next) = (Vec::new(), None, None);
    while let Some(row) = rows.next()? {
        if items.len() == limit {
            next = last;
            break;
        }
        let row = Stored::read(row)?.sound()?;
        last = Some(Cursor::of_number(row.key.unsigned_abs()));
        items.push(describe(tx, row)?);
    }
    Ok(Listing { items, next })
}

fn describe(tx: &Connection, row: Stored) -> Result<ConversationInfo, Fault> {
    let malformed = |what: &str| row.damaged(&format!("has a malformed {what}"));
    let id = ConversationId::parse(row.id.as_deref().unwrap_or_default()).map_err(|_| malformed("id"))?;
    let scope = Scope::parse(&row.scope).map_err(|_| malformed("scope"))?;
    let lineage = match &row.lineage {
        None => Vec::new(),
        Some(json) => serde_json::from_str(json).map_err(|_| malformed("lineage"))?,
    };
    let place = row.place();
    let tail = tail(tx, place)?;
    let updated = match tail {
        Some(tail) => Some(time_of(tx, place, tail)?),
        None => None,
    };
    Ok(ConversationInfo {
        key: ConversationKey::new(scope, id),
        holding: holding(tx, row.key)?,
        created: Timestamp::from_unix_micros(row.created),
        title: row.title,
        updated,
        tail,
        lineage,
    })
}

fn holding(tx: &Connection, conversation: i64) -> Result<Option<Holding>, Fault> {
    let held: Option<(Option<String>, Option<i64>, Option<i64>)> = tx
        .prepare_cached("SELECT node, epoch, until FROM head WHERE conversation = ?1")?
        .query_row([conversation], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((Some(node), Some(epoch), Some(until))) = held else {
        return Ok(None);
    };
    Ok(Some(Holding {
        by: read_owner(&node, epoch)?,
        until: Timestamp::from_unix_micros(until),
    }))
}

/// An owner from its columns.
pub(super) fn read_owner(node: &str, epoch: i64) -> Result<Owner, Fault> {
    let node = NodeId::parse(node).map_err(|error| Fault::Damaged(error.to_string()))?;
    Ok(Owner::new(node, epoch.unsigned_abs()))
}

fn time_of(tx: &Connection, place: Place, seq: Seq) -> Result<Timestamp, Fault> {
    let owner = owner(tx, place, seq)?;
    let micros = tx
        .prepare_cached("SELECT ts FROM block WHERE conversation = ?1 AND seq = ?2")?
        .query_row(params![owner, seq.get() as i64], |row| row.get(0))?;
    Ok(Timestamp::from_unix_micros(micros))
}
