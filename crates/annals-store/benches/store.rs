//! What the log costs on this disk, beside what the disk itself costs.
//!
//! `cargo bench -p annals-store`. Prints a table with targets. Compare the ratios: absolute figures drift with the
//! machine's load. Figures are the best of several runs.

#![allow(clippy::print_stdout)]

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use annals_core::block::{Block, BlockJson};
use annals_core::ids::{ConversationKey, Seq};
use annals_figures::{Figure, full_or_quick};
use annals_store::testing::{after, conversation, new_conversation, owner, text_block};
use annals_store::{BlockLog, BlockLogExt, Lease, SqliteLog, SqliteOptions};

const KILOBYTE: usize = 1024;
const WRITERS: usize = 64;
const LONG_BLOCKS: u64 = 50_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime");
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    println!("{:<58} {:>14} {:>14}", "what", "figure", "target");
    runtime.block_on(async {
        many_writers(folder.path(), 1).await;
        many_writers(folder.path(), 4).await;
        one_writer(folder.path()).await;
        long_conversation(folder.path()).await;
    });
}

fn runs() -> usize {
    full_or_quick(3, 1)
}

fn row(what: &str, figure: String, target: &str, met: Option<bool>) {
    let verdict = match met {
        Some(true) => "pass",
        Some(false) => "MISS",
        None => "",
    };
    println!("{what:<58} {figure:>14} {target:>14}  {verdict}");
}

fn open(path: &Path) -> SqliteLog {
    SqliteLog::open(path, SqliteOptions::default()).expect("a log")
}

/// A kilobyte of text that differs from block to block.
fn kilobyte(number: u64) -> String {
    let mut text = String::with_capacity(KILOBYTE);
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while text.len() < KILOBYTE {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let word = (state >> 33) as usize % 97 + 2;
        text.extend(std::iter::repeat_n(
            char::from(b'a' + (word % 26) as u8),
            word % 9 + 1,
        ));
        text.push(' ');
    }
    text.truncate(KILOBYTE);
    text
}

async fn begin(log: &SqliteLog, id: &ConversationKey) -> Lease {
    log.create(new_conversation(id.id.as_str()))
        .await
        .expect("created");
    log.acquire(id, &owner("bench"), Duration::from_secs(1_000_000))
        .await
        .expect("acquired")
}

/// Durable blocks a second over many conversations, each waiting for its own appends.
async fn many_writers(folder: &Path, blocks_per_append: u64) {
    const APPENDS: u64 = 60;
    let mut best = 0.0_f64;
    for run in 0..runs() {
        let log = Arc::new(open(&folder.join(format!("many-{blocks_per_append}-{run}.db"))));
        let mut leases = Vec::new();
        for writer in 0..WRITERS {
            leases.push(begin(&log, &conversation(&format!("c{writer}"))).await);
        }
        let begun = Instant::now();
        let writers = leases.into_iter().map(|lease| {
            let log = Arc::clone(&log);
            tokio::spawn(async move {
                let mut tail = None;
                for append in 0..APPENDS {
                    let first = append * blocks_per_append + 1;
                    let blocks = (first..first + blocks_per_append)
                        .map(|n| text_block(n, &kilobyte(n)))
                        .collect();
                    tail = log.append(&lease, after(tail, blocks)).await.expect("appended");
                }
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.expect("a writer");
        }
        let blocks = WRITERS as u64 * APPENDS * blocks_per_append;
        best = best.max(blocks as f64 / begun.elapsed().as_secs_f64());
    }
    let what = format!("durable 1 KB blocks/s, {WRITERS} conversations, {blocks_per_append} an append");
    Figure::new(&what, best, "blocks/s").at_least(10_000.0).tell();
    row(&what, format!("{best:.0}"), ">= 10000", Some(best >= 10_000.0));
}

/// One conversation's append beside a bare write and sync of the same bytes.
async fn one_writer(folder: &Path) {
    const APPENDS: u64 = 300;
    let (mut best_raw, mut best_log) = (Duration::MAX, Duration::MAX);
    for run in 0..runs() {
        let mut file = File::create(folder.join(format!("raw-{run}"))).expect("a file");
        let bytes = kilobyte(1);
        let begun = Instant::now();
        for _ in 0..APPENDS {
            file.write_all(bytes.as_bytes()).expect("written");
            file.sync_data().expect("synced");
        }
        best_raw = best_raw.min(begun.elapsed() / APPENDS as u32);

        let log = open(&folder.join(format!("one-{run}.db")));
        let lease = begin(&log, &conversation("c")).await;
        let mut tail = None;
        let begun = Instant::now();
        for number in 1..=APPENDS {
            let block = text_block(number, &kilobyte(number));
            tail = log
                .append(&lease, after(tail, vec![block]))
                .await
                .expect("appended");
        }
        best_log = best_log.min(begun.elapsed() / APPENDS as u32);
    }
    row("raw 1 KB write + fdatasync", format!("{best_raw:.0?}"), "", None);
    let ratio = best_log.as_secs_f64() / best_raw.as_secs_f64();
    Figure::new(
        "append and sync of one 1 KB block against a bare write and sync",
        ratio,
        "×",
    )
    .at_most(2.0)
    .tell();
    row(
        "one conversation, append of one 1 KB block",
        format!("{best_log:.0?}"),
        "",
        None,
    );
    row(
        "  beside the raw sync",
        format!("{ratio:.2} x"),
        "<= 2 x",
        Some(ratio <= 2.0),
    );
}

/// Opening a long conversation, and the room it takes.
async fn long_conversation(folder: &Path) {
    let path = folder.join("long.db");
    let id = conversation("long");
    let mut payload_bytes = 0_u64;
    {
        let log = open(&path);
        let lease = begin(&log, &id).await;
        let mut tail: Option<Seq> = None;
        for first in (1..=LONG_BLOCKS).step_by(500) {
            let blocks: Vec<Block> = (first..first + 500)
                .map(|n| text_block(n, &kilobyte(n)))
                .collect();
            let json = blocks
                .iter()
                .map(|b| serde_json::to_vec(&BlockJson::from(b)).expect("JSON").len() as u64);
            payload_bytes += json.sum::<u64>();
            tail = log.append(&lease, after(tail, blocks)).await.expect("appended");
        }
    }
    let disk_bytes = fs::metadata(&path).expect("the file").len();
    let ratio = disk_bytes as f64 / payload_bytes as f64;
    Figure::new("bytes on disk per byte of payload", ratio, "×")
        .at_most(1.2)
        .tell();
    row(
        "bytes on disk per byte of payload",
        format!("{ratio:.2}"),
        "<= 1.2",
        Some(ratio <= 1.2),
    );
    let mut best = Duration::MAX;
    for _ in 0..runs() {
        let begun = Instant::now();
        let log = open(&path);
        let blocks = log.read_all(&id).await.expect("read");
        best = best.min(begun.elapsed());
        assert_eq!(blocks.len() as u64, LONG_BLOCKS);
    }
    let what = format!("open a conversation of {LONG_BLOCKS} blocks of 1 KB");
    Figure::new(&what, best.as_secs_f64() * 1e3, "ms")
        .at_most(150.0)
        .tell();
    row(
        &what,
        format!("{best:.0?}"),
        "<= 150ms",
        Some(best <= Duration::from_millis(150)),
    );
}
