//! `cargo xtask node-loss`: the long form of the test that kills, freezes and cuts off nodes. Its short form is among the tests
//! of the command line.

use std::path::PathBuf;

use crate::flags::Flags;
use crate::repository::{cargo, target};
use crate::stage;

/// Runs turns on several nodes; ends with an error when something acknowledged is lost, or happens twice. With
/// `--mutants`, statements that lack a condition are sent instead, and it ends with an error when the checks miss one.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let mut flags = Flags::new(arguments);
    if flags.switch("--mutants") {
        flags.done()?;
        let mut command = cargo(&["test", "--workspace", "--test", "cluster", "--"]);
        // The scenes of `mutants`, and the two statements that any load notices.
        command.args([
            "--nocapture",
            "--test-threads=1",
            "cluster::mutants::",
            "is_noticed",
        ]);
        return stage::status(command);
    }
    let program = match flags.value("--program")? {
        Some(program) => program.into(),
        None => optimised()?,
    };
    let mut command = cargo(&["test", "--workspace", "--test", "cluster", "--"]);
    command.args(["--nocapture", "--exact"]);
    command.arg("cluster::node_loss::nodes_that_are_killed_frozen_and_cut_off_lose_and_repeat_nothing");
    command.env("ANNALS_NODE_LOSS_PROGRAM", program);
    for (flag, variable, usual) in [
        ("--seed", "ANNALS_NODE_LOSS_SEED", 1),
        ("--turns", "ANNALS_NODE_LOSS_TURNS", 10_000),
        ("--nodes", "ANNALS_NODE_LOSS_NODES", 5),
        ("--at-once", "ANNALS_NODE_LOSS_AT_ONCE", 64),
        ("--followers", "ANNALS_NODE_LOSS_FOLLOWERS", 0),
        ("--lease", "ANNALS_NODE_LOSS_LEASE", 2),
        ("--pause", "ANNALS_NODE_LOSS_PAUSE", 10_000),
    ] {
        command.env(variable, flags.number(flag, usual)?.to_string());
    }
    flags.done()?;
    stage::status(command)
}

/// The program as it is shipped: unoptimised, most of the time of thousands of turns would be its own.
fn optimised() -> anyhow::Result<PathBuf> {
    stage::status(cargo(&["build", "--release", "-p", "annals-cli"]))?;
    Ok(target()?.join("release/annals"))
}
