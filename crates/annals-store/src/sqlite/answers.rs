//! Answers to requests that may be sent again, as statements inside the commit of their effect.

use annals_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::checksum;
use super::fault::Fault;
use crate::log::{ANSWER_KEPT, IdempotencyKey, LogError, StoredAnswer};

/// At each answer, this many that need not be known any more go.
const FORGOTTEN_PER_ANSWER: i64 = 100;

/// Answers that were kept before this time need not be known.
fn oldest(now: Timestamp) -> i64 {
    let kept_micros = i64::try_from(ANSWER_KEPT.as_micros()).unwrap_or(i64::MAX);
    now.plus_micros(-kept_micros).unix_micros()
}

fn sum(answer: &StoredAnswer, scope: &str) -> i64 {
    checksum::of(
        &[i64::from(answer.status)],
        &[
            Some(scope.as_bytes()),
            Some(answer.to.route.as_bytes()),
            Some(answer.to.key.as_bytes()),
            Some(&answer.digest),
            Some(&answer.body),
        ],
    )
}

/// What was answered to this key.
pub(super) fn find(
    tx: &Connection,
    to: &IdempotencyKey,
    now: Timestamp,
) -> Result<Option<StoredAnswer>, Fault> {
    let scope = to.scope.to_string();
    let found: Option<(StoredAnswer, i64)> = tx
        .prepare_cached(
            "SELECT digest, status, body, sum FROM answer
             WHERE scope = ?1 AND route = ?2 AND key = ?3 AND kept > ?4",
        )?
        .query_row(params![scope, to.route, to.key, oldest(now)], |row| {
            let answer = StoredAnswer {
                to: to.clone(),
                digest: row.get(0)?,
                status: row.get(1)?,
                body: row.get(2)?,
            };
            Ok((answer, row.get(3)?))
        })
        .optional()?;
    match found {
        Some((answer, stored)) if sum(&answer, &scope) != stored => Err(Fault::Damaged(format!(
            "the answer to `{}` does not match its checksum",
            to.key.escape_default()
        ))),
        found => Ok(found.map(|(answer, _)| answer)),
    }
}

/// Refuses what was answered before.
pub(super) fn check(tx: &Connection, answer: Option<&StoredAnswer>, now: Timestamp) -> Result<(), Fault> {
    let Some(answer) = answer else { return Ok(()) };
    match find(tx, &answer.to, now)? {
        Some(_) => Err(LogError::Answered {
            key: answer.to.key.clone(),
        }
        .into()),
        None => Ok(()),
    }
}

/// Keeps an answer; what is too old goes.
pub(super) fn keep(tx: &Connection, answer: Option<&StoredAnswer>, now: Timestamp) -> rusqlite::Result<()> {
    let Some(answer) = answer else { return Ok(()) };
    tx.prepare_cached(
        "DELETE FROM answer WHERE (scope, route, key) IN
         (SELECT scope, route, key FROM answer WHERE kept <= ?1 ORDER BY kept LIMIT ?2)",
    )?
    .execute([oldest(now), FORGOTTEN_PER_ANSWER])?;
    let scope = answer.to.scope.to_string();
    tx.prepare_cached(
        "INSERT OR REPLACE INTO answer (scope, route, key, digest, status, body, kept, sum)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?
    .execute(params![
        scope,
        answer.to.route,
        answer.to.key,
        answer.digest,
        answer.status,
        answer.body,
        now.unix_micros(),
        sum(answer, &scope)
    ])?;
    Ok(())
}
