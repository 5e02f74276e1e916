//! The react tools: write, patch, hide, read, plan, clarify, search.

use serde_json::json;

use crate::common::{Bench, shape, turn, turn_shape};

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
async fn stream_and_file_are_write_and_a_search_finds_what_they_wrote() {
    let session = Bench::new()
        .run(json!([
            {"text": "Two files", "tool_calls": [
                {"id": "s", "tool": "react.stream", "params": {
                    "path": "a.md", "channel": "timeline_text", "content": "# Streamed\n\nneedle in a page\n", "kind": "display"}},
                {"id": "f", "tool": "react.file", "params": {"path": "data/b.json", "content": "{\"needle\": true, \"n\": 1}\n"}}]},
            {"tool_calls": [{"id": "q", "tool": "react.search_files", "params": {"name_regex": "\\.md$|\\.json$", "content_regex": "needle"}}]},
            {"tool_calls": [{"id": "q2", "tool": "react.search_files", "params": {"name_regex": "("}}]},
            {"expect": ["fi:turn_1.files/data/b.json"], "text": "Found"}
        ]))
        .await;
    insta::assert_snapshot!(turn_shape(&session, "turn_1", &[]));
}

#[tokio::test]
async fn paths_of_other_turns_are_rewritten_and_a_patched_file_of_an_earlier_turn_is_copied() {
    let bench = Bench::new();
    let agent = bench
        .agent(json!([
            {"tool_calls": [{"id": "w", "tool": "react.write",
                "params": {"path": "plan.md", "channel": "canvas", "content": "one\ntwo\nthree\n", "kind": "file"}}]},
            {"text": "Written"},
            {"text": "Revising", "tool_calls": [{"id": "p", "tool": "react.patch",
                "params": {"path": "turn_1/files/plan.md", "channel": "canvas", "patch": "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n", "kind": "file"}}]},
            {"tool_calls": [{"id": "r", "tool": "react.patch",
                "params": {"path": "plan.md", "channel": "canvas", "patch": "all of it is new now\n", "kind": "display"}}]},
            {"tool_calls": [{"id": "m", "tool": "react.patch",
                "params": {"path": "plan.md", "channel": "canvas", "patch": "@@ -1,1 +1,1 @@\n-never there\n+x\n", "kind": "file"}}]},
            {"tool_calls": [{"id": "w2", "tool": "react.write",
                "params": {"path": "turn_1/files/copy.md", "channel": "canvas", "content": "meant for the first turn\n", "kind": "file"}}]},
            {"text": "Revised"}
        ]))
        .await;
    let session = turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Plan").await;
    let session = turn(&agent, session, "turn_2", "Revise").await;
    insta::assert_snapshot!(turn_shape(&session, "turn_2", &[]));
    let old = bench.home.path().join("workspace/c/turn_1/files/plan.md");
    assert_eq!(std::fs::read_to_string(old).unwrap(), "one\ntwo\nthree\n");
}

#[tokio::test]
async fn a_file_that_cannot_be_hosted_or_is_empty_is_told_and_nothing_is_lost() {
    let bench = Bench::new();
    let agent = bench
        .agent(json!([
            {"tool_calls": [{"id": "w", "tool": "react.write",
                "params": {"path": "a.md", "channel": "canvas", "content": "kept on disk and in the block\n", "kind": "file"}}]},
            {"tool_calls": [{"id": "e", "tool": "react.write",
                "params": {"path": "empty.md", "channel": "canvas", "content": "", "kind": "file"}}]},
            {"tool_calls": [{"id": "n", "tool": "react.write",
                "params": {"path": "note.md", "channel": "internal", "content": "[D] remember the budget of the year\n", "kind": "file"}}]},
            {"text": "Kept"}
        ]))
        .await;
    let session = agent.session("c").await.unwrap();
    let store = bench.home.path().join("artifacts");
    std::fs::remove_dir_all(&store).unwrap();
    std::fs::write(&store, "not a folder").unwrap();
    let session = turn(&agent, session, "turn_1", "Write").await;
    insta::assert_snapshot!(turn_shape(&session, "turn_1", &[]));
}

#[tokio::test]
async fn what_the_provider_has_cached_is_not_hidden() {
    let write = |id: &str| {
        json!({"tool_calls": [{"id": id, "tool": "react.write", "params": {
            "path": format!("{id}.md"), "channel": "canvas", "content": format!("the content of {id}\n"), "kind": "display"}}]})
    };
    let hide = |id: &str, path: &str| {
        json!({"tool_calls": [{"id": id, "tool": "react.hide",
            "params": {"path": path, "replacement": "seen"}}]})
    };
    let session = Bench::new()
        .run(json!([
            write("w1"), write("w2"), write("w3"), write("w4"), write("w5"), write("w6"),
            hide("h1", "fi:turn_1.files/w1.md"),
            hide("h2", "fi:turn_1.files/w6.md"),
            hide("h3", "fi:turn_1.files/none.md"),
            {"expect": ["the content of w1", "HIDDEN — seen. Retrieve with react.read(fi:turn_1.files/w6.md)"], "text": "So be it"}
        ]))
        .await;
    let shape = turn_shape(&session, "turn_1", &[]);
    let is_hide = |line: &&str| {
        [".h1.", ".h2.", ".h3.", ".hide."]
            .iter()
            .any(|part| line.contains(part))
    };
    let hides: Vec<&str> = shape.lines().filter(is_hide).collect();
    insta::assert_snapshot!(hides.join("\n"));
}
