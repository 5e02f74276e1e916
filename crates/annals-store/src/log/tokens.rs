//! Who may come in over a network: tokens, of which the store knows the digests only, and the keys that servers sign with.

use std::fmt;
use std::str::FromStr;

use annals_core::ids::Scope;
use annals_core::time::Timestamp;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::LogError;

/// What a token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Conversations of its scope: reading, prompting, steering, cancelling.
    Use,
    /// Deciding about calls that wait for a person.
    Approve,
    /// What concerns the server itself.
    Admin,
    /// Reading figures.
    Metrics,
}

impl Role {
    /// Every role.
    pub const ALL: [Role; 4] = [Role::Use, Role::Approve, Role::Admin, Role::Metrics];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Use => "use",
            Role::Approve => "approve",
            Role::Admin => "admin",
            Role::Metrics => "metrics",
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A text that names no role.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not a role: use `use`, `approve`, `admin` or `metrics`")]
pub struct RoleError(String);

impl FromStr for Role {
    type Err = RoleError;

    fn from_str(text: &str) -> Result<Self, RoleError> {
        let found = Role::ALL.into_iter().find(|role| role.as_str() == text);
        found.ok_or_else(|| RoleError(text.chars().filter(|c| !c.is_control()).take(40).collect()))
    }
}

/// A set of roles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Roles(u8);

impl Roles {
    /// All of them.
    pub fn all() -> Self {
        Role::ALL.into_iter().collect()
    }

    /// Whether a role is among them.
    pub fn has(self, role: Role) -> bool {
        self.0 & role.bit() != 0
    }

    /// The roles, in the order of [`Role::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Role> {
        Role::ALL.into_iter().filter(move |role| self.has(*role))
    }

    /// As a number, for backends.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// From the number of [`bits`](Self::bits); bits that mean nothing here are dropped.
    pub fn from_bits(bits: u8) -> Self {
        Role::ALL
            .into_iter()
            .filter(|role| bits & role.bit() != 0)
            .collect()
    }
}

impl FromIterator<Role> for Roles {
    fn from_iter<I: IntoIterator<Item = Role>>(roles: I) -> Self {
        Roles(roles.into_iter().fold(0, |bits, role| bits | role.bit()))
    }
}

impl fmt::Display for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, role) in self.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { "," })?;
            f.write_str(role.as_str())?;
        }
        Ok(())
    }
}

/// The SHA-256 of a token's secret.
pub type TokenHash = [u8; 32];

/// A token as the store knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// What people call it; no two have the same name.
    pub name: String,
    /// The digest of its secret.
    pub hash: TokenHash,
    /// Whose conversations it opens.
    pub scope: Scope,
    /// What it allows.
    pub roles: Roles,
    /// When it was made.
    pub created: Timestamp,
    /// From when on it opens nothing.
    pub expires: Option<Timestamp>,
}

impl Token {
    /// Whether it opens anything at this time.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.expires.is_none_or(|expires| expires > now)
    }
}

/// The tokens of a store.
///
/// 1. **Durable when `Ok`**, as in [`BlockLog`](super::BlockLog): a revoked token stays revoked.
/// 2. **Known by its digest.** The store never sees a secret.
/// 3. **Expired is unknown** to [`find_token`](Self::find_token), by the store's clock; [`tokens`](Self::tokens) still
///    lists it.
#[async_trait]
pub trait Tokens: Send + Sync {
    /// Adds a token. Fails with [`LogError::TokenExists`] when its name is taken.
    async fn add_token(&self, token: Token) -> Result<(), LogError>;

    /// The token of this digest, unless it has expired.
    async fn find_token(&self, hash: &TokenHash) -> Result<Option<Token>, LogError>;

    /// All tokens, in the order of their names.
    async fn tokens(&self) -> Result<Vec<Token>, LogError>;

    /// Removes a token; tells whether there was one of this name.
    async fn revoke_token(&self, name: &str) -> Result<bool, LogError>;

    /// The key of this name that all servers on this store share. The first call keeps `fresh`, which the caller drew at
    /// random; every later one is given what was kept.
    async fn server_key(&self, name: &str, fresh: [u8; 32]) -> Result<[u8; 32], LogError>;
}
