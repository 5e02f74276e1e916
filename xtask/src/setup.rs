//! `cargo xtask setup`: installs what the tests need of the machine, by apt, and of PyPI and npm.
//!
//! The list is `annals-requirements`, which the tests ask too. Only root can install by apt; for others the command to type
//! is printed. What is missing is left out of the tests by name.

mod packages;

use std::process::{Command, Stdio};

use annals_requirements::{PackageSet, Requirement, is_root, program};
use anyhow::{Context as _, ensure};

use crate::Usage;
use crate::flags::Flags;
use crate::stage;

/// `cargo xtask setup`: fails if something is still missing afterwards. With names, installs those sets of packages only.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let mut flags = Flags::new(arguments);
    let named = flags.values("--packages")?;
    flags.done()?;
    if !named.is_empty() {
        return packages::install(&sets(&named)?);
    }
    prepare()?;
    let missing = names(&missing());
    ensure!(missing.is_empty(), "still missing: {}", missing.join(", "));
    packages::install(&PackageSet::all())
}

/// Installs what is missing, or says how. Fails without a C compiler, since nothing builds without one.
pub(crate) fn prepare() -> anyhow::Result<()> {
    ensure!(
        program("cc").is_some(),
        "there is no C compiler (`cc`), which several dependencies build with: apt-get install gcc libc6-dev"
    );
    machine()?;
    match packages::install(&PackageSet::all()) {
        Err(error) if std::env::var_os("CI").is_none() => {
            println!("setup: tests that need these packages are left out: {error:#}");
            Ok(())
        }
        outcome => outcome,
    }
}

/// The sets of these names.
fn sets(names: &[String]) -> anyhow::Result<Vec<PackageSet>> {
    let all = PackageSet::all();
    let find = |name: &String| all.iter().find(|set| set.name == name).cloned();
    let named = names
        .iter()
        .map(|name| find(name).ok_or_else(|| Usage(format!("`packages.txt` has no set `{name}`"))));
    Ok(named.collect::<Result<_, _>>()?)
}

/// What Debian packages provide.
fn machine() -> anyhow::Result<()> {
    let missing = missing();
    if missing.is_empty() {
        println!("setup: every program the tests need is here");
        return Ok(());
    }
    println!("setup: missing {}", names(&missing).join(", "));
    let packages: Vec<&str> = missing.iter().flat_map(|need| need.packages()).copied().collect();
    let line = format!("apt-get install --no-install-recommends {}", packages.join(" "));
    if program("apt-get").is_none() || !is_root() {
        println!("setup: cannot install without root and apt; tests that need these are left out: {line}");
        return Ok(());
    }
    let install = [&["install", "-y", "-q", "--no-install-recommends"][..], &packages].concat();
    apt(&["update", "-q"])
        .and_then(|()| apt(&install))
        .with_context(|| format!("what the tests need could not be installed: {line}"))
}

fn missing() -> Vec<Requirement> {
    let installable = Requirement::ALL
        .into_iter()
        .filter(|need| !need.packages().is_empty());
    installable.filter(|need| !need.is_met()).collect()
}

fn names(requirements: &[Requirement]) -> Vec<&'static str> {
    requirements.iter().map(|need| need.name()).collect()
}

fn apt(arguments: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new("apt-get");
    command
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null());
    stage::status(command)
}
