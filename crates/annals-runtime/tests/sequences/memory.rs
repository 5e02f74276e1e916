//! Searching what earlier turns said.

use serde_json::json;

use crate::common::{Bench, shape, texts, turn};

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
