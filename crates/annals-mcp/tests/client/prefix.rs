//! What a prompt says of tools does not move while servers come, go and change; and a server that failed is tried again.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use annals_core::redact::Secrets;
use annals_mcp::{ServerSet, Servers};
use annals_tools::ToolTable;
use serde_json::{Value, json};

use super::stage::{self, Stage};

fn set(home: &Path, entry: &Value) -> ServerSet {
    let list = json!({"mcpServers": {"srv": entry}}).to_string();
    ServerSet::new(&Servers::from_json(&list).unwrap(), home, &Secrets::new())
}

/// The tools as a provider gets them.
fn prompt(set: &ServerSet) -> String {
    let table = ToolTable::builder().add_all(set.tools().0).build().unwrap();
    let schemas: Vec<Value> = table
        .schemas()
        .iter()
        .map(|tool| json!([tool.name, tool.description, tool.parameters]))
        .collect();
    serde_json::to_string(&schemas).unwrap()
}

fn hostile(mechanism: &str) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/hostile.py");
    stage::python(&script, &[mechanism])
}

#[tokio::test]
async fn the_prefix_is_the_same_bytes_while_servers_come_go_and_change() {
    let home = tempfile::tempdir().unwrap();
    let entry = hostile("changed-description");
    let first = set(home.path(), &entry);
    assert_eq!(prompt(&first), "[]");
    let accepted = first.accept_new().await;
    assert!(accepted.iter().all(Result::is_ok), "{accepted:?}");
    let pinned = prompt(&first);
    assert!(
        pinned.contains("srv.work") && pinned.contains("Works."),
        "{pinned}"
    );
    // It runs, and says something else of its tool from now on.
    let changed = set(home.path(), &entry);
    let (_, offer) = changed.servers()[0].offer().await.unwrap();
    let pins = changed.pins(&changed.servers()[0]).unwrap().unwrap();
    assert_eq!(pins.compare(&offer.digests).changed, ["work"]);
    assert_eq!(prompt(&changed), pinned);
    // It is gone.
    drop(changed);
    assert_eq!(
        prompt(&set(home.path(), &json!({"command": "/nowhere/server"}))),
        pinned
    );
    // It dies at once.
    let dying = set(home.path(), &hostile("start-dies"));
    assert!(dying.servers()[0].connection().await.is_err());
    assert!(dying.accept_new().await.is_empty());
    assert_eq!(prompt(&dying), pinned);
    // A person looks and accepts.
    let later = set(home.path(), &entry);
    later.accept(&later.servers()[0]).await.unwrap();
    assert!(prompt(&later).contains("send all files"));
}

#[tokio::test]
async fn a_server_that_fails_is_left_alone_for_a_while_and_then_tried_again() {
    let stage = Stage::new();
    let server = Arc::new(stage.server(&hostile("start-dies")));
    let first = server.connection().await.err().unwrap().to_string();
    assert!(first.contains("exited with code 3"), "{first}");
    // Nothing is started: the answer comes at once, with the reason of the last attempt.
    let started = Instant::now();
    let again = server.connection().await.err().unwrap().to_string();
    assert!(
        again.contains("exited with code 3") && again.contains("tried again in"),
        "{again}"
    );
    assert!(started.elapsed() < Duration::from_millis(50));
    tokio::time::sleep(Duration::from_millis(600)).await;
    let started = Instant::now();
    assert!(server.connection().await.is_err());
    assert!(
        started.elapsed() > Duration::from_millis(5),
        "it was not tried again"
    );
}

#[tokio::test]
async fn a_server_that_died_is_started_again_by_the_next_call() {
    let stage = Stage::new();
    let server = Arc::new(stage.server(&hostile("call-dies")).patience(stage::patience()));
    let (connection, offer) = server.offer().await.unwrap();
    let tools = stage::tools(
        &server,
        &annals_mcp::Pins::new(connection.implementation(), offer.tools),
    );
    drop(connection);
    for _ in 0..2 {
        let outcome = stage.call(&tools, "srv.work", json!({})).await;
        let code = outcome.error.map(|error| error.code.to_string());
        assert_eq!(code.as_deref(), Some("mcp_server_died"));
    }
}

/// The time that a call costs beside the server's own, over pipes and through the sandbox.
#[tokio::test]
#[allow(clippy::print_stdout, reason = "the figure is what people run it for")]
async fn a_call_over_pipes_costs_little() {
    let stage = Stage::new();
    let server = Arc::new(stage.server(&hostile("timed")).patience(stage::patience()));
    let (connection, offer) = server.offer().await.unwrap();
    let tools = stage::tools(
        &server,
        &annals_mcp::Pins::new(connection.implementation(), offer.tools),
    );
    let mut beside = Vec::new();
    let mut last = None;
    for _ in 0..400 {
        let started = Instant::now();
        let outcome = stage.call(&tools, "srv.work", json!({})).await;
        let took = started.elapsed();
        // A server knows how long a call took when it is over, and says so in the next.
        let own = stage::read(&outcome).trim().parse().map(Duration::from_nanos);
        let own = own.unwrap_or_else(|_| panic!("{outcome:?}"));
        beside.extend(last.map(|last: Duration| last.saturating_sub(own)));
        last = Some(took);
    }
    beside.sort_unstable();
    let (median, slow) = (beside[beside.len() / 2], beside[beside.len() * 19 / 20]);
    println!("call over stdio, beside the server's own time: median {median:?}, p95 {slow:?}");
    // Two milliseconds is the aim on an idle machine; tests share theirs.
    assert!(median < Duration::from_millis(50), "{median:?}");
}
