//! What the API document says of the routes that the page reads, held against their answers.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::annals::Annals;
use super::serve::Serving;

/// An end for what would wait for ever, on a machine that is busy with others.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the document says that a path answers, as a schema that can be checked.
fn answer_of(document: &Value, path: &str) -> jsonschema::Validator {
    let answer = &document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"];
    assert!(answer.is_object(), "{path} is not in the document");
    let schema = json!({"allOf": [answer], "components": document["components"]});
    jsonschema::validator_for(&schema).unwrap()
}

/// A conversation with two versions of a file; its blocks.
async fn written(server: &Serving) -> (String, Vec<Value>) {
    let made = server.post("/v1/conversations", &json!({}), "made").await;
    let c = made["id"].as_str().unwrap().to_owned();
    let turns = format!("/v1/conversations/{c}/turns");
    let turn = server.post(&turns, &json!({"prompt": "Write it"}), "turn").await;
    let turn = format!("{turns}/{}", turn["turn_id"].as_str().unwrap());
    let began = Instant::now();
    while server.get(&turn).await["state"] != "ended" {
        assert!(began.elapsed() < PATIENCE, "the turn does not end");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let blocks = server.get(&format!("/v1/conversations/{c}/blocks")).await;
    (c, blocks["items"].as_array().unwrap().clone())
}

#[tokio::test]
async fn what_the_page_reads_is_what_the_document_says() {
    let write = |text: &str| {
        json!({"tool_calls": [{"tool": "react.write", "params": {
            "path": "a.md", "channel": "canvas", "content": text, "kind": "file"}}]})
    };
    let steps = json!({"steps": [write("# One"), write("# Two"), {"text": "**Done.**"}]});
    let annals = Annals::new();
    let server = Serving::start(&annals, &steps, &[]);
    let (c, blocks) = written(&server).await;
    let of = |rest: &str| format!("/v1/conversations/{c}/{rest}");
    let call = blocks.iter().find(|block| block["type"] == "react.tool.call");
    let call = call.expect("a call is a block");
    let moment = server.get(&of("moment")).await;
    let file = &moment["files"][0];
    let (path, versions) = (
        file["path"].as_str().unwrap(),
        file["versions"].as_array().unwrap(),
    );
    assert_eq!(versions.len(), 2, "{moment}");
    let (first, last) = (&versions[0]["seq"], &versions[1]["seq"]);
    let document = server.get("/openapi.json").await;
    for asked in [
        "blocks".to_owned(),
        "blocks?fields=head".to_owned(),
        "render".to_owned(),
        "trees".to_owned(),
        "steps".to_owned(),
        format!("moment?at={}", call["seq"]),
        "moment".to_owned(),
        "view".to_owned(),
        format!("proposal?call={}", call["call_id"].as_str().unwrap()),
        format!("preview?path={path}&seq={last}"),
        format!("diff?path={path}&from={first}&to={last}"),
    ] {
        let answer = server.get(&of(&asked)).await;
        let route = asked.split('?').next().unwrap();
        let schema = answer_of(&document, &format!("/v1/conversations/{{c}}/{route}"));
        let misfits: Vec<String> = schema
            .iter_errors(&answer)
            .map(|error| format!("{error} at `{}`", error.instance_path()))
            .collect();
        assert_eq!(misfits, [""; 0], "{asked}: {answer:#}");
        // The form of trees is open; of everything else it is not.
        let is_open = schema.is_valid(&json!({"other": 1}));
        assert_eq!(is_open, route == "diff", "{route} takes anything");
    }
}
