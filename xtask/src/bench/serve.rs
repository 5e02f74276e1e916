//! `cargo xtask bench serve`: the HTTP server under load, beside the in-memory server of LangGraph.
//!
//! Told are turns a second of both, in turns; what the server adds to the model's time with a thousand turns in flight,
//! started at a fixed rate; how soon subscribers have a block; and the memory of ten thousand of them to whom nothing happens.
//! `--json FILE` keeps the figures with their targets.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use annals_requirements::installed;
use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::run::{Figure, Run};
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
    watched: usize,
}

const FULL: Sizes = Sizes {
    turns: 5_000,
    peer_turns: 500,
    in_flight: 6_000,
    idle: 10_000,
    watched: 1_000,
};
const QUICK: Sizes = Sizes {
    turns: 500,
    peer_turns: 100,
    in_flight: 2_000,
    idle: 500,
    watched: 200,
};

/// Runs what was asked for.
pub(super) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let mut flags = Flags::new(arguments);
    let (is_quick, program) = (flags.switch("--quick"), flags.value("--program")?);
    let json = flags.value("--json")?;
    flags.done()?;
    let bench = Bench {
        program: match program {
            Some(program) => PathBuf::from(program),
            None => ours()?.program,
        },
        scratch: Scratch::new()?,
        sizes: if is_quick { QUICK } else { FULL },
    };
    let machine = machine::facts();
    for (name, value) in &machine {
        println!("{name}: {value}");
    }
    let mut figures = bench.turns()?;
    figures.extend(bench.in_flight()?);
    figures.extend(bench.blocks()?);
    figures.push(bench.idle()?);
    if let Some(file) = json {
        let run = Run {
            is_quick,
            machine,
            figures,
            measured: Vec::new(),
        };
        std::fs::write(&file, run.to_text()?).with_context(|| format!("cannot write `{file}`"))?;
        println!("written to {file}");
    }
    Ok(())
}

/// The program to measure, and how much of it.
struct Bench {
    program: PathBuf,
    scratch: Scratch,
    sizes: Sizes,
}

impl Bench {
    fn ours(&self, workload: &str, n: usize) -> anyhow::Result<Value> {
        let mut command = Command::new(&self.program);
        command
            .arg(workload)
            .arg(n.to_string())
            .arg(folder(&self.scratch.folder, workload)?);
        figures(command)
    }

    /// Turns a second of both servers, the best of their runs.
    fn turns(&self) -> anyhow::Result<Vec<Figure>> {
        let (mut ours, mut peers) = (0, 0);
        for _ in 0..RUNS {
            let figures = self.ours("serve-turns", self.sizes.turns)?;
            let found = rate(self.sizes.turns, &figures);
            ours = ours.max(found);
            println!("annals: {found} turns/s, {}", latencies(&figures));
            match langgraph(&self.scratch.folder, self.sizes.peer_turns)? {
                Some(figures) => {
                    let found = rate(self.sizes.peer_turns, &figures);
                    peers = peers.max(found);
                    println!("langgraph: {found} turns/s, {}", latencies(&figures));
                }
                None => println!("langgraph: not installed; `cargo xtask setup --packages langgraph-server`"),
            }
        }
        let mut told = vec![figure(
            "turns of three model calls over HTTP",
            ours as f64,
            "turns/s",
        )];
        if peers > 0 {
            let against = figure(
                "turns over HTTP against LangGraph's server",
                ours as f64 / peers as f64,
                "×",
            );
            told.push(Figure {
                at_least: Some(20.0),
                ..against
            });
        }
        Ok(told)
    }

    fn in_flight(&self) -> anyhow::Result<[Figure; 2]> {
        let figures = self.ours("serve-in-flight", self.sizes.in_flight)?;
        let most = figures["in_flight"].as_u64().unwrap_or_default();
        let rate = figures["started_per_second"].as_u64().unwrap_or_default();
        println!(
            "{most} turns in flight, {rate} started a second, half of the highest rate; added to the model's time: {}",
            latencies(&figures)
        );
        let name = |share: &str| format!("added to the model's time, 1,000 turns in flight, {share}");
        let [p50, p95] = shares(&figures);
        Ok([
            figure(&name("p50"), p50, "ms"),
            Figure {
                at_most: Some(5.0),
                ..figure(&name("p95"), p95, "ms")
            },
        ])
    }

    fn blocks(&self) -> anyhow::Result<[Figure; 2]> {
        let figures = self.ours("serve-blocks", self.sizes.watched)?;
        println!(
            "block to subscriber, its sync to disk included: {}",
            latencies(&figures)
        );
        let name = |share: &str| format!("block to subscriber over HTTP, {share}");
        let [p50, p95] = shares(&figures);
        Ok([
            figure(&name("p50"), p50, "ms"),
            Figure {
                at_most: Some(10.0),
                ..figure(&name("p95"), p95, "ms")
            },
        ])
    }

    fn idle(&self) -> anyhow::Result<Figure> {
        let figures = self.ours("serve-idle", self.sizes.idle)?;
        let bytes = figures["rss_bytes"].as_u64().unwrap_or_default() / self.sizes.idle as u64;
        println!("{} idle subscribers: {bytes} bytes each", self.sizes.idle);
        Ok(Figure {
            at_most: Some(16.0),
            ..figure("memory of an idle subscriber", bytes as f64 / 1_000.0, "KB")
        })
    }
}

fn figure(name: &str, value: f64, unit: &str) -> Figure {
    Figure {
        bench: "serve".to_owned(),
        name: name.to_owned(),
        value,
        unit: unit.to_owned(),
        at_most: None,
        at_least: None,
    }
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

/// The median and what 95 of 100 are below, in milliseconds.
fn shares(figures: &Value) -> [f64; 2] {
    ["p50_ns", "p95_ns"].map(|name| figures[name].as_u64().unwrap_or_default() as f64 / 1e6)
}

fn latencies(figures: &Value) -> String {
    let [p50, p95] = shares(figures);
    let cpu = figures["cpu_ns"].as_u64().unwrap_or_default() as f64 / 1e9;
    format!("p50 {p50:.1} ms, p95 {p95:.1} ms, {cpu:.1} s of processor time")
}
