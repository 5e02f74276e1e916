//! What a call changed in the working tree, kept on its first result block (`workspace`), so that the tree can be made
//! again from the log: in a fork, and on another machine.

use serde::{Deserialize, Serialize};

use super::{Blob, Meta};
use crate::path::RelPath;

/// One file that a call wrote or removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceChange {
    /// Where it lies below OUT_DIR.
    pub path: RelPath,
    /// What it holds; none when it was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<Blob>,
    /// Whether it may be executed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
}

const FIELD: &str = "workspace";

impl Meta {
    /// What the call of this block changed in the working tree.
    pub fn workspace(&self) -> Vec<WorkspaceChange> {
        let changes = self.get(FIELD).map(serde_json::from_value);
        changes.and_then(Result::ok).unwrap_or_default()
    }

    /// With what the call changed in the working tree.
    pub fn with_workspace(self, changes: &[WorkspaceChange]) -> Self {
        match serde_json::to_value(changes) {
            Ok(value) if !changes.is_empty() => self.with(FIELD, value),
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_survive_the_trip_through_metadata_and_none_leave_no_trace() {
        let changes = [
            WorkspaceChange {
                path: RelPath::parse("src/run.sh").unwrap(),
                blob: Some(Blob::of(b"x")),
                executable: true,
            },
            WorkspaceChange {
                path: RelPath::parse("gone").unwrap(),
                blob: None,
                executable: false,
            },
        ];
        let meta = Meta::default().with_workspace(&changes);
        let again = Meta::from_map(meta.to_map());
        assert_eq!(again.workspace(), changes);
        assert!(Meta::default().with_workspace(&[]).is_empty());
        assert!(
            Meta::default()
                .with(FIELD, "something else")
                .workspace()
                .is_empty()
        );
    }
}
