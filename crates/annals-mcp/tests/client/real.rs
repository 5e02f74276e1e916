//! Servers that other people wrote and use: everything and filesystem from npm, time, git and fetch from PyPI, each in the
//! sandbox.

use std::sync::Arc;
use std::time::Duration;

use annals_core::turn::outcome::Outcome;
use annals_mcp::connection::Patience;
use annals_mcp::{Pins, RemoteServer};
use annals_requirements::{Installed, PackageSet, installed};
use annals_tools::Tool;
use serde_json::{Value, json};

use super::stage::{self, Stage};

/// Interpreters take their time to start on a machine that is busy.
fn patience() -> Patience {
    Patience {
        startup: Duration::from_secs(120),
        idle: Duration::from_secs(30),
        total: Duration::from_secs(60),
    }
}

struct Running {
    stage: Stage,
    server: Arc<RemoteServer>,
    tools: Vec<Arc<dyn Tool>>,
}

impl Running {
    async fn start(entry: Value) -> Self {
        let stage = Stage::new();
        let server = Arc::new(stage.server(&entry).patience(patience()));
        let (connection, offer) = server.offer().await.unwrap_or_else(|error| panic!("{error}"));
        let tools = stage::tools(&server, &Pins::new(connection.implementation(), offer.tools));
        Running { stage, server, tools }
    }

    fn names(&self) -> Vec<&str> {
        self.tools
            .iter()
            .map(|tool| tool.spec().name().as_str())
            .collect()
    }

    async fn call(&self, name: &str, args: Value) -> Outcome {
        self.stage.call(&self.tools, name, args).await
    }

    async fn protocol(&self) -> String {
        self.server.connection().await.unwrap().protocol()
    }
}

fn python(set: &Installed, program: &str, args: &[&str]) -> Value {
    json!({"command": set.program(program), "args": args, "read": [set.folder()]})
}

fn node(set: &Installed, script: &str, args: &[&str]) -> Value {
    let script = set
        .folder()
        .join("node_modules/@modelcontextprotocol")
        .join(script);
    let argv: Vec<String> = std::iter::once(script.to_string_lossy().into_owned())
        .chain(args.iter().map(ToString::to_string))
        .collect();
    json!({
        "command": set.program("node"), "args": argv,
        "read": [set.folder(), PackageSet::node().folder()],
    })
}

#[tokio::test]
async fn time_is_told_and_speaks_the_newest_revision() {
    let Some(set) = installed("mcp-python") else {
        return;
    };
    let running = Running::start(python(&set, "mcp-server-time", &["--local-timezone", "UTC"])).await;
    assert_eq!(running.names(), ["srv.convert_time", "srv.get_current_time"]);
    let outcome = running
        .call("srv.get_current_time", json!({"timezone": "Europe/Berlin"}))
        .await;
    assert!(
        outcome.error.is_none() && stage::read(&outcome).contains("Europe/Berlin"),
        "{outcome:?}"
    );
    let outcome = running
        .call("srv.get_current_time", json!({"timezone": "Mars/Base"}))
        .await;
    assert!(outcome.error.is_some(), "{outcome:?}");
    assert_eq!(running.protocol().await, "2026-07-28");
}

#[tokio::test]
async fn git_sees_the_repository_it_was_given_and_nothing_else() {
    let Some(set) = installed("mcp-python") else {
        return;
    };
    let repository = tempfile::tempdir().unwrap();
    let git = |args: &[&str]| {
        let ran = std::process::Command::new("git")
            .args(args)
            .current_dir(repository.path())
            .output()
            .unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    };
    git(&["init", "-q"]);
    std::fs::write(repository.path().join("a.txt"), "a\n").unwrap();
    let path = repository.path().to_str().unwrap();
    let mut entry = python(&set, "mcp-server-git", &["--repository", path]);
    entry["write"] = json!([path]);
    entry["env"] =
        json!({"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"});
    let running = Running::start(entry).await;
    let outcome = running.call("srv.git_status", json!({"repo_path": path})).await;
    assert!(stage::read(&outcome).contains("a.txt"), "{outcome:?}");
    let outcome = running.call("srv.git_status", json!({"repo_path": "/usr"})).await;
    assert!(outcome.error.is_some(), "{outcome:?}");
}

#[tokio::test]
async fn fetch_has_no_network_in_the_sandbox_and_says_so() {
    let Some(set) = installed("mcp-python") else {
        return;
    };
    let running = Running::start(python(&set, "mcp-server-fetch", &[])).await;
    let outcome = running
        .call("srv.fetch", json!({"url": "http://127.0.0.1:9/"}))
        .await;
    assert!(outcome.error.is_some(), "{outcome:?}");
}

#[tokio::test]
async fn filesystem_reads_and_writes_what_it_was_given() {
    let Some(set) = installed("mcp-node") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "hello from outside").unwrap();
    let path = folder.path().to_str().unwrap();
    let mut entry = node(&set, "server-filesystem/dist/index.js", &[path]);
    entry["write"] = json!([path]);
    let running = Running::start(entry).await;
    let outcome = running
        .call("srv.read_text_file", json!({"path": format!("{path}/a.txt")}))
        .await;
    assert!(
        stage::read(&outcome).contains("hello from outside"),
        "{outcome:?}"
    );
    let target = format!("{path}/b.txt");
    let outcome = running
        .call(
            "srv.write_file",
            json!({"path": target, "content": "from inside"}),
        )
        .await;
    assert!(outcome.error.is_none(), "{outcome:?}");
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "from inside");
    let outcome = running
        .call("srv.read_text_file", json!({"path": "/etc/passwd"}))
        .await;
    assert!(outcome.error.is_some(), "{outcome:?}");
}

#[tokio::test]
async fn every_kind_of_content_becomes_what_it_is() {
    let Some(set) = installed("mcp-node") else {
        return;
    };
    let running = Running::start(node(&set, "server-everything/dist/index.js", &["stdio"])).await;
    assert_eq!(running.protocol().await, "2025-11-25");
    let outcome = running.call("srv.echo", json!({"message": "hello"})).await;
    assert!(stage::read(&outcome).contains("hello"), "{outcome:?}");
    let outcome = running.call("srv.get_tiny_image", json!({})).await;
    assert_eq!(outcome.artifacts.len(), 1, "{outcome:?}");
    assert_eq!(&outcome.artifacts[0].digest.mime[..], "image/png");
    let outcome = running
        .call("srv.get_structured_content", json!({"location": "New York"}))
        .await;
    assert!(stage::read(&outcome).contains("\"temperature\":"), "{outcome:?}");
    let outcome = running.call("srv.get_resource_links", json!({"count": 2})).await;
    assert!(stage::read(&outcome).contains("demo://"), "{outcome:?}");
}
