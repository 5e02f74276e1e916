//! Who dies, who is lost on the way, who is too old.

use std::sync::Arc;
use std::time::Duration;

use annals_core::ids::Seq;
use annals_postgres::{Address, PostgresLog, PostgresOptions};
use annals_s3::Bucket;
use annals_store::log::Archive as _;
use annals_store::testing::{Archiving, conversation, delete};
use annals_store::{ArtifactStore, BlockLog as _, BlockLogExt as _, LogError};
use annals_testbed::{FaultProxy, S3_KEY_ID, S3_SECRET, S3Server, Upstream};
use futures::StreamExt as _;
use object_store::ObjectStore as _;
use object_store::memory::InMemory;

use super::node::{HOUR, Node, alone, debian, made, node, text};

async fn texts(node: &Node, name: &str) -> Vec<String> {
    let blocks = node.log.read_all(&conversation(name)).await.unwrap();
    blocks
        .iter()
        .map(|block| block.text().unwrap_or_default().to_owned())
        .collect()
}

/// A node that reaches the same database and bucket through a proxy.
async fn behind(proxy: &FaultProxy, database: &str, objects: &Arc<InMemory>, of: &Node) -> Node {
    let url = format!(
        "postgres://postgres@127.0.0.1:{}/{database}?sslmode=disable",
        proxy.port()
    );
    node(&url, objects.clone(), &of.clock, None).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archive_that_dies_after_the_upload_leaves_bytes_that_are_collected() {
    let Some(server) = debian() else { return };
    let (url, objects, clock) = (
        made(&server, "a").await,
        Arc::new(InMemory::new()),
        Archiving::clock(),
    );
    let whole = node(&url, objects.clone(), &clock, None).await;
    whole.resting("c", 3).await;
    let before = whole.log.get(&conversation("c")).await.unwrap();
    let proxy = FaultProxy::start(Upstream::Unix(server.socket())).await;
    let dying = behind(&proxy, "a", &objects, &whole).await;
    let idle = dying.log.idle(HOUR, None, 9).await.unwrap().items;
    // The first statement of the transaction.
    proxy.swallow("annals.member WHERE schema", 1);
    let archiving = tokio::spawn(async move { dying.log.archive(&idle[0]).await });
    while proxy.swallowed() == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    archiving.abort();
    assert!(archiving.await.unwrap_err().is_cancelled());
    assert_eq!(objects.list(None).count().await, 1, "it was uploaded");
    assert_eq!(whole.archived().await, 0);
    assert_eq!(whole.log.get(&conversation("c")).await.unwrap(), before);
    assert_eq!(
        texts(&whole, "c").await,
        [text("c", 1), text("c", 2), text("c", 3)]
    );
    clock.advance(25 * HOUR);
    let swept = whole.artifacts.collect(&*whole.log, 24 * HOUR).await.unwrap();
    assert_eq!(swept.removed, 1);
    assert_eq!(whole.archive_all().await, 1, "the next one does it again");
    assert_eq!(texts(&whole, "c").await.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_archive_once_and_bring_back_once() {
    let Some(server) = debian() else { return };
    let (url, objects, clock) = (
        made(&server, "a").await,
        Arc::new(InMemory::new()),
        Archiving::clock(),
    );
    let whole = node(&url, objects.clone(), &clock, None).await;
    let proxy = FaultProxy::start(Upstream::Unix(server.socket())).await;
    let cut_off = behind(&proxy, "a", &objects, &whole).await;
    whole.resting("c", 500).await;
    let idle = cut_off.log.idle(HOUR, None, 9).await.unwrap().items;
    proxy.swallow("COMMIT", 1);
    let archived = cut_off.log.archive(&idle[0]).await.unwrap();
    assert!(archived.is_some(), "it is said to be archived, since it is");
    assert_eq!((proxy.swallowed(), whole.archived().await), (1, 1));
    proxy.swallow("INSERT INTO annals.block", 2);
    let reading = tokio::spawn(async move { texts(&cut_off, "c").await });
    while proxy.swallowed() < 2 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    proxy.swallow_nothing();
    assert_eq!(reading.await.unwrap().len(), 500);
    assert_eq!(whole.archived().await, 0);
    assert_eq!(server.count("a", "SELECT count(*) FROM annals.block").await, 500);
}

#[tokio::test]
async fn nothing_is_archived_while_a_node_lives_that_would_not_bring_it_back() {
    let Some(server) = debian() else { return };
    let node = alone(&server, "older").await;
    node.resting("c", 2).await;
    let oldest = async || {
        server
            .count("older", "SELECT oldest::int8 FROM annals.meta")
            .await
    };
    server
        .execute(
            "older",
            "INSERT INTO annals.member (node, epoch, ttl, until, schema) VALUES ('old', 1, 1, 9000000000000000, 3)",
        )
        .await;
    let idle = node.log.idle(HOUR, None, 9).await.unwrap().items;
    let refused = node.log.archive(&idle[0]).await.unwrap_err().to_string();
    assert!(
        refused.contains("`old`") && refused.contains("deploy"),
        "{refused}"
    );
    assert!(oldest().await < 4, "older programs may go on");
    server.execute("older", "DELETE FROM annals.member").await;
    assert!(node.log.archive(&idle[0]).await.unwrap().is_some());
    assert_eq!(oldest().await, 4, "an older program is refused from now on");
}

#[tokio::test]
async fn an_object_stays_as_long_as_it_is_needed_and_no_longer() {
    let Some(server) = debian() else { return };
    let node = alone(&server, "collected").await;
    for name in ["read", "deleted", "kept"] {
        node.resting(name, 2).await;
    }
    assert_eq!(node.archive_all().await, 3);
    node.clock.advance(25 * HOUR);
    let collect = async || node.artifacts.collect(&*node.log, HOUR).await.unwrap().removed;
    assert_eq!(collect().await, 0);
    assert_eq!(texts(&node, "read").await.len(), 2);
    assert_eq!(collect().await, 1);
    delete(&*node.log, &conversation("deleted")).await;
    assert_eq!(collect().await, 1);
    assert_eq!(
        server
            .count(
                "collected",
                "SELECT count(*) FROM annals.archive WHERE digest IS NOT NULL"
            )
            .await,
        1
    );
    assert_eq!(texts(&node, "kept").await.len(), 2);
}

#[tokio::test]
async fn without_an_artifact_store_the_object_is_named_that_has_the_blocks() {
    let Some(server) = debian() else { return };
    let node = alone(&server, "without").await;
    node.resting("c", 2).await;
    assert_eq!(node.archive_all().await, 1);
    let address = Address::parse(&node.url).unwrap();
    let poor = PostgresLog::open(address, PostgresOptions::default())
        .await
        .unwrap();
    let failed = poor.read(&conversation("c"), Seq::FIRST, 9).await;
    assert!(matches!(failed, Err(LogError::Archived { .. })), "{failed:?}");
    assert_eq!(
        poor.get(&conversation("c")).await.unwrap().tail.map(Seq::get),
        Some(2)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_keeps_archived_conversations() {
    let Some(server) = debian() else { return };
    for (name, s3) in [("moto", S3Server::moto()), ("rclone", S3Server::rclone())] {
        let Some(s3) = s3 else { continue };
        let url = made(&server, name).await;
        let bucket = Bucket::with_keys(&s3.url(s3.port(), "p"), S3_KEY_ID, S3_SECRET).unwrap();
        let options = PostgresOptions::default()
            .clock(Archiving::clock())
            .artifacts(bucket.open(None).unwrap());
        let log = PostgresLog::open(Address::parse(&url).unwrap(), options)
            .await
            .unwrap();
        let node = Node {
            log: Arc::new(log),
            clock: Archiving::clock(),
            url,
            artifacts: ArtifactStore::over(Arc::new(InMemory::new())),
        };
        node.resting("c", 700).await;
        assert_eq!((node.archive_all().await, node.archived().await), (1, 1));
        let all = texts(&node, "c").await;
        assert_eq!(all, (1..=700).map(|n| text("c", n)).collect::<Vec<_>>());
    }
}
