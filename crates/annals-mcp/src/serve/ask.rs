//! A question to the agent, and waiting for its answer: posted like any other prompt, so that it outlives the client.

use annals_core::block::BlockKind;
use annals_core::ids::{ConversationId, Seq, TurnId};
use annals_core::timeline::Timeline;
use annals_runtime::Update;
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Map, Value, json};

use super::offer::{conversation_of, text_of};
use super::{AnnalsServer, Signs, Unmet, look};

/// A conversation's title is the beginning of its first question.
const TITLE_MAX_CHARS: usize = 60;

/// How far a turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    /// For a person to decide something.
    Waiting,
    Ended,
}

impl State {
    fn as_str(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Waiting => "waiting",
            State::Ended => "ended",
        }
    }
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
        let id = match arguments.contains_key("conversation") {
            true => conversation_of(arguments)?,
            false => {
                let title: String = prompt.chars().take(TITLE_MAX_CHARS).collect();
                let session = self.agent.new_session(Some(title)).await.map_err(Unmet::new)?;
                session.id().clone()
            }
        };
        let before = self.agent.timeline(&id).await.map_err(Unmet::new)?.tail();
        let posted = self.post.post(&self.agent, &id, prompt.to_owned()).await;
        let turn = posted.map_err(Unmet)?;
        self.followed(&id, &turn, before, signs).await
    }

    pub(super) async fn wait(
        &self,
        arguments: &Map<String, Value>,
        signs: &Signs<'_>,
    ) -> Result<CallToolResult, Unmet> {
        let id = conversation_of(arguments)?;
        let turn = TurnId::parse(text_of(arguments, "turn").unwrap_or_default()).map_err(Unmet::new)?;
        self.followed(&id, &turn, None, signs).await
    }

    /// Waits until the turn has ended, needs a person, or has taken too long for the client.
    async fn followed(
        &self,
        id: &ConversationId,
        turn: &TurnId,
        after: Option<Seq>,
        signs: &Signs<'_>,
    ) -> Result<CallToolResult, Unmet> {
        let mut watched = self.agent.subscribe(id, after).await.map_err(Unmet::new)?;
        let limit = tokio::time::sleep(self.answer_wait);
        tokio::pin!(limit);
        let mut count = 0;
        let state = loop {
            let update = tokio::select! {
                biased;
                () = signs.given_up() => break State::Running,
                () = &mut limit => break State::Running,
                update = watched.next() => update.map_err(Unmet::new)?,
            };
            match update {
                Update::Block(block) if block.turn == *turn => match &block.kind {
                    BlockKind::ReactCompletion => break State::Ended,
                    BlockKind::ApprovalRequest | BlockKind::InputRequest => break State::Waiting,
                    kind => {
                        count += 1;
                        signs.give(count, kind.to_string()).await;
                    }
                },
                Update::ToolStarted { tool, .. } => {
                    count += 1;
                    signs.give(count, tool).await;
                }
                _ => {}
            }
        };
        let timeline = self.agent.timeline(id).await.map_err(Unmet::new)?;
        Ok(told(&timeline, id, turn, state))
    }
}

/// What is known of the turn, as text and as structured content.
fn told(timeline: &Timeline, id: &ConversationId, turn: &TurnId, state: State) -> CallToolResult {
    let blocks = timeline
        .turn(turn)
        .map_or(&[][..], |turn| timeline.turn_blocks(turn));
    let last = |kinds: &[BlockKind]| blocks.iter().rev().find(|block| kinds.contains(&block.kind));
    let answer = last(&[BlockKind::AssistantCompletion, BlockKind::StageClarification]);
    let answer = answer.and_then(|block| block.text()).unwrap_or_default();
    let report = timeline.turn(turn).and_then(|turn| timeline.report(turn));
    let files = look::files(timeline, id, turn);
    let mut value = json!({"conversation": id, "turn": turn, "state": state.as_str()});
    if state == State::Ended {
        value["answer"] = json!(answer);
        value["files"] = json!(files.iter().map(look::File::as_json).collect::<Vec<_>>());
        if let Some(report) = &report {
            value["outcome"] = json!(report.outcome);
        }
    }
    let words = match state {
        State::Ended => answer.to_owned(),
        State::Running => format!("turn `{turn}` of conversation `{id}` still runs: call annals_wait"),
        State::Waiting => format!("turn `{turn}` of conversation `{id}` waits for a person to decide"),
    };
    let is_success = report.as_ref().is_none_or(|report| report.outcome.is_success());
    let mut content = vec![ContentBlock::text(words)];
    content.extend(files.iter().map(look::File::as_link));
    let mut result = match state != State::Ended || is_success {
        true => CallToolResult::success(content),
        false => CallToolResult::error(content),
    };
    result.structured_content = Some(value);
    result
}
