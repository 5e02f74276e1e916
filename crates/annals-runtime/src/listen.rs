//! Who watches a turn. Blocks are durable when they are shown; deltas are ephemeral and carry no truth.

use std::sync::Arc;

use annals_core::block::Block;
use annals_core::ids::{CallId, TurnId};
use annals_core::turn::TurnEnd;
use serde::Serialize;
use tokio::sync::mpsc::UnboundedSender;

/// Something a listener is told.
#[derive(Clone, Debug)]
pub enum Update {
    /// A block, durable already.
    Block(Arc<Block>),
    /// A piece of what the model is producing right now.
    Delta(Delta),
    /// A tool began to run.
    ToolStarted {
        /// The call.
        call: CallId,
        /// The tool.
        tool: String,
    },
    /// The answer so far is void: the provider failed and is asked again.
    Restarted {
        /// Why.
        reason: String,
    },
    /// The turn is over; everything is durable.
    TurnEnded {
        /// The turn.
        turn: TurnId,
        /// How it ended.
        end: TurnEnd,
    },
}

/// Where a delta belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeltaChannel {
    /// A document that `react.write` is writing.
    Canvas,
    /// What `react.write` puts into the conversation itself.
    TimelineText,
    /// Reasoning.
    Thinking,
    /// What the model says: the answer, or notes when calls follow.
    Answer,
}

/// A piece of what the model is producing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Delta {
    /// Where it belongs.
    pub channel: DeltaChannel,
    /// The new text.
    pub text: String,
    /// The file being written, on `canvas` and `timeline_text`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Somebody who watches. Told in order, from the turn's own task: be quick, or hand over to a channel.
pub trait Listen: Send + Sync {
    /// Something happened.
    fn on(&self, update: Update);
}

impl Listen for UnboundedSender<Update> {
    fn on(&self, update: Update) {
        // A receiver that went away wants to hear nothing.
        let _ = self.send(update);
    }
}

impl<F: Fn(Update) + Send + Sync> Listen for F {
    fn on(&self, update: Update) {
        self(update);
    }
}

/// Nobody.
pub(crate) struct Nobody;

impl Listen for Nobody {
    fn on(&self, _: Update) {}
}
