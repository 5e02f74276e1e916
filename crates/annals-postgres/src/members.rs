//! Which nodes share the database, as rows on its clock.

use std::time::Duration;

use annals_core::ids::NodeId;
use annals_core::time::Timestamp;
use annals_store::{LogError, Member, Owner};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Transaction};

use crate::conversations::owner as read_owner;
use crate::fault::Fault;
use crate::head::micros;
use crate::schema;
use crate::sql::now;

/// After this long, the row of a member that is gone goes too: no lease of its can still last.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// Raises the node's epoch.
pub(crate) async fn join(
    client: &Client,
    now: Option<i64>,
    node: &NodeId,
    address: Option<&str>,
    ttl: Duration,
) -> Result<Owner, Fault> {
    const STATEMENT: &str = concat!(
        "WITH gone AS (DELETE FROM annals.member WHERE until <= ",
        now!(),
        " - $6 AND node <> $2)
         INSERT INTO annals.member AS m (node, epoch, address, ttl, until, schema)
         VALUES ($2, 1, $3, $4, ",
        now!(),
        " + $4, $5)
         ON CONFLICT (node) DO UPDATE SET epoch = m.epoch + 1, address = excluded.address,
         ttl = excluded.ttl, until = excluded.until, schema = excluded.schema RETURNING epoch"
    );
    let row = client
        .query_typed_one(
            STATEMENT,
            &[
                (&now, Type::INT8),
                (&node.as_str(), Type::TEXT),
                (&address, Type::TEXT),
                (&micros(ttl), Type::INT8),
                (&schema::KNOWN, Type::INT4),
                (&micros(KEPT), Type::INT8),
            ],
        )
        .await?;
    Ok(Owner::new(node.clone(), row.get::<_, i64>(0).unsigned_abs()))
}

/// Stays.
pub(crate) async fn beat(client: &Client, now: Option<i64>, owner: &Owner) -> Result<(), Fault> {
    const STATEMENT: &str = concat!(
        "UPDATE annals.member SET until = greatest(until, ",
        now!(),
        " + ttl) WHERE node = $2 AND epoch = $3 AND until > ",
        now!(),
        " RETURNING 1"
    );
    let stayed = client
        .query_typed_opt(
            STATEMENT,
            &[
                (&now, Type::INT8),
                (&owner.node.as_str(), Type::TEXT),
                (&(owner.epoch as i64), Type::INT8),
            ],
        )
        .await?;
    match stayed {
        Some(_) => Ok(()),
        None => Err(LogError::NotAMember { owner: owner.clone() }.into()),
    }
}

/// Goes. The row stays as the proof of it.
pub(crate) async fn leave(client: &Client, now: Option<i64>, owner: &Owner) -> Result<(), Fault> {
    const STATEMENT: &str = concat!(
        "UPDATE annals.member SET until = least(until, ",
        now!(),
        ") WHERE node = $2 AND epoch = $3"
    );
    client
        .query_typed(
            STATEMENT,
            &[
                (&now, Type::INT8),
                (&owner.node.as_str(), Type::TEXT),
                (&(owner.epoch as i64), Type::INT8),
            ],
        )
        .await?;
    Ok(())
}

/// Whether an owner joined and is gone.
pub(crate) async fn is_gone(client: &Client, now: Option<i64>, owner: &Owner) -> Result<bool, Fault> {
    const STATEMENT: &str = concat!(
        "SELECT 1 FROM annals.member WHERE node = $2 AND (epoch > $3 OR epoch = $3 AND until <= ",
        now!(),
        ")"
    );
    let gone = client
        .query_typed_opt(
            STATEMENT,
            &[
                (&now, Type::INT8),
                (&owner.node.as_str(), Type::TEXT),
                (&(owner.epoch as i64), Type::INT8),
            ],
        )
        .await?;
    Ok(gone.is_some())
}

/// Who is there.
pub(crate) async fn alive(client: &Client, now: Option<i64>) -> Result<Vec<Member>, Fault> {
    const STATEMENT: &str = concat!(
        "SELECT node, epoch, address, until FROM annals.member WHERE until > ",
        now!(),
        " ORDER BY node"
    );
    let rows = client.query_typed(STATEMENT, &[(&now, Type::INT8)]).await?;
    let members = rows.iter().map(|row| {
        Ok(Member {
            owner: read_owner(row.get(0), row.get(1))?,
            address: row.get(2),
            until: Timestamp::from_unix_micros(row.get(3)),
        })
    });
    members.collect()
}

/// Refuses what an older program would not understand while a node of one lives.
pub(crate) async fn refuse_older(
    tx: &Transaction<'_>,
    now: Option<i64>,
    schema: i32,
    lacks: &str,
) -> Result<(), Fault> {
    const STATEMENT: &str = concat!(
        "SELECT node FROM annals.member WHERE schema < $2 AND until > ",
        now!(),
        " ORDER BY node LIMIT 1"
    );
    let older = tx
        .query_typed_opt(STATEMENT, &[(&now, Type::INT8), (&schema, Type::INT4)])
        .await?;
    match older {
        None => Ok(()),
        Some(row) => Err(LogError::Storage {
            log: "artifacts".to_owned(),
            detail: format!(
                "the node `{}` is of a version that {lacks}: deploy the new program to it first",
                row.get::<_, &str>(0)
            ),
        }
        .into()),
    }
}
