//! What a client is told of a turn: how far it has come, what it waits for, what came of it.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use annals_core::block::BlockKind;
use annals_core::ids::{ConversationId, RequestId, TurnId};
use annals_core::timeline::{Ask, Request, Timeline};
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};

use super::look;
use crate::text;

/// Requests that are remembered as told.
const TOLD_MAX: usize = 1_000;

/// How far a turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Or it has not begun.
    Running,
    /// For a person to decide something.
    Waiting,
    Ended,
}

impl State {
    /// As the fold says: what a turn asked and somebody has answered keeps nobody waiting.
    pub(super) fn of(timeline: &Timeline, turn: &TurnId) -> Self {
        let is_last = timeline.current_turn().is_some_and(|last| last.id == *turn);
        match timeline.turn(turn) {
            Some(turn) if turn.end.is_some() => State::Ended,
            Some(_) if is_last && timeline.waiting().next().is_some() => State::Waiting,
            _ => State::Running,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Waiting => "waiting",
            State::Ended => "ended",
        }
    }
}

/// Requests that clients were told of, the latest of them: who waits on is not told the same at once again, and so does not ask
/// without end.
#[derive(Default)]
pub(super) struct ToldRequests(Mutex<VecDeque<(ConversationId, RequestId)>>);

impl ToldRequests {
    pub(super) fn knows(&self, id: &ConversationId, request: &RequestId) -> bool {
        self.list()
            .iter()
            .any(|known| known.0 == *id && known.1 == *request)
    }

    pub(super) fn keep(&self, id: &ConversationId, request: &RequestId) {
        if self.knows(id, request) {
            return;
        }
        let mut list = self.list();
        if list.len() >= TOLD_MAX {
            list.pop_front();
        }
        list.push_back((id.clone(), request.clone()));
    }

    fn list(&self) -> MutexGuard<'_, VecDeque<(ConversationId, RequestId)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What came of a turn.
enum Yield {
    /// The answer to a prompt.
    Answer(String),
    /// The result of one call.
    Result { text: String, error: Option<String> },
}

impl Yield {
    fn of(timeline: &Timeline, turn: &TurnId) -> Self {
        let found = timeline.turn(turn);
        let blocks = found.map_or(&[][..], |turn| timeline.turn_blocks(turn));
        if found.is_some_and(|turn| turn.prompt.is_none()) {
            let results = blocks.iter().filter(|block| block.kind == BlockKind::ToolResult);
            let error = results.clone().find_map(|block| block.meta().error.as_ref());
            let texts: Vec<&str> = results.filter_map(|block| block.text()).collect();
            return Yield::Result {
                text: texts.join("\n\n"),
                error: error.map(|error| error.code.clone()),
            };
        }
        let is_answer = |kind: &BlockKind| {
            matches!(
                kind,
                BlockKind::AssistantCompletion | BlockKind::StageClarification
            )
        };
        let answer = blocks.iter().rev().find(|block| is_answer(&block.kind));
        Yield::Answer(
            answer
                .and_then(|block| block.text())
                .unwrap_or_default()
                .to_owned(),
        )
    }
}

/// What is known of the turn, as text and as structured content.
pub(super) fn told(timeline: &Timeline, id: &ConversationId, turn: &TurnId, state: State) -> CallToolResult {
    let mut value = json!({"conversation": id, "turn": turn, "state": state.as_str()});
    match state {
        State::Running => {
            let words = format!("turn `{turn}` of conversation `{id}` still runs: call annals_wait");
            succeeded(vec![ContentBlock::text(words)], value)
        }
        State::Waiting => {
            let asked: Vec<Asked> = timeline.waiting().map(Asked::of).collect();
            let lines: Vec<String> = asked.iter().map(Asked::line).collect();
            value["waiting_for"] = asked.iter().map(Asked::as_json).collect();
            let words = format!(
                "turn `{turn}` of conversation `{id}` waits for a person, who decides on the page or with `annals \
                 approvals` and `annals inputs`; then call annals_wait:\n{}",
                lines.join("\n")
            );
            succeeded(vec![ContentBlock::text(words)], value)
        }
        State::Ended => ended(timeline, id, turn, value),
    }
}

fn ended(timeline: &Timeline, id: &ConversationId, turn: &TurnId, mut value: Value) -> CallToolResult {
    let report = timeline.turn(turn).and_then(|turn| timeline.report(turn));
    let files = look::files(timeline, id, turn);
    value["files"] = files.iter().map(look::File::as_json).collect();
    let mut is_success = true;
    if let Some(report) = &report {
        value["outcome"] = json!(report.outcome);
        is_success = report.outcome.is_success();
    }
    let words = match Yield::of(timeline, turn) {
        Yield::Answer(answer) => {
            value["answer"] = json!(answer);
            answer
        }
        Yield::Result { text, error } => {
            value["result"] = json!(text);
            if let Some(code) = error {
                value["error"] = json!(code);
                is_success = false;
            }
            text
        }
    };
    let mut content = vec![ContentBlock::text(words)];
    content.extend(files.iter().map(look::File::as_link));
    match is_success {
        true => succeeded(content, value),
        false => {
            let mut result = CallToolResult::error(content);
            result.structured_content = Some(value);
            result
        }
    }
}

fn succeeded(content: Vec<ContentBlock>, value: Value) -> CallToolResult {
    let mut result = CallToolResult::success(content);
    result.structured_content = Some(value);
    result
}

/// Something that a person is asked, in words that are safe to show.
struct Asked {
    id: String,
    kind: &'static str,
    tool: String,
    about: String,
}

impl Asked {
    fn of(request: &Request) -> Self {
        let (kind, tool, about) = match &request.ask {
            Ask::Approval { request, .. } => ("approval", request.tool.as_str(), request.why.as_deref()),
            Ask::Input { request, .. } => ("input", request.tool.as_str(), Some(request.message.as_str())),
            _ => ("other", "", None),
        };
        Asked {
            id: request.id.to_string(),
            kind,
            tool: text::one_line(tool, 120),
            about: text::one_line(about.unwrap_or_default(), 500),
        }
    }

    fn as_json(&self) -> Value {
        json!({"id": self.id, "kind": self.kind, "tool": self.tool, "about": self.about})
    }

    fn line(&self) -> String {
        format!("{} `{}` of {}: {}", self.kind, self.id, self.tool, self.about)
    }
}

/// The schema of the structured content.
pub(super) fn schema() -> Value {
    let text = json!({"type": "string"});
    let file = json!({
        "type": "object",
        "properties": {"path": text, "uri": text, "media_type": text},
        "required": ["path", "uri", "media_type"],
    });
    let asked = json!({
        "type": "object",
        "properties": {"id": text, "kind": text, "tool": text, "about": text},
        "required": ["id", "kind", "tool", "about"],
    });
    json!({
        "type": "object",
        "properties": {
            "conversation": text,
            "turn": text,
            "state": {"type": "string", "enum": ["running", "waiting", "ended"]},
            "outcome": text,
            "answer": {"type": "string", "description": "Of a prompt that has its answer."},
            "result": {"type": "string", "description": "Of a tool's call that has its result."},
            "error": {"type": "string", "description": "The code of a result that is a failure."},
            "files": {"type": "array", "items": file},
            "waiting_for": {"type": "array", "items": asked, "description": "What a person has to decide."},
        },
        "required": ["conversation", "turn", "state"],
    })
}
