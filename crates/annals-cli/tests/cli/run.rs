//! `run` and `resume`.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::json;

use super::annals::{Annals, Ran, filters, types};

#[test]
fn the_answer_alone_is_on_standard_output_and_the_new_conversation_on_standard_error() {
    let annals = Annals::new();
    let model = annals.script(&json!({"steps": [{"text": "Forty-two."}]}));
    let ran = annals.run(&["run", "What is it?", "--model", &model]);
    filters().bind(|| {
        insta::assert_snapshot!(ran.shown(), @r"
        exit 0
        --- stdout
        Forty-two.
        --- stderr
        conversation [CONV]
        ");
    });
}

#[test]
fn an_interpreter_is_started_by_the_first_code_and_not_before() {
    let annals = Annals::new();
    let programs = annals.path().join("programs");
    std::fs::create_dir(&programs).unwrap();
    let python = programs.join("python3");
    let started = annals.path().join("started");
    std::fs::write(
        &python,
        format!("#!/bin/sh\necho started >> {}\nexit 1\n", started.display()),
    )
    .unwrap();
    std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let run = |step: serde_json::Value| {
        let model = annals.script(&json!({"steps": [step, {"text": "Done."}]}));
        let mut command = annals.command(&["run", "Go on.", "--json", "--model", &model]);
        Ran::of(command.env("PATH", &path).output().unwrap())
            .good()
            .stdout
    };
    run(json!({"text": "Nothing to run."}));
    assert!(!started.exists());
    let params = json!({"code": "print(1)", "prog_name": "one",
        "contract": [{"filename": "one.txt", "description": "a number"}]});
    let code = json!({"tool": "exec_tools.execute_code_python", "params": params});
    let said = run(json!({"text": "Counting.", "tool_calls": [code]}));
    assert!(said.contains("that starts was found on this machine"), "{said}");
    assert!(started.exists());
}

#[test]
fn the_prompt_may_come_from_standard_input_and_the_turn_id_from_the_caller() {
    let annals = Annals::new();
    let model = annals.script(&json!({"steps": [{"expect": ["from a pipe"], "text": "yes"}]}));
    let args = [
        "run",
        "-",
        "--model",
        &model,
        "--conversation",
        "c1",
        "--turn-id",
        "turn_a",
        "--json",
    ];
    let blocks = annals
        .run_with(&args, "this came from a pipe")
        .good()
        .json_lines();
    assert!(blocks.iter().all(|block| block["turn_id"] == "turn_a"));
    insta::assert_snapshot!(types(&blocks), @r"
    turn.header
    user.prompt
    agent.log.header
    tools.table
    assistant.completion
    react.completion
    ");
}

#[test]
fn json_prints_every_block_in_order_and_the_completion_last() {
    let annals = Annals::new();
    let write = json!({"path": "report.md", "channel": "canvas", "content": "# Report", "kind": "display"});
    let model = annals.script(&json!({"steps": [
        {"text": "Drafting summary", "tool_calls": [{"id": "tc_a1", "tool": "react.write", "params": write}]},
        {"expect": ["[TOOL RESULT tc_a1].summary react.write"], "text": "Done", "usage": {"input_tokens": 10, "output_tokens": 5}},
    ]}));
    let ran = annals
        .run(&[
            "run",
            "Write it",
            "--model",
            &model,
            "--json",
            "--conversation",
            "c1",
        ])
        .good();
    let blocks = ran.json_lines();
    let seqs: Vec<u64> = blocks
        .iter()
        .map(|block| block["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, (1..=blocks.len() as u64).collect::<Vec<_>>());
    assert_eq!(blocks.last().unwrap()["type"], "react.completion");
    let stored = annals.run(&["timeline", "blocks", "c1"]).good();
    assert_eq!(ran.stdout, stored.stdout, "what was shown is what is kept");
}

#[test]
fn every_block_that_was_printed_survives_a_kill() {
    let annals = Annals::new();
    let write = |n: u32| json!({"path": format!("{n}.md"), "channel": "canvas", "content": "# Report", "kind": "display"});
    let step = |n: u32| json!({"delay_ms": 20, "tool_calls": [{"id": format!("tc_{n}"), "tool": "react.write", "params": write(n)}]});
    let steps: Vec<_> = (0..14).map(step).collect();
    let model = annals.script(&json!({"steps": steps}));
    let mut child = annals.spawn(&[
        "run",
        "Write",
        "--model",
        &model,
        "--json",
        "--conversation",
        "c1",
    ]);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut seen: Vec<String> = lines.take(12).map(Result::unwrap).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    let kept = annals.run(&["timeline", "blocks", "c1"]).good();
    let kept: Vec<&str> = kept.stdout.lines().collect();
    assert!(kept.len() >= seen.len());
    seen.iter_mut()
        .zip(kept)
        .for_each(|(seen, kept)| assert_eq!(seen, kept));
}

#[test]
fn resume_goes_on_with_the_turn_that_a_kill_left_open() {
    let annals = Annals::new();
    let model = annals.script(&json!({"steps": [
        {"tool_calls": [{"id": "tc_1", "tool": "react.plan", "params": {"mode": "new", "steps": ["one"]}}]},
        {"delay_ms": 60_000, "text": "never"},
    ]}));
    let mut child = annals.spawn(&["run", "Plan", "--model", &model, "--json", "--conversation", "c1"]);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The plan's blocks are there; the next model call waits for a minute.
    let plan = lines
        .map(Result::unwrap)
        .find(|line| line.contains("\"react.plan\""));
    assert!(plan.is_some());
    child.kill().unwrap();
    child.wait().unwrap();
    let model = annals.script(&json!({"steps": [{"expect": ["one"], "text": "Planned."}]}));
    let ran = annals.run(&["resume", "c1", "--model", &model]).good();
    assert_eq!(ran.stdout, "Planned.\n");
    let again = annals.run(&["resume", "c1", "--model", &model]);
    assert_eq!(again.code, 2, "{}", again.shown());
}

#[test]
fn of_first_runs_on_one_new_id_the_later_are_told_that_it_is_being_written() {
    let annals = Annals::new();
    let model = annals.script(&json!({"steps": [{"delay_ms": 2_000, "text": "Hi."}]}));
    let args = ["run", "Hi", "--model", &model, "--conversation", "new"];
    let children: Vec<_> = (0..4).map(|_| annals.spawn(&args)).collect();
    let ran: Vec<Ran> = children
        .into_iter()
        .map(|child| Ran::of(child.wait_with_output().unwrap()))
        .collect();
    let (done, told): (Vec<&Ran>, Vec<&Ran>) = ran.iter().partition(|ran| ran.code == 0);
    assert!(!done.is_empty() && !told.is_empty());
    for ran in told {
        assert!(ran.stderr.contains("is being written by"), "{}", ran.shown());
    }
}

#[test]
fn a_kill_while_code_runs_leaves_nothing_in_the_temporary_folder() {
    let annals = Annals::new();
    let temporary = annals.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let code = "touch turn_1/files/begun; sleep 600";
    let call = json!({"id": "tc_1", "tool": "exec_tools.execute_code_bash", "params": {"code": code, "contract": []}});
    let model = annals.script(&json!({"steps": [{"tool_calls": [call]}]}));
    let args = [
        "run",
        "Go",
        "--model",
        &model,
        "--conversation",
        "c1",
        "--turn-id",
        "turn_1",
    ];
    let mut child = annals
        .command(&args)
        .env("TMPDIR", &temporary)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let home = annals.path().join("home");
    let begun = || files_below(&home).iter().any(|path| path.ends_with("begun"));
    assert!(comes_true(begun), "the code did not begin");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        comes_true(|| files_below(&temporary).is_empty()),
        "{:?}",
        files_below(&temporary)
    );
}

/// Everything below a folder, folders too.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                waiting.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found
}

/// Whether it is true within a time that a busy machine needs.
fn comes_true(is_true: impl Fn() -> bool) -> bool {
    for _ in 0..600 {
        if is_true() {
            return true;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    false
}

/// The script of the interface's documentation, as it stands there. Its view is too small for the refusal to be the
/// view's fault, so the model is simply asked again.
#[test]
fn the_documented_script_plays_step_by_step() {
    let annals = Annals::new();
    let model = annals.script(&json!({"steps": [
        {"thinking": "…", "text": "Drafting summary",
         "tool_calls": [{"id": "tc_a1", "tool": "react.write",
                         "params": {"path": "report.md", "channel": "canvas", "content": "# Report", "kind": "display"}}]},
        {"tool_calls": [{"tool": "add_one", "arguments": "{not json"}]},
        {"error": {"kind": "context_limit"}},
        {"expect": ["[TOOL RESULT tc_a1].summary react.write"], "text": "Done [[S:1]]", "usage": {"input_tokens": 10, "output_tokens": 5}},
    ]}));
    let ran = annals.run(&["run", "Write it", "--model", &model, "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    insta::assert_snapshot!(types(&ran.json_lines()), @r"
    turn.header
    user.prompt
    agent.log.header
    tools.table
    react.thinking
    react.notes
    react.tool.call
    react.tool.result
    react.tool.result
    react.decision.raw
    react.tool.call
    react.notice
    react.tool.result
    system.message
    assistant.completion
    react.completion
    ");
}

#[test]
fn a_failed_expectation_ends_with_code_one_and_says_which_text_is_missing() {
    let annals = Annals::new();
    let model = annals.script(&json!({"steps": [{"expect": ["never there"], "text": "x"}]}));
    let ran = annals.run(&["run", "Hi", "--model", &model, "--conversation", "c1"]);
    insta::assert_snapshot!(ran.shown(), @r"
    exit 1
    --- stdout
    --- stderr
    error: `script:script` gave no answer: expectation_failed: step 1 of the script expects `never there` in the view, it is not there
    ");
}

#[test]
fn a_clarifying_question_is_an_answer() {
    let annals = Annals::new();
    let model = annals.script(&json!({"steps": [
        {"tool_calls": [{"id": "tc_1", "tool": "react.clarify", "params": {"questions": ["Which year?"]}}]},
    ]}));
    let ran = annals
        .run(&["run", "Sum it up", "--model", &model, "--conversation", "c1"])
        .good();
    assert_eq!(ran.stdout, "Which year?\n");
}

#[test]
fn an_attachment_is_read_back_byte_for_byte() {
    let annals = Annals::new();
    let bytes = b"a,b\r\n1,\xc3\xa9\r\n";
    let file = annals.file("table.csv", bytes);
    let model = annals.script(&json!({"steps": [{"expect": ["table.csv"], "text": "ok"}]}));
    let args = [
        "run",
        "Look",
        "--model",
        &model,
        "--conversation",
        "c1",
        "--turn-id",
        "turn_1",
        "--attach",
        file.to_str().unwrap(),
    ];
    annals.run(&args).good();
    let read = annals
        .run(&["read", "c1", "fi:turn_1.user.attachments/table.csv"])
        .good();
    assert_eq!(read.bytes, bytes);
    let line = annals
        .run(&["read", "c1", "fi:turn_1.user.attachments/table.csv#L2"])
        .good();
    assert_eq!(line.bytes, b"1,\xc3\xa9\r\n");
    let row = annals.run(&["read", "c1", "so:sources_pool[1]"]).good().json();
    assert_eq!(row[0]["source_type"], "attachment");
}
