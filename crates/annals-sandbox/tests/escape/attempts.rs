//! The corpus: ways out that somebody has used before, each a few lines of Python, in `corpus/`.
//!
//! A line `#% <who> [alone]: <name>` begins an attempt. It calls `won()` when it got what it should not get, and raises
//! `Absent` when this machine has not got what it is about; facts about the outside come as environment variables, the
//! same ones in the sandbox and in the control run without it.
//! System-call numbers are those of x86-64.

const FILES: [(&str, &str); 7] = [
    ("files", include_str!("corpus/files.py")),
    ("processes", include_str!("corpus/processes.py")),
    ("namespaces", include_str!("corpus/namespaces.py")),
    ("privileges", include_str!("corpus/privileges.py")),
    ("objects", include_str!("corpus/objects.py")),
    ("sockets", include_str!("corpus/sockets.py")),
    ("resources", include_str!("corpus/resources.py")),
];

/// Before every attempt.
const PRELUDE: &str = include_str!("prelude.py");

/// Runs many attempts from one interpreter, each in a process of its own.
const RUNNER: &str = include_str!("runner.py");

/// Who can do this at all, without isolation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Real {
    /// For any user.
    Anyone,
    /// Only for root; in the sandbox it must fail for everybody.
    Root,
}

/// One way out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt {
    pub(crate) family: &'static str,
    pub(crate) name: &'static str,
    pub(crate) real: Real,
    /// It is about its parent, or uses everything up: nothing else may run in its command, or beside it.
    pub(crate) is_alone: bool,
    /// With its first line.
    source: &'static str,
}

/// All of them, in the order of the files.
pub(crate) fn all() -> Vec<Attempt> {
    FILES
        .iter()
        .flat_map(|(family, text)| starts(text).map(|(from, to)| parse(family, &text[from..to])))
        .collect()
}

/// Where each attempt begins and ends.
fn starts(text: &'static str) -> impl Iterator<Item = (usize, usize)> {
    let begins = move |(at, _): &(usize, &str)| *at == 0 || text.as_bytes()[at - 1] == b'\n';
    let starts: Vec<usize> = text
        .match_indices("#% ")
        .filter(begins)
        .map(|(at, _)| at)
        .collect();
    let ends: Vec<usize> = starts.iter().copied().skip(1).chain([text.len()]).collect();
    starts.into_iter().zip(ends)
}

fn parse(family: &'static str, source: &'static str) -> Attempt {
    let head = source.lines().next().unwrap_or_default();
    let (flags, name) = head["#% ".len()..]
        .split_once(": ")
        .unwrap_or_else(|| panic!("`{head}` is no head of an attempt"));
    let real = match flags.split(' ').next() {
        Some("anyone") => Real::Anyone,
        Some("root") => Real::Root,
        _ => panic!("`{head}` does not say who can do it"),
    };
    Attempt {
        family,
        name,
        real,
        is_alone: flags.ends_with(" alone"),
        source,
    }
}

/// The corpus as programs.
pub(crate) struct Programs {
    /// Each with as many attempts as may run in one command.
    pub(crate) together: Vec<String>,
    /// Each with one attempt, which may end whatever runs beside it.
    pub(crate) alone: Vec<String>,
}

pub(crate) fn programs(attempts: &[Attempt]) -> Programs {
    const TOGETHER: usize = 48;
    let (alone, together): (Vec<&Attempt>, Vec<&Attempt>) =
        attempts.iter().partition(|attempt| attempt.is_alone);
    let batches = together.chunks(TOGETHER).map(|batch| {
        let sources: String = batch.iter().map(|attempt| attempt.source).collect();
        format!("{PRELUDE}\n{RUNNER}\nrun_each({sources:?})\n")
    });
    let alone = alone.iter().map(|attempt| {
        let (source, name) = (attempt.source, attempt.name);
        format!("{PRELUDE}\n{RUNNER}\nrun_here({name:?}, {source:?})\n")
    });
    Programs {
        together: batches.collect(),
        alone: alone.collect(),
    }
}
