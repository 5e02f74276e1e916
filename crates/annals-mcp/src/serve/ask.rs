//! What clients want done, as turns: posted like any other prompt, so that it outlives the client, and waited for.

use annals_core::block::BlockKind;
use annals_core::ids::{ConversationId, Seq, TurnId};
use annals_runtime::{Prompt, ToolCall, Update};
use rmcp::model::CallToolResult;
use serde_json::{Map, Value};

use super::offer::{conversation_of, text_of};
use super::told::{State, told};
use super::{AnnalsServer, Signs, Unmet, look};
use crate::text;

/// A conversation's title is the beginning of its first question.
const TITLE_MAX_CHARS: usize = 60;

/// The conversation that a turn is posted to.
struct Place {
    id: ConversationId,
    /// Its last block.
    tail: Option<Seq>,
    /// Whether it was made for the turn.
    is_new: bool,
}

impl AnnalsServer {
    pub(super) async fn ask(
        &self,
        arguments: &Map<String, Value>,
        signs: &Signs<'_>,
    ) -> Result<CallToolResult, Unmet> {
        let prompt = text_of(arguments, "prompt").unwrap_or_default();
        if prompt.trim().is_empty() {
            return Err(Unmet::new("the prompt is empty: say what to do"));
        }
        let attachments = self.attached(arguments).await?;
        let title: String = prompt.chars().take(TITLE_MAX_CHARS).collect();
        let place = self.place(arguments, title).await?;
        let prompt = Prompt {
            text: prompt.to_owned(),
            attachments,
            ..Prompt::default()
        };
        let posted = self.post.ask(&self.agent, &place.id, prompt).await;
        let turn = self.posted(&place, posted).await?;
        self.followed(&place.id, &turn, place.tail, signs).await
    }

    /// Calls a tool of the agent in a turn of its own, in a conversation that the call makes or names.
    pub(super) async fn use_tool(
        &self,
        name: &str,
        mut arguments: Map<String, Value>,
        signs: &Signs<'_>,
    ) -> Result<CallToolResult, Unmet> {
        let place = self.place(&arguments, format!("MCP: {name}")).await?;
        arguments.shift_remove("conversation");
        let call = ToolCall {
            tool: name.to_owned(),
            params: arguments,
            ..ToolCall::default()
        };
        let posted = self.post.call(&self.agent, &place.id, call).await;
        let turn = self.posted(&place, posted).await?;
        let result = self.followed(&place.id, &turn, place.tail, signs).await?;
        if signs.is_given_up() {
            // What the client takes back is not for others to wait for. It may have ended meanwhile.
            let _ = self.agent.conversation(&place.id).of_turn(turn).cancel().await;
        }
        Ok(result)
    }

    pub(super) async fn wait(
        &self,
        arguments: &Map<String, Value>,
        signs: &Signs<'_>,
    ) -> Result<CallToolResult, Unmet> {
        let id = conversation_of(arguments)?;
        let turn = TurnId::parse(text_of(arguments, "turn").unwrap_or_default()).map_err(Unmet::new)?;
        let status = self.agent.conversation(&id).turn_status(&turn).await;
        if status.map_err(Unmet::new)?.is_none() {
            return Err(Unmet(format!("conversation `{id}` has no turn `{turn}`")));
        }
        let tail = self.agent.timeline(&id).await.map_err(Unmet::new)?.tail();
        self.followed(&id, &turn, tail, signs).await
    }

    /// The conversation that the arguments name, or a new one.
    async fn place(&self, arguments: &Map<String, Value>, title: String) -> Result<Place, Unmet> {
        if arguments.contains_key("conversation") {
            let id = conversation_of(arguments)?;
            let tail = self.agent.timeline(&id).await.map_err(Unmet::new)?.tail();
            return Ok(Place {
                id,
                tail,
                is_new: false,
            });
        }
        let id = self.agent.world().conversation_id();
        let made = self.agent.create_conversation(&id, Some(title), None).await;
        made.map_err(Unmet::new)?;
        Ok(Place {
            id,
            tail: None,
            is_new: true,
        })
    }

    /// The turn that was posted. A conversation that was made for one that was refused is not left behind.
    async fn posted(&self, place: &Place, posted: Result<TurnId, String>) -> Result<TurnId, Unmet> {
        if posted.is_err()
            && place.is_new
            && let Err(error) = self.agent.delete_conversation(&place.id).await
        {
            tracing::debug!(%error, "an empty conversation stays");
        }
        posted.map_err(Unmet)
    }

    /// Waits until the turn has ended, asks a person something that no client was told of, or has taken too long for the
    /// client.
    async fn followed(
        &self,
        id: &ConversationId,
        turn: &TurnId,
        after: Option<Seq>,
        signs: &Signs<'_>,
    ) -> Result<CallToolResult, Unmet> {
        // Subscribed before the look, so that nothing falls in between.
        let mut watched = self.agent.subscribe(id, after).await.map_err(Unmet::new)?;
        let limit = tokio::time::sleep(self.answer_wait);
        tokio::pin!(limit);
        let mut count = 0;
        let mut is_over = false;
        loop {
            let timeline = self.agent.timeline(id).await.map_err(Unmet::new)?;
            let state = State::of(&timeline, turn);
            let is_news = match state {
                State::Running => false,
                State::Waiting => timeline
                    .waiting()
                    .any(|request| !self.asked.knows(id, &request.id)),
                State::Ended => true,
            };
            if is_news || is_over {
                let mut result = told(&timeline, id, turn, state);
                if state == State::Waiting {
                    timeline
                        .waiting()
                        .for_each(|request| self.asked.keep(id, &request.id));
                    if let Some(decided) = &self.decided {
                        decided.watch(&self.agent, id, turn);
                    }
                }
                if state == State::Ended {
                    let files = look::files(&timeline, id, turn);
                    result.content.extend(self.seen_and_heard(id, &files).await);
                }
                return Ok(result);
            }
            drop(timeline);
            // Only these change how far it has come; requests are settled by what comes after them.
            let changes = [
                BlockKind::ReactCompletion,
                BlockKind::ApprovalRequest,
                BlockKind::InputRequest,
            ];
            loop {
                let update = tokio::select! {
                    biased;
                    () = signs.given_up() => { is_over = true; break }
                    () = &mut limit => { is_over = true; break }
                    update = watched.next() => update.map_err(Unmet::new)?,
                };
                match update {
                    Update::Block(block) if block.turn == *turn => {
                        count += 1;
                        signs.give(count, block.kind.to_string()).await;
                        if changes.contains(&block.kind) {
                            break;
                        }
                    }
                    Update::ToolStarted { tool, .. } => {
                        count += 1;
                        signs.give(count, text::one_line(&tool, 120)).await;
                    }
                    _ => {}
                }
            }
        }
    }
}
