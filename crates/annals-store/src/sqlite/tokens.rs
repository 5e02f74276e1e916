//! Tokens and the keys of servers, as statements.

use annals_core::ids::Scope;
use annals_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::checksum;
use super::fault::Fault;
use crate::log::{LogError, Roles, Token, TokenHash};

const COLUMNS: &str = "name, hash, scope, roles, created, expires, sum";

/// Covers what a token opens, so that a flipped bit does not widen it.
fn sum(token: &Token) -> i64 {
    checksum::of(
        &[
            i64::from(token.roles.bits()),
            token.created.unix_micros(),
            token.expires.map_or(-1, Timestamp::unix_micros),
        ],
        &[
            Some(token.name.as_bytes()),
            Some(&token.hash),
            Some(token.scope.to_string().as_bytes()),
        ],
    )
}

fn read(row: &Row<'_>) -> Result<Token, Fault> {
    let (name, scope): (String, String) = (row.get(0)?, row.get(2)?);
    let damaged = || Fault::Damaged(format!("the token `{}` is malformed", name.escape_default()));
    let token = Token {
        hash: row.get(1)?,
        scope: Scope::parse(&scope).map_err(|_| damaged())?,
        roles: Roles::from_bits(row.get(3)?),
        created: Timestamp::from_unix_micros(row.get(4)?),
        expires: row.get::<_, Option<i64>>(5)?.map(Timestamp::from_unix_micros),
        name: name.clone(),
    };
    match sum(&token) == row.get::<_, i64>(6)? {
        true => Ok(token),
        false => Err(damaged()),
    }
}

/// Adds a token whose name is free.
pub(super) fn add(tx: &Connection, token: &Token) -> Result<(), Fault> {
    let added = tx
        .prepare_cached(&format!(
            "INSERT INTO token ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (name) DO NOTHING"
        ))?
        .execute(params![
            token.name,
            token.hash,
            token.scope.to_string(),
            token.roles.bits(),
            token.created.unix_micros(),
            token.expires.map(Timestamp::unix_micros),
            sum(token)
        ])?;
    match added {
        0 => Err(LogError::TokenExists {
            name: token.name.clone(),
        }
        .into()),
        _ => Ok(()),
    }
}

/// The token of a digest.
pub(super) fn find(tx: &Connection, hash: &TokenHash) -> Result<Option<Token>, Fault> {
    let mut statement = tx.prepare_cached(&format!("SELECT {COLUMNS} FROM token WHERE hash = ?1"))?;
    let mut rows = statement.query([hash])?;
    rows.next()?.map(read).transpose()
}

/// All tokens by name.
pub(super) fn all(tx: &Connection) -> Result<Vec<Token>, Fault> {
    let mut statement = tx.prepare_cached(&format!("SELECT {COLUMNS} FROM token ORDER BY name"))?;
    let mut rows = statement.query([])?;
    let mut tokens = Vec::new();
    while let Some(row) = rows.next()? {
        tokens.push(read(row)?);
    }
    Ok(tokens)
}

/// Removes a token; tells whether there was one.
pub(super) fn revoke(tx: &Connection, name: &str) -> rusqlite::Result<bool> {
    let removed = tx
        .prepare_cached("DELETE FROM token WHERE name = ?1")?
        .execute([name])?;
    Ok(removed > 0)
}

/// The key of this name; the first caller's is kept.
pub(super) fn server_key(tx: &Connection, name: &str, fresh: &[u8; 32]) -> rusqlite::Result<[u8; 32]> {
    tx.prepare_cached("INSERT INTO server_key (name, key) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING")?
        .execute(params![name, fresh])?;
    tx.prepare_cached("SELECT key FROM server_key WHERE name = ?1")?
        .query_row([name], |row| row.get(0))
        .optional()
        .map(|kept| kept.unwrap_or(*fresh))
}
