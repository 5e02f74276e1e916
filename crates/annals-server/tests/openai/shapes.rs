//! Whatever JSON a client sends, it is answered, and never by a fault of the server.

use reqwest::Method;
use serde_json::{Value, json};

use crate::common::Running;

/// One value of every shape.
fn shapes() -> Vec<Value> {
    vec![
        Value::Null,
        json!(true),
        json!(1),
        json!(-1),
        json!(1e300),
        json!(""),
        json!("x"),
        json!([]),
        json!([1]),
        json!(["x"]),
        json!([{}]),
        json!({}),
        json!({"a": 1}),
        json!({"id": {}, "type": [], "conversation": 1}),
    ]
}

/// Bodies that are right but for one field, or for one field of what is in it.
fn bodies(right: &Value, fields: &[&str]) -> Vec<Value> {
    let mut bodies = Vec::new();
    for field in fields {
        for shape in shapes() {
            let mut body = right.clone();
            match body.pointer_mut(field) {
                Some(place) => *place = shape,
                None => {
                    let name = field.trim_start_matches('/');
                    body.as_object_mut().unwrap().insert(name.to_owned(), shape);
                }
            }
            bodies.push(body);
        }
    }
    bodies.extend(shapes());
    bodies
}

const CHAT_FIELDS: [&str; 19] = [
    "/messages",
    "/messages/0",
    "/messages/0/role",
    "/messages/0/content",
    "/messages/0/content/0",
    "/messages/0/content/0/text",
    "/tools",
    "/tools/0",
    "/tools/0/function",
    "/tools/0/function/name",
    "/tools/0/function/parameters",
    "/tool_choice",
    "/metadata",
    "/stream_options",
    "/response_format",
    "/n",
    "/modalities",
    "/conversation",
    "/model",
];
const RESPONSE_FIELDS: [&str; 21] = [
    "/input",
    "/input/0",
    "/input/0/role",
    "/input/0/content",
    "/metadata",
    "/text",
    "/text/format",
    "/tools",
    "/tools/0",
    "/tools/0/name",
    "/tool_choice",
    "/conversation",
    "/previous_response_id",
    "/instructions",
    "/background",
    "/reasoning",
    "/usage",
    "/output",
    "/id",
    "/object",
    "/status",
];
const TURN_FIELDS: [&str; 5] = [
    "/prompt",
    "/attachments",
    "/attachments/0",
    "/attachments/0/name",
    "/attachments/0/base64",
];

#[tokio::test(flavor = "multi_thread")]
async fn no_shape_of_a_field_is_a_fault_of_the_server() {
    // Without a step left the model fails, which is its fault and said so.
    let server = Running::start(json!([])).await;
    let c = server.new_conversation().await;
    let chat = json!({"model": "annals", "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}], "metadata": {}});
    let response = json!({"input": [{"role": "user", "content": "hi"}], "metadata": {}, "text": {"format": {"type": "text"}},
        "tools": [{"type": "function", "name": "f"}]});
    let routes = [
        ("/v1/chat/completions".to_owned(), chat, CHAT_FIELDS.to_vec()),
        ("/v1/responses".to_owned(), response, RESPONSE_FIELDS.to_vec()),
        (
            format!("/v1/conversations/{c}/turns"),
            json!({"prompt": "hi", "attachments": [{"name": "a", "base64": "eA=="}]}),
            TURN_FIELDS.to_vec(),
        ),
        ("/v1/conversations".to_owned(), json!({}), vec!["/title"]),
        (format!("/v1/conversations/{c}/fork"), json!({}), vec!["/at"]),
        (
            format!("/v1/conversations/{c}/links"),
            json!({"path": "ar:x"}),
            vec!["/path", "/expires_in_seconds"],
        ),
        (
            format!("/v1/conversations/{c}/turns/turn_1/steer"),
            json!({"text": "x"}),
            vec!["/text"],
        ),
        (
            format!("/v1/conversations/{c}/turns/turn_1/feedback"),
            json!({"reaction": "up"}),
            vec!["/reaction", "/text"],
        ),
        (
            format!("/v1/conversations/{c}/approvals/turn_1.c.1"),
            json!({"decision": "once"}),
            vec!["/decision", "/note", "/edited_args"],
        ),
        (
            format!("/v1/conversations/{c}/inputs/turn_1.c.1"),
            json!({}),
            vec!["/action", "/content"],
        ),
    ];
    for (path, right, fields) in routes {
        for body in bodies(&right, &fields) {
            let answer = server.post(&path, &body).await;
            let (status, text) = (answer.status().as_u16(), answer.text().await.unwrap());
            assert!(
                status != 500 && !text.contains("something in the server"),
                "{path} {body}: {status} {text}"
            );
        }
    }
}

#[tokio::test]
async fn metadata_that_is_no_object_is_refused_before_a_turn_begins() {
    let server = Running::start(json!([{"text": "never"}])).await;
    for metadata in [json!("x"), json!([]), json!(1)] {
        let body = json!({"input": "hi", "metadata": metadata});
        let answer = server.post("/v1/responses", &body).await;
        assert_eq!(answer.status(), 400);
        let error: Value = answer.json().await.unwrap();
        assert_eq!(error["error"]["param"], "metadata");
    }
    let listed = server.get_json("/v1/conversations").await;
    assert_eq!(listed["items"], json!([]));
    let answer = server
        .post("/v1/responses", &json!({"input": "hi", "metadata": null}))
        .await;
    assert_eq!(answer.status(), 200);
}

#[tokio::test]
async fn a_stream_too_many_is_refused_before_a_turn_begins() {
    let mut options = crate::common::options();
    options.limits.streams_per_token = 0;
    let server = Running::with(json!([]), options, |builder| builder).await;
    for (path, body) in [
        ("/v1/responses", json!({"input": "hi", "stream": true})),
        (
            "/v1/chat/completions",
            json!({"messages": [{"role": "user", "content": "hi"}], "stream": true}),
        ),
    ] {
        let answer = server
            .request(Method::POST, path)
            .json(&body)
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 429, "{path}");
    }
    let listed = server.get_json("/v1/conversations").await;
    assert_eq!(
        listed["items"],
        json!([]),
        "a client that tries again does not find a turn of its own"
    );
}
