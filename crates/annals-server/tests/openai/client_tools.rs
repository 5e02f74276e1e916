//! Tools that the client performs: the answer ends with their calls, the turn waits in the log, and the request that brings
//! the results gets the rest of it. In both forms, streamed and not, after a restart, and sent twice.

use reqwest::Method;
use serde_json::{Value, json};

use crate::common::{Event, Events, Running, options};

fn weather() -> Value {
    json!({"name": "getWeather", "description": "The weather of a place", "parameters":
        {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}})
}

/// The tools as Chat Completions has them.
fn chat_tools() -> Value {
    json!([{"type": "function", "function": weather()}, {"type": "function", "function": {"name": "get_time"}},
        {"type": "web_search"}])
}

/// The tools as Responses has them.
fn flat_tools() -> Value {
    let mut weather = weather();
    weather["type"] = json!("function");
    json!([weather, {"type": "function", "name": "get_time", "description": null, "parameters": null}])
}

fn usage(input: u64, output: u64) -> Value {
    json!({"input_tokens": input, "output_tokens": output})
}

/// Calls both tools of the client and one of the agent's, and answers with what came.
fn steps() -> Value {
    json!([
        {"text": "Let me see", "usage": usage(10, 5), "tool_calls": [
            {"id": "tc_w", "tool": weather_tool(), "params": {"place": "Ulm"}},
            {"id": "tc_f", "tool": "react.search_files", "params": {"name_regex": "x"}},
            {"id": "tc_t", "tool": "client.get_time", "params": {}}]},
        {"text": "Rain at ten", "usage": usage(20, 7), "expect": ["it rains", "ten o'clock"]},
        {"text": "You are welcome", "usage": usage(30, 2), "expect": ["it rains", "Rain at ten"]},
    ])
}

/// `getWeather` has capitals, which names in the table have not.
fn weather_tool() -> String {
    let function: annals_runtime::ClientFunction = serde_json::from_value(weather()).unwrap();
    function.tool_name()
}

async fn serve(steps: Value) -> Running {
    let options = annals_server::Options {
        offers_client_tools: true,
        ..options()
    };
    Running::with(steps, options, |builder| builder).await
}

fn chat(messages: Value) -> Value {
    json!({"model": "annals", "messages": messages, "tools": chat_tools()})
}

/// The message with calls, and the results a client gives for it.
fn results(message: &Value) -> Vec<Value> {
    let calls = message["tool_calls"].as_array().unwrap().iter();
    calls
        .map(|call| {
            let result = match call["function"]["name"].as_str().unwrap() {
                "getWeather" => {
                    let arguments: Value =
                        serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
                    assert_eq!(arguments, json!({"place": "Ulm"}));
                    "it rains"
                }
                "get_time" => "ten o'clock",
                other => panic!("{other}"),
            };
            json!({"role": "tool", "tool_call_id": call["id"], "content": result})
        })
        .collect()
}

#[tokio::test]
async fn chat_hands_calls_over_and_goes_on_with_their_results() {
    let server = serve(steps()).await;
    let mut messages = vec![json!({"role": "user", "content": "How is it?"})];
    let first = server
        .post_json("/v1/chat/completions", &chat(json!(messages)))
        .await;
    let choice = &first["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls", "{first}");
    assert_eq!(choice["message"]["content"], "Let me see");
    assert_eq!(
        choice["message"]["tool_calls"].as_array().unwrap().len(),
        2,
        "the agent's own stays here"
    );
    assert_eq!(first["usage"]["total_tokens"], 15);
    messages.push(choice["message"].clone());
    messages.extend(results(&choice["message"]));
    let second = server
        .post_json("/v1/chat/completions", &chat(json!(messages)))
        .await;
    let choice = &second["choices"][0];
    assert_eq!(
        (&choice["finish_reason"], &choice["message"]["content"]),
        (&json!("stop"), &json!("Rain at ten"))
    );
    assert_eq!(
        second["usage"]["total_tokens"], 27,
        "each answer tells what it took itself"
    );
    assert_eq!(
        second["metadata"], first["metadata"],
        "one turn of one conversation"
    );

    // A client whose connection broke sends the same again, and gets the same.
    let again = server
        .post_json("/v1/chat/completions", &chat(json!(messages)))
        .await;
    assert_eq!(
        (&again["choices"], &again["id"]),
        (&second["choices"], &second["id"])
    );
    let mut other = messages.clone();
    other.last_mut().unwrap()["content"] = json!("noon");
    let refused = server.post("/v1/chat/completions", &chat(json!(other))).await;
    assert_eq!(refused.status(), 409, "another result comes too late");

    messages.push(choice["message"].clone());
    messages.push(json!({"role": "user", "content": "Thanks"}));
    let third = server
        .post_json("/v1/chat/completions", &chat(json!(messages)))
        .await;
    assert_eq!(third["choices"][0]["message"]["content"], "You are welcome");
    assert_eq!(
        third["metadata"], first["metadata"],
        "the history with its calls is known"
    );
}

#[tokio::test]
async fn chat_streams_calls_and_what_follows() {
    let server = serve(steps()).await;
    let stream = async |messages: &[Value]| {
        let mut body = chat(json!(messages));
        body["stream"] = json!(true);
        body["stream_options"] = json!({"include_usage": true});
        let text = server
            .post("/v1/chat/completions", &body)
            .await
            .text()
            .await
            .unwrap();
        assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
        let data = text
            .split("\n\n")
            .filter_map(|event| event.strip_prefix("data: {"));
        data.map(|data| serde_json::from_str(&format!("{{{data}")).unwrap())
            .collect::<Vec<Value>>()
    };
    let mut messages = vec![json!({"role": "user", "content": "How is it?"})];
    let chunks = stream(&messages).await;
    let calls = chunks
        .iter()
        .find(|chunk| chunk["choices"][0]["delta"].get("tool_calls").is_some())
        .unwrap();
    let message = &calls["choices"][0]["delta"];
    assert_eq!(message["tool_calls"][1]["index"], 1);
    let finish = |chunks: &[Value]| -> Vec<Value> {
        let reasons = chunks
            .iter()
            .map(|chunk| chunk["choices"][0]["finish_reason"].clone());
        reasons.filter(|reason| !reason.is_null()).collect()
    };
    assert_eq!(finish(&chunks), ["tool_calls"]);
    assert_eq!(chunks.last().unwrap()["usage"]["total_tokens"], 15);
    messages.push(json!({"role": "assistant", "content": "Let me see", "tool_calls": message["tool_calls"]}));
    messages.extend(results(message));
    let chunks = stream(&messages).await;
    assert_eq!(finish(&chunks), ["stop"]);
    let said: String = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(said, "Rain at ten");
}

fn function_calls(response: &Value) -> Vec<Value> {
    let output = response["output"].as_array().unwrap().iter();
    output
        .filter(|item| item["type"] == "function_call")
        .cloned()
        .collect()
}

fn outputs(calls: &[Value]) -> Vec<Value> {
    let result = |call: &Value| {
        if call["name"] == "getWeather" {
            "it rains"
        } else {
            "ten o'clock"
        }
    };
    let outputs = calls.iter();
    outputs
        .map(|call| json!({"type": "function_call_output", "call_id": call["call_id"], "output": result(call)}))
        .collect()
}

#[tokio::test]
async fn responses_go_on_by_id_or_by_history_and_are_read_again() {
    let server = serve(json!([steps()[0], steps()[1], steps()[0], steps()[1]])).await;
    let create = async |body: Value| server.post_json("/v1/responses", &body).await;
    let first = create(json!({"input": "How is it?", "tools": flat_tools()})).await;
    assert_eq!(first["status"], "completed", "{first}");
    let calls = function_calls(&first);
    assert_eq!(calls.len(), 2, "{first}");
    let id = first["id"].as_str().unwrap();
    let read = server.get_json(&format!("/v1/responses/{id}")).await;
    assert_eq!(read["output"], first["output"]);
    let unanswered = server
        .post(
            "/v1/responses",
            &json!({"input": "Well?", "previous_response_id": id}),
        )
        .await;
    assert_eq!(unanswered.status(), 400, "results come first");
    let missing = json!({"previous_response_id": id, "input": &outputs(&calls)[..1]});
    let missing: Value = server.post("/v1/responses", &missing).await.json().await.unwrap();
    assert_eq!(missing["error"]["code"], "missing_tool_output", "{missing}");

    let second = create(json!({"previous_response_id": id, "input": outputs(&calls)})).await;
    assert_eq!(
        second["output"].as_array().unwrap().last().unwrap()["content"][0]["text"],
        "Rain at ten"
    );
    assert_ne!(second["id"], first["id"]);
    let read = server
        .get_json(&format!("/v1/responses/{}", second["id"].as_str().unwrap()))
        .await;
    assert_eq!(
        (&read["output"], &read["usage"]),
        (&second["output"], &second["usage"])
    );
    let read = server.get_json(&format!("/v1/responses/{id}")).await;
    assert_eq!(
        (&read["output"], &read["usage"]),
        (&first["output"], &first["usage"]),
        "an answer stays what it was"
    );

    // Without an id, with the items as they came, each result after its call.
    let first = create(json!({"input": "How is it now?", "tools": flat_tools()})).await;
    let calls = function_calls(&first);
    let mut input = vec![json!({"role": "user", "content": "How is it now?"})];
    for (call, output) in calls.iter().zip(outputs(&calls)) {
        input.extend([call.clone(), output]);
    }
    let second = create(json!({"input": input, "tools": flat_tools()})).await;
    assert_eq!(
        second["output"].as_array().unwrap().last().unwrap()["content"][0]["text"],
        "Rain at ten"
    );
    assert_eq!(second["metadata"], first["metadata"]);
}

#[tokio::test]
async fn a_streamed_response_has_the_events_of_calls_in_order() {
    let server = serve(steps()).await;
    let body = json!({"input": "How is it?", "tools": flat_tools(), "stream": true});
    let mut events = Events::of(server.post("/v1/responses", &body).await);
    let seen: Vec<Event> = events.until(|event| event.name == "response.completed").await;
    let names: Vec<&str> = seen.iter().map(|event| event.name.as_str()).collect();
    let call = [
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
    ];
    let expected = [&call[..], &call[..], &["response.completed"]].concat();
    assert_eq!(names[names.len() - expected.len()..], expected);
    let numbers: Vec<u64> = seen
        .iter()
        .map(|event| event.data["sequence_number"].as_u64().unwrap())
        .collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    let response = &seen.last().unwrap().data["response"];
    for (at, item) in response["output"].as_array().unwrap().iter().enumerate() {
        let done = seen
            .iter()
            .rfind(|event| event.name == "response.output_item.done" && event.data["output_index"] == at);
        assert_eq!(done.unwrap().data["item"], *item);
    }

    // Broken off between the calls, it goes on after the last number.
    let broke = numbers.len() - 4;
    let path = format!(
        "/v1/responses/{}?stream=true&starting_after={}",
        response["id"].as_str().unwrap(),
        numbers[broke]
    );
    let mut rest = Events::of(server.get(&path).await);
    let rest = rest.until(|event| event.name == "response.completed").await;
    let rest: Vec<u64> = rest
        .iter()
        .map(|event| event.data["sequence_number"].as_u64().unwrap())
        .collect();
    assert_eq!(rest, numbers[broke + 1..]);
}

#[tokio::test]
async fn a_turn_waits_for_its_client_in_the_log_alone() {
    let home = tempfile::tempdir().unwrap();
    let run = async |steps: Value| {
        let builder = annals_runtime::Agent::builder().model(crate::common::script(steps));
        let agent = builder
            .tools(annals_tools::react::all())
            .home(home.path())
            .build()
            .await
            .unwrap();
        let options = annals_server::Options {
            offers_client_tools: true,
            ..options()
        };
        Running::serve(agent, options, None).await
    };
    let mut first = run(json!([steps()[0]])).await;
    let asked = json!([{"role": "user", "content": "How is it?"}]);
    let handed = first
        .post_json("/v1/chat/completions", &chat(asked.clone()))
        .await;
    first.stop.cancel();
    first.served.take().unwrap().await.unwrap();
    drop(first);

    let second = run(json!([steps()[1]])).await;
    let message = &handed["choices"][0]["message"];
    let mut messages = asked.as_array().unwrap().clone();
    messages.push(message.clone());
    messages.extend(results(message));
    let answer = second
        .post_json("/v1/chat/completions", &chat(json!(messages)))
        .await;
    assert_eq!(
        answer["choices"][0]["message"]["content"], "Rain at ten",
        "{answer}"
    );
}

#[tokio::test]
async fn words_that_come_with_results_are_heard_after_them() {
    let mut answer = steps()[1].clone();
    answer["expect"] = json!(["it rains", "In one word, please"]);
    let server = serve(json!([steps()[0], answer, says("And so on")])).await;
    let mut messages = vec![json!({"role": "user", "content": "How is it?"})];
    let first = server
        .post_json("/v1/chat/completions", &chat(json!(messages)))
        .await;
    let message = &first["choices"][0]["message"];
    messages.push(message.clone());
    messages.extend(results(message));
    messages.push(json!({"role": "user", "content": "In one word, please"}));
    let second = server
        .post_json("/v1/chat/completions", &chat(json!(messages)))
        .await;
    assert_eq!(
        second["choices"][0]["message"]["content"], "Rain at ten",
        "{second}"
    );
    messages.push(second["choices"][0]["message"].clone());
    messages.push(json!({"role": "user", "content": "More"}));
    let third = server
        .post_json("/v1/chat/completions", &chat(json!(messages)))
        .await;
    assert_eq!(third["metadata"], first["metadata"], "the history is known");
}

fn says(text: &str) -> Value {
    json!({"text": text, "usage": usage(5, 3)})
}

#[tokio::test]
async fn tools_are_ignored_unless_the_server_or_the_request_wants_them() {
    let server = Running::start(json!([says("By myself"), steps()[0], says("Alone")])).await;
    let ask = async |offered: Option<&str>, body: Value| {
        let request = server.request(Method::POST, "/v1/chat/completions").json(&body);
        let request = offered
            .into_iter()
            .fold(request, |request, value| request.header("x-annals-tools", value));
        let response = request.send().await.unwrap();
        let header = response
            .headers()
            .get("x-annals-tools")
            .map(|value| value.to_str().unwrap().to_owned());
        (header, response.json::<Value>().await.unwrap())
    };
    let asked = json!([{"role": "user", "content": "How is it?"}]);
    let (header, answer) = ask(None, chat(asked.clone())).await;
    assert_eq!(header.as_deref(), Some("ignored"));
    assert_eq!(answer["choices"][0]["message"]["content"], "By myself");
    let (header, answer) = ask(Some("client"), chat(asked.clone())).await;
    assert_eq!(header.as_deref(), Some("client"));
    assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls");
    let mut none = chat(asked);
    none["tool_choice"] = json!("none");
    let (header, answer) = ask(Some("client"), none).await;
    assert_eq!(
        (header, &answer["choices"][0]["finish_reason"]),
        (None, &json!("stop"))
    );
}

#[tokio::test]
async fn what_cannot_be_gone_on_with_says_why() {
    let server = serve(json!([steps()[0], says("x")])).await;
    let asked = json!([{"role": "user", "content": "How is it?"}]);
    let mine = server.post_json("/v1/chat/completions", &chat(asked)).await;
    let message = &mine["choices"][0]["message"];
    let mut messages = vec![json!({"role": "user", "content": "How is it?"}), message.clone()];
    messages.extend(results(message));
    let other = server
        .token_of("other/scope/user", &[annals_store::Role::Use])
        .await;
    let foreign = server
        .bare(Method::POST, "/v1/chat/completions")
        .bearer_auth(&other);
    let foreign: Value = foreign
        .json(&chat(json!(messages)))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(
        foreign["error"]["code"], "unknown_call",
        "another scope's call is nobody's"
    );
    let made_up = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": null},
        {"role": "tool", "tool_call_id": "call_1", "content": "b"}]);
    let made_up: Value = server
        .post("/v1/chat/completions", &chat(made_up))
        .await
        .json()
        .await
        .unwrap();
    assert_eq!(made_up["error"]["code"], "unknown_call");
    let mut broken = chat(json!([{"role": "user", "content": "a"}]));
    broken["tools"] =
        json!([{"type": "function", "function": {"name": "f", "parameters": {"type": "array"}}}]);
    let broken = server.post("/v1/chat/completions", &broken).await;
    assert_eq!(broken.status(), 422, "{}", broken.text().await.unwrap());

    // Cancelled, the turn is over, and its results come too late.
    let conversation = mine["metadata"]["conversation"].as_str().unwrap();
    let turns = server
        .get_json(&format!("/v1/conversations/{conversation}"))
        .await;
    let id = mine["id"].as_str().unwrap().replacen("chatcmpl-", "resp_", 1);
    let cancelled = server
        .post_json(&format!("/v1/responses/{id}/cancel"), &json!({}))
        .await;
    assert_eq!(cancelled["status"], "cancelled", "{cancelled} {turns}");
    let late = server.post("/v1/chat/completions", &chat(json!(messages))).await;
    assert_eq!(late.status(), 409);
}
