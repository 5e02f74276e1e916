//! The workloads that other systems are measured with too, on Annals, through the public façade.
//!
//! ```text
//! annals-workload WORKLOAD N DIRECTORY
//! ```
//!
//! runs one workload with N repetitions, keeps its files below DIRECTORY, and prints one JSON object; the fields are
//! those of `bench/peers/protocol.py`. One process does one workload once: `cargo xtask bench --peers` starts it again
//! and again, in turns with the same workload elsewhere.

#![allow(clippy::print_stdout, reason = "the figures are the output")]

mod agent;
mod meter;
mod model;
mod records;
mod rounds;
mod sandboxed;
mod serving;
mod sessions;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::meter::Figures;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    annals::launcher::init();
    let mut arguments = std::env::args().skip(1);
    let mut next = |what: &str| {
        let usage = || format!("no {what}: annals-workload WORKLOAD N DIRECTORY");
        arguments.next().with_context(usage)
    };
    let (workload, n, directory) = (next("workload")?, next("n")?, PathBuf::from(next("directory")?));
    let n: usize = n.parse().with_context(|| format!("`{n}` is not a number"))?;
    let figures = run(&workload, n, &directory).await?;
    println!("{}", serde_json::to_string(&figures)?);
    Ok(())
}

async fn run(workload: &str, n: usize, directory: &Path) -> anyhow::Result<Figures> {
    match workload {
        "rounds" => rounds::in_memory(n, directory).await,
        "rounds-persisted" => rounds::durable(n, directory).await,
        "storage" => rounds::storage(n, directory).await,
        "first-call" => rounds::first(directory).await,
        "shell" => sandboxed::shell(n, directory).await,
        "parallel-writes" => sandboxed::parallel_writes(n, directory).await,
        "command" => sandboxed::operations(sandboxed::command(), n, directory).await,
        "file-read" => sandboxed::operations(sandboxed::read(), n, directory).await,
        "file-write" => sandboxed::operations(sandboxed::write(), n, directory).await,
        "streams-1" => sandboxed::streams(1, n, directory).await,
        "streams-8" => sandboxed::streams(8, n, directory).await,
        "sessions" => sessions::in_memory(n, directory).await,
        "sessions-persisted" => sessions::durable(n, directory).await,
        "in-flight" => sessions::in_flight(n, directory).await,
        "serve" => serving::serve(n, directory).await,
        "serve-turns" => serving::turns(n, directory).await,
        "serve-in-flight" => serving::in_flight(n, directory).await,
        "serve-idle" => serving::idle(n, directory).await,
        "serve-blocks" => serving::blocks(n, directory).await,
        "records-write" => records::write(n, directory).await,
        "records-load" => records::load(n, directory).await,
        other => bail!("no workload `{other}` here"),
    }
}
