//! Where side effects happen: a backend of this machine by its name, or a server of sandboxes by its address.

use std::sync::Arc;

use annals::opensandbox::{RemoteBackend, ServerAddress, Timing};
use annals::sandbox::{Backend, Registry};
use annals::{e2b, opensandbox};

use crate::config::Config;
use crate::failure::Failure;

/// The sandbox backend that is configured.
pub(crate) fn backend(config: &Config, store: Option<&str>) -> Result<Arc<dyn Backend>, Failure> {
    match SandboxServer::configured(config, store, Timing::default())? {
        Some(server) => Ok(Arc::new(server.backend)),
        None => named(&config.sandbox.value),
    }
}

/// Where the workspace is inside the sandboxes of a server; none where they are on this machine.
pub(crate) fn remote_workspace(config: &Config) -> Option<&str> {
    match config.sandbox.value.split_once(':')?.0 {
        "opensandbox" => Some(&config.sandbox_options.opensandbox.workspace),
        "e2b" => Some(&config.sandbox_options.e2b.workspace),
        _ => None,
    }
}

fn named(name: &str) -> Result<Arc<dyn Backend>, Failure> {
    match name {
        "opensandbox" => Err(Failure::usage(
            "`opensandbox` needs the address of a server: `--sandbox opensandbox:http://host:8080`",
        )),
        "e2b" => Err(Failure::usage(
            "`e2b` needs the address of a server: `--sandbox e2b:https://api.e2b.app`",
        )),
        name => Registry::default().get(name).map_err(Failure::usage),
    }
}

/// A server of sandboxes.
pub(crate) struct SandboxServer {
    pub(crate) backend: RemoteBackend,
    /// What its sandboxes are made from.
    pub(crate) origin: String,
}

impl SandboxServer {
    /// The server of `opensandbox:URL` or `e2b:URL`, if one is configured. `store` names the store that machines share,
    /// whichever way each of them reaches it.
    pub(crate) fn configured(
        config: &Config,
        store: Option<&str>,
        timing: Timing,
    ) -> Result<Option<Self>, Failure> {
        let Some((kind, url)) = config.sandbox.value.split_once(':') else {
            return Ok(None);
        };
        // Nodes that share a store share conversations, and so sandboxes; others must not meet on a server.
        let namespace = || match store {
            Some(store) => store.to_owned(),
            None => format!("{} {}", machine(), config.store.value),
        };
        let address = |variable| ServerAddress::new(url, key(variable)).timing(timing);
        let (backend, origin) = match kind {
            "opensandbox" => {
                let mut options = config.sandbox_options.opensandbox.clone();
                options.namespace.get_or_insert_with(namespace);
                let origin = format!("image `{}`", options.image);
                (
                    opensandbox::backend(address("OPEN_SANDBOX_API_KEY"), options),
                    origin,
                )
            }
            "e2b" => {
                let mut options = config.sandbox_options.e2b.clone();
                options.namespace.get_or_insert_with(namespace);
                let origin = format!("template `{}`", options.template);
                (e2b::backend(address("E2B_API_KEY"), options), origin)
            }
            _ => return Ok(None),
        };
        let backend = backend.map_err(Failure::usage)?;
        Ok(Some(Self { backend, origin }))
    }
}

fn key(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|key| !key.is_empty())
}

/// A text that another machine does not have.
fn machine() -> String {
    let read = |path: &str| {
        std::fs::read_to_string(path)
            .ok()
            .filter(|text| !text.trim().is_empty())
    };
    read("/etc/machine-id")
        .or_else(|| read("/etc/hostname"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_an_address_and_a_name_of_nothing_are_usage_errors() {
        for name in ["opensandbox", "e2b", "docker"] {
            let failure = named(name).err().unwrap();
            assert_eq!(failure.exit_code(), 2);
            let message = failure.message();
            assert!(message.contains(name), "{message}");
        }
    }
}
