//! Who watches a turn. Blocks are durable when they are shown; deltas are ephemeral and carry no truth.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use annals_core::block::{Block, BlockJson};
use annals_core::ids::{CallId, ConversationId, Seq, TurnId};
use annals_core::limits;
use annals_core::turn::TurnEnd;
use serde::{Deserialize, Serialize, Serializer};
use tokio::sync::mpsc::UnboundedSender;

use crate::ring::{Receiver, Ring};

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
    /// A tool says how far it has come. Nothing keeps it.
    ToolProgress {
        /// The conversation.
        conversation: ConversationId,
        /// The turn.
        turn: TurnId,
        /// The model call that made the call, counted from one.
        step: u32,
        /// The call.
        call: CallId,
        /// How far.
        progress: f64,
        /// Of what, if that is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        total: Option<f64>,
        /// What is being done, in the tool's words.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// The answer so far is void: the provider failed and is asked again.
    Restarted {
        /// The turn.
        turn: TurnId,
        /// What the provider said, or how it broke off.
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
    /// The log went back, as a server does that takes the place of one whose last commits it never got: blocks that this
    /// subscriber was shown are not there any more. What is there in their place follows.
    Lost {
        /// The first that no longer holds.
        first: Seq,
    },
}

fn as_json<S: Serializer>(block: &Arc<Block>, serializer: S) -> Result<S::Ok, S::Error> {
    BlockJson::from(&**block).serialize(serializer)
}

/// What a process that does not own a conversation is told by the one that does.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Relayed {
    /// Something between blocks.
    Update(Update),
    /// A block was written: what was being produced before it is in the log.
    Settled,
}

/// Where a delta belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
    /// Where the new text begins, in bytes of what this channel has had of this step. Nothing before it counts when it
    /// is 0: a subscriber that comes late, or missed some, gets the whole text so far in this way.
    pub from: usize,
    /// The new text.
    pub text: String,
    /// The file being written, on `canvas` and `timeline_text`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

impl Delta {
    /// A piece that another process told of.
    pub fn relayed(
        conversation: ConversationId,
        (turn, step): (TurnId, u32),
        (channel, path): (DeltaChannel, Option<String>),
        from: usize,
        text: String,
    ) -> Self {
        Delta {
            conversation,
            turn,
            step,
            channel,
            from,
            text,
            path,
        }
    }

    fn is_of_same_text(&self, other: &Delta) -> bool {
        (&self.turn, self.step, self.channel, &self.path)
            == (&other.turn, other.step, other.channel, &other.path)
    }
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

/// The subscribers of one conversation, and what the model is producing for those who come late. Between turns, and
/// without a subscriber, this holds nothing.
#[derive(Clone, Default)]
pub(crate) struct Subscribers(Arc<Mutex<Live>>);

struct Live {
    told: Ring<Arc<Update>>,
    /// Who is told of every block of every conversation.
    observer: Option<Arc<dyn Listen>>,
    /// The text so far of each channel of the answer that is being produced, as one delta from 0 each.
    open: Vec<Delta>,
}

impl Default for Live {
    fn default() -> Self {
        Live {
            told: Ring::new(limits::SUBSCRIBER_QUEUE_UPDATES),
            observer: None,
            open: Vec::new(),
        }
    }
}

impl Subscribers {
    /// Held for a lookup and a copy, never across an await.
    fn live(&self) -> MutexGuard<'_, Live> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is told from here on, as far as the receiver keeps up, and what the model had produced until here.
    pub(crate) fn subscribe(&self) -> (Receiver<Arc<Update>>, Vec<Delta>) {
        let live = self.live();
        (live.told.subscribe(), live.open.clone())
    }

    /// What another process was producing is not continued by this one.
    pub(crate) fn begin_anew(&self) {
        self.live().open = Vec::new();
    }

    /// Lets somebody count what happens.
    pub(crate) fn observed_by(&self, observer: Option<Arc<dyn Listen>>) {
        self.live().observer = observer;
    }

    /// Tells the subscribers what another process, the owner, told its own: whether anybody listens. A piece that does not
    /// continue what came before it is left out; what was provisional is over once its block is in the log.
    pub(crate) fn relay(&self, update: Relayed) -> bool {
        let mut live = self.live();
        let update = match update {
            Relayed::Settled => {
                live.open = Vec::new();
                None
            }
            Relayed::Update(Update::Delta(delta)) => live.continued(delta).map(Update::Delta),
            Relayed::Update(update) => Some(live.note(update)),
        };
        if !live.told.has_receivers() {
            live.open = Vec::new();
            return false;
        }
        if let Some(update) = update {
            live.told.tell(Arc::new(update));
        }
        true
    }

    /// Tells the subscribers; gives the update with what only this place knows of it.
    fn tell(&self, update: Update) -> Update {
        let mut live = self.live();
        let update = live.note(update);
        if let (Some(observer), Update::Block(_)) = (&live.observer, &update) {
            observer.on(update.clone());
        }
        if live.told.has_receivers() {
            live.told.tell(Arc::new(update.clone()));
        }
        update
    }
}

impl Live {
    fn note(&mut self, update: Update) -> Update {
        match update {
            Update::Delta(delta) => Update::Delta(self.grow(delta)),
            // What was provisional is durable, void, or over.
            Update::Block(_) | Update::Restarted { .. } | Update::TurnEnded { .. } | Update::Lost { .. } => {
                self.open = Vec::new();
                update
            }
            other => other,
        }
    }

    /// A piece that says itself where it belongs.
    fn continued(&mut self, delta: Delta) -> Option<Delta> {
        let open = self.open.iter_mut().find(|open| open.is_of_same_text(&delta));
        match open {
            Some(open) if delta.from == 0 => open.text.clone_from(&delta.text),
            Some(open) if delta.from == open.text.len() => open.text.push_str(&delta.text),
            None if delta.from == 0 => self.open.push(delta.clone()),
            _ => return None,
        }
        Some(delta)
    }

    fn grow(&mut self, mut delta: Delta) -> Delta {
        match self.open.iter_mut().find(|open| open.is_of_same_text(&delta)) {
            Some(open) => {
                delta.from = open.text.len();
                open.text.push_str(&delta.text);
            }
            None => {
                delta.from = 0;
                self.open.push(delta.clone());
            }
        }
        delta
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
        let update = self.subscribers.tell(update);
        self.listener.on(update);
    }
}

/// Nobody.
pub(crate) struct Nobody;

impl Listen for Nobody {
    fn on(&self, _: Update) {}
}
