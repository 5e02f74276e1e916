//! One answer of this API: a turn, or what follows in it once the client's own tools have given their results.

use annals_core::block::BlobDigest;
use annals_core::ids::{CallId, ConversationId, Seq, TurnId};

use super::error::ApiError;

/// What one request is answered with. Its text is the id of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) conversation: ConversationId,
    pub(crate) turn: TurnId,
    /// The block that this answer begins after; none when it begins with the turn.
    pub(crate) after: Option<Seq>,
}

const PREFIX: &str = "resp_";

impl Part {
    /// A turn from its beginning.
    pub(crate) fn whole(conversation: ConversationId, turn: TurnId) -> Self {
        Part {
            conversation,
            turn,
            after: None,
        }
    }

    /// Reads a response's id.
    pub(crate) fn parse(id: &str) -> Result<Self, ApiError> {
        Self::read(id).ok_or_else(|| ApiError::missing("response"))
    }

    fn read(id: &str) -> Option<Self> {
        let (conversation, turn) = id.strip_prefix(PREFIX)?.split_once('.')?;
        let (turn, after) = match turn.split_once('.') {
            Some((turn, after)) => (turn, Some(Seq::try_new(after.parse().ok()?).ok()?)),
            None => (turn, None),
        };
        Some(Part {
            conversation: ConversationId::parse(conversation).ok()?,
            turn: TurnId::parse(turn).ok()?,
            after,
        })
    }

    /// Whether a block belongs to this answer or to what comes later.
    pub(crate) fn begins_before(&self, seq: Seq) -> bool {
        self.after.is_none_or(|after| after < seq)
    }

    /// The id under which a client knows a call of this turn: no other call of any conversation has it.
    pub(crate) fn call_id(&self, call: &CallId) -> String {
        let place = format!("{} {} {call}", self.conversation, self.turn);
        let digest = BlobDigest::of(place.as_bytes()).to_string();
        let hex: String = digest.chars().rev().take(24).collect();
        format!("call_{hex}")
    }
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{PREFIX}{}.{}", self.conversation, self.turn)?;
        match self.after {
            Some(after) => write!(f, ".{after}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_one_part_of_one_turn() {
        for id in ["resp_conv_1.turn_2", "resp_conv_1.turn_2.57"] {
            assert_eq!(Part::parse(id).unwrap().to_string(), id);
        }
        for id in [
            "resp_",
            "resp_c",
            "conv_1.turn_2",
            "resp_c.turn_2.x",
            "resp_c.turn_2.0",
            "resp_c.turn_2.5.6",
        ] {
            assert!(Part::parse(id).is_err(), "{id}");
        }
    }
}
