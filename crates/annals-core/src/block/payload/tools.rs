//! The text of a `tools.table` block: what the model is offered from here on.

use serde::{Deserialize, Serialize};

use crate::block::{BlobDigest, BlockKind, NewBlock};
use crate::ids::TurnId;
use crate::path::LogicalPath;

/// The tools on offer, by name and by the digest of what the model reads of each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolsTable {
    /// The tools, sorted by name.
    pub tools: Vec<OfferedTool>,
}

/// One tool on offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedTool {
    /// The tool's id, such as `react.write`.
    pub name: String,
    /// SHA-256 of its name, description and parameters as JSON; the text is in the artifact store.
    pub digest: BlobDigest,
}

impl ToolsTable {
    /// The block that says so, the `n`th of its turn.
    pub fn block(&self, turn: &TurnId, n: u32) -> NewBlock {
        NewBlock::new(BlockKind::ToolsTable, turn, LogicalPath::tools_table(turn, n)).json(self)
    }
}
