//! One script by the script model, through the proxy of another project, and as streams of the vendors' published event
//! forms: whatever lies between, the timeline is the same.

#[path = "../../../annals-model/tests/loopback/mod.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "answers of all kinds, of which few are needed here"
)]
mod loopback;
mod proxy;
mod streams;

use annals::core::block::{Block, Body};
use annals::core::ids::TurnId;
use annals::model::{Script, ScriptModel};
use annals::prelude::*;
use serde_json::Value;

/// Steps of two turns.
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

/// The timeline that the script model makes of these steps.
async fn scripted(script: &Value) -> String {
    let script = Script::parse(&script.to_string()).unwrap();
    timeline(ScriptModel::new("script", script)).await
}

#[track_caller]
fn same(through: &str, made: &str, scripted: &str) {
    assert!(made == scripted, "{through}:\n{made}\nby the script:\n{scripted}");
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
    session.timeline(|timeline| timeline.blocks().iter().map(|block| line(block) + "\n").collect())
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
