//! Tools of a program's own: what their envelopes become.

use std::sync::Arc;

use annals_tools::{DynamicTool, Tool};
use serde_json::{Value, json};

use crate::common::{Bench, turn, turn_shape};

/// A tool that answers every call with the same value.
fn says(name: &str, value: Value) -> Arc<dyn Tool> {
    let body = move |_, _| {
        let value = value.clone();
        async move { Ok(value) }
    };
    Arc::new(DynamicTool::new(name, "Says what it always says", json!({"type": "object"}), body).unwrap())
}

#[tokio::test]
async fn envelopes_are_unwrapped_and_what_is_managed_is_never_shown() {
    let error = json!({"code": "harbour_closed", "message": "there is no pilot today", "where": "pilots", "managed": true});
    let tools = vec![
        says(
            "refuses",
            json!({"ok": false, "error": error, "ret": {"asked": 3}}),
        ),
        says("agrees", json!({"ok": true, "error": null, "ret": {"berth": 7}})),
        says("shrugs", json!({"ok": false})),
        says("speaks", json!("no envelope at all")),
    ];
    let bench = Bench::new();
    let call = |tool: &str| json!({"id": tool, "tool": tool, "params": {}});
    let steps = json!([
        {"text": "Asking all", "tool_calls": [call("refuses"), call("agrees"), call("shrugs"), call("speaks")]},
        {"text": "Asked"}
    ]);
    let agent = bench.agent_with(steps, tools).await;
    let session = turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Ask").await;
    insta::assert_snapshot!(turn_shape(&session, "turn_1", &[]));
}
