//! Timeline shapes of whole turns, from real runs.

mod common;

use common::{Bench, shape, texts, turn};
use serde_json::json;

#[tokio::test]
async fn an_answer_without_tools() {
    let session = Bench::new().run(json!([{"text": "Hello [[S:1]]"}])).await;
    insta::assert_snapshot!(shape(&session));
    assert_eq!(session.answer(), "Hello [[S:1]]");
}

#[tokio::test]
async fn write_then_answer() {
    let session = Bench::new()
        .run(json!([
            {"thinking": "plan it", "text": "Drafting summary", "tool_calls": [{"id": "tc_a1", "tool": "react.write",
                "params": {"path": "report.md", "channel": "canvas", "content": "# Report\n\nAll is well.", "kind": "display"}}]},
            {"expect": ["[TOOL RESULT tc_a1].summary react.write"], "text": "Done"}
        ]))
        .await;
    insta::assert_snapshot!(shape(&session));
}

#[tokio::test]
async fn a_second_write_replaces_the_file_and_a_patch_edits_it() {
    let bench = Bench::new();
    let session = bench
        .run(json!([
            {"tool_calls": [{"id": "w1", "tool": "react.write",
                "params": {"path": "a.md", "channel": "canvas", "content": "one\ntwo\nthree\n", "kind": "file"}}]},
            {"tool_calls": [{"id": "w2", "tool": "react.write",
                "params": {"path": "a.md", "channel": "canvas", "content": "one\n2\nthree\n", "kind": "file"}}]},
            {"tool_calls": [{"id": "p1", "tool": "react.patch",
                "params": {"path": "a.md", "channel": "canvas", "patch": "@@ -1,9 +1,9 @@\n one\n-2\n+two again\n three\n", "kind": "file"}}]},
            {"text": "Patched"}
        ]))
        .await;
    insta::assert_snapshot!(shape(&session));
    let file = bench.home.path().join("workspace/c/turn_1/files/a.md");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "one\ntwo again\nthree\n");
}

#[tokio::test]
async fn plan_acknowledged_in_notes_and_a_hidden_file_read_back() {
    let bench = Bench::new();
    let agent = bench
        .agent(json!([
            {"tool_calls": [{"id": "pl", "tool": "react.plan", "params": {"mode": "new", "steps": ["Write", "Check"]}}]},
            {"text": "✓ [1] written", "tool_calls": [{"id": "w", "tool": "react.write",
                "params": {"path": "notes.txt", "channel": "timeline_text", "content": "secret sauce\n", "kind": "display"}}]},
            {"tool_calls": [{"id": "h", "tool": "react.hide",
                "params": {"path": "fi:turn_1.files/notes.txt", "replacement": "notes on sauce"}}]},
            {"expect": ["HIDDEN — notes on sauce. Retrieve with react.read(fi:turn_1.files/notes.txt)"], "text": "Hidden"},
            {"tool_calls": [{"id": "r", "tool": "react.read", "params": {"paths": ["fi:turn_1.files/notes.txt", "fi:turn_1.files/none"]}}]},
            {"expect": ["secret sauce"], "text": "Read"}
        ]))
        .await;
    let session = turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Do it").await;
    let session = turn(&agent, session, "turn_2", "And now?").await;
    insta::assert_snapshot!(shape(&session));
}

#[tokio::test]
async fn clarify_ends_the_turn_and_the_next_prompt_resolves_it() {
    let bench = Bench::new();
    let agent = bench
        .agent(json!([
            {"tool_calls": [{"id": "q", "tool": "react.clarify", "params": {"questions": ["Which year?"]}}]},
            {"text": "2025 it is"}
        ]))
        .await;
    let session = turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Report").await;
    let session = turn(&agent, session, "turn_2", "2025").await;
    insta::assert_snapshot!(shape(&session));
}

#[tokio::test]
async fn what_an_earlier_turn_said_is_found_and_the_running_turn_is_not() {
    let bench = Bench::new();
    let agent = bench
        .agent(json!([
            {"tool_calls": [{"id": "w", "tool": "react.write",
                "params": {"path": "budget.md", "channel": "canvas", "content": "The pelican project may cost 4,200 euros.\n", "kind": "file"}}]},
            {"text": "Noted"},
            {"tool_calls": [{"id": "m", "tool": "react.memsearch", "params": {"query": "price of the pelican project"}}]},
            {"expect": ["fi:turn_1.files/budget.md", "4,200 euros"], "text": "4,200 euros"},
            {"tool_calls": [{"id": "n", "tool": "react.memsearch", "params": {"query": "pelican", "targets": ["user"], "top_k": 1}}]},
            {"text": "Twice"}
        ]))
        .await;
    let session = turn(
        &agent,
        agent.session("c").await.unwrap(),
        "turn_1",
        "Keep the budget of the pelican project",
    )
    .await;
    let session = turn(&agent, session, "turn_2", "What may the pelican project cost?").await;
    let session = turn(&agent, session, "turn_3", "Who asked?").await;
    insta::assert_snapshot!(shape(&session));
    let found: serde_json::Value = serde_json::from_str(&texts(&session, "react.tool.result")[2]).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&found).unwrap());
}

/// One turn with one call of executed Python, behind the walls.
async fn executed(code: &str, files: &[&str]) -> annals_runtime::Session {
    let contract: Vec<_> = files
        .iter()
        .map(|name| json!({"filename": name, "description": "made"}))
        .collect();
    let bench = Bench::new();
    let builder = bench.builder(json!({"steps": [
        {"text": "Computing", "tool_calls": [{"id": "x", "tool": "exec_tools.execute_code_python",
            "params": {"code": code, "contract": contract}}]},
        {"text": "Done"}
    ]}));
    let sandbox = std::sync::Arc::new(annals_sandbox::Local::new());
    let agent = builder
        .tools(annals_tools::exec::all())
        .sandbox(sandbox)
        .build()
        .await
        .unwrap();
    let session = agent.session("c").await.unwrap();
    turn(&agent, session, "turn_1", "Compute").await
}

const MAKE: &str = "import os\n\
    files = os.path.join(os.environ['OUT_DIR'], 'turn_1', 'files')\n\
    def make(name, data):\n    open(os.path.join(files, name), 'wb').write(data)\n";

#[tokio::test]
async fn code_that_makes_pdf_text_and_excel() {
    let code = format!(
        "{MAKE}make('report.pdf', b'%PDF-1.4\\n' + b'%' * 600 + b'\\n%%EOF\\n')\nmake('notes.txt', b'some notes of the run\\n')\n\
         make('data.xlsx', b'PK\\x03\\x04' + b'\\0' * 600)\n"
    );
    let session = executed(&code, &["report.pdf", "notes.txt", "data.xlsx"]).await;
    insta::assert_snapshot!(shape(&session));
}

#[tokio::test]
async fn code_that_makes_everything_and_then_fails() {
    let code = format!("{MAKE}make('a.txt', b'all that was promised\\n')\nraise SystemExit(3)\n");
    insta::assert_snapshot!(shape(&executed(&code, &["a.txt"]).await));
}

#[tokio::test]
async fn code_that_makes_a_part_without_failing() {
    let code = format!("{MAKE}make('a.txt', b'half of what was promised\\n')\n");
    insta::assert_snapshot!(shape(&executed(&code, &["a.txt", "b.txt"]).await));
}

#[tokio::test]
async fn code_that_makes_a_part_and_then_fails() {
    let code = format!("{MAKE}make('a.txt', b'half of what was promised\\n')\nraise SystemExit(3)\n");
    insta::assert_snapshot!(shape(&executed(&code, &["a.txt", "b.txt"]).await));
}
