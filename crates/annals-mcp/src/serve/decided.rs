//! Turns that wait for a person while their client is served over the streams of a process: `annals approve` decides in another
//! process and leaves, so this one looks for what was decided, and goes on.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use annals_core::ids::{ConversationId, TurnId};
use annals_runtime::{Agent, RunError, TurnState};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(500);

/// The conversations that are looked after.
#[derive(Default)]
pub(super) struct Watched(Mutex<BTreeSet<ConversationId>>);

impl Watched {
    /// Goes on with the turn once something was decided about it, in a task of its own.
    pub(super) fn watch(self: &Arc<Self>, agent: &Agent, id: &ConversationId, turn: &TurnId) {
        let is_new = self.conversations().insert(id.clone());
        if !is_new {
            return;
        }
        let (own, agent, id, turn) = (Arc::clone(self), agent.clone(), id.clone(), turn.clone());
        tokio::spawn(async move {
            while let Ok(true) = waits(&agent, &id, &turn).await {
                tokio::time::sleep(PAUSE).await;
            }
            own.conversations().remove(&id);
        });
    }

    fn conversations(&self) -> std::sync::MutexGuard<'_, BTreeSet<ConversationId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the turn is still to be looked after. What was posted about it is taken in here, if no other process has it.
async fn waits(agent: &Agent, id: &ConversationId, turn: &TurnId) -> Result<bool, RunError> {
    if !agent.log().pending(&agent.key(id)).await?.is_empty()
        && let Err(error) = agent.open(id).await
    {
        // Its owner takes it in, or the next look does.
        tracing::debug!(%id, %error, "a decision is left to others");
    }
    let status = agent.conversation(id).turn_status(turn).await?;
    Ok(status.is_some_and(|status| status.state != TurnState::Ended))
}
