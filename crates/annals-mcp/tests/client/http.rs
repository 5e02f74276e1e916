//! Servers that are reached by address: the official one, and one of many mechanisms.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use annals_mcp::{Pins, RemoteServer};
use annals_requirements::installed;
use annals_testbed::ScriptServer;
use annals_tools::Tool;
use futures::StreamExt as _;
use serde_json::{Value, json};

use super::stage::{self, Stage};

/// A server of this machine, until it is dropped.
struct Listening(ScriptServer);

impl Listening {
    fn hostile(mechanism: &str) -> Self {
        let mut command = Command::new("python3");
        command.arg(script()).arg(mechanism).stderr(Stdio::null());
        Listening(ScriptServer::start(&mut command))
    }

    fn port(&self) -> u16 {
        self.0.ports()[0]
    }

    fn entry(&self) -> Value {
        json!({"url": format!("http://127.0.0.1:{}/mcp", self.port())})
    }
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/hostile_http.py")
}

async fn accepted(server: &Arc<RemoteServer>) -> Result<Vec<Arc<dyn Tool>>, String> {
    let (connection, offer) = server.offer().await.map_err(|error| error.to_string())?;
    let pins = Pins::new(connection.implementation(), offer.tools);
    Ok(stage::tools(server, &pins))
}

/// The code of the failure, and what the model reads.
async fn ended(mechanism: &str) -> (Option<String>, String) {
    let listening = Listening::hostile(mechanism);
    let stage = Stage::new();
    let mut patience = stage::patience();
    if mechanism.starts_with("start") {
        patience.startup = Duration::from_secs(3);
    }
    if ["floods", "20-mb", "without-end"]
        .iter()
        .any(|part| mechanism.contains(part))
    {
        patience.idle = Duration::from_secs(30);
        patience.total = Duration::from_secs(30);
    }
    let server = Arc::new(stage.server(&listening.entry()).patience(patience));
    let tools = match accepted(&server).await {
        Ok(tools) => tools,
        Err(error) => return (Some("unused".to_owned()), error),
    };
    let outcome = stage.call(&tools, "srv.work", json!({"x": "a"})).await;
    (
        outcome.error.as_ref().map(|error| error.code.to_string()),
        stage::read(&outcome),
    )
}

const MECHANISMS: &[(&str, Option<&str>, &str)] = &[
    ("wants-a-token", Some("unused"), ""),
    ("redirects", Some("unused"), ""),
    ("start-hangs", Some("unused"), "within 3 s"),
    ("start-is-a-page", Some("unused"), ""),
    ("start-fails", Some("unused"), ""),
    ("answers-with-json", None, "done in s1"),
    ("answers-with-events", None, "done in s1"),
    ("call-session-expired", None, "done in s2"),
    ("call-session-expires-always", Some("mcp_server_died"), ""),
    ("call-hangs", Some("timeout"), "no sign of life for 1.5 s"),
    ("call-hangs-in-a-stream", Some("timeout"), ""),
    ("call-progresses-in-a-stream", None, "done in s1"),
    ("call-dies", Some("mcp_server_died"), "look before you repeat it"),
    ("call-dies-in-a-stream", Some("mcp_server_died"), ""),
    ("call-breaks-off", Some("mcp_server_died"), ""),
    ("call-stream-ends-without-an-answer", Some("mcp_server_died"), ""),
    ("call-stream-breaks-and-is-resumed", None, "resumed"),
    ("call-fails", Some("mcp_server_died"), ""),
    ("call-is-limited", Some("mcp_server_died"), ""),
    ("call-is-not-json", Some("mcp_server_died"), ""),
    ("call-is-a-page", Some("mcp_server_died"), ""),
    ("call-is-accepted", Some("timeout"), ""),
    (
        "call-floods-events",
        Some("mcp_server_died"),
        "more than 20000 messages",
    ),
    (
        "call-20-mb-event",
        Some("mcp_server_died"),
        "a message of more than 16777216 bytes",
    ),
    (
        "call-20-mb-json",
        Some("mcp_server_died"),
        "a message of more than 16777216 bytes",
    ),
    (
        "call-event-without-end",
        Some("mcp_server_died"),
        "a message of more than 16777216 bytes",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_server_behind_an_address_stalls_breaks_or_misleads_a_turn() {
    let chosen = std::env::var("MECHANISM").unwrap_or_default();
    let rows = MECHANISMS.iter().filter(|(name, ..)| name.starts_with(&chosen));
    let runs = rows.map(|(name, code, says)| async move {
        let begun = Instant::now();
        let Ok((failed, read)) = tokio::time::timeout(Duration::from_secs(60), ended(name)).await else {
            return Some(format!("{name}: it stalls"));
        };
        let fits = failed.as_deref() == *code && read.contains(says);
        let shown: String = read.chars().take(300).collect();
        (!fits).then(|| {
            format!(
                "{name}: {code:?} {says:?}, but {failed:?} {shown:?} after {:?}",
                begun.elapsed()
            )
        })
    });
    let wrong: Vec<String> = futures::stream::iter(runs)
        .buffer_unordered(6)
        .filter_map(|wrong| async move { wrong })
        .collect()
        .await;
    assert!(
        wrong.is_empty(),
        "{} mechanisms:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bearer_opens_and_a_server_that_comes_back_is_used_again() {
    let listening = Listening::hostile("wants-a-token");
    let stage = Stage::new();
    let mut entry = listening.entry();
    entry["bearer"] = json!("open sesame");
    let server = Arc::new(stage.server(&entry).patience(stage::patience()));
    let tools = accepted(&server).await.unwrap();
    let outcome = stage.call(&tools, "srv.work", json!({})).await;
    assert!(outcome.error.is_none(), "{outcome:?}");
    let port = listening.port();
    drop(listening);
    let outcome = stage.call(&tools, "srv.work", json!({})).await;
    assert!(outcome.error.is_some(), "{outcome:?}");
    // Another process at the same address, which knows nothing of the session.
    let text = std::fs::read_to_string(script()).unwrap();
    let again = text.replace("(\"127.0.0.1\", 0)", &format!("(\"127.0.0.1\", {port})"));
    let mut back = Command::new("python3");
    let _back = ScriptServer::start(back.args(["-c", &again, "wants-a-token"]));
    let back = async {
        loop {
            let outcome = stage.call(&tools, "srv.work", json!({})).await;
            if outcome.error.is_none() {
                return stage::read(&outcome);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let read = tokio::time::timeout(Duration::from_secs(20), back)
        .await
        .expect("it is used again");
    assert!(read.contains("done in s1"), "{read}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_everything_server_over_http_gives_every_kind_of_content() {
    let Some(set) = installed("mcp-node") else { return };
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let script = set
        .folder()
        .join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let mut node = Command::new(set.program("node"));
    node.arg(script).arg("streamableHttp").stderr(Stdio::null());
    let listening = Listening(ScriptServer::start_on(port, node.env("PORT", port.to_string())));
    let stage = Stage::new();
    let server = Arc::new(stage.server(&listening.entry()));
    let tools = async {
        loop {
            if let Ok(tools) = accepted(&server).await {
                return tools;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let tools = tokio::time::timeout(Duration::from_secs(30), tools)
        .await
        .expect("it answers");
    let outcome = stage
        .call(&tools, "srv.echo", json!({"message": "over http"}))
        .await;
    assert!(stage::read(&outcome).contains("over http"), "{outcome:?}");
    let outcome = stage.call(&tools, "srv.get_tiny_image", json!({})).await;
    assert_eq!(outcome.artifacts.len(), 1, "{outcome:?}");
    let long = json!({"duration": 2, "steps": 4});
    let outcome = stage
        .call(&tools, "srv.trigger_long_running_operation", long)
        .await;
    assert!(outcome.error.is_none(), "{outcome:?}");
    let outcome = stage
        .call(&tools, "srv.trigger_elicitation_request", json!({}))
        .await;
    assert_eq!(
        outcome
            .error
            .as_ref()
            .map(|error| error.code.to_string())
            .as_deref(),
        Some("input_required"),
        "{outcome:?}"
    );
}
