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

/// How far an admin's token reaches: its own scope, or every scope that begins like it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Breadth {
    /// Its own scope.
    #[default]
    User,
    /// Every user of its project.
    Project,
    /// Every project of its tenant.
    Tenant,
}

impl Breadth {
    /// Every breadth, the narrowest first.
    pub const ALL: [Breadth; 3] = [Breadth::User, Breadth::Project, Breadth::Tenant];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Breadth::User => "user",
            Breadth::Project => "project",
            Breadth::Tenant => "tenant",
        }
    }

    /// Whether a token of scope `own` reaches `other`.
    pub fn reaches(self, own: &Scope, other: &Scope) -> bool {
        own.tenant() == other.tenant()
            && (self >= Breadth::Tenant || own.project() == other.project())
            && (self >= Breadth::Project || own.user() == other.user())
    }
}

/// A set of roles. With the role `admin`, also how far they reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Roles(u8);

/// The bits that hold the breadth.
const BREADTH_SHIFT: u32 = 4;

impl Roles {
    /// All of them.
    pub fn all() -> Self {
        Role::ALL.into_iter().collect()
    }

    /// Whether a role is among them.
    pub fn has(self, role: Role) -> bool {
        self.0 & role.bit() != 0
    }

    /// How far they reach.
    pub fn breadth(self) -> Breadth {
        let number = usize::from(self.0 >> BREADTH_SHIFT);
        let given = Breadth::ALL.get(number).copied().unwrap_or_default();
        match self.has(Role::Admin) {
            true => given,
            false => Breadth::User,
        }
    }

    /// The same roles, reaching this far. Only an admin's reach beyond their own scope.
    #[must_use]
    pub fn reaching(self, breadth: Breadth) -> Self {
        let roles = self.0 & ((1 << BREADTH_SHIFT) - 1);
        match self.has(Role::Admin) {
            true => Roles(roles | ((breadth as u8) << BREADTH_SHIFT)),
            false => Roles(roles),
        }
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
        let roles: Roles = Role::ALL
            .into_iter()
            .filter(|role| bits & role.bit() != 0)
            .collect();
        roles.reaching(Roles(bits).breadth())
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
        match self.breadth() {
            Breadth::User => Ok(()),
            breadth => write!(f, " of the {}", breadth.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_admin_reaches_beyond_their_own_scope() {
        let admin: Roles = [Role::Use, Role::Admin].into_iter().collect();
        let user: Roles = [Role::Use].into_iter().collect();
        for breadth in Breadth::ALL {
            let roles = admin.reaching(breadth);
            assert_eq!(roles.breadth(), breadth);
            assert_eq!(Roles::from_bits(roles.bits()), roles, "as a store keeps it");
            assert_eq!(roles.iter().collect::<Vec<_>>(), [Role::Use, Role::Admin]);
            assert_eq!(user.reaching(breadth), user);
        }
        assert_eq!(
            Roles::from_bits(0xff).breadth(),
            Breadth::User,
            "a breadth of a later version"
        );
        assert_eq!(
            Roles::from_bits(0b0010_0001).breadth(),
            Breadth::User,
            "without the role"
        );
    }

    #[test]
    fn a_breadth_is_a_prefix_of_the_scope() {
        let scope = |text: &str| Scope::parse(text).unwrap();
        let own = scope("acme/web/ann");
        let reached = |breadth: Breadth| {
            [
                "acme/web/ann",
                "acme/web/bob",
                "acme/app/ann",
                "acm/web/ann",
                "other/web/ann",
            ]
            .map(|other| breadth.reaches(&own, &scope(other)))
        };
        assert_eq!(reached(Breadth::User), [true, false, false, false, false]);
        assert_eq!(reached(Breadth::Project), [true, true, false, false, false]);
        assert_eq!(reached(Breadth::Tenant), [true, true, true, false, false]);
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
