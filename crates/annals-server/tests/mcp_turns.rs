//! Turns that clients of `/mcp` start: waited for past what they ask, cancelled, with files, told to webhooks.

mod common;

use std::time::Duration;

use annals_runtime::{Ask, HookCx, Hooks, Verdict};
use annals_server::Options;
use annals_store::Role;
use annals_tools::ToolSpec;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use common::mcp::{Session, message, messages};
use common::{Gate, Running, options};
use serde_json::{Value, json};

struct Asks;

#[async_trait::async_trait]
impl Hooks for Asks {
    async fn before_call(&self, _: &HookCx, tool: &ToolSpec, _: &Value) -> Verdict {
        match tool.name().as_str() {
            "react.write" => Verdict::Ask(Ask {
                why: Some("files are precious".into()),
                ..Ask::default()
            }),
            _ => Verdict::Allow,
        }
    }
}

fn note(name: &str) -> Value {
    json!({"path": name, "channel": "canvas", "content": "# Note", "kind": "file"})
}

fn allowing(tools: &[&str]) -> Options {
    Options {
        mcp_tools: tools.iter().map(|&tool| tool.to_owned()).collect(),
        ..options()
    }
}

/// Decides about what a client was told that a turn waits for.
async fn decide(server: &Running, told: &Value, decision: &str) {
    let told = &told["structuredContent"];
    let path = format!(
        "/v1/conversations/{}/approvals/{}",
        told["conversation"].as_str().unwrap(),
        told["waiting_for"][0]["id"].as_str().unwrap()
    );
    server.post_json(&path, &json!({ "decision": decision })).await;
}

fn handle_of(told: &Value) -> Value {
    let told = &told["structuredContent"];
    json!({"conversation": told["conversation"], "turn": told["turn"]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_asked_is_waited_for_until_it_has_its_answer() {
    let steps = json!([
        {"tool_calls": [{"tool": "react.write", "params": note("a.md")}]},
        {"tool_calls": [{"tool": "react.write", "params": note("b.md")}]},
        {"text": "Both are written."},
    ]);
    let server = Running::with(steps, options(), |builder| builder.hooks(Asks)).await;
    let session = Session::begin(&server, &server.token).await;
    let first = session.call("annals_ask", json!({"prompt": "Write."})).await;
    let told = &first["structuredContent"];
    assert_eq!(
        (
            &told["state"],
            &told["waiting_for"][0]["tool"],
            &told["waiting_for"][0]["about"]
        ),
        (
            &json!("waiting"),
            &json!("react.write"),
            &json!("files are precious")
        ),
        "{first}"
    );
    decide(&server, &first, "once").await;
    // What was answered keeps nobody from what is asked next.
    let second = session.call("annals_wait", handle_of(&first)).await;
    assert_eq!(second["structuredContent"]["state"], "waiting", "{second}");
    assert_ne!(
        second["structuredContent"]["waiting_for"][0]["id"],
        told["waiting_for"][0]["id"]
    );
    let waits = session.call("annals_wait", handle_of(&first));
    let decides = async {
        decide(&server, &second, "once").await;
    };
    let (ended, ()) = tokio::join!(waits, decides);
    for ended in [ended, session.call("annals_wait", handle_of(&first)).await] {
        let told = &ended["structuredContent"];
        assert_eq!(
            (
                &told["state"],
                &told["answer"],
                &told["files"].as_array().map(Vec::len)
            ),
            (&json!("ended"), &json!("Both are written."), &Some(2)),
            "{ended}"
        );
    }
    let absent = json!({"conversation": told["conversation"], "turn": "turn_absent"});
    let refused = session.call("annals_wait", absent).await;
    assert!(refused.to_string().contains("has no turn"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_a_client_waits_for_a_person_who_is_another() {
    let server = Running::with(json!([]), allowing(&["react.write"]), |builder| {
        builder.hooks(Asks)
    })
    .await;
    let scope = server.agent.scope().to_string();
    let user = server.token_of(&scope, &[Role::Use]).await;
    let session = Session::begin(&server, &user).await;
    for (decision, is_error) in [("once", false), ("deny", true)] {
        let called = session.call("react__write", note("a.md")).await;
        assert_eq!(called["structuredContent"]["state"], "waiting", "{called}");
        assert_ne!(called["isError"], true, "{called}");
        let waits = session.call("annals_wait", handle_of(&called));
        let (ended, ()) = tokio::join!(waits, decide(&server, &called, decision));
        let told = &ended["structuredContent"];
        assert_eq!(
            (&told["state"], &told["outcome"], ended["isError"] == true),
            (&json!("ended"), &json!("complete"), is_error),
            "{ended}"
        );
        match is_error {
            true => assert_eq!(told["error"], "denied_by_person", "{ended}"),
            false => assert_eq!(told["files"][0]["media_type"], "text/markdown", "{ended}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_its_client_takes_back_ends() {
    let gate = Gate::default();
    let server = Running::with(json!([]), allowing(&["wait"]), |builder| {
        builder.tool(gate.tool())
    })
    .await;
    let session = Session::begin(&server, &server.token).await;
    let c = server.new_conversation().await;
    let params = json!({"name": "wait", "arguments": {"conversation": c}});
    let mut called = session.post(&message(7, "tools/call", params)).await;
    gate.begun.notified().await;
    let taken_back =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    assert_eq!(session.post(&taken_back).await.status(), 202);
    let path = format!("/v1/conversations/{c}");
    for _ in 0..6_000 {
        let state = server.get_json(&path).await;
        if state.to_string().contains("cancelled") {
            drop(called.chunk().await);
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the turn goes on: {}", server.get_json(&path).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_come_with_a_question_and_are_checked_like_every_attachment() {
    let steps = json!([
        {"expect": ["The code is 4711."], "text": "It is 4711."},
        {"expect": ["The code is 4711."], "text": "Still 4711."},
    ]);
    let server = Running::start(steps).await;
    let session = Session::begin(&server, &server.token).await;
    let ask = async |attachments: Value| {
        let arguments = json!({"prompt": "Which code?", "attachments": attachments});
        session.call("annals_ask", arguments).await
    };
    let bytes = STANDARD.encode("The code is 4711.\n");
    let told = ask(json!([{"name": "code.txt", "base64": bytes}])).await;
    assert_eq!(told["structuredContent"]["answer"], "It is 4711.", "{told}");
    // The same file, by its address.
    let c = told["structuredContent"]["conversation"].as_str().unwrap();
    let id = annals_core::ids::ConversationId::parse(c).unwrap();
    let timeline = server.agent.timeline(&id).await.unwrap();
    let attached = timeline
        .blocks()
        .iter()
        .find(|block| block.kind.tag() == "user.attachment");
    let uri = format!("annals://c/{c}/{}", attached.unwrap().path.as_ref().unwrap());
    let told = ask(json!([{ "uri": uri }])).await;
    assert_eq!(told["structuredContent"]["answer"], "Still 4711.", "{told}");
    let listed = server.get_json("/v1/conversations").await;
    let before = listed["items"].as_array().unwrap().len();
    let many: Vec<Value> = (0..33)
        .map(|at| json!({"name": format!("{at}.txt"), "base64": "eA=="}))
        .collect();
    for (wrong, says) in [
        (json!([{"name": "a.txt", "base64": "%%%"}]), "no base64"),
        (json!([{"name": "a.txt"}]), "needs `name` and `base64`"),
        (json!([{"uri": "file:///etc/passwd"}]), "no file of this server"),
        (json!([{"uri": "http://127.0.0.1/x"}]), "no file of this server"),
        (
            json!([{"uri": format!("annals://c/{c}/fi:turn_1.files/absent")}]),
            "absent",
        ),
        (json!(many), "at most 32"),
        (
            json!([{"name": "a.txt", "base64": bytes}, {"name": "a.txt", "base64": bytes}]),
            "a.txt",
        ),
        (json!("a.txt"), "cannot be read"),
    ] {
        let refused = ask(wrong.clone()).await;
        assert_eq!(refused["isError"], true, "{wrong}: {refused}");
        assert!(refused.to_string().contains(says), "{wrong}: {refused}");
    }
    let listed = server.get_json("/v1/conversations").await;
    let after = listed["items"].as_array().unwrap().len();
    assert_eq!(
        before, after,
        "a question that is refused leaves no conversation behind"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_resources_goes_on_where_its_page_ends() {
    let server = Running::start(json!([])).await;
    for _ in 0..51 {
        server.new_conversation().await;
    }
    let session = Session::begin(&server, &server.token).await;
    let (mut seen, mut cursor) = (Vec::new(), None::<Value>);
    loop {
        let params = cursor.map_or(json!({}), |cursor| json!({ "cursor": cursor }));
        let response = session.post(&message(9, "resources/list", params)).await;
        let told = messages(&response.text().await.unwrap()).remove(0);
        let page = &told["result"];
        let items = page["resources"].as_array().unwrap();
        assert!(items.len() <= 50, "{page}");
        seen.extend(items.iter().map(|item| item["uri"].as_str().unwrap().to_owned()));
        cursor = page.get("nextCursor").cloned();
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), 51);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 51, "none twice");
    let wrong = message(9, "resources/list", json!({"cursor": "nonsense"}));
    let refused = session.post(&wrong).await.text().await.unwrap();
    assert!(refused.contains("-32602"), "{refused}");
}
