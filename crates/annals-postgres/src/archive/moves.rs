//! The statements by which blocks leave the table and come back.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use annals_core::block::{Blob, BlobDigest};
use annals_core::ids::ConversationKey;
use annals_store::log::{Idle, IdlePage};
use annals_store::{Cursor, LogError};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Transaction};

use super::PAGE_BLOCKS;
use super::segment::{Header, Reader, StoredBlock};
use crate::conversations::tail_of;
use crate::fault::Fault;
use crate::head::micros;
use crate::members;
use crate::row::{COLUMNS, Columns};
use crate::sql::{arrived, is_free, now};

/// The schema from which on programs bring archived blocks back.
pub(crate) const SCHEMA: i32 = 4;

/// A conversation with more own blocks stays where it is, so that it comes back within the time of one operation.
const BLOCKS_MAX: i64 = 200_000;

/// Heads that are looked at by one statement.
const LOOKED_AT: i64 = 10_000;

/// A conversation whose own blocks lie in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leaving {
    pub(super) object: BlobDigest,
    header: Header,
}

impl Leaving {
    pub(super) fn unusable(&self, why: impl std::fmt::Display) -> LogError {
        LogError::Archived {
            conversation: self.header.conversation.clone(),
            object: self.object,
            detail: why.to_string(),
        }
    }
}

/// What is archived of a conversation.
pub(super) async fn find(client: &Client, number: i64) -> Result<Option<Leaving>, Fault> {
    let row = client
        .query_typed_opt(
            "SELECT a.digest, s.text || '/' || c.id, a.first, a.blocks FROM annals.archive a
             JOIN annals.conversation c ON c.key = a.conversation JOIN annals.scope s ON s.key = c.scope_key
             WHERE a.conversation = $1 AND a.digest IS NOT NULL AND c.id IS NOT NULL",
            &[(&number, Type::INT8)],
        )
        .await?;
    let Some(row) = row else { return Ok(None) };
    let digest: &[u8] = row.try_get(0)?;
    let digest = digest.try_into().map(BlobDigest);
    Ok(Some(Leaving {
        object: digest
            .map_err(|_| Fault::Damaged("the digest of an archive has a wrong length".to_owned()))?,
        header: Header::new(row.try_get(1)?, number, row.try_get(2)?, row.try_get(3)?),
    }))
}

/// Whether the blocks of a conversation that are not there should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// They are in an object.
    Archived,
    /// They have come back meanwhile.
    Back,
    /// Nobody knows where they are.
    Missing,
}

/// Where the blocks `from..=to` of a conversation are that a statement did not find, by one look at both places.
pub(crate) async fn state_of(client: &Client, number: i64, (from, to): (i64, i64)) -> Result<State, Fault> {
    let row = client
        .query_typed_one(
            "SELECT EXISTS (SELECT FROM annals.archive WHERE conversation = $1 AND digest IS NOT NULL
                 AND first <= $3 AND first + blocks > $2),
             (SELECT count(*) FROM annals.block WHERE conversation = $1 AND seq BETWEEN $2 AND $3)",
            &[(&number, Type::INT8), (&from, Type::INT8), (&to, Type::INT8)],
        )
        .await?;
    Ok(match (row.get(0), row.get::<_, i64>(1) == to - from + 1) {
        (true, _) => State::Archived,
        (false, true) => State::Back,
        (false, false) => State::Missing,
    })
}

/// The first of these conversations that is archived.
pub(crate) async fn first_archived(tx: &Transaction<'_>, numbers: &[i64]) -> Result<Option<i64>, Fault> {
    let row = tx
        .query_typed_opt(
            "SELECT conversation FROM annals.archive WHERE conversation = ANY($1) AND digest IS NOT NULL
             ORDER BY conversation LIMIT 1",
            &[(&numbers, Type::INT8_ARRAY)],
        )
        .await?;
    Ok(row.map(|row| row.get(0)))
}

/// Whether nobody needs the conversation of head `h` at the moment.
macro_rules! is_at_rest {
    () => {
        concat!(
            "h.due IS NULL AND h.waiting = 0 AND h.asks_from IS NULL AND ",
            is_free!()
        )
    };
}

/// Whether something else needs the blocks of the conversation with this key: a fork, or a vector that is not made yet.
macro_rules! is_needed {
    ($key:literal) => {
        concat!(
            "EXISTS (SELECT FROM annals.conversation f WHERE f.base = ",
            $key,
            ") OR EXISTS (SELECT FROM annals.recall_passage p WHERE p.conversation = ",
            $key,
            " AND p.vector IS NULL)"
        )
    };
}

/// Some idle conversations after one.
pub(super) async fn idle(
    client: &Client,
    now: Option<i64>,
    at_least: Duration,
    after: u64,
    limit: usize,
) -> Result<IdlePage, Fault> {
    const STATEMENT: &str = concat!(
        "WITH looked AS MATERIALIZED (SELECT * FROM annals.head WHERE conversation > $2 ORDER BY conversation LIMIT $4),
         idle AS (SELECT h.conversation, h.token, h.tail, h.tail - c.cut AS blocks, s.text || '/' || c.id AS name FROM looked h
            JOIN annals.conversation c ON c.key = h.conversation JOIN annals.scope s ON s.key = c.scope_key
            LEFT JOIN annals.archive a ON a.conversation = h.conversation
            WHERE ",
        is_at_rest!(),
        " AND h.tail - c.cut BETWEEN 1 AND $6 AND greatest(h.updated, a.restored) <= ",
        now!(),
        " - $3 AND a.digest IS NULL AND NOT (",
        is_needed!("h.conversation"),
        ") ORDER BY h.conversation LIMIT $5)
         SELECT l.last, l.looked, i.* FROM (SELECT max(conversation) AS last, count(*) AS looked FROM looked) l
         LEFT JOIN idle i ON true ORDER BY i.conversation"
    );
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = client
        .query_typed(
            STATEMENT,
            &[
                (&now, Type::INT8),
                (&i64::try_from(after).unwrap_or(i64::MAX), Type::INT8),
                (&micros(at_least), Type::INT8),
                (&LOOKED_AT, Type::INT8),
                (&limit, Type::INT8),
                (&BLOCKS_MAX, Type::INT8),
            ],
        )
        .await?;
    let mut items = Vec::new();
    for row in &rows {
        let Some(number) = row.try_get::<_, Option<i64>>(2)? else {
            continue;
        };
        let (token, tail, blocks): (i64, i64, i64) = (row.try_get(3)?, row.try_get(4)?, row.try_get(5)?);
        let key =
            ConversationKey::parse(row.try_get(6)?).map_err(|error| Fault::Damaged(error.to_string()))?;
        items.push(Idle {
            tail: tail_of(tail).ok_or_else(|| Fault::Damaged(format!("`{key}` has blocks and no tail")))?,
            key,
            blocks: blocks.unsigned_abs(),
            token: token.unsigned_abs(),
            incarnation: number.unsigned_abs(),
        });
    }
    let looked = rows
        .first()
        .map(|row| (row.get::<_, Option<i64>>(0), row.get::<_, i64>(1)));
    let next = match (items.last(), looked) {
        (Some(last), _) if items.len() as i64 == limit => Some(last.incarnation),
        (_, Some((Some(last), LOOKED_AT))) => Some(last.unsigned_abs()),
        _ => None,
    };
    Ok(IdlePage {
        items,
        next: next.map(Cursor::of_number),
    })
}

/// The rows `from..=to` of a conversation's own blocks, as far as they are there.
pub(super) async fn read(
    client: &Client,
    number: i64,
    from: i64,
    to: i64,
) -> Result<Vec<StoredBlock>, Fault> {
    let statement = format!(
        "SELECT {COLUMNS} FROM annals.block WHERE conversation = $1 AND seq BETWEEN $2 AND $3 ORDER BY seq"
    );
    let rows = client
        .query_typed(
            &statement,
            &[(&number, Type::INT8), (&from, Type::INT8), (&to, Type::INT8)],
        )
        .await?;
    rows.iter().map(StoredBlock::of).collect()
}

/// Notes that a conversation's own blocks lie in an object, and removes them; false if it is not as it was found.
pub(super) async fn put_away(
    client: &mut Client,
    now: Option<i64>,
    idle: &Idle,
    (object, sum): (Blob, i64),
    in_doubt: bool,
) -> Result<bool, Fault> {
    let number = idle.incarnation as i64;
    let digest = &object.digest.0[..];
    let tx = client.transaction().await?;
    members::refuse_older(&tx, now, SCHEMA, "knows no archive of conversations").await?;
    if !take_over(&tx, now, idle).await? {
        return Ok(in_doubt && is_put_away(&tx, number, digest).await?);
    }
    if is_needed(&tx, number).await? {
        return Ok(false);
    }
    keep(&tx, now, object).await?;
    let noted = tx
        .query_typed_opt(
            concat!(
                "INSERT INTO annals.archive AS a (conversation, digest, size, first, blocks, archived) VALUES ($2, $3, $4, $5, $6, ",
                now!(),
                ") ON CONFLICT (conversation) DO UPDATE SET digest = excluded.digest, size = excluded.size,
                 first = excluded.first, blocks = excluded.blocks, archived = excluded.archived, restored = NULL
                 WHERE a.digest IS NULL RETURNING 1"
            ),
            &[
                (&now, Type::INT8),
                (&number, Type::INT8),
                (&digest, Type::BYTEA),
                (&(object.size_bytes as i64), Type::INT8),
                (&(idle.tail.get() as i64 - idle.blocks as i64 + 1), Type::INT8),
                (&(idle.blocks as i64), Type::INT8),
            ],
        )
        .await?;
    if noted.is_none() {
        return Ok(false);
    }
    let row = tx
        .query_typed_one(
            "WITH gone AS (DELETE FROM annals.block WHERE conversation = $1 RETURNING sum)
             SELECT count(*), coalesce(sum(sum), 0)::int8 FROM gone",
            &[(&number, Type::INT8)],
        )
        .await?;
    if (row.get::<_, i64>(0), row.get::<_, i64>(1)) != (idle.blocks as i64, sum) {
        return Err(Fault::Damaged(format!(
            "conversation `{}` has other blocks than were read of it",
            idle.key
        )));
    }
    // From now on a program that would take it for damaged may not begin to use these tables.
    tx.query_typed(
        "UPDATE annals.meta SET oldest = $1 WHERE oldest < $1",
        &[(&SCHEMA, Type::INT4)],
    )
    .await?;
    tx.commit().await?;
    Ok(true)
}

/// Takes the conversation as an owner would that gives it back at once, if it is as it was found.
async fn take_over(tx: &Transaction<'_>, now: Option<i64>, idle: &Idle) -> Result<bool, Fault> {
    let taken = tx
        .query_typed_opt(
            concat!(
                "UPDATE annals.head h SET token = h.token + 1, node = NULL, epoch = NULL, until = NULL
                 WHERE h.conversation = $2 AND h.token = $3 AND h.tail = $4 AND ",
                is_at_rest!(),
                " RETURNING 1"
            ),
            &[
                (&now, Type::INT8),
                (&(idle.incarnation as i64), Type::INT8),
                (&(idle.token as i64), Type::INT8),
                (&(idle.tail.get() as i64), Type::INT8),
            ],
        )
        .await?;
    Ok(taken.is_some())
}

async fn is_put_away(tx: &Transaction<'_>, number: i64, digest: &[u8]) -> Result<bool, Fault> {
    let row = tx
        .query_typed_opt(
            "SELECT FROM annals.archive WHERE conversation = $1 AND digest = $2",
            &[(&number, Type::INT8), (&digest, Type::BYTEA)],
        )
        .await?;
    Ok(row.is_some())
}

/// Whether something else needs the blocks. Whoever forks or indexes locks the conversation's row first, so that what this
/// says holds until the end of the transaction.
async fn is_needed(tx: &Transaction<'_>, number: i64) -> Result<bool, Fault> {
    tx.query_typed(
        "SELECT FROM annals.conversation WHERE key = $1 FOR UPDATE",
        &[(&number, Type::INT8)],
    )
    .await?;
    let row = tx
        .query_typed_one(concat!("SELECT ", is_needed!("$1")), &[(&number, Type::INT8)])
        .await?;
    Ok(row.get(0))
}

/// Renews the object's row, so that no collector takes it before the archive's row says that it is needed.
async fn keep(tx: &Transaction<'_>, now: Option<i64>, object: Blob) -> Result<(), Fault> {
    let kept = tx
        .query_typed_opt(
            concat!(
                "UPDATE annals.artifact SET touched = greatest(touched, ",
                now!(),
                ") WHERE digest = $2 AND removing IS NULL AND gone IS NULL RETURNING 1"
            ),
            &[(&now, Type::INT8), (&&object.digest.0[..], Type::BYTEA)],
        )
        .await?;
    match kept {
        Some(_) => Ok(()),
        None => Err(LogError::Storage {
            log: "artifacts".to_owned(),
            detail: format!(
                "`{}` was removed before its conversation was archived: try again",
                object.digest
            ),
        }
        .into()),
    }
}

/// Puts the blocks of an object back, unless somebody else has.
pub(super) async fn bring_back(
    client: &mut Client,
    now: Option<i64>,
    leaving: &Leaving,
    segment: Arc<File>,
) -> Result<(), Fault> {
    let number = leaving.header.number;
    let tx = client.transaction().await?;
    // Whoever comes second waits here, and finds nothing to do.
    let taken = tx
        .query_typed_opt(
            concat!(
                "UPDATE annals.archive SET digest = NULL, restored = ",
                now!(),
                " WHERE conversation = $2 AND digest = $3 RETURNING 1"
            ),
            &[
                (&now, Type::INT8),
                (&number, Type::INT8),
                (&&leaving.object.0[..], Type::BYTEA),
            ],
        )
        .await?;
    if taken.is_none() {
        return Ok(());
    }
    let mut reader = Reader::new(segment, &leaving.header).map_err(|why| leaving.unusable(why))?;
    loop {
        let unpacked = tokio::task::spawn_blocking(move || (reader.next(PAGE_BLOCKS), reader));
        let (page, rest) = unpacked.await.map_err(|_| LogError::Closed)?;
        reader = rest;
        let page = page.map_err(|why| leaving.unusable(why))?;
        if page.is_empty() {
            break;
        }
        insert(&tx, number, &page).await?;
    }
    Ok(tx.commit().await?)
}

async fn insert(tx: &Transaction<'_>, number: i64, page: &[StoredBlock]) -> Result<(), Fault> {
    let mut columns = Columns::default();
    for block in page {
        columns.push(
            [number, block.seq, block.ts, block.tokens, block.sum],
            block.step,
            block.texts(),
        );
    }
    let statement = format!(
        "INSERT INTO annals.block ({COLUMNS}) SELECT * FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::int8[],
            $6::int8[], $7::bytea[], $8::bytea[], $9::bytea[], $10::bytea[], $11::bytea[], $12::bytea[], $13::bytea[],
            $14::bytea[], $15::bytea[])"
    );
    tx.query_typed(&statement, &columns.parameters()).await?;
    Ok(())
}
