//! Two builds of `annals-workload`, one of them of another commit, in turns: no row may have become more than a tenth dearer, in
//! processor time or in instructions.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use annals_requirements::program;
use anyhow::{Context as _, ensure};

use super::report::{aligned, clock, head, time};
use super::run::{Measured, Outcome};
use super::workload::{self, Effort, System};
use crate::process::{self, Echo};

/// How many times as dear a row may be.
const AT_MOST: f64 = 1.10;
/// A row that looks dearer is measured this often before it counts: other programs of the machine only ever add time.
const ROUNDS: usize = 3;
/// Workloads whose instructions are counted, which valgrind can run: their size, and what another as many cost is the count, so that
/// the start of the process is not in it.
const COUNTED: [(&str, u64); 5] = [
    ("rounds", 100),
    ("rounds-persisted", 50),
    ("sessions", 20),
    ("records-write", 1_000),
    ("records-load", 1_000),
];
const COUNT_LIMIT: Duration = Duration::from_secs(600);

/// One row: what it cost before and now.
struct Row {
    name: String,
    unit: &'static str,
    old: u64,
    new: u64,
}

impl Row {
    fn ratio(&self) -> f64 {
        self.new as f64 / self.old.max(1) as f64
    }
}

/// Compares the workloads of these names, or all.
pub(crate) fn run(
    programs: [PathBuf; 2],
    names: &[String],
    scratch: &Path,
    effort: Effort,
) -> anyhow::Result<()> {
    let systems = ["old", "new"]
        .into_iter()
        .zip(programs)
        .map(|(name, program)| System {
            name,
            start: (program.clone(), vec!["--version".to_owned()]),
            program,
            arguments: Vec::new(),
        });
    let systems: Vec<System> = systems.collect();
    let is_named = |name: &str| names.is_empty() || names.iter().any(|part| name.contains(part.as_str()));
    let mut rows = Vec::new();
    for (workload, n) in workload::sized(effort) {
        // That is a start of the command line, which is not what is compared.
        if workload.name != "start" && is_named(workload.name) {
            eprintln!("{}, n = {n}", workload.name);
            rows.push(processor_time(&systems, workload, n, scratch, effort)?);
        }
    }
    match program("valgrind") {
        Some(valgrind) => {
            for (name, n) in COUNTED.into_iter().filter(|(name, _)| is_named(name)) {
                eprintln!("{name}, n = {n}, instructions");
                rows.push(instructions(&valgrind, &systems, name, n, scratch)?);
            }
        }
        None => println!("no instructions are counted: apt-get install valgrind"),
    }
    ensure!(
        !rows.is_empty(),
        "no workload has {} in its name",
        names.join(" or ")
    );
    judge(&rows)
}

fn processor_time(
    systems: &[System],
    workload: &workload::Workload,
    n: u64,
    scratch: &Path,
    effort: Effort,
) -> anyhow::Result<Row> {
    let (_, cpu) = clock(workload);
    let mut row = Row {
        name: format!("{}, n = {n}", workload.title),
        unit: "ns",
        old: u64::MAX,
        new: u64::MAX,
    };
    for _ in 0..ROUNDS {
        let runs = effort.runs(workload, n);
        let measured = workload::in_turns(systems, workload, n, runs, scratch, effort.limit())?;
        let [old, new] = &measured[..] else { break };
        row.old = row.old.min(least(old, cpu)?);
        row.new = row.new.min(least(new, cpu)?);
        if row.ratio() <= AT_MOST {
            break;
        }
    }
    Ok(row)
}

fn least(measured: &Measured, key: &str) -> anyhow::Result<u64> {
    let what = || format!("`{}` of the {} program", measured.workload, measured.system);
    if let Outcome::Failed(why) = &measured.outcome {
        anyhow::bail!("{} failed: {why}", what());
    }
    measured
        .least(key)
        .with_context(|| format!("{} was not done: {:?}", what(), measured.outcome))
}

fn instructions(
    valgrind: &Path,
    systems: &[System],
    name: &str,
    n: u64,
    scratch: &Path,
) -> anyhow::Result<Row> {
    let [old, new] = systems else {
        anyhow::bail!("two programs are compared");
    };
    let more = |system: &System| {
        let [once, twice] = [n, 2 * n].map(|n| count(valgrind, &system.program, name, n, scratch));
        anyhow::Ok(twice?.saturating_sub(once?))
    };
    Ok(Row {
        name: format!("{name}, n = {n}"),
        unit: "instructions",
        old: more(old)?,
        new: more(new)?,
    })
}

fn count(valgrind: &Path, program: &Path, name: &str, n: u64, scratch: &Path) -> anyhow::Result<u64> {
    let folder = scratch.join("run");
    let _ = std::fs::remove_dir_all(scratch);
    std::fs::create_dir_all(&folder)?;
    let profile = scratch.join("callgrind");
    let mut command = Command::new(valgrind);
    command
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(program)
        .args([name, &n.to_string()])
        .arg(&folder);
    let ended = process::run(command, COUNT_LIMIT, Echo::Kept)?;
    ensure!(
        ended.ended_well(),
        "`{name}` under valgrind ended with {:?}: {}",
        ended.end,
        ended.last_words()
    );
    let profile = std::fs::read_to_string(&profile)?;
    let totals = profile.lines().find_map(|line| line.strip_prefix("totals: "));
    totals
        .and_then(|count| count.trim().parse().ok())
        .with_context(|| format!("valgrind counted nothing in `{name}`"))
}

/// Prints the rows, and fails if one of them is too dear.
fn judge(rows: &[Row]) -> anyhow::Result<()> {
    let mut table = head(&["work", "old", "new", "ratio"]);
    for row in rows {
        let shown = |value: u64| match row.unit {
            "ns" => format!("CPU {}", time(value as f64)),
            unit => format!("{value} {unit}"),
        };
        table.push(vec![
            row.name.clone(),
            shown(row.old),
            shown(row.new),
            format!("{:.3}", row.ratio()),
        ]);
    }
    println!("\n{}", aligned(&table));
    let dear = rows.iter().filter(|row| row.ratio() > AT_MOST);
    let dear: Vec<&str> = dear.map(|row| row.name.as_str()).collect();
    ensure!(
        dear.is_empty(),
        "more than {:.0} % dearer: {}",
        (AT_MOST - 1.0) * 100.0,
        dear.join("; ")
    );
    println!("no row is more than {:.0} % dearer", (AT_MOST - 1.0) * 100.0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, old: u64, new: u64) -> Row {
        Row {
            name: name.into(),
            unit: "ns",
            old,
            new,
        }
    }

    #[test]
    fn a_row_that_is_more_than_a_tenth_dearer_fails_and_is_named() {
        judge(&[row("same", 100, 110), row("cheaper", 100, 10)]).unwrap();
        let error = judge(&[row("same", 100, 100), row("dear", 100, 111)]).unwrap_err();
        assert_eq!(error.to_string(), "more than 10 % dearer: dear");
    }

    #[test]
    fn both_programs_are_asked_and_the_least_of_several_runs_counts() {
        let folder = std::env::temp_dir().join(format!("annals-xtask-against-{}", std::process::id()));
        let system = |name, cpu: u64| System {
            name,
            program: "sh".into(),
            arguments: vec!["-c".into(), format!("echo '{{\"cpu_ns\": {cpu}}}'")],
            start: ("true".into(), Vec::new()),
        };
        let measure = |old, new| {
            let systems = [system("old", old), system("new", new)];
            let effort = Effort { is_quick: true };
            processor_time(&systems, &workload::ALL[0], 7, &folder, effort).unwrap()
        };
        let (dear, same) = (measure(100, 150), measure(100, 100));
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!((dear.old, dear.new), (100, 150));
        assert!(judge(&[dear]).is_err());
        judge(&[same]).unwrap();
    }
}
