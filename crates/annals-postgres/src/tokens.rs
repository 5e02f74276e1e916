//! Tokens and the keys of servers, as statements.

use annals_core::ids::Scope;
use annals_core::time::Timestamp;
use annals_store::columns::checksum;
use annals_store::log::TokenHash;
use annals_store::{LogError, Roles, Token};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use crate::fault::Fault;
use crate::sql::now;

/// Covers what a token opens, so that a flipped bit does not widen it.
fn sum(token: &Token) -> i64 {
    checksum(
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

fn read(row: &Row) -> Result<Token, Fault> {
    let name = String::from_utf8_lossy(row.get(0)).into_owned();
    let damaged = || Fault::Damaged(format!("the token `{}` is malformed", name.escape_default()));
    let token = Token {
        hash: row.get::<_, &[u8]>(1).try_into().map_err(|_| damaged())?,
        scope: Scope::parse(row.get(2)).map_err(|_| damaged())?,
        roles: Roles::from_bits(u8::try_from(row.get::<_, i16>(3)).map_err(|_| damaged())?),
        created: Timestamp::from_unix_micros(row.get(4)),
        expires: row.get::<_, Option<i64>>(5).map(Timestamp::from_unix_micros),
        name: name.clone(),
    };
    match sum(&token) == row.get::<_, i64>(6) {
        true => Ok(token),
        false => Err(damaged()),
    }
}

/// Adds a token whose name is free. A second attempt after a lost answer recognises what the first one added.
pub(crate) async fn add(client: &Client, token: &Token, in_doubt: bool) -> Result<(), Fault> {
    let added = client
        .query_typed(
            "INSERT INTO annals.token (name, hash, scope, roles, created, expires, sum)
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (name) DO NOTHING RETURNING 1",
            &[
                (&token.name.as_bytes(), Type::BYTEA),
                (&&token.hash[..], Type::BYTEA),
                (&token.scope.to_string(), Type::TEXT),
                (&i16::from(token.roles.bits()), Type::INT2),
                (&token.created.unix_micros(), Type::INT8),
                (&token.expires.map(Timestamp::unix_micros), Type::INT8),
                (&sum(token), Type::INT8),
            ],
        )
        .await?;
    if !added.is_empty() || in_doubt && all(client).await?.contains(token) {
        return Ok(());
    }
    Err(LogError::TokenExists {
        name: token.name.clone(),
    }
    .into())
}

/// The token of a digest, unless it has expired.
pub(crate) async fn find(
    client: &Client,
    now: Option<i64>,
    hash: &TokenHash,
) -> Result<Option<Token>, Fault> {
    const STATEMENT: &str = concat!(
        "SELECT name, hash, scope, roles, created, expires, sum FROM annals.token
         WHERE hash = $2 AND (expires IS NULL OR expires > ",
        now!(),
        ")"
    );
    let row = client
        .query_typed_opt(STATEMENT, &[(&now, Type::INT8), (&&hash[..], Type::BYTEA)])
        .await?;
    row.as_ref().map(read).transpose()
}

/// All tokens by name.
pub(crate) async fn all(client: &Client) -> Result<Vec<Token>, Fault> {
    let rows = client
        .query_typed(
            "SELECT name, hash, scope, roles, created, expires, sum FROM annals.token ORDER BY name",
            &[],
        )
        .await?;
    rows.iter().map(read).collect()
}

/// Removes a token; tells whether there was one, also when an earlier attempt may have removed it.
pub(crate) async fn revoke(client: &Client, name: &str, in_doubt: bool) -> Result<bool, Fault> {
    let removed = client
        .query_typed(
            "DELETE FROM annals.token WHERE name = $1 RETURNING 1",
            &[(&name.as_bytes(), Type::BYTEA)],
        )
        .await?;
    Ok(in_doubt || !removed.is_empty())
}

/// The key of this name; the first caller's is kept.
pub(crate) async fn server_key(client: &Client, name: &str, fresh: &[u8; 32]) -> Result<[u8; 32], Fault> {
    client
        .query_typed(
            "INSERT INTO annals.server_key (name, key) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
            &[(&name.as_bytes(), Type::BYTEA), (&&fresh[..], Type::BYTEA)],
        )
        .await?;
    let row = client
        .query_typed_one(
            "SELECT key FROM annals.server_key WHERE name = $1",
            &[(&name.as_bytes(), Type::BYTEA)],
        )
        .await?;
    let key = row.get::<_, &[u8]>(0).try_into();
    key.map_err(|_| Fault::Damaged("a server's key has a wrong length".to_owned()))
}
