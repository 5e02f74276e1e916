//! Two nodes write, read, fork, claim, delete and archive the same conversations at once, by seeds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use annals_core::ids::Seq;
use annals_store::log::Archive as _;
use annals_store::testing::{Archiving, after, conversation, new_conversation, owner, text_block};
use annals_store::{
    Append, BlockLog as _, BlockLogExt as _, Claims as _, Inbox as _, Lease, LogError, Post, Work,
};
use object_store::memory::InMemory;

use super::node::{HOUR, Node, debian, made, node};

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

const CONVERSATIONS: u64 = 4;

/// Time passes quickly here, and no lease runs out.
const HELD: Duration = Duration::from_secs(10 * 365 * 24 * 3_600);

/// What the tasks of a schedule share.
struct Scene {
    nodes: [Node; 2],
    is_over: AtomicBool,
    archived: AtomicU64,
    refused: AtomicU64,
    read: AtomicU64,
}

/// One conversation as its only writer knows it.
struct Writer {
    scene: Arc<Scene>,
    number: u64,
    /// How often it was made.
    life: u64,
    tail: u64,
    chance: Chance,
}

impl Writer {
    fn name(&self) -> String {
        format!("c{}", self.number)
    }

    fn node(&mut self) -> &Node {
        let of = self.chance.below(2) as usize;
        &self.scene.nodes[of]
    }

    fn grown(&mut self) -> Append {
        let more = 1 + self.chance.below(3);
        let blocks =
            (self.tail + 1..=self.tail + more).map(|n| text_block(n, &format!("{}\0{n}", self.life)));
        let append = after(Seq::try_new(self.tail).ok(), blocks.collect());
        self.tail += more;
        append
    }

    async fn create(&mut self) {
        (self.life, self.tail) = (self.life + 1, 0);
        let new = new_conversation(&self.name());
        self.node().log.create(new).await.unwrap();
    }

    async fn acquire(&mut self) -> Lease {
        let key = conversation(&self.name());
        self.node().log.acquire(&key, &owner("a"), HELD).await.unwrap()
    }

    async fn append(&mut self) {
        let (lease, append) = (self.acquire().await, self.grown());
        let node = self.node();
        node.log.append(&lease, append).await.unwrap();
        node.log.release(&lease).await.unwrap();
    }

    /// Posts, and takes the post in as whoever claims it.
    async fn claim(&mut self) {
        let key = conversation(&self.name());
        let post = Post::new(format!("{}-{}", self.life, self.tail), "prompt", "x");
        let id = self.node().log.post(&key, post).await.unwrap().id();
        let claimed = loop {
            // Another writer's claimant may have got it; it gives back what is not its own.
            let claimed = self.node().log.claim(&owner("a"), HELD, 1).await.unwrap();
            match claimed.into_iter().next() {
                Some(claimed) if *claimed.lease.key() == key => break claimed.lease,
                Some(other) => self.node().log.release(&other.lease).await.unwrap(),
                None => {}
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        let append = self.grown().consuming([id]).work(Work::Done);
        let node = self.node();
        node.log.append(&claimed, append).await.unwrap();
        node.log.release(&claimed).await.unwrap();
    }

    async fn read(&mut self) {
        let (key, life, tail) = (conversation(&self.name()), self.life, self.tail);
        let blocks = self.node().log.read_all(&key).await.unwrap();
        let texts: Vec<String> = blocks
            .iter()
            .map(|block| block.text().unwrap().to_owned())
            .collect();
        assert_eq!(
            texts,
            (1..=tail).map(|n| format!("{life}\0{n}")).collect::<Vec<_>>()
        );
    }

    /// Forks, looks at the fork, and deletes it, so that the other may be archived again.
    async fn fork(&mut self) {
        if self.tail == 0 {
            return;
        }
        let at = Seq::try_new(1 + self.chance.below(self.tail)).unwrap();
        let (key, name) = (conversation(&self.name()), format!("f{}", self.number));
        self.node()
            .log
            .fork(&key, at, new_conversation(&name))
            .await
            .unwrap();
        let fork = conversation(&name);
        assert_eq!(
            self.node().log.read_all(&fork).await.unwrap().len() as u64,
            at.get()
        );
        let lease = self.node().log.acquire(&fork, &owner("a"), HELD).await.unwrap();
        self.node().log.delete(&lease).await.unwrap();
    }

    async fn run(mut self, rounds: u64) {
        self.create().await;
        for _ in 0..rounds {
            match self.chance.below(12) {
                0..4 => self.append().await,
                4 => self.claim().await,
                5..8 => self.read().await,
                8 => self.fork().await,
                9 => {
                    let lease = self.acquire().await;
                    self.node().log.delete(&lease).await.unwrap();
                    self.create().await;
                }
                // Nobody touches it, so that it is archived.
                _ => tokio::time::sleep(Duration::from_millis(3 + self.chance.below(10))).await,
            }
        }
        self.read().await;
    }
}

impl Scene {
    /// Archives whatever rests.
    async fn archive(self: Arc<Self>, of: usize) {
        let log = &self.nodes[of].log;
        while !self.is_over.load(Ordering::SeqCst) {
            for idle in log.idle(HOUR, None, 100).await.unwrap().items {
                let counter = match log.archive(&idle).await.unwrap() {
                    Some(_) => &self.archived,
                    None => &self.refused,
                };
                counter.fetch_add(1, Ordering::Relaxed);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
            // What came back may go again, though not under the hands of whoever asked for it.
            self.nodes[of].clock.advance(HOUR / 8);
        }
    }

    /// Reads somebody else's conversation: its blocks are of one life, numbered without a gap.
    async fn look(self: Arc<Self>, mut chance: Chance) {
        while !self.is_over.load(Ordering::SeqCst) {
            let key = conversation(&format!("c{}", chance.below(CONVERSATIONS)));
            let node = &self.nodes[chance.below(2) as usize];
            match node.log.read(&key, Seq::FIRST, usize::MAX).await {
                Ok(blocks) => {
                    let life = |text: &str| text.split('\0').next().unwrap().to_owned();
                    let lives: Vec<String> = blocks.iter().map(|block| life(block.text().unwrap())).collect();
                    assert!(lives.windows(2).all(|two| two[0] == two[1]), "{lives:?}");
                    let numbers: Vec<u64> = blocks.iter().map(|block| block.seq.get()).collect();
                    assert_eq!(numbers, (1..=blocks.len() as u64).collect::<Vec<_>>());
                    self.read.fetch_add(1, Ordering::Relaxed);
                }
                Err(LogError::NotFound { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            tokio::time::sleep(Duration::from_millis(1 + chance.below(6))).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_at_once_every_reader_sees_what_was_written() {
    let Some(server) = debian() else { return };
    let (mut archived, mut refused, mut read) = (0, 0, 0);
    for seed in 0..6 {
        let name = format!("seed_{seed}");
        let (url, objects, clock) = (
            made(&server, &name).await,
            Arc::new(InMemory::new()),
            Archiving::clock(),
        );
        let scene = Arc::new(Scene {
            nodes: [
                node(&url, objects.clone(), &clock, None).await,
                node(&url, objects.clone(), &clock, None).await,
            ],
            is_over: AtomicBool::default(),
            archived: AtomicU64::default(),
            refused: AtomicU64::default(),
            read: AtomicU64::default(),
        });
        let mut background = Vec::new();
        for of in 0..2 {
            background.push(tokio::spawn(Arc::clone(&scene).archive(of)));
            let chance = Chance(seed * 100 + of as u64);
            background.push(tokio::spawn(Arc::clone(&scene).look(chance)));
        }
        let writers = (0..CONVERSATIONS).map(|number| {
            let writer = Writer {
                scene: Arc::clone(&scene),
                number,
                life: 0,
                tail: 0,
                chance: Chance(seed * 1_000 + number),
            };
            tokio::spawn(writer.run(60))
        });
        for writer in futures::future::join_all(writers).await {
            writer.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
        scene.is_over.store(true, Ordering::SeqCst);
        for task in background {
            task.await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
        archived += scene.archived.load(Ordering::Relaxed);
        refused += scene.refused.load(Ordering::Relaxed);
        read += scene.read.load(Ordering::Relaxed);
        // What is left are the objects of what is archived still, and nothing else is missed.
        clock.advance(100 * HOUR);
        let node = &scene.nodes[0];
        node.artifacts.collect(&*node.log, HOUR).await.unwrap();
        let digests = "SELECT count(DISTINCT digest) FROM annals.archive WHERE digest IS NOT NULL";
        let needed = server.count(&name, digests).await;
        assert_eq!(object_count(&objects).await as i64, needed, "seed {seed}");
        let strays = "SELECT count(*) FROM annals.block b WHERE NOT EXISTS
            (SELECT FROM annals.head h WHERE h.conversation = b.conversation AND b.seq <= h.tail)";
        assert_eq!(server.count(&name, strays).await, 0, "seed {seed}");
    }
    assert!(
        archived > 30 && refused > 5 && read > 100,
        "too little met: {archived} archived, {refused} refused, {read} read"
    );
}

async fn object_count(objects: &InMemory) -> usize {
    use futures::StreamExt as _;
    use object_store::ObjectStore as _;
    objects.list(None).count().await
}
