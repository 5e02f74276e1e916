//! A session: one conversation, opened for writing. `run` takes it and gives it back, and its sandbox with it.

use std::sync::Arc;

use annals_core::block::BlockKind;
use annals_core::ids::{ConversationId, TurnId};
use annals_core::turn::TurnEnd;
use annals_core::view::Renderer;
use annals_core::view::View;
use annals_tools::ConversationCx;

use crate::error::RunError;
use crate::journal::Journal;
use crate::listen::Nobody;

/// One conversation, opened for writing. There is at most one at a time, on any machine.
pub struct Session {
    pub(crate) cx: Arc<ConversationCx>,
    pub(crate) journal: Journal,
    /// What was rendered so far; given up when the session rests.
    pub(crate) renderer: Option<Renderer>,
}

impl Session {
    /// The conversation.
    pub fn id(&self) -> &ConversationId {
        &self.cx.conversation
    }

    /// Asks the timeline something.
    pub fn timeline<T>(&self, ask: impl FnOnce(&View) -> T) -> T {
        self.journal.read(ask)
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

    /// The last turn.
    pub fn last_turn(&self) -> Option<TurnId> {
        self.timeline(|timeline| timeline.current_turn().map(|turn| turn.id.clone()))
    }

    /// Whether the last turn was left unfinished by a crash.
    pub fn is_unfinished(&self) -> bool {
        self.timeline(|timeline| timeline.current_turn().is_some_and(|turn| turn.end.is_none()))
    }

    /// What tools of this conversation share: its files, its artifacts, its sandbox.
    pub fn cx(&self) -> &Arc<ConversationCx> {
        &self.cx
    }

    /// Between turns a session holds its timeline and nothing that can be made again from it.
    pub(crate) fn rest(&mut self) {
        self.journal.set_listener(Arc::new(Nobody));
        self.renderer = None;
    }

    /// Ends the session: its sandbox is closed, and others may write. Nothing of the conversation is lost.
    pub async fn close(self) -> Result<(), RunError> {
        if let Some(sandbox) = &self.cx.sandbox {
            sandbox.close().await;
        }
        self.journal.release().await
    }
}
