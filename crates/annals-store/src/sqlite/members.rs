//! Which processes share the file, as rows: a member counts as gone when it left, was silent for too long, or when the
//! kernel says that its process ended.

use std::time::Duration;

use annals_core::ids::NodeId;
use annals_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::conversations::read_owner;
use super::fault::Fault;
use super::process;
use crate::log::{LogError, Member, Owner, expiry};

/// After this long, a row of a member that is gone goes too: no lease of its can still last.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

struct Membership {
    epoch: i64,
    ttl: Duration,
    until: Timestamp,
    process: String,
}

impl Membership {
    fn read(tx: &Connection, node: &NodeId) -> rusqlite::Result<Option<Self>> {
        tx.prepare_cached("SELECT epoch, ttl, until, process FROM member WHERE node = ?1")?
            .query_row([node.as_str()], |row| {
                Ok(Membership {
                    epoch: row.get(0)?,
                    ttl: Duration::from_micros(row.get::<_, i64>(1)?.unsigned_abs()),
                    until: Timestamp::from_unix_micros(row.get(2)?),
                    process: row.get(3)?,
                })
            })
            .optional()
    }

    fn is_alive(&self, now: Timestamp) -> bool {
        self.until > now && !process::is_gone(&self.process)
    }
}

/// Raises the node's epoch.
pub(super) fn join(
    tx: &Connection,
    node: &NodeId,
    address: Option<&str>,
    ttl: Duration,
    now: Timestamp,
) -> Result<Owner, Fault> {
    let kept_micros = i64::try_from(KEPT.as_micros()).unwrap_or(i64::MAX);
    tx.prepare_cached("DELETE FROM member WHERE until <= ?1 AND node <> ?2")?
        .execute(params![
            now.plus_micros(-kept_micros).unix_micros(),
            node.as_str()
        ])?;
    let epoch = Membership::read(tx, node)?.map_or(0, |before| before.epoch) + 1;
    tx.prepare_cached(
        "INSERT OR REPLACE INTO member (node, epoch, address, ttl, until, process) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![
        node.as_str(),
        epoch,
        address,
        i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX),
        expiry(now, ttl).unix_micros(),
        process::this()
    ])?;
    Ok(Owner::new(node.clone(), epoch.unsigned_abs()))
}

/// Stays.
pub(super) fn beat(tx: &Connection, owner: &Owner, now: Timestamp) -> Result<(), Fault> {
    let member = Membership::read(tx, &owner.node)?
        .filter(|member| member.epoch.unsigned_abs() == owner.epoch && member.is_alive(now))
        .ok_or_else(|| LogError::NotAMember { owner: owner.clone() })?;
    tx.prepare_cached("UPDATE member SET until = max(until, ?2) WHERE node = ?1")?
        .execute(params![
            owner.node.as_str(),
            expiry(now, member.ttl).unix_micros()
        ])?;
    Ok(())
}

/// Goes. The row stays as the proof of it.
pub(super) fn leave(tx: &Connection, owner: &Owner, now: Timestamp) -> rusqlite::Result<()> {
    tx.prepare_cached("UPDATE member SET until = min(until, ?3) WHERE node = ?1 AND epoch = ?2")?
        .execute(params![
            owner.node.as_str(),
            owner.epoch as i64,
            now.unix_micros()
        ])?;
    Ok(())
}

/// Who is there.
pub(super) fn alive(tx: &Connection, now: Timestamp) -> Result<Vec<Member>, Fault> {
    let mut statement = tx.prepare_cached(
        "SELECT node, epoch, address, until, process FROM member WHERE until > ?1 ORDER BY node",
    )?;
    let mut rows = statement.query([now.unix_micros()])?;
    let mut there = Vec::new();
    while let Some(row) = rows.next()? {
        let (node, process): (String, String) = (row.get(0)?, row.get(4)?);
        if !process::is_gone(&process) {
            there.push(Member {
                owner: read_owner(&node, row.get(1)?)?,
                address: row.get(2)?,
                until: Timestamp::from_unix_micros(row.get(3)?),
            });
        }
    }
    Ok(there)
}

/// Whether an owner joined and is gone. One that never joined is not judged here.
pub(super) fn is_gone(tx: &Connection, owner: &Owner, now: Timestamp) -> rusqlite::Result<bool> {
    Ok(Membership::read(tx, &owner.node)?.is_some_and(|member| {
        let epoch = member.epoch.unsigned_abs();
        epoch > owner.epoch || epoch == owner.epoch && !member.is_alive(now)
    }))
}
