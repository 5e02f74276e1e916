//! A sandbox that dies in the middle of a turn: the call is told, the files come back, the turn ends.

use annals_opensandbox_double::Wire;
use annals_runtime::Session;
use serde_json::{Value, json};

use crate::common::{Bench, texts, turn};
use crate::place::Place;

/// Kills the service inside, as a node that dies does; the brackets keep the line from finding itself.
const KILL: &str = "echo unseen > lost.txt; pkill -9 -f 'double-e[xn][ev]'; sleep 300";

fn shell(id: &str, command: &str) -> Value {
    json!({"tool_calls": [{"id": id, "tool": "run_shell_command", "params": {"command": command}}]})
}

fn python(id: &str, code: &str, file: &str) -> Value {
    json!({"tool_calls": [{"id": id, "tool": "exec_tools.execute_code_python",
        "params": {"code": code, "contract": [{"filename": file, "description": "made"}]}}]})
}

async fn played(wire: Wire, steps: Value) -> Session {
    let (bench, place) = (Bench::new(), Place::server(wire).await);
    let agent = bench
        .builder(json!({ "steps": steps }))
        .tools(annals_tools::system::all())
        .tools(annals_tools::exec::all())
        .sandbox(place.backend.clone())
        .build()
        .await
        .unwrap();
    turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Go").await
}

fn outcome(session: &Session) -> Value {
    let completion = texts(session, "react.completion").remove(0);
    serde_json::from_str::<Value>(&completion).unwrap()["outcome"].clone()
}

/// Texts of all blocks, one after the other.
fn all(session: &Session) -> String {
    session.timeline(|timeline| {
        let texts = timeline.blocks().iter().filter_map(|block| block.text());
        texts.collect::<Vec<_>>().join("\n")
    })
}

async fn a_shell_whose_sandbox_dies(wire: Wire) {
    let session = played(
        wire,
        json!([
            shell("a", "mkdir deep; echo kept > deep/notes.txt; printf '#!/bin/sh\\necho ran' > run.sh; chmod +x run.sh"),
            shell("b", KILL),
            shell("c", "cat deep/notes.txt; ./run.sh; ls lost.txt"),
            shell("d", "cat deep/notes.txt"),
            {"text": "Done"}
        ]),
    )
    .await;
    let results = texts(&session, "react.tool.result");
    assert_eq!(results.len(), 4, "{results:#?}");
    assert!(results[1].contains("sandbox_closed"), "{}", results[1]);
    let third: Value = serde_json::from_str(&results[2]).unwrap();
    assert_eq!(
        third["stdout"], "kept\nran\n",
        "reported files are there again: {third}"
    );
    assert!(third["stderr"].as_str().unwrap().contains("lost.txt"), "{third}");
    let told = all(&session);
    assert_eq!(told.matches("sandbox_replaced").count(), 1, "told once: {told}");
    assert_eq!(outcome(&session), "complete");
}

#[tokio::test]
async fn a_shell_whose_sandbox_on_opensandbox_dies_is_told_and_the_turn_ends() {
    a_shell_whose_sandbox_dies(Wire::OpenSandbox).await;
}

#[tokio::test]
async fn a_shell_whose_sandbox_on_e2b_dies_is_told_and_the_turn_ends() {
    a_shell_whose_sandbox_dies(Wire::E2b).await;
}

#[tokio::test]
async fn code_whose_sandbox_dies_is_told_and_its_contract_is_kept_by_the_next_run() {
    let make =
        "import os\nopen(os.environ['FILES_DIR'] + '/made.txt', 'w').write('made and kept for later')\n";
    let die = "import os, subprocess\nsubprocess.run(['pkill', '-9', '-f', 'double-e[xn][ev]'])\nwhile True: pass\n";
    let read = "import os\nmade = open('turn_1/files/made.txt').read()\n\
                open(os.environ['FILES_DIR'] + '/read.txt', 'w').write('read: ' + made)\n";
    let session = played(
        Wire::OpenSandbox,
        json!([
            python("a", make, "made.txt"),
            python("b", die, "never.txt"),
            python("c", read, "read.txt"),
            {"text": "Done"}
        ]),
    )
    .await;
    let results = texts(&session, "react.tool.result");
    assert!(
        results.iter().any(|result| result.contains("sandbox_closed")),
        "{results:#?}"
    );
    assert!(
        results
            .iter()
            .any(|result| result == "read: made and kept for later"),
        "{results:#?}"
    );
    assert_eq!(all(&session).matches("sandbox_replaced").count(), 1);
    assert_eq!(outcome(&session), "complete");
}
