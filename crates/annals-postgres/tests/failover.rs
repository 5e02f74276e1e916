//! A server that dies and a standby that takes over: what was acknowledged is there, or its loss is told by name.
//!
//! `cargo xtask failover` does the same with three servers whose leader Patroni chooses.

mod support;

use std::sync::Arc;

use annals_postgres::{Address, Partitions, PostgresLog, PostgresOptions, init};
use annals_store::testing::{after, conversation, new_conversation, owner, text_block};
use annals_store::{BlockLog as _, LogError};
use annals_testbed::{Durability, Edition, FaultProxy, PostgresServer, Upstream};
use support::{TTL, Writers, fill, nth, seq};

/// A server, its standby, the network between them, and a log that knows both.
struct Pair {
    primary: PostgresServer,
    standby: PostgresServer,
    network: FaultProxy,
    log: Arc<PostgresLog>,
}

impl Pair {
    async fn start(durability: Durability) -> Option<Self> {
        let primary = PostgresServer::start(Edition::Debian, durability, &[])?;
        let url = primary.database("a", None).await;
        init(&Address::parse(&url).unwrap(), Partitions::NONE)
            .await
            .unwrap();
        let network = FaultProxy::start(Upstream::Unix(primary.socket())).await;
        let standby = tokio::task::block_in_place(|| primary.standby("second", network.port()));
        let host = |server: &PostgresServer| server.socket_folder().display().to_string().replace('/', "%2F");
        let both = format!(
            "postgres://postgres@{}:5432,{}:5432/a",
            host(&primary),
            host(&standby)
        );
        let log = PostgresLog::open(Address::parse(&both).unwrap(), PostgresOptions::default()).await;
        Some(Pair {
            primary,
            standby,
            network,
            log: Arc::new(log.unwrap()),
        })
    }

    async fn fail_over(&mut self) {
        tokio::task::block_in_place(|| self.primary.kill());
        self.network.reset();
        self.standby.promote().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_synchronous_standby_that_takes_over_has_everything_that_was_acknowledged() {
    let Some(mut pair) = Pair::start(Durability::Synced).await else {
        return;
    };
    let waits = "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (second)'";
    pair.primary.execute("postgres", waits).await;
    pair.primary.execute("postgres", "SELECT pg_reload_conf()").await;
    let writers = Writers::start(&pair.log, 16).await;
    writers.wait_for(200).await;
    pair.fail_over().await;
    writers.wait_for(200).await;
    writers.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_asynchronous_standby_did_not_receive_is_told_by_name() {
    let Some(mut pair) = Pair::start(Durability::Synced).await else {
        return;
    };
    let log = Arc::clone(&pair.log);
    log.create(new_conversation("c")).await.unwrap();
    let lease = log.acquire(&conversation("c"), &owner("a"), TTL).await.unwrap();
    fill(&log, &lease, 1, 3).await;
    let is_there = "DO $$ BEGIN WHILE (SELECT count(*) FROM annals.block) < 3 LOOP PERFORM pg_sleep(0.01); END LOOP; END $$";
    pair.standby.execute("a", is_there).await;
    pair.network.black_hole(true);
    fill(&log, &lease, 4, 7).await;
    pair.fail_over().await;
    match log.append(&lease, after(seq(7), vec![text_block(8, "x")])).await {
        Err(LogError::Lost {
            id,
            acknowledged,
            actual,
        }) => {
            assert_eq!(
                (id, acknowledged, actual),
                (lease.key().id.clone(), nth(7), seq(3))
            );
        }
        other => panic!("{other:?}"),
    }
}
