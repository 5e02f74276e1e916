//! A session: a conversation as a program holds it. `run` takes it and gives it back, and its sandbox with it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use annals_core::block::BlockKind;
use annals_core::ids::ConversationId;
use annals_core::turn::TurnEnd;
use annals_core::view::View;
use annals_tools::ConversationCx;

use crate::conversation::Conversation;
use crate::error::RunError;
use crate::joining::UnfinishedTurn;

/// One conversation, opened for writing. At most one process has it open at a time; within a process it may be opened any
/// number of times, and its turns queue.
pub struct Session {
    pub(crate) conversation: Arc<Conversation>,
    /// The turn that was unfinished when it was opened, until something runs in it.
    found: Mutex<Option<UnfinishedTurn>>,
}

impl Session {
    pub(crate) fn new(conversation: Arc<Conversation>) -> Self {
        Session {
            found: Mutex::new(conversation.found()),
            conversation,
        }
    }

    pub(crate) fn take_found(&self) -> Option<UnfinishedTurn> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The conversation.
    pub fn id(&self) -> &ConversationId {
        &self.conversation.cx.conversation
    }

    /// Asks the timeline something.
    pub fn timeline<T>(&self, ask: impl FnOnce(&View) -> T) -> T {
        let timeline = &self.conversation.cx.timeline;
        ask(&timeline.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the last turn answered: its answer, or its questions; empty when it has neither.
    pub fn answer(&self) -> String {
        self.timeline(|timeline| {
            let Some(turn) = timeline.current_turn() else {
                return String::new();
            };
            let said = timeline.turn_blocks(turn).iter().rev().find(|block| {
                matches!(
                    block.kind,
                    BlockKind::AssistantCompletion | BlockKind::StageClarification
                )
            });
            said.and_then(|block| block.text()).unwrap_or_default().to_owned()
        })
    }

    /// How the last turn ended, if it has.
    pub fn outcome(&self) -> Option<TurnEnd> {
        self.timeline(|timeline| timeline.current_turn().and_then(|turn| turn.end))
    }

    /// Whether the last turn was left unfinished by a crash.
    pub fn is_unfinished(&self) -> bool {
        self.timeline(|timeline| timeline.current_turn().is_some_and(|turn| turn.end.is_none()))
    }

    /// What tools of this conversation share: its files, its artifacts, its sandbox.
    pub fn cx(&self) -> &Arc<ConversationCx> {
        &self.conversation.cx
    }

    /// Ends the session. When it is the conversation's last in this process, its sandbox is closed and others may write; a
    /// session that is merely dropped gives the lease back too, a moment later. Nothing of the conversation is lost.
    pub async fn close(self) -> Result<(), RunError> {
        self.conversation.close().await
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Session").field(self.id()).finish()
    }
}
