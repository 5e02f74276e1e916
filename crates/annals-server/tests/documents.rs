//! What the server says of itself, read by the programs that others read it with.

mod common;

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use annals_runtime::{Agent, Ask, HookCx, Hooks, Verdict};
use annals_tools::ToolSpec;
use common::{Gate, Running, options, script};
use serde_json::{Value, json};

/// Has a script of a set read a text; none when the set is not installed.
fn read_by(set: &str, script: &str, text: &str) -> Option<String> {
    let library = annals_requirements::installed(set)?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/clients")
        .join(script);
    let mut command = library.script(&script);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert!(
        ended.status.success(),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    Some(String::from_utf8(ended.stdout).unwrap())
}

#[tokio::test]
async fn the_api_document_is_valid() {
    let server = Running::start(json!([])).await;
    let document = server.get("/openapi.json").await.text().await.unwrap();
    read_by("openapi-validator", "openapi.py", &document);
}

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
async fn figures_are_what_happened() {
    let gate = Gate::default();
    gate.go.notify_one();
    let steps = json!([
        {"tool_calls": [{"tool": "react.search_files", "params": {"name_regex": "x"}}], "usage": {"input_tokens": 7, "output_tokens": 2}},
        {"tool_calls": [{"tool": "wait", "params": {}}], "usage": {"input_tokens": 5, "output_tokens": 1}},
        {"text": "Done", "usage": {"input_tokens": 3, "output_tokens": 1}},
    ]);
    let server = Running::with(steps, options(), |builder| builder.tool(gate.tool()).hooks(Asks)).await;
    let c = server.new_conversation().await;
    let turn = server.prompt(&c, "Go").await;
    let asked = loop {
        let waiting = server.get_json("/v1/approvals").await;
        if let Some(first) = waiting["items"].as_array().and_then(|items| items.first()) {
            break first.clone();
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    let figures = async || server.get("/metrics").await.text().await.unwrap();
    let pending = figures().await;
    assert!(pending.contains("annals_approvals_pending 1\n"), "{pending}");
    let id = asked["approval_id"].as_str().unwrap();
    server
        .post_json(
            &format!("/v1/conversations/{c}/approvals/{id}"),
            &json!({"decision": "once"}),
        )
        .await;
    server.ended(&c, &turn).await;
    if let Some(read) = read_by("prometheus", "prometheus.py", &figures().await) {
        check_figures(&serde_json::from_str(&read).unwrap(), server.agent.model().name());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_counted_by_the_server_that_comes_after_until_it_is_decided() {
    let home = tempfile::tempdir().unwrap();
    let gate = Gate::default();
    gate.go.notify_one();
    let agent = async |steps: Value| {
        let builder = Agent::builder().model(script(steps)).home(home.path());
        builder.tool(gate.tool()).hooks(Asks).build().await.unwrap()
    };
    let figure = async |server: &Running, line: &str| {
        let figures = server.get("/metrics").await.text().await.unwrap();
        figures.lines().any(|found| found == line)
    };
    let steps = json!([{"tool_calls": [{"tool": "wait", "params": {}}]}]);
    let mut first = Running::serve(agent(steps).await, options(), None).await;
    let c = first.new_conversation().await;
    let turn = first.prompt(&c, "Go").await;
    while !figure(&first, "annals_approvals_pending 1").await {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(
        figure(&first, "annals_turns_running 0").await,
        "a turn that waits does not run"
    );
    first.stop.cancel();
    first.served.take().unwrap().await.unwrap();
    drop(first);

    let next = Running::serve(agent(json!([{"text": "Done"}])).await, options(), None).await;
    assert!(figure(&next, "annals_approvals_pending 1").await);
    let waiting = next.get_json("/v1/approvals").await;
    let id = waiting["items"][0]["approval_id"].as_str().unwrap();
    let path = format!("/v1/conversations/{c}/approvals/{id}");
    next.post_json(&path, &json!({"decision": "once"})).await;
    next.ended(&c, &turn).await;
    let late = next.post(&path, &json!({"decision": "deny"})).await;
    let (status, problem): (u16, Value) = (late.status().as_u16(), late.json().await.unwrap());
    assert_eq!(
        (status, &problem["code"]),
        (409, &json!("decided")),
        "the first decision holds"
    );
    assert!(figure(&next, "annals_approvals_pending 0").await);
    assert!(figure(&next, "annals_turns_running 0").await);
}

/// What one turn with three model calls and two tools leaves.
fn check_figures(read: &Value, model: &str) {
    let value = |family: &str, sample: &str, labels: Value| -> f64 {
        let samples = read[family]["samples"]
            .as_array()
            .unwrap_or_else(|| panic!("{family}: {read}"));
        let found = samples
            .iter()
            .find(|found| found[0] == sample && found[1] == labels);
        found.unwrap_or_else(|| panic!("{sample} {labels}: {samples:?}"))[2]
            .as_f64()
            .unwrap()
    };
    let tool = json!({"tool": "wait"});
    for (family, sample, labels, expected) in [
        (
            "annals_turns",
            "annals_turns_total",
            json!({"outcome": "complete"}),
            1.0,
        ),
        (
            "annals_tokens",
            "annals_tokens_total",
            json!({"bucket": "input"}),
            15.0,
        ),
        (
            "annals_tool_calls",
            "annals_tool_calls_total",
            json!({"tool": "wait", "outcome": "ok"}),
            1.0,
        ),
        ("annals_tool_seconds", "annals_tool_seconds_count", tool, 1.0),
        (
            "annals_model_seconds",
            "annals_model_seconds_count",
            json!({ "model": model }),
            3.0,
        ),
        (
            "annals_approvals_pending",
            "annals_approvals_pending",
            json!({}),
            0.0,
        ),
        ("annals_turns_running", "annals_turns_running", json!({}), 0.0),
    ] {
        assert_eq!(value(family, sample, labels), expected, "{sample}");
    }
    assert!(value("annals_append_seconds", "annals_append_seconds_count", json!({})) >= 5.0);
    assert_eq!(read["annals_cache_breaks"]["type"], "counter");
}
