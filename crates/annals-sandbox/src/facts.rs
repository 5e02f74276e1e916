//! What this machine offers to isolation, for people who ask why a sandbox does not open.

use std::io;

use serde::{Deserialize, Serialize};

use crate::interpreters::{self, Interpreter};
use crate::process::{cgroup, client};
use crate::spec::Layer;

/// Whether one layer can be built here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerFact {
    /// The layer.
    pub layer: Layer,
    /// Why it cannot be built, if it cannot.
    pub missing: Option<String>,
}

/// All facts about isolation on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// One for each layer, outermost first.
    pub layers: Vec<LayerFact>,
    /// Version of cgroups in use, 1 or 2, if any.
    pub cgroup_version: Option<u8>,
    /// Whether this process is root; then sandboxes run as nobody.
    pub is_root: bool,
    /// Interpreters found.
    pub interpreters: Vec<Interpreter>,
}

impl Facts {
    /// Looks at the machine. Blocking, some tens of milliseconds: interpreters are started to be asked.
    pub fn gather() -> io::Result<Self> {
        Ok(Self {
            layers: client::probe()?,
            cgroup_version: cgroup::hierarchy().ok().map(cgroup::Hierarchy::version),
            is_root: rustix::process::geteuid().is_root(),
            interpreters: interpreters::all().cloned().collect(),
        })
    }

    /// Required layers that are missing: with any of them the default sandbox is refused.
    pub fn missing_required(&self) -> impl Iterator<Item = &LayerFact> {
        self.layers
            .iter()
            .filter(|fact| fact.layer.is_required() && fact.missing.is_some())
    }
}
