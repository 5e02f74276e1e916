//! Where side effects happen: a backend of this machine by its name, or a server of sandboxes by its address.

use std::sync::Arc;
use std::time::Duration;

use annals::e2b::E2b;
use annals::opensandbox::{ApiError, OpenSandbox, ServerFacts};
use annals::sandbox::{Backend, Capabilities, OpenError, Registry};

use crate::config::Config;
use crate::failure::Failure;

/// The sandbox backend that is configured.
pub(crate) fn backend(config: &Config) -> Result<Arc<dyn Backend>, Failure> {
    match SandboxServer::configured(config)? {
        Some(SandboxServer::OpenSandbox(server)) => Ok(Arc::new(server)),
        Some(SandboxServer::E2b(server)) => Ok(Arc::new(server)),
        None => named(&config.sandbox.value),
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
pub(crate) enum SandboxServer {
    OpenSandbox(OpenSandbox),
    E2b(E2b),
}

impl SandboxServer {
    /// The server of `opensandbox:URL` or `e2b:URL`, if one is configured.
    pub(crate) fn configured(config: &Config) -> Result<Option<Self>, Failure> {
        let Some((kind, url)) = config.sandbox.value.split_once(':') else {
            return Ok(None);
        };
        // Nodes that share a store share conversations, and so sandboxes; others must not meet on a server.
        let namespace = || match config.store.value.starts_with("postgres") {
            true => config.store.value.clone(),
            false => format!("{} {}", machine(), config.store.value),
        };
        let server = match kind {
            "opensandbox" => {
                let mut options = config.opensandbox.clone();
                options.namespace.get_or_insert_with(namespace);
                OpenSandbox::new(url, key("OPEN_SANDBOX_API_KEY"), options)
                    .map(Self::OpenSandbox)
                    .map_err(Failure::usage)?
            }
            "e2b" => {
                let mut options = config.e2b.clone();
                options.namespace.get_or_insert_with(namespace);
                E2b::new(url, key("E2B_API_KEY"), options)
                    .map(Self::E2b)
                    .map_err(Failure::usage)?
            }
            _ => return Ok(None),
        };
        Ok(Some(server))
    }

    /// The variable that the server's key is in.
    pub(crate) fn key_variable(&self) -> &'static str {
        match self {
            Self::OpenSandbox(_) => "OPEN_SANDBOX_API_KEY",
            Self::E2b(_) => "E2B_API_KEY",
        }
    }

    /// What its sandboxes are made from.
    pub(crate) fn origin(&self, config: &Config) -> String {
        match self {
            Self::OpenSandbox(_) => format!("image `{}`", config.opensandbox.image),
            Self::E2b(_) => format!("template `{}`", config.e2b.template),
        }
    }

    /// What the server says of itself.
    pub(crate) async fn facts(&self, budget: Duration) -> Result<ServerFacts, ApiError> {
        match self {
            Self::OpenSandbox(server) => server.facts(budget).await,
            Self::E2b(server) => server.facts(budget).await,
        }
    }

    /// What a sandbox of it can do.
    pub(crate) async fn trial(&self) -> Result<Capabilities, OpenError> {
        match self {
            Self::OpenSandbox(server) => server.trial().await,
            Self::E2b(server) => server.trial().await,
        }
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
            assert_eq!(failure.code(), 2);
            let message = failure.message();
            assert!(message.contains(name), "{message}");
        }
    }
}
