//! Answers that must fit a schema: the text is the JSON and nothing else.

use serde_json::{Value, json};

use crate::common::Running;

fn schema() -> Value {
    json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false})
}

/// A turn that says something beside a call and makes a file before it answers.
fn steps() -> Value {
    json!([
        {"text": "Let me write that down", "tool_calls": [{"tool": "react.write",
            "params": {"path": "n.md", "channel": "canvas", "content": "seven", "kind": "display"}}]},
        {"text": "{\"n\": 7}"},
    ])
}

#[tokio::test]
async fn a_response_format_gives_only_the_json() {
    let server = Running::start(steps()).await;
    let body = json!({"model": "annals", "messages": [{"role": "user", "content": "A number"}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "number", "schema": schema(), "strict": true}}});
    let answer = server.post_json("/v1/chat/completions", &body).await;
    let content = answer["choices"][0]["message"]["content"].as_str().unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(content).unwrap(),
        json!({"n": 7}),
        "{content}"
    );
}

#[tokio::test]
async fn a_text_format_gives_only_the_json() {
    let server = Running::start(steps()).await;
    let body = json!({"model": "annals", "input": "A number",
        "text": {"format": {"type": "json_schema", "name": "number", "schema": schema()}}});
    let answer = server.post_json("/v1/responses", &body).await;
    let items = answer["output"].as_array().unwrap().iter();
    let texts: Vec<&str> = items
        .filter(|item| item["type"] == "message")
        .map(|item| item["content"][0]["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts.len(), 1, "{answer}");
    assert_eq!(serde_json::from_str::<Value>(texts[0]).unwrap(), json!({"n": 7}));
}

#[tokio::test]
async fn a_schema_that_is_none_is_refused() {
    let server = Running::start(json!([])).await;
    let body = json!({"model": "annals", "messages": [{"role": "user", "content": "x"}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "n"}}});
    let response = server.post("/v1/chat/completions", &body).await;
    assert_eq!(response.status(), 400);
    let error: Value = response.json().await.unwrap();
    assert_eq!(error["error"]["param"], "response_format");
}

/// A few kilobytes that ask for 2^40 visits of the answer.
#[tokio::test]
async fn a_schema_that_nobody_could_check_is_refused_by_name() {
    let server = Running::start(json!([{"text": "{}"}])).await;
    let mut definitions = serde_json::Map::new();
    for at in 0..40 {
        let next = json!({"$ref": format!("#/$defs/a{}", at + 1)});
        definitions.insert(format!("a{at}"), json!({"allOf": [next, next]}));
    }
    definitions.insert("a40".into(), json!(false));
    let schema = json!({"$ref": "#/$defs/a0", "$defs": definitions});
    let body = json!({"model": "annals", "messages": [{"role": "user", "content": "x"}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}});
    let response = server.post("/v1/chat/completions", &body).await;
    assert!(response.status().is_client_error(), "{}", response.status());
    let error: Value = response.json().await.unwrap();
    let said = error["error"]["message"].as_str().unwrap();
    assert!(
        said.contains("more than 10000 checks of the same value"),
        "{said}"
    );
}
