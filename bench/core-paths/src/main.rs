//! The hot paths of the core, one at a time, for a tool that counts instructions.
//!
//! ```text
//! annals-core-paths list     names the paths
//! annals-core-paths PATH     prepares what the path needs, then runs it once inside `measured`
//! ```
//!
//! `cargo xtask bench --check-budgets` runs each under callgrind, counts only what happens below `measured`, and
//! compares with `bench/budgets.toml`. What is counted must depend on nothing but the code: no clock, no chance, no
//! threads.

#![allow(clippy::print_stdout, reason = "the list of paths is the output")]

mod conversation;
mod paths;

use std::hint::black_box;
use std::process::ExitCode;

fn main() -> ExitCode {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    if wanted == "list" {
        paths::ALL.iter().for_each(|(name, _)| println!("{name}"));
        return ExitCode::SUCCESS;
    }
    match paths::ALL.iter().find(|(name, _)| *name == wanted) {
        Some((_, run)) => {
            run();
            ExitCode::SUCCESS
        }
        None => {
            println!("no path `{wanted}`: `annals-core-paths list` names them");
            ExitCode::from(2)
        }
    }
}

/// What is counted: everything below this function, and only that.
#[inline(never)]
pub(crate) fn measured<T>(path: impl FnOnce() -> T) -> T {
    black_box(path())
}
