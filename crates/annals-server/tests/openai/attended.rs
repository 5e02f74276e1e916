//! A chat client shows no approvals: what a person would have to allow is denied, unless the client says that somebody looks
//! at them elsewhere.

use annals_runtime::{Ask, HookCx, Hooks, Verdict};
use annals_tools::ToolSpec;
use reqwest::Method;
use serde_json::{Value, json};

use crate::common::{Gate, Running, options};

struct Asks;

#[async_trait::async_trait]
impl Hooks for Asks {
    async fn before_call(&self, _: &HookCx, tool: &ToolSpec, _: &Value) -> Verdict {
        match tool.name().as_str() {
            "wait" => Verdict::Ask(Ask::default()),
            _ => Verdict::Allow,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_denied_for_a_client_alone_and_waits_where_somebody_looks() {
    let gate = Gate::default();
    gate.go.notify_one();
    let wait = json!({"tool_calls": [{"tool": "wait", "params": {}}]});
    let steps = json!([wait, {"text": "Without it"}, wait, {"text": "With it"}]);
    let server = Running::with(steps, options(), |builder| builder.tool(gate.tool()).hooks(Asks)).await;
    let request = |text: &str| {
        let body = json!({"messages": [{"role": "user", "content": text}]});
        server.request(Method::POST, "/v1/chat/completions").json(&body)
    };
    let said = async |answer: reqwest::Response| -> Value {
        let answer: Value = answer.json().await.unwrap();
        answer["choices"][0]["message"]["content"].clone()
    };
    let alone = request("one").send().await.unwrap();
    assert_eq!(said(alone).await, "Without it");

    let attended = tokio::spawn(request("two").header("x-annals-attended", "true").send());
    let waiting = loop {
        let waiting = server.get_json("/v1/approvals").await;
        if let Some(first) = waiting["items"].as_array().and_then(|items| items.first()) {
            break first.clone();
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    let (c, id) = (
        waiting["conversation"].as_str().unwrap(),
        waiting["approval_id"].as_str().unwrap(),
    );
    let path = format!("/v1/conversations/{c}/approvals/{id}");
    server.post_json(&path, &json!({"decision": "once"})).await;
    assert_eq!(said(attended.await.unwrap().unwrap()).await, "With it");
}
