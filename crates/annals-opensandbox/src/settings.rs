//! What sandboxes of a server are made of.

use std::collections::BTreeMap;
use std::time::Duration;

use annals_core::redact::SafeUrl;
use annals_remote::{http, workspace_path};
use serde::Deserialize;
use url::Url;

use crate::lifecycle::Route;
use crate::wire::NetworkPolicy;

/// Shortest life that the server accepts.
const TTL_MIN_SECONDS: u64 = 60;

/// The table `[sandbox.opensandbox]` of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OpenSandboxOptions {
    /// Image of the container.
    pub image: String,
    /// What the container runs so that it stays.
    pub entrypoint: Vec<String>,
    /// Resource limits, in Kubernetes' notation.
    pub resources: BTreeMap<String, String>,
    /// Seconds that a sandbox lives without being renewed; it is renewed while in use.
    pub timeout_seconds: u64,
    /// Environment of the container.
    pub env: BTreeMap<String, String>,
    /// What programs may reach; the server's default if absent.
    pub network: Option<NetworkPolicy>,
    /// Volumes, as the server takes them.
    pub volumes: Vec<serde_json::Value>,
    /// Where the workspace is inside.
    pub workspace: String,
    /// Whether sandboxes are reached through the server.
    pub server_proxy: bool,
    /// Tells installations on one server apart; from the store's address if absent.
    pub namespace: Option<String>,
}

impl Default for OpenSandboxOptions {
    fn default() -> Self {
        let resources = [("cpu", "1"), ("memory", "2Gi")];
        Self {
            image: "opensandbox/code-interpreter:latest".to_owned(),
            entrypoint: ["tail", "-f", "/dev/null"].map(str::to_owned).to_vec(),
            resources: resources
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            timeout_seconds: 300,
            env: BTreeMap::new(),
            network: None,
            volumes: Vec::new(),
            workspace: "/workspace".to_owned(),
            server_proxy: false,
            namespace: None,
        }
    }
}

/// A server and what its sandboxes are made of, checked.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) url: Url,
    pub(crate) options: OpenSandboxOptions,
    pub(crate) namespace: String,
    pub(crate) route: Route,
    pub(crate) ttl: Duration,
}

/// Settings that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The server's address.
    #[error("`{0}` is no address of an OpenSandbox server; write `opensandbox:http://host:8080`")]
    Url(String),
    /// The workspace.
    #[error("`workspace = \"{0}\"` is no absolute path below `/`")]
    Workspace(String),
    /// The time to live.
    #[error("`timeout_seconds = {0}` is too short; the server takes no less than {TTL_MIN_SECONDS}")]
    Timeout(u64),
    /// The key.
    #[error("the key in `OPEN_SANDBOX_API_KEY` has characters that no header can carry")]
    Key,
    /// HTTP itself.
    #[error("no HTTP client can be made: {0}")]
    Client(String),
}

impl Settings {
    pub(crate) fn parse(url: &str, options: OpenSandboxOptions) -> Result<Self, SettingsError> {
        let Some(url) = http::server(url) else {
            return Err(SettingsError::Url(SafeUrl(url).to_string()));
        };
        let Some(workspace) = workspace_path(&options.workspace).map(str::to_owned) else {
            return Err(SettingsError::Workspace(options.workspace));
        };
        if options.timeout_seconds < TTL_MIN_SECONDS {
            return Err(SettingsError::Timeout(options.timeout_seconds));
        }
        let route = match options.server_proxy {
            true => Route::ServerProxy,
            false => Route::Direct,
        };
        Ok(Self {
            url,
            namespace: options.namespace.clone().unwrap_or_default(),
            route,
            ttl: Duration::from_secs(options.timeout_seconds),
            options: OpenSandboxOptions { workspace, ..options },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_no_server_takes_are_refused_with_their_value() {
        let parse = |url: &str, change: fn(&mut OpenSandboxOptions)| {
            let mut options = OpenSandboxOptions::default();
            change(&mut options);
            Settings::parse(url, options)
                .map(drop)
                .map_err(|error| error.to_string())
        };
        assert_eq!(parse("http://127.0.0.1:8080", |_| {}), Ok(()));
        let refused = parse("ftp://user:secret@host", |_| {}).unwrap_err();
        assert!(
            refused.contains("opensandbox:http://") && !refused.contains("secret"),
            "{refused}"
        );
        for workspace in ["", "/", "work", "/a/../b"] {
            let workspace = workspace.to_owned();
            let options = OpenSandboxOptions {
                workspace: workspace.clone(),
                ..OpenSandboxOptions::default()
            };
            assert!(Settings::parse("http://h", options).is_err(), "{workspace}");
        }
        assert!(
            parse("http://h", |options| options.timeout_seconds = 59)
                .unwrap_err()
                .contains("59")
        );
    }

    #[test]
    fn a_table_of_the_configuration_is_read_and_a_word_that_nobody_reads_is_refused() {
        let read: OpenSandboxOptions = serde_json::from_str(
            r#"{"image":"python:3.12","resources":{"cpu":"500m","memory":"512Mi"},
                "network":{"default":"deny","egress":[{"action":"allow","target":"api.example.org"}]},
                "volumes":[{"name":"data","mountPath":"/data","host":{"path":"/srv"}}]}"#,
        )
        .unwrap();
        assert_eq!(read.workspace, "/workspace");
        assert_eq!(read.network.unwrap().egress[0].target, "api.example.org");
        assert!(serde_json::from_str::<OpenSandboxOptions>(r#"{"images":"x"}"#).is_err());
    }
}
