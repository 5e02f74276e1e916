//! `cargo xtask test`: everything that must hold before a change is kept, from a fresh clone on.
//!
//! All stages use one target directory and, but for the last, one profile. Clippy and the tests still look at each crate
//! once each: the former only type-checks, the latter generate code. Instructions are counted in an optimised build of
//! the core alone.

use crate::flags::Flags;
use crate::repository::{cargo, program};
use crate::stage::Stages;
use crate::{bench, setup, tidy};

/// Runs all stages up to the first that fails.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let mut flags = Flags::new(arguments);
    let skips_setup = flags.switch("--no-setup");
    flags.done()?;
    if !skips_setup {
        setup::prepare();
    }
    let mut stages = Stages::new(6);
    stages.stage("tidy", "cargo xtask tidy", tidy::check)?;
    stages.command("fmt", cargo(&["fmt", "--all", "--check"]))?;
    stages.command(
        "clippy",
        cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    )?;
    let tests = match program("cargo-nextest") {
        Some(_) => cargo(&["nextest", "run", "--workspace"]),
        None => cargo(&["test", "--workspace", "--lib", "--bins", "--tests", "--examples"]),
    };
    stages.command("tests", tests)?;
    stages.command("doc tests", cargo(&["test", "--workspace", "--doc"]))?;
    let budgets = ["--check-budgets".to_owned()];
    stages.stage("budgets", "cargo xtask bench --check-budgets", || {
        bench::run(&budgets)
    })?;
    stages.summary();
    println!("all stages passed");
    Ok(())
}
