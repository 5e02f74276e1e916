//! Executed code: what it promises, what it makes, what it reads of its conversation.

use annals_core::ids::TurnId;
use annals_runtime::{Agent, Attachment, Session, TurnRequest};
use serde_json::{Value, json};

use crate::common::{Bench, shape, texts, turn, turn_shape};
use crate::place::Place;

/// An agent that can execute code in a sandbox.
async fn agent(bench: &Bench, place: &Place, steps: Value) -> Agent {
    bench
        .builder(json!({ "steps": steps }))
        .tools(annals_tools::exec::all())
        .sandbox(place.backend.clone())
        .build()
        .await
        .unwrap()
}

fn contract(files: &[&str]) -> Value {
    files
        .iter()
        .map(|name| json!({"filename": name, "description": "made"}))
        .collect()
}

/// One turn with one call of executed Python.
async fn executed(code: &str, files: &[&str]) -> Session {
    let (bench, place) = (Bench::new(), Place::named().await);
    let agent = agent(
        &bench,
        &place,
        json!([
            {"text": "Computing", "tool_calls": [{"id": "x", "tool": "exec_tools.execute_code_python",
                "params": {"code": code, "contract": contract(files)}}]},
            {"text": "Done"}
        ]),
    )
    .await;
    turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Compute").await
}

const MAKE: &str = "import os\n\
    files = os.path.join(os.environ['OUT_DIR'], 'turn_1', 'files')\n\
    def make(name, data):\n    open(os.path.join(files, name), 'wb').write(data)\n";

#[tokio::test]
async fn code_that_makes_pdf_text_and_excel() {
    let code = format!(
        "{MAKE}make('report.pdf', b'%PDF-1.4\\n' + b'%' * 600 + b'\\n%%EOF\\n')\nmake('notes.txt', b'some notes of the run\\n')\n\
         make('data.xlsx', b'PK\\x03\\x04' + b'\\0' * 600)\n"
    );
    let session = executed(&code, &["report.pdf", "notes.txt", "data.xlsx"]).await;
    insta::assert_snapshot!(shape(&session));
}

#[tokio::test]
async fn code_that_makes_everything_and_then_fails() {
    let code = format!("{MAKE}make('a.txt', b'all that was promised\\n')\nraise SystemExit(3)\n");
    insta::assert_snapshot!(shape(&executed(&code, &["a.txt"]).await));
}

#[tokio::test]
async fn code_that_makes_a_part_without_failing() {
    let code = format!("{MAKE}make('a.txt', b'half of what was promised\\n')\n");
    insta::assert_snapshot!(shape(&executed(&code, &["a.txt", "b.txt"]).await));
}

#[tokio::test]
async fn code_that_makes_a_part_and_then_fails() {
    let code = format!("{MAKE}make('a.txt', b'half of what was promised\\n')\nraise SystemExit(3)\n");
    insta::assert_snapshot!(shape(&executed(&code, &["a.txt", "b.txt"]).await));
}

#[tokio::test]
async fn code_reads_its_conversation_and_files_of_earlier_turns_although_out_dir_was_deleted() {
    let (bench, place) = (Bench::new(), Place::named().await);
    let code = "import os\nfrom context_tools import fetch_ctx, ContextError\n\
        notes = open('turn_1/files/notes.txt').read()\n\
        table = open('turn_1/attachments/table.csv').read()\n\
        prompt = fetch_ctx('ar:turn_1.user.prompt')\n\
        call = fetch_ctx('tc:turn_1.w.call').json()['tool_id']\n\
        rows = [row['title'] for row in fetch_ctx('so:sources_pool[1-2]').json()]\n\
        try: fetch_ctx('fi:turn_1.files/none.txt')\n\
        except ContextError as error: print('missing:', error.code)\n\
        with open(os.environ['FILES_DIR'] + '/digest.txt', 'w') as out:\n\
        \x20   print(prompt, call, rows, notes + table, sep='\\n', file=out)\n";
    let agent = agent(
        &bench,
        &place,
        json!([
            {"tool_calls": [{"id": "w", "tool": "react.write",
                "params": {"path": "notes.txt", "channel": "canvas", "content": "notes of the first turn\n", "kind": "file"}}]},
            {"text": "Noted"},
            {"text": "Reading back", "tool_calls": [{"id": "x", "tool": "exec_tools.execute_code_python",
                "params": {"code": code, "contract": contract(&["digest.txt"])}}]},
            {"text": "Done"}
        ]),
    )
    .await;
    let first = TurnRequest::new("Keep this")
        .turn_id(TurnId::parse("turn_1").unwrap())
        .attach(Attachment::new("table.csv", "a,b\n1,2\n"));
    let session = agent.session("c").await.unwrap();
    let session = agent.run(session, first).await.unwrap().into_session();
    std::fs::remove_dir_all(bench.home.path().join("workspace/c/turn_1")).unwrap();
    let session = turn(&agent, session, "turn_2", "Read it back").await;
    insta::assert_snapshot!(turn_shape(&session, "turn_2", &[]));
    assert!(
        bench
            .home
            .path()
            .join("workspace/c/turn_1/attachments/table.csv")
            .exists(),
        "what the code names is brought back"
    );
}

#[tokio::test]
async fn a_contract_that_is_none_is_told_before_anything_runs() {
    let (bench, place) = (Bench::new(), Place::named().await);
    let call = |id: &str, contract: Value| {
        json!({"tool_calls": [{"id": id, "tool": "exec_tools.execute_code_bash",
            "params": {"code": "touch \"$FILES_DIR/ran\"", "contract": contract}}]})
    };
    let agent = agent(
        &bench,
        &place,
        json!([
            call("x1", json!("a.txt")),
            {"tool_calls": [{"id": "x2", "tool": "exec_tools.execute_code_bash", "params": {"code": "exit 0", "contract": []}}]},
            call("x3", json!([{"filename": "../a.txt", "description": "outside"}])),
            {"text": "I see"}
        ]),
    )
    .await;
    let session = turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Compute").await;
    insta::assert_snapshot!(turn_shape(&session, "turn_1", &[]));
    assert!(!bench.home.path().join("workspace/c/turn_1/files/ran").exists());
}

/// Shells of one answer share the workspace, so each sees what the ones before it left.
#[tokio::test]
async fn shells_of_one_answer_run_in_the_order_given() {
    const ANSWERS: usize = 5;
    let shell = |id: String, command: &str| json!({"id": id, "tool": "run_shell_command", "params": {"command": command}});
    let mut steps: Vec<Value> = (0..ANSWERS)
        .map(|n| {
            json!({"tool_calls": [
                shell(format!("a{n}"), &format!("sleep 0.1; echo {n} > f.txt")), shell(format!("b{n}"), "cat f.txt"),
                shell(format!("c{n}"), &format!("sleep 0.1; echo again {n} > f.txt")), shell(format!("d{n}"), "cat f.txt"),
            ]})
        })
        .collect();
    steps.push(json!({"text": "Done"}));
    let (bench, place) = (Bench::new(), Place::named().await);
    let agent = bench
        .builder(json!({ "steps": steps }))
        .tools(annals_tools::system::all())
        .sandbox(place.backend.clone())
        .build()
        .await
        .unwrap();
    let session = turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Go").await;
    let printed: Vec<String> = texts(&session, "react.tool.result")
        .iter()
        .map(|text| {
            serde_json::from_str::<Value>(text).unwrap()["stdout"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    let expected: Vec<String> = (0..ANSWERS)
        .flat_map(|n| {
            [
                String::new(),
                format!("{n}\n"),
                String::new(),
                format!("again {n}\n"),
            ]
        })
        .collect();
    assert_eq!(printed, expected);
}
