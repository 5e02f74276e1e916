//! The text of a `tools.table` block: what the model is offered from here on.

use serde::{Deserialize, Serialize};

use crate::block::{BlobDigest, BlockKind, NewBlock};
use crate::ids::TurnId;
use crate::path::LogicalPath;

/// What is on offer. The bytes of the two digests are in the artifact store, so that a prompt can be made again when the
/// program that sent it has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolsTable {
    /// The tools, sorted by name.
    pub tools: Vec<OfferedTool>,
    /// SHA-256 of all definitions, a JSON array in the order of `tools`.
    pub definitions: BlobDigest,
    /// SHA-256 of the system text.
    pub system: BlobDigest,
}

/// One tool on offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedTool {
    /// The tool's id, such as `react.write`.
    pub name: String,
    /// SHA-256 of its name, description and parameters as JSON.
    pub digest: BlobDigest,
}

impl ToolsTable {
    /// The block that says so, the `n`th of its turn.
    pub fn block(&self, turn: &TurnId, n: u32) -> NewBlock {
        NewBlock::new(BlockKind::ToolsTable, turn, LogicalPath::tools_table(turn, n)).json(self)
    }

    /// The tool with this name.
    pub fn get(&self, name: &str) -> Option<&OfferedTool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// The digests whose bytes it needs.
    pub fn needs(&self) -> [BlobDigest; 2] {
        [self.definitions, self.system]
    }
}
