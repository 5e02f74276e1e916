//! Backends by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::local::Local;
use crate::sandbox::Backend;
use crate::trusted_host::TrustedHost;

/// Knows backends by name; `local` and `trusted-host` from the start.
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
        self.backends.get(name).cloned().ok_or_else(|| UnknownBackend {
            name: name.to_owned(),
            known: self.names().collect::<Vec<_>>().join(", "),
        })
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.backends.keys().map(String::as_str)
    }
}

impl Default for Registry {
    fn default() -> Self {
        let mut registry = Self::empty();
        registry.register(Arc::new(Local::new()));
        registry.register(Arc::new(TrustedHost::new()));
        registry
    }
}

/// No backend of this name is registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no sandbox backend `{name}`; known are: {known}")]
pub struct UnknownBackend {
    /// The name asked for.
    pub name: String,
    /// The names there are.
    pub known: String,
}

#[cfg(test)]
mod tests {
    use super::*;

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
