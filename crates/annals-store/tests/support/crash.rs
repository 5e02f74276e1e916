//! A writer that is killed again and again, and the check that nothing it was told is lost.
//!
//! Every block, artifact and file is a function of its conversation and number, so the judge knows what must be
//! there without having been told. The index of memory search is judged by its own rebuild.

#[path = "stage.rs"]
mod stage;

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use annals_core::block::{Blob, Block, BlockKind, Body};
use annals_core::ids::Seq;
use annals_embed::StaticTable;
use annals_store::failpoint;
use annals_store::testing::{after, conversation, new_conversation, owner, text_block};
use annals_store::{BlockLog, BlockLogExt, Home, LogError, SqliteLog, SqliteOptions, Workspace};

/// Conversations that the writer appends to at once.
const CONVERSATIONS: usize = 4;
/// The writer ends by itself after this many appends to each.
const APPENDS: u64 = 25;
/// Every block whose number is a multiple of this names an artifact.
const ARTIFACT_EVERY: u64 = 5;
/// Every block whose number is a multiple of this is remembered.
const PROMPT_EVERY: u64 = 2;
/// The index of memory search follows a few passages behind the log.
const LAG_MAX_PASSAGES: usize = 4;

/// A small generator: one seed, the same run.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

fn name(index: usize) -> String {
    format!("c{index}")
}

fn content(name: &str, number: u64) -> String {
    let length = 20 + Rng(number ^ name.len() as u64).below(3_000) as usize;
    let mut text = format!("{name}-{number} ");
    while text.len() < length {
        text.push_str(&text.len().to_string());
    }
    text
}

fn artifact(name: &str, number: u64) -> Vec<u8> {
    content(name, number).into_bytes().repeat(7)
}

/// The block that must stand at this place.
pub(crate) fn expected(name: &str, number: u64) -> Block {
    let mut block = text_block(number, &content(name, number));
    if number.is_multiple_of(PROMPT_EVERY) {
        block.kind = BlockKind::UserPrompt;
    }
    if number.is_multiple_of(ARTIFACT_EVERY) {
        block.body = Body::from(Blob::of(&artifact(name, number)));
    }
    block
}

pub(crate) fn remembering() -> SqliteOptions {
    SqliteOptions::default()
        .recall(StaticTable::embedder())
        .lag_max_passages(LAG_MAX_PASSAGES)
}

/// Appends to all conversations at once, and says so only of what the log acknowledged.
pub(crate) fn write(home: &Path, seed: u64) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let home = Home::new(home);
    runtime.block_on(async {
        let log = Arc::new(home.open_log(remembering()).unwrap());
        let artifacts = home.open_artifacts().unwrap();
        let out = Arc::new(Mutex::new(std::io::stdout()));
        let mut writers = Vec::new();
        for index in 0..CONVERSATIONS {
            let (log, artifacts, home, out) = (
                Arc::clone(&log),
                artifacts.clone(),
                home.clone(),
                Arc::clone(&out),
            );
            let mut rng = Rng(seed ^ (index as u64) << 32);
            writers.push(tokio::spawn(async move {
                let name = name(index);
                let id = conversation(&name);
                match log.create(new_conversation(&name)).await {
                    Ok(()) | Err(LogError::Exists { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
                // The last writer was killed and its lease never expires: it must be known to be gone.
                let lease = log
                    .acquire(&id, &owner("writer"), Duration::from_secs(1 << 30))
                    .await
                    .unwrap();
                let workspace = Workspace::open(home.workspace_path(&id)).unwrap();
                let mut tail = log.tail(&id).await.unwrap();
                for _ in 0..APPENDS {
                    let first = tail.map_or(1, |tail: Seq| tail.get() + 1);
                    let blocks: Vec<Block> = (first..=first + rng.below(4))
                        .map(|number| expected(&name, number))
                        .collect();
                    for block in blocks.iter().filter(|block| block.blob().is_some()) {
                        artifacts.put(artifact(&name, block.seq.get())).await.unwrap();
                    }
                    workspace
                        .write(&file(), content(&name, first).as_bytes())
                        .unwrap();
                    let last = log.append(&lease, after(tail, blocks)).await.unwrap();
                    writeln!(out.lock().unwrap(), "ACK {name} {}", last.unwrap()).unwrap();
                    tail = last;
                }
            }));
        }
        for writer in writers {
            writer.await.unwrap();
        }
    });
}

fn file() -> annals_core::path::PhysicalPath {
    annals_core::path::PhysicalPath::parse("turn_1/files/state.txt").unwrap()
}

/// How a writer meets its end.
#[derive(Clone, Debug)]
pub(crate) enum End {
    /// Killed from outside after it has spoken this many times.
    After(u64),
    /// Killed at a named point, when it passes it for the n-th time.
    At(&'static str, u64),
}

/// What many deaths have shown.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) kills: u64,
    pub(crate) acknowledged: u64,
    pub(crate) points: HashMap<&'static str, u64>,
}

/// Kills `kills` writers, each third at random and the others at each named point in turn, and judges the home after each.
pub(crate) fn run(kills: u64, seed: u64, writer: impl Fn(&Path, u64) -> Command) -> Report {
    let mut rng = Rng(seed);
    let mut report = Report::default();
    let mut home = tempfile::tempdir().unwrap();
    let mut acknowledged = HashMap::new();
    while report.kills < kills {
        // A home grows with every writer; begin again now and then.
        if report.kills % 10 == 9 {
            home = tempfile::tempdir().unwrap();
            acknowledged.clear();
        }
        let end = match report.kills % 3 {
            0 => End::After(rng.below(60)),
            rest => {
                let nth = (report.kills / 3 * 2 + rest - 1) as usize;
                End::At(failpoint::NAMES[nth % failpoint::NAMES.len()], 1 + rng.below(10))
            }
        };
        let before: u64 = acknowledged.values().sum();
        let killed = kill_one(writer(home.path(), rng.next()), &end, &mut acknowledged);
        judge(home.path(), &acknowledged, &end);
        if let (End::At(point, _), true) = (&end, killed) {
            *report.points.entry(point).or_default() += 1;
        }
        report.kills += 1;
        report.acknowledged += acknowledged.values().sum::<u64>() - before;
    }
    report
}

/// Runs a writer to its end; true if it was killed rather than done.
fn kill_one(mut command: Command, end: &End, acknowledged: &mut HashMap<String, u64>) -> bool {
    if let End::At(point, count) = end {
        command.env("ANNALS_FAILPOINT", format!("{point}:{count}"));
    }
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut spoken = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let Ok(line) = line else { break };
        let mut words = line.split(' ');
        if words.next() != Some("ACK") {
            continue;
        }
        let (Some(name), Some(Ok(last))) = (words.next(), words.next().map(str::parse)) else {
            continue;
        };
        acknowledged.insert(name.to_owned(), last);
        spoken += 1;
        if matches!(end, End::After(count) if spoken > *count) {
            child.kill().unwrap();
        }
    }
    let status = child.wait().unwrap();
    use std::os::unix::process::ExitStatusExt as _;
    let killed = status.signal() == Some(9);
    assert!(
        killed || status.success(),
        "the writer failed by itself: {status} ({end:?})"
    );
    killed
}

/// Reopens the home and looks at everything.
fn judge(home: &Path, acknowledged: &HashMap<String, u64>, end: &End) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let home = Home::new(home);
    runtime.block_on(async {
        let log = home
            .open_log(remembering())
            .unwrap_or_else(|e| panic!("reopens after {end:?}: {e}"));
        let artifacts = home.open_artifacts().unwrap();
        for index in 0..CONVERSATIONS {
            let name = name(index);
            let blocks = match log.read_all(&conversation(&name)).await {
                Ok(blocks) => blocks,
                Err(LogError::NotFound { .. }) if !acknowledged.contains_key(&name) => continue,
                Err(error) => panic!("{name} after {end:?}: {error}"),
            };
            let promised = acknowledged.get(&name).copied().unwrap_or(0);
            let found = blocks.len() as u64;
            assert!(
                found >= promised,
                "{name}: {promised} blocks were acknowledged, {found} are there ({end:?})"
            );
            for (block, number) in blocks.iter().zip(1..) {
                assert_eq!(*block, expected(&name, number), "a torn block after {end:?}");
                if let Some(blob) = block.blob() {
                    let bytes = artifacts
                        .get(&blob.digest)
                        .await
                        .unwrap_or_else(|e| panic!("{e} ({end:?})"));
                    assert_eq!(bytes, artifact(&name, number));
                }
            }
            let workspace = Workspace::open(home.workspace_path(&conversation(&name))).unwrap();
            if let Ok(bytes) = workspace.read(&file(), u64::MAX) {
                let text = String::from_utf8(bytes).unwrap();
                let number = text
                    .split(['-', ' '])
                    .nth(1)
                    .and_then(|n| n.parse().ok())
                    .unwrap();
                assert_eq!(text, content(&name, number), "a torn file after {end:?}");
            }
        }
        judge_index(&home.log_path(), &log, &format!("{end:?}")).await;
        let many = acknowledged
            .values()
            .any(|last| *last > PROMPT_EVERY * ARTIFACT_EVERY);
        let index = stage::dump(&home.log_path());
        assert!(
            !many || index.contains("passage "),
            "nothing is remembered after {end:?}"
        );
    });
}

/// An index may end earlier than the log, but what it has is what it must have; brought up to the log, it is its rebuild.
pub(crate) async fn judge_index(path: &Path, log: &SqliteLog, end: &str) {
    let left = stage::dump(path);
    let recall = log.recall().expect("opened with memory search");
    recall.catch_up().await.unwrap();
    let followed = stage::dump(path);
    // A source says how far it is, all others say what there is.
    let known: HashSet<&str> = followed.lines().collect();
    let strange = left
        .lines()
        .find(|line| !line.starts_with("source ") && !known.contains(line));
    assert_eq!(strange, None, "the index has what the log has not after {end}");
    recall.reindex(|_| true).await.unwrap();
    assert_eq!(
        followed,
        stage::dump(path),
        "the index is not its rebuild after {end}"
    );
}
