//! Files of any size that executed code leaves: they cost Annals nothing, however they are asked for.

use serde_json::json;

use crate::exec::{python, report, stage};
use crate::stage::error_code;

fn peak_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_sparse_gigabyte_asked_for_again_and_again_does_not_grow_memory() {
    let mut stage = stage();
    // Whatever the first call loads is not counted.
    python(
        &mut stage,
        "open('turn_1/files/sparse', 'wb').truncate(1_000_000_000)",
        &[],
    )
    .await;
    stage
        .call("read_workspace_file", json!({"path": "turn_1/files/none"}))
        .await;
    let before = peak_memory_kib();
    let code = "import json, os, socket\n\
        for _ in range(5):\n\
        \x20   s = socket.socket(socket.AF_UNIX); s.connect(os.environ['ANNALS_CTX_SOCKET'])\n\
        \x20   s.sendall(b'{\"path\": \"fi:turn_1.files/sparse\"}\\n')\n\
        \x20   f = s.makefile('rb'); head = json.loads(f.readline()); size = 0\n\
        \x20   while piece := f.read1(1 << 20): size += len(piece)\n\
        \x20   print(head['kind'], size == head['size_bytes'], size)\n";
    let outcome = python(&mut stage, code, &[]).await;
    assert_eq!(
        report(&outcome).matches("binary True 1000000000").count(),
        5,
        "{}",
        report(&outcome)
    );
    for _ in 0..5 {
        let outcome = stage
            .call("react.read", json!({"paths": ["fi:turn_1.files/sparse"]}))
            .await;
        assert!(
            format!("{outcome:?}").contains("more than the 50000000"),
            "{outcome:?}"
        );
        let outcome = stage
            .call("read_workspace_file", json!({"path": "turn_1/files/sparse"}))
            .await;
        assert_eq!(error_code(&outcome), Some("output_too_large"));
        stage
            .call("react.search_files", json!({"content_regex": "x"}))
            .await;
    }
    let grown = peak_memory_kib() - before;
    assert!(grown < 40 << 10, "grew by {grown} KiB");
}

#[tokio::test]
async fn what_is_no_file_is_refused_at_once_by_everybody() {
    let mut stage = stage();
    let code = "import os, socket\nos.mkfifo('turn_1/files/pipe')\n\
                s = socket.socket(socket.AF_UNIX); os.chdir('turn_1/files'); s.bind('socket')";
    python(&mut stage, code, &[]).await;
    for name in ["pipe", "socket"] {
        let path = format!("turn_1/files/{name}");
        let outcome = stage.call("read_workspace_file", json!({"path": path})).await;
        assert_eq!(error_code(&outcome), Some("os_error"), "{name}");
        stage
            .call(
                "react.read",
                json!({"paths": [format!("fi:turn_1.files/{name}")]}),
            )
            .await;
        stage
            .call("react.search_files", json!({"content_regex": "x"}))
            .await;
        let code = format!("from context_tools import fetch_ctx\nfetch_ctx('fi:turn_1.files/{name}')");
        let outcome = python(&mut stage, &code, &[]).await;
        assert_eq!(
            error_code(&outcome),
            Some("execution_failed"),
            "{}",
            report(&outcome)
        );
    }
}
