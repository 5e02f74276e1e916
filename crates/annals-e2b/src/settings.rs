//! What sandboxes of a server are made of.

use std::collections::BTreeMap;

use annals_remote::{FleetOptions, SettingsError, server_url};
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

/// What the sandboxes of a server are made of, checked.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) options: E2bOptions,
    pub(crate) fleet: FleetOptions,
    sandbox_url: Option<Url>,
}

impl Settings {
    pub(crate) fn parse(server: &Url, options: E2bOptions) -> Result<Self, SettingsError> {
        let fleet = FleetOptions::parse(&options.workspace, options.timeout_seconds, TTL_MIN_SECONDS)?;
        let sandbox_url = match &options.sandbox_url {
            Some(text) => Some(server_url(text).map_err(SettingsError::SandboxUrl)?),
            // A server without a domain of its own serves its sandboxes, too.
            None if !matches!(server.host(), Some(Host::Domain(name)) if name != "localhost") => {
                Some(server.clone())
            }
            None => None,
        };
        Ok(Self {
            fleet: fleet.namespace(options.namespace.clone()),
            options,
            sandbox_url,
        })
    }

    /// Where a port of a sandbox of this server is reached; `domain` is what the server said.
    pub(crate) fn address(&self, server: &Url, id: &str, port: u16, domain: Option<&str>) -> Option<Url> {
        if let Some(url) = &self.sandbox_url {
            return Some(url.clone());
        }
        let host = server.host_str()?;
        let own = host.strip_prefix("api.").unwrap_or(host);
        let domain = self.options.domain.as_deref().or(domain).unwrap_or(own);
        Url::parse(&format!("{}://{port}-{id}.{domain}", server.scheme())).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(
        url: &str,
        told: Option<&str>,
        change: impl FnOnce(&mut E2bOptions),
    ) -> Result<String, SettingsError> {
        let (server, mut options) = (Url::parse(url).unwrap(), E2bOptions::default());
        change(&mut options);
        let settings = Settings::parse(&server, options)?;
        Ok(settings.address(&server, "s1", 49_983, told).unwrap().to_string())
    }

    #[test]
    fn settings_that_cannot_be_used_are_refused_with_their_value() {
        let refused =
            |change: fn(&mut E2bOptions)| address("https://h", None, change).unwrap_err().to_string();
        assert!(refused(|options| options.timeout_seconds = 14).contains("14"));
        let told = refused(|options| options.sandbox_url = Some("ftp://user:secret@h".to_owned()));
        assert!(told.contains("sandbox_url") && !told.contains("secret"), "{told}");
    }

    #[test]
    fn a_sandbox_is_reached_below_a_domain_or_at_one_address() {
        let at = |url, told, change: fn(&mut E2bOptions)| address(url, told, change).unwrap();
        let vendor = "https://api.e2b.app";
        assert_eq!(at(vendor, None, |_| {}), "https://49983-s1.e2b.app/");
        assert_eq!(at(vendor, Some("e2b.dev"), |_| {}), "https://49983-s1.e2b.dev/");
        let own = |options: &mut E2bOptions| options.domain = Some("x.org".to_owned());
        assert_eq!(at(vendor, Some("e2b.dev"), own), "https://49983-s1.x.org/");
        assert_eq!(
            at("http://127.0.0.1:3000", None, |_| {}),
            "http://127.0.0.1:3000/"
        );
        let one = |options: &mut E2bOptions| options.sandbox_url = Some("https://sandbox.e2b.app".to_owned());
        assert_eq!(at(vendor, None, one), "https://sandbox.e2b.app/");
    }
}
