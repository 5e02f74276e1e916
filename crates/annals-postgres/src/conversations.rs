//! Conversations and forks as statements.

use annals_core::ids::{ConversationId, ConversationKey, NodeId, Scope, Seq};
use annals_core::time::Timestamp;
use annals_store::columns::checksum;
use annals_store::{
    ConversationInfo, Cursor, Holding, Lease, Listing, LogError, NewConversation, Owner, Stale,
};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row, Transaction};

use crate::answers::Keepable;
use crate::archive::{self, Fetched};
use crate::fault::Fault;
use crate::{asking, recall};

/// Where a conversation's blocks lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) key: i64,
    /// Whose blocks it begins with.
    pub(crate) base: Option<i64>,
    /// How many of them.
    pub(crate) cut: u64,
    pub(crate) tail: Option<Seq>,
    pub(crate) posted: Option<i64>,
}

/// A tail as it is stored: 0 for none.
pub(crate) fn tail_of(stored: i64) -> Option<Seq> {
    Seq::try_new(stored.unsigned_abs()).ok()
}

pub(crate) fn not_found(key: &ConversationKey) -> Fault {
    LogError::NotFound { id: key.id.clone() }.into()
}

fn damaged(id: &str, what: &str) -> Fault {
    Fault::Damaged(format!("conversation `{}` {what}", id.escape_default()))
}

/// Finds a conversation.
pub(crate) async fn find(client: &Client, key: &ConversationKey) -> Result<Place, Fault> {
    let row = client
        .query_typed_opt(
            "SELECT c.key, c.base, c.cut, h.tail, h.posted FROM annals.conversation c
             JOIN annals.scope s ON s.key = c.scope_key JOIN annals.head h ON h.conversation = c.key
             WHERE s.text = $1 AND c.id = $2",
            &[
                (&key.scope.to_string(), Type::TEXT),
                (&key.id.as_str(), Type::TEXT),
            ],
        )
        .await?
        .ok_or_else(|| not_found(key))?;
    Ok(Place {
        key: row.get(0),
        base: row.get(1),
        cut: row.get::<_, i64>(2).unsigned_abs(),
        tail: tail_of(row.get(3)),
        posted: row.get(4),
    })
}

/// Why a lease's conversation was not changed, when its newest lease is another.
pub(crate) async fn refusal(client: &Client, lease: &Lease) -> Result<LogError, Fault> {
    let row = client
        .query_typed_opt(
            "SELECT h.token FROM annals.conversation c
             JOIN annals.scope s ON s.key = c.scope_key JOIN annals.head h ON h.conversation = c.key
             WHERE s.text = $1 AND c.id = $2",
            &[
                (&lease.key().scope.to_string(), Type::TEXT),
                (&lease.key().id.as_str(), Type::TEXT),
            ],
        )
        .await?
        .ok_or_else(|| not_found(lease.key()))?;
    let stale = Stale::Lease {
        token: lease.token(),
        current: row.get::<_, i64>(0).unsigned_abs(),
    };
    Ok(LogError::Conflict {
        id: lease.key().id.clone(),
        stale,
    })
}

/// What a new row will say.
struct Making<'n> {
    new: &'n NewConversation,
    scope: String,
    lineage: Option<Vec<u8>>,
    base: Option<i64>,
    cut: i64,
    updated: Option<i64>,
    asks_from: Option<i64>,
}

/// What a fork takes over.
struct Shared {
    /// The conversation that itself has the last block.
    owner: i64,
    at: Seq,
    updated: i64,
    asks_from: Option<Seq>,
}

impl<'n> Making<'n> {
    fn new(new: &'n NewConversation, base: Option<&Shared>) -> Self {
        Making {
            scope: new.key.scope.to_string(),
            lineage: match new.lineage.is_empty() {
                true => None,
                false => serde_json::to_vec(&new.lineage).ok(),
            },
            base: base.map(|shared| shared.owner),
            cut: base.map_or(0, |shared| shared.at.get() as i64),
            updated: base.map(|shared| shared.updated),
            asks_from: base
                .and_then(|shared| shared.asks_from)
                .map(|from| from.get() as i64),
            new,
        }
    }

    fn title(&self) -> Option<&[u8]> {
        self.new.title.as_deref().map(str::as_bytes)
    }

    fn sum(&self) -> i64 {
        sum(
            self.new.created.unix_micros(),
            (self.base, self.cut),
            &self.scope,
            self.title(),
            self.lineage.as_deref(),
        )
    }
}

/// Covers what never changes of a row.
fn sum(
    created: i64,
    (base, cut): (Option<i64>, i64),
    scope: &str,
    title: Option<&[u8]>,
    lineage: Option<&[u8]>,
) -> i64 {
    checksum(
        &[created, base.unwrap_or(-1), cut],
        &[Some(scope.as_bytes()), title, lineage],
    )
}

/// Makes a conversation. A second attempt after a lost answer recognises what the first one made.
pub(crate) async fn create(
    client: &mut Client,
    now: Option<i64>,
    new: &NewConversation,
    in_doubt: bool,
) -> Result<(), Fault> {
    let tx = client.transaction().await?;
    insert(&tx, now, Making::new(new, None), in_doubt).await?;
    Ok(tx.commit().await?)
}

async fn insert(
    tx: &Transaction<'_>,
    now: Option<i64>,
    new: Making<'_>,
    in_doubt: bool,
) -> Result<(), Fault> {
    if let Some(answer) = new.new.answer.clone() {
        Keepable::new(answer).keep(tx, now).await?;
    }
    let created = new.new.created.unix_micros();
    tx.query_typed(
        "INSERT INTO annals.scope (text) SELECT $1 WHERE NOT EXISTS (SELECT FROM annals.scope WHERE text = $1)
         ON CONFLICT DO NOTHING",
        &[(&new.scope, Type::TEXT)],
    )
    .await?;
    let made = tx
        .query_typed_opt(
            "WITH c AS (INSERT INTO annals.conversation (scope_key, id, title, created, lineage, base, cut, sum)
                 SELECT key, $2, $3, $4, $5, $6, $7, $8 FROM annals.scope WHERE text = $1
                 ON CONFLICT (scope_key, id) DO NOTHING RETURNING key, scope_key)
             INSERT INTO annals.head (conversation, scope_key, tail, updated, asks_from)
             SELECT key, scope_key, $7, $9, $10 FROM c RETURNING conversation",
            &[
                (&new.scope, Type::TEXT),
                (&new.new.key.id.as_str(), Type::TEXT),
                (&new.title(), Type::BYTEA),
                (&created, Type::INT8),
                (&new.lineage.as_deref(), Type::BYTEA),
                (&new.base, Type::INT8),
                (&new.cut, Type::INT8),
                (&new.sum(), Type::INT8),
                (&new.updated, Type::INT8),
                (&new.asks_from, Type::INT8),
            ],
        )
        .await?;
    if made.is_some() || in_doubt && is_made(tx, &new).await? {
        return Ok(());
    }
    Err(LogError::Exists {
        id: new.new.key.id.clone(),
    }
    .into())
}

/// Whether the conversation of that id is exactly the one to be made, and nobody has taken it yet.
async fn is_made(tx: &Transaction<'_>, new: &Making<'_>) -> Result<bool, Fault> {
    let row = tx
        .query_typed_opt(
            "SELECT FROM annals.conversation c
             JOIN annals.scope s ON s.key = c.scope_key JOIN annals.head h ON h.conversation = c.key
             WHERE s.text = $1 AND c.id = $2 AND c.sum = $3 AND h.token = 0",
            &[
                (&new.scope, Type::TEXT),
                (&new.new.key.id.as_str(), Type::TEXT),
                (&new.sum(), Type::INT8),
            ],
        )
        .await?;
    Ok(row.is_some())
}

/// Makes a conversation that shares another's first blocks.
pub(crate) async fn fork(
    client: &mut Client,
    now: Option<i64>,
    (parent, at): (&ConversationKey, Seq),
    new: &NewConversation,
    in_doubt: bool,
) -> Result<Fetched<()>, Fault> {
    if parent.scope != new.key.scope {
        return Err(not_found(parent));
    }
    let tx = client.transaction().await?;
    let shared = match share(&tx, parent, at).await? {
        Fetched::Done(shared) => shared,
        Fetched::Archived(number) => return Ok(Fetched::Archived(number)),
    };
    insert(&tx, now, Making::new(new, Some(&shared)), in_doubt).await?;
    tx.commit().await?;
    Ok(Fetched::Done(()))
}

/// Finds what a fork takes over, and keeps a deletion or the archive from taking it away before the new row says that it is
/// needed.
async fn share(tx: &Transaction<'_>, parent: &ConversationKey, at: Seq) -> Result<Fetched<Shared>, Fault> {
    let row = tx
        .query_typed_opt(
            "SELECT c.key, c.base, c.cut, h.tail FROM annals.conversation c
             JOIN annals.scope s ON s.key = c.scope_key JOIN annals.head h ON h.conversation = c.key
             WHERE s.text = $1 AND c.id = $2 FOR SHARE OF c",
            &[
                (&parent.scope.to_string(), Type::TEXT),
                (&parent.id.as_str(), Type::TEXT),
            ],
        )
        .await?
        .ok_or_else(|| not_found(parent))?;
    let tail = tail_of(row.get(3));
    if tail.is_none_or(|tail| tail < at) {
        let id = parent.id.clone();
        return Err(LogError::NoSuchBlock { id, at, tail }.into());
    }
    let (mut owner, mut base, mut cut): (i64, Option<i64>, i64) = (row.get(0), row.get(1), row.get(2));
    let mut strands = vec![(owner, cut)];
    while let Some(deeper) = base {
        let row = tx
            .query_typed_opt(
                "SELECT base, cut FROM annals.conversation WHERE key = $1 FOR SHARE",
                &[(&deeper, Type::INT8)],
            )
            .await?
            .ok_or_else(|| missing_base(deeper))?;
        if at.get() <= cut.unsigned_abs() {
            (owner, cut) = (deeper, row.get(1));
            strands.clear();
        } else {
            cut = row.get(1);
        }
        base = row.get(0);
        strands.push((deeper, cut));
    }
    let keys: Vec<i64> = strands.iter().map(|(key, _)| *key).collect();
    if let Some(number) = archive::first_archived(tx, &keys).await? {
        return Ok(Fetched::Archived(number));
    }
    let row = tx
        .query_typed_opt(
            "SELECT ts FROM annals.block WHERE conversation = $1 AND seq = $2",
            &[(&owner, Type::INT8), (&(at.get() as i64), Type::INT8)],
        )
        .await?
        .ok_or_else(|| damaged(parent.id.as_str(), &format!("has no block {at}")))?;
    Ok(Fetched::Done(Shared {
        owner,
        at,
        updated: row.get(0),
        asks_from: asking::found(tx, &strands, at).await?,
    }))
}

pub(crate) fn missing_base(key: i64) -> Fault {
    Fault::Damaged(format!(
        "conversation {key}, whose blocks others share, is missing"
    ))
}

/// Removes a conversation. What forks share stays, under a row without id, until the last of them is gone.
pub(crate) async fn delete(client: &mut Client, lease: &Lease, in_doubt: bool) -> Result<(), Fault> {
    let key = lease.incarnation() as i64;
    let tx = client.transaction().await?;
    let held = tx
        .query_typed_opt(
            "SELECT FROM annals.head WHERE conversation = $1 AND token = $2 FOR UPDATE",
            &[(&key, Type::INT8), (&(lease.token() as i64), Type::INT8)],
        )
        .await?;
    if held.is_none() {
        tx.rollback().await?;
        return match refusal(client, lease).await {
            // An earlier attempt removed it.
            Err(Fault::Refused(LogError::NotFound { .. })) if in_doubt => Ok(()),
            Ok(error) => Err(error.into()),
            Err(fault) => Err(fault),
        };
    }
    tx.query_typed(
        "UPDATE annals.conversation SET id = NULL WHERE key = $1",
        &[(&key, Type::INT8)],
    )
    .await?;
    for table in ["head", "inbox"] {
        let statement = format!("DELETE FROM annals.{table} WHERE conversation = $1");
        tx.query_typed(&statement, &[(&key, Type::INT8)]).await?;
    }
    let mut orphan = Some(key);
    while let Some(key) = orphan {
        orphan = delete_strand(&tx, key).await?;
    }
    Ok(tx.commit().await?)
}

/// Removes the blocks that no fork shares of a conversation without id; gives its base if that has become removable.
async fn delete_strand(tx: &Transaction<'_>, key: i64) -> Result<Option<i64>, Fault> {
    let lock = "SELECT base FROM annals.conversation WHERE key = $1 AND id IS NULL FOR UPDATE";
    let Some(row) = tx.query_typed_opt(lock, &[(&key, Type::INT8)]).await? else {
        return Ok(None);
    };
    let base: Option<i64> = row.get(0);
    let row = tx
        .query_typed_one(
            "SELECT max(cut) FROM annals.conversation WHERE base = $1",
            &[(&key, Type::INT8)],
        )
        .await?;
    let shared: Option<i64> = row.get(0);
    // First, so that blocks which are coming back are there to be deleted.
    tx.query_typed(
        "DELETE FROM annals.archive WHERE conversation = $1",
        &[(&key, Type::INT8)],
    )
    .await?;
    tx.query_typed(
        "DELETE FROM annals.block WHERE conversation = $1 AND seq > $2",
        &[(&key, Type::INT8), (&shared.unwrap_or(0), Type::INT8)],
    )
    .await?;
    recall::forget(tx, key, shared.unwrap_or(0)).await?;
    if shared.is_some() {
        return Ok(None);
    }
    for statement in [
        "DELETE FROM annals.named WHERE conversation = $1",
        "DELETE FROM annals.conversation WHERE key = $1",
    ] {
        tx.query_typed(statement, &[(&key, Type::INT8)]).await?;
    }
    Ok(base)
}

/// What [`describe`] reads.
const INFO: &str = "SELECT c.key, s.text, c.id, c.title, c.created, c.lineage, c.base, c.cut, c.sum,
     h.tail, h.updated, h.node, h.epoch, h.until
     FROM annals.conversation c JOIN annals.scope s ON s.key = c.scope_key
     JOIN annals.head h ON h.conversation = c.key";

/// What is known of one conversation.
pub(crate) async fn info(client: &Client, key: &ConversationKey) -> Result<ConversationInfo, Fault> {
    let statement = format!("{INFO} WHERE s.text = $1 AND c.id = $2");
    let row = client
        .query_typed_opt(
            &statement,
            &[
                (&key.scope.to_string(), Type::TEXT),
                (&key.id.as_str(), Type::TEXT),
            ],
        )
        .await?
        .ok_or_else(|| not_found(key))?;
    describe(&row)
}

/// A page of a scope's conversations.
pub(crate) async fn list(
    client: &Client,
    scope: &Scope,
    before: Option<u64>,
    limit: usize,
) -> Result<Listing, Fault> {
    let before = before.map_or(i64::MAX, |before| i64::try_from(before).unwrap_or(i64::MAX));
    let one_more = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let statement = format!(
        "{INFO} WHERE c.scope_key = (SELECT key FROM annals.scope WHERE text = $1)
         AND c.key < $2 AND c.id IS NOT NULL ORDER BY c.key DESC LIMIT $3"
    );
    let rows = client
        .query_typed(
            &statement,
            &[
                (&scope.to_string(), Type::TEXT),
                (&before, Type::INT8),
                (&one_more, Type::INT8),
            ],
        )
        .await?;
    let items = rows.iter().take(limit).map(describe).collect::<Result<_, _>>()?;
    let last = rows.iter().take(limit).last().filter(|_| rows.len() > limit);
    let next = last.map(|row| Cursor::of_number(row.get::<_, i64>(0).unsigned_abs()));
    Ok(Listing { items, next })
}

fn describe(row: &Row) -> Result<ConversationInfo, Fault> {
    let (scope, id): (&str, Option<&str>) = (row.try_get(1)?, row.try_get(2)?);
    let (title, lineage): (Option<&[u8]>, Option<&[u8]>) = (row.try_get(3)?, row.try_get(5)?);
    let created: i64 = row.try_get(4)?;
    let id = id.unwrap_or_default();
    if sum(created, (row.try_get(6)?, row.try_get(7)?), scope, title, lineage) != row.try_get::<_, i64>(8)? {
        return Err(damaged(id, "does not match its checksum"));
    }
    let malformed = |what: &str| damaged(id, &format!("has a malformed {what}"));
    let title = title.map(|title| String::from_utf8(title.to_vec())).transpose();
    let lineage = lineage.map(serde_json::from_slice).transpose();
    let scope = Scope::parse(scope).map_err(|_| malformed("scope"))?;
    let parsed = ConversationId::parse(id).map_err(|_| malformed("id"))?;
    Ok(ConversationInfo {
        key: ConversationKey::new(scope, parsed),
        title: title.map_err(|_| malformed("title"))?,
        created: Timestamp::from_unix_micros(created),
        updated: row
            .try_get::<_, Option<i64>>(10)?
            .map(Timestamp::from_unix_micros),
        tail: tail_of(row.try_get(9)?),
        lineage: lineage.map_err(|_| malformed("lineage"))?.unwrap_or_default(),
        holding: holding(row.try_get(11)?, row.try_get(12)?, row.try_get(13)?)?,
    })
}

/// Who holds a conversation, from the columns of its head.
pub(crate) fn holding(
    node: Option<&str>,
    epoch: Option<i64>,
    until: Option<i64>,
) -> Result<Option<Holding>, Fault> {
    let (Some(node), Some(epoch), Some(until)) = (node, epoch, until) else {
        return Ok(None);
    };
    Ok(Some(Holding {
        by: owner(node, epoch)?,
        until: Timestamp::from_unix_micros(until),
    }))
}

/// An owner from its columns.
pub(crate) fn owner(node: &str, epoch: i64) -> Result<Owner, Fault> {
    let node = NodeId::parse(node).map_err(|error| Fault::Damaged(error.to_string()))?;
    Ok(Owner::new(node, epoch.unsigned_abs()))
}
