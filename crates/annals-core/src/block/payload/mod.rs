//! What the text of each structured block says, as types.
//!
//! Stored, these are JSON texts; a text that is not of its kind's form is a [`PayloadError`], never silently nothing.
//! The fold reads each once and keeps what it learnt in its indexes.

mod call;
mod child;
mod gate;
mod hide;
mod notice;
mod report;
mod tools;
mod waiting;

pub use call::CallText;
pub use child::ChildResult;
pub use gate::{GateNote, GateRule};
pub use hide::{HideItem, HideReason, HideText};
pub use notice::Notice;
pub use report::{TurnEnd, TurnReport, TurnUsage};
pub use tools::{OfferedTool, ToolsTable};
pub use waiting::{ApprovalDecision, ApprovalRequest, Decision, InputAction, InputRequest, InputResponse};

use serde::Deserialize;

use super::Block;

/// A block whose text has not the form of its type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("block {seq}: the text of `{kind}` cannot be read: {reason}")]
pub struct PayloadError {
    /// The block's place.
    pub seq: u64,
    /// The block's type.
    pub kind: String,
    /// What the parser said.
    pub reason: String,
}

impl Block {
    /// The block's text as the type that its kind is written with.
    pub fn payload<'a, T: Deserialize<'a>>(&'a self) -> Result<T, PayloadError> {
        let failed = |reason: String| PayloadError {
            seq: self.seq.get(),
            kind: self.kind.to_string(),
            reason,
        };
        let text = self.text().ok_or_else(|| failed("it has no text".into()))?;
        serde_json::from_str(text).map_err(|error| failed(error.to_string()))
    }

    /// The same of a block that has been folded: what cannot be read means nothing, and the fold has named it
    /// ([`Timeline::malformed`](crate::timeline::Timeline::malformed)).
    pub fn folded_payload<'a, T: Deserialize<'a>>(&'a self) -> Option<T> {
        self.payload().ok()
    }
}
