//! What memory search costs: a search over a hundred thousand passages, what following the log adds to an append, and,
//! since the index follows after the answer, what making it costs by itself.
//!
//! `cargo bench -p annals-store --bench recall`. Prints a table with targets. `ANNALS_BENCH_QUICK` makes do with a tenth.

#![allow(clippy::print_stdout)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use annals_core::block::{Block, BlockKind, NewBlock};
use annals_core::ids::{Scope, Seq, TurnId};
use annals_core::path::LogicalPath;
use annals_embed::StaticTable;
use annals_figures::{Figure, full_or_quick};
use annals_store::recall::{Query, Within};
use annals_store::testing::{after, at, conversation, new_conversation, owner};
use annals_store::{BlockLog, BlockLogExt as _, Recall as _, SqliteLog, SqliteOptions};

const CONVERSATIONS: usize = 100;
/// Appends are timed in this many parts.
const PARTS: usize = 10;
/// Blocks of one append, as a round of a turn has.
const APPEND_BLOCKS: usize = 4;
const SEARCHES: usize = 300;

/// Words as they are in texts: the n-th occurs about 1/n as often as the first.
struct Words {
    words: Vec<String>,
    sums: Vec<f64>,
    state: u64,
}

const COMMON: &str = "the of and to a in is that for it was on are with as be this have from or had by not but what all were \
    when we there can an your which their said if do will each about how up out them then she many some so these would \
    other into has more her two like him see time could no make than first been its who now people my made over did down \
    only way find use may water long little very after words called just where most know";

impl Words {
    fn new() -> Self {
        let common = COMMON.split_whitespace().map(str::to_owned);
        let made = (0..40_000_u64).map(|number| {
            let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7;
            let mut word = String::new();
            for _ in 0..2 + number % 3 {
                word.push(char::from(b"bcdfglmnprstvz"[(state % 14) as usize]));
                word.push(char::from(b"aeiou"[(state / 14 % 5) as usize]));
                state /= 70;
            }
            word
        });
        let words: Vec<String> = common.chain(made).collect();
        let mut sum = 0.0;
        let sums = (1..=words.len()).map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        });
        let sums = sums.collect();
        Words {
            words,
            sums,
            state: 7,
        }
    }

    fn next(&mut self) -> u64 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.state >> 11
    }

    fn word(&mut self) -> &str {
        let drawn = self.next() as f64 / (1_u64 << 53) as f64 * self.sums.last().copied().unwrap_or(1.0);
        let at = self.sums.partition_point(|sum| *sum < drawn);
        &self.words[at.min(self.words.len() - 1)]
    }

    /// A word whose rank lies in `from..from + width`.
    fn ranked(&mut self, from: usize, width: u64) -> String {
        let rank = from + (self.next() % width) as usize;
        self.words[rank].clone()
    }

    fn several(&mut self, count: usize, from: usize, width: u64) -> String {
        let words: Vec<String> = (0..count).map(|_| self.ranked(from, width)).collect();
        words.join(" ")
    }

    fn text(&mut self, count: usize) -> String {
        let mut text = String::new();
        for _ in 0..count {
            text.push_str(self.word());
            text.push(' ');
        }
        text
    }
}

fn main() {
    let passages = full_or_quick(100_000, 10_000);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    println!("{:<58} {:>14} {:>14}", "what", "figure", "target");
    runtime.block_on(run(folder.path(), passages));
}

fn row(what: &str, figure: String, target: &str, met: Option<bool>) {
    let verdict = match met {
        Some(true) => "pass",
        Some(false) => "MISS",
        None => "",
    };
    println!("{what:<58} {figure:>14} {target:>14}  {verdict}");
}

async fn run(folder: &Path, passages: usize) {
    embedding();
    many_writers(folder).await;
    let bare = SqliteLog::open(folder.join("bare.db"), SqliteOptions::default()).expect("a log");
    let options = SqliteOptions::default().recall(StaticTable::embedder());
    let log = SqliteLog::open(folder.join("annals.db"), options).expect("a log");
    let [alone, followed] = fill([&bare, &log], passages).await;
    drop(bare);
    tell_appends(&alone, &followed, passages);
    searches(&log, passages).await;
    let (bytes, rows) = log.recall().expect("memory").resident();
    assert_eq!(rows, passages, "one passage a block");
    let each = bytes as f64 / rows as f64;
    Figure::new("memory of memory search, a passage", each, "bytes")
        .at_most(400.0)
        .tell();
    row(
        "memory, a passage",
        format!("{each:.0} bytes"),
        "400 bytes",
        Some(each <= 400.0),
    );
    drop(log);
    let size = |name: &str| std::fs::metadata(folder.join(name)).map_or(0, |file| file.len()) as f64;
    let each = (size("annals.db") - size("bare.db")) / passages as f64;
    row(
        "disk, a passage, words and vectors",
        format!("{each:.0} bytes"),
        "",
        None,
    );
    let each = size("bare.db") / passages as f64;
    row("disk, its block in the log", format!("{each:.0} bytes"), "", None);
    let options = SqliteOptions::default().recall(StaticTable::embedder());
    let log = SqliteLog::open(folder.join("annals.db"), options).expect("a log");
    searches_after_appends(&log, passages).await;
    let began = Instant::now();
    let made = log.recall().expect("memory").reindex(|_| true).await;
    let blocks = made.expect("rebuilt").blocks;
    let each = began.elapsed().as_secs_f64() * 1e6 / blocks as f64;
    Figure::new("rebuilding the index of memory search, a block", each, "µs")
        .at_most(100.0)
        .tell();
    row(
        "rebuilding the index, a block",
        format!("{each:.1} µs"),
        "100 µs",
        Some(each <= 100.0),
    );
}

fn embedding() {
    let table = StaticTable::embedder();
    let mut words = Words::new();
    let began = Instant::now();
    table.at_once("the first one reads the vocabulary");
    row(
        "reading the vocabulary, once",
        format!("{:.1} ms", began.elapsed().as_secs_f64() * 1e3),
        "",
        None,
    );
    for count in [8, 100] {
        let texts: Vec<String> = (0..2_000).map(|_| words.text(count)).collect();
        let began = Instant::now();
        for text in &texts {
            std::hint::black_box(table.at_once(text));
        }
        row(
            &format!("vector of {count} words"),
            micros(began.elapsed(), texts.len()),
            "",
            None,
        );
    }
}

/// What the index adds to an append.
fn tell_appends(alone: &Appends, followed: &Appends, passages: usize) {
    let longest = followed.longest;
    let part = passages / PARTS;
    let micros_of = |time: Duration| time.as_secs_f64() * 1e6;
    let mut beside: Vec<f64> = std::iter::zip(&followed.parts, &alone.parts)
        .map(|(followed, alone)| (micros_of(*followed) - micros_of(*alone)) / part as f64)
        .collect();
    let on_the_whole = beside.iter().sum::<f64>() / PARTS as f64;
    beside.sort_unstable_by(f64::total_cmp);
    // One hiccup of the disk is longer than all indexing of its part.
    let beside = f64::midpoint(beside[(PARTS - 1) / 2], beside[PARTS / 2]);
    let alone = alone.parts.iter().sum();
    row("append of 4 blocks, a block", micros(alone, passages), "", None);
    Figure::new(
        "indexing for memory search beside the append, a block",
        beside,
        "µs",
    )
    .at_most(100.0)
    .tell();
    row(
        "indexing beside it, a block, median of ten parts",
        format!("{beside:.1} µs"),
        "100 µs",
        Some(beside <= 100.0),
    );
    row(
        "indexing beside it, a block, on the whole",
        format!("{on_the_whole:.1} µs"),
        "",
        None,
    );
    let longest = longest.as_secs_f64() * 1e3;
    row(
        "longest append with the index",
        format!("{longest:.1} ms"),
        "",
        None,
    );
}

/// Blocks a second of many conversations at once, without memory search and with it, in turns.
async fn many_writers(folder: &Path) {
    const WRITERS: usize = 64;
    const APPENDS: usize = 15;
    let mut best = [0.0_f64; 2];
    for run in 0..full_or_quick(4, 1) {
        for (with, best) in best.iter_mut().enumerate() {
            let options = match with {
                0 => SqliteOptions::default(),
                _ => SqliteOptions::default().recall(StaticTable::embedder()),
            };
            let path = folder.join(format!("many-{run}-{with}.db"));
            let log = Arc::new(SqliteLog::open(path, options).expect("a log"));
            let mut writers = Vec::new();
            for number in 0..WRITERS {
                let id = conversation(&format!("c{number}"));
                log.create(new_conversation(id.id.as_str()))
                    .await
                    .expect("created");
                let lease = log
                    .acquire(&id, &owner("bench"), Duration::from_secs(1 << 30))
                    .await;
                let mut words = Words::new();
                words.state = number as u64;
                let blocks: Vec<Block> = (0..APPENDS * APPEND_BLOCKS)
                    .map(|at| block(&mut words, at))
                    .collect();
                writers.push((lease.expect("acquired"), blocks));
            }
            let began = Instant::now();
            let writers = writers.into_iter().map(|(lease, blocks)| {
                let log = Arc::clone(&log);
                tokio::spawn(async move {
                    let mut tail = None;
                    for blocks in blocks.chunks(APPEND_BLOCKS) {
                        tail = log
                            .append(&lease, after(tail, blocks.to_vec()))
                            .await
                            .expect("appended");
                    }
                })
            });
            for writer in writers.collect::<Vec<_>>() {
                writer.await.expect("a writer");
            }
            // With what the index does after the last answer.
            drop(log);
            *best = best.max((WRITERS * APPENDS * APPEND_BLOCKS) as f64 / began.elapsed().as_secs_f64());
        }
    }
    for (what, best) in ["without memory search", "with memory search"]
        .into_iter()
        .zip(best)
    {
        let what = format!("durable blocks/s, {WRITERS} conversations, {what}");
        Figure::new(&what, best, "blocks/s").tell();
        row(&what, format!("{best:.0}"), "", None);
    }
}

fn micros(time: Duration, count: usize) -> String {
    format!("{:.1} µs", time.as_secs_f64() * 1e6 / count as f64)
}

/// How long the appends to a log took: those of each part of the conversations together, and the longest of them.
#[derive(Clone, Copy, Default)]
struct Appends {
    parts: [Duration; PARTS],
    longest: Duration,
}

/// Appends the same passages to all these logs, round by round and in turns, so that the disk's moods meet all alike.
async fn fill<const N: usize>(logs: [&SqliteLog; N], passages: usize) -> [Appends; N] {
    let mut words = Words::new();
    let mut took = [Appends::default(); N];
    for number in 0..CONVERSATIONS {
        let id = conversation(&format!("c{number}"));
        let mut leases = Vec::new();
        for log in logs {
            log.create(new_conversation(id.id.as_str()))
                .await
                .expect("created");
            let lease = log
                .acquire(&id, &owner("bench"), Duration::from_secs(1 << 30))
                .await;
            leases.push(lease.expect("acquired"));
        }
        let mut tail = None;
        for start in (0..passages / CONVERSATIONS).step_by(APPEND_BLOCKS) {
            let blocks: Vec<Block> = (start..start + APPEND_BLOCKS)
                .map(|at| block(&mut words, at))
                .collect();
            let mut appended = None;
            for ((log, lease), took) in logs.iter().zip(&leases).zip(&mut took) {
                let blocks = blocks.clone();
                let began = Instant::now();
                appended = log.append(lease, after(tail, blocks)).await.expect("appended");
                let one = began.elapsed();
                took.parts[number * PARTS / CONVERSATIONS] += one;
                took.longest = took.longest.max(one);
            }
            tail = appended;
        }
    }
    took
}

fn block(words: &mut Words, number: usize) -> Block {
    let turn = TurnId::parse(&format!("turn_{}", number / 10 + 1)).expect("a turn");
    let (kind, path) = match number % 2 {
        0 => (BlockKind::UserPrompt, LogicalPath::user_prompt(&turn)),
        _ => (
            BlockKind::AssistantCompletion,
            LogicalPath::assistant_completion(&turn),
        ),
    };
    let count = 20 + words.next() as usize % 60;
    let new = NewBlock::new(kind, &turn, path).text("text/plain", words.text(count));
    Block {
        seq: Seq::try_new(number as u64 + 1).expect("from one"),
        kind: new.kind,
        author: new.author,
        turn: new.turn,
        ts: at(number as i64),
        mime: new.mime,
        path: new.path,
        body: new.body,
        meta: None,
        tokens: 100,
    }
}

/// Queries of several kinds, each with its name.
fn queries() -> Vec<(&'static str, Vec<String>)> {
    let mut words = Words::new();
    words.state = 99;
    let mut of = |make: fn(&mut Words) -> String| (0..SEARCHES).map(|_| make(&mut words)).collect();
    vec![
        (
            "as people ask",
            of(|words| words.text(7) + &words.ranked(2_000, 30_000)),
        ),
        ("common words only", of(|words| words.several(6, 0, 90))),
        ("often used words", of(|words| words.several(4, 110, 300))),
        ("rare words", of(|words| words.several(2, 2_000, 30_000))),
        (
            "misspelt words",
            of(|words| words.ranked(2_000, 30_000) + "x " + &words.text(3)),
        ),
    ]
}

async fn searches(log: &SqliteLog, passages: usize) {
    let recall = log.recall().expect("memory");
    let kinds = queries();
    for (where_, within) in [
        ("scope", Within::Scope),
        ("conversation", Within::Conversation(conversation("c7").id)),
    ] {
        for (kind, queries) in &kinds {
            let mut times = Vec::new();
            for (at_query, text) in queries.iter().enumerate() {
                let query = Query {
                    within: within.clone(),
                    ..Query::new(Scope::default(), conversation("c7").id, text.clone(), at(100_000))
                };
                let began = Instant::now();
                let found = recall.search(query).await.expect("searched");
                if at_query >= 5 {
                    times.push(began.elapsed()); // the first ones warm up
                }
                assert!(found.shortfall.is_none());
            }
            let what = format!("search {passages} passages, {where_}, {kind}");
            tell_searches(&what, times);
        }
    }
}

/// The median and the 95th percentile, in milliseconds.
fn shares(mut times: Vec<Duration>) -> [f64; 2] {
    times.sort_unstable();
    [50, 95].map(|share| times[times.len() * share / 100].as_secs_f64() * 1e3)
}

fn tell_searches(what: &str, times: Vec<Duration>) {
    let [p50, p95] = shares(times);
    Figure::new(format!("memory {what}, median"), p50, "ms")
        .at_most(10.0)
        .tell();
    Figure::new(format!("memory {what}, 95th of 100"), p95, "ms")
        .at_most(20.0)
        .tell();
    row(
        &format!("{what}, p50"),
        format!("{p50:.2} ms"),
        "10 ms",
        Some(p50 <= 10.0),
    );
    row(
        &format!("{what}, p95"),
        format!("{p95:.2} ms"),
        "20 ms",
        Some(p95 <= 20.0),
    );
}

/// Searches that find the index behind the log by a few blocks, as those of a turn do.
async fn searches_after_appends(log: &SqliteLog, passages: usize) {
    const APPENDS: usize = 8;
    let recall = log.recall().expect("memory");
    let id = conversation("c7");
    let lease = log
        .acquire(&id, &owner("bench"), Duration::from_secs(1 << 30))
        .await;
    let lease = lease.expect("acquired");
    let mut words = Words::new();
    words.state = 11;
    let mut tail = log.tail(&id).await.expect("a tail");
    let mut times = Vec::new();
    for search in 0..SEARCHES / 5 {
        for _ in 0..search % APPENDS + 1 {
            let first = tail.map_or(0, |tail| tail.get() as usize);
            let blocks = (first..first + APPEND_BLOCKS)
                .map(|at| block(&mut words, at))
                .collect();
            tail = log.append(&lease, after(tail, blocks)).await.expect("appended");
        }
        let query = Query {
            within: Within::Scope,
            ..Query::new(Scope::default(), id.id.clone(), words.text(8), at(100_000))
        };
        let began = Instant::now();
        recall.search(query).await.expect("searched");
        times.push(began.elapsed());
    }
    let [p50, p95] = shares(times);
    let what = format!("search {passages} passages, scope, after appends");
    for (share, ms) in [("median", p50), ("95th of 100", p95)] {
        Figure::new(format!("memory {what}, {share}"), ms, "ms").tell();
        row(&format!("{what}, {share}"), format!("{ms:.2} ms"), "", None);
    }
}
