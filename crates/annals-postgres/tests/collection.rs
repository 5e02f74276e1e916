//! Garbage collection of artifacts by rows: whoever puts, names, deletes and removes at once, nothing that is named is lost.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use annals_core::block::{Blob, BlobDigest, Block, Body};
use annals_core::ids::Seq;
use annals_postgres::{Address, Partitions, PostgresLog, PostgresOptions, init};
use annals_s3::Bucket;
use annals_store::artifacts::{Keeping, MARK, Marked, Removal};
use annals_store::testing::{after, conversation, new_conversation, owner, text_block};
use annals_store::{
    ArtifactError, ArtifactLedger, ArtifactStore, BlockLog as _, Clock as _, Inbox as _, Lease, LogError,
    ManualClock, Post, Swept,
};
use annals_testbed::{Durability, Edition, PostgresServer, S3_KEY_ID, S3_SECRET, S3Server};
use object_store::ObjectStoreExt as _;
use object_store::memory::InMemory;
use object_store::throttle::{ThrottleConfig, ThrottledStore};
use tokio::sync::RwLock;

const HOUR: Duration = Duration::from_secs(3_600);
const TTL: Duration = Duration::from_secs(600);

struct Node {
    log: Arc<PostgresLog>,
    clock: Arc<ManualClock>,
}

async fn node(server: &PostgresServer, name: &str) -> Node {
    let url = server.database(name, None).await;
    let address = Address::parse(&url).unwrap();
    init(&address, Partitions::NONE).await.unwrap();
    let clock = Arc::new(ManualClock::default());
    clock.advance(1_000 * HOUR);
    let options = PostgresOptions::default().clock(clock.clone());
    let log = Arc::new(PostgresLog::open(address, options).await.unwrap());
    Node { log, clock }
}

fn debian() -> Option<PostgresServer> {
    PostgresServer::start(Edition::Debian, Durability::Volatile, &[])
}

fn naming(number: u64, blob: Blob) -> Block {
    Block {
        body: Body::from(blob),
        ..text_block(number, "")
    }
}

async fn begin(log: &PostgresLog, name: &str) -> Lease {
    log.create(new_conversation(name)).await.unwrap();
    log.acquire(&conversation(name), &owner("a"), TTL).await.unwrap()
}

fn was_removed<T>(outcome: &Result<T, LogError>) -> bool {
    matches!(outcome, Err(LogError::Storage { detail, .. }) if detail.contains("was removed"))
}

#[tokio::test]
async fn what_no_block_names_goes_and_a_block_that_names_it_too_late_is_refused() {
    let Some(server) = debian() else { return };
    let folder = tempfile::tempdir().unwrap();
    let Node { log, clock } = node(&server, "plain").await;
    let store = ArtifactStore::open(folder.path())
        .unwrap()
        .with_ledger(log.clone());
    let lease = begin(&log, "c").await;
    let named = store.put("named").await.unwrap();
    let loose = store.put("loose!").await.unwrap();
    let first = log
        .append(&lease, after(None, vec![naming(1, named.blob)]))
        .await
        .unwrap();
    assert_eq!(
        log.garbage(24 * HOUR).await.unwrap(),
        Swept {
            seen: 2,
            ..Swept::default()
        }
    );
    assert_eq!(
        store.collect(&*log, 24 * HOUR).await.unwrap().removed,
        0,
        "it is new"
    );
    clock.advance(25 * HOUR);
    let expected = Swept {
        seen: 2,
        removed: 1,
        freed_bytes: 6,
    };
    assert_eq!(log.garbage(24 * HOUR).await.unwrap(), expected);
    assert!(
        store.contains(&loose.blob.digest).await.unwrap(),
        "it was only counted"
    );
    assert_eq!(store.collect(&*log, 24 * HOUR).await.unwrap(), expected);
    assert_eq!(store.get(&named.blob.digest).await.unwrap(), "named");
    let gone = store.get(&loose.blob.digest).await;
    assert!(matches!(gone, Err(ArtifactError::Missing { .. })), "{gone:?}");
    let late = || after(first, vec![naming(2, loose.blob)]);
    let refused = log.append(&lease, late()).await;
    assert!(was_removed(&refused), "{refused:?}");
    store.put("loose!").await.unwrap();
    let second = log.append(&lease, late()).await.unwrap();
    assert_eq!(second, Seq::try_new(2).ok());
    clock.advance(25 * HOUR);
    assert_eq!(store.collect(&*log, 24 * HOUR).await.unwrap().removed, 0);
    log.delete(&lease).await.unwrap();
    assert_eq!(store.collect(&*log, 24 * HOUR).await.unwrap().removed, 2);
    assert!(!store.contains(&named.blob.digest).await.unwrap());
}

#[tokio::test]
async fn bytes_that_are_there_are_not_sent_again_and_bytes_that_are_not_are() {
    let Some(server) = debian() else { return };
    let node = node(&server, "a").await;
    let objects = Arc::new(InMemory::new());
    let store = ArtifactStore::over(objects.clone()).with_ledger(node.log.clone());
    // A version for each time that something was written.
    let version = async |key: &str| objects.head(&key.into()).await.unwrap().e_tag;
    let kept = store.put("hello").await.unwrap();
    let first = version(&kept.key).await;
    assert_eq!(store.put("hello").await.unwrap(), kept);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "hello").unwrap();
    assert_eq!(store.put_file(file.path()).await.unwrap(), kept);
    let mut draft = store.draft().await.unwrap();
    draft.write(b"hello").await.unwrap();
    assert_eq!(draft.keep().await.unwrap(), kept);
    assert_eq!(version(&kept.key).await, first, "it was there");
    // Not sending them keeps them all the same.
    node.clock.advance(30 * HOUR);
    store.put("hello").await.unwrap();
    let swept = store.collect(&*node.log, 24 * HOUR).await.unwrap();
    assert_eq!(swept.removed, 0);
    // Removed, or announced by somebody who died before they were written, they are sent.
    node.clock.advance(30 * HOUR);
    let swept = store.collect(&*node.log, 24 * HOUR).await.unwrap();
    assert_eq!(swept.removed, 1);
    store.put("hello").await.unwrap();
    assert_eq!(store.get(&kept.blob.digest).await.unwrap(), "hello");
    let other = Blob::of(b"other");
    assert_eq!(node.log.keeping(other).await.unwrap(), Keeping::New);
    assert_eq!(node.log.keeping(other).await.unwrap(), Keeping::Known);
    store.put("other").await.unwrap();
    assert_eq!(store.get(&other.digest).await.unwrap(), "other");
}

#[tokio::test]
async fn what_a_post_names_stays_however_long_it_waits() {
    let Some(server) = debian() else { return };
    let Node { log, clock } = node(&server, "waits").await;
    let store = ArtifactStore::over(Arc::new(InMemory::new())).with_ledger(log.clone());
    let lease = begin(&log, "c").await;
    let kept = store.put("attached").await.unwrap();
    let body = format!(r#"{{"digest":"{}"}}"#, kept.blob.digest);
    let post = Post::new("k", "prompt", body);
    let post = log.post(&conversation("c"), post).await.unwrap().id();
    clock.advance(1_000 * HOUR);
    assert_eq!(log.garbage(HOUR).await.unwrap().removed, 0);
    assert_eq!(store.collect(&*log, HOUR).await.unwrap().removed, 0);
    let taken = after(None, vec![naming(1, kept.blob)]).consuming([post]);
    log.append(&lease, taken).await.unwrap();
    assert_eq!(store.collect(&*log, HOUR).await.unwrap().removed, 0);
    assert_eq!(store.get(&kept.blob.digest).await.unwrap(), "attached");
}

#[tokio::test]
async fn a_collector_that_died_holds_a_put_up_until_its_mark_has_run_out() {
    let Some(server) = debian() else { return };
    let Node { log, clock } = node(&server, "died").await;
    let store = ArtifactStore::over(Arc::new(InMemory::new())).with_ledger(log.clone());
    let kept = store.put("bytes").await.unwrap();
    clock.advance(2 * HOUR);
    let marks = log.mark(HOUR, None, 10).await.unwrap();
    assert_eq!(marks.len(), 1);
    assert!(
        log.mark(HOUR, None, 10).await.unwrap().is_empty(),
        "another has it"
    );
    // A block that names it now might name nothing.
    let lease = begin(&log, "c").await;
    let named = log.append(&lease, after(None, vec![naming(1, kept.blob)])).await;
    assert!(was_removed(&named), "{named:?}");
    let put = tokio::spawn({
        let store = store.clone();
        async move { store.put("bytes").await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!put.is_finished(), "its bytes may be removed at any moment");
    clock.advance(MARK);
    put.await.unwrap().unwrap();
    // Whoever wakes up late has no say.
    log.removed(&marks).await.unwrap();
    let named = log.append(&lease, after(None, vec![naming(1, kept.blob)])).await;
    named.unwrap();
    assert_eq!(store.get(&kept.blob.digest).await.unwrap(), "bytes");
}

#[tokio::test]
async fn bytes_that_were_removed_are_named_by_nobody_until_they_are_there_again() {
    let Some(server) = debian() else { return };
    let Node { log, clock } = node(&server, "again").await;
    let store = ArtifactStore::over(Arc::new(InMemory::new())).with_ledger(log.clone());
    let lease = begin(&log, "c").await;
    let kept = store.put("bytes").await.unwrap().blob;
    let naming_it = || after(None, vec![naming(1, kept)]);
    clock.advance(2 * HOUR);
    assert_eq!(store.collect(&*log, HOUR).await.unwrap().removed, 1);
    // Another is about to write them again, and may die before.
    let Keeping::Removed(first) = log.keeping(kept).await.unwrap() else {
        panic!("they were removed");
    };
    let late = log.append(&lease, naming_it()).await;
    assert!(was_removed(&late), "{late:?}");
    assert_eq!(
        log.keeping(kept).await.unwrap(),
        Keeping::Removed(first),
        "a second writer writes them, too"
    );
    // It has died. What it may have written is garbage.
    clock.advance(2 * HOUR);
    assert_eq!(log.garbage(HOUR).await.unwrap().removed, 1);
    assert_eq!(store.collect(&*log, HOUR).await.unwrap().removed, 1);
    assert!(
        !log.rewritten(kept, first).await.unwrap(),
        "what it wrote was removed"
    );
    // After a mark that ran out nobody knows whether they are there.
    store.put("bytes").await.unwrap();
    clock.advance(2 * HOUR);
    assert_eq!(log.mark(HOUR, None, 10).await.unwrap().len(), 1);
    clock.advance(MARK);
    let Keeping::Removed(second) = log.keeping(kept).await.unwrap() else {
        panic!("they may have been removed");
    };
    assert_ne!(first, second);
    let late = log.append(&lease, naming_it()).await;
    assert!(was_removed(&late), "{late:?}");
    assert!(log.rewritten(kept, second).await.unwrap());
    assert!(
        log.rewritten(kept, second).await.unwrap(),
        "whoever says so twice"
    );
    log.append(&lease, naming_it()).await.unwrap();
}

#[tokio::test]
async fn nothing_is_removed_while_a_node_lives_that_keeps_no_rows() {
    let Some(server) = debian() else { return };
    let Node { log, clock } = node(&server, "older").await;
    let store = ArtifactStore::over(Arc::new(InMemory::new())).with_ledger(log.clone());
    store.put("bytes").await.unwrap();
    clock.advance(25 * HOUR);
    server
        .execute(
            "older",
            "INSERT INTO annals.member (node, epoch, ttl, until, schema) VALUES ('old', 1, 1, 9000000000000000, 2)",
        )
        .await;
    let refused = store.collect(&*log, HOUR).await.unwrap_err().to_string();
    assert!(
        refused.contains("`old`") && refused.contains("deploy"),
        "{refused}"
    );
    server.execute("older", "DELETE FROM annals.member").await;
    assert_eq!(store.collect(&*log, HOUR).await.unwrap().removed, 1);
}

/// So few files that writers and collectors meet, and enough that some are left alone for hours.
const CONTENTS: u64 = 30;

/// Numbers by a seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// What happened, so that a schedule in which nothing did is noticed.
#[derive(Debug, Default)]
struct Tally {
    named: AtomicU64,
    refused: AtomicU64,
    removed: AtomicU64,
    died: AtomicU64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    named: u64,
    refused: u64,
    removed: u64,
    died: u64,
}

/// What all tasks of a schedule share.
struct Scene {
    log: Arc<PostgresLog>,
    ledger: Arc<dyn ArtifactLedger>,
    clock: Arc<ManualClock>,
    store: ArtifactStore,
    /// Held while time must not pass: no append takes an hour, and no removal that was sent takes five minutes.
    time: RwLock<()>,
    tally: Tally,
}

impl Scene {
    /// Keeps a content, again if time passed so quickly that it was removed while it was being written.
    async fn put(&self, content: &str) -> Blob {
        loop {
            match self.store.put(content.to_owned()).await {
                Ok(stored) => return stored.blob,
                Err(error) => assert!(
                    error.to_string().contains("while it was being written"),
                    "{error}"
                ),
            }
        }
    }

    /// Puts, names, abandons and deletes the same few contents as all others.
    async fn write(&self, number: u64, rounds: u64, mut chance: Chance) {
        let name = format!("c{number}");
        let mut lease = begin(&self.log, &name).await;
        let mut tail = None;
        let mut live: HashMap<BlobDigest, String> = HashMap::new();
        for _ in 0..rounds {
            let content = format!("content {}", chance.below(CONTENTS));
            let blob = self.put(&content).await;
            if chance.below(3) == 0 {
                continue;
            }
            // Now and then an append comes so late that its file may be gone.
            let late = if chance.below(4) == 0 {
                2 * HOUR
            } else {
                Duration::ZERO
            };
            let until = self.clock.now().unix_micros() + late.as_micros() as i64;
            tokio::time::sleep(Duration::from_millis(chance.below(4))).await;
            while self.clock.now().unix_micros() < until {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            loop {
                let still = self.time.read().await;
                let next = tail.map_or(1, |tail: Seq| tail.get() + 1);
                let append = after(tail, vec![naming(next, blob)]);
                match self.log.append(&lease, append).await {
                    Ok(grown) => {
                        tail = grown;
                        break;
                    }
                    refused if was_removed(&refused) => {
                        drop(still);
                        self.tally.refused.fetch_add(1, Ordering::Relaxed);
                        self.put(&content).await;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            self.tally.named.fetch_add(1, Ordering::Relaxed);
            live.insert(blob.digest, content);
            if chance.below(5) == 0 {
                self.check(&live).await;
                self.log.delete(&lease).await.unwrap();
                live.clear();
                lease = begin(&self.log, &name).await;
                tail = None;
            }
        }
        self.check(&live).await;
    }

    async fn check(&self, live: &HashMap<BlobDigest, String>) {
        for (digest, content) in live {
            let bytes = self.store.get(digest).await;
            assert_eq!(bytes.expect("what a block names is there"), *content);
        }
    }

    /// Removes garbage, and dies now and then.
    async fn collect(self: Arc<Self>, mut chance: Chance) {
        loop {
            let still = self.time.read().await;
            let scene = Arc::clone(&self);
            let collecting = tokio::spawn(async move { scene.store.collect(&*scene.ledger, HOUR).await });
            if chance.below(3) == 0 {
                tokio::time::sleep(Duration::from_millis(chance.below(6))).await;
                collecting.abort();
            }
            match collecting.await {
                Ok(swept) => {
                    let removed = swept.unwrap().removed;
                    self.tally.removed.fetch_add(removed, Ordering::Relaxed);
                }
                Err(_) => {
                    self.tally.died.fetch_add(1, Ordering::Relaxed);
                    // What it sent arrives yet.
                    tokio::time::sleep(Duration::from_millis(30)).await;
                }
            }
            drop(still);
            tokio::time::sleep(Duration::from_millis(4)).await;
        }
    }

    /// Lets time pass quickly.
    async fn pass(&self) {
        loop {
            tokio::time::sleep(Duration::from_millis(2)).await;
            let _still = self.time.write().await;
            self.clock.advance(Duration::from_secs(1_200));
        }
    }
}

/// Plays a schedule with a ledger; fails if something was lost.
async fn play(
    node: Node,
    ledger: Arc<dyn ArtifactLedger>,
    store: ArtifactStore,
    seed: u64,
    (writers, rounds): (u64, u64),
) -> Result<Counts, String> {
    let scene = Arc::new(Scene {
        store: store.with_ledger(ledger.clone()),
        ledger,
        log: node.log,
        clock: node.clock,
        time: RwLock::default(),
        tally: Tally::default(),
    });
    let mut background = vec![tokio::spawn({
        let scene = Arc::clone(&scene);
        async move { scene.pass().await }
    })];
    for number in 0..2 {
        let chance = Chance(seed ^ 0xc011 ^ number);
        background.push(tokio::spawn(Arc::clone(&scene).collect(chance)));
    }
    let mut tasks = Vec::new();
    for number in 0..writers {
        let scene = Arc::clone(&scene);
        let chance = Chance(seed.wrapping_mul(1_000) + number);
        tasks.push(tokio::spawn(
            async move { scene.write(number, rounds, chance).await },
        ));
    }
    let mut outcome = Ok(());
    for task in tasks {
        let ended = task.await.map_err(|error| format!("seed {seed}: {error}"));
        outcome = outcome.and(ended);
    }
    for task in background {
        task.abort();
        let _ended = task.await;
    }
    let count = |number: &AtomicU64| number.load(Ordering::Relaxed);
    let tally = &scene.tally;
    outcome.map(|()| Counts {
        named: count(&tally.named),
        refused: count(&tally.refused),
        removed: count(&tally.removed),
        died: count(&tally.died),
    })
}

/// A store in which removals and writes take a moment, so that they meet.
fn slow() -> ArtifactStore {
    let slow = ThrottledStore::new(
        InMemory::new(),
        ThrottleConfig {
            wait_delete_per_call: Duration::from_millis(3),
            wait_put_per_call: Duration::from_millis(2),
            ..ThrottleConfig::default()
        },
    );
    ArtifactStore::over(Arc::new(slow))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_at_once_nothing_that_a_block_names_is_lost() {
    let Some(server) = debian() else { return };
    let mut all = Counts::default();
    for seed in 0..6 {
        let node = node(&server, &format!("seed_{seed}")).await;
        let ledger = node.log.clone();
        let counts = play(node, ledger, slow(), seed, (4, 40)).await.unwrap();
        all.named += counts.named;
        all.refused += counts.refused;
        all.removed += counts.removed;
        all.died += counts.died;
    }
    let is_enough = all.named > 200 && all.removed > 50 && all.refused > 0 && all.died > 5;
    assert!(is_enough, "too little met: {all:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_bucket_nothing_that_a_block_names_is_lost() {
    let Some(server) = debian() else { return };
    for (name, s3) in [("moto", S3Server::moto()), ("rclone", S3Server::rclone())] {
        let Some(s3) = s3 else { continue };
        let node = node(&server, name).await;
        let bucket = Bucket::with_keys(&s3.url(s3.port(), "p"), S3_KEY_ID, S3_SECRET).unwrap();
        let (ledger, store) = (node.log.clone(), bucket.open(None).unwrap());
        let counts = play(node, ledger, store, 7, (3, 12)).await.unwrap();
        assert!(counts.removed > 0, "{name}: {counts:?}");
    }
}

/// A ledger whose puts take a row without waiting for the collector that has marked it.
#[derive(Debug)]
struct Impatient {
    log: Arc<PostgresLog>,
    client: tokio_postgres::Client,
}

#[async_trait::async_trait]
impl ArtifactLedger for Impatient {
    async fn keeping(&self, blob: Blob) -> Result<Keeping, LogError> {
        let taken = self
            .client
            .execute(
                "UPDATE annals.artifact SET removing = NULL WHERE digest = $1",
                &[&&blob.digest.0[..]],
            )
            .await;
        taken.unwrap();
        self.log.keeping(blob).await
    }

    async fn rewritten(&self, blob: Blob, removal: Removal) -> Result<bool, LogError> {
        self.log.rewritten(blob, removal).await
    }

    async fn mark(
        &self,
        older_than: Duration,
        after: Option<BlobDigest>,
        limit: usize,
    ) -> Result<Vec<Marked>, LogError> {
        self.log.mark(older_than, after, limit).await
    }

    async fn removed(&self, marks: &[Marked]) -> Result<(), LogError> {
        self.log.removed(marks).await
    }

    async fn garbage(&self, older_than: Duration) -> Result<Swept, LogError> {
        self.log.garbage(older_than).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_that_does_not_wait_for_marks_is_noticed() {
    let Some(server) = debian() else { return };
    for seed in 0..20 {
        let name = format!("impatient_{seed}");
        let node = node(&server, &name).await;
        let (client, connection) = tokio_postgres::connect(&server.url(&name), tokio_postgres::NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        let log = node.log.clone();
        let played = play(node, Arc::new(Impatient { log, client }), slow(), seed, (4, 40)).await;
        if played.is_err() {
            return;
        }
    }
    panic!("no seed has lost anything");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_that_meets_a_mark_before_it_is_committed_waits_for_it_and_is_refused() {
    let Some(server) = debian() else { return };
    let folder = tempfile::tempdir().unwrap();
    let Node { log, clock } = node(&server, "race").await;
    let store = ArtifactStore::open(folder.path())
        .unwrap()
        .with_ledger(log.clone());
    let lease = begin(&log, "c").await;
    let loose = store.put("loose").await.unwrap();
    clock.advance(25 * HOUR);
    let (mut collector, connection) = tokio_postgres::connect(&server.url("race"), tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    // A collector between its mark and its commit.
    let marking = collector.transaction().await.unwrap();
    let mark = "UPDATE annals.artifact SET removing = 9000000000000000";
    assert_eq!(marking.execute(mark, &[]).await.unwrap(), 1);
    let appending =
        tokio::spawn(async move { log.append(&lease, after(None, vec![naming(1, loose.blob)])).await });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'race' AND wait_event_type = 'Lock'";
    while server.count("postgres", waits).await == 0 {
        assert!(!appending.is_finished(), "it did not look at the row");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    marking.commit().await.unwrap();
    let outcome = appending.await.unwrap();
    assert!(was_removed(&outcome), "{outcome:?}");
}
