//! The official suite against this client: each scenario starts a server and a process of this test binary, and judges what
//! the process sends.

use std::sync::Arc;
use std::time::Duration;

use annals_core::block::payload::{InputAction, InputResponse};
use annals_core::code::Code;
use annals_core::ids::{CallId, RequestId, TurnId};
use annals_mcp::Pins;
use annals_requirements::installed;
use annals_tools::execute;
use serde_json::json;

use super::stage::{self, Stage};

/// The scenarios that apply. The others are about OAuth, which is not there yet.
const SCENARIOS: [&str; 4] = [
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sse-retry",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_official_suite_passes_for_clients_without_oauth() {
    let Some(suite) = installed("mcp-conformance") else {
        return;
    };
    let program = std::env::current_exe().unwrap();
    let command = format!(
        "{} client::conformance::as_client --exact --ignored --nocapture",
        program.display()
    );
    let results = tempfile::tempdir().unwrap();
    for scenario in SCENARIOS {
        let mut ran = tokio::process::Command::new(suite.program("node"));
        ran.arg(
            suite
                .folder()
                .join("node_modules/@modelcontextprotocol/conformance/dist/index.js"),
        )
        .args([
            "client",
            "--scenario",
            scenario,
            "--command",
            &command,
            "--output-dir",
        ])
        .arg(results.path())
        .env("NO_PROXY", "localhost,127.0.0.1")
        .current_dir(results.path());
        let ended = tokio::time::timeout(Duration::from_secs(60), ran.kill_on_drop(true).output());
        let ended = ended.await.expect("the scenario ends in time").unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        assert!(
            ended.status.success(),
            "{scenario}: {said}\n{}",
            String::from_utf8_lossy(&ended.stderr)
        );
    }
}

/// What the suite starts, with the address of its server as the last argument.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a process of the test above"]
async fn as_client() {
    let url = std::env::args().next_back().unwrap();
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap();
    let stage = Stage::new();
    let server = Arc::new(stage.server(&json!({ "url": url })));
    let (connection, offer) = server.offer().await.unwrap();
    let pins = Pins::new(connection.implementation(), offer.tools);
    let tools = stage::tools(&server, &pins);
    let (name, arguments) = match scenario.as_str() {
        "tools_call" => ("srv.add_numbers", json!({"a": 5, "b": 3})),
        "elicitation-sep1034-client-defaults" => ("srv.test_client_elicitation_defaults", json!({})),
        "sse-retry" => ("srv.test_reconnection", json!({})),
        _ => return,
    };
    let mut outcome = stage.call(&tools, name, arguments.clone()).await;
    if outcome
        .error
        .as_ref()
        .is_some_and(|error| error.code == Code::InputRequired)
    {
        let (turn, call) = (TurnId::parse("turn_1").unwrap(), CallId::parse("tc_1").unwrap());
        let answer = InputResponse {
            input_id: RequestId::of(&turn, &call, 1),
            action: InputAction::Accept,
            content: Some(json!({})),
            by: "suite".to_owned(),
            via: "test".to_owned(),
        };
        let tool = tools
            .iter()
            .find(|tool| tool.spec().name().as_str() == name)
            .unwrap();
        outcome = execute::perform(tool, &stage.cx().answered(vec![answer]), arguments).await;
    }
    assert!(outcome.error.is_none(), "{}", stage::read(&outcome));
}
