//! What sandboxes of a server are made of.

use std::collections::BTreeMap;
use std::time::Duration;

use annals_core::redact::SafeUrl;
use annals_remote::{http, workspace_path};
use serde::Deserialize;
use url::{Host, Url};

/// Shortest life that makes sense: a renewal has to come in time.
const TTL_MIN_SECONDS: u64 = 15;

/// The table `[sandbox.e2b]` of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct E2bOptions {
    /// Name or id of the template.
    pub template: String,
    /// Seconds that a sandbox lives without being renewed; it is renewed while in use.
    pub timeout_seconds: u64,
    /// Environment of the sandbox.
    pub env: BTreeMap<String, String>,
    /// Whether programs may reach the internet; the server's default if absent.
    pub internet: Option<bool>,
    /// Where the workspace is inside.
    pub workspace: String,
    /// The account that programs run as; the template's if absent.
    pub user: Option<String>,
    /// Domain below which sandboxes are reached; the server's answer or its own domain if absent.
    pub domain: Option<String>,
    /// Address at which all sandboxes are reached, told apart by header.
    pub sandbox_url: Option<String>,
    /// Tells installations on one server apart; from the store's address if absent.
    pub namespace: Option<String>,
}

impl Default for E2bOptions {
    fn default() -> Self {
        Self {
            template: "base".to_owned(),
            timeout_seconds: 300,
            env: BTreeMap::new(),
            internet: None,
            workspace: "/tmp/workspace".to_owned(),
            user: None,
            domain: None,
            sandbox_url: None,
            namespace: None,
        }
    }
}

/// Settings that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The server's address.
    #[error("`{0}` is no address of an E2B server; write `e2b:https://api.e2b.app`")]
    Url(String),
    /// The address of sandboxes.
    #[error("`sandbox_url = \"{0}\"` is no address of a server; write `https://host`")]
    SandboxUrl(String),
    /// The workspace.
    #[error("`workspace = \"{0}\"` is no absolute path below `/`")]
    Workspace(String),
    /// The time to live.
    #[error("`timeout_seconds = {0}` is too short; give at least {TTL_MIN_SECONDS}")]
    Timeout(u64),
    /// The key.
    #[error("the key in `E2B_API_KEY` has characters that no header can carry")]
    Key,
    /// HTTP itself.
    #[error("no HTTP client can be made: {0}")]
    Client(String),
}

/// A server and what its sandboxes are made of, checked.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) url: Url,
    pub(crate) options: E2bOptions,
    pub(crate) ttl: Duration,
    sandbox_url: Option<Url>,
}

impl Settings {
    pub(crate) fn parse(url: &str, options: E2bOptions) -> Result<Self, SettingsError> {
        let parsed = http::server(url).ok_or_else(|| SettingsError::Url(SafeUrl(url).to_string()))?;
        let Some(workspace) = workspace_path(&options.workspace).map(str::to_owned) else {
            return Err(SettingsError::Workspace(options.workspace));
        };
        if options.timeout_seconds < TTL_MIN_SECONDS {
            return Err(SettingsError::Timeout(options.timeout_seconds));
        }
        let sandbox_url = match options
            .sandbox_url
            .as_deref()
            .map(|text| (text, http::server(text)))
        {
            Some((text, None)) => return Err(SettingsError::SandboxUrl(SafeUrl(text).to_string())),
            Some((_, url)) => url,
            // A server without a domain of its own serves its sandboxes, too.
            None if !matches!(parsed.host(), Some(Host::Domain(name)) if name != "localhost") => {
                Some(parsed.clone())
            }
            None => None,
        };
        Ok(Self {
            url: parsed,
            ttl: Duration::from_secs(options.timeout_seconds),
            options: E2bOptions { workspace, ..options },
            sandbox_url,
        })
    }

    /// Where a port of a sandbox is reached; `domain` is what the server said.
    pub(crate) fn address(&self, id: &str, port: u16, domain: Option<&str>) -> Option<Url> {
        if let Some(url) = &self.sandbox_url {
            return Some(url.clone());
        }
        let host = self.url.host_str()?;
        let own = host.strip_prefix("api.").unwrap_or(host);
        let domain = self.options.domain.as_deref().or(domain).unwrap_or(own);
        Url::parse(&format!("{}://{port}-{id}.{domain}", self.url.scheme())).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str, change: impl FnOnce(&mut E2bOptions)) -> Result<Settings, SettingsError> {
        let mut options = E2bOptions::default();
        change(&mut options);
        Settings::parse(url, options)
    }

    #[test]
    fn settings_that_cannot_be_used_are_refused_with_their_value() {
        let refused = settings("ftp://user:secret@host", |_| {})
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("e2b:https://") && !refused.contains("secret"),
            "{refused}"
        );
        assert!(settings("https://h", |options| options.workspace = "work".to_owned()).is_err());
        assert!(settings("https://h", |options| options.timeout_seconds = 14).is_err());
        assert!(settings("https://h", |options| options.sandbox_url = Some("h".to_owned())).is_err());
    }

    #[test]
    fn a_sandbox_is_reached_below_a_domain_or_at_one_address() {
        let at = |settings: Result<Settings, SettingsError>, told: Option<&str>| {
            settings.unwrap().address("s1", 49_983, told).unwrap().to_string()
        };
        let plain = || settings("https://api.e2b.app", |_| {});
        assert_eq!(at(plain(), None), "https://49983-s1.e2b.app/");
        assert_eq!(at(plain(), Some("e2b.dev")), "https://49983-s1.e2b.dev/");
        let own = settings("https://api.e2b.app", |options| {
            options.domain = Some("x.org".to_owned())
        });
        assert_eq!(at(own, Some("e2b.dev")), "https://49983-s1.x.org/");
        assert_eq!(
            at(settings("http://127.0.0.1:3000", |_| {}), None),
            "http://127.0.0.1:3000/"
        );
        let one = settings("https://api.e2b.app", |options| {
            options.sandbox_url = Some("https://sandbox.e2b.app".to_owned());
        });
        assert_eq!(at(one, None), "https://sandbox.e2b.app/");
    }
}
