//! What the acceptance tests of Open Responses look for, after its published description: the complete response object, the
//! order of events, system text, calls of the client's tools, pictures, and turns that follow each other.

use reqwest::Method;
use serde_json::{Value, json};

use crate::common::{Gate, Running, options};

/// Every required field with whether it fits.
fn misfits(response: &Value) -> Vec<&'static str> {
    type Fits = fn(&Value) -> bool;
    let optional_text: Fits = |value| value.is_null() || value.is_string();
    let optional_number: Fits = |value| value.is_null() || value.is_number();
    let optional_object: Fits = |value| value.is_null() || value.is_object();
    let fields: [(&'static str, Fits); 32] = [
        ("id", Value::is_string),
        ("object", |value| value == "response"),
        ("created_at", Value::is_i64),
        ("completed_at", optional_number),
        ("status", |value| {
            ["queued", "in_progress", "completed", "failed", "incomplete"]
                .map(Value::from)
                .contains(value)
        }),
        ("incomplete_details", optional_object),
        ("model", Value::is_string),
        ("previous_response_id", optional_text),
        ("instructions", optional_text),
        ("output", Value::is_array),
        ("error", optional_object),
        ("tools", Value::is_array),
        ("tool_choice", |value| value.is_string() || value.is_object()),
        ("truncation", Value::is_string),
        ("parallel_tool_calls", Value::is_boolean),
        ("text", |value| value["format"]["type"].is_string()),
        ("top_p", Value::is_number),
        ("presence_penalty", Value::is_number),
        ("frequency_penalty", Value::is_number),
        ("top_logprobs", Value::is_number),
        ("temperature", Value::is_number),
        ("reasoning", optional_object),
        ("user", optional_text),
        ("usage", optional_object),
        ("max_output_tokens", optional_number),
        ("max_tool_calls", optional_number),
        ("store", Value::is_boolean),
        ("background", Value::is_boolean),
        ("service_tier", Value::is_string),
        ("metadata", Value::is_object),
        ("safety_identifier", optional_text),
        ("prompt_cache_key", optional_text),
    ];
    let wrong = fields
        .iter()
        .filter(|(name, fits)| !response.get(name).is_some_and(fits));
    wrong.map(|(name, _)| *name).collect()
}

fn says(text: &str) -> Value {
    json!({"text": text, "usage": {"input_tokens": 5, "output_tokens": 3}})
}

fn output_text(response: &Value) -> String {
    let items = response["output"].as_array().unwrap().iter();
    let messages = items.filter(|item| item["type"] == "message");
    messages
        .map(|item| item["content"][0]["text"].as_str().unwrap().to_owned())
        .collect()
}

async fn create(server: &Running, body: Value) -> Value {
    let response = server.post_json("/v1/responses", &body).await;
    assert_eq!(misfits(&response), Vec::<&str>::new(), "{response}");
    assert_eq!(response["status"], "completed");
    response
}

#[tokio::test]
async fn a_basic_response_is_complete() {
    let server = Running::start(json!([says("Hello there friend")])).await;
    let body =
        json!({"model": "annals", "input": [{"type": "message", "role": "user", "content": "Say hello"}]});
    let response = create(&server, body).await;
    assert_eq!(output_text(&response), "Hello there friend");
    let item = &response["output"][0];
    assert_eq!(
        (&item["role"], &item["status"]),
        (&json!("assistant"), &json!("completed"))
    );
    assert_eq!(response["usage"]["total_tokens"], 8);
    assert_eq!(response["usage"]["input_tokens_details"]["cached_tokens"], 0);
    assert_eq!(response["usage"]["output_tokens_details"]["reasoning_tokens"], 0);
}

#[tokio::test]
async fn a_response_that_has_not_begun_is_followed_from_its_first_piece() {
    let gate = Gate::default();
    let steps = json!([
        {"text": "First.", "tool_calls": [{"tool": "wait", "params": {}}]},
        says("First done"),
        says("Second done"),
    ]);
    let server = Running::with(steps, options(), |builder| builder.tool(gate.tool())).await;
    let conversation = server.new_conversation().await;
    let ask = |input: &str| json!({"model": "annals", "input": input, "background": true, "conversation": conversation});
    server.post_json("/v1/responses", &ask("one")).await;
    gate.begun.notified().await;
    let queued = server.post_json("/v1/responses", &ask("two")).await;
    let path = format!("/v1/responses/{}", queued["id"].as_str().unwrap());
    assert_eq!(server.get_json(&path).await["status"], "queued");
    let followed = server.get(&format!("{path}?stream=true")).await;
    assert_eq!(followed.status(), 200);
    gate.go.notify_one();
    let text = followed.text().await.unwrap();
    assert!(text.contains("Second done") && !text.contains("First"), "{text}");
}

/// The events of a streamed response; their numbers rise.
async fn streamed(server: &Running, input: &str) -> Vec<Value> {
    streamed_body(server, json!({"model": "annals", "input": input, "stream": true})).await
}

async fn streamed_body(server: &Running, body: Value) -> Vec<Value> {
    let request = server
        .request(Method::POST, "/v1/responses")
        .header("x-annals-tools", "client")
        .json(&body);
    let text = request.send().await.unwrap().text().await.unwrap();
    let events: Vec<Value> = text
        .split("\n\n")
        .filter_map(|event| event.split_once("data: "))
        .map(|(head, data)| {
            let data: Value = serde_json::from_str(data).unwrap();
            assert_eq!(head.trim(), format!("event: {}", data["type"].as_str().unwrap()));
            data
        })
        .collect();
    let number = |event: &Value| event["sequence_number"].as_u64().unwrap();
    let numbers: Vec<u64> = events.iter().map(number).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    events
}

#[tokio::test]
async fn a_question_to_the_person_comes_after_the_call_that_asks_it() {
    let steps = json!([
        {"thinking": "hm", "text": "Let me see", "tool_calls": [{"tool": "react.write",
            "params": {"path": "a.md", "channel": "canvas", "content": "a", "kind": "display"}}]},
        {"text": "One thing", "tool_calls": [{"tool": "react.clarify", "params": {"questions": ["Which colour?"]}}]},
    ]);
    let server = Running::start(steps).await;
    let events = streamed(&server, "Paint it").await;
    let last = &events.last().unwrap()["response"];
    assert_eq!(last["status"], "completed");
    assert!(output_text(last).contains("Which colour?"), "{last}");
}

#[tokio::test]
async fn a_streamed_response_has_its_events_in_order() {
    let server = Running::start(json!([{"thinking": "hm", "text": "One two three", "chunk_ms": 1}])).await;
    let events = streamed(&server, "Count").await;
    let mut kinds: Vec<&str> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    kinds.dedup();
    assert_eq!(kinds[..2], ["response.created", "response.in_progress"]);
    let message = kinds
        .iter()
        .position(|kind| *kind == "response.content_part.added")
        .unwrap()
        - 1;
    assert_eq!(
        kinds[message..],
        [
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed"
        ]
    );
    let last = &events.last().unwrap()["response"];
    assert_eq!(misfits(last), Vec::<&str>::new());
    assert_eq!(output_text(last), "One two three");
    assert_eq!(last["output"][0]["type"], "reasoning");
}

#[tokio::test]
async fn a_system_text_reaches_the_model() {
    let steps = json!([{"text": "Ahoy", "expect": ["[USER INSTRUCTIONS]", "You are a pirate"]}]);
    let server = Running::start(steps).await;
    let body = json!({"model": "annals", "input": [
        {"type": "message", "role": "system", "content": "You are a pirate. Always answer like one."},
        {"type": "message", "role": "user", "content": "Say hello"}]});
    assert_eq!(output_text(&create(&server, body).await), "Ahoy");
}

/// A request with a tool, as the acceptance tests of tool calling send it.
fn with_tool() -> Value {
    let parameters = json!({"type": "object", "required": ["location"],
        "properties": {"location": {"type": "string", "description": "The city and state, e.g. San Francisco, CA"}}});
    json!({"model": "annals", "input": [{"type": "message", "role": "user", "content": "What's the weather like in San Francisco?"}],
        "tools": [{"type": "function", "name": "get_weather", "description": "Get the current weather for a location", "parameters": parameters}]})
}

fn calls_weather() -> Value {
    json!([{"tool_calls": [{"tool": "client.get_weather", "params": {"location": "San Francisco, CA"}}]}])
}

#[tokio::test]
async fn a_tool_of_the_client_is_called() {
    let server = Running::start(calls_weather()).await;
    let request = server
        .request(Method::POST, "/v1/responses")
        .header("x-annals-tools", "client");
    let response: Value = request
        .json(&with_tool())
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(misfits(&response), Vec::<&str>::new(), "{response}");
    let item = response["output"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&item["type"], &item["name"], &item["status"]),
        (
            &json!("function_call"),
            &json!("get_weather"),
            &json!("completed")
        )
    );
    assert!(item["call_id"].is_string() && item["id"].is_string());
    let arguments: Value = serde_json::from_str(item["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(arguments["location"], "San Francisco, CA");
    assert_eq!(
        response["tools"][0]["name"], "get_weather",
        "the request is shown again"
    );
}

#[tokio::test]
async fn a_tool_of_the_client_is_called_in_a_stream() {
    let server = Running::start(calls_weather()).await;
    let mut body = with_tool();
    body["stream"] = json!(true);
    let events = streamed_body(&server, body).await;
    let kinds: Vec<&str> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "response.output_item.done",
            "response.completed"
        ]
    );
    assert_eq!(misfits(&events.last().unwrap()["response"]), Vec::<&str>::new());
}

#[tokio::test]
async fn a_picture_comes_in() {
    let steps = json!([{"text": "A red dot", "expect": ["file-1.png"]}]);
    let server = Running::start(steps).await;
    let png = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let body = json!({"model": "annals", "input": [{"type": "message", "role": "user", "content": [
        {"type": "input_text", "text": "What is this?"}, {"type": "input_image", "image_url": png}]}]});
    assert_eq!(output_text(&create(&server, body).await), "A red dot");
}

#[tokio::test]
async fn turns_follow_each_other() {
    let steps =
        json!([says("Hello Alice"), {"text": "Alice", "expect": ["My name is Alice", "Hello Alice"]}]);
    let server = Running::start(steps).await;
    let first = create(&server, json!({"model": "annals", "input": "My name is Alice"})).await;
    let body = json!({"model": "annals", "input": [
        {"type": "message", "role": "user", "content": "My name is Alice"},
        {"type": "message", "role": "assistant", "content": "Hello Alice"},
        {"type": "message", "role": "user", "content": "What is my name?"}]});
    let second = create(&server, body).await;
    assert_eq!(output_text(&second), "Alice");
    assert_eq!(
        second["metadata"]["conversation"],
        first["metadata"]["conversation"]
    );
}

#[tokio::test]
async fn another_scope_sees_neither_responses_nor_files_nor_histories() {
    let server = Running::start(json!([says("Mine"), says("Another one")])).await;
    let other = server
        .token_of("other/scope/user", &[annals_store::Role::Use])
        .await;
    let mine = create(&server, json!({"model": "annals", "input": "Hi"})).await;
    let form = reqwest::multipart::Form::new().text("purpose", "user_data").part(
        "file",
        reqwest::multipart::Part::bytes(b"secret".to_vec()).file_name("a.txt"),
    );
    let uploaded = server
        .request(Method::POST, "/v1/files")
        .multipart(form)
        .send()
        .await
        .unwrap();
    let file: Value = uploaded.json().await.unwrap();
    let (id, file) = (mine["id"].as_str().unwrap(), file["id"].as_str().unwrap());
    for (method, path) in [
        (Method::GET, format!("/v1/responses/{id}")),
        (Method::GET, format!("/v1/responses/{id}?stream=true")),
        (Method::POST, format!("/v1/responses/{id}/cancel")),
        (Method::GET, format!("/v1/files/{file}")),
        (Method::GET, format!("/v1/files/{file}/content")),
        (Method::DELETE, format!("/v1/files/{file}")),
    ] {
        let response = server
            .bare(method, &path)
            .bearer_auth(&other)
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 404, "{path}");
    }
    let ask = |body: Value| {
        server
            .bare(Method::POST, "/v1/responses")
            .bearer_auth(&other)
            .json(&body)
            .send()
    };
    let named = ask(json!({"input": "x", "previous_response_id": id}))
        .await
        .unwrap();
    assert_eq!(named.status(), 404);
    let by_id =
        ask(json!({"input": [{"role": "user", "content": [{"type": "input_file", "file_id": file}]}]}));
    assert_eq!(by_id.await.unwrap().status(), 404);
    let history = json!({"input": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Mine"},
        {"role": "user", "content": "Go on"}]});
    let answer: Value = ask(history).await.unwrap().json().await.unwrap();
    assert_ne!(
        answer["metadata"]["conversation"],
        mine["metadata"]["conversation"]
    );
}

/// A body may be as large as the limit says, not as large as the framework takes by itself.
#[tokio::test]
async fn a_message_may_hold_a_picture_of_several_megabytes() {
    let server = Running::start(json!([{"text": "Seen."}, {"text": "Seen."}])).await;
    let data = format!("data:text/plain;base64,{}", "QUFB".repeat(3 << 18));
    let file = json!({"type": "file", "file": {"file_data": data, "filename": "a.txt"}});
    let asked = json!({"model": "annals", "messages": [{"role": "user", "content": [file]}]});
    let answer = server.post("/v1/chat/completions", &asked).await;
    assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    let file = json!({"type": "input_file", "file_data": data, "filename": "b.txt"});
    let asked = json!({"model": "annals", "input": [{"role": "user", "content": [file]}]});
    let answer = server.post("/v1/responses", &asked).await;
    assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    let huge = json!({"model": "annals", "input": "x".repeat(17 << 20)});
    assert_eq!(server.post("/v1/responses", &huge).await.status(), 413);
}
