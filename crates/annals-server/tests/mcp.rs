//! `/mcp`: the SDKs that people use in both lifecycles, sessions that survive, and scopes that do not see each other.

mod common;
#[path = "../../annals-cli/tests/outside/mcp_seen.rs"]
mod mcp_seen;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use annals_requirements::installed;
use annals_runtime::Agent;
use annals_server::Options;
use annals_store::Role;
use annals_tools::{DynamicTool, Tool, ToolOutput, ToolResult};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use common::mcp::{INITIALIZE_REVISION, Session, begin, message, messages, sent};
use common::{Running, options};
use mcp_seen::report;
use reqwest::Method;
use serde_json::{Value, json};

fn with_write() -> Options {
    Options {
        mcp_tools: vec!["react.write".to_owned()],
        ..options()
    }
}

/// What a client of others saw.
async fn seen_by(set: &str, script: &str, mode: &str) -> Option<Value> {
    let client = installed(set)?;
    let server = Running::with(report(), with_write(), |builder| builder).await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../annals-cli/tests/outside")
        .join(script);
    let mut command: Command = client.script(&script);
    command
        .env("ANNALS_URL", &server.base)
        .env("ANNALS_TOKEN", &server.token)
        .env("MCP_MODE", mode)
        .env("NO_PROXY", "127.0.0.1");
    let mut command = tokio::process::Command::from(command);
    let ended = tokio::time::timeout(Duration::from_secs(60), command.kill_on_drop(true).output());
    let ended = ended.await.expect("the client ends in time").unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    Some(serde_json::from_slice(&ended.stdout).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_sdk_gets_the_same_offer_in_both_lifecycles() {
    for (mode, protocol) in [("auto", "2026-07-28"), ("legacy", INITIALIZE_REVISION)] {
        let Some(saw) = seen_by("mcp-python", "mcp_client.py", mode).await else {
            return;
        };
        mcp_seen::check_python(&saw);
        assert_eq!(saw["protocol"], protocol, "{saw}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_typescript_sdk_asks_with_progress_in_a_session() {
    let Some(saw) = seen_by("mcp-node", "mcp_client.mjs", "").await else {
        return;
    };
    mcp_seen::check_typescript(&saw);
    assert!(saw["session"].is_string(), "{saw}");
}

/// A PNG of one pixel.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==";
/// The head of a sound without a sample.
const SILENCE: &[u8] =
    b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0data\0\0\0\0";

/// Tools of the agent by the names that the official suite calls. They come to it as every allowed tool does.
fn fixture() -> Vec<Arc<dyn Tool>> {
    let tool = |name: &str, schema: Value, output: fn() -> ToolResult<ToolOutput>| -> Arc<dyn Tool> {
        let made = DynamicTool::new(
            name,
            "For the suite.",
            schema,
            move |_, _| async move { output() },
        );
        Arc::new(made.unwrap())
    };
    let none = json!({"type": "object", "properties": {}});
    let schema_2020_12 = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {"type": "object", "properties": {
            "street": {"type": "string"}, "city": {"type": "string"},
        }}},
        "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
        "additionalProperties": false,
    });
    vec![
        tool("test_simple_text", none.clone(), || {
            Ok(ToolOutput::text("This is a simple text response for testing."))
        }),
        tool("test_image_content", none.clone(), || {
            Ok(ToolOutput::new().file("pixel.png", STANDARD.decode(PIXEL).unwrap()))
        }),
        tool("test_audio_content", none.clone(), || {
            Ok(ToolOutput::new().file("silence.wav", SILENCE))
        }),
        tool("test_error_handling", none.clone(), || {
            Err("This tool intentionally returns an error for testing".into())
        }),
        tool("test_tool_with_progress", none, || {
            Ok(ToolOutput::text("It went on."))
        }),
        tool("json_schema_2020_12_tool", schema_2020_12, || {
            Ok(ToolOutput::text("Fits."))
        }),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_suite_passes_but_for_what_is_listed_with_its_reason() {
    let Some(suite) = installed("mcp-conformance") else {
        return;
    };
    let tools = fixture();
    let options = Options {
        needs_token: false,
        mcp_tools: tools.iter().map(|tool| tool.spec().name().to_string()).collect(),
        ..options()
    };
    let server = Running::with(json!([]), options, |builder| builder.tools(tools)).await;
    let results = tempfile::tempdir().unwrap();
    let mut command = tokio::process::Command::new(suite.program("node"));
    command
        .arg(
            suite
                .folder()
                .join("node_modules/@modelcontextprotocol/conformance/dist/index.js"),
        )
        .args([
            "server",
            "--suite",
            "all",
            "--url",
            &format!("{}/mcp", server.base),
        ])
        .arg("--expected-failures")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp_conformance.yml"))
        .arg("--output-dir")
        .arg(results.path())
        .env("NO_PROXY", "localhost,127.0.0.1")
        .current_dir(results.path());
    let ended = tokio::time::timeout(Duration::from_secs(120), command.kill_on_drop(true).output());
    let ended = ended.await.expect("the suite ends in time").unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(
        ended.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(&ended.stderr)
    );
}

#[tokio::test]
async fn another_scope_has_neither_the_session_nor_the_conversation() {
    let server = Running::with(report(), with_write(), |builder| builder).await;
    let own = Session::begin(&server, &server.token).await;
    let told = own.call("annals_ask", json!({"prompt": "Write."})).await;
    let conversation = told["structuredContent"]["conversation"].clone();
    let path = told["structuredContent"]["files"][0]["path"].clone();
    let uri = told["structuredContent"]["files"][0]["uri"].clone();
    let stranger = server.token_of("other/tenant/person", &[Role::Use]).await;
    for method in [Method::POST, Method::GET] {
        let borrowed = Session {
            server: &server,
            token: stranger.clone(),
            id: own.id.clone(),
        };
        let request = borrowed.request(method.clone());
        let request = match method {
            Method::POST => request.json(&message(2, "tools/list", json!({}))),
            _ => request,
        };
        assert_eq!(request.send().await.unwrap().status(), 404, "{method}");
    }
    let other = Session::begin(&server, &stranger).await;
    for (tool, arguments) in [
        ("annals_read", json!({"conversation": conversation, "path": path})),
        ("annals_timeline", json!({"conversation": conversation})),
        ("annals_ask", json!({"conversation": conversation, "prompt": "x"})),
        (
            "annals_wait",
            json!({"conversation": conversation, "turn": told["structuredContent"]["turn"]}),
        ),
    ] {
        let result = other.call(tool, arguments).await;
        assert_eq!(result["isError"], true, "{tool}: {result}");
        assert!(!result.to_string().contains("All is well"), "{tool}: {result}");
        assert!(result.to_string().contains("does not exist"), "{tool}: {result}");
    }
    let found = other
        .call("annals_search_memory", json!({"query": "report"}))
        .await;
    assert_eq!(found["structuredContent"]["passages"], json!([]), "{found}");
    let read = other
        .post(&message(9, "resources/read", json!({"uri": uri})))
        .await;
    let read = messages(&read.text().await.unwrap());
    assert!(read[0]["error"].is_object(), "{read:?}");
    // The stranger's DELETE ends nothing of others.
    let borrowed = Session {
        server: &server,
        token: stranger.clone(),
        id: own.id.clone(),
    };
    borrowed.request(Method::DELETE).send().await.unwrap();
    assert_eq!(own.post(&message(3, "tools/list", json!({}))).await.status(), 200);
}

#[tokio::test]
async fn a_session_ends_when_its_client_says_so_and_an_unknown_one_is_not_found() {
    let server = Running::start(json!([])).await;
    let session = Session::begin(&server, &server.token).await;
    assert_eq!(
        session.request(Method::DELETE).send().await.unwrap().status(),
        202
    );
    for id in [
        session.id.as_str(),
        "00000000-0000-0000-0000-000000000000",
        "../../x y",
    ] {
        let gone = Session {
            server: &server,
            token: server.token.clone(),
            id: id.to_owned(),
        };
        assert_eq!(
            gone.post(&message(2, "tools/list", json!({}))).await.status(),
            404,
            "{id}"
        );
    }
    let bare = sent(&server, Method::POST, &server.token).json(&message(2, "tools/list", json!({})));
    assert_eq!(bare.send().await.unwrap().status(), 400, "a session is needed");
}

#[tokio::test]
async fn a_session_goes_on_after_a_restart() {
    let home = tempfile::tempdir().unwrap();
    let start = async || {
        let agent = Agent::builder()
            .model(common::script(json!([])))
            .home(home.path());
        Running::serve(agent.build().await.unwrap(), options(), None).await
    };
    let mut first = start().await;
    let secret = first.token_of("acme/web/ada", &[Role::Use]).await;
    let id = Session::begin(&first, &secret).await.id;
    first.stop.cancel();
    first.served.take().unwrap().await.unwrap();
    drop(first);
    let second = start().await;
    let session = Session {
        server: &second,
        token: secret,
        id,
    };
    let listed = session.post(&message(2, "tools/list", json!({}))).await;
    assert_eq!(listed.status(), 200);
    let told = messages(&listed.text().await.unwrap());
    assert!(
        told.iter().any(|message| message["result"]["tools"].is_array()),
        "{told:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_one_node_is_used_on_another_while_both_run() {
    let home = tempfile::tempdir().unwrap();
    let node = async |answer: &str| {
        let agent = Agent::builder()
            .model(common::script(json!([{"text": answer}])))
            .home(home.path());
        Running::serve(agent.build().await.unwrap(), options(), None).await
    };
    let (first, second) = (node("From the first.").await, node("From the second.").await);
    let token = first.token_of("acme/web/ada", &[Role::Use]).await;
    let here = Session::begin(&first, &token).await;
    let there = Session {
        server: &second,
        token: token.clone(),
        id: here.id.clone(),
    };
    let told = there.call("annals_ask", json!({"prompt": "Who answers?"})).await;
    let told = &told["structuredContent"];
    assert_eq!(told["answer"], "From the second.", "{told}");
    // The first goes on with the same session, and sees what was done in it on the other.
    let asked = json!({"conversation": told["conversation"], "turn": told["turn"]});
    let waited = here.call("annals_wait", asked).await;
    assert_eq!(
        waited["structuredContent"]["answer"], "From the second.",
        "{waited}"
    );
    // Another scope has it on neither.
    let stranger = first.token_of("other/tenant/person", &[Role::Use]).await;
    for server in [&first, &second] {
        let borrowed = Session {
            server,
            token: stranger.clone(),
            id: here.id.clone(),
        };
        let listed = borrowed.post(&message(2, "tools/list", json!({}))).await;
        assert_eq!(listed.status(), 404);
    }
    // One that was ended on a node does not come back on another that has not seen it.
    let ended = Session::begin(&first, &token).await;
    assert_eq!(ended.request(Method::DELETE).send().await.unwrap().status(), 202);
    let gone = Session {
        server: &second,
        token,
        id: ended.id.clone(),
    };
    let listed = gone.post(&message(2, "tools/list", json!({}))).await;
    assert_eq!(listed.status(), 404);
}

/// A request of the revision that has no sessions.
fn alone() -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "by hand", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    message(4, "tools/list", json!({ "_meta": meta }))
}

#[tokio::test(flavor = "multi_thread")]
async fn scopes_with_sessions_have_a_bound_and_idle_ones_make_room() {
    const SCOPES: usize = 3;
    let limits = annals_server::Limits {
        mcp_scopes: SCOPES,
        ..Default::default()
    };
    let server = Running::with(json!([]), Options { limits, ..options() }, |builder| builder).await;
    let token = async |at: usize| {
        server
            .token_of(&format!("acme/web/person-{at}"), &[Role::Use])
            .await
    };
    let mut sessions = Vec::new();
    for at in 0..SCOPES {
        sessions.push(Session::begin(&server, &token(at).await).await);
    }
    let (server, token) = (&server, &token);
    // All at once, so that they meet at the lock.
    let others = futures::future::join_all((0..8).map(|at| async move {
        let secret = token(SCOPES + at).await;
        let begun = begin(server, &secret).await;
        let refused = begun.status().as_u16();
        let problem: Value = begun.json().await.unwrap();
        let alone = sent(server, Method::POST, &secret)
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/list")
            .json(&alone());
        let alone = alone.send().await.unwrap();
        (refused, problem["code"].clone(), alone.status().as_u16())
    }));
    for other in others.await {
        assert_eq!(other, (429, json!("too_many_sessions"), 200));
    }
    for session in &sessions {
        let listed = session.post(&message(2, "tools/list", json!({}))).await;
        assert_eq!(listed.status(), 200, "who was there goes on");
    }
    let over = sessions.pop().unwrap();
    over.request(Method::DELETE).send().await.unwrap();
    let next = Session::begin(server, &token(20).await).await;
    let listed = next.post(&message(2, "tools/list", json!({}))).await;
    assert_eq!(listed.status(), 200);
    assert_eq!(begin(server, &over.token).await.status(), 429);
}

#[tokio::test]
async fn an_answer_whose_connection_broke_is_asked_for_again() {
    let server = Running::start(json!([{"text": "Here it is.", "delay_ms": 400}])).await;
    let session = Session::begin(&server, &server.token).await;
    let ask = message(
        7,
        "tools/call",
        json!({"name": "annals_ask", "arguments": {"prompt": "x"}}),
    );
    let mut broken = session.post(&ask).await;
    let first = String::from_utf8(broken.chunk().await.unwrap().unwrap().to_vec()).unwrap();
    let last = first
        .lines()
        .find_map(|line| line.strip_prefix("id:"))
        .unwrap()
        .trim()
        .to_owned();
    drop(broken);
    let again = session
        .request(Method::GET)
        .header("last-event-id", last)
        .send()
        .await
        .unwrap();
    assert_eq!(again.status(), 200);
    let mut again = again;
    let mut text = String::new();
    let answer = tokio::time::timeout(Duration::from_secs(20), async {
        while let Some(piece) = again.chunk().await.unwrap() {
            text.push_str(std::str::from_utf8(&piece).unwrap());
            if let Some(answer) = messages(&text).into_iter().find(|message| message["id"] == 7) {
                return answer;
            }
        }
        panic!("the stream ended without the answer: {text}");
    });
    let answer = answer.await.unwrap();
    assert_eq!(
        answer["result"]["structuredContent"]["answer"], "Here it is.",
        "{answer}"
    );
}

#[tokio::test]
async fn sessions_streams_bodies_and_turns_have_their_limits() {
    let limits = annals_server::Limits {
        json_max_bytes: 20_000,
        turns_per_scope: 1,
        ..Default::default()
    };
    let steps = json!([{"text": "Slow.", "delay_ms": 60_000}, {"text": "Slow."}]);
    let server = Running::with(steps, Options { limits, ..options() }, |builder| builder).await;
    let session = Session::begin(&server, &server.token).await;
    let long = json!({"name": "annals_ask", "arguments": {"prompt": "x".repeat(30_000)}});
    assert_eq!(session.post(&message(2, "tools/call", long)).await.status(), 413);
    let ask = message(
        3,
        "tools/call",
        json!({"name": "annals_ask", "arguments": {"prompt": "x"}}),
    );
    let mut first = session.post(&ask).await;
    assert!(first.chunk().await.unwrap().is_some());
    let is_under_way = async || {
        let listed = server
            .agent
            .log()
            .list(server.agent.scope(), None, 2)
            .await
            .unwrap();
        match listed.items.first() {
            Some(made) => !server
                .agent
                .timeline(&made.key.id)
                .await
                .unwrap()
                .blocks()
                .is_empty(),
            None => false,
        }
    };
    while !is_under_way().await {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let refused = session.call("annals_ask", json!({"prompt": "y"})).await;
    assert!(refused.to_string().contains("turns of"), "{refused}");
    let mut status = 200;
    for _ in 0..300 {
        let begun = begin(&server, &server.token).await;
        status = begun.status().as_u16();
        if status != 200 {
            let problem: Value = begun.json().await.unwrap();
            assert_eq!(problem["code"], "too_many_sessions", "{problem}");
            break;
        }
    }
    assert_eq!(status, 429);
    assert_eq!(
        session.post(&message(5, "ping", json!({}))).await.status(),
        200,
        "others go on"
    );
}

#[tokio::test]
async fn open_streams_end_with_the_server() {
    let mut server = Running::start(json!([])).await;
    let mut stream = {
        let session = Session::begin(&server, &server.token).await;
        session.request(Method::GET).send().await.unwrap()
    };
    assert_eq!(stream.status(), 200);
    server.stop.cancel();
    let stopped = tokio::time::timeout(Duration::from_secs(5), server.served.take().unwrap());
    stopped.await.expect("it stops in time").unwrap();
    let ended = async { while let Ok(Some(_)) = stream.chunk().await {} };
    tokio::time::timeout(Duration::from_secs(2), ended).await.unwrap();
}
