//! Who makes the call of a turn that is one call. Kept in the turn's header, so that every process that goes on with it knows.

use annals_core::block::{Meta, NewBlock};
use annals_core::ids::TurnId;
use annals_core::timeline::Timeline;
use serde::{Deserialize, Serialize};

/// The field of the header's metadata.
const FIELD: &str = "caller";

/// Who calls a tool without a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Caller {
    /// A person, who has said yes by calling: what rules would ask is not asked. The call waits for nobody, so a turn that is
    /// left open is not gone on with.
    Person,
    /// A program, which decides nothing: what rules ask, a person is asked, and the turn waits.
    Program,
}

impl Caller {
    /// The author of the call's blocks.
    pub(crate) fn author(self) -> &'static str {
        match self {
            Caller::Person => "user",
            Caller::Program => "client",
        }
    }

    /// Writes it into a turn's header. Headers without it are those of persons' calls.
    pub(crate) fn write(self, header: &mut NewBlock) {
        if self == Caller::Program {
            let value = serde_json::to_value(self).expect("a plain word always serialises to JSON");
            header.meta = std::mem::replace(&mut header.meta, Meta::EMPTY).with(FIELD, value);
        }
    }

    /// The caller of a turn without a prompt.
    pub(crate) fn of(timeline: &Timeline, turn: &TurnId) -> Self {
        let header = timeline
            .turn(turn)
            .and_then(|turn| timeline.turn_blocks(turn).first());
        let kept = header.and_then(|header| header.meta().get(FIELD));
        kept.and_then(|value| serde_json::from_value(value).ok())
            .unwrap_or(Caller::Person)
    }
}
