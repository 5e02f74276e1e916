//! Requests of the OpenAI-compatible API that are sent again, and responses that are looked at again.

use reqwest::Method;
use serde_json::{Value, json};

use crate::common::{Gate, Running, options};

async fn send(server: &Running, path: &str, key: &str, body: &Value) -> (u16, bool, Value) {
    let request = server.request(Method::POST, path).header("idempotency-key", key);
    let answer = request.json(body).send().await.unwrap();
    let is_replayed = answer.headers().get("idempotency-replayed").is_some();
    (
        answer.status().as_u16(),
        is_replayed,
        answer.json().await.unwrap(),
    )
}

async fn turns(server: &Running) -> Vec<usize> {
    let listed = server.get_json("/v1/conversations").await;
    let mut turns = Vec::new();
    for conversation in listed["items"].as_array().unwrap() {
        let path = format!(
            "/v1/conversations/{}/blocks?limit=500",
            conversation["id"].as_str().unwrap()
        );
        let blocks = server.get_json(&path).await;
        let blocks = blocks["items"].as_array().unwrap().iter();
        turns.push(blocks.filter(|block| block["type"] == "turn.header").count());
    }
    turns
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_is_one_turn_and_another_body_under_it_is_refused() {
    let server = Running::start(json!([{"text": "One"}, {"text": "Two"}])).await;
    let chat = |text: &str| json!({"messages": [{"role": "user", "content": text}]});
    let first = send(&server, "/v1/chat/completions", "k", &chat("a")).await;
    let again = send(&server, "/v1/chat/completions", "k", &chat("a")).await;
    assert_eq!((first.0, first.1, again.0, again.1), (200, false, 200, true));
    assert_eq!(first.2["choices"], again.2["choices"]);
    assert_eq!(first.2["id"], again.2["id"]);
    let (status, _, refused) = send(&server, "/v1/chat/completions", "k", &chat("b")).await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (422, &json!("idempotency_key_reused"))
    );
    let (status, _, other) = send(&server, "/v1/responses", "k", &json!({"input": "a"})).await;
    assert_eq!(status, 200, "another route has keys of its own: {other}");
    assert_eq!(turns(&server).await, [1, 1]);
}

/// What a process leaves that dies after it made the conversation and before it posted the prompt is gone on with; what it
/// leaves after the post is not posted again.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_died_in_between_is_done_once_when_it_is_sent_again() {
    let server = Running::start(json!([{"text": "One"}, {"text": "Two"}])).await;
    let body = json!({"messages": [{"role": "user", "content": "a"}]});
    // The answer of a first request is lost: the same again, many times at once.
    let sends = (0..8).map(|_| send(&server, "/v1/chat/completions", "k", &body));
    let answers = futures::future::join_all(sends).await;
    for (status, _, answer) in &answers {
        assert_eq!(*status, 200, "{answer}");
        assert_eq!(answer["id"], answers[0].2["id"]);
    }
    assert_eq!(turns(&server).await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_side_request_with_a_key_is_answered_once_too() {
    let server = Running::start(json!([{"text": "A title"}])).await;
    let body = json!({"messages": [
        {"role": "system", "content": "You are a title generator."}, {"role": "user", "content": "hello"}]});
    let first = send(&server, "/v1/chat/completions", "k", &body).await;
    let again = send(&server, "/v1/chat/completions", "k", &body).await;
    assert_eq!(
        (first.0, again.0, again.1),
        (200, 200, true),
        "{} {}",
        first.2,
        again.2
    );
    assert_eq!(first.2["choices"], again.2["choices"]);
    assert_eq!(turns(&server).await, Vec::<usize>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn files_links_and_cancels_are_done_once_under_a_key() {
    let gate = Gate::default();
    let steps = json!([{"tool_calls": [{"tool": "wait", "params": {}}]}, {"text": "Done"}]);
    let server = Running::with(steps, options(), |builder| builder.tool(gate.tool())).await;
    let upload = async |key: &str, text: &str| {
        let part = reqwest::multipart::Part::text(text.to_owned()).file_name("a.txt");
        let form = reqwest::multipart::Form::new()
            .part("file", part)
            .text("purpose", "user_data");
        let request = server
            .request(Method::POST, "/v1/files")
            .header("idempotency-key", key);
        let answer = request.multipart(form).send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    let first = upload("k", "x").await;
    assert_eq!(upload("k", "x").await, first);
    assert_eq!((first.0, upload("k", "y").await.0), (200, 422));
    let files = server.get_json("/v1/files").await;
    assert_eq!(files["data"].as_array().unwrap().len(), 1);

    let c = server.new_conversation().await;
    let path = format!("/v1/conversations/{c}/links");
    let link = json!({"path": "ar:turn_1.user.prompt", "expires_in_seconds": 60});
    let first = send(&server, &path, "k", &link).await;
    let again = send(&server, &path, "k", &link).await;
    assert_eq!((first.0, first.2, true), (201, again.2, again.1));
    let other = json!({"path": "ar:turn_2.user.prompt", "expires_in_seconds": 60});
    assert_eq!(send(&server, &path, "k", &other).await.0, 422);

    let begun = server
        .post_json("/v1/responses", &json!({"input": "Go", "background": true}))
        .await;
    gate.begun.notified().await;
    let path = format!("/v1/responses/{}/cancel", begun["id"].as_str().unwrap());
    let cancelled = send(&server, &path, "k", &json!({})).await;
    let again = send(&server, &path, "k", &json!({})).await;
    assert_eq!((cancelled.0, again.0), (200, 200), "{} {}", cancelled.2, again.2);
    assert_eq!(cancelled.2["status"], "cancelled");
    assert_eq!((&cancelled.2["id"], &cancelled.2), (&begun["id"], &again.2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_that_is_looked_at_again_is_what_was_answered() {
    let server = Running::start(json!([{"text": "One"}, {"text": "Two"}])).await;
    let tools = json!([{"type": "function", "name": "f", "parameters": {"type": "object"}}]);
    let body = json!({"input": "a", "instructions": "Be brief", "metadata": {"mine": "yes"}, "temperature": 0.5,
        "tools": tools, "user": "ann"});
    let first = server.post_json("/v1/responses", &body).await;
    let id = first["id"].as_str().unwrap();
    assert_eq!(
        (&first["tools"], &first["metadata"]["mine"]),
        (&tools, &json!("yes"))
    );
    assert_eq!(server.get_json(&format!("/v1/responses/{id}")).await, first);
    let next = json!({"input": "b", "previous_response_id": id, "background": true});
    let begun = server.post_json("/v1/responses", &next).await;
    let path = format!("/v1/responses/{}", begun["id"].as_str().unwrap());
    let done = loop {
        let seen = server.get_json(&path).await;
        for field in [
            "created_at",
            "previous_response_id",
            "background",
            "metadata",
            "instructions",
        ] {
            assert_eq!(seen[field], begun[field], "{field}");
        }
        if seen["status"] == "completed" {
            break seen;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    };
    assert_eq!(done["previous_response_id"], id);
    assert_eq!(server.get_json(&path).await, done, "it does not change any more");
}
