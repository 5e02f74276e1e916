//! One function for each rule of the archive of idle conversations.

use std::sync::Arc;
use std::time::Duration;

use annals_core::block::{BlobDigest, Block, BlockKind};
use annals_core::ids::{Scope, Seq};
use futures::StreamExt as _;
use futures::future::{BoxFuture, join_all};
use object_store::ObjectStoreExt as _;
use object_store::memory::InMemory;
use object_store::path::Path as ObjectPath;

use super::sample::{after, at, conversation, new_conversation, owner, text_block, varied_blocks};
use crate::artifacts::ArtifactStore;
use crate::clock::ManualClock;
use crate::log::{
    Archive, Archived, BlockLogExt as _, Idle, Lease, LogError, Operator, Post, Stale, Store, Work,
};
use crate::transfer::export_conversation;

/// A rule of the archive, tried on an empty store.
#[derive(Clone, Copy)]
pub struct ArchiveCase {
    /// The behaviour.
    pub name: &'static str,
    /// Panics if the archive behaves otherwise.
    pub run: fn(Archiving) -> BoxFuture<'static, ()>,
}

/// An empty store that archives, with the objects that it archives to and the clock that it lives by.
#[derive(Clone)]
pub struct Archiving {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Its archive.
    pub archive: Arc<dyn Archive>,
    /// Where its objects are.
    pub objects: Arc<InMemory>,
    /// Its clock, which has come past the times of test blocks.
    pub clock: Arc<ManualClock>,
}

const TTL: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(3_600);

impl Archiving {
    /// A clock for such a store.
    pub fn clock() -> Arc<ManualClock> {
        const YEAR_SECONDS: i64 = 365 * 24 * 3_600;
        Arc::new(ManualClock::new(at(YEAR_SECONDS)))
    }

    async fn begin(&self, name: &str) -> Lease {
        self.store.create(new_conversation(name)).await.unwrap();
        self.acquire(name).await
    }

    async fn acquire(&self, name: &str) -> Lease {
        let acquired = self.store.acquire(&conversation(name), &owner("a"), TTL).await;
        acquired.unwrap()
    }

    async fn fill(&self, lease: &Lease, from: u64, to: u64) {
        let blocks = (from..=to).map(|n| text_block(n, &format!("{}\0{n}", lease.key().id)));
        let append = after(Seq::try_new(from - 1).ok(), blocks.collect());
        self.store.append(lease, append).await.unwrap();
    }

    /// A conversation of this number of blocks, which nobody holds.
    async fn resting(&self, name: &str, blocks: u64) {
        let lease = self.begin(name).await;
        self.fill(&lease, 1, blocks).await;
        self.store.release(&lease).await.unwrap();
    }

    async fn idle(&self) -> Vec<Idle> {
        self.archive.idle(HOUR, None, 100).await.unwrap().items
    }

    async fn find(&self, name: &str) -> Option<Idle> {
        let idle = self.idle().await;
        idle.into_iter().find(|idle| idle.key == conversation(name))
    }

    /// Archives a conversation that is idle.
    async fn put_away(&self, name: &str) -> Archived {
        let idle = self.find(name).await.expect("it is idle");
        let archived = self.archive.archive(&idle).await.unwrap();
        archived.expect("it is as it was found")
    }

    async fn blocks(&self, name: &str) -> Vec<Block> {
        self.store.read_all(&conversation(name)).await.unwrap()
    }

    async fn texts(&self, name: &str) -> Vec<String> {
        let blocks = self.blocks(name).await;
        let texts = blocks
            .iter()
            .map(|block| block.text().unwrap_or("-").replace('\0', "-"));
        texts.collect()
    }

    async fn exported(&self, name: &str) -> Vec<u8> {
        let artifacts = ArtifactStore::over(self.objects.clone());
        let mut bytes = Vec::new();
        export_conversation(&*self.store, &artifacts, &conversation(name), &mut bytes)
            .await
            .unwrap();
        bytes
    }

    async fn is_needed(&self, object: BlobDigest) -> bool {
        self.store.named_blobs(None, 100).await.unwrap().contains(&object)
    }
}

fn place(object: BlobDigest) -> ObjectPath {
    let hex = object.hex();
    ObjectPath::from(format!("sha256/{}/{}", &hex[..2], &hex[2..]))
}

fn names(idle: &[Idle]) -> Vec<&str> {
    idle.iter().map(|idle| idle.key.id.as_str()).collect()
}

macro_rules! cases {
    ($($(#[doc = $doc:literal])* async fn $name:ident($on:ident) $body:block)*) => {
        /// Every rule of the archive.
        pub const ARCHIVE_CASES: &[ArchiveCase] =
            &[$(ArchiveCase { name: stringify!($name), run: |on| Box::pin($name(on)) },)*];
        $($(#[doc = $doc])* async fn $name($on: Archiving) $body)*
    };
}

cases! {
    async fn archived_blocks_come_back_exactly_as_they_were(on) {
        let lease = on.begin("c").await;
        // Only what is in the store can be exported.
        let bytes: [&'static [u8]; 2] = [b"\x89PNG", b"whole"];
        for bytes in bytes {
            ArtifactStore::over(on.objects.clone()).put(bytes).await.unwrap();
        }
        on.store.append(&lease, after(None, varied_blocks())).await.unwrap();
        on.store.release(&lease).await.unwrap();
        let before = on.exported("c").await;
        let archived = on.put_away("c").await;
        assert_eq!(archived.blocks, 9);
        let third = Seq::try_new(3).unwrap();
        let range = on.store.read(&conversation("c"), third, 2).await.unwrap();
        assert_eq!(range, varied_blocks()[2..4]);
        assert_eq!(on.blocks("c").await, varied_blocks());
        on.clock.advance(HOUR);
        on.put_away("c").await;
        assert_eq!(on.exported("c").await, before);
    }

    async fn what_needs_no_blocks_needs_no_object(on) {
        let new = new_conversation("c").title("A title\0").from_parent(conversation("p").id, None, Operator::Import);
        on.store.create(new).await.unwrap();
        let lease = on.acquire("c").await;
        on.fill(&lease, 1, 3).await;
        on.store.release(&lease).await.unwrap();
        let before = on.store.get(&conversation("c")).await.unwrap();
        let object = on.put_away("c").await.object.digest;
        on.objects.delete(&place(object)).await.unwrap();
        assert_eq!(on.store.get(&conversation("c")).await.unwrap(), before);
        assert_eq!(on.store.list(&Scope::default(), None, 9).await.unwrap().items, [before]);
        let tail = on.store.follow(&conversation("c"), None).next().await.unwrap().unwrap();
        assert_eq!(tail.get(), 3);
        let post = on.store.post(&conversation("c"), Post::new("k", "prompt", "x")).await.unwrap().id();
        let claimed = on.store.claim(&owner("b"), TTL, 9).await.unwrap();
        let append = after(Seq::try_new(3).ok(), vec![text_block(4, "c-4")]).consuming([post]).work(Work::Done);
        on.store.append(&claimed[0].lease, append).await.unwrap();
        let from = Seq::try_new(4).unwrap();
        let last = on.store.read(&conversation("c"), from, 9).await.unwrap();
        assert_eq!(last[0].text(), Some("c-4"), "what was written since is not in the object");
    }

    async fn what_was_written_to_an_archived_conversation_follows_what_comes_back(on) {
        on.resting("c", 3).await;
        on.put_away("c").await;
        let lease = on.acquire("c").await;
        on.fill(&lease, 4, 5).await;
        on.store.release(&lease).await.unwrap();
        assert_eq!(names(&on.idle().await), [""; 0], "some of its blocks are in an object already");
        assert_eq!(on.texts("c").await, ["c-1", "c-2", "c-3", "c-4", "c-5"]);
        on.clock.advance(HOUR);
        assert_eq!(on.put_away("c").await.blocks, 5);
        assert_eq!(on.texts("c").await.len(), 5);
    }

    async fn only_what_nobody_needs_is_idle(on) {
        on.resting("idle", 2).await;
        on.store.create(new_conversation("empty")).await.unwrap();
        let held = on.begin("held").await;
        on.fill(&held, 1, 1).await;
        on.resting("waits", 1).await;
        on.store.post(&conversation("waits"), Post::new("k", "prompt", "x")).await.unwrap();
        let due = on.begin("due").await;
        let later = after(None, vec![text_block(1, "x")]).work(Work::DueIn(HOUR * 100));
        on.store.append(&due, later).await.unwrap();
        on.store.release(&due).await.unwrap();
        let asks = on.begin("asks").await;
        let request = Block { kind: BlockKind::ApprovalRequest, ..text_block(1, "?") };
        on.store.append(&asks, after(None, vec![request])).await.unwrap();
        on.store.release(&asks).await.unwrap();
        on.resting("shared", 2).await;
        on.store.fork(&conversation("shared"), Seq::FIRST, new_conversation("fork")).await.unwrap();
        assert_eq!(names(&on.idle().await), ["idle"]);
        on.clock.advance(TTL);
        assert_eq!(names(&on.idle().await), ["idle", "held"], "a lease that ran out holds nothing");
        let young = on.archive.idle(HOUR * 24 * 10_000, None, 9).await.unwrap();
        assert_eq!(names(&young.items), [""; 0]);
        let fork = on.acquire("fork").await;
        on.fill(&fork, 2, 3).await;
        on.store.release(&fork).await.unwrap();
        let fork = on.find("fork").await.expect("it has blocks of its own");
        assert_eq!(fork.blocks, 2);
    }

    async fn idle_conversations_are_listed_page_by_page(on) {
        for name in ["c1", "c2", "c3", "c4", "c5"] {
            on.resting(name, 1).await;
        }
        let (mut seen, mut cursor) = (Vec::new(), None);
        loop {
            let page = on.archive.idle(HOUR, cursor, 2).await.unwrap();
            assert!(page.items.len() <= 2);
            seen.extend(names(&page.items).iter().map(|name| (*name).to_owned()));
            match page.next {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        assert_eq!(seen, ["c1", "c2", "c3", "c4", "c5"]);
    }

    async fn whoever_is_quicker_leaves_it_as_it_is(on) {
        for name in ["append", "acquire", "post", "fork", "delete", "archive"] {
            on.resting(name, 2).await;
        }
        let found = on.idle().await;
        let lease = on.acquire("append").await;
        on.fill(&lease, 3, 3).await;
        on.store.release(&lease).await.unwrap();
        let held = on.acquire("acquire").await;
        on.store.post(&conversation("post"), Post::new("k", "prompt", "x")).await.unwrap();
        on.store.fork(&conversation("fork"), Seq::FIRST, new_conversation("f")).await.unwrap();
        on.store.delete(&on.acquire("delete").await).await.unwrap();
        on.resting("delete", 2).await;
        on.put_away("archive").await;
        for idle in &found {
            assert_eq!(on.archive.archive(idle).await.unwrap(), None, "{}", idle.key);
        }
        assert_eq!(on.texts("append").await.len(), 3);
        on.fill(&held, 3, 3).await;
        for name in ["acquire", "post", "fork", "delete", "archive"] {
            assert_eq!(on.texts(name).await[..2], [format!("{name}-1"), format!("{name}-2")]);
        }
    }

    async fn an_expired_lease_writes_no_more(on) {
        let lease = on.begin("c").await;
        on.fill(&lease, 1, 2).await;
        on.clock.advance(TTL);
        on.put_away("c").await;
        let late = on.store.append(&lease, after(Seq::try_new(2).ok(), vec![text_block(3, "late")])).await;
        assert!(matches!(late, Err(LogError::Conflict { stale: Stale::Lease { .. }, .. })), "{late:?}");
        assert_eq!(on.texts("c").await, ["c-1", "c-2"]);
    }

    async fn a_fork_of_an_archived_conversation_brings_it_back(on) {
        on.resting("p", 4).await;
        on.put_away("p").await;
        on.store.fork(&conversation("p"), Seq::try_new(3).unwrap(), new_conversation("f")).await.unwrap();
        let fork = on.acquire("f").await;
        on.fill(&fork, 4, 5).await;
        on.store.release(&fork).await.unwrap();
        on.clock.advance(HOUR);
        assert_eq!(names(&on.idle().await), ["f"], "a fork shares the other's blocks");
        on.put_away("f").await;
        assert_eq!(on.texts("f").await, ["p-1", "p-2", "p-3", "f-4", "f-5"]);
        on.store.delete(&on.acquire("p").await).await.unwrap();
        on.clock.advance(HOUR);
        on.put_away("f").await;
        assert_eq!(on.texts("f").await, ["p-1", "p-2", "p-3", "f-4", "f-5"]);
    }

    async fn an_object_is_needed_until_its_blocks_are_back_or_deleted(on) {
        on.resting("c", 2).await;
        let first = on.put_away("c").await.object.digest;
        assert!(on.is_needed(first).await);
        on.texts("c").await;
        assert!(!on.is_needed(first).await);
        on.clock.advance(HOUR);
        let second = on.put_away("c").await.object.digest;
        on.store.delete(&on.acquire("c").await).await.unwrap();
        assert!(!on.is_needed(second).await);
        let gone = on.store.read_all(&conversation("c")).await;
        assert!(matches!(gone, Err(LogError::NotFound { .. })));
    }

    async fn what_came_back_stays_for_a_while(on) {
        on.resting("c", 2).await;
        on.put_away("c").await;
        on.texts("c").await;
        on.clock.advance(HOUR - Duration::from_secs(1));
        assert!(on.find("c").await.is_none());
        on.clock.advance(Duration::from_secs(1));
        assert!(on.find("c").await.is_some());
    }

    async fn all_who_ask_at_once_get_the_same(on) {
        on.resting("c", 300).await;
        let before = on.blocks("c").await;
        on.put_away("c").await;
        let reads = (0..8).map(|_| {
            let on = on.clone();
            tokio::spawn(async move { on.blocks("c").await })
        });
        for read in join_all(reads).await {
            assert_eq!(read.unwrap(), before);
        }
    }

    async fn an_object_that_is_missing_or_damaged_loses_nothing(on) {
        on.resting("c", 2).await;
        on.resting("d", 2).await;
        let object = on.put_away("c").await.object.digest;
        let other = on.put_away("d").await.object.digest;
        let bytes = async |object| on.objects.get(&place(object)).await.unwrap().bytes().await.unwrap();
        let (good, bad) = (bytes(object).await, bytes(other).await);
        for instead in [None, Some(bad), Some("".into())] {
            match instead {
                Some(bytes) => {
                    on.objects.put(&place(object), bytes.into()).await.unwrap();
                }
                None => on.objects.delete(&place(object)).await.unwrap(),
            }
            let fork = on.store.fork(&conversation("c"), Seq::FIRST, new_conversation("f")).await;
            for failed in [on.store.read_all(&conversation("c")).await.map(|_| ()), fork] {
                match failed {
                    Err(error @ LogError::Archived { .. }) => {
                        let said = error.to_string();
                        assert!(said.contains(&object.to_string()) && said.contains("/c`"), "{said}");
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(on.store.tail(&conversation("c")).await.unwrap().map(Seq::get), Some(2));
        }
        on.objects.put(&place(object), good.into()).await.unwrap();
        assert_eq!(on.texts("c").await, ["c-1", "c-2"]);
        assert_eq!(on.texts("d").await, ["d-1", "d-2"]);
    }
}
