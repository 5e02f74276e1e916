//! How long a program with the library takes to build from nothing: the smallest one, and the same with SQLite.
//!
//! The time is that of this machine with all its cores, so it means something only while nothing else runs; the processor
//! time beside it suffers less.

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;

use super::run::Figure;
use crate::process::{self, Echo};
use crate::repository::cargo;

/// What the figures name as their benchmark.
pub(crate) const BENCH: &str = "build";
const MANIFEST: &str = "examples/minimal/Cargo.toml";
const LIMIT: Duration = Duration::from_secs(1_800);

/// The programs: what people call them, their features, and how many seconds they may take on two idle cores.
const PROGRAMS: [(&str, &[&str], f64); 2] = [
    ("the smallest library program", &[], 60.0),
    (
        "the smallest library program with SQLite",
        &["--features", "sqlite"],
        120.0,
    ),
];

/// Builds each of them below this folder.
pub(crate) fn measure(scratch: &Path) -> anyhow::Result<Vec<Figure>> {
    // What has to be downloaded is no part of it.
    process::succeed(cargo(&["fetch", "--locked", "--manifest-path", MANIFEST]), LIMIT)?;
    let mut figures = Vec::new();
    for (name, features, at_most) in PROGRAMS {
        eprintln!("building {name} from nothing");
        let target = scratch.join("build");
        let arguments = ["build", "--quiet", "--locked", "--manifest-path", MANIFEST];
        let mut command = cargo(&[&arguments[..], features].concat());
        command.env("CARGO_TARGET_DIR", &target);
        for name in ["CARGO_BUILD_BUILD_DIR", "CARGO_INCREMENTAL", "RUSTC_WRAPPER"] {
            command.env_remove(name);
        }
        let ended = process::run(command, LIMIT, Echo::Shown)?;
        ensure!(ended.ended_well(), "{name} does not build");
        std::fs::remove_dir_all(&target)?;
        let figure = |name: String, value: f64, at_most| Figure {
            bench: BENCH.into(),
            name,
            value,
            unit: "s".into(),
            at_most,
            at_least: None,
        };
        figures.push(figure(
            format!("build of {name}"),
            ended.wall.as_secs_f64(),
            Some(at_most),
        ));
        figures.push(figure(
            format!("processor time to build {name}"),
            ended.cpu.as_secs_f64(),
            None,
        ));
    }
    Ok(figures)
}
