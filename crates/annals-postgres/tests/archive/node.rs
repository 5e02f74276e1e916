//! A node with an archive in memory.

use std::sync::Arc;
use std::time::Duration;

use annals_embed::Embedder;
use annals_postgres::{Address, Partitions, PostgresLog, PostgresOptions, init, status};
use annals_store::log::Archive as _;
use annals_store::testing::{Archiving, after, conversation, new_conversation, owner, text_block};
use annals_store::{ArtifactStore, BlockLog as _, ManualClock};
use annals_testbed::{Durability, Edition, PostgresServer};
use object_store::ObjectStore;
use object_store::memory::InMemory;

pub(crate) const HOUR: Duration = Duration::from_secs(3_600);
pub(crate) const TTL: Duration = Duration::from_secs(600);

pub(crate) fn debian() -> Option<PostgresServer> {
    PostgresServer::start(Edition::Debian, Durability::Volatile, &[])
}

/// One of the nodes that share a database and a bucket.
pub(crate) struct Node {
    pub(crate) log: Arc<PostgresLog>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) url: String,
    /// The bucket, as the node's own artifact store.
    pub(crate) artifacts: ArtifactStore,
}

/// Makes a database.
pub(crate) async fn made(server: &PostgresServer, name: &str) -> String {
    let url = server.database(name, None).await;
    init(&Address::parse(&url).unwrap(), Partitions::NONE)
        .await
        .unwrap();
    url
}

/// A node of this database, bucket and time.
pub(crate) async fn node(
    url: &str,
    objects: Arc<dyn ObjectStore>,
    clock: &Arc<ManualClock>,
    embedder: Option<Arc<dyn Embedder>>,
) -> Node {
    let mut options = PostgresOptions::default()
        .clock(clock.clone())
        .patience(Duration::from_secs(20))
        .artifacts(ArtifactStore::over(objects.clone()));
    if let Some(embedder) = embedder {
        options = options.recall(embedder);
    }
    let log = PostgresLog::open(Address::parse(url).unwrap(), options).await;
    let log = Arc::new(log.unwrap());
    Node {
        artifacts: ArtifactStore::over(objects).with_ledger(log.clone()),
        log,
        clock: clock.clone(),
        url: url.to_owned(),
    }
}

/// The only node of a new database.
pub(crate) async fn alone(server: &PostgresServer, name: &str) -> Node {
    let url = made(server, name).await;
    node(&url, Arc::new(InMemory::new()), &Archiving::clock(), None).await
}

pub(crate) fn text(name: &str, number: u64) -> String {
    format!("{name}\0{number}")
}

impl Node {
    /// A conversation of this number of blocks that nobody holds.
    pub(crate) async fn resting(&self, name: &str, blocks: u64) {
        self.log.create(new_conversation(name)).await.unwrap();
        let acquired = self.log.acquire(&conversation(name), &owner("a"), TTL).await;
        let lease = acquired.unwrap();
        let blocks = (1..=blocks).map(|n| text_block(n, &text(name, n)));
        self.log
            .append(&lease, after(None, blocks.collect()))
            .await
            .unwrap();
        self.log.release(&lease).await.unwrap();
    }

    /// Archives everything that was idle for an hour; gives how many conversations that were.
    pub(crate) async fn archive_all(&self) -> usize {
        let mut archived = 0;
        for idle in self.log.idle(HOUR, None, 1_000).await.unwrap().items {
            archived += usize::from(self.log.archive(&idle).await.unwrap().is_some());
        }
        archived
    }

    /// How many conversations are archived.
    pub(crate) async fn archived(&self) -> u64 {
        let status = status(&Address::parse(&self.url).unwrap()).await.unwrap();
        status.archive.unwrap().conversations
    }
}
