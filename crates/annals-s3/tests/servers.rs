//! Artifacts on real servers: what is kept comes back, what nobody names goes, and a careless server is told.

use std::sync::Arc;

use annals_core::block::{Blob, BlobDigest};
use annals_core::time::Timestamp;
use annals_s3::{Bucket, Cache, ProbeError};
use annals_store::{ArtifactError, ArtifactStore};
use annals_testbed::{FaultProxy, S3_KEY_ID, S3_SECRET, S3Server, Upstream};
use futures::TryStreamExt as _;

const LATER: i64 = 4_000_000_000_000_000;

fn bucket(url: &str) -> Bucket {
    Bucket::with_keys(url, S3_KEY_ID, S3_SECRET).unwrap()
}

/// Everything that an artifact store promises.
async fn keeps_its_promises(store: ArtifactStore) {
    let small = store.put("hello").await.unwrap();
    assert_eq!(store.get(&small.blob.digest).await.unwrap(), "hello");
    assert_eq!(store.put("hello").await.unwrap(), small, "twice is once");
    // More than one part of a multipart upload.
    let large: Vec<u8> = (0..12 << 20).map(|n: u32| (n ^ n >> 11) as u8).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &large).unwrap();
    let stored = store.put_file(file.path()).await.unwrap();
    assert_eq!(stored.blob, Blob::of(&large));
    let pieces = store.stream(&stored.blob.digest).await.unwrap();
    let read: Vec<u8> = pieces
        .try_fold(Vec::new(), |mut all, piece| async move {
            all.extend_from_slice(&piece);
            Ok(all)
        })
        .await
        .unwrap();
    assert!(read == large, "all of it came back");
    let range = store
        .range(&stored.blob.digest, 1_000_000..1_000_010)
        .await
        .unwrap();
    assert_eq!(range, large[1_000_000..1_000_010]);
    assert_eq!(
        store.size_bytes(&stored.blob.digest).await.unwrap(),
        Some(large.len() as u64)
    );
    let absent = BlobDigest::of(b"never kept");
    assert!(matches!(
        store.get(&absent).await,
        Err(ArtifactError::Missing { .. })
    ));
    assert!(!store.contains(&absent).await.unwrap());
    let swept = store
        .gc([stored.blob.digest], Timestamp::from_unix_micros(LATER))
        .await
        .unwrap();
    assert_eq!((swept.seen, swept.removed, swept.freed_bytes), (2, 1, 5));
    assert!(!store.contains(&small.blob.digest).await.unwrap());
    assert!(matches!(
        store.get(&small.blob.digest).await,
        Err(ArtifactError::Missing { .. })
    ));
    assert!(store.contains(&stored.blob.digest).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn artifacts_are_kept_on_moto_which_refuses_to_replace() {
    let Some(server) = S3Server::moto() else { return };
    let folder = tempfile::tempdir().unwrap();
    for (prefix, cache) in [("plain", None), ("cached", Some(Cache::new(folder.path())))] {
        let bucket = bucket(&server.url(server.port(), prefix));
        assert!(bucket.probe(7).await.unwrap().refuses_to_replace);
        keeps_its_promises(bucket.open(cache).unwrap()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn artifacts_are_kept_on_rclone_which_replaces_without_a_word() {
    let Some(server) = S3Server::rclone() else { return };
    let bucket = bucket(&server.url(server.port(), "p"));
    assert!(!bucket.probe(7).await.unwrap().refuses_to_replace);
    // Through the cache: asked for a range, this server answers with everything, which the client refuses.
    let folder = tempfile::tempdir().unwrap();
    keeps_its_promises(bucket.open(Some(Cache::new(folder.path()))).unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_is_not_there_or_not_ours_is_told_before_anything_is_kept() {
    let Some(server) = S3Server::rclone() else { return };
    let url = server.url(server.port(), "p");
    let absent = bucket(&url.replace("s3://bucket/", "s3://elsewhere/"));
    assert!(matches!(absent.probe(1).await, Err(ProbeError::Storage { .. })));
    let stranger = Bucket::with_keys(&url, "stranger", "x").unwrap();
    assert!(matches!(stranger.probe(1).await, Err(ProbeError::Storage { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_of_the_server_lose_nothing_and_what_was_read_is_read_without_it() {
    let Some(server) = S3Server::moto() else { return };
    let proxy = FaultProxy::start(Upstream::Port(server.port())).await;
    let folder = tempfile::tempdir().unwrap();
    let bucket = bucket(&server.url(proxy.port(), "p"));
    let store = Arc::new(bucket.open(Some(Cache::new(folder.path()))).unwrap());
    proxy.swallow("PUT /bucket", 3);
    let puts = (0..30_u32).map(|n| {
        let store = Arc::clone(&store);
        async move { store.put(n.to_le_bytes().to_vec()).await.unwrap().blob.digest }
    });
    let kept: Vec<BlobDigest> = futures::future::join_all(puts).await;
    assert!(proxy.swallowed() > 0);
    drop(server);
    for (n, digest) in (0..30_u32).zip(&kept) {
        assert_eq!(store.get(digest).await.unwrap(), n.to_le_bytes().to_vec());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_file_is_not_read_faster_than_its_parts_are_sent() {
    const UNDER_WAY_MAX: u64 = 4;
    let Some(server) = S3Server::moto() else { return };
    let proxy = FaultProxy::start(Upstream::Port(server.port())).await;
    let url = server.url(proxy.port(), "parts");
    let store = bucket(&url).open(None).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(40 << 20).unwrap();
    proxy.hold("partNumber=");
    let path = file.path().to_owned();
    let put = tokio::spawn(async move { store.put_file(&path).await });
    while proxy.held() < UNDER_WAY_MAX {
        assert!(!put.is_finished(), "no parts were sent");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    // There are eight, and nothing keeps the next one back but those that are under way.
    tokio::time::sleep(std::time::Duration::from_millis(700)).await;
    assert_eq!(proxy.held(), UNDER_WAY_MAX);
    proxy.let_go();
    assert_eq!(put.await.unwrap().unwrap().blob.size_bytes, 40 << 20);
}
