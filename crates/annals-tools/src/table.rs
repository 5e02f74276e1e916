//! The tools of one agent, fixed when it is built.
//!
//! Keeps which names exist, and offers them in one order and one form, so that the same tools always give the
//! same bytes. It must not run anything.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use annals_core::view::ToolSchema;

use crate::name::ToolName;
use crate::spec::{Listing, SpecError, ToolSpec};
use crate::tool::Tool;

/// A name that a model sent is compared up to this length.
const LOOKED_AT_MAX_CHARS: usize = 256;
/// A name within this edit distance is taken for a misspelling.
const EDITS_MAX: usize = 2;

/// Why tools cannot be offered together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolTableError {
    /// Two tools want the same name.
    #[error("two tools are called `{name}` (`{wire}` on the wire): rename one of them")]
    NameConflict {
        /// The name that came second.
        name: String,
        /// The name both have on the wire.
        wire: String,
    },
    /// What a tool declares is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
}

/// Tools by name. Cheap to clone.
#[derive(Clone)]
pub struct ToolTable {
    tools: Arc<BTreeMap<ToolName, Arc<dyn Tool>>>,
    by_wire: Arc<BTreeMap<String, ToolName>>,
    schemas: Arc<[ToolSchema]>,
}

/// Tools that are shared.
pub type SharedTools = Arc<[Arc<dyn Tool>]>;

/// Where tools come from that may change while an agent lives. It is asked whenever a turn is taken up, so it must be quick.
pub trait ToolSource: Send + Sync {
    /// The tools as they are now: the very same list for as long as nothing has changed.
    fn tools(&self) -> SharedTools;
}

/// A table in the making.
#[derive(Default)]
pub struct ToolTableBuilder {
    tools: Vec<Arc<dyn Tool>>,
}

impl ToolTableBuilder {
    /// Adds a tool.
    #[must_use]
    #[allow(clippy::should_implement_trait)] // a builder's `add`, not a sum
    pub fn add(self, tool: impl Tool + 'static) -> Self {
        self.add_shared(Arc::new(tool))
    }

    /// Adds a tool that is already shared.
    #[must_use]
    pub fn add_shared(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds several tools.
    #[must_use]
    pub fn add_all(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// The table, unless two tools want the same name or the same wire name, or one has a wrong declaration.
    pub fn build(self) -> Result<ToolTable, ToolTableError> {
        let mut tools = BTreeMap::new();
        let mut by_wire = BTreeMap::new();
        for tool in self.tools {
            if let Some(defect) = tool.spec().defect() {
                return Err(defect.clone().into());
            }
            let name = tool.spec().name().clone();
            let wire = name.wire();
            if by_wire.insert(wire.clone(), name.clone()).is_some() {
                return Err(ToolTableError::NameConflict {
                    name: name.to_string(),
                    wire,
                });
            }
            tools.insert(name, tool);
        }
        Ok(ToolTable::of(tools, by_wire))
    }
}

impl ToolTable {
    /// Starts a table.
    pub fn builder() -> ToolTableBuilder {
        ToolTableBuilder::default()
    }

    fn of(tools: BTreeMap<ToolName, Arc<dyn Tool>>, by_wire: BTreeMap<String, ToolName>) -> Self {
        let listed = tools
            .values()
            .map(|tool| tool.spec())
            .filter(|spec| *spec.listing() == Listing::Listed);
        let schemas = listed.map(ToolSpec::schema).collect();
        ToolTable {
            tools: Arc::new(tools),
            by_wire: Arc::new(by_wire),
            schemas,
        }
    }

    /// The tool with this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name)
    }

    /// The tool with this wire name. Models that saw a dotted name in a text may send that: it is found too.
    pub fn get_wire(&self, wire: &str) -> Option<&Arc<dyn Tool>> {
        self.by_wire
            .get(wire)
            .and_then(|name| self.tools.get(name))
            .or_else(|| self.get(wire))
    }

    /// What the model is offered: every listed tool, sorted by name.
    pub fn schemas(&self) -> Arc<[ToolSchema]> {
        self.schemas.clone()
    }

    /// Every tool, sorted by name, other names of the same tool included.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.values()
    }

    /// The table with more tools, unless one of them wants a name that is taken.
    pub fn with(&self, more: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<ToolTable, ToolTableError> {
        Self::builder()
            .add_all(self.iter().cloned())
            .add_all(more)
            .build()
    }

    /// Every tool that a call can end at: those of [`iter`](Self::iter), and those that they pass calls on to.
    pub fn reachable(&self) -> impl Iterator<Item = Arc<dyn Tool>> {
        let behind = self.tools.values().flat_map(|tool| tool.behind());
        self.tools.values().cloned().chain(behind)
    }

    /// The table of those tools that `allow` lets through. A call to any other is a call to an unknown tool.
    #[must_use]
    pub fn allowed(&self, allow: impl Fn(&ToolSpec) -> bool) -> ToolTable {
        let tools: BTreeMap<_, _> = self
            .tools
            .iter()
            .filter(|(_, tool)| allow(tool.spec()))
            .map(|(name, tool)| (name.clone(), tool.clone()))
            .collect();
        let by_wire = tools.keys().map(|name| (name.wire(), name.clone())).collect();
        ToolTable::of(tools, by_wire)
    }

    /// The known name nearest to this one, if one is near enough to have been meant.
    pub fn nearest(&self, name: &str) -> Option<&ToolName> {
        let tail = |name: &str| name.rsplit(['.', ':']).next().unwrap_or_default().to_owned();
        // No name is longer, and the edit distance takes the product of the lengths.
        let given: String = name.chars().take(LOOKED_AT_MAX_CHARS).collect();
        let given = given.replace("__", ".");
        let near = |known: &&ToolName| {
            tail(known.as_str()) == tail(&given) || strsim::levenshtein(known.as_str(), &given) <= EDITS_MAX
        };
        self.tools.keys().find(near)
    }
}

impl fmt::Debug for ToolTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.tools.keys().map(ToolName::as_str))
            .finish()
    }
}
