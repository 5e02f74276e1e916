//! `cargo xtask bench serve`: the HTTP server under load, beside the in-memory server of LangGraph.
//!
//! Told are turns a second of both, in turns; what the server adds to the model's time with a thousand turns in flight,
//! started at a fixed rate; and the memory of ten thousand subscribers to whom nothing happens.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use annals_requirements::installed;
use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::{Scratch, machine, ours};
use crate::flags::Flags;
use crate::process::{self, Echo};
use crate::repository::root;

/// What a workload may take.
const LIMIT: Duration = Duration::from_secs(900);
/// How often the two servers take turns.
const RUNS: usize = 3;

struct Sizes {
    turns: usize,
    peer_turns: usize,
    in_flight: usize,
    idle: usize,
}

/// Runs what was asked for.
pub(super) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let mut flags = Flags::new(arguments);
    let (is_quick, program) = (flags.switch("--quick"), flags.value("--program")?);
    flags.done()?;
    let sizes = match is_quick {
        true => Sizes {
            turns: 500,
            peer_turns: 100,
            in_flight: 2_000,
            idle: 500,
        },
        false => Sizes {
            turns: 5_000,
            peer_turns: 500,
            in_flight: 6_000,
            idle: 10_000,
        },
    };
    let program = match program {
        Some(program) => PathBuf::from(program),
        None => ours()?.program,
    };
    let scratch = Scratch::new()?;
    for (name, value) in machine::facts() {
        println!("{name}: {value}");
    }
    let ours = |workload: &str, n: usize| {
        let mut command = Command::new(&program);
        command
            .arg(workload)
            .arg(n.to_string())
            .arg(folder(&scratch.folder, workload)?);
        figures(command)
    };
    for _ in 0..RUNS {
        let figures = ours("serve-turns", sizes.turns)?;
        println!(
            "annals: {} turns/s, {}",
            rate(sizes.turns, &figures),
            latencies(&figures)
        );
        match langgraph(&scratch.folder, sizes.peer_turns)? {
            Some(figures) => println!(
                "langgraph: {} turns/s, {}",
                rate(sizes.peer_turns, &figures),
                latencies(&figures)
            ),
            None => println!("langgraph: not installed; `cargo xtask setup --packages langgraph-server`"),
        }
    }
    let figures = ours("serve-in-flight", sizes.in_flight)?;
    let most = figures["in_flight"].as_u64().unwrap_or_default();
    let rate = figures["started_per_second"].as_u64().unwrap_or_default();
    println!(
        "{most} turns in flight, {rate} started a second, half of the highest rate; added to the model's time: {}",
        latencies(&figures)
    );
    let figures = ours("serve-idle", sizes.idle)?;
    let bytes = figures["rss_bytes"].as_u64().unwrap_or_default();
    println!(
        "{} idle subscribers: {} bytes each",
        sizes.idle,
        bytes / sizes.idle as u64
    );
    Ok(())
}

/// A new folder of one workload.
fn folder(scratch: &Path, workload: &str) -> anyhow::Result<PathBuf> {
    let folder = scratch.join(workload);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn langgraph(scratch: &Path, n: usize) -> anyhow::Result<Option<Value>> {
    let Some(set) = installed("langgraph-server") else {
        return Ok(None);
    };
    let mut command = set.script(&root().join("bench/peers/serve_langgraph.py"));
    command.arg(n.to_string()).arg(folder(scratch, "langgraph")?);
    figures(command).map(Some)
}

/// The figures that a workload prints last.
fn figures(command: Command) -> anyhow::Result<Value> {
    let ended = process::run(command, LIMIT, Echo::Kept)?;
    ensure!(ended.ended_well(), "a workload failed: {}", ended.last_words());
    let last = ended.output.last().context("a workload said nothing")?;
    serde_json::from_str(last).context("a workload said no figures")
}

fn rate(n: usize, figures: &Value) -> u64 {
    let wall = figures["wall_ns"].as_u64().unwrap_or(u64::MAX).max(1);
    n as u64 * 1_000_000_000 / wall
}

fn latencies(figures: &Value) -> String {
    let millis = |name: &str| figures[name].as_u64().unwrap_or_default() as f64 / 1e6;
    let cpu = figures["cpu_ns"].as_u64().unwrap_or_default() as f64 / 1e9;
    format!(
        "p50 {:.1} ms, p95 {:.1} ms, {cpu:.1} s of processor time",
        millis("p50_ns"),
        millis("p95_ns")
    )
}
