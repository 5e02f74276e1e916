//! The text of a `timeline.hide` block.

use serde::{Deserialize, Serialize};

use crate::ids::Seq;
use crate::path::LogicalPath;

/// Paths whose blocks render as a placeholder from here on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HideText {
    /// Who asked for it.
    pub reason: HideReason,
    /// What to hide.
    pub items: Vec<HideItem>,
}

/// Why paths are hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum HideReason {
    /// The model asked.
    Hide,
    /// The provider's cache had gone cold.
    Ttl,
    /// The view no longer fitted its window.
    Compaction,
}

/// One path to hide and what to say in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HideItem {
    /// What to hide.
    pub path: LogicalPath,
    /// What stands in its place.
    pub replacement: String,
    /// Blocks before this one stay as they are, so that the cached prefix stays too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_seq: Option<Seq>,
}
