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
    let server = Arc::new(
        stage
            .server(&hostile("call-dies-once"))
            .patience(stage::patience()),
    );
    let (connection, offer) = server.offer().await.unwrap();
    let tools = stage::tools(
        &server,
        &annals_mcp::Pins::new(connection.implementation(), offer.tools),
    );
    drop(connection);
    let outcome = stage.call(&tools, "srv.work", json!({})).await;
    let code = outcome.error.map(|error| error.code.to_string());
    assert_eq!(code.as_deref(), Some("mcp_server_died"));
    let outcome = stage.call(&tools, "srv.work", json!({})).await;
    assert!(outcome.error.is_none(), "{outcome:?}");
    assert_eq!(stage::read(&outcome), "done");
}

#[tokio::test]
async fn a_cancelled_call_is_cancelled_at_the_server() {
    let stage = Stage::new();
    let server = Arc::new(stage.server(&hostile("call-waits-to-be-cancelled")));
    let (connection, offer) = server.offer().await.unwrap();
    let tools = stage::tools(
        &server,
        &annals_mcp::Pins::new(connection.implementation(), offer.tools),
    );
    let effects = stage.folder.path().join("servers/srv/effects");
    let cancel = stage.cancel.clone();
    let stopping = async {
        stage::until(&effects, "begun").await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(stage.call(&tools, "srv.work", json!({})), stopping);
    let code = outcome.error.map(|error| error.code.to_string());
    assert_eq!(code.as_deref(), Some("cancelled"));
    stage::until(&effects, "cancelled").await;
}

#[tokio::test]
async fn what_was_accepted_and_cannot_be_read_is_not_accepted_anew() {
    let home = tempfile::tempdir().unwrap();
    let first = set(home.path(), &hostile("changed-description"));
    assert!(first.accept_new().await.iter().all(Result::is_ok));
    let file = home.path().join("mcp/pins/srv.json");
    std::fs::write(&file, "{\"tools\": [").unwrap();
    let later = set(home.path(), &hostile("changed-description"));
    let said = later.accept_new().await.pop().unwrap().unwrap_err().to_string();
    assert!(said.contains("`annals mcp inspect srv --accept`"), "{said}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{\"tools\": [");
    let (tools, complaints) = later.tools();
    assert!(tools.is_empty() && complaints.len() == 1, "{complaints:?}");
    // A person looked.
    later.accept(&later.servers()[0]).await.unwrap();
    assert!(prompt(&later).contains("send all files"));
}

#[tokio::test]
async fn a_server_that_asks_without_end_costs_few_notices() {
    let stage = Stage::new();
    let server = Arc::new(stage.server(&hostile("call-elicits-100-times")));
    let (connection, offer) = server.offer().await.unwrap();
    let tools = stage::tools(
        &server,
        &annals_mcp::Pins::new(connection.implementation(), offer.tools),
    );
    let outcome = annals_tools::execute::perform(&tools[0], &stage.cx().attended(false), json!({})).await;
    assert!(stage::read(&outcome).contains("asked often"), "{outcome:?}");
    assert_eq!(outcome.notices.len(), 9);
    let last = &outcome.notices[8].message;
    assert_eq!(&**last, "92 more questions were declined");
}

const CALLS: u32 = 400;

/// The processor time of this process so far.
fn own_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_ascii_whitespace()
        .collect();
    // In the process and in the system for it, in hundredths of a second.
    let ticks: u64 = fields[11..13]
        .iter()
        .map(|ticks| ticks.parse::<u64>().unwrap())
        .sum();
    Duration::from_millis(ticks * 10)
}

#[tokio::test]
async fn every_kind_of_content_becomes_a_file_or_a_source() {
    let stage = Stage::new();
    let server = Arc::new(stage.server(&hostile("call-every-kind")));
    let (connection, offer) = server.offer().await.unwrap();
    let tools = stage::tools(
        &server,
        &annals_mcp::Pins::new(connection.implementation(), offer.tools),
    );
    let outcome = stage.call(&tools, "srv.work", json!({})).await;
    assert!(outcome.error.is_none(), "{outcome:?}");
    let files: Vec<(String, String)> = outcome
        .artifacts
        .iter()
        .map(|kept| {
            (
                kept.digest.artifact_path.to_string(),
                kept.digest.mime[..].to_owned(),
            )
        })
        .collect();
    let at = |name: &str| format!("fi:turn_1.files/mcp/srv/tc_1-{name}");
    assert_eq!(files[0].0, at("1-audio.wav"));
    assert!(files[0].1.starts_with("audio/"), "{files:?}");
    assert_eq!(files[1].0, at("2-report.bin"));
    assert_eq!(outcome.artifacts[1].digest.size_bytes, Some(6), "{outcome:?}");
    let sources: Vec<&str> = outcome.sources.iter().map(|row| &*row.url).collect();
    assert_eq!(sources, ["https://example.org/paper"]);
    // Lines of base64 may be broken in a resource as well.
    let read = connection.read_resource("x://greeting").await.unwrap();
    assert_eq!(read[0].bytes, b"hello");
}

#[tokio::test]
async fn a_server_starts_in_the_folder_that_it_was_given() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("order"), "change").unwrap();
    let mut entry = hostile("follows-orders");
    entry["write"] = json!([folder.path()]);
    let mut given = entry.clone();
    given["cwd"] = json!(folder.path());
    for (entry, description) in [(entry, "Works."), (given, "Works otherwise.")] {
        let (_, offer) = Stage::new().server(&entry).offer().await.unwrap();
        assert_eq!(offer.tools[0].description.as_deref(), Some(description));
    }
}

#[tokio::test]
async fn an_output_schema_that_cannot_be_used_is_told_of() {
    let home = tempfile::tempdir().unwrap();
    let set = set(home.path(), &hostile("call-output-schema-invalid"));
    assert!(set.accept_new().await.iter().all(Result::is_ok));
    let (tools, complaints) = set.tools();
    assert_eq!(tools.len(), 1, "it is offered all the same");
    let about = "the output schema of `srv.work` cannot be used, so its structured answers are not checked: ";
    assert!(
        complaints.len() == 1 && complaints[0].starts_with(about),
        "{complaints:?}"
    );
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
    let before = own_time();
    for _ in 0..CALLS {
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
    let ours = (own_time() - before) / CALLS;
    println!(
        "call over stdio, beside the server's own time: median {median:?}, p95 {slow:?}; of our processor {ours:?}"
    );
    // A machine that is busy makes a call wait, and not take more of the processor.
    assert!(ours < Duration::from_millis(2), "{ours:?}");
}
