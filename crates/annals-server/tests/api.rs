//! The API as a program meets it: a real client, a real listener, the script model.

mod common;

use std::sync::Arc;

use annals_tools::{DynamicTool, ToolProgress, ToolSpec};
use common::{Gate, Running, options, seqs};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::Notify;

#[tokio::test]
async fn a_turn_is_started_and_followed_to_its_end() {
    let server = Running::start(json!([
        {"thinking": "hm", "text": "Noting", "tool_calls": [{"id": "w", "tool": "react.write", "params": {
            "path": "report.md", "channel": "canvas", "content": "# Report\n", "kind": "file"}}]},
        {"text": "Done."},
    ]))
    .await;
    let made = server
        .post("/v1/conversations", &json!({"title": "Trying"}))
        .await;
    assert_eq!(made.status(), 201);
    let made: Value = made.json().await.unwrap();
    let c = made["id"].as_str().unwrap();
    let mut events = server.events(c, None).await;
    let first = events.next().await.unwrap();
    assert_eq!(
        (first.name.as_str(), &first.data["state"]),
        ("state", &json!("idle"))
    );

    let started = server
        .post(&format!("/v1/conversations/{c}/turns"), &json!({"prompt": "Go"}))
        .await;
    assert_eq!(started.status(), 202);
    let started: Value = started.json().await.unwrap();
    let turn = started["turn_id"].as_str().unwrap();
    let seen = events.turn().await;
    let numbers = seqs(&seen);
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    assert!(
        seen.iter()
            .any(|event| event.name == "delta" && event.data["channel"] == "canvas")
    );
    assert_eq!(
        seen.last().unwrap().data,
        json!({"turn_id": turn, "state": "ended", "outcome": "complete"})
    );

    let found = server
        .get_json(&format!("/v1/conversations/{c}/turns/{turn}"))
        .await;
    assert_eq!(
        (&found["answer"], &found["outcome"]),
        (&json!("Done."), &json!("complete"))
    );
    assert_eq!(found["report"]["outcome"], "complete");
    let about = server.get_json(&format!("/v1/conversations/{c}")).await;
    assert_eq!(about["title"], "Trying");
    assert_eq!(about["blocks"], json!(numbers.len()));
    assert_eq!(about["turn"]["state"], "ended");
    let listed = server.get_json("/v1/conversations").await;
    assert_eq!(
        (&listed["items"][0]["id"], &listed["next_cursor"]),
        (&json!(c), &Value::Null)
    );
}

#[tokio::test]
async fn blocks_come_in_pages_whole_or_as_heads() {
    let server = Running::start(json!([{"text": "Hello there"}])).await;
    let c = server.new_conversation().await;
    let turn = server.prompt(&c, "Hi").await;
    server.ended(&c, &turn).await;
    let whole = server.get_json(&format!("/v1/conversations/{c}/blocks")).await;
    let blocks = whole["items"].as_array().unwrap();
    assert!(blocks.iter().any(|block| block["text"] == "Hello there"));
    assert_eq!(whole["next_cursor"], Value::Null);
    let page = server
        .get_json(&format!("/v1/conversations/{c}/blocks?limit=2"))
        .await;
    assert_eq!(
        (page["items"].as_array().unwrap().len(), &page["next_cursor"]),
        (2, &json!("2"))
    );
    let next = server
        .get_json(&format!("/v1/conversations/{c}/blocks?after=2&limit=1"))
        .await;
    assert_eq!(next["items"][0], blocks[2]);
    let heads = server
        .get_json(&format!("/v1/conversations/{c}/blocks?fields=head"))
        .await;
    let heads = heads["items"].as_array().unwrap();
    assert_eq!(heads.len(), blocks.len());
    assert!(
        heads
            .iter()
            .all(|head| head.get("text").is_none() && head.get("meta").is_none())
    );
    let answer = heads
        .iter()
        .find(|head| head["type"] == "assistant.completion")
        .unwrap();
    assert_eq!(answer["size_bytes"], json!("Hello there".len()));
    let rendered = server
        .get_json(&format!("/v1/conversations/{c}/render?at=3"))
        .await;
    assert!(rendered["system"].is_string() && rendered["parts"].is_array() && rendered["tokens"].is_number());
    assert_eq!(
        server
            .get(&format!("/v1/conversations/{c}/render?at=999"))
            .await
            .status(),
        409
    );
}

#[tokio::test]
async fn a_running_turn_is_steered_and_cancelled_by_its_name() {
    let gate = Gate::default();
    let steps = json!([
        {"tool_calls": [{"id": "a", "tool": "wait", "params": {}}]},
        {"expect": ["Be brief"], "tool_calls": [{"id": "b", "tool": "wait", "params": {}}]},
    ]);
    let server = Running::with(steps, options(), |builder| builder.tool(gate.tool())).await;
    let c = server.new_conversation().await;
    let turn = server.prompt(&c, "Go").await;
    gate.begun.notified().await;
    let at = |verb: &str, turn: &str| format!("/v1/conversations/{c}/turns/{turn}/{verb}");
    assert_eq!(
        server
            .get_json(&format!("/v1/conversations/{c}/turns/{turn}"))
            .await["state"],
        "running"
    );
    let other = server
        .post(&at("steer", "turn_other"), &json!({"text": "x"}))
        .await;
    assert_eq!(
        (other.status().as_u16(), code(other).await),
        (409, "turn_ended".to_owned())
    );
    assert_eq!(
        server
            .post(&at("steer", &turn), &json!({"text": " "}))
            .await
            .status(),
        422
    );
    assert_eq!(
        server
            .post(&at("steer", &turn), &json!({"text": "Be brief"}))
            .await
            .status(),
        202
    );
    let deleted = server.request(Method::DELETE, &format!("/v1/conversations/{c}"));
    assert_eq!(code(deleted.send().await.unwrap()).await, "turn_running");
    gate.go.notify_one();
    gate.begun.notified().await;
    assert_eq!(server.post(&at("cancel", &turn), &json!({})).await.status(), 202);
    gate.go.notify_one();
    let ended = server.ended(&c, &turn).await;
    assert_eq!(ended["outcome"], "cancelled");
    let late = server.post(&at("cancel", &turn), &json!({})).await;
    assert_eq!(code(late).await, "turn_ended");
    let blocks = server.get_json(&format!("/v1/conversations/{c}/blocks")).await;
    assert!(
        blocks["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|block| block["text"] == "Be brief")
    );
    let judged = json!({"reaction": "up", "text": "fine"});
    assert_eq!(server.post(&at("feedback", &turn), &judged).await.status(), 201);
    assert_eq!(
        server.post(&at("feedback", "turn_none"), &judged).await.status(),
        404
    );
}

#[tokio::test]
async fn a_request_sent_again_takes_effect_once() {
    let server = Running::start(json!([{"text": "One"}, {"text": "Two"}])).await;
    let send = async |path: &str, key: &str, body: Value| {
        let request = server.request(Method::POST, path).header("idempotency-key", key);
        request.json(&body).send().await.unwrap()
    };
    let (first, again) = tokio::join!(
        send("/v1/conversations", "k1", json!({"title": "A"})),
        send("/v1/conversations", "k1", json!({"title": "A"}))
    );
    assert_eq!(
        (first.status(), again.status()),
        (reqwest::StatusCode::CREATED, reqwest::StatusCode::CREATED)
    );
    let (first, again): (Value, Value) = (first.json().await.unwrap(), again.json().await.unwrap());
    assert_eq!(first, again);
    let other = send("/v1/conversations", "k1", json!({"title": "B"})).await;
    assert_eq!(
        (other.status().as_u16(), code(other).await),
        (422, "idempotency_key_reused".to_owned())
    );
    assert_eq!(
        server.get_json("/v1/conversations").await["items"]
            .as_array()
            .unwrap()
            .len(),
        1
    );

    let c = first["id"].as_str().unwrap();
    let turns = format!("/v1/conversations/{c}/turns");
    let started: Value = send(&turns, "t", json!({"prompt": "Go"}))
        .await
        .json()
        .await
        .unwrap();
    let ended = server.ended(c, started["turn_id"].as_str().unwrap()).await;
    assert_eq!(ended["answer"], "One");
    // Also when the turn is over, and the row of the inbox gone.
    let again = send(&turns, "t", json!({"prompt": "Go"})).await;
    assert_eq!(again.headers()["idempotency-replayed"], "true");
    assert_eq!(again.json::<Value>().await.unwrap(), started);
    let forked: Value = send(&format!("/v1/conversations/{c}/fork"), "f", json!({"at": 2}))
        .await
        .json()
        .await
        .unwrap();
    let again: Value = send(&format!("/v1/conversations/{c}/fork"), "f", json!({"at": 2}))
        .await
        .json()
        .await
        .unwrap();
    assert_eq!(forked, again);
    let fork = server
        .get_json(&format!("/v1/conversations/{}", forked["id"].as_str().unwrap()))
        .await;
    assert_eq!(
        (&fork["blocks"], &fork["lineage"][0]["parent"]),
        (&json!(2), &json!(c))
    );
    assert_eq!(
        server.get_json("/v1/conversations").await["items"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(
        send("/v1/conversations", &"x".repeat(256), json!({}))
            .await
            .status(),
        400
    );
}

#[tokio::test]
async fn files_come_with_a_prompt_in_a_form_and_in_json() {
    let server = Running::start(json!([{"text": "Got it"}, {"text": "Got that"}])).await;
    let c = server.new_conversation().await;
    let turns = format!("/v1/conversations/{c}/turns");
    let form = || {
        let file = reqwest::multipart::Part::bytes(b"alpha\nbeta\n".to_vec()).file_name("notes.txt");
        reqwest::multipart::Form::new()
            .text("prompt", "Read this")
            .part("file", file)
    };
    let send = async || {
        let request = server
            .request(Method::POST, &turns)
            .header("idempotency-key", "form");
        request.multipart(form()).send().await.unwrap()
    };
    let first = send().await;
    assert_eq!(first.status(), 202);
    let first: Value = first.json().await.unwrap();
    let turn = first["turn_id"].as_str().unwrap();
    server.ended(&c, turn).await;
    assert_eq!(
        send().await.json::<Value>().await.unwrap(),
        first,
        "another boundary, the same request"
    );
    let blocks = server.get_json(&format!("/v1/conversations/{c}/blocks")).await;
    let is_file = |block: &&Value| block["type"] == "user.attachment";
    let file = blocks["items"].as_array().unwrap().iter().find(is_file).unwrap();
    assert_eq!(file["text"], "alpha\nbeta\n");
    let path = file["path"].as_str().unwrap();
    let read = server
        .get(&format!("/v1/conversations/{c}/artifacts/{path}"))
        .await;
    assert_eq!(read.headers()["content-type"], "text/plain; charset=utf-8");
    assert_eq!(read.text().await.unwrap(), "alpha\nbeta\n");

    let body = json!({"prompt": "And this", "attachments": [{"name": "b.txt", "base64": "Z2FtbWE="}]});
    let second = server.post_json(&turns, &body).await;
    server.ended(&c, second["turn_id"].as_str().unwrap()).await;
    let refused = json!({"prompt": "x", "attachments": [{"name": "x.txt", "base64": "!"}]});
    assert_eq!(server.post(&turns, &refused).await.status(), 400);
    let refused = json!({"prompt": "x", "attachments": [{"name": "x.zip", "base64": "UEsDBAoAAAA="}]});
    assert_eq!(
        code(server.post(&turns, &refused).await).await,
        "attachment_refused"
    );
}

const HTML: &str = "<script>alert(1)</script>";

/// A server whose one conversation has written a page.
async fn page_server() -> (Running, String, String) {
    let server = Running::start(json!([
        {"tool_calls": [{"id": "w", "tool": "react.write", "params": {
            "path": "page.html", "channel": "canvas", "content": HTML, "kind": "file"}}]},
        {"text": "Done."},
    ]))
    .await;
    let c = server.new_conversation().await;
    let turn = server.prompt(&c, "Go").await;
    server.ended(&c, &turn).await;
    (server, c, turn)
}

#[tokio::test]
async fn artifacts_have_ranges_digests_and_types_that_no_browser_runs() {
    let (server, c, turn) = page_server().await;
    let path = format!("/v1/conversations/{c}/artifacts/fi:{turn}.files/page.html");
    let whole = server.get(&path).await;
    assert_eq!(whole.status(), 200);
    let policy = whole.headers()["content-security-policy"]
        .to_str()
        .unwrap()
        .to_owned();
    assert!(
        policy.starts_with("sandbox;") && policy.contains("default-src 'none'"),
        "{policy}"
    );
    assert_eq!(whole.headers()["x-content-type-options"], "nosniff");
    assert_eq!(whole.headers()["content-length"], HTML.len().to_string());
    let etag = whole.headers()["etag"].to_str().unwrap().to_owned();
    assert!(etag.starts_with("\"sha256:"), "{etag}");
    assert_eq!(whole.text().await.unwrap(), HTML);
    let known = server.request(Method::GET, &path).header("if-none-match", &etag);
    assert_eq!(known.send().await.unwrap().status(), 304);
    for (range, status, expected) in [
        ("bytes=0-6", 206, "<script"),
        ("bytes=-9", 206, "</script>"),
        ("bytes=1-", 206, &HTML[1..]),
        ("bytes=0-1,4-5", 200, HTML),
    ] {
        let part = server
            .request(Method::GET, &path)
            .header("range", range)
            .send()
            .await
            .unwrap();
        assert_eq!(part.status(), status, "{range}");
        assert_eq!(part.text().await.unwrap(), expected, "{range}");
    }
    let beyond = server
        .request(Method::GET, &path)
        .header("range", "bytes=99-")
        .send()
        .await
        .unwrap();
    assert_eq!(
        (
            beyond.status().as_u16(),
            beyond.headers()["content-range"].to_str().unwrap()
        ),
        (416, "bytes */25")
    );
    let head = server.request(Method::HEAD, &path).send().await.unwrap();
    assert_eq!(
        (
            head.status().as_u16(),
            head.headers()["content-length"].to_str().unwrap()
        ),
        (200, "25")
    );
    assert_eq!(
        server
            .get(&format!("/v1/conversations/{c}/artifacts/fi:{turn}.files/none"))
            .await
            .status(),
        404
    );
}

#[tokio::test]
async fn a_signed_link_opens_one_artifact_and_nothing_else() {
    let (server, c, turn) = page_server().await;
    let link = json!({"path": format!("fi:{turn}.files/page.html"), "expires_in_seconds": 60});
    let link = server
        .post_json(&format!("/v1/conversations/{c}/links"), &link)
        .await;
    let url = link["url"].as_str().unwrap();
    let read = server.bare(Method::GET, url).send().await.unwrap();
    assert_eq!(
        (read.status().as_u16(), read.text().await.unwrap().as_str()),
        (200, HTML)
    );
    let forged = url.replace("page.html", "other.html");
    assert_eq!(
        code(server.bare(Method::GET, &forged).send().await.unwrap()).await,
        "bad_link"
    );
    let other_route = format!("/v1/conversations/{c}?{}", url.split_once('?').unwrap().1);
    assert_eq!(
        server
            .bare(Method::GET, &other_route)
            .send()
            .await
            .unwrap()
            .status(),
        401
    );
}

#[tokio::test]
async fn a_conversation_moves_between_servers_as_a_file_and_is_found_by_its_words() {
    let here = Running::start(json!([{"text": "The harbour is called Nordhavn"}])).await;
    let c = here.new_conversation().await;
    let turn = here.prompt(&c, "What is the harbour called?").await;
    here.ended(&c, &turn).await;
    let file = here
        .get(&format!("/v1/conversations/{c}/export"))
        .await
        .bytes()
        .await
        .unwrap();
    let there = Running::start(json!([])).await;
    let send = async || {
        let request = there
            .request(Method::POST, "/v1/import")
            .header("idempotency-key", "i");
        request.body(file.clone()).send().await.unwrap()
    };
    let imported = send().await;
    assert_eq!(imported.status(), 201);
    let imported: Value = imported.json().await.unwrap();
    assert_eq!(send().await.json::<Value>().await.unwrap(), imported);
    let (path, moved) = (
        format!("/v1/conversations/{c}/blocks"),
        imported["id"].as_str().unwrap(),
    );
    let blocks = there.get_json(&format!("/v1/conversations/{moved}/blocks")).await;
    assert_eq!(blocks["items"], here.get_json(&path).await["items"]);
    let broken = there
        .request(Method::POST, "/v1/import")
        .body("{}")
        .send()
        .await
        .unwrap();
    assert_eq!(broken.status(), 422);
    let gone = here
        .request(Method::DELETE, &format!("/v1/conversations/{c}"))
        .send()
        .await
        .unwrap();
    assert_eq!(gone.status(), 204);
    assert_eq!(here.get(&path).await.status(), 404);
}

/// A parser names what it did not expect, and that may be a key in the wrong place.
#[tokio::test]
async fn an_error_does_not_repeat_a_secret() {
    let server = Running::start(json!([])).await;
    let c = server.new_conversation().await;
    let key = format!("ghp_{}", "a1B2c3".repeat(6));
    let turns = format!("/v1/conversations/{c}/turns");
    let openai = "/v1/chat/completions".to_owned();
    for (path, body) in [
        (turns, json!({"prompt": "x", &key: 1})),
        (
            openai,
            json!({"model": "annals", "messages": [{"role": &key, "content": "x"}]}),
        ),
    ] {
        let answer = server.post(&path, &body).await;
        assert!(answer.status().is_client_error(), "{path}");
        let text = answer.text().await.unwrap();
        assert!(
            !text.contains(&key) && text.contains("[secret:github]"),
            "{path}: {text}"
        );
        serde_json::from_str::<Value>(&text).expect("it is still an object");
    }
}

/// Requests that cannot be done: method, path, body, status, code.
fn wrong_requests(c: &str) -> Vec<(Method, String, &'static str, u16, &'static str)> {
    let turns = format!("/v1/conversations/{c}/turns");
    vec![
        (
            Method::GET,
            "/v1/conversations/conv_none".to_owned(),
            "",
            404,
            "not_found",
        ),
        (
            Method::GET,
            "/v1/conversations/..%2f..".to_owned(),
            "",
            404,
            "not_found",
        ),
        (Method::GET, "/v1/nothing".to_owned(), "", 404, "not_found"),
        (
            Method::PUT,
            "/v1/conversations".to_owned(),
            "",
            405,
            "method_not_allowed",
        ),
        (
            Method::GET,
            "/v1/conversations?limit=x".to_owned(),
            "",
            400,
            "bad_request",
        ),
        (
            Method::GET,
            "/v1/conversations?cursor=%00".to_owned(),
            "",
            400,
            "bad_request",
        ),
        (
            Method::GET,
            format!("/v1/conversations/{c}/events?after=7"),
            "",
            409,
            "beyond_end",
        ),
        (Method::POST, turns.clone(), "{", 400, "bad_request"),
        (
            Method::POST,
            turns.clone(),
            "{\"prompt\": \"\"}",
            422,
            "unprocessable",
        ),
        (
            Method::POST,
            turns.clone(),
            "{\"prompt\": \"x\", \"other\": 1}",
            400,
            "bad_request",
        ),
        (
            Method::POST,
            format!("/v1/conversations/{c}/fork"),
            "{\"at\": 5}",
            422,
            "unprocessable",
        ),
        (Method::GET, "/v1/search?q=%20".to_owned(), "", 400, "bad_request"),
    ]
}

#[tokio::test]
async fn errors_are_problems_with_a_code_and_a_hint() {
    let server = Running::start(json!([])).await;
    let c = server.new_conversation().await;
    let turns = format!("/v1/conversations/{c}/turns");
    for (method, path, body, status, expected) in wrong_requests(&c) {
        let request = server
            .request(method.clone(), &path)
            .header("content-type", "application/json");
        let response = request.body(body).send().await.unwrap();
        assert_eq!(response.status(), status, "{method} {path} {body}");
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        let problem: Value = response.json().await.unwrap();
        assert_eq!(problem["code"], expected, "{method} {path}");
        assert!(problem["hint"].is_string() && problem["status"] == status);
    }
    let form = server
        .request(Method::POST, &turns)
        .header("content-type", "text/plain")
        .body("{}");
    assert_eq!(code(form.send().await.unwrap()).await, "unsupported_media_type");
}

#[tokio::test]
async fn health_needs_no_token_and_tools_are_listed() {
    let server = Running::start(json!([])).await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(server.bare(Method::GET, path).send().await.unwrap().status(), 200);
    }
    let tools = server.get_json("/v1/tools").await;
    let is_write = |tool: &&Value| tool["name"] == "react.write";
    let write = tools["items"].as_array().unwrap().iter().find(is_write).unwrap();
    assert_eq!(write["parameters"]["type"], "object");
}

async fn code(response: reqwest::Response) -> String {
    let problem: Value = response.json().await.unwrap();
    problem["code"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_beyond_what_may_wait_or_run_are_refused_until_there_is_room() {
    let gate = Gate::default();
    let mut limited = options();
    (limited.limits.queue_max, limited.limits.turns_per_scope) = (1, 2);
    let wait = json!({"tool_calls": [{"tool": "wait", "params": {}}]});
    let steps = json!([wait, {"text": "One"}, {"text": "Two"}, {"text": "Three"}]);
    let server = Running::with(steps, limited, |builder| builder.tool(gate.tool())).await;
    let [c, elsewhere] = [server.new_conversation().await, server.new_conversation().await];
    let first = server.prompt(&c, "1").await;
    gate.begun.notified().await;
    let [here, there] = [&c, &elsewhere].map(|c| format!("/v1/conversations/{c}/turns"));
    // What is refused for another reason does not count as a turn.
    for _ in 0..5 {
        assert_eq!(server.post(&there, &json!({"prompt": ""})).await.status(), 422);
    }
    let second = server.prompt(&c, "2").await;
    for (path, expected) in [(&here, "queue_full"), (&there, "too_many_turns")] {
        let refused = server.post(path, &json!({"prompt": "3"})).await;
        assert_eq!(refused.status(), 429);
        assert!(refused.headers().contains_key("retry-after"));
        assert_eq!(code(refused).await, expected);
    }
    gate.go.notify_one();
    for turn in [first, second] {
        server.ended(&c, &turn).await;
    }
    assert_eq!(server.post(&there, &json!({"prompt": "3"})).await.status(), 202);
}

#[tokio::test]
async fn how_far_a_call_has_come_is_an_event() {
    let heard = Arc::new(Notify::new());
    let spec = ToolSpec::builder("copy").parameters(json!({"type": "object", "properties": {}}));
    let go_on = heard.clone();
    let copy = DynamicTool::with_spec(spec.build().unwrap(), move |cx, _| {
        let go_on = go_on.clone();
        async move {
            cx.report(ToolProgress {
                progress: 1.0,
                total: Some(4.0),
                message: Some("reads".to_owned()),
            });
            // It is told of while the call runs, or the call never ends.
            go_on.notified().await;
            Ok(json!("copied"))
        }
    });
    let steps = json!([{"tool_calls": [{"id": "w", "tool": "copy", "params": {}}]}, {"text": "Done."}]);
    let server = Running::with(steps, options(), |builder| builder.tool(copy)).await;
    let c = server.new_conversation().await;
    let mut events = server.events(&c, None).await;
    let turn = server.prompt(&c, "Copy.").await;
    let seen = events.until(|event| event.name == "progress").await;
    let said = &seen.last().unwrap().data;
    assert_eq!(
        (&said["turn_id"], &said["step"]),
        (&json!(turn), &json!(1)),
        "{said}"
    );
    assert_eq!(
        (&said["progress"], &said["total"], &said["message"]),
        (&json!(1.0), &json!(4.0), &json!("reads"))
    );
    let calls = seen
        .iter()
        .filter(|event| event.data["type"] == "react.tool.call");
    let calls: Vec<&Value> = calls.map(|event| &event.data["call_id"]).collect();
    assert_eq!(calls, [&said["call_id"]], "the page finds the call by it");
    assert_eq!(
        seen.last().unwrap().id,
        None,
        "nobody resumes after what is not kept"
    );
    heard.notify_one();
    events.turn().await;
}
