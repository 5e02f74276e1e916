//! What a run was measured on: a figure without its machine says nothing.

use std::process::Command;

use serde_json::{Map, Value};

use crate::repository::root;

/// Date, processor, cores, memory, load, kernel, compiler and commit, as far as they can be learnt.
pub(crate) fn facts() -> Map<String, Value> {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let facts = [
        ("date", said("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"])),
        ("processor", line_of("/proc/cpuinfo", "model name")),
        ("cores", Some(cores.to_string())),
        ("memory", line_of("/proc/meminfo", "MemTotal")),
        ("load before the run", load()),
        ("kernel", said("uname", &["-sr"])),
        ("rustc", said("rustc", &["--version"])),
        (
            "commit",
            said("git", &["describe", "--always", "--dirty", "--exclude", "*"]),
        ),
    ];
    let known = facts
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.into())));
    known.collect()
}

/// What stands behind the colon of the first line that begins so.
fn line_of(file: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn load() -> Option<String> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next().map(str::to_owned)
}

fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
