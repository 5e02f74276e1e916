//! Every rule of the log's contract, on every backend.

use std::sync::Arc;

use annals_store::testing::CASES;
use annals_store::{BlockLog, MemoryLog, SqliteLog, SqliteOptions};

async fn run_all(backend: &str, empty_log: impl Fn(&str) -> Arc<dyn BlockLog>) {
    for case in CASES {
        let outcome = tokio::spawn((case.run)(empty_log(case.name))).await;
        assert!(
            outcome.is_ok(),
            "{backend} breaks the rule `{}`: see the panic above",
            case.name
        );
    }
}

#[tokio::test]
async fn the_log_in_memory_keeps_the_contract() {
    run_all("memory", |_| Arc::new(MemoryLog::default())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_in_sqlite_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    run_all("sqlite", |name| {
        let path = folder.path().join(name).join("annals.db");
        Arc::new(SqliteLog::open(path, SqliteOptions::default()).unwrap())
    })
    .await;
}
