//! The suite of the port, and what a file owes beyond it: it is the same after it was opened again.

use std::sync::Arc;
use std::time::Duration;

use annals_store::testing::{CASES, Subject, after, conversation, new_conversation, owner, varied_blocks};
use annals_store::{BlockLog, BlockLogExt as _, ManualClock, SystemClock};
use file_log::FileLog;

#[tokio::test]
async fn the_log_in_a_file_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    for case in CASES {
        let clock = Arc::new(ManualClock::default());
        let log = FileLog::open(&folder.path().join(case.name), clock.clone()).unwrap();
        let outcome = tokio::spawn((case.run)(Subject::new(Arc::new(log), clock))).await;
        assert!(
            outcome.is_ok(),
            "the rule `{}` is broken: see the panic above",
            case.name
        );
    }
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_a_crash_in_the_middle_of_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let key = conversation("c");
    let lease = {
        let log = FileLog::open(&path, SystemClock).unwrap();
        log.create(new_conversation("c")).await.unwrap();
        let lease = log
            .acquire(&key, &owner("a"), Duration::from_secs(60))
            .await
            .unwrap();
        log.append(&lease, after(None, varied_blocks())).await.unwrap();
        lease
    };
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend_from_slice(b"{\"at\":17,\"command\":{\"Rel");
    std::fs::write(&path, bytes).unwrap();
    let log = FileLog::open(&path, SystemClock).unwrap();
    assert_eq!(log.read_all(&key).await.unwrap(), varied_blocks());
    log.renew(&lease).await.unwrap();
    assert!(
        FileLog::open(&path, SystemClock).is_err(),
        "one process has the file"
    );
}
