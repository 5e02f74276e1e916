//! `steer` and `cancel`: a turn that another process runs.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use super::annals::{Annals, Ran};

/// A turn that runs in a process of its own, begun when this returns.
fn begun(annals: &Annals, script: &Value) -> (Child, BufReader<std::process::ChildStdout>) {
    let model = annals.script(script);
    let args = ["run", "Go", "--model", &model, "--conversation", "c1", "--json"];
    let mut child = annals
        .command(&args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("agent.log.header") {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "the turn did not begin");
    }
    (child, out)
}

fn rest(mut child: Child, out: BufReader<std::process::ChildStdout>) -> (i32, Vec<Value>) {
    let blocks = out
        .lines()
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect();
    (child.wait().unwrap().code().unwrap_or(-1), blocks)
}

#[test]
fn a_turn_is_cancelled_from_another_process() {
    let annals = Annals::new();
    let (child, out) = begun(
        &annals,
        &json!({"steps": [{"delay_ms": 60_000, "text": "too late"}]}),
    );
    annals.run(&["cancel", "c1"]).good();
    let (code, blocks) = rest(child, out);
    let end = blocks.last().unwrap();
    assert_eq!((code, end["type"].as_str().unwrap()), (1, "react.completion"));
    assert!(end["text"].as_str().unwrap().contains("cancelled"), "{end}");
    let again: Ran = annals.run(&["cancel", "c1"]);
    assert!(
        again.code != 0 && again.stderr.contains("no turn"),
        "{}",
        again.shown()
    );
}

#[test]
fn a_turn_is_steered_from_another_process() {
    let annals = Annals::new();
    let script = json!({"steps": [
        {"delay_ms": 12_000, "text": "Hello"},
        {"expect": ["in French, please"], "text": "Bonjour"},
    ]});
    let (child, out) = begun(&annals, &script);
    annals.run(&["steer", "c1", "in French, please"]).good();
    let (code, blocks) = rest(child, out);
    let answers: Vec<&str> = blocks
        .iter()
        .filter(|block| block["type"] == "assistant.completion")
        .filter_map(|block| block["text"].as_str())
        .collect();
    assert_eq!(
        (code, answers),
        (0, vec!["Hello", "Bonjour"]),
        "the turn went round once more"
    );
    let late = annals.run(&["steer", "c1", "and shorter"]);
    assert!(
        late.code != 0 && late.stderr.contains("no turn"),
        "{}",
        late.shown()
    );
}
