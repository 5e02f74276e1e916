//! `cargo xtask setup`: installs what the tests need of the machine, by apt.
//!
//! The list is `annals-requirements`, which the tests ask too. Only root can install; for others the command to type is
//! printed, and what is missing is left out of the tests by name.

use std::process::{Command, Stdio};

use annals_requirements::{Requirement, is_root, program};
use anyhow::{Context as _, ensure};

use crate::flags::Flags;
use crate::stage;

/// `cargo xtask setup`: fails if something is still missing afterwards.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    Flags::new(arguments).done()?;
    prepare()?;
    let missing = names(&missing());
    ensure!(missing.is_empty(), "still missing: {}", missing.join(", "));
    Ok(())
}

/// Installs what is missing, or says how. Fails without a C compiler, since nothing builds without one.
pub(crate) fn prepare() -> anyhow::Result<()> {
    ensure!(
        program("cc").is_some(),
        "there is no C compiler (`cc`), which several dependencies build with: apt-get install gcc libc6-dev"
    );
    let missing = missing();
    if missing.is_empty() {
        println!("setup: everything the tests need is here");
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
