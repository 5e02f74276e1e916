//! Requests that belong to no conversation of the caller's: titles, tags, histories that nobody knows. They are answered
//! without tools in a scope of this API's own, count for the caller's scope like every turn, and nothing of them stays but what
//! somebody may still ask for.

use std::time::Duration;

use annals_core::ids::{ConversationKey, Scope};
use annals_core::time::Timestamp;
use annals_runtime::{Agent, RunError};
use annals_store::LogError;

use super::ask::{Ask, Face, Started, whole_prompt};
use super::error::ApiError;
use super::follow::Follow;
use super::lineage::{is_stand_alone, side_scope};
use super::part::Part;
use crate::problem::Problem;

/// Those that are kept are kept this long, as answers under a key are; and so is what a process left behind that died.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

impl Face {
    /// The agent of such requests.
    pub(super) fn side(&self) -> Result<Agent, ApiError> {
        let side = self.agent.without_tools(&side_scope(self.scope()));
        side.map_err(|error| Problem::internal(error).into())
    }

    /// The agent in whose scope the conversation of an answer is.
    pub(super) async fn agent_of(&self, part: &Part) -> Result<Agent, ApiError> {
        match self.agent.log().get(&self.agent.key(&part.conversation)).await {
            Err(LogError::NotFound { .. }) => {}
            found => return Ok(found.map(|_| self.agent.clone())?),
        }
        let side = self.side()?;
        match side.log().get(&side.key(&part.conversation)).await {
            Err(LogError::NotFound { .. }) => Err(ApiError::missing("response")),
            found => Ok(found.map(|_| side)?),
        }
    }

    /// Answers without a conversation of the caller's.
    pub(super) async fn stand_alone(&self, ask: Ask) -> Result<Started, ApiError> {
        self.sweep_if_due();
        let side = self.side()?;
        let mut prompt = whole_prompt(&ask.transcript);
        prompt.terms = ask.terms.clone();
        prompt.terms.client_tools.clear();
        // The answer may be asked for again: then the title tells the process that goes on with it whose it is.
        let is_kept = ask.is_background || ask.once.client_key().is_some();
        let title = is_kept.then(|| self.scope().to_string());
        let conversation = self.made(&side, title, &ask.once).await?;
        let posted = self.checked_and_posted(&side, &conversation, prompt, &ask.once);
        let (part, subscription) = match posted.await {
            Ok(Some(posted)) => posted,
            Ok(None) => return self.answered_meanwhile(&ask).await,
            Err(error) => {
                self.unmake(&side, &conversation).await;
                return Err(error);
            }
        };
        let follow = Follow::new(self, &side, part.clone(), ask.origin).removing(!is_kept);
        Ok(Started {
            pieces: follow.begin(subscription, Vec::new()),
            part,
            is_stand_alone: true,
            is_replayed: false,
        })
    }

    /// Removes what clients of the scope left behind, once a day.
    pub(super) fn sweep_if_due(&self) {
        if !self.app.is_sweep_due(self.scope()) {
            return;
        }
        let face = self.clone();
        self.app.tasks.spawn(async move {
            let now = face.agent.world().now();
            let swept = async {
                face.index().sweep(&face.agent.owner(), now).await?;
                face.sweep_stand_alone(now).await
            };
            if let Err(error) = swept.await {
                tracing::warn!(%error, "what clients left behind could not be swept");
            }
        });
    }

    async fn sweep_stand_alone(&self, now: Timestamp) -> Result<(), RunError> {
        const PAGE: usize = 500;
        let side = self.agent.in_scope(&side_scope(self.scope()));
        let mut cursor = None;
        loop {
            let listing = side.log().list(side.scope(), cursor, PAGE).await?;
            for info in listing.items {
                let age = Duration::from_micros(now.micros_since(info.created));
                if !is_stand_alone(&info.key) || age <= KEPT {
                    continue;
                }
                match side.delete_conversation(&info.key.id).await {
                    // It is answered still, or another node sweeps, too.
                    Err(RunError::Log(LogError::Held { .. } | LogError::NotFound { .. })) => {}
                    removed => removed?,
                }
            }
            match listing.next {
                Some(next) => cursor = Some(next),
                None => return Ok(()),
            }
        }
    }
}

/// Who goes on with a request whose process died: its client's connection is gone, so that nobody does and it is removed,
/// unless its answer is kept.
pub(crate) async fn take_up(agent: &Agent, key: &ConversationKey) -> Option<Agent> {
    if !is_stand_alone(key) {
        return None;
    }
    let info = agent.log().get(key).await.ok()?;
    if let Some(scope) = info.title.as_deref().and_then(|title| Scope::parse(title).ok()) {
        return agent.in_scope(&scope).without_tools(&key.scope).ok();
    }
    if let Err(error) = agent.in_scope(&key.scope).delete_conversation(&key.id).await {
        tracing::warn!(%error, "a request that nobody waits for any more could not be removed");
    }
    None
}
