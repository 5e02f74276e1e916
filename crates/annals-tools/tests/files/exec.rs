//! Code that promises files.

use std::sync::Arc;

use annals_core::block::BlobDigest;
use annals_core::turn::outcome::{Content, Outcome, Output};
use annals_sandbox::{Backend, Language, Local};
use annals_tools::{Tool, exec};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use crate::stage::{Stage, codes, error_code};

/// A conversation with a sandbox and the exec tools.
pub(crate) fn stage() -> Stage {
    stage_with(Arc::new(Local::new()))
}

pub(crate) fn stage_with(backend: Arc<dyn Backend>) -> Stage {
    let tools = Language::ALL.map(|language| Arc::new(exec::of(language)) as Arc<dyn Tool>);
    let sandbox = |cx: &mut annals_tools::ConversationCx, workspace: &annals_store::Workspace| {
        cx.sandbox = Some(Arc::new(crate::stage::target(backend, workspace)));
    };
    Stage::with(sandbox, tools.to_vec())
}

pub(crate) fn contract(names: &[&str]) -> Value {
    names
        .iter()
        .map(|name| json!({"filename": name, "description": "a file"}))
        .collect()
}

pub(crate) async fn python(stage: &mut Stage, code: &str, names: &[&str]) -> Outcome {
    stage
        .call(
            "exec_tools.execute_code_python",
            json!({"code": code, "contract": contract(names)}),
        )
        .await
}

pub(crate) fn report(outcome: &Outcome) -> &str {
    match &outcome.output {
        Output::Payload(payload) => &payload.text,
        other => panic!("no report: {other:?}"),
    }
}

/// The shape of the last call without what differs between machines.
fn shape(stage: &Stage) -> String {
    let shape = stage.shape();
    let lines = shape.lines().map(|line| match line.split_once("File \"") {
        Some((before, after)) => format!(
            "{before}File \"{}",
            after.split_once("main.py").map_or(after, |(_, rest)| rest)
        ),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

const PDF: &str = r#"
import os
files = os.environ["FILES_DIR"]
with open(files + "/report.pdf", "wb") as f: f.write(b"%PDF-1.7\n" + b"x" * 600)
with open("turn_1/files/notes.txt", "w") as f: f.write("All is well, says the report.\n")
with open(os.path.join(os.environ["OUT_DIR"], "turn_1/files/data.xlsx"), "wb") as f: f.write(b"PK\x03\x04" + b"x" * 600)
"#;

#[tokio::test]
async fn a_pdf_a_text_and_a_spreadsheet_become_blocks_in_order() {
    let mut stage = stage();
    let outcome = python(
        &mut stage,
        PDF,
        &["report.pdf", "notes.txt", "turn_1/files/data.xlsx"],
    )
    .await;
    assert_eq!((codes(&outcome), error_code(&outcome)), (vec![], None));
    insta::assert_snapshot!(shape(&stage), @r#"
    react.tool.call tc:turn_1.c1.call application/json | {"tool_id":"exec_tools.execute_code_python","tool_call_id":"c1","params":{"code":"\nimport os\nfiles = os.environ[\"FILES_DIR\"]\nwith open(files + \"/report.pdf\", \"wb\") as f: f.write(b\"%PDF-1.7\\n\" + b\"x\" * 600)\nwith open(\"turn_1/files/notes.txt\", \"w\") as f: f.write(\"All is well, says th... [see fi:turn_1.code.c1]","contract":[{"filename":"report.pdf","description":"a file"},{"filename":"notes.txt","description":"a file"},{"filename":"turn_1/files/data.xlsx","description":"a file"}]},"ts":"2026-02-09T02:14:31.112000Z"}
    react.tool.result tc:turn_1.c1.result text/markdown | Succeeded:⏎- turn_1/files/report.pdf⏎- turn_1/files/notes.txt⏎- turn_1/files/data.xlsx
    react.tool.result tc:turn_1.c1.result application/json | {"artifact_path":"fi:turn_1.files/report.pdf","physical_path":"turn_1/files/report.pdf","mime":"application/pdf","kind":"file","visibility":"external","tool_call_id":"c1","size_bytes":609}
    react.tool.result fi:turn_1.files/report.pdf application/pdf | <609 bytes>
    react.tool.result tc:turn_1.c1.result application/json | {"artifact_path":"fi:turn_1.files/notes.txt","physical_path":"turn_1/files/notes.txt","mime":"text/plain","kind":"file","visibility":"external","tool_call_id":"c1","size_bytes":30,"tokens":8}
    react.tool.result fi:turn_1.files/notes.txt text/plain | All is well, says the report.⏎
    react.tool.result tc:turn_1.c1.result application/json | {"artifact_path":"fi:turn_1.files/data.xlsx","physical_path":"turn_1/files/data.xlsx","mime":"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet","kind":"file","visibility":"external","tool_call_id":"c1","size_bytes":604}
    react.tool.result fi:turn_1.files/data.xlsx application/vnd.openxmlformats-officedocument.spreadsheetml.sheet | -
    "#);
    let code = stage.whole("fi:turn_1.code.c1").await;
    assert_eq!(code, PDF, "the code is on the timeline, before its call");
    let sources: Vec<&str> = outcome.sources.iter().map(|row| &*row.title).collect();
    assert_eq!(
        sources,
        ["report.pdf", "notes.txt"],
        "spreadsheets are no sources"
    );
    assert!(
        outcome
            .artifacts
            .iter()
            .all(|artifact| artifact.file.hosted_uri.is_some() && artifact.file.rn.is_some())
    );
    // Hosted means that OUT_DIR may go.
    stage.clear_disk();
    assert_eq!(
        stage.whole("fi:turn_1.files/notes.txt").await,
        "All is well, says the report.\n"
    );
}

#[tokio::test]
async fn case_a_all_files_are_there_although_the_code_failed() {
    let mut stage = stage();
    let code =
        "open('turn_1/files/a.txt', 'w').write('a whole sentence.\\n')\nraise ValueError('too late')\n";
    let outcome = python(&mut stage, code, &["a.txt"]).await;
    assert_eq!(
        (codes(&outcome), error_code(&outcome)),
        (vec![], Some("execution_failed"))
    );
    insta::assert_snapshot!(shape(&stage), @r#"
    react.tool.call tc:turn_1.c1.call application/json | {"tool_id":"exec_tools.execute_code_python","tool_call_id":"c1","params":{"code":"open('turn_1/files/a.txt', 'w').write('a whole sentence.\\n')\nraise ValueError('too late')\n... [see fi:turn_1.code.c1]","contract":[{"filename":"a.txt","description":"a file"}]},"ts":"2026-02-09T02:14:31.112000Z"}
    react.tool.result tc:turn_1.c1.result text/markdown | Runtime error: execution_failed — ValueError: too late (exit code 1)⏎Succeeded:⏎- turn_1/files/a.txt⏎stderr:⏎Traceback (most recent call last):⏎  File "", line 2, in <module>⏎    raise ValueError('too late')⏎ValueError: too late
    react.tool.result tc:turn_1.c1.result application/json | {"artifact_path":"fi:turn_1.files/a.txt","physical_path":"turn_1/files/a.txt","mime":"text/plain","kind":"file","visibility":"external","tool_call_id":"c1","size_bytes":18,"tokens":4}
    react.tool.result fi:turn_1.files/a.txt text/plain | a whole sentence.⏎
    "#);
}

#[tokio::test]
async fn case_b_some_files_are_missing_although_the_code_ended_well() {
    let mut stage = stage();
    let code =
        "open('turn_1/files/a.txt', 'w').write('a whole sentence.\\n')\nopen('turn_1/files/e.txt', 'w')\n";
    let outcome = python(&mut stage, code, &["a.txt", "b.txt", "e.txt"]).await;
    assert_eq!(
        (codes(&outcome), error_code(&outcome)),
        (vec![], Some("files_missing"))
    );
    insta::assert_snapshot!(shape(&stage), @r#"
    react.tool.call tc:turn_1.c1.call application/json | {"tool_id":"exec_tools.execute_code_python","tool_call_id":"c1","params":{"code":"open('turn_1/files/a.txt', 'w').write('a whole sentence.\\n')\nopen('turn_1/files/e.txt', 'w')\n... [see fi:turn_1.code.c1]","contract":[{"filename":"a.txt","description":"a file"},{"filename":"b.txt","description":"a file"},{"filename":"e.txt","description":"a file"}]},"ts":"2026-02-09T02:14:31.112000Z"}
    react.tool.result tc:turn_1.c1.result text/markdown | File errors:⏎- turn_1/files/b.txt: file not produced⏎- turn_1/files/e.txt: file is empty⏎Succeeded:⏎- turn_1/files/a.txt
    react.tool.result tc:turn_1.c1.result application/json | {"artifact_path":"fi:turn_1.files/a.txt","physical_path":"turn_1/files/a.txt","mime":"text/plain","kind":"file","visibility":"external","tool_call_id":"c1","size_bytes":18,"tokens":4}
    react.tool.result fi:turn_1.files/a.txt text/plain | a whole sentence.⏎
    "#);
}

#[tokio::test]
async fn case_c_some_files_are_missing_and_the_code_failed() {
    let mut stage = stage();
    let code = "open('turn_1/files/a.txt', 'w').write('a whole sentence.\\n')\nprint('half way')\nexit(3)\n";
    let outcome = python(&mut stage, code, &["a.txt", "b/c.txt"]).await;
    assert_eq!(
        (codes(&outcome), error_code(&outcome)),
        (vec![], Some("execution_failed"))
    );
    insta::assert_snapshot!(shape(&stage), @r#"
    react.tool.call tc:turn_1.c1.call application/json | {"tool_id":"exec_tools.execute_code_python","tool_call_id":"c1","params":{"code":"open('turn_1/files/a.txt', 'w').write('a whole sentence.\\n')\nprint('half way')\nexit(3)\n... [see fi:turn_1.code.c1]","contract":[{"filename":"a.txt","description":"a file"},{"filename":"b/c.txt","description":"a file"}]},"ts":"2026-02-09T02:14:31.112000Z"}
    react.tool.result tc:turn_1.c1.result text/markdown | Runtime error: execution_failed — exit code 3⏎File errors:⏎- turn_1/files/b/c.txt: file not produced⏎Succeeded:⏎- turn_1/files/a.txt⏎stdout:⏎half way
    react.tool.result tc:turn_1.c1.result application/json | {"artifact_path":"fi:turn_1.files/a.txt","physical_path":"turn_1/files/a.txt","mime":"text/plain","kind":"file","visibility":"external","tool_call_id":"c1","size_bytes":18,"tokens":4}
    react.tool.result fi:turn_1.files/a.txt text/plain | a whole sentence.⏎
    "#);
}

#[tokio::test]
async fn the_code_runs_byte_for_byte_and_tracebacks_count_its_own_lines() {
    let mut stage = stage();
    let code = "# \u{1f40d} é\t \r\nimport hashlib\r\ns = '''\n\n\tindented\n'''\nprint(hashlib.sha256(open(__file__, 'rb').read()).hexdigest())\n\n\nassert False, 'line ten'   ";
    let outcome = python(&mut stage, code, &[]).await;
    let text = report(&outcome);
    assert!(text.contains(&BlobDigest::of(code.as_bytes()).hex()), "{text}");
    assert!(text.contains("main.py\", line 10"), "{text}");
    assert!(
        text.starts_with("Runtime error: execution_failed — AssertionError: line ten (exit code 1)"),
        "{text}"
    );
}

#[tokio::test]
async fn bash_and_javascript_keep_the_same_contract() {
    let mut stage = stage();
    for (tool, code) in [
        (
            "exec_tools.execute_code_bash",
            "cd \"$FILES_DIR\" && printf 'from bash, all of it\\n' > out.txt; pwd",
        ),
        (
            "exec_tools.execute_code_javascript",
            "require('fs').writeFileSync(`${process.env.FILES_DIR}/out.txt`, 'from node, all of it\\n')",
        ),
    ] {
        let outcome = stage
            .call(tool, json!({"code": code, "contract": contract(&["out.txt"])}))
            .await;
        assert_eq!(error_code(&outcome), None, "{tool}: {}", report(&outcome));
        assert!(
            matches!(&outcome.artifacts[0].content, Content::Text(text) if text.ends_with("all of it\n"))
        );
    }
    let timeline = stage.cx.timeline.read().unwrap();
    let edited = timeline
        .latest_digest(&crate::stage::path("fi:turn_1.files/out.txt"))
        .unwrap();
    assert!(edited.edited, "the second version of a file says so");
}

#[tokio::test]
async fn every_language_names_its_error_and_its_own_line() {
    let mut stage = stage();
    for (language, code, said, place) in [
        (
            "python",
            "\n\nraise ValueError('three')",
            "ValueError: three",
            "main.py\", line 3",
        ),
        (
            "bash",
            "\n\nset -u; echo $three",
            "three: unbound variable",
            "main.sh: line 3",
        ),
        (
            "javascript",
            "\n\nthrow new TypeError('three')",
            "TypeError: three",
            "main.js:3",
        ),
    ] {
        let tool = format!("exec_tools.execute_code_{language}");
        let outcome = stage.call(&tool, json!({"code": code, "contract": []})).await;
        let text = report(&outcome);
        let first = text.lines().next().unwrap();
        assert!(
            first.starts_with("Runtime error: execution_failed") && first.contains(said),
            "{text}"
        );
        assert!(text.contains(place), "{text}");
    }
}

#[tokio::test]
async fn a_text_over_twenty_kilobytes_is_shown_in_part_and_kept_whole() {
    let mut stage = stage();
    let outcome = python(
        &mut stage,
        "open('turn_1/files/long.csv', 'w').write('row\\n' * 10000)",
        &["long.csv"],
    )
    .await;
    let Content::Text(text) = &outcome.artifacts[0].content else {
        panic!("{outcome:?}")
    };
    let (shown, marker) = text.split_once("...[truncated").unwrap();
    assert_eq!(shown.len(), 20_000);
    assert!(
        marker.contains("20000 more characters of 10000 lines"),
        "{marker}"
    );
    assert!(
        marker.contains("fi:turn_1.files/long.csv#L5001-10000"),
        "{marker}"
    );
    assert_eq!(stage.whole("fi:turn_1.files/long.csv").await.len(), 40_000);
    stage.clear_disk();
    stage.begin("turn_2");
    assert_eq!(stage.whole("fi:turn_1.files/long.csv").await.len(), 40_000);
}

#[tokio::test]
async fn earlier_turns_are_brought_back_to_be_read_and_cannot_be_written() {
    let mut stage = stage();
    python(
        &mut stage,
        "open('turn_1/files/a b.txt', 'w').write('from the first turn')",
        &["a b.txt"],
    )
    .await;
    stage.clear_disk();
    stage.begin("turn_2");
    let code = "print(open('turn_1/files/a b.txt').read())\n\
                for path in ['turn_1/files/a b.txt', 'turn_1/files/new', 'x', 'turn_3/files/y']:\n\
                \x20   try: open(path, 'w'); print('WROTE', path)\n\
                \x20   except OSError as e: print(type(e).__name__)\n";
    let outcome = python(&mut stage, code, &[]).await;
    assert!(
        report(&outcome).contains("from the first turn"),
        "{}",
        report(&outcome)
    );
    assert!(!report(&outcome).contains("WROTE"), "{}", report(&outcome));
    assert_eq!(
        stage.disk("turn_1/files/a b.txt").as_deref(),
        Some("from the first turn")
    );
}

#[tokio::test]
async fn a_name_of_another_turn_is_expected_in_this_one_and_the_model_is_told() {
    let mut stage = stage();
    stage.begin("turn_2");
    let code = "open('turn_2/files/out.txt', 'w').write('in the second turn\\n')";
    let outcome = python(&mut stage, code, &["turn_1/files/out.txt"]).await;
    assert_eq!(
        (codes(&outcome), error_code(&outcome)),
        (vec!["protocol_violation.path_rewritten"], None)
    );
    assert!(report(&outcome).starts_with("Succeeded:\n- turn_2/files/out.txt"));
}

#[tokio::test]
async fn a_contract_that_is_none_is_refused_before_anything_runs() {
    let mut stage = stage();
    let code = "open('turn_1/files/ran', 'w').write('x')";
    for contract in [
        json!("a.txt"),
        json!({"filename": "a"}),
        json!(null),
        json!(["a.txt"]),
        json!([{"filename": "../a"}]),
        json!([{"filename": "/etc/x"}]),
    ] {
        let args = json!({"code": code, "contract": contract});
        let outcome = stage.call("exec_tools.execute_code_python", args).await;
        assert_eq!(
            codes(&outcome),
            ["protocol_violation.exec_contract_invalid"],
            "{contract}"
        );
        assert_eq!(error_code(&outcome), Some("exec_contract_invalid"), "{contract}");
    }
    assert_eq!(stage.disk("turn_1/files/ran"), None);
}

#[tokio::test]
async fn a_timeout_ends_the_code_and_keeps_what_it_had_written() {
    let mut stage = stage();
    let code = "import time, subprocess\nopen('turn_1/files/a.txt', 'w').write('written in time\\n')\nprint('printed', flush=True)\n\
                subprocess.Popen(['sleep', '1000'])\ntime.sleep(1000)\n";
    let args = json!({"code": code, "contract": contract(&["a.txt", "b.txt"]), "timeout_s": 1});
    let outcome = stage.call("exec_tools.execute_code_python", args).await;
    assert_eq!(error_code(&outcome), Some("timeout"));
    insta::assert_snapshot!(report(&outcome), @r#"
    Runtime error: timeout — the code did not end within 1 s and was ended with all it had started; timeout_s may be up to 3600
    File errors:
    - turn_1/files/b.txt: file not produced
    Succeeded:
    - turn_1/files/a.txt
    stdout:
    printed
    "#);
    assert_eq!(outcome.artifacts.len(), 1);
}

#[tokio::test]
async fn folders_of_the_contract_are_the_codes_to_make() {
    let mut stage = stage();
    let code = "import os\nos.makedirs('turn_1/files/charts/small')\n\
                open('turn_1/files/charts/small/a.svg', 'w').write('<svg>a drawing of something</svg>')\n";
    let outcome = python(&mut stage, code, &["charts/small/a.svg"]).await;
    assert_eq!(error_code(&outcome), None, "{}", report(&outcome));
}

#[tokio::test]
async fn files_that_are_no_files_are_errors_of_their_own() {
    let mut stage = stage();
    let code = "import os\nos.chdir('turn_1/files')\nos.symlink('/etc/passwd', 'link')\nos.symlink('/etc', 'folder')\nos.mkfifo('pipe')\n\
                os.mkdir('dir')\nopen('big', 'w').truncate(500_000_000)\nopen('ok.txt', 'w').write('this one is fine\\n')\n\
                open('huge', 'w').truncate(2_000_000_000)\n";
    let outcome = python(
        &mut stage,
        code,
        &["link", "folder/passwd", "pipe", "dir", "big", "huge", "ok.txt"],
    )
    .await;
    insta::assert_snapshot!(report(&outcome).split("\nstderr:").next().unwrap(), @r#"
    Runtime error: execution_failed — OSError: [Errno 27] File too large (exit code 1)
    File errors:
    - turn_1/files/link: `turn_1/files/link` goes through a symlink that leads out of its folder: remove that symlink
    - turn_1/files/folder/passwd: `turn_1/files/folder/passwd` goes through a symlink that leads out of its folder: remove that symlink
    - turn_1/files/pipe: `turn_1/files/pipe` is not a file
    - turn_1/files/dir: `turn_1/files/dir` is not a file
    - turn_1/files/big: file has 500000000 bytes, more than 100000000: write a smaller one, or several
    - turn_1/files/huge: file is empty
    Succeeded:
    - turn_1/files/ok.txt
    "#);
    assert_eq!(outcome.artifacts.len(), 1);
}

#[tokio::test]
async fn code_that_writes_nothing_is_told_which_files_it_owes() {
    let mut stage = stage();
    let outcome = python(&mut stage, "", &["a.txt", "b/c.pdf"]).await;
    assert_eq!(
        (codes(&outcome), error_code(&outcome)),
        (vec![], Some("files_missing"))
    );
    assert!(outcome.artifacts.is_empty() && outcome.sources.is_empty());
    insta::assert_snapshot!(report(&outcome), @r"
    File errors:
    - turn_1/files/a.txt: file not produced
    - turn_1/files/b/c.pdf: file not produced
    ");
}

#[tokio::test]
async fn a_file_that_an_earlier_call_made_is_not_this_calls() {
    let mut stage = stage();
    python(
        &mut stage,
        "open('turn_1/files/a.txt', 'w').write('from the first call')",
        &["a.txt"],
    )
    .await;
    let outcome = python(&mut stage, "print(open('turn_1/files/a.txt').read())", &["a.txt"]).await;
    assert_eq!(error_code(&outcome), Some("files_missing"));
    assert!(report(&outcome).contains("a.txt: file not produced"));
    let outcome = python(
        &mut stage,
        "open('turn_1/files/a.txt', 'a').write(', and the third')",
        &["a.txt"],
    )
    .await;
    assert!(
        matches!(&outcome.artifacts[0].content, Content::Text(text) if &**text == "from the first call, and the third")
    );
}

#[tokio::test]
async fn long_output_is_shown_by_its_end_and_kept_whole() {
    let mut stage = stage();
    let outcome = python(&mut stage, "for n in range(5000): print('line', n)", &[]).await;
    let text = report(&outcome);
    assert!(
        text.ends_with("line 4999") && text.len() < 5_000,
        "{}",
        text.len()
    );
    assert!(
        text.contains("earlier characters are at tc:turn_1.c1.result"),
        "{text}"
    );
    let whole = stage.whole("tc:turn_1.c1.result").await;
    assert!(whole.contains("line 0\n") && whole.ends_with("line 4999"));
}

#[tokio::test]
async fn without_a_sandbox_nothing_runs_and_the_report_says_why() {
    let tools = vec![Arc::new(exec::of(Language::Python)) as Arc<dyn Tool>];
    let mut stage = Stage::with(|_, _| {}, tools);
    let outcome = python(&mut stage, "print(1)", &["a.txt"]).await;
    assert_eq!(
        (codes(&outcome), error_code(&outcome)),
        (vec![], Some("sandbox_not_configured"))
    );
}

#[tokio::test]
async fn a_cancelled_call_keeps_what_it_had_written() {
    let mut stage = stage();
    let files = stage.cx.workspace.root().join("turn_1/files");
    std::fs::create_dir_all(&files).unwrap();
    let ready = files.join("ready");
    let made = std::process::Command::new("mkfifo").arg(&ready).status().unwrap();
    assert!(made.success());
    // Open both ways: a pipe that nobody writes to yet would look ended.
    let mut said = tokio::net::unix::pipe::OpenOptions::new()
        .read_write(true)
        .open_receiver(&ready)
        .unwrap();
    let cancel = stage.cancel.clone();
    let cancelled = tokio::spawn(async move {
        let said = said.read_u8().await;
        cancel.cancel();
        said
    });
    let code = "import time\nopen('turn_1/files/a.txt', 'w').write('written before the end\\n')\n\
                with open('turn_1/files/ready', 'wb', buffering=0) as ready:\n\
                \x20   ready.write(b'!')\n\
                \x20   time.sleep(1000)\n";
    let outcome = python(&mut stage, code, &["a.txt"]).await;
    assert_eq!(cancelled.await.unwrap().unwrap(), b'!');
    assert_eq!(
        (error_code(&outcome), outcome.artifacts.len()),
        (Some("cancelled"), 1)
    );
}
