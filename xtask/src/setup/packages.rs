//! Packages from PyPI and npm: each set into a folder of its own, several at a time, once for each list of versions.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use annals_requirements::{PackageSet, Registry};
use anyhow::{Context as _, bail};

use crate::stage::{seconds, shown};

/// Installers at work at once: they mostly wait for the network.
const AT_ONCE: usize = 4;

/// Installs those of the sets that are not there yet. All are tried; the error names those that failed.
pub(crate) fn install(sets: &[PackageSet]) -> anyhow::Result<()> {
    let needs_node = sets.iter().any(|set| set.registry == Registry::Npm);
    let node = PackageSet::node();
    let (first, rest): (Vec<_>, Vec<_>) = sets
        .iter()
        .filter(|set| !set.is_ready())
        .partition(|set| set.name == node.name);
    if !first.is_empty() || (needs_node && !node.is_ready()) {
        all(&[&node])?;
    }
    all(&rest)
}

fn all(sets: &[&PackageSet]) -> anyhow::Result<()> {
    let waiting = Mutex::new(sets.iter());
    let failures = Mutex::new(Vec::new());
    let worker = || {
        let next = || {
            waiting
                .lock()
                .ok()
                .and_then(|mut waiting| waiting.next().copied())
        };
        while let Some(set) = next() {
            if let (Err(error), Ok(mut failures)) = (one(set), failures.lock()) {
                failures.push(format!("`{}`: {error:#}", set.name));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(sets.len()) {
            scope.spawn(worker);
        }
    });
    match failures.into_inner().unwrap_or_default().as_slice() {
        [] => Ok(()),
        failures => bail!("packages could not be installed: {}", failures.join("; ")),
    }
}

/// Installs one set from nothing, unless another process has just done so.
fn one(set: &PackageSet) -> anyhow::Result<()> {
    let started = Instant::now();
    let folder = set.folder();
    let above = folder.parent().context("a set lies in a folder")?;
    fs::create_dir_all(above).with_context(|| format!("cannot create `{}`", above.display()))?;
    let lock = File::create(above.join(format!("{}.lock", set.name)))?;
    lock.lock().context("cannot wait for another installation")?;
    if set.is_ready() {
        return Ok(());
    }
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove `{}`", folder.display()))?;
    }
    fs::create_dir(&folder)?;
    match set.registry {
        Registry::Pypi => pypi(set, &folder)?,
        Registry::Npm => npm(set, &folder)?,
    }
    set.mark_ready()?;
    println!("setup: installed {} in {}", set.name, seconds(started.elapsed()));
    Ok(())
}

fn pypi(set: &PackageSet, folder: &Path) -> anyhow::Result<()> {
    let mut environment = Command::new("python3");
    environment.args(["-m", "venv", "--without-pip"]).arg(folder);
    quiet(environment)?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "--disable-pip-version-check", "--python"])
        .arg(folder.join("bin/python"))
        // What is imported is compiled at its first import; most of it never is.
        .args(["install", "--quiet", "--no-input", "--no-compile"])
        .args(&set.packages);
    quiet(pip)
}

fn npm(set: &PackageSet, folder: &Path) -> anyhow::Result<()> {
    let programs = PackageSet::node().folder().join("bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(programs.clone()).chain(std::env::split_paths(&path));
    let mut npm = Command::new(programs.join("npm"));
    npm.env("PATH", std::env::join_paths(path)?)
        .args([
            "install",
            "--silent",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
        ])
        .arg("--prefix")
        .arg(folder)
        .args(&set.packages)
        .current_dir(folder);
    quiet(npm)
}

/// Runs an installer; what it says is shown only if it fails.
fn quiet(mut command: Command) -> anyhow::Result<()> {
    let line = shown(&command);
    let ended = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start `{line}`"))?;
    if !ended.status.success() {
        let said = [ended.stdout, ended.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        bail!("`{line}` ended with {}: {}", ended.status, said.trim());
    }
    Ok(())
}
