//! The repository this task was built from: its folders, its crates, its tracked files, its cargo.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use crate::process::{self, Echo};

const BUILD_LIMIT: Duration = Duration::from_secs(3_600);

/// One crate below `crates/`.
pub(crate) struct Crate {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
}

/// The repository's root.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the repository")
}

/// The crates, by name.
pub(crate) fn crates() -> anyhow::Result<Vec<Crate>> {
    let folder = root().join("crates");
    let mut crates = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("cannot list `{}`", folder.display()))? {
        let entry = entry?;
        if entry.path().join("Cargo.toml").is_file() {
            crates.push(Crate {
                name: entry.file_name().to_string_lossy().into_owned(),
                folder: entry.path(),
            });
        }
    }
    crates.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(crates)
}

/// Files that git tracks, relative to the root.
pub(crate) fn tracked_files() -> anyhow::Result<Vec<PathBuf>> {
    let listed = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(root())
        .output()
        .context("cannot run git, which says which files belong to the repository")?;
    let complaint = String::from_utf8_lossy(&listed.stderr);
    ensure!(
        listed.status.success(),
        "git ls-files failed: {}",
        complaint.trim()
    );
    let names = String::from_utf8(listed.stdout).context("a file name is not UTF-8")?;
    Ok(names.split_terminator('\0').map(PathBuf::from).collect())
}

/// Cargo, in the root, in the environment it would have without this task around it: build scripts that look at
/// cargo's variables would otherwise build their crates anew each time a task follows a plain build.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") || text == "LD_LIBRARY_PATH"
        {
            command.env_remove(&name);
        }
    }
    command
}

/// The folder that cargo builds into.
pub(crate) fn target() -> anyhow::Result<PathBuf> {
    let said = cargo(&["metadata", "--format-version", "1", "--no-deps"])
        .output()
        .context("cannot start cargo")?;
    let metadata: Value = serde_json::from_slice(&said.stdout)?;
    let folder = metadata["target_directory"].as_str();
    folder
        .map(PathBuf::from)
        .context("cargo does not say where it builds")
}

/// Runs a cargo command that says what it built, and gives the programs of this kind.
pub(crate) fn programs(command: Command, kind: &str) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let messages = messages(command)?;
    Ok(messages
        .iter()
        .filter_map(|message| artifact(message, kind))
        .collect())
}

/// Runs a cargo command with `--message-format=json…`, and gives what it said.
pub(crate) fn messages(command: Command) -> anyhow::Result<Vec<Value>> {
    let line = crate::stage::shown(&command);
    let ended = process::run(command, BUILD_LIMIT, Echo::OutputKept)?;
    if !ended.ended_well() {
        bail!("`{line}` failed, see above");
    }
    let lines = ended.output.iter().filter(|line| line.starts_with('{'));
    lines
        .map(|line| serde_json::from_str(line).context("cargo said something that is no JSON"))
        .collect()
}

/// The folder of the toolchain in use, whichever way it was installed.
pub(crate) fn sysroot() -> anyhow::Result<PathBuf> {
    let mut command = Command::new("rustc");
    command.args(["--print", "sysroot"]).current_dir(root());
    let ended = process::run(command, BUILD_LIMIT, Echo::Kept)?;
    let line = ended.output.first().context("rustc names no sysroot")?;
    Ok(PathBuf::from(line))
}

fn artifact(message: &Value, kind: &str) -> Option<(String, PathBuf)> {
    let target = message.get("target")?;
    let is_kind = target.get("kind")?.as_array()?.iter().any(|found| found == kind);
    let program = message.get("executable")?.as_str()?;
    let name = target.get("name")?.as_str()?;
    is_kind.then(|| (name.to_owned(), PathBuf::from(program)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_what_cargo_says() {
        let line = r#"{"reason":"compiler-artifact","target":{"kind":["bench"],"name":"core"},"executable":"/t/core-1"}"#;
        let json = &serde_json::from_str(line).unwrap();
        assert_eq!(artifact(json, "bench"), Some(("core".into(), "/t/core-1".into())));
        assert_eq!(artifact(json, "bin"), None);
    }
}
