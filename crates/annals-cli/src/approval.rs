//! Asking in place: what a call wants to do, and what the person at the terminal says.

use std::io::{BufRead as _, IsTerminal as _};

use annals::Session;
use annals::core::block::payload::CallText;
use annals::core::block::{Block, BlockKind};
use annals::core::ids::RequestId;
use annals::core::path::LogicalPath;
use annals::core::timeline::{Ask, Request};
use annals::runtime::{
    ApprovalDecision, ApprovalRequest, ClientFunction, ConversationHandle, Decision, InputRequest, Listen,
    RunError, Update,
};
use annals::tools::content;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use serde_json::{Map, Value};
use tokio::sync::mpsc::UnboundedSender;

use crate::args::ApprovalsArg;
use crate::failure::Failure;
use crate::paint::{self, BOLD, DIM, GOOD, WARN, styled};
use crate::screen_text::ScreenText;
use crate::shown;

/// Lines of a document or patch that are shown beside the question.
const SHOWN_MAX_LINES: usize = 40;

const KEYS: &str =
    "[a]llow once  [c]onversation  [A]lways  [d]eny  [s]top the turn; words after the letter go to the model";

/// What to do about questions when nobody said it: there must be somebody to read and to type.
pub(crate) fn by_default(json: bool) -> ApprovalsArg {
    let is_person_there = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    match is_person_there && !json {
        true => ApprovalsArg::Ask,
        false => ApprovalsArg::Deny,
    }
}

/// What a person is asked.
pub(crate) enum Asked {
    /// Whether a call may run.
    Approval(ApprovalRequest),
    /// What a call wants to know.
    Input(InputRequest),
}

impl Asked {
    /// What a request asks of a person; a function of the client's is none.
    pub(crate) fn of(request: &Request) -> Option<Self> {
        match &request.ask {
            Ask::Approval { request, .. } => Some(Asked::Approval((**request).clone())),
            Ask::Input { request, .. } => Self::input((**request).clone()),
            _ => None,
        }
    }

    /// Names the request.
    pub(crate) fn id(&self) -> &RequestId {
        match self {
            Asked::Approval(request) => &request.approval_id,
            Asked::Input(request) => &request.input_id,
        }
    }

    fn of_block(block: &Block) -> Option<Self> {
        match block.kind {
            BlockKind::ApprovalRequest => block.payload().ok().map(Asked::Approval),
            BlockKind::InputRequest => block.payload().ok().and_then(Self::input),
            _ => None,
        }
    }

    fn input(request: InputRequest) -> Option<Self> {
        (!ClientFunction::performs(&request.tool)).then_some(Asked::Input(request))
    }
}

/// A listener that also passes on what a person is asked.
pub(crate) struct Questions<L> {
    pub(crate) listener: L,
    pub(crate) asks: UnboundedSender<Asked>,
}

impl<L: Listen> Listen for Questions<L> {
    fn on(&self, update: Update) {
        let asked = match &update {
            Update::Block(block) => Asked::of_block(block),
            _ => None,
        };
        self.listener.on(update);
        if let Some(asked) = asked {
            // Without anybody to answer, the turn waits all the same.
            let _ = self.asks.send(asked);
        }
    }
}

/// Longer files are not compared with what a call would make of them.
const COMPARED_MAX_BYTES: usize = 256 * 1024;

/// What a call wants, as people read it. What it would write is shown as a difference to `present`, if that is known.
pub(crate) fn described(
    request: &ApprovalRequest,
    params: Option<&Map<String, Value>>,
    present: Option<&str>,
) -> ScreenText {
    let mut out = ScreenText::default();
    if let Some(known_as) = &request.known_as {
        out.push(shown!(
            "  {} {}\n",
            styled(DIM, "its own name"),
            known_as.as_str()
        ));
    }
    for name in ["command", "path", "host", "effect"] {
        if let Some(value) = request.facets.get(name) {
            out.push(shown!("  {} {}\n", styled(DIM, name), value_text(value)));
        }
    }
    let given = |name: &str| params.and_then(|params| params.get(name)).and_then(Value::as_str);
    if let Some(patch) = given("patch") {
        push_lines(&mut out, patch);
    }
    match (given("content"), present) {
        (Some(content), Some(present)) => {
            let changes = similar::TextDiff::from_lines(present, content);
            push_lines(&mut out, &changes.unified_diff().context_radius(3).to_string());
        }
        (Some(content), None) => {
            let added: Vec<String> = content.lines().map(|line| format!("+ {line}")).collect();
            push_lines(&mut out, &added.join("\n"));
        }
        (None, _) => {}
    }
    if let Some(why) = request.why.as_ref().or(request.rule.as_ref()) {
        out.push(shown!("  {} {}\n", styled(DIM, "asked because"), why.clone()));
    }
    if let Some(expires) = request.expires {
        out.push(shown!("  {}\n", styled(DIM, format!("until {expires}"))));
    }
    out
}

/// The first lines of a difference, in its colours.
fn push_lines(out: &mut ScreenText, text: &str) {
    for line in text.lines().take(SHOWN_MAX_LINES) {
        let style = match line.as_bytes().first() {
            Some(b'+') => GOOD,
            Some(b'-') => WARN,
            _ => DIM,
        };
        out.push(shown!("  {}\n", styled(style, line.to_owned())));
    }
    let left = text.lines().count().saturating_sub(SHOWN_MAX_LINES);
    if left > 0 {
        out.push(shown!("  {}\n", styled(DIM, format!("… {left} more lines"))));
    }
}

/// The text of the file that a call would write, as it is now.
async fn present(session: &Session, request: &ApprovalRequest) -> Option<String> {
    let path = match request.facets.get("path")? {
        Value::String(path) => path,
        Value::Array(paths) => paths.first()?.as_str()?,
        _ => return None,
    };
    let path = LogicalPath::parse(path).ok()?;
    let whole = content::whole(session.cx(), &path, None).await.ok()?;
    let text = String::from_utf8(whole.bytes).ok()?;
    (text.len() <= COMPARED_MAX_BYTES).then_some(text)
}

fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let texts: Vec<String> = items.iter().map(value_text).collect();
            texts.join(", ")
        }
        other => other.to_string(),
    }
}

/// Asks the person at the terminal, and passes the answer on.
pub(crate) async fn ask(
    session: &Session,
    conversation: &ConversationHandle,
    request: ApprovalRequest,
) -> Result<(), Failure> {
    let params = session.timeline(|timeline| {
        let block = timeline.call_block(&request.call_id)?;
        let text = CallText::parse(block.text()?)?;
        serde_json::from_str::<Map<String, Value>>(text.params.get()).ok()
    });
    paint::say(shown!(
        "{} {}",
        styled(WARN, "may this run?"),
        styled(BOLD, request.tool.clone())
    ));
    let present = present(session, &request).await;
    paint::say(described(&request, params.as_ref(), present.as_deref()));
    if let Some(rules) = &request.proposed_rule {
        paint::say(styled(DIM, format!("\"always\" writes:\n{rules}")));
    }
    let answered = tokio::task::spawn_blocking(read_answer).await;
    let (decision, note) = answered.map_err(Failure::environment)?;
    let decided = ApprovalDecision {
        approval_id: request.approval_id,
        decision,
        by: "person".to_owned(),
        via: "chat".to_owned(),
        edited_args: None,
        note,
    };
    match conversation.decide(decided).await {
        Err(RunError::NothingToDecide(_)) => {
            paint::say("somebody else has decided meanwhile, or the turn has ended");
            Ok(())
        }
        decided => Ok(decided?),
    }
}

/// Reads lines until one is an answer. The end of the input denies, and so does Ctrl-C, which also ends the turn.
fn read_answer() -> (Decision, Option<String>) {
    paint::say(styled(DIM, KEYS));
    loop {
        match read_line() {
            Ok(Some(line)) => {
                if let Some(answer) = parse(&line) {
                    return answer;
                }
                paint::say(styled(DIM, KEYS));
            }
            Ok(None) => return (Decision::Deny, Some("nobody answered".to_owned())),
            Err(Stopped) => return (Decision::DenyAndStop, None),
        }
    }
}

/// Ctrl-C.
pub(crate) struct Stopped;

/// A line of the person's; none at the end of the input.
pub(crate) fn read_line() -> Result<Option<String>, Stopped> {
    if !std::io::stdin().is_terminal() {
        return Ok(std::io::stdin().lock().lines().next().and_then(Result::ok));
    }
    let Ok(mut editor) = DefaultEditor::new() else {
        return Ok(None);
    };
    match editor.readline("? ") {
        Ok(line) => Ok(Some(line)),
        Err(ReadlineError::Interrupted) => Err(Stopped),
        Err(_) => Ok(None),
    }
}

/// A letter, and words for the model after it.
fn parse(line: &str) -> Option<(Decision, Option<String>)> {
    let line = line.trim();
    let (key, note) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let decision = match key {
        "a" | "y" | "yes" | "allow" => Decision::Once,
        "c" | "conversation" => Decision::Conversation,
        "A" | "always" => Decision::Always,
        "d" | "n" | "no" | "deny" => Decision::Deny,
        "s" | "stop" => Decision::DenyAndStop,
        _ => return None,
    };
    let note = note.trim();
    Some((decision, (!note.is_empty()).then(|| note.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_written_is_shown_as_a_difference_to_what_is_there() {
        let request: ApprovalRequest = serde_json::from_value(serde_json::json!({
            "approval_id": "turn_1.tc_1.1", "call_id": "tc_1", "tool": "react.write", "facets": {},
            "args_digest": annals::core::block::BlobDigest::of(b""),
        }))
        .unwrap();
        let params = serde_json::json!({"path": "a.md", "content": "one\n2\nthree\n"});
        let shown = |present| {
            described(&request, params.as_object(), present)
                .as_str()
                .to_owned()
        };
        let changed = shown(Some("one\ntwo\nthree\n"));
        assert!(
            changed.contains("-two") && changed.contains("+2") && !changed.contains("+one"),
            "{changed}"
        );
        assert!(shown(None).contains("+ one"), "a new file is all new");
    }

    #[test]
    fn an_answer_is_a_letter_and_the_case_of_a_counts() {
        assert_eq!(parse("a"), Some((Decision::Once, None)));
        assert_eq!(parse(" A "), Some((Decision::Always, None)));
        assert_eq!(parse("c"), Some((Decision::Conversation, None)));
        assert_eq!(
            parse("d use staging"),
            Some((Decision::Deny, Some("use staging".into())))
        );
        assert_eq!(parse("s"), Some((Decision::DenyAndStop, None)));
        for line in ["", "x", "D", "allways", "sure"] {
            assert_eq!(parse(line), None, "`{line}`");
        }
    }
}
