//! The head of each conversation: who may write, and what work remains. Appends are in `append`.

use std::collections::HashMap;
use std::time::Duration;

use annals_core::ids::ConversationKey;
use annals_store::{Claimed, Lease, LogError, Owner};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use crate::conversations::{holding, not_found, refusal, tail_of};
use crate::fault::Fault;
use crate::members;
use crate::seen::{Seen, history};
use crate::sql::{arrived, found, is_free, now};

/// A time in the unit of the tables.
pub(crate) fn micros(time: Duration) -> i64 {
    // Far less than what a column holds, so that adding it to a time stays within.
    const MAX: i64 = i64::MAX / 4;
    i64::try_from(time.as_micros()).unwrap_or(MAX).min(MAX)
}

/// Gives out a new lease, unless another owner's lasts.
pub(crate) async fn acquire(
    client: &Client,
    now: Option<i64>,
    key: &ConversationKey,
    owner: &Owner,
    ttl: Duration,
    seen: &Seen,
) -> Result<Lease, Fault> {
    let asked = seen.now();
    let last = seen
        .last(key)
        .and_then(|last| last.tail)
        .map_or(0, |tail| tail.get() as i64);
    const STATEMENT: &str = concat!(
        "WITH ",
        found!(),
        ", g AS (UPDATE annals.head h SET token = h.token + 1, node = $4, epoch = $5, until = ",
        "CASE WHEN h.node = $4 AND h.epoch = $5 THEN greatest(h.until, ",
        now!(),
        " + $6) ELSE ",
        now!(),
        " + $6 END FROM c WHERE h.conversation = c.key AND (h.node = $4 AND h.epoch = $5 OR ",
        is_free!(),
        ") RETURNING h.token, h.tail)
         SELECT c.key, g.token, h.node, h.epoch, h.until, ",
        is_free!(),
        ", g.tail, (SELECT b.sum FROM annals.block b WHERE b.conversation = c.key AND b.seq = $7)
         FROM c JOIN annals.head h ON h.conversation = c.key LEFT JOIN g ON true"
    );
    loop {
        let row = client
            .query_typed_opt(
                STATEMENT,
                &[
                    (&now, Type::INT8),
                    (&key.scope.to_string(), Type::TEXT),
                    (&key.id.as_str(), Type::TEXT),
                    (&owner.node.as_str(), Type::TEXT),
                    (&(owner.epoch as i64), Type::INT8),
                    (&micros(ttl), Type::INT8),
                    (&last, Type::INT8),
                ],
            )
            .await?;
        let Some(row) = row else {
            let lost = seen.gone(key, history(client).await.as_deref());
            return Err(lost.map_or_else(|| not_found(key), Fault::from));
        };
        if let Some(token) = row.get::<_, Option<i64>>(1) {
            let incarnation: i64 = row.get(0);
            let token = token.unsigned_abs();
            let lease = Lease::new(key.clone(), owner.clone(), token, ttl, incarnation.unsigned_abs());
            if let Err(lost) = seen.found(key, asked, incarnation, (tail_of(row.get(6)), row.get(7))) {
                release(client, &lease).await?;
                return Err(lost.into());
            }
            return Ok(lease);
        }
        let held = holding(row.get(2), row.get(3), row.get(4))?;
        // What the statement saw before it waited may be free; another was quicker, and the next look shows who.
        if let Some(holding) = held.filter(|_| !row.get::<_, bool>(5)) {
            return Err(LogError::Held {
                id: key.id.clone(),
                by: holding.by,
                until: holding.until,
            }
            .into());
        }
    }
}

/// Moves a lease's expiry forward, never back.
pub(crate) async fn renew(client: &Client, now: Option<i64>, lease: &Lease) -> Result<(), Fault> {
    const STATEMENT: &str = concat!(
        "UPDATE annals.head SET until = CASE WHEN node IS NULL THEN NULL ELSE greatest(until, ",
        now!(),
        " + $4) END WHERE conversation = $2 AND token = $3 RETURNING 1"
    );
    let kept = client
        .query_typed_opt(
            STATEMENT,
            &[
                (&now, Type::INT8),
                (&(lease.incarnation() as i64), Type::INT8),
                (&(lease.token() as i64), Type::INT8),
                (&micros(lease.ttl()), Type::INT8),
            ],
        )
        .await?;
    match kept {
        Some(_) => Ok(()),
        None => Err(refusal(client, lease).await?.into()),
    }
}

/// Ends a lease: the next token is used up, so that the lease writes no more.
pub(crate) async fn release(client: &Client, lease: &Lease) -> Result<(), Fault> {
    let freed = client
        .query_typed_opt(
            "UPDATE annals.head SET token = token + 1, node = NULL, epoch = NULL, until = NULL
             WHERE conversation = $1 AND token = $2 RETURNING 1",
            &[
                (&(lease.incarnation() as i64), Type::INT8),
                (&(lease.token() as i64), Type::INT8),
            ],
        )
        .await?;
    match freed {
        Some(_) => Ok(()),
        None => match refusal(client, lease).await? {
            LogError::Conflict { .. } => Ok(()),
            error => Err(error.into()),
        },
    }
}

/// Gives out what is due and not held, the longest due first. What another claimant is taking this moment is skipped.
pub(crate) async fn claim(
    client: &Client,
    now: Option<i64>,
    owner: &Owner,
    ttl: Duration,
    limit: usize,
    seen: &Seen,
) -> Result<Vec<Claimed>, Fault> {
    const STATEMENT: &str = concat!(
        "WITH picked AS MATERIALIZED (SELECT h.conversation, h.due FROM annals.head h WHERE h.due <= ",
        arrived!(),
        " AND ",
        is_free!(),
        " AND NOT EXISTS (SELECT 1 FROM annals.member WHERE node = $2 AND (epoch > $3 OR epoch = $3 AND until <= ",
        now!(),
        ")) ORDER BY h.due, h.conversation LIMIT $5 FOR UPDATE OF h SKIP LOCKED),
         g AS (UPDATE annals.head h SET token = h.token + 1, node = $2, epoch = $3, until = ",
        now!(),
        " + $4, attempts = h.attempts + 1 FROM picked p WHERE h.conversation = p.conversation
          RETURNING h.conversation, h.token, h.attempts, h.tail, p.due)
         SELECT g.conversation, g.token, g.attempts, s.text || '/' || c.id, g.tail FROM g
         JOIN annals.conversation c ON c.key = g.conversation JOIN annals.scope s ON s.key = c.scope_key
         ORDER BY g.due, g.conversation"
    );
    let asked = seen.now();
    let rows = client
        .query_typed(
            STATEMENT,
            &[
                (&now, Type::INT8),
                (&owner.node.as_str(), Type::TEXT),
                (&(owner.epoch as i64), Type::INT8),
                (&micros(ttl), Type::INT8),
                (&i64::try_from(limit).unwrap_or(i64::MAX), Type::INT8),
            ],
        )
        .await?;
    if rows.is_empty() && members::is_gone(client, now, owner).await? {
        return Err(LogError::NotAMember { owner: owner.clone() }.into());
    }
    let sums = sums(client, &rows, seen).await?;
    let claimed = rows.iter().map(|row| {
        let key = ConversationKey::parse(row.get(3)).map_err(|error| Fault::Damaged(error.to_string()))?;
        let (incarnation, token): (i64, i64) = (row.get(0), row.get(1));
        let holds = (tail_of(row.get(4)), sums.get(&incarnation).copied());
        if let Err(lost) = seen.found(&key, asked, incarnation, holds) {
            // Its new owner folds what is there. A session of this process that has more is told so when it writes.
            tracing::error!("{lost}");
        }
        let lease = Lease::new(
            key,
            owner.clone(),
            token.unsigned_abs(),
            ttl,
            incarnation.unsigned_abs(),
        );
        Ok(Claimed {
            lease,
            attempts: row.get::<_, i32>(2).unsigned_abs(),
        })
    });
    claimed.collect()
}

/// The checksums of the blocks that were the last ones of claimed conversations, by conversation, as far as this process
/// knows any.
async fn sums(client: &Client, claimed: &[Row], seen: &Seen) -> Result<HashMap<i64, i64>, Fault> {
    let (mut conversations, mut tails) = (Vec::<i64>::new(), Vec::new());
    for row in claimed {
        let key = ConversationKey::parse(row.get(3)).map_err(|error| Fault::Damaged(error.to_string()))?;
        if let Some(tail) = seen.last(&key).and_then(|last| last.tail) {
            conversations.push(row.get(0));
            tails.push(tail.get() as i64);
        }
    }
    if conversations.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = client
        .query_typed(
            "SELECT b.conversation, b.sum FROM annals.block b JOIN unnest($1::int8[], $2::int8[]) k (conversation, seq)
             ON k.conversation = b.conversation AND k.seq = b.seq",
            &[(&conversations, Type::INT8_ARRAY), (&tails, Type::INT8_ARRAY)],
        )
        .await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}
