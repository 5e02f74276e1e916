//! Secrets of the door: tokens, the cookie of a browser, links that expire.
//!
//! A token is 256 random bits; the store knows its SHA-256. Cookies and links are signed by HMAC-SHA-256 with keys that
//! the store keeps, so that they hold after a restart and on every node.

use annals_core::ids::Scope;
use annals_core::time::Timestamp;
use annals_store::{LogError, Roles, Store};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// What a token's text begins with, so that scanners of leaked secrets know it.
const TOKEN_PREFIX: &str = "annals_";

/// Random bytes of the operating system.
pub(crate) fn random_bytes() -> Result<[u8; 32], getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// A new token's text.
pub fn new_token() -> Result<String, getrandom::Error> {
    Ok(format!(
        "{TOKEN_PREFIX}{}",
        URL_SAFE_NO_PAD.encode(random_bytes()?)
    ))
}

/// What the store knows of a token.
pub fn hash_of(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// What a cookie says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ticket {
    pub(crate) scope: Scope,
    pub(crate) roles: Roles,
    /// Until when, in seconds since 1970.
    pub(crate) until: i64,
    /// The token it was given for: the cookie goes with it. None for the one that was printed at the start.
    pub(crate) token: Option<[u8; 32]>,
}

/// Signs with the keys of the store.
#[derive(Clone)]
pub(crate) struct Signer {
    cookies: [u8; 32],
    links: [u8; 32],
    nodes: [u8; 32],
}

impl Signer {
    /// With the keys that all servers on this store share.
    pub(crate) async fn of(store: &dyn Store) -> Result<Self, SignerError> {
        Ok(Signer {
            cookies: store.server_key("cookies", random_bytes()?).await?,
            links: store.server_key("links", random_bytes()?).await?,
            nodes: store.server_key("nodes", random_bytes()?).await?,
        })
    }

    /// A cookie's value.
    pub(crate) fn cookie(&self, ticket: &Ticket) -> String {
        issue(&self.cookies, ticket)
    }

    /// What a cookie says, if its signature is ours and its time is not over.
    pub(crate) fn ticket(&self, cookie: &str, now: Timestamp) -> Option<Ticket> {
        accept(&self.cookies, cookie, now)
    }

    /// What a node shows to another one.
    pub(crate) fn node_ticket(&self, ticket: &Ticket) -> String {
        issue(&self.nodes, ticket)
    }

    /// What another node has shown, if it shares our keys.
    pub(crate) fn of_node(&self, shown: &str, now: Timestamp) -> Option<Ticket> {
        accept(&self.nodes, shown, now)
    }

    /// The signature of a link to an artifact.
    pub(crate) fn link(&self, scope: &Scope, path: &str, until: i64) -> String {
        let parts = [scope.to_string(), path.to_owned(), until.to_string()];
        URL_SAFE_NO_PAD.encode(sign(&self.links, &parts.each_ref().map(|part| part.as_bytes())))
    }

    /// Whether a link is ours and its time is not over.
    pub(crate) fn is_link(
        &self,
        scope: &Scope,
        path: &str,
        until: i64,
        signature: &str,
        now: Timestamp,
    ) -> bool {
        let parts = [scope.to_string(), path.to_owned(), until.to_string()];
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap_or_default();
        let is_ours = verify(
            &self.links,
            &parts.each_ref().map(|part| part.as_bytes()),
            &signature,
        );
        is_ours.is_some() && until > seconds(now)
    }
}

/// Why the keys cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignerError {
    /// The store failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The operating system gives no random bytes.
    #[error("the operating system gives no random bytes: {0}")]
    Random(#[from] getrandom::Error),
}

/// Seconds since 1970.
pub(crate) fn seconds(time: Timestamp) -> i64 {
    time.unix_millis() / 1_000
}

fn issue(key: &[u8; 32], ticket: &Ticket) -> String {
    let said = serde_json::to_vec(ticket).expect("plain data always serialises to JSON");
    let said = URL_SAFE_NO_PAD.encode(said);
    let signature = URL_SAFE_NO_PAD.encode(sign(key, &[said.as_bytes()]));
    format!("{said}.{signature}")
}

fn accept(key: &[u8; 32], shown: &str, now: Timestamp) -> Option<Ticket> {
    let (said, signature) = shown.split_once('.')?;
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    verify(key, &[said.as_bytes()], &signature)?;
    let ticket: Ticket = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(said).ok()?).ok()?;
    (ticket.until > seconds(now)).then_some(ticket)
}

fn mac(key: &[u8; 32], parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    for part in parts {
        // Lengths first, so that no part can lend bytes to the next.
        mac.update(&(part.len() as u64).to_le_bytes());
        mac.update(part);
    }
    mac
}

fn sign(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    mac(key, parts).finalize().into_bytes().into()
}

/// Compared in constant time.
fn verify(key: &[u8; 32], parts: &[&[u8]], signature: &[u8]) -> Option<()> {
    mac(key, parts).verify_slice(signature).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signer(byte: u8) -> Signer {
        Signer {
            cookies: [byte; 32],
            links: [byte + 1; 32],
            nodes: [byte + 2; 32],
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_unix_millis(seconds * 1_000)
    }

    #[test]
    fn a_cookie_is_believed_only_unchanged_from_us_and_in_time() {
        let ticket = Ticket {
            scope: Scope::default(),
            roles: Roles::all(),
            until: 100,
            token: Some([3; 32]),
        };
        let cookie = signer(1).cookie(&ticket);
        assert_eq!(signer(1).ticket(&cookie, at(99)), Some(ticket));
        assert_eq!(signer(1).ticket(&cookie, at(100)), None, "its time is over");
        assert_eq!(signer(2).ticket(&cookie, at(99)), None, "another server's key");
        assert_eq!(signer(1).of_node(&cookie, at(99)), None, "a browser is no node");
        for at_byte in 0..cookie.len() {
            let mut changed = cookie.clone().into_bytes();
            changed[at_byte] = if changed[at_byte] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            let found = signer(1).ticket(&changed, at(99));
            // The last character of a base64 text may carry bits that mean nothing.
            assert!(found.is_none() || at_byte + 1 == cookie.len(), "byte {at_byte}");
        }
    }

    #[test]
    fn a_link_opens_one_path_of_one_scope_for_its_time() {
        let (own, other) = (Scope::default(), Scope::parse("o/t/her").unwrap());
        let signature = signer(1).link(&own, "/v1/a", 100);
        let opens = |scope: &Scope, path: &str, until, now| {
            signer(1).is_link(scope, path, until, &signature, at(now))
        };
        assert!(opens(&own, "/v1/a", 100, 99));
        assert!(!opens(&own, "/v1/a", 100, 100), "its time is over");
        assert!(!opens(&own, "/v1/a", 101, 99), "its time was moved");
        assert!(!opens(&own, "/v1/b", 100, 99), "another path");
        assert!(!opens(&other, "/v1/a", 100, 99), "another scope");
    }

    #[test]
    fn tokens_differ_and_name_what_they_are() {
        let (one, other) = (new_token().unwrap(), new_token().unwrap());
        assert_ne!(one, other);
        assert!(one.starts_with(TOKEN_PREFIX) && one.len() == TOKEN_PREFIX.len() + 43);
    }
}
