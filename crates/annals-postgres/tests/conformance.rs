//! Every rule of the log's contract, on real servers, direct and through a transaction pooler.

use std::sync::Arc;

use annals_postgres::{Address, Partitions, PostgresLog, PostgresOptions, init};
use annals_store::ManualClock;
use annals_store::testing::{CASES, Subject};
use annals_testbed::{Durability, Edition, PgBouncer, PostgresServer};

const TEMPLATE: &str = "annals_template";

/// Runs every case on a database of its own, reached by the URL that `url` makes of its name.
async fn run_all(server: &PostgresServer, partitions: u16, url: impl Fn(&str) -> String) {
    let template = server.database(TEMPLATE, None).await;
    let partitions = Partitions::try_new(partitions).unwrap();
    init(&Address::parse(&template).unwrap(), partitions)
        .await
        .unwrap();
    for case in CASES {
        server.database(case.name, Some(TEMPLATE)).await;
        let clock = Arc::new(ManualClock::default());
        let address = Address::parse(&url(case.name)).unwrap();
        let options = PostgresOptions::default().clock(clock.clone());
        let log = PostgresLog::open(address, options).await.unwrap();
        let subject = Subject::new(Arc::new(log), clock);
        let outcome = tokio::spawn((case.run)(subject)).await;
        assert!(
            outcome.is_ok(),
            "PostgreSQL breaks the rule `{}`: see the panic above",
            case.name
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_on_postgres_keeps_the_contract() {
    let Some(server) = PostgresServer::start(Edition::Debian, Durability::Volatile, &[]) else {
        return;
    };
    run_all(&server, 0, |name| server.url(name)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_through_a_transaction_pooler_keeps_the_contract() {
    let Some(server) = PostgresServer::start(Edition::Debian, Durability::Volatile, &[]) else {
        return;
    };
    let Some(pooler) = PgBouncer::start(&server) else {
        return;
    };
    run_all(&server, 16, |name| pooler.url(name)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_on_postgres_18_keeps_the_contract() {
    let Some(server) = PostgresServer::start(Edition::Npm18, Durability::Volatile, &[]) else {
        return;
    };
    run_all(&server, 16, |name| server.url(name)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_on_postgres_18_through_a_transaction_pooler_keeps_the_contract() {
    let Some(server) = PostgresServer::start(Edition::Npm18, Durability::Volatile, &[]) else {
        return;
    };
    let Some(pooler) = PgBouncer::start(&server) else {
        return;
    };
    run_all(&server, 0, |name| pooler.url(name)).await;
}
