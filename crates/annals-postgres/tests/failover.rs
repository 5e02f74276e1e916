//! A server that dies and a standby that takes over: what was acknowledged is there, or its loss is told by name.
//!
//! `cargo xtask failover` does the same with three servers whose leader Patroni chooses.

mod support;
#[path = "support/writers.rs"]
mod writers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use annals_postgres::{Address, Partitions, PostgresLog, PostgresOptions, init};
use annals_store::testing::{after, conversation, new_conversation, owner, text_block};
use annals_store::{BlockLog as _, BlockLogExt as _, Inbox as _, LogError, Post};
use annals_testbed::{Durability, Edition, FaultProxy, PostgresServer, Upstream};
use support::{TTL, fill, nth, seq};
use writers::Writers;

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

    /// From now on commits wait for the standby.
    async fn wait_for_standby(&self) {
        let waits = "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (second)'";
        self.primary.execute("postgres", waits).await;
        self.primary.execute("postgres", "SELECT pg_reload_conf()").await;
        let counts = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'quorum'";
        self.until_primary_says(counts, 1).await;
    }

    async fn until_primary_says(&self, query: &str, count: i64) {
        let began = Instant::now();
        while self.primary.count("postgres", query).await != count {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "never {count}: {query}"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until the standby has this many blocks, and cuts it off.
    async fn cut_off_standby_at(&self, blocks: u64) {
        let is_there = format!(
            "DO $$ BEGIN WHILE (SELECT count(*) FROM annals.block) < {blocks} LOOP PERFORM pg_sleep(0.01); END LOOP; END $$"
        );
        self.standby.execute("a", &is_there).await;
        self.network.black_hole(true);
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
    pair.wait_for_standby().await;
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
    pair.cut_off_standby_at(3).await;
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

/// What a loss says: the conversation, the last block that was acknowledged, the last one that is there.
fn lost<T: std::fmt::Debug>(outcome: Result<T, LogError>) -> (String, u64, u64) {
    match outcome {
        Err(LogError::Lost {
            id,
            acknowledged,
            actual,
        }) => (
            id.to_string(),
            acknowledged.get(),
            actual.map_or(0, |seq| seq.get()),
        ),
        other => panic!("{other:?}"),
    }
}

/// Leases run out while a database fails over, so a node mostly finds out when it takes a conversation up again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loss_is_told_by_name_to_a_node_that_takes_its_conversation_again() {
    let Some(mut pair) = Pair::start(Durability::Synced).await else {
        return;
    };
    let log = Arc::clone(&pair.log);
    let take = async |name: &str, node: &str| log.acquire(&conversation(name), &owner(node), TTL).await;
    for name in ["short", "replaced", "whole"] {
        log.create(new_conversation(name)).await.unwrap();
        fill(&log, &take(name, "a").await.unwrap(), 1, 3).await;
    }
    pair.cut_off_standby_at(9).await;
    for name in ["short", "replaced"] {
        fill(&log, &take(name, "a").await.unwrap(), 4, 7).await;
    }
    log.create(new_conversation("absent")).await.unwrap();
    fill(&log, &take("absent", "a").await.unwrap(), 1, 2).await;
    pair.fail_over().await;

    // Another node that knows nothing of it was quicker with one of them.
    let url = pair.standby.url("a");
    let other = PostgresLog::open(Address::parse(&url).unwrap(), PostgresOptions::default())
        .await
        .unwrap();
    let id = conversation("replaced");
    pair.standby
        .execute("a", "UPDATE annals.head SET until = 0 WHERE node IS NOT NULL")
        .await;
    let lease = other.acquire(&id, &owner("b"), TTL).await.unwrap();
    let blocks = (4..=9).map(|n| text_block(n, "another")).collect();
    other.append(&lease, after(seq(3), blocks)).await.unwrap();
    other.release(&lease).await.unwrap();

    assert_eq!(lost(take("short", "a").await), ("short".to_owned(), 7, 3));
    assert_eq!(lost(take("replaced", "a").await), ("replaced".to_owned(), 7, 9));
    assert_eq!(lost(take("absent", "a").await), ("absent".to_owned(), 2, 0));
    take("whole", "a").await.unwrap();
    // It has been said. Who goes on with what is left may, and who builds on what is gone is told again.
    let lease = take("short", "a").await.unwrap();
    let on_lost = log.append(&lease, after(seq(7), vec![text_block(8, "x")])).await;
    assert_eq!(lost(on_lost), ("short".to_owned(), 7, 3));
    fill(&log, &lease, 4, 4).await;
    assert!(matches!(
        take("absent", "a").await,
        Err(LogError::NotFound { .. })
    ));
}

/// Ends the wait of a commit for its standby in this way while the standby is cut off. The commit stays, and whoever looks sees
/// it; it must not be acknowledged before the standby has it.
async fn end_the_wait(by: &str) {
    let Some(mut pair) = Pair::start(Durability::Synced).await else {
        return;
    };
    let log = Arc::clone(&pair.log);
    log.create(new_conversation("c")).await.unwrap();
    let lease = log.acquire(&conversation("c"), &owner("a"), TTL).await.unwrap();
    fill(&log, &lease, 1, 1).await;
    log.create(new_conversation("d")).await.unwrap();
    pair.wait_for_standby().await;
    pair.cut_off_standby_at(1).await;
    let appending = {
        let (log, lease) = (Arc::clone(&log), lease.clone());
        tokio::spawn(async move { fill(&log, &lease, 2, 2).await })
    };
    let posting = {
        let log = Arc::clone(&log);
        tokio::spawn(async move { log.post(&conversation("d"), Post::new("k", "prompt", "x")).await })
    };
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    pair.until_primary_says(waiting, 2).await;
    let ended = format!("SELECT count({by}(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
    assert_eq!(pair.primary.count("postgres", &ended).await, 2);
    // Both are there for everybody to see, and both are asked for again: by commits that wait.
    let seen = "SELECT sum(tail + waiting)::int8 FROM annals.head";
    let began = Instant::now();
    while pair.primary.count("a", seen).await != 3 {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "the commits did not stay"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    pair.until_primary_says(waiting, 2).await;
    assert!(!appending.is_finished() && !posting.is_finished(), "acknowledged");
    pair.network.black_hole(false);
    appending.await.unwrap();
    posting.await.unwrap().unwrap();
    pair.fail_over().await;
    assert_eq!(log.read_all(lease.key()).await.unwrap().len(), 2);
    assert_eq!(log.pending(&conversation("d")).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_committed_before_it_died_is_acknowledged_when_the_standby_has_it() {
    end_the_wait("pg_terminate_backend").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_success_whose_wait_for_the_standby_was_cancelled_is_no_success_yet() {
    end_the_wait("pg_cancel_backend").await;
}
