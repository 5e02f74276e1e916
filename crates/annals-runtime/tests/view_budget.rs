//! What the model sees stays within its window and tells the truth, through the whole loop.

mod common;

use std::sync::Arc;

use annals_core::ids::TurnId;
use annals_core::sources::SourceRow;
use annals_core::turn::TurnEnd;
use annals_core::turn::outcome::{Outcome, Output, Payload};
use annals_core::view::Layout;
use annals_runtime::{Attachment, BuildError, TurnRequest};
use annals_tools::{Tool, ToolCx, ToolSpec};
use async_trait::async_trait;
use common::{Bench, shape, texts, turn, types};
use serde_json::{Value, json};

/// Finds ten thousand pages at once.
struct Finds(ToolSpec);

#[async_trait]
impl Tool for Finds {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn run(&self, _cx: &ToolCx, _args: Value) -> Outcome {
        let row = |n: u32| {
            let url = format!("https://host-{n}.example.org/page");
            SourceRow::web(
                &url,
                &format!("Page {n} on a subject of some length"),
                &"text ".repeat(100),
            )
        };
        Outcome {
            output: Output::Payload(Payload::markdown("found")),
            sources: (1..=10_000).map(row).collect(),
            ..Outcome::default()
        }
    }
}

fn finds() -> Arc<dyn Tool> {
    let spec = ToolSpec::builder("finds")
        .description("finds pages")
        .build()
        .unwrap();
    Arc::new(Finds(spec))
}

#[tokio::test]
async fn a_conversation_with_ten_thousand_sources_still_answers_in_a_small_window() {
    let bench = Bench::new();
    let script = json!({"steps": [
        {"tool_calls": [{"id": "f", "tool": "finds", "params": {}}]},
        {"expect": ["10000 | Page 10000", "more: react.read(so:sources_pool[1-"], "text": "See [[S:7]]"},
        {"expect": ["\n7 | Page 7 on a subject of some length | host-7.example.org"],
            "tool_calls": [{"id": "r", "tool": "react.read", "params": {"paths": ["so:sources_pool[1-60]"]}}]},
        {"expect": ["60 rows: sid | title | url"], "text": "Done"}
    ]});
    let agent = bench
        .builder(script)
        .tools([finds()])
        .context_tokens(16_000)
        .build()
        .await
        .unwrap();
    let session = turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Find").await;
    let session = turn(&agent, session, "turn_2", "Again").await;
    assert_eq!(session.outcome(), Some(TurnEnd::Complete), "{}", shape(&session));
}

#[tokio::test]
async fn a_window_that_holds_no_prompt_is_an_error_before_the_first_request() {
    let built = Bench::new()
        .builder(json!({"steps": []}))
        .context_tokens(1_000)
        .build()
        .await;
    let Err(error @ BuildError::Window(_)) = built else {
        panic!("an agent that can never ask was built")
    };
    assert!(
        error
            .to_string()
            .starts_with("a window of 1000 tokens is too small: the instructions take ")
    );
}

#[tokio::test]
async fn a_prompt_longer_than_the_window_is_told_before_it_is_sent() {
    let bench = Bench::new();
    let agent = bench
        .builder(json!({"steps": [{"text": "never asked"}]}))
        .context_tokens(16_000)
        .build()
        .await
        .unwrap();
    let session = agent.session("c").await.unwrap();
    let session = turn(&agent, session, "turn_1", &"many words ".repeat(20_000)).await;
    assert_eq!(session.outcome(), Some(TurnEnd::ModelError));
    let report = texts(&session, "react.completion").pop().unwrap();
    assert!(
        report.contains("context_limit: the smallest prompt of this turn takes "),
        "{report}"
    );
}

#[tokio::test]
async fn text_attachments_of_every_kind_come_with_their_content() {
    let bench = Bench::new();
    let agent = bench
        .agent(json!([{"expect": ["name = \"x\"", "{\"row\": 1}", "select 1", "a: 1"], "text": "ok"}]))
        .await;
    let session = agent.session("c").await.unwrap();
    let files = [
        ("Cargo.toml", "name = \"x\"\n"),
        ("rows.jsonl", "{\"row\": 1}\n"),
        ("q.sql", "select 1\n"),
        ("c.yaml", "a: 1\n"),
    ];
    let request = files.into_iter().fold(
        TurnRequest::new("look").turn_id(TurnId::parse("turn_1").unwrap()),
        |request, (name, text)| request.attach(Attachment::new(name, text)),
    );
    let session = agent.run(session, request).await.unwrap().into_session();
    assert_eq!(session.outcome(), Some(TurnEnd::Complete), "{}", shape(&session));
}

#[tokio::test]
async fn an_id_of_an_earlier_turn_is_no_fault_of_the_model() {
    let bench = Bench::new();
    let read = json!({"tool_calls": [{"id": "call_0", "tool": "react.read", "params": {"paths": ["ar:turn_1.user.prompt"]}}]});
    let agent = bench
        .agent(json!([read, {"text": "one"}, read, {"expect": ["[TOOL RESULT call_0-2]"], "text": "two"}]))
        .await;
    let session = turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Do it").await;
    let session = turn(&agent, session, "turn_2", "Again").await;
    assert_eq!(session.outcome(), Some(TurnEnd::Complete), "{}", shape(&session));
    assert!(
        !types(&session).contains(&"react.notice".to_owned()),
        "{}",
        shape(&session)
    );
}

#[tokio::test]
async fn a_call_written_wrongly_in_text_is_told_and_never_becomes_the_answer() {
    let bench = Bench::new();
    let script = json!({"steps": [
        {"text": "```tool_call\n{\"tool\": \"react.read\", \"params\": {paths: 1}}\n```"},
        {"text": "[TOOL CALL x].call react.read\nParams:\n{}", "expect": ["protocol_violation.invalid_tool_arguments"]},
        {"text": "Sorry. Done.", "expect": ["protocol_violation."]}
    ]});
    let agent = bench
        .builder(script)
        .layout(Layout::Timeline)
        .build()
        .await
        .unwrap();
    let session = turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Do it").await;
    assert_eq!(session.answer(), "Sorry. Done.", "{}", shape(&session));
    assert!(
        agent
            .system_message()
            .contains("```tool_call\n{\"tool\": \"<name>\"")
    );
    assert!(agent.system_message().contains("\n## react.read\n"));
}

/// A model that cannot call tools writes its calls as text; everything else is the same.
#[test]
fn every_sequence_is_the_same_in_the_timeline_layout() {
    annals_requirements::again_in_the_timeline_layout(&[]);
}
