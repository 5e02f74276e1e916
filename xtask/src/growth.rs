//! `cargo xtask growth`: what an append, a claim and a poll cost on PostgreSQL in an empty log and in a large one.

use crate::flags::Flags;
use crate::repository::cargo;
use crate::stage;

/// Fills a log with blocks; takes some gigabytes of disk and minutes.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let mut flags = Flags::new(arguments);
    let blocks = flags.number("--blocks", 10_000_000)?.to_string();
    flags.done()?;
    let mut command = cargo(&[
        "run",
        "--release",
        "-p",
        "annals-postgres",
        "--example",
        "growth",
        "--",
    ]);
    command.arg(blocks);
    stage::status(command)
}
