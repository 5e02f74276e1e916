//! Minimal Debian roots, made by `mmdebstrap` from the package sources of this machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use annals_requirements::{is_root, program};
use anyhow::{Context as _, ensure};

use crate::process;

/// For `unshare`: what is mounted from here on is gone with the command.
pub(crate) const PRIVATE_MOUNTS: [&str; 3] = ["--mount", "--propagation", "private"];

/// Fails unless this is root, and has the programs of these names; the error names their packages.
pub(crate) fn need(task: &str, tools: &[(&str, &str)]) -> anyhow::Result<()> {
    ensure!(
        is_root(),
        "a Debian root is made and entered as root: run `sudo -E cargo xtask {task}`"
    );
    for (tool, package) in tools {
        ensure!(
            program(tool).is_some(),
            "`{tool}` is missing: apt-get install --no-install-recommends {package}"
        );
    }
    Ok(())
}

/// Makes a root of this machine's release with these packages besides the essential ones, separated by commas.
pub(crate) fn bootstrap(folder: &Path, packages: &str, limit: Duration) -> anyhow::Result<()> {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let suite = release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .context("`/etc/os-release` names no Debian release: this task needs Debian")?;
    // mmdebstrap mounts too, and does not get to clean up when it is interrupted.
    let mut command = Command::new("unshare");
    command
        .args(PRIVATE_MOUNTS)
        .args([
            "mmdebstrap",
            "--variant=minbase",
            &format!("--include={packages}"),
            suite,
        ])
        .arg(folder)
        .args(apt_sources());
    process::succeed(command, limit)
}

/// The files in which this machine names its package sources.
fn apt_sources() -> Vec<PathBuf> {
    let folder = Path::new("/etc/apt/sources.list.d");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let listed = entries.map(|entry| entry.path()).filter(|file| {
        let extension = file.extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("list" | "sources"))
    });
    let mut sources: Vec<PathBuf> = listed.collect();
    sources.sort();
    sources.extend(Some(PathBuf::from("/etc/apt/sources.list")).filter(|file| file.is_file()));
    sources
}
