//! The benchmarks of the crates: found, built together, run one after the other, since they share the machine.
//!
//! A benchmark prints a table for people and says its figures as lines of JSON; `bench/figures` is that convention.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::run::Figure;
use crate::process::{self, Echo};
use crate::repository::{cargo, crates, programs};
use crate::stage::seconds;

const QUICK: &str = "ANNALS_BENCH_QUICK";
const FIGURES: &str = "ANNALS_BENCH_FIGURES";
const RUN_LIMIT: Duration = Duration::from_secs(900);

/// A benchmark of a crate.
pub(crate) struct Bench {
    package: String,
    name: String,
}

/// All benchmarks whose crate or name contains one of the names; all without names.
pub(crate) fn discover(names: &[String]) -> anyhow::Result<Vec<Bench>> {
    let mut benches = Vec::new();
    for krate in crates()? {
        let Ok(entries) = std::fs::read_dir(krate.folder.join("benches")) else {
            continue;
        };
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.sort();
        let sources = files
            .iter()
            .filter(|file| file.extension().is_some_and(|extension| extension == "rs"));
        for name in sources.filter_map(|file| file.file_stem()) {
            benches.push(Bench {
                package: krate.name.clone(),
                name: name.to_string_lossy().into_owned(),
            });
        }
    }
    let is_chosen = |bench: &Bench| {
        let fits = |name: &String| bench.package.contains(&**name) || bench.name.contains(&**name);
        names.is_empty() || names.iter().any(fits)
    };
    benches.retain(is_chosen);
    Ok(benches)
}

/// Builds the benchmarks and runs them. The names of those that did not end well come back beside the figures.
pub(crate) fn measure(
    benches: &[Bench],
    scratch: &Path,
    is_quick: bool,
) -> anyhow::Result<(Vec<Figure>, Vec<String>)> {
    let (mut figures, mut failed) = (Vec::new(), Vec::new());
    let programs = build(benches)?;
    for bench in benches {
        let built = programs.iter().find(|(name, _)| *name == bench.name);
        let Some((_, program)) = built else {
            bail!("cargo built no benchmark `{}` of `{}`", bench.name, bench.package);
        };
        eprintln!("\n== {} / {}", bench.package, bench.name);
        std::fs::create_dir_all(scratch)?;
        let file = scratch.join("figures.jsonl");
        let _ = std::fs::remove_file(&file);
        let mut command = Command::new(program);
        command.arg("--bench").env(FIGURES, &file).env_remove(QUICK);
        command.current_dir(crate::repository::root().join("crates").join(&bench.package));
        if is_quick {
            command.env(QUICK, "1");
        }
        let ended = process::run(command, RUN_LIMIT, Echo::Shown)?;
        eprintln!(
            "   {} of wall time, {} of processor time",
            seconds(ended.wall),
            seconds(ended.cpu)
        );
        if !ended.ended_well() {
            eprintln!("   did not end well: {:?}", ended.end);
            failed.push(bench.name.clone());
        }
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        for line in text.lines() {
            let figure: Figure = serde_json::from_str(line)
                .with_context(|| format!("`{}` says a figure that is none: {line}", bench.name))?;
            figures.push(Figure {
                bench: bench.name.clone(),
                ..figure
            });
        }
    }
    Ok((figures, failed))
}

/// The programs by the names of their benchmarks.
fn build(benches: &[Bench]) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let mut arguments = vec!["bench", "--no-run", "--message-format=json-render-diagnostics"];
    for bench in benches {
        arguments.extend(["-p", &bench.package, "--bench", &bench.name]);
    }
    eprintln!("building the benchmarks of {} crates, optimised", benches.len());
    programs(cargo(&arguments), "bench")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crate_with_benches_is_found_by_name() {
        let core = discover(&["annals-core".to_owned()]).unwrap();
        assert!(core.iter().any(|bench| bench.name == "core"));
        assert!(discover(&["no such thing".to_owned()]).unwrap().is_empty());
    }
}
