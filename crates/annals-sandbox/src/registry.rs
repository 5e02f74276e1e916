//! Backends by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::sandbox::Backend;

/// Knows backends by name; from the start those that were built in (`local` and `trusted-host` by the feature `local`).
#[derive(Clone)]
pub struct Registry {
    backends: BTreeMap<String, Arc<dyn Backend>>,
}

impl Registry {
    /// A registry of nothing.
    pub fn empty() -> Self {
        Self {
            backends: BTreeMap::new(),
        }
    }

    /// Adds a backend under its own name; the one it replaces, if any, comes back.
    pub fn register(&mut self, backend: Arc<dyn Backend>) -> Option<Arc<dyn Backend>> {
        self.backends.insert(backend.name().to_owned(), backend)
    }

    /// The backend of this name.
    pub fn get(&self, name: &str) -> Result<Arc<dyn Backend>, UnknownBackend> {
        self.backends.get(name).cloned().ok_or_else(|| {
            let name = name.to_owned();
            match not_built_in(&name) {
                Some(feature) => UnknownBackend::NotBuiltIn { name, feature },
                None => UnknownBackend::Unknown {
                    name,
                    known: self.names().collect::<Vec<_>>().join(", "),
                },
            }
        })
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.backends.keys().map(String::as_str)
    }
}

impl Default for Registry {
    fn default() -> Self {
        #[allow(unused_mut, reason = "a build may have no backend at all")]
        let mut registry = Self::empty();
        #[cfg(feature = "local")]
        {
            registry.register(Arc::new(crate::local::Local::new()));
            registry.register(Arc::new(crate::trusted_host::TrustedHost::new()));
        }
        registry
    }
}

/// The cargo feature of the façade that brings a backend which this build lacks.
fn not_built_in(name: &str) -> Option<&'static str> {
    match name {
        "local" | "trusted-host" if cfg!(not(feature = "local")) => Some("local-sandbox"),
        _ => None,
    }
}

/// No backend of this name is registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownBackend {
    /// There is none of this name.
    #[error("no sandbox backend `{name}`; known are: {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// There is one, but not in this build.
    #[error(
        "the sandbox backend `{name}` is not part of this build: build `annals` with the feature `{feature}`"
    )]
    NotBuiltIn {
        /// The name asked for.
        name: String,
        /// What to build with.
        feature: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(not(feature = "local"))]
    #[test]
    fn a_backend_that_was_not_built_in_names_its_feature() {
        let refused = Registry::default().get("local").err().unwrap();
        assert_eq!(
            refused.to_string(),
            "the sandbox backend `local` is not part of this build: build `annals` with the feature `local-sandbox`"
        );
    }

    #[cfg(feature = "local")]
    #[test]
    fn the_built_in_backends_are_known_by_name_and_others_are_refused_with_the_list() {
        let registry = Registry::default();
        assert_eq!(registry.names().collect::<Vec<_>>(), ["local", "trusted-host"]);
        let refused = registry.get("docker").err().unwrap();
        assert_eq!(
            refused.to_string(),
            "no sandbox backend `docker`; known are: local, trusted-host"
        );
    }
}
