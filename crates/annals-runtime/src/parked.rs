//! A caller whose turn waits for a person, and what wakes the turn on the caller's behalf.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::agent::AgentParts;
use crate::conversation::{Conversation, Reply};
use crate::listen::Listen;
use crate::mail::Mail;

/// A caller whose turn waits for a person.
pub(crate) struct Parked {
    pub(crate) agent: Arc<AgentParts>,
    pub(crate) listener: Arc<dyn Listen>,
    pub(crate) reply: Reply,
    cancel: CancellationToken,
    /// Wakes the turn, once, when the caller cancels it or what it waits for lapses.
    _watch: AbortOnDropHandle<()>,
}

impl Parked {
    pub(crate) fn new(
        conversation: &Arc<Conversation>,
        agent: Arc<AgentParts>,
        listener: Arc<dyn Listen>,
        cancel: CancellationToken,
        reply: Reply,
    ) -> Self {
        let (waking, cancelled) = (Arc::downgrade(conversation), cancel.clone());
        let (lapses, turn) = (conversation.lapses_in(), conversation.current_turn());
        let watch = tokio::spawn(async move {
            let lapse = async {
                match lapses {
                    Some(lapses) => tokio::time::sleep(lapses).await,
                    None => std::future::pending().await,
                }
            };
            let mail = tokio::select! {
                () = cancelled.cancelled() => Mail::Cancel { turn },
                () = lapse => Mail::Lapse,
            };
            if let Some(conversation) = waking.upgrade() {
                conversation.wake(mail, &cancelled);
            }
        });
        Parked {
            agent,
            listener,
            reply,
            cancel,
            _watch: AbortOnDropHandle::new(watch),
        }
    }

    /// The turn went on and waits again, for something else and until another time.
    pub(crate) fn again(self, conversation: &Arc<Conversation>) -> Self {
        Parked::new(conversation, self.agent, self.listener, self.cancel, self.reply)
    }
}
