//! What the server says of itself, read by the programs that others read it with.

mod common;

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use annals_runtime::{Ask, HookCx, Hooks, Verdict};
use annals_tools::ToolSpec;
use common::{Gate, Running, options};
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
