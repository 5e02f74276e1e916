//! Which conversations ask a person or a client for something.

use annals_core::block::{Block, BlockKind};
use annals_core::ids::{ConversationKey, Seq};

use super::Cursor;

/// A conversation whose last turn has not ended and has asked for something. Whether the request was answered since is
/// in the blocks from there on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asking {
    /// The conversation.
    pub key: ConversationKey,
    /// The first `approval.request` or `input.request` of its last turn.
    pub from: Seq,
}

/// One page of conversations that ask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskingPage {
    /// The conversations, in the order in which they were made.
    pub items: Vec<Asking>,
    /// Where the next page begins, if there may be one.
    pub next: Option<Cursor>,
}

/// From where a conversation asks once this block is its last: for backends that keep it beside the log.
pub fn asks_from(before: Option<Seq>, block: &Block) -> Option<Seq> {
    match effect_of(&block.kind) {
        Effect::Asks => before.or(Some(block.seq)),
        Effect::Bounds => None,
        Effect::Nothing => before,
    }
}

/// From where a conversation asks, given its blocks from the last one backwards, as place and type, and whether its last
/// turn begins among them. Looks no further back than that.
pub fn asks_from_back<E>(
    blocks: impl IntoIterator<Item = Result<(Seq, BlockKind), E>>,
) -> Result<(Option<Seq>, bool), E> {
    let mut from = None;
    for block in blocks {
        let (seq, kind) = block?;
        match effect_of(&kind) {
            Effect::Asks => from = Some(seq),
            Effect::Bounds => return Ok((from, true)),
            Effect::Nothing => {}
        }
    }
    Ok((from, false))
}

enum Effect {
    Asks,
    /// Begins or ends a turn.
    Bounds,
    Nothing,
}

fn effect_of(kind: &BlockKind) -> Effect {
    match kind {
        BlockKind::ApprovalRequest | BlockKind::InputRequest => Effect::Asks,
        BlockKind::TurnHeader | BlockKind::ReactCompletion => Effect::Bounds,
        _ => Effect::Nothing,
    }
}
