//! Every rule of the log's contract, on every backend.

use std::sync::Arc;

use annals_store::testing::{CASES, Subject};
use annals_store::{ManualClock, MemoryLog, SqliteLog, SqliteOptions, Store};

async fn run_all(backend: &str, empty: impl Fn(&str, Arc<ManualClock>) -> Arc<dyn Store>) {
    for case in CASES {
        let clock = Arc::new(ManualClock::default());
        let subject = Subject::new(empty(case.name, clock.clone()), clock);
        let outcome = tokio::spawn((case.run)(subject)).await;
        assert!(
            outcome.is_ok(),
            "{backend} breaks the rule `{}`: see the panic above",
            case.name
        );
    }
}

#[tokio::test]
async fn the_log_in_memory_keeps_the_contract() {
    run_all("memory", |_, clock| Arc::new(MemoryLog::with_clock(clock))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_in_sqlite_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    run_all("sqlite", |name, clock| {
        let path = folder.path().join(name).join("annals.db");
        Arc::new(SqliteLog::open(path, SqliteOptions::default().clock(clock)).unwrap())
    })
    .await;
}
