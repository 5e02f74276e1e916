//! `cargo xtask test`: everything that must hold before a change is kept, from a fresh clone on.
//!
//! All stages use one target directory and, but for the last, one profile. Clippy and the tests still look at each crate
//! once each: the former only type-checks, the latter generate code. Instructions are counted in an optimised build of
//! the core alone.

mod isolated;

use std::collections::BTreeSet;
use std::process::Command;

use annals_requirements::{LEFT_OUT_FILE, program};

use crate::flags::Flags;
use crate::repository::{cargo, target};
use crate::stage::Stages;
use crate::{bench, corners, setup, tidy};

/// Runs all stages up to the first that fails.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let mut flags = Flags::new(arguments);
    let skips_setup = flags.switch("--no-setup");
    let has_nextest = !flags.switch("--without-nextest") && program("cargo-nextest").is_some();
    flags.done()?;
    if !skips_setup {
        setup::prepare()?;
    }
    let left_out = target()?.join("left-out.txt");
    let _ = std::fs::remove_file(&left_out);
    let mut stages = Stages::new(8);
    stages.stage("tidy", "cargo xtask tidy", tidy::check)?;
    stages.command("fmt", cargo(&["fmt", "--all", "--check"]))?;
    stages.command(
        "clippy",
        cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    )?;
    stages.stage(
        "features",
        "none, two mixtures, all; `cargo xtask features` checks more mixtures",
        corners::check_few,
    )?;
    let threads = test_threads();
    match has_nextest {
        true => {
            let mut tests = cargo(&["nextest", "run", "--workspace"]);
            tests.args(["--test-threads", &threads.to_string()]);
            tests.env(LEFT_OUT_FILE, &left_out);
            stages.command("tests", tests)?;
        }
        false => stages.stage("tests", "each in a process of its own", || {
            isolated::run(&left_out, threads)
        })?,
    }
    stages.command("doc tests", cargo(&["test", "--workspace", "--doc"]))?;
    stages.command("outside", outside()?)?;
    let budgets = ["--check-budgets".to_owned()];
    stages.stage("budgets", "cargo xtask bench --check-budgets", || {
        bench::run(&budgets)
    })?;
    stages.summary();
    let left_out = std::fs::read_to_string(&left_out).unwrap_or_default();
    for line in left_out.lines().collect::<BTreeSet<_>>() {
        println!("left out {line}");
    }
    println!("all stages passed");
    Ok(())
}

/// Half as many tests again as there are cores: many of them wait for a lease, a browser or a disk.
fn test_threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores + cores.div_ceil(2)
}

/// The port as a stranger implements it: a package outside the workspace must pass the suite. It shares the target
/// directory, so that what both need is built once.
fn outside() -> anyhow::Result<Command> {
    let mut command = cargo(&[
        "test",
        "--locked",
        "--manifest-path",
        "examples/file-log/Cargo.toml",
    ]);
    command.env("CARGO_TARGET_DIR", target()?);
    Ok(command)
}
