//! What sandboxes of a server are made of.

use std::collections::BTreeMap;

use annals_remote::{FleetOptions, SettingsError};
use serde::Deserialize;

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
    /// Resource limits, in Kubernetes' notation; memory is that of the sandbox's limits unless it is named here.
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
        Self {
            image: "opensandbox/code-interpreter:latest".to_owned(),
            entrypoint: ["tail", "-f", "/dev/null"].map(str::to_owned).to_vec(),
            resources: [("cpu".to_owned(), "1".to_owned())].into(),
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

/// What the sandboxes of a server are made of, checked.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) options: OpenSandboxOptions,
    pub(crate) fleet: FleetOptions,
    pub(crate) route: Route,
}

impl Settings {
    pub(crate) fn parse(options: OpenSandboxOptions) -> Result<Self, SettingsError> {
        let fleet = FleetOptions::parse(&options.workspace, options.timeout_seconds, TTL_MIN_SECONDS)?;
        let route = match options.server_proxy {
            true => Route::ServerProxy,
            false => Route::Direct,
        };
        Ok(Self {
            fleet: fleet.namespace(options.namespace.clone()),
            route,
            options,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_that_no_server_takes_is_refused_with_its_value() {
        let short = OpenSandboxOptions {
            timeout_seconds: 59,
            ..OpenSandboxOptions::default()
        };
        let refused = Settings::parse(short).unwrap_err().to_string();
        assert!(refused.contains("59"), "{refused}");
        assert!(Settings::parse(OpenSandboxOptions::default()).is_ok());
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
