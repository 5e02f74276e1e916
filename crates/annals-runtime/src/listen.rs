//! Who watches a turn. Blocks are durable when they are shown; deltas are ephemeral and carry no truth.

use std::sync::{Arc, OnceLock};

use annals_core::block::{Block, BlockJson};
use annals_core::ids::{CallId, ConversationId, TurnId};
use annals_core::limits;
use annals_core::turn::TurnEnd;
use serde::{Serialize, Serializer};
use tokio::sync::broadcast;
use tokio::sync::mpsc::UnboundedSender;

/// Something a listener is told.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", content = "data", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Update {
    /// A block, durable already.
    Block(#[serde(serialize_with = "as_json")] Arc<Block>),
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
        /// The turn.
        turn: TurnId,
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
    /// This subscriber was too slow: what the model was producing, and when tools began, was left out. No block was.
    Gap {
        /// How many updates were left out.
        missed: u64,
    },
}

fn as_json<S: Serializer>(block: &Arc<Block>, serializer: S) -> Result<S::Ok, S::Error> {
    BlockJson::from(&**block).serialize(serializer)
}

/// Where a delta belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
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
#[non_exhaustive]
pub struct Delta {
    /// The conversation.
    pub conversation: ConversationId,
    /// The turn.
    pub turn: TurnId,
    /// Which model call of the turn.
    pub step: u32,
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

impl<L: Listen + ?Sized> Listen for Arc<L> {
    fn on(&self, update: Update) {
        (**self).on(update);
    }
}

/// The subscribers of one conversation. Most conversations have none, and then this holds nothing.
#[derive(Clone, Default)]
pub(crate) struct Subscribers(Arc<OnceLock<broadcast::Sender<Update>>>);

impl Subscribers {
    /// What is told from here on, as far as the receiver keeps up.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Update> {
        self.0
            .get_or_init(|| broadcast::Sender::new(limits::SUBSCRIBER_QUEUE_UPDATES))
            .subscribe()
    }

    fn tell(&self, update: &Update) {
        if let Some(sender) = self.0.get().filter(|sender| sender.receiver_count() > 0) {
            // Fails only when the last receiver has just gone.
            let _ = sender.send(update.clone());
        }
    }
}

/// Who is told of what happens in a conversation: its subscribers, and the listener of the running turn.
#[derive(Clone)]
pub(crate) struct Audience {
    pub(crate) listener: Arc<dyn Listen>,
    subscribers: Subscribers,
}

impl Audience {
    pub(crate) fn of(subscribers: Subscribers) -> Self {
        Audience {
            listener: Arc::new(Nobody),
            subscribers,
        }
    }

    pub(crate) fn tell(&self, update: Update) {
        self.subscribers.tell(&update);
        self.listener.on(update);
    }
}

/// Nobody.
pub(crate) struct Nobody;

impl Listen for Nobody {
    fn on(&self, _: Update) {}
}
