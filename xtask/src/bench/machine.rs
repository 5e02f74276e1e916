//! What a run was measured on: a figure without its machine says nothing.

use std::process::Command;

use crate::json::Json;
use crate::repository::root;

/// Processor, cores, kernel, compiler, commit and date, as far as they can be learnt.
pub(crate) fn facts() -> Json {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let fact = |name: &str, value: Option<String>| (name.to_owned(), value.map_or(Json::Null, Json::Text));
    Json::Object(vec![
        fact("processor", processor()),
        ("cores".into(), Json::Number(cores.to_string())),
        fact("kernel", said("uname", &["-sr"])),
        fact("rustc", said("rustc", &["--version"])),
        fact("commit", said("git", &["rev-parse", "--short", "HEAD"])),
        fact("date", said("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"])),
    ])
}

fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
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
