//! One script by the script model and through the proxy of another project, LiteLLM, over each of the three protocols that
//! Annals speaks: whatever lies between, the timeline is the same.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use annals::core::block::{Block, Body};
use annals::core::ids::TurnId;
use annals::model::{Anthropic, OpenAi, Script, ScriptModel, Wire};
use annals::prelude::*;
use annals_requirements::installed;
use serde_json::Value;

const KEY: &str = "sk-annals-a-key-of-the-tests-that-is-long-enough";
const START_LIMIT: Duration = Duration::from_secs(120);

fn script() -> Value {
    let write = |id: &str, path: &str, content: &str| {
        json!({"id": id, "tool": "react.write", "params": {"path": path, "channel": "canvas", "content": content,
               "kind": "display"}})
    };
    json!({"steps": [
        {"text": "Writing both, für später 🦀.", "tool_calls": [write("tc_a1", "a.md", "# Héllo\n\nA \"quoted\" line."),
                                                                write("tc_a2", "b.md", "# Two")]},
        {"tool_calls": [{"id": "tc_b1", "tool": "react.read", "params": {"paths": ["fi:turn_1.files/a.md"]}}]},
        {"text": "Both are written."},
        {"text": "The first says Héllo."},
    ]})
}

#[tokio::test]
async fn the_timeline_is_the_same_through_a_proxy_of_another_project() {
    let Some(packages) = installed("litellm-proxy") else {
        return;
    };
    let proxy = Proxy::start(&packages.program("litellm"));
    let at = |path: &str| format!("http://127.0.0.1:{}{path}", proxy.port);
    let openai = |wire| {
        let model = OpenAi::builder("played").base_url(&at("/v1")).key(KEY).wire(wire);
        model.build().unwrap()
    };
    let scripted = timeline(ScriptModel::new(
        "script",
        Script::parse(&script().to_string()).unwrap(),
    ))
    .await;
    assert!(scripted.contains("Both are written."), "{scripted}");
    same("chat completions", &timeline(openai(Wire::Chat)).await, &scripted);
    same("responses", &timeline(openai(Wire::Responses)).await, &scripted);
    let anthropic = Anthropic::builder("played")
        .base_url(&at(""))
        .key(KEY)
        .build()
        .unwrap();
    same("messages", &timeline(anthropic).await, &scripted);
}

#[track_caller]
fn same(protocol: &str, through_proxy: &str, scripted: &str) {
    assert!(
        through_proxy == scripted,
        "{protocol}:\n{through_proxy}\nby the script:\n{scripted}"
    );
}

/// Two turns with this model, one line a block, without what providers count differently.
async fn timeline(model: impl Model + 'static) -> String {
    let home = tempfile::tempdir().unwrap();
    let agent = Agent::builder()
        .model(model)
        .tools(annals::tools::react::all())
        .home(home.path())
        .build()
        .await
        .unwrap();
    let mut session = agent.session("c").await.unwrap();
    for (turn, prompt) in [
        ("turn_1", "Write two files"),
        ("turn_2", "What does the first say?"),
    ] {
        let request = TurnRequest::new(prompt).turn_id(TurnId::parse(turn).unwrap());
        session = agent.run(session, request).await.unwrap().into_session();
    }
    session.timeline(|timeline| {
        timeline
            .blocks()
            .iter()
            .map(|block| {
                line(block)
                    + "
"
            })
            .collect()
    })
}

fn line(block: &Block) -> String {
    let path = block.path.as_ref().map_or("-", |path| path.as_str());
    let body = match &block.body {
        Body::Text(text) if block.kind.tag() == "react.completion" => {
            let report: Value = serde_json::from_str(text).unwrap();
            format!("{} {}", report["outcome"], report["error"])
        }
        // Names the model.
        Body::Text(_) if block.kind.tag() == "agent.log.header" => String::new(),
        Body::Text(text) => without_times(text),
        Body::Blob(blob) => blob.digest.to_string(),
        Body::Empty => String::new(),
    };
    format!("{} {path} {body}", block.kind)
}

fn without_times(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(mut fields)) => {
            fields.remove("ts");
            Value::Object(fields).to_string()
        }
        _ => text.to_owned(),
    }
}

/// LiteLLM's proxy with a provider that plays the script.
struct Proxy {
    process: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Proxy {
    fn start(program: &Path) -> Proxy {
        let folder = tempfile::tempdir().unwrap();
        let files = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/litellm");
        for name in ["player.py", "config.yaml"] {
            std::fs::copy(files.join(name), folder.path().join(name)).unwrap();
        }
        std::fs::write(folder.path().join("script.json"), script().to_string()).unwrap();
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let process = Command::new(program)
            .args([
                "--config",
                "config.yaml",
                "--host",
                "127.0.0.1",
                "--port",
                &port.to_string(),
            ])
            .current_dir(folder.path())
            .env("ANNALS_SCRIPT", folder.path().join("script.json"))
            .env("LITELLM_MASTER_KEY", KEY)
            // Otherwise it asks the network for prices first.
            .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
            .stdout(std::fs::File::create(folder.path().join("log")).unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let proxy = Proxy {
            process,
            port,
            _folder: folder,
        };
        proxy.wait_until_ready();
        proxy
    }

    fn wait_until_ready(&self) {
        let started = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(started.elapsed() < START_LIMIT, "the proxy does not start");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
