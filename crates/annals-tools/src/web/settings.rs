//! What the environment says about the web: which providers to search with, which places are opened.

use std::sync::Arc;

use url::Url;

use super::egress::{EgressPolicy, Opened, OpenedError};
use super::search::{Brave, SearchProvider, Searxng};

/// The address of a SearXNG instance.
pub const SEARXNG_URL: &str = "ANNALS_SEARXNG_URL";
/// The key of the Brave Search API.
pub const BRAVE_KEY: &str = "ANNALS_BRAVE_KEY";
/// `host:port,…` that may be fetched although they are private.
pub const WEB_ALLOW: &str = "ANNALS_WEB_ALLOW";

/// Everything the web tools need.
#[derive(Clone)]
pub struct WebSettings {
    /// Asked in order until one answers.
    pub providers: Vec<Arc<dyn SearchProvider>>,
    /// What may be fetched.
    pub egress: EgressPolicy,
}

/// A setting that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebSettingsError {
    /// The allow-list.
    #[error("{WEB_ALLOW}: {0}")]
    Allow(#[from] OpenedError),
    /// The provider's address.
    #[error("{SEARXNG_URL}: `{given}` is not an http address: write for example http://localhost:8888")]
    Searxng {
        /// What was given.
        given: String,
    },
    /// The HTTP client could not be made.
    #[error("no HTTP client can be made here: {0}")]
    Client(#[from] reqwest::Error),
}

impl WebSettings {
    /// Reads the settings from wherever `variable` looks them up.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, WebSettingsError> {
        let given = |name: &str| {
            variable(name)
                .map(|value| value.trim().to_owned())
                .filter(|value| !value.is_empty())
        };
        let mut providers: Vec<Arc<dyn SearchProvider>> = Vec::new();
        if let Some(address) = given(SEARXNG_URL) {
            let base = Url::parse(&address)
                .ok()
                .filter(|url| matches!(url.scheme(), "http" | "https"));
            let base = base.ok_or(WebSettingsError::Searxng { given: address })?;
            providers.push(Arc::new(Searxng::new(&base)?));
        }
        if let Some(key) = given(BRAVE_KEY) {
            providers.push(Arc::new(Brave::new(key)?));
        }
        let opened = Opened::parse_list(&given(WEB_ALLOW).unwrap_or_default())?;
        Ok(WebSettings {
            providers,
            egress: EgressPolicy::new(opened)?,
        })
    }

    /// Reads the settings of this process.
    pub fn from_env() -> Result<Self, WebSettingsError> {
        Self::read(|name| std::env::var(name).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Vec<&'static str>, String> {
        let variable = |name: &str| {
            pairs
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| value.to_string())
        };
        match WebSettings::read(variable) {
            Ok(settings) => Ok(settings
                .providers
                .iter()
                .map(|provider| provider.name())
                .collect()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn providers_are_those_that_are_configured_and_mistakes_are_named() {
        assert_eq!(read(&[]), Ok(vec![]));
        assert_eq!(read(&[(SEARXNG_URL, " ")]), Ok(vec![]));
        assert_eq!(
            read(&[(SEARXNG_URL, "http://localhost:8888"), (BRAVE_KEY, "k")]),
            Ok(vec!["searxng", "brave"])
        );
        assert!(
            read(&[(SEARXNG_URL, "localhost:8888")])
                .unwrap_err()
                .contains("localhost:8888")
        );
        assert!(
            read(&[(WEB_ALLOW, "localhost")])
                .unwrap_err()
                .contains("host:port")
        );
    }
}
