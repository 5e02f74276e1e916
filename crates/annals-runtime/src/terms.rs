//! What holds for one turn and no other. Kept in its header, so that every process that goes on with it goes by the same.

use annals_core::block::{Meta, NewBlock};
use annals_core::ids::TurnId;
use annals_core::timeline::Timeline;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The field of the header's metadata.
const FIELD: &str = "terms";

/// What holds for one turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnTerms {
    /// Nobody can be asked: what a person would have to allow is denied, and the model is told.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unattended: bool,
    /// The JSON schema that the answer must fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
}

impl TurnTerms {
    /// Writes them into a turn's header.
    pub(crate) fn write(&self, header: &mut NewBlock) {
        if *self == TurnTerms::default() {
            return;
        }
        let value = serde_json::to_value(self).expect("plain data always serialises to JSON");
        header.meta = std::mem::replace(&mut header.meta, Meta::EMPTY).with(FIELD, value);
    }

    /// The terms of a turn. Those that cannot be read are of a newer version, and then none hold.
    pub fn of(timeline: &Timeline, turn: &TurnId) -> Self {
        let header = timeline
            .turn(turn)
            .and_then(|turn| timeline.turn_blocks(turn).first());
        let kept = header.and_then(|header| header.meta().get(FIELD));
        kept.and_then(|value| serde_json::from_value(value).ok())
            .unwrap_or_default()
    }
}
