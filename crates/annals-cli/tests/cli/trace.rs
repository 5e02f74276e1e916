//! `trace`: spans that OpenTelemetry's own messages can carry, the same at every export.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use super::annals::Annals;

/// A conversation with a turn that calls tools, one of them in vain, and a turn that fails.
fn conversation() -> Annals {
    let annals = Annals::new();
    let model = annals.script(&json!({"steps": [
        {"thinking": "hm", "text": "Drafting", "tool_calls": [
            {"id": "tc_a1", "tool": "react.write",
             "params": {"path": "report.md", "channel": "canvas", "content": "SECRET-CONTENT", "kind": "display"}},
            {"id": "tc_a2", "tool": "no_such_tool", "params": {}}],
         "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_tokens": 3}},
        {"text": "Done", "usage": {"input_tokens": 20, "output_tokens": 6}}]}));
    let run = |prompt: &str, turn: &str, model: &str| {
        annals.run(&[
            "run",
            prompt,
            "--model",
            model,
            "--conversation",
            "c1",
            "--turn-id",
            turn,
        ])
    };
    run("SECRET-PROMPT", "turn_1", &model).good();
    let broken = annals.script(&json!({"steps": [{"error": {"kind": "auth"}}]}));
    assert_eq!(run("Again", "turn_2", &broken).code, 1);
    annals
}

/// The spans as OpenTelemetry's package reads them, or nothing where it is not installed.
fn read_by_opentelemetry(export: &str) -> Option<Vec<Value>> {
    let installed = annals_requirements::installed("opentelemetry")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outside/otlp.py");
    let mut child = installed
        .script(&script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(export.as_bytes()).unwrap();
    let ended = child.wait_with_output().unwrap();
    let complaint = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{complaint}");
    let lines = String::from_utf8(ended.stdout).unwrap();
    Some(
        lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
    )
}

#[test]
fn opentelemetry_reads_the_spans_of_every_finished_turn() {
    let annals = conversation();
    let export = annals.run(&["trace", "c1"]).good().stdout;
    assert!(!export.contains("SECRET"), "content left the conversation");
    let Some(spans) = read_by_opentelemetry(&export) else {
        return;
    };
    let lines: Vec<String> = spans
        .iter()
        .map(|span| {
            let parent = span["parent"].as_str().unwrap_or("-");
            let error = span["attributes"]["error.type"].as_str().unwrap_or("-");
            format!(
                "{} | kind {} | below {parent} | {error} | status {} | {}",
                span["name"].as_str().unwrap(),
                span["kind"],
                span["status"],
                span["events"]
            )
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    invoke_agent annals | kind 1 | below - | - | status 0 | ["annals.react.notice"]
    chat script | kind 3 | below invoke_agent annals | - | status 0 | []
    chat script | kind 3 | below invoke_agent annals | - | status 0 | []
    execute_tool react.write | kind 1 | below invoke_agent annals | - | status 0 | []
    execute_tool no_such_tool | kind 1 | below invoke_agent annals | unknown_tool | status 2 | []
    invoke_agent annals | kind 1 | below - | model_error | status 2 | []
    chat script | kind 3 | below invoke_agent annals | model_error | status 2 | []
    "#);
    let attributes = |n: usize| &spans[n]["attributes"];
    assert_eq!(attributes(0)["gen_ai.usage.input_tokens"], 30);
    assert_eq!(attributes(1)["gen_ai.usage.input_tokens"], 10);
    assert_eq!(attributes(1)["gen_ai.usage.cache_read.input_tokens"], 3);
    assert_eq!(attributes(1)["gen_ai.provider.name"], "script");
    assert_eq!(attributes(3)["gen_ai.tool.call.id"], "tc_a1");
    assert!(
        spans
            .iter()
            .all(|span| span["attributes"]["gen_ai.conversation.id"] == "c1")
    );
    assert_ne!(spans[0]["trace"], spans[5]["trace"], "a turn is a trace");
}

#[test]
fn a_second_export_is_equal_and_one_turn_is_a_part_of_it() {
    let annals = conversation();
    let first = annals.run(&["trace", "c1"]).good().stdout;
    let file = annals.path().join("spans.json");
    let file = file.to_str().unwrap();
    annals.run(&["trace", "c1", "-o", file]).good();
    assert_eq!(std::fs::read_to_string(file).unwrap(), first);
    let one = annals.run(&["trace", "c1", "--turn", "turn_1"]).good().json();
    let spans = |export: &Value| {
        export["resourceSpans"][0]["scopeSpans"][0]["spans"]
            .as_array()
            .cloned()
            .unwrap()
    };
    let all = spans(&serde_json::from_str(&first).unwrap());
    assert_eq!(spans(&one), all[..5]);
}

#[test]
fn spans_are_posted_to_a_collector_and_its_refusal_is_an_error() {
    let annals = conversation();
    let export = annals.run(&["trace", "c1"]).good().stdout;
    for (answer, code) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", 0),
        ("HTTP/1.1 400 Bad Request\r\ncontent-length: 8\r\n\r\nno spans", 3),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let collector = std::thread::spawn(move || collect(&listener, answer));
        let ran = annals.run(&["trace", "c1", "--otlp", &address]);
        assert_eq!(ran.code, code, "{}", ran.shown());
        assert_eq!(ran.stderr.contains("no spans"), code == 3, "{}", ran.shown());
        let (head, body) = collector.join().unwrap();
        assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
        assert_eq!(body, export.trim_end());
    }
}

/// Takes one request, answers it, and gives its head and body.
fn collect(listener: &TcpListener, answer: &str) -> (String, String) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let read = stream.read(&mut buffer).unwrap();
        request.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&request);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head.lines().find_map(|line| {
            line.to_lowercase()
                .strip_prefix("content-length: ")
                .map(str::to_owned)
        });
        if body.len() == length.unwrap().parse::<usize>().unwrap() {
            let parts = (head.to_owned(), body.to_owned());
            stream.write_all(answer.as_bytes()).unwrap();
            return parts;
        }
    }
}

#[test]
fn what_has_no_spans_is_said() {
    let annals = conversation();
    let missing = annals.run(&["trace", "c1", "--turn", "turn_9"]);
    assert_eq!(missing.code, 2, "{}", missing.shown());
    let nowhere = annals.run(&["trace", "c1", "--otlp", "not an address"]);
    assert_eq!(nowhere.code, 2, "{}", nowhere.shown());
}
