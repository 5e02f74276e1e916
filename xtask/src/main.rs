//! Repository tasks: `cargo xtask help` lists them.
//!
//! Keeps what people and machines do with this repository besides building it. It must stay quick to build: few and small
//! dependencies.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for people at a terminal"
)]

mod bench;
mod cgroup2;
mod corners;
mod crash;
mod debian;
mod docs;
mod failover;
mod flags;
mod fresh;
mod growth;
mod hostile;
mod node_loss;
mod process;
mod repository;
mod setup;
mod stage;
mod test;
mod tidy;

use std::process::ExitCode;

use crate::process::Interrupted;

const HELP: &str = "\
cargo xtask <task>

  test [--no-setup] [--without-nextest]
                                    install what tests need (Debian as root, PyPI, npm), then tidy, fmt, clippy, tests, doc tests,
                                    instruction budgets
                                      --without-nextest   run the tests as on a machine that has no cargo-nextest
  bench [--quick] [--peers] [--builds] [--json FILE] [--docs] [NAME]…
                                    run the benchmarks of all crates, or of those whose crate or bench name contains NAME,
                                    and say which targets are met
                                      --quick     a few minutes: fewer repetitions, smaller sizes
                                      --peers     the same work by Annals, OpenRath and LangGraph, in turns; installs the
                                                  latter into an environment of their own below the target folder
                                      --builds    how long the smallest program with the library builds from nothing; on a
                                                  machine that does nothing else
                                      --json FILE the run as JSON as well
                                      --docs      write bench/run.json, docs/performance.md and docs/img from the run
                                      --from FILE measure nothing but --builds: show a run that was written with --json
  bench --against FILE [--program FILE] [--quick] [NAME]…
                                    FILE, an `annals-workload` built from another commit, and this one in turns; fails if a row
                                    costs more than a tenth more processor time or instructions
                                      --program FILE   this `annals-workload` instead of a new optimised one
  bench serve [--quick] [--program FILE]
                                    the HTTP server under load: turns a second beside LangGraph's server, a thousand turns in
                                    flight, ten thousand idle subscribers
                                      --program FILE   this `annals-workload` instead of a new optimised one
  bench --check-budgets             count instructions of the core's hot paths (valgrind) against bench/budgets.toml
  bench --accept-budgets            make the counts the new budgets
  crash [--kills N] [--seed S]      kill a writing store N times (default 1000); nothing acknowledged may be lost
  node-loss [--seed S] [--turns N] [--nodes K] [--at-once C] [--followers F] [--lease S] [--pause MS]
                                    N turns (default 10000) on K nodes (5) that are killed, frozen, cut off from PostgreSQL and
                                    restarted; nothing acknowledged may be lost, nothing may happen twice
                                      --mutants       statements that lack a condition instead; each must be noticed
                                      --at-once C     conversations that have turns at the same time (32)
                                      --followers F   clients that follow them, at least two each
                                      --lease S       seconds after which a silent node is dead (2); more on a busy machine
                                      --pause MS      between two faults of a node, at most (10000)
  failover                          kill the leader of three PostgreSQL servers under Patroni, with a quorum (nothing may be lost)
                                    and without (what is lost has to be told)
  growth [--blocks N]               what an append, a claim and a poll cost in an empty log on PostgreSQL and in one of N blocks
                                    (default ten million, which take 6 GB)
  hostile                           a thousand hostile files in a row through one process; says what they left behind
  docs [dependencies] [limits] [tools] [pictures]
                                    write docs/dependencies.md, docs/limits.md, docs/tools.md and the pictures of the demo and the page
  features                          type-check the library with no feature, in mixtures in which each stands without each
                                    other one, and with all; `test` does so in two mixtures only
  tidy                              check what neither rustfmt nor clippy does
  setup [--packages NAME]…          only install what tests need, or only these sets of packages from PyPI and npm
  fresh [--as USER] [--target DIR] [--command LINE]… [--keep]
                                    run the README's commands in a minimal Debian root, from a clean clone of HEAD, as
                                    root and as an ordinary user (`builder`); needs root, mmdebstrap and git
                                      --target DIR   begin with a copy of this build instead of nothing
                                      --command LINE run this instead of the README's commands
                                      --keep         leave the root there
  cgroup2                           the memory bound of an ordinary user with a delegated cgroup of version 2, in an emulated
                                    machine that has no other version; needs root, mmdebstrap, cpio and qemu-system-x86
  help                              this text

exit codes: 0 done, 1 a check failed, 2 wrong usage, 130 interrupted
";

/// A wrong command line, as opposed to a failed task.
#[derive(Debug)]
struct Usage(String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl std::error::Error for Usage {}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let task = arguments.next().unwrap_or_else(|| "help".to_owned());
    let rest: Vec<String> = arguments.collect();
    match run(&task, &rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask {task}: {error:#}");
            ExitCode::from(match () {
                () if error.is::<Usage>() => 2,
                () if error.is::<Interrupted>() => 130,
                () => 1,
            })
        }
    }
}

fn run(task: &str, arguments: &[String]) -> anyhow::Result<()> {
    match task {
        "test" => test::run(arguments),
        "bench" => bench::run(arguments),
        "crash" => crash::run(arguments),
        "node-loss" => node_loss::run(arguments),
        "failover" => failover::run(arguments),
        "growth" => growth::run(arguments),
        "hostile" => hostile::run(arguments),
        "docs" => docs::run(arguments),
        "features" => corners::run(arguments),
        "tidy" => tidy::run(arguments),
        "setup" => setup::run(arguments),
        "fresh" => fresh::run(arguments),
        "cgroup2" => cgroup2::run(arguments),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        other => Err(Usage(format!(
            "there is no task `{other}`: `cargo xtask help` lists them"
        ))
        .into()),
    }
}
