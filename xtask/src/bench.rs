//! `cargo xtask bench`: what Annals costs, against its targets and beside other systems.
//!
//! Nothing here measures time by itself, but for builds: the crates' benchmarks say their figures (`bench/figures`), and
//! workloads are processes that say what they took (`bench/peers/protocol.py`). This puts them together, says which targets are
//! missed, and writes the page. Progress goes to stderr, the tables to stdout.

mod against;
pub(crate) mod budgets;
mod builds;
mod chart;
mod crate_benches;
mod machine;
mod peers;
mod report;
mod run;
mod serve;
mod workload;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};

use crate::Usage;
use crate::flags::Flags;
use crate::process;
use crate::repository::{cargo, programs, target};
use peers::Peers;
use run::Run;
use workload::{Effort, System};

/// What was asked for.
struct Wanted {
    is_quick: bool,
    has_peers: bool,
    has_builds: bool,
    writes_docs: bool,
    json: Option<String>,
    from: Option<String>,
    names: Vec<String>,
}

/// Runs what was asked for.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    if let Some((first, rest)) = arguments.split_first()
        && first == "serve"
    {
        process::catch_interrupts();
        return serve::run(rest);
    }
    let mut flags = Flags::new(arguments);
    let (checks, accepts) = (flags.switch("--check-budgets"), flags.switch("--accept-budgets"));
    process::catch_interrupts();
    if checks || accepts {
        flags.done()?;
        let scratch = Scratch::new()?;
        return match accepts {
            true => budgets::accept(&scratch.folder),
            false => budgets::check(&scratch.folder),
        };
    }
    if let Some(old) = flags.value("--against")? {
        return against(&old, flags);
    }
    let wanted = Wanted {
        is_quick: flags.switch("--quick"),
        has_peers: flags.switch("--peers"),
        has_builds: flags.switch("--builds"),
        writes_docs: flags.switch("--docs"),
        json: flags.value("--json")?,
        from: flags.value("--from")?,
        names: flags.names()?,
    };
    if wanted.from.is_some() && (wanted.has_peers || wanted.is_quick || !wanted.names.is_empty()) {
        let usage = "`--from` shows a run that was: it goes with `--builds`, `--docs` and `--json` only";
        return Err(Usage(usage.into()).into());
    }
    let (run, failed) = match &wanted.from {
        Some(file) => {
            let text = std::fs::read_to_string(file).with_context(|| format!("cannot read `{file}`"))?;
            let mut run: Run =
                serde_json::from_str(&text).with_context(|| format!("`{file}` holds no run"))?;
            if wanted.has_builds {
                let builds = builds::measure(&Scratch::new()?.folder)?;
                run.figures.retain(|figure| figure.bench != builds::BENCH);
                run.figures.extend(builds);
                let date = machine::facts().remove("date").unwrap_or_default();
                run.machine.insert("builds of the smallest programs".into(), date);
            }
            (run, Vec::new())
        }
        None => measure(&wanted)?,
    };
    report::show(&run);
    if let Some(file) = &wanted.json {
        std::fs::write(file, run.to_text()?).with_context(|| format!("cannot write `{file}`"))?;
        println!("written to {file}");
    }
    if wanted.writes_docs {
        report::write(&run)?;
    }
    if !failed.is_empty() {
        bail!("benchmarks that did not end well: {}", failed.join(", "));
    }
    Ok(())
}

/// `--against FILE`: this build of the workloads, or the one of `--program`, beside another.
fn against(old: &str, mut flags: Flags) -> anyhow::Result<()> {
    let effort = Effort {
        is_quick: flags.switch("--quick"),
    };
    let new = match flags.value("--program")? {
        Some(file) => PathBuf::from(file),
        None => ours()?.program,
    };
    let scratch = Scratch::new()?;
    let folder = scratch.folder.join("workloads");
    against::run([PathBuf::from(old), new], &flags.names()?, &folder, effort)
}

fn measure(wanted: &Wanted) -> anyhow::Result<(Run, Vec<String>)> {
    let scratch = Scratch::new()?;
    let benches = crate_benches::discover(&wanted.names)?;
    let is_named = !wanted.names.is_empty();
    ensure!(
        !benches.is_empty() || wanted.has_peers || wanted.has_builds,
        "no benchmark has {} in its name",
        wanted.names.join(" or ")
    );
    // First what may fail for want of a network or of Python, so that nobody waits for it in vain.
    let peers = match wanted.has_peers {
        true => Some(Peers::install(&target()?)?),
        false => None,
    };
    let (figures, failed) = match is_named && benches.is_empty() {
        true => (Vec::new(), Vec::new()),
        false => crate_benches::measure(&benches, &scratch.folder.join("benches"), wanted.is_quick)?,
    };
    let mut run = Run {
        is_quick: wanted.is_quick,
        machine: machine::facts(),
        figures,
        measured: Vec::new(),
    };
    if wanted.has_builds {
        run.figures.extend(builds::measure(&scratch.folder)?);
    }
    if let Some(peers) = peers {
        let mut systems = vec![ours()?];
        systems.extend(peers.systems());
        let effort = Effort {
            is_quick: wanted.is_quick,
        };
        run.measured = workload::measure_all(&systems, &scratch.folder.join("workloads"), effort)?;
        run.figures.extend(report::against(&run));
        let versions = peers.versions.into_iter();
        run.machine
            .extend(versions.map(|(name, version)| (name, version.into())));
    }
    Ok((run, failed))
}

/// Annals itself, built as it is used.
fn ours() -> anyhow::Result<System> {
    eprintln!("building the workloads of Annals, optimised");
    let arguments = ["build", "--release", "-p", "annals-workload", "-p", "annals-cli"];
    let command = cargo(&[&arguments[..], &["--message-format=json-render-diagnostics"]].concat());
    let built = programs(command, "bin")?;
    let program = |wanted: &str| {
        let found = built.iter().find(|(name, _)| name == wanted);
        found
            .map(|(_, file)| file.clone())
            .with_context(|| format!("cargo built no `{wanted}`"))
    };
    Ok(System {
        name: "annals",
        program: program("annals-workload")?,
        arguments: Vec::new(),
        start: (program("annals")?, vec!["--version".to_owned()]),
    })
}

/// A folder for what is written while measuring, gone when the run is over. Below the target folder, so that it is on
/// the disk that the repository is on.
struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    fn new() -> anyhow::Result<Scratch> {
        let bench = target()?.join("bench");
        std::fs::create_dir_all(&bench)?;
        remove_abandoned(&bench);
        let folder = bench.join(format!("scratch-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        Ok(Scratch { folder })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Removes what runs left behind that were killed.
fn remove_abandoned(bench: &Path) {
    let Ok(entries) = std::fs::read_dir(bench) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name
            .strip_prefix("scratch-")
            .filter(|pid| pid.parse::<u32>().is_ok());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
