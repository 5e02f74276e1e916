//! What of a server's tools a person has accepted: their definitions, kept in a file of the home.
//!
//! The model is offered pinned definitions only. What a server says later is compared with them: a tool that changed is
//! blocked until it is accepted again, one that is gone says so, and new ones wait. So neither the meaning of a tool nor
//! the bytes of a prompt change behind a person's back.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::definition::{Definition, Digest};
use crate::private_file;
use crate::text;

/// Names of tools in a sentence.
const NAMES_SHOWN_MAX: usize = 5;
const NAME_SHOWN_MAX_CHARS: usize = 64;

/// The accepted definitions of one server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Pins {
    /// The server's name and version as it gave them, for people.
    #[serde(default)]
    pub implementation: String,
    /// Whether it had resources, so that what its results link to can be read.
    #[serde(default)]
    pub has_resources: bool,
    /// The accepted tools, sorted by name.
    pub tools: Vec<Definition>,
}

/// How what a server offers differs from what was accepted, each by the server's own names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    /// Offered, not accepted.
    pub added: Vec<String>,
    /// Offered with another definition than the accepted one.
    pub changed: Vec<String>,
    /// Accepted, not offered.
    pub removed: Vec<String>,
}

impl Difference {
    /// How what is offered differs from what was accepted.
    pub fn between(accepted: &BTreeMap<String, Digest>, offered: &BTreeMap<String, Digest>) -> Self {
        let mut difference = Difference::default();
        for (name, digest) in offered {
            match accepted.get(name) {
                None => difference.added.push(name.clone()),
                Some(accepted) if accepted != digest => difference.changed.push(name.clone()),
                Some(_) => {}
            }
        }
        let gone = accepted.keys().filter(|name| !offered.contains_key(*name));
        difference.removed = gone.cloned().collect();
        difference
    }

    /// `2 new (a, b), 1 changed (c)`; the names are a stranger's.
    pub fn summary(&self) -> String {
        let part = |names: &[String], what: &str| {
            let shown = names.iter().take(NAMES_SHOWN_MAX);
            let mut shown: Vec<String> = shown
                .map(|name| text::one_line(name, NAME_SHOWN_MAX_CHARS))
                .collect();
            shown.extend((names.len() > NAMES_SHOWN_MAX).then(|| "…".to_owned()));
            (!names.is_empty()).then(|| format!("{} {what} ({})", names.len(), shown.join(", ")))
        };
        let parts = [
            part(&self.added, "new"),
            part(&self.changed, "changed"),
            part(&self.removed, "gone"),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

impl Pins {
    /// Pins of these tools. Of tools with one name the first counts.
    pub fn new(implementation: String, tools: impl IntoIterator<Item = Definition>) -> Self {
        let mut by_name = BTreeMap::new();
        for tool in tools {
            by_name.entry(tool.name.clone()).or_insert(tool);
        }
        Pins {
            implementation,
            has_resources: false,
            tools: by_name.into_values().collect(),
        }
    }

    /// Of a server that has resources, or has none.
    #[must_use]
    pub fn resources(mut self, has_resources: bool) -> Self {
        self.has_resources = has_resources;
        self
    }

    /// The digest of each tool, by name.
    pub fn digests(&self) -> BTreeMap<String, Digest> {
        let tools = self.tools.iter();
        tools.map(|tool| (tool.name.clone(), tool.digest())).collect()
    }

    /// How what is offered differs.
    pub fn compare(&self, offered: &BTreeMap<String, Digest>) -> Difference {
        Difference::between(&self.digests(), offered)
    }
}

/// The folder of all pins.
#[derive(Debug, Clone)]
pub struct PinFolder(PathBuf);

impl PinFolder {
    /// Below this home.
    pub fn of_home(home: &Path) -> Self {
        PinFolder(home.join("mcp").join("pins"))
    }

    fn file(&self, namespace: &str) -> PathBuf {
        self.0.join(format!("{namespace}.json"))
    }

    /// The pins of a server; none if nothing of it was accepted yet.
    pub fn read(&self, namespace: &str) -> io::Result<Option<Pins>> {
        let bytes = private_file::read(&self.file(namespace))?;
        let pins = bytes.map(|bytes| serde_json::from_slice(&bytes)).transpose();
        pins.map_err(io::Error::other)
    }

    /// What tells these pins from others of the same server; the same for all that cannot be read.
    pub(crate) fn stamp(&self, namespace: &str) -> [u8; 32] {
        let bytes = private_file::read(&self.file(namespace)).ok().flatten();
        Sha256::digest(bytes.unwrap_or_default()).into()
    }

    /// Replaces the pins of a server, whole or not at all.
    pub fn write(&self, namespace: &str, pins: &Pins) -> io::Result<()> {
        private_file::write_json(&self.file(namespace), pins)
    }

    /// Forgets the pins of a server.
    pub fn remove(&self, namespace: &str) -> io::Result<()> {
        private_file::remove(&self.file(namespace)).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, description: &str) -> Definition {
        serde_json::from_value(json!({"name": name, "description": description, "inputSchema": {}})).unwrap()
    }

    #[test]
    fn pins_survive_a_file_and_say_what_differs() {
        let home = tempfile::tempdir().unwrap();
        let folder = PinFolder::of_home(home.path());
        assert_eq!(folder.read("a").unwrap(), None);
        let pins = Pins::new("x 1".to_owned(), [tool("b", "1"), tool("a", "1"), tool("b", "2")]);
        folder.write("a", &pins).unwrap();
        assert_eq!(folder.read("a").unwrap().as_ref(), Some(&pins));
        let offered = [tool("b", "other"), tool("c", "new")]
            .map(|tool| (tool.name.clone(), tool.digest()))
            .into();
        let difference = pins.compare(&offered);
        assert_eq!(
            (difference.added, difference.changed, difference.removed),
            (vec!["c".to_owned()], vec!["b".to_owned()], vec!["a".to_owned()])
        );
        folder.remove("a").unwrap();
        assert_eq!(folder.read("a").unwrap(), None);
    }
}
