//! The workloads that every system does, and the measuring of them in turns: A B C A B C, so that whatever else the
//! machine does falls on all.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Map, Value};

use super::run::{Measured, Outcome, Sample};
use crate::process::{self, Echo, End};

/// Something every system is asked to do.
pub(crate) struct Workload {
    /// Its name in the protocol of `bench/peers/protocol.py`.
    pub(crate) name: &'static str,
    /// What is done, for people.
    pub(crate) title: &'static str,
    /// How its cost is told.
    pub(crate) cost: Cost,
    sizes: &'static [u64],
    quick_sizes: &'static [u64],
    /// What is not the same on all sides.
    pub(crate) note: &'static str,
}

/// How a workload's cost is told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cost {
    /// Time for each of the N.
    Each,
    /// How many of the N in a second.
    Rate(&'static str),
    /// Time for all.
    Whole,
    /// Time of the process, from its start to its end.
    Process,
}

const SYNC: &str = "Annals: every step synced to the disk before anything follows from it. OpenRath: one line a step, \
                    never synced. LangGraph: a checkpoint a step, written in the background.";

/// All workloads, in the order of the page.
#[rustfmt::skip]
pub(crate) const ALL: &[Workload] = &[
    Workload { name: "rounds", title: "round of a model call and an in-process tool, in memory", cost: Cost::Each,
        sizes: &[10, 100, 1_000, 5_000], quick_sizes: &[100, 1_000], note: "Over 999 rounds, Annals takes several turns of one conversation." },
    Workload { name: "rounds-persisted", title: "the same, persisted", cost: Cost::Each,
        sizes: &[10, 100, 1_000, 5_000], quick_sizes: &[100], note: SYNC },
    Workload { name: "shell", title: "shell command `true` through the loop", cost: Cost::Each,
        sizes: &[200], quick_sizes: &[100], note: "Annals: isolated (namespaces, seccomp, Landlock). OpenRath: on the host, not isolated." },
    Workload { name: "command", title: "shell command `true` by itself", cost: Cost::Each,
        sizes: &[200], quick_sizes: &[100], note: "Annals: isolated. OpenRath: on the host, not isolated." },
    Workload { name: "file-read", title: "read a file of 1 KB in the sandbox", cost: Cost::Each,
        sizes: &[2_000], quick_sizes: &[500], note: "" },
    Workload { name: "file-write", title: "write a file of 1 KB in the sandbox", cost: Cost::Each,
        sizes: &[2_000], quick_sizes: &[500], note: "" },
    Workload { name: "streams-1", title: "file-exists on 1 stream", cost: Cost::Rate("operations/s"),
        sizes: &[20_000], quick_sizes: &[2_000], note: "" },
    Workload { name: "streams-8", title: "file-exists on 8 streams", cost: Cost::Rate("operations/s"),
        sizes: &[20_000], quick_sizes: &[2_000], note: "" },
    Workload { name: "sessions", title: "sessions of 10 calls, in memory", cost: Cost::Rate("sessions/s"),
        sizes: &[1_000], quick_sizes: &[200], note: "Annals and OpenRath: all at once. LangGraph: one after the other." },
    Workload { name: "sessions-persisted", title: "sessions of 10 calls, persisted", cost: Cost::Rate("sessions/s"),
        sizes: &[1_000], quick_sizes: &[200], note: SYNC },
    Workload { name: "in-flight", title: "sessions that each wait 100 ms for their model", cost: Cost::Whole,
        sizes: &[60], quick_sizes: &[60], note: "" },
    Workload { name: "parallel-writes", title: "calls in one answer that each write a file", cost: Cost::Whole,
        sizes: &[8], quick_sizes: &[8], note: "" },
    Workload { name: "records-write", title: "write records of 1 KB", cost: Cost::Whole,
        sizes: &[10_000], quick_sizes: &[10_000], note: "Annals: counts tokens, syncs every 100 records. OpenRath: one write a record, never synced. LangGraph: one checkpoint with all of them." },
    Workload { name: "records-load", title: "load records of 1 KB", cost: Cost::Whole,
        sizes: &[1_000, 10_000, 50_000], quick_sizes: &[10_000], note: "Annals: read and folded into a timeline. OpenRath, LangGraph: parsed into a list." },
    Workload { name: "storage", title: "round with a result of 1 KB, persisted", cost: Cost::Each,
        sizes: &[10, 100, 1_000], quick_sizes: &[100], note: SYNC },
    Workload { name: "start", title: "start of the process", cost: Cost::Process,
        sizes: &[1], quick_sizes: &[1], note: "Annals: `annals --version`. OpenRath, LangGraph: Python and the import." },
    Workload { name: "first-call", title: "start of the process and one persisted round", cost: Cost::Process,
        sizes: &[1], quick_sizes: &[1], note: "Annals loads its tokenizer in it." },
];

/// A system that can be asked.
pub(crate) struct System {
    pub(crate) name: &'static str,
    /// The program and what comes before the workload's name.
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    /// What only starts and ends.
    pub(crate) start: (PathBuf, Vec<String>),
}

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) is_quick: bool,
}

impl Effort {
    pub(crate) fn runs(self, workload: &Workload, n: u64) -> usize {
        let is_long = n >= 1_000 || matches!(workload.name, "sessions" | "sessions-persisted");
        match (self.is_quick, is_long) {
            (true, _) => 1,
            (false, true) => 3,
            (false, false) => 5,
        }
    }

    pub(crate) fn limit(self) -> Duration {
        Duration::from_secs(if self.is_quick { 8 } else { 60 })
    }
}

/// Every workload at every size.
pub(crate) fn sized(effort: Effort) -> impl Iterator<Item = (&'static Workload, u64)> + Clone {
    ALL.iter().flat_map(move |workload| {
        let sizes = match effort.is_quick {
            true => workload.quick_sizes,
            false => workload.sizes,
        };
        sizes.iter().map(move |n| (workload, *n))
    })
}

/// Measures every workload at every size.
pub(crate) fn measure_all(
    systems: &[System],
    scratch: &Path,
    effort: Effort,
) -> anyhow::Result<Vec<Measured>> {
    let total = sized(effort).count();
    let mut measured = Vec::new();
    for (at, (workload, n)) in sized(effort).enumerate() {
        let runs = effort.runs(workload, n);
        eprintln!("[{}/{total}] {}, n = {n}: {runs} × each", at + 1, workload.name);
        measured.extend(in_turns(systems, workload, n, runs, scratch, effort.limit())?);
    }
    Ok(measured)
}

/// Measures one workload at one size, `runs` times by each system.
pub(crate) fn in_turns(
    systems: &[System],
    workload: &Workload,
    n: u64,
    runs: usize,
    scratch: &Path,
    limit: Duration,
) -> anyhow::Result<Vec<Measured>> {
    let mut outcomes: Vec<Outcome> = systems.iter().map(|_| Outcome::Done(Vec::new())).collect();
    for _ in 0..runs {
        for (system, outcome) in systems.iter().zip(&mut outcomes) {
            // What failed once is not tried again: it would only take as long once more.
            let Outcome::Done(samples) = outcome else {
                continue;
            };
            match once(system, workload, n, scratch, limit)? {
                Outcome::Done(more) => samples.extend(more),
                other => *outcome = other,
            }
        }
    }
    let measured = systems.iter().zip(outcomes).map(|(system, outcome)| Measured {
        workload: workload.name.to_owned(),
        n,
        system: system.name.to_owned(),
        outcome,
    });
    Ok(measured.collect())
}

/// One process.
fn once(
    system: &System,
    workload: &Workload,
    n: u64,
    scratch: &Path,
    limit: Duration,
) -> anyhow::Result<Outcome> {
    const ABSENT: i32 = 3;
    let folder = scratch.join("run");
    let _ = std::fs::remove_dir_all(scratch);
    std::fs::create_dir_all(&folder)?;
    let is_start = workload.name == "start";
    let mut command = Command::new(if is_start {
        &system.start.0
    } else {
        &system.program
    });
    match is_start {
        true => command.args(&system.start.1),
        false => command
            .args(&system.arguments)
            .args([workload.name, &n.to_string()])
            .arg(&folder),
    };
    let ended = process::run(command, limit, Echo::Kept)?;
    Ok(match ended.end {
        End::OverTime => Outcome::OverTime(limit.as_secs()),
        End::Exited(ABSENT) => Outcome::Absent(true),
        End::Exited(0) => {
            let mut sample = match is_start {
                true => Sample::new(),
                false => numbers(ended.output.last().map_or("{}", |line| line))?,
            };
            sample.insert("process_wall_ns".into(), ended.wall.as_nanos() as u64);
            sample.insert("process_cpu_ns".into(), ended.cpu.as_nanos() as u64);
            Outcome::Done(vec![sample])
        }
        _ => Outcome::Failed(ended.last_words().to_owned()),
    })
}

/// The fields of a protocol line that are whole numbers.
fn numbers(line: &str) -> anyhow::Result<Sample> {
    let fields: Map<String, Value> = serde_json::from_str(line)?;
    let numbers = fields
        .into_iter()
        .filter_map(|(key, value)| Some((key, value.as_u64()?)));
    Ok(numbers.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(script: &str) -> System {
        System {
            name: "it",
            program: "sh".into(),
            arguments: vec!["-c".into(), script.into()],
            start: ("true".into(), Vec::new()),
        }
    }

    fn outcome(script: &str) -> Outcome {
        // A folder of this test's own, below the one that cargo gives to the whole build.
        let scratch =
            std::env::temp_dir().join(format!("annals-xtask-{}-{}", std::process::id(), script.len()));
        let mut measured =
            in_turns(&[system(script)], &ALL[0], 7, 2, &scratch, Duration::from_secs(1)).unwrap();
        std::fs::remove_dir_all(&scratch).unwrap();
        measured.remove(0).outcome
    }

    #[test]
    fn a_system_is_asked_by_name_and_size_and_answers_with_one_line() {
        let Outcome::Done(samples) = outcome(r#"echo '{"wall_ns": 12, "note": "x"}'; echo "$0 $1" >&2"#)
        else {
            panic!("it answers");
        };
        assert_eq!(samples.len(), 2);
        assert_eq!(samples[0].get("wall_ns"), Some(&12));
        assert!(samples[0].contains_key("process_wall_ns"));
    }

    #[test]
    fn absence_failure_and_delay_are_told_apart() {
        assert_eq!(outcome("exit 3"), Outcome::Absent(true));
        assert_eq!(
            outcome("echo went wrong: \"$0\" >&2; exit 1"),
            Outcome::Failed("went wrong: rounds".into())
        );
        assert_eq!(outcome("sleep 1000"), Outcome::OverTime(1));
    }
}
