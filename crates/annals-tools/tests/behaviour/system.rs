use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use annals_sandbox::TrustedHost;
use annals_tools::cx::Guard;
use annals_tools::execute;
use serde_json::json;

use crate::stage::{Stage, codes, error_code, json as answer};

/// Isolation is tested where it is built; here it is about arguments and results.
fn on_host() -> Stage {
    Stage::with(
        |cx, workspace| {
            let backend = Arc::new(TrustedHost);
            cx.sandbox = Some(Arc::new(crate::stage::target(backend, workspace)));
        },
        vec![],
    )
}

fn in_an_hour() -> Instant {
    Instant::now() + Duration::from_secs(3_600)
}

#[tokio::test]
async fn without_a_sandbox_nothing_runs_and_the_error_says_why() {
    let mut stage = Stage::new();
    let outcome = stage.call("run_shell_command", json!({"command": "true"})).await;
    assert_eq!(
        (codes(&outcome), error_code(&outcome)),
        (vec!["tool_result_error"], Some("sandbox_not_configured"))
    );
}

#[tokio::test]
async fn a_command_gives_its_exit_code_and_streams() {
    let mut stage = on_host();
    let result = answer(
        &stage
            .call(
                "run_shell_command",
                json!({"command": "echo out; echo err >&2; exit 3"}),
            )
            .await,
    );
    let keys: Vec<&str> = result.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["exit_code", "stdout", "stderr", "elapsed_ms"]);
    assert_eq!(
        (&result["exit_code"], &result["stdout"], &result["stderr"]),
        (&json!(3), &json!("out\n"), &json!("err\n"))
    );
}

#[tokio::test]
async fn a_command_does_not_start_once_another_process_may_have_taken_over() {
    let stage = on_host();
    let tool = stage.table.get("run_shell_command").unwrap().clone();
    for asked_before in 0..2 {
        let left = AtomicI32::new(asked_before);
        let guard = Arc::new(move || (left.fetch_sub(1, Ordering::Relaxed) > 0).then(in_an_hour));
        let cx = stage.tool_cx("c1").guarded(guard);
        let outcome = execute::perform(&tool, &cx, json!({"command": "touch ran"})).await;
        assert_eq!(error_code(&outcome), Some("cancelled"), "{asked_before}");
    }
    let mut stage = stage;
    let seen = answer(&stage.call("run_shell_command", json!({"command": "ls"})).await);
    assert_eq!(seen["stdout"], "");
}

/// The process stands still between its last look at its lease and the start of the command: who starts it looks again.
#[tokio::test]
async fn a_command_whose_time_passed_on_its_way_does_not_begin_unless_there_is_more_time() {
    let stage = on_host();
    let tool = stage.table.get("run_shell_command").unwrap().clone();
    let run = async |name: &str, guard: Guard| {
        let cx = stage.tool_cx("c1").guarded(guard);
        let line = format!("touch {name}; echo ran");
        execute::perform(&tool, &cx, json!({"command": line})).await
    };
    // Nothing is left at the first look, and nothing more is given.
    let (asked, renewed) = (AtomicI32::new(0), AtomicI32::new(0));
    let over = Arc::new(move || match asked.fetch_add(1, Ordering::Relaxed) {
        0 => Some(in_an_hour()),
        1 => Some(Instant::now()),
        _ => None,
    });
    assert_eq!(error_code(&run("late", over).await), Some("cancelled"));
    // The lease was renewed meanwhile.
    let prolonged = Arc::new(move || match renewed.fetch_add(1, Ordering::Relaxed) {
        1 => Some(Instant::now()),
        _ => Some(in_an_hour()),
    });
    assert_eq!(answer(&run("in_time", prolonged).await)["stdout"], "ran\n");
    let mut stage = stage;
    let seen = answer(&stage.call("run_shell_command", json!({"command": "ls"})).await);
    assert_eq!(seen["stdout"], "in_time\n");
}

#[tokio::test]
async fn long_output_keeps_head_and_tail_and_the_whole_is_readable() {
    let mut stage = on_host();
    let outcome = stage
        .call("run_shell_command", json!({"command": "seq 1 30000"}))
        .await;
    let stdout = answer(&outcome)["stdout"].as_str().unwrap().to_owned();
    assert!(stdout.starts_with("1\n2\n") && stdout.ends_with("29999\n30000\n"));
    assert!(stdout.contains("characters; read them with react.read(paths=[\"tc:turn_1.c1.result#L"));
    assert!(stdout.chars().count() < 48_200);
    let whole = stage.whole("tc:turn_1.c1.result").await;
    let numbers = whole.lines().filter(|line| line.parse::<u32>().is_ok());
    assert_eq!(numbers.count(), 30_000);
}

#[tokio::test]
async fn commands_that_are_no_single_line_are_refused() {
    let mut stage = on_host();
    let outcome = stage
        .call("run_shell_command", json!({"command": "echo a\necho b"}))
        .await;
    assert_eq!(answer(&outcome)["error_kind"], "invalid_tool_arguments");
    let outcome = stage
        .call("run_shell_command", json!({"command": "x".repeat(2_049)}))
        .await;
    assert_eq!(answer(&outcome)["error_kind"], "invalid_tool_arguments");
    assert_eq!(codes(&outcome), ["protocol_violation.tool_signature_red"]);
}

#[tokio::test]
async fn a_timeout_is_a_failure_with_what_was_written_until_then() {
    let mut stage = on_host();
    let outcome = stage
        .call(
            "run_shell_command",
            json!({"command": "echo begun; sleep 60", "timeout_s": 1}),
        )
        .await;
    let result = answer(&outcome);
    assert_eq!(
        (&result["ok"], &result["error_kind"]),
        (&json!(false), &json!("timeout"))
    );
    assert_eq!(result["detail"]["stdout"], "begun\n");
}

#[tokio::test]
async fn files_are_written_read_listed_and_found() {
    let mut stage = on_host();
    let text = "one\r\ntwo\n";
    let written = stage
        .call(
            "write_workspace_file",
            json!({"path": "notes/a.txt", "content": text}),
        )
        .await;
    assert_eq!(answer(&written), json!({"bytes_written": 9}));
    assert_eq!(
        answer(
            &stage
                .call("read_workspace_file", json!({"path": "notes/a.txt"}))
                .await
        ),
        json!({"data": text})
    );
    let listed = answer(&stage.call("list_workspace_files", json!({"path": "notes"})).await);
    assert_eq!(
        listed,
        json!({"entries": [{"name": "a.txt", "kind": "file", "size_bytes": 9}]})
    );
    assert_eq!(
        answer(
            &stage
                .call("workspace_path_exists", json!({"path": "notes"}))
                .await
        ),
        json!({"ok": true})
    );
    assert_eq!(
        answer(&stage.call("workspace_path_exists", json!({"path": "none"})).await),
        json!({"ok": false})
    );
}

#[tokio::test]
async fn a_long_file_is_cut_and_many_entries_are_counted() {
    let mut stage = on_host();
    let text: String = (1..=5_000).map(|n| format!("line {n}\n")).collect();
    stage
        .call(
            "write_workspace_file",
            json!({"path": "log.txt", "content": text}),
        )
        .await;
    let outcome = stage
        .call("read_workspace_file", json!({"path": "log.txt"}))
        .await;
    let data = answer(&outcome)["data"].as_str().unwrap().to_owned();
    assert!(
        data.chars().count() < 12_200
            && data.contains("go on with react.read(paths=[\"tc:turn_1.c2.result#L")
    );
    assert_eq!(stage.whole("tc:turn_1.c2.result").await, text);
    stage
        .call(
            "run_shell_command",
            json!({"command": "mkdir many && cd many && touch $(seq 1 600)"}),
        )
        .await;
    let listed = answer(&stage.call("list_workspace_files", json!({"path": "many"})).await);
    assert_eq!(
        (listed["entries"].as_array().unwrap().len(), &listed["total"]),
        (500, &json!(600))
    );
}

#[tokio::test]
async fn failures_have_their_kinds() {
    let mut stage = on_host();
    for (tool, args, kind) in [
        (
            "read_workspace_file",
            json!({"path": "none.txt"}),
            "file_not_found",
        ),
        (
            "read_workspace_file",
            json!({"path": "../../etc/passwd"}),
            "path_violation",
        ),
        (
            "write_workspace_file",
            json!({"path": "/etc/x", "content": ""}),
            "path_violation",
        ),
        (
            "run_code",
            json!({"code": "x", "language": "cobol"}),
            "unsupported",
        ),
    ] {
        let outcome = stage.call(tool, args).await;
        let result = answer(&outcome);
        assert_eq!(
            (&result["ok"], &result["error_kind"]),
            (&json!(false), &json!(kind)),
            "{result}"
        );
        assert!(
            !result.to_string().contains(stage.dir.path().to_str().unwrap()),
            "{result}"
        );
    }
}

#[tokio::test]
async fn code_gives_its_text_streams_and_error() {
    let mut stage = on_host();
    let result = answer(
        &stage
            .call("run_code", json!({"code": "echo hi; exit 4", "language": "bash"}))
            .await,
    );
    let keys: Vec<&str> = result.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["text", "stdout", "stderr", "error"]);
    assert_eq!(result["stdout"], "hi\n");
    assert!(result["error"].is_string());
}
