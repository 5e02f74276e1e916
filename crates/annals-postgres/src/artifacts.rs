//! The rows of artifacts: who keeps them, who removes them.
//!
//! Times are the database's. A row says when somebody last kept the bytes (`touched`), until when a collector may remove
//! them (`removing`) and when they were removed (`gone`). Nobody but a put takes a marked row back, and it writes the bytes
//! afterwards. A row that is gone stays gone until they are there again; `touched` at or after `gone` says that somebody
//! is writing them, so that they are collected if they never come into use.

use std::time::Duration;

use annals_core::block::{Blob, BlobDigest, Block};
use annals_store::artifacts::{Keeping, MARK, Marked, Removal};
use annals_store::{LogError, Swept, named_by, needed_blobs};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use crate::fault::Fault;
use crate::sql::now;
use crate::{blocks, members};

/// An append renews a row that is older than this. Collection takes only rows that are much older.
const RENEWED: Duration = Duration::from_secs(600);

/// Rows of removed artifacts are kept this long, to refuse appends that name them.
const GONE_KEPT: Duration = Duration::from_secs(7 * 24 * 3_600);

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Takes the row of bytes that are about to be written; nothing while a collector may be removing them.
pub(crate) async fn keep(client: &Client, now: Option<i64>, blob: Blob) -> Result<Option<Keeping>, Fault> {
    let kept = client
        .query_typed_opt(
            concat!(
                "INSERT INTO annals.artifact AS a (digest, size, touched) VALUES ($2, $3, ",
                now!(),
                ") ON CONFLICT (digest) DO UPDATE
                 SET size = excluded.size, touched = greatest(a.touched, excluded.touched, a.gone), removing = NULL,
                     gone = CASE WHEN a.removing IS NULL THEN a.gone ELSE excluded.touched END
                 WHERE a.removing IS NULL OR a.removing <= excluded.touched
                 RETURNING gone, EXISTS (SELECT FROM annals.artifact WHERE digest = $2)"
            ),
            &[
                (&now, Type::INT8),
                (&&blob.digest.0[..], Type::BYTEA),
                (&(blob.size_bytes as i64), Type::INT8),
            ],
        )
        .await?;
    Ok(kept.map(|row| match (row.get(0), row.get(1)) {
        (Some(gone), _) => Keeping::Removed(Removal(gone)),
        // As it was when the statement began.
        (None, true) => Keeping::Known,
        (None, false) => Keeping::New,
    }))
}

/// Notes that bytes are there again, unless they were removed once more since.
pub(crate) async fn rewritten(client: &Client, blob: Blob, removal: Removal) -> Result<bool, Fault> {
    let there = client
        .query_typed_opt(
            "UPDATE annals.artifact SET gone = NULL WHERE digest = $1 AND removing IS NULL AND (gone IS NULL OR gone = $2)
             RETURNING digest",
            &[
                (&&blob.digest.0[..], Type::BYTEA),
                (&removal.0, Type::INT8),
            ],
        )
        .await?;
    Ok(there.is_some())
}

/// What an append names.
pub(crate) struct Names {
    all: Vec<BlobDigest>,
    /// What its blocks cannot do without.
    needed: Vec<BlobDigest>,
}

impl Names {
    /// None if blocks name nothing.
    pub(crate) fn of(blocks: &[Block]) -> Option<Self> {
        let mut all: Vec<BlobDigest> = blocks.iter().flat_map(named_by).collect();
        // In one order, so that two appends do not wait for each other.
        all.sort_unstable();
        all.dedup();
        (!all.is_empty()).then(|| Names {
            all,
            needed: blocks.iter().flat_map(needed_blobs).collect(),
        })
    }
}

fn bytes_of(digests: &[BlobDigest]) -> Vec<&[u8]> {
    digests.iter().map(|digest| &digest.0[..]).collect()
}

/// Renews what an append is about to name, and refuses one that needs what was removed. A row that a collector is marking is
/// waited for and judged by what it says then; nobody marks one that is held here.
pub(crate) async fn renew(client: &Client, now: Option<i64>, names: &Names) -> Result<(), Fault> {
    let lost = client
        .query_typed_opt(
            concat!(
                "WITH live AS MATERIALIZED (SELECT digest FROM annals.artifact WHERE digest = ANY($2)
                     AND removing IS NULL AND gone IS NULL ORDER BY digest FOR NO KEY UPDATE),
                 renewed AS (UPDATE annals.artifact a SET touched = ",
                now!(),
                " FROM live WHERE a.digest = live.digest AND a.touched < ",
                now!(),
                " - $3)
                 SELECT digest FROM annals.artifact WHERE digest = ANY($4)
                 AND digest NOT IN (SELECT digest FROM live) LIMIT 1"
            ),
            &[
                (&now, Type::INT8),
                (&bytes_of(&names.all), Type::BYTEA_ARRAY),
                (&micros(RENEWED), Type::INT8),
                (&bytes_of(&names.needed), Type::BYTEA_ARRAY),
            ],
        )
        .await?;
    match lost {
        None => Ok(()),
        Some(row) => Err(LogError::Storage {
            log: "artifacts".to_owned(),
            detail: format!(
                "`{}` was removed before a block named it: host the file again",
                digest_of(&row)?
            ),
        }
        .into()),
    }
}

fn digest_of(row: &Row) -> Result<BlobDigest, Fault> {
    let bytes: &[u8] = row.try_get(0)?;
    let digest = bytes.try_into().map(BlobDigest);
    digest.map_err(|_| Fault::Damaged("an artifact's digest has a wrong length".to_owned()))
}

/// What is there or is being written, nobody has kept for longer than `$2`, neither a block nor a post that waits (`$3`) names, and has no archived
/// conversation in it, as `a`.
macro_rules! is_garbage {
    () => {
        concat!(
            "(a.gone IS NULL OR a.touched >= a.gone) AND a.touched < ",
            now!(),
            " - $2 AND a.digest <> ALL($3) AND NOT EXISTS (SELECT FROM annals.named n WHERE n.digest = a.digest)
             AND NOT EXISTS (SELECT FROM annals.archive r WHERE r.digest = a.digest)"
        )
    };
}

/// Marks what nobody needs.
pub(crate) async fn mark(
    client: &mut Client,
    now: Option<i64>,
    older_than: Duration,
    after: Option<BlobDigest>,
    limit: usize,
) -> Result<Vec<Marked>, Fault> {
    let tx = client.transaction().await?;
    members::refuse_older(&tx, now, SCHEMA, "keeps no rows of artifacts").await?;
    let after = after.map_or_else(Vec::new, |after| after.0.to_vec());
    let waiting = blocks::waiting(tx.client()).await?;
    let mut marks = tx
        .query_typed(
            concat!(
                "UPDATE annals.artifact SET removing = ",
                now!(),
                " + $4 WHERE digest IN (SELECT a.digest FROM annals.artifact a WHERE ",
                is_garbage!(),
                " AND (a.removing IS NULL OR a.removing <= ",
                now!(),
                ") AND a.digest > $5 ORDER BY a.digest LIMIT $6 FOR UPDATE SKIP LOCKED)
                 RETURNING digest, size, removing"
            ),
            &[
                (&now, Type::INT8),
                (&micros(older_than), Type::INT8),
                (&bytes_of(&waiting), Type::BYTEA_ARRAY),
                (&micros(MARK), Type::INT8),
                (&after, Type::BYTEA),
                (&(limit as i64), Type::INT8),
            ],
        )
        .await?
        .iter()
        .map(|row| {
            Ok(Marked {
                blob: Blob {
                    digest: digest_of(row)?,
                    size_bytes: row.try_get::<_, i64>(1)?.unsigned_abs(),
                },
                mark: row.try_get(2)?,
            })
        })
        .collect::<Result<Vec<Marked>, Fault>>()?;
    tx.commit().await?;
    marks.sort_by_key(|mark| mark.blob.digest.0);
    Ok(marks)
}

/// Notes what was removed, unless somebody has kept it again since the mark ran out.
pub(crate) async fn removed(client: &Client, now: Option<i64>, marks: &[Marked]) -> Result<(), Fault> {
    let digests: Vec<&[u8]> = marks.iter().map(|mark| &mark.blob.digest.0[..]).collect();
    let marks: Vec<i64> = marks.iter().map(|mark| mark.mark).collect();
    client
        .query_typed(
            concat!(
                "WITH old AS (DELETE FROM annals.artifact WHERE gone < ",
                now!(),
                " - $4 AND touched < gone)
                 UPDATE annals.artifact a SET gone = ",
                now!(),
                ", removing = NULL FROM unnest($2::bytea[], $3::int8[]) u (digest, mark)
                 WHERE a.digest = u.digest AND a.removing = u.mark"
            ),
            &[
                (&now, Type::INT8),
                (&digests, Type::BYTEA_ARRAY),
                (&marks, Type::INT8_ARRAY),
                (&micros(GONE_KEPT), Type::INT8),
            ],
        )
        .await?;
    Ok(())
}

/// What would be marked.
pub(crate) async fn garbage(client: &Client, now: Option<i64>, older_than: Duration) -> Result<Swept, Fault> {
    let waiting = blocks::waiting(client).await?;
    let row = client
        .query_typed_one(
            concat!(
                "SELECT (SELECT count(*) FROM annals.artifact WHERE gone IS NULL), count(*), coalesce(sum(a.size), 0)::int8
                 FROM annals.artifact a WHERE ",
                is_garbage!()
            ),
            &[
                (&now, Type::INT8),
                (&micros(older_than), Type::INT8),
                (&bytes_of(&waiting), Type::BYTEA_ARRAY),
            ],
        )
        .await?;
    let number = |column: usize| row.get::<_, i64>(column).unsigned_abs();
    Ok(Swept {
        seen: number(0),
        removed: number(1),
        freed_bytes: number(2),
    })
}

/// The schema from which on programs keep rows.
const SCHEMA: i32 = 3;
