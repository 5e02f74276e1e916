//! Subscribers that come, go and come back at any moment, while turns run and processes are killed: each reads every block
//! once, in order, and a text that is being produced is never read wrongly.

mod common;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use annals_core::block::{Block, BlockKind};
use annals_core::ids::{ConversationId, ConversationKey, Scope, Seq, TurnId};
use annals_runtime::{Agent, Delta, Prompt, Update, Worker, WorkerOptions};
use annals_store::{ArtifactStore, BlockLogExt as _, ManualClock, MemoryLog};
use common::{Running, options, script, seqs};
use futures::future::join_all;
use serde_json::{Value, json};

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

const TURNS: usize = 3;
const LEASE: Duration = Duration::from_secs(60);
const WORDS: &str = "one two three four five six seven eight nine ten";

fn steps() -> Value {
    let turn = |n: usize| {
        vec![
            json!({"text": format!("Noting {n}: {WORDS}"), "chunk_ms": 0, "tool_calls": [{"tool": "react.write", "params": {
                "path": format!("f{n}.md"), "channel": "canvas", "content": WORDS, "kind": "file"}}]}),
            json!({"text": format!("Answer {n}: {WORDS}"), "chunk_ms": 0}),
        ]
    };
    Value::Array((0..TURNS).flat_map(turn).collect())
}

/// One subscriber, whatever process it is connected to: all that it keeps is what it has seen.
#[derive(Default)]
struct Client {
    seen: Mutex<Vec<u64>>,
}

impl Client {
    fn last(&self) -> Option<Seq> {
        let seen = self.seen.lock().unwrap();
        seen.last().map(|seq| Seq::try_new(*seq).unwrap())
    }

    /// Reads a few updates, reloads, goes on after the last block it has, for as long as the process lives.
    async fn follow(self: Arc<Self>, agent: Agent, id: ConversationId, mut dice: Dice) {
        loop {
            let Ok(mut subscription) = agent.subscribe(&id, self.last()).await else {
                return;
            };
            let mut texts = HashMap::new();
            for _ in 0..1 + dice.roll(40) {
                match subscription.next().await {
                    Ok(Update::Block(block)) => self.seen.lock().unwrap().push(block.seq.get()),
                    Ok(Update::Delta(delta)) => check_delta(&mut texts, &delta),
                    Ok(_) => {}
                    Err(_) => return,
                }
                if dice.roll(4) == 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
    }
}

type Texts = HashMap<(String, u32, String), String>;

/// A piece of a text is where it says, and no text begins in its middle.
fn check_delta(texts: &mut Texts, delta: &Delta) {
    let place = (
        delta.turn.to_string(),
        delta.step,
        format!("{:?}{:?}", delta.channel, delta.path),
    );
    let text = texts.entry(place).or_default();
    if delta.from == 0 {
        text.clear();
    }
    assert_eq!(text.len(), delta.from, "a piece is where it says");
    text.push_str(&delta.text);
    let is_from_its_start = WORDS.starts_with(text.as_str())
        || "Noting".starts_with(first_word(text))
        || "Answer".starts_with(first_word(text));
    assert!(is_from_its_start, "never a text from its middle: {text}");
}

fn first_word(text: &str) -> &str {
    text.split(' ').next().unwrap_or_default()
}

/// What outlives every process.
struct World {
    clock: Arc<ManualClock>,
    log: Arc<MemoryLog>,
    artifacts: ArtifactStore,
    workspaces: std::path::PathBuf,
    key: ConversationKey,
}

/// One process: everything it does ends when its executor does.
struct Process {
    executor: tokio::runtime::Runtime,
    agent: Agent,
    worker: Option<Worker>,
}

impl World {
    fn blocks(&self, executor: &tokio::runtime::Runtime) -> Vec<Block> {
        // There is no conversation before the first process.
        executor
            .block_on(self.log.read_all(&self.key))
            .unwrap_or_default()
    }

    /// A process whose model goes on where the log says that the last one came to.
    fn start(&self) -> Process {
        let executor = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let mut asked = BTreeMap::<TurnId, u32>::new();
        for block in self.blocks(&executor) {
            let step = asked.entry(block.turn.clone()).or_default();
            *step = (*step).max(block.meta().step.unwrap_or_default());
        }
        let asked: u32 = asked.values().sum();
        let rest = steps().as_array().unwrap()[asked as usize..].to_vec();
        let builder = Agent::builder()
            .model(script(Value::Array(rest)))
            .tools(annals_tools::react::all())
            .log(self.log.clone())
            .artifacts(self.artifacts.clone())
            .workspaces(&self.workspaces)
            .lease_ttl(LEASE);
        let agent = executor.block_on(builder.build()).unwrap();
        Process {
            executor,
            agent,
            worker: None,
        }
    }

    /// Ends a process without a word: nothing is released, and others find out when its lease is over.
    fn kill(&self, process: Process) {
        let Process { executor, worker, .. } = process;
        executor.shutdown_timeout(Duration::from_secs(30));
        // Only now: dropped while its executor lives, it would say that it leaves.
        drop(worker);
        self.clock.advance(LEASE * 2);
    }
}

impl Process {
    /// Takes up what another left, posts what a client that heard nothing would post again, serves subscribers.
    fn work(&mut self, id: &ConversationId, clients: &[Arc<Client>], dice: &mut Dice) {
        let options = WorkerOptions::default().poll(Duration::from_millis(1));
        let runtime = self.agent.runtime();
        let worker = self
            .executor
            .block_on(runtime.worker(self.agent.clone(), options));
        self.worker = Some(worker.unwrap());
        for client in clients {
            let seed = Dice(dice.roll(u64::MAX >> 33));
            let following = client.clone().follow(self.agent.clone(), id.clone(), seed);
            self.executor.spawn(following);
        }
        for n in 0..TURNS {
            let prompt = Prompt {
                client_key: Some(format!("prompt {n}")),
                ..Prompt::from(format!("Go {n}"))
            };
            let handle = self.agent.conversation(id);
            // Killed in the middle of it, the client does not know, and posts it again.
            self.executor.spawn(async move { handle.post(prompt).await });
            if dice.roll(2) == 0 {
                std::thread::yield_now();
            }
        }
    }
}

/// Waits for a condition of the log or of its subscribers.
fn wait_until(seed: u64, what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(
            began.elapsed() < Duration::from_secs(120),
            "seed {seed}: {what} never came"
        );
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Random schedules, each with its own subscribers, reloads and moments at which the process is killed and another takes
/// its place: every subscriber reads every block once and in order, and every turn ends once.
#[test]
fn in_schedules_of_reloads_and_kills_nothing_is_lost_or_repeated() {
    const SCHEDULES: u64 = 1_000;
    /// They mostly wait: for a disk that syncs, for a process to end.
    const AT_ONCE: usize = 8;
    let folder = tempfile::tempdir().unwrap();
    let (next, kills) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|threads| {
        for _ in 0..AT_ONCE {
            threads.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= SCHEDULES {
                        return;
                    }
                    kills.fetch_add(schedule(seed, folder.path()), Ordering::Relaxed);
                }
            });
        }
    });
    let kills = kills.into_inner();
    assert!(kills > SCHEDULES / 2, "only {kills} processes were killed");
}

/// Runs one schedule, and tells how many processes were killed.
fn schedule(seed: u64, folder: &Path) -> u64 {
    let mut dice = Dice(seed);
    let clock = Arc::new(ManualClock::default());
    let world = World {
        log: Arc::new(MemoryLog::with_clock(clock.clone())),
        clock,
        artifacts: ArtifactStore::open(folder.join("artifacts")).unwrap(),
        workspaces: folder.join("workspace"),
        key: ConversationKey::new(
            Scope::default(),
            ConversationId::parse(&format!("c{seed}")).unwrap(),
        ),
    };
    let id = world.key.id.clone();
    let clients: Vec<Arc<Client>> = (0..1 + dice.roll(4)).map(|_| Arc::default()).collect();
    let mut process = world.start();
    process
        .executor
        .block_on(process.agent.create_conversation(&id, None, None))
        .unwrap();
    process.work(&id, &clients, &mut dice);
    let count = |process: &Process| world.blocks(&process.executor).len() as u64;
    let kills = dice.roll(3);
    for _ in 0..kills {
        let goal = count(&process) + 1 + dice.roll(14);
        wait_until(seed, "the next block", || {
            let blocks = world.blocks(&process.executor);
            blocks.len() as u64 >= goal || ends(&blocks) == TURNS
        });
        world.kill(process);
        process = world.start();
        process.work(&id, &clients, &mut dice);
    }
    wait_until(seed, "the end of all turns", || {
        ends(&world.blocks(&process.executor)) == TURNS
    });
    let tail = count(&process);
    for client in &clients {
        wait_until(seed, "the last block", || {
            client.last().is_some_and(|last| last.get() >= tail)
        });
        assert_eq!(
            *client.seen.lock().unwrap(),
            (1..=tail).collect::<Vec<_>>(),
            "seed {seed}"
        );
    }
    check_turns(seed, &world.blocks(&process.executor));
    world.kill(process);
    kills
}

fn ends(blocks: &[Block]) -> usize {
    let ends = blocks
        .iter()
        .filter(|block| block.kind == BlockKind::ReactCompletion);
    ends.count()
}

/// Each prompt is there once, and its turn ended once, with its answer.
fn check_turns(seed: u64, blocks: &[Block]) {
    let texts = |kind: BlockKind| -> BTreeSet<&str> {
        let of_kind = blocks.iter().filter(|block| block.kind == kind);
        let texts: Vec<&str> = of_kind.map(|block| block.text().unwrap()).collect();
        assert_eq!(texts.len(), TURNS, "seed {seed}: {kind:?} {texts:?}");
        texts.into_iter().collect()
    };
    assert_eq!(texts(BlockKind::UserPrompt).len(), TURNS, "seed {seed}");
    assert_eq!(texts(BlockKind::AssistantCompletion).len(), TURNS, "seed {seed}");
    for report in texts(BlockKind::ReactCompletion) {
        assert!(report.contains("\"complete\""), "seed {seed}: {report}");
    }
}

/// The same over HTTP, with connections that break and a server that is replaced in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_http_a_subscriber_goes_on_after_its_last_block_also_on_another_server() {
    let home = tempfile::tempdir().unwrap();
    let agent = async || {
        let builder = Agent::builder()
            .model(script(steps()))
            .tools(annals_tools::react::all());
        builder.home(home.path()).build().await.unwrap()
    };
    let first = Running::serve(agent().await, options(), None).await;
    let c = first.new_conversation().await;
    let follow = async |server: &Running, last: Option<u64>, dice: &mut Dice, ends: u64| {
        let (mut seen, mut last, mut ended) = (Vec::new(), last, 0);
        while ended < ends {
            let mut events = server.events(&c, last).await;
            let stays = 1 + dice.roll(12);
            let mut taken = Vec::new();
            for _ in 0..stays {
                let Some(event) = events.next().await else { break };
                let is_end = event.name == "block" && event.data["type"] == "react.completion";
                taken.push(event);
                if is_end {
                    ended += 1;
                    break;
                }
            }
            seen.extend(seqs(&taken));
            last = seen.last().copied().or(last);
        }
        seen
    };
    let first = Arc::new(first);
    let followers = (0..8).map(|n| {
        let (first, follow) = (first.clone(), &follow);
        async move { follow(&first, None, &mut Dice(n), 1).await }
    });
    let (all, _) = tokio::join!(join_all(followers), first.prompt(&c, "Go"));
    let tail = all[0].last().copied();
    for seen in &all {
        assert_eq!(*seen, (1..=tail.unwrap()).collect::<Vec<_>>());
    }
    first.stop.cancel();
    let second = Running::serve(agent().await, options(), None).await;
    let mut dice = Dice(99);
    let (seen, _) = tokio::join!(follow(&second, tail, &mut dice, 1), second.prompt(&c, "Go on"));
    let end = *seen.last().unwrap();
    assert_eq!(
        seen,
        (tail.unwrap() + 1..=end).collect::<Vec<_>>(),
        "it goes on where the first server ended"
    );
}
