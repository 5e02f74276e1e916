//! Instructions of the core's hot paths against a stored budget: a check that no noise of the machine can hide.
//!
//! Callgrind counts what `bench/core-paths` executes below its function `measured`. Only instructions of our own
//! program count; those of the C library depend on the processor it runs on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use annals_requirements::{Requirement, met, program};
use anyhow::{Context as _, bail};

use crate::process::{self, Echo};
use crate::repository::{cargo, programs, root};

const FILE: &str = "bench/budgets.toml";
const PACKAGE: &str = "annals-core-paths";
const LIMIT: Duration = Duration::from_secs(300);
const DEFAULT_TOLERANCE_PERCENT: u64 = 5;

/// Instructions by path, and how far a count may be above them.
#[derive(Debug, PartialEq, Eq)]
struct Budgets {
    tolerance_percent: u64,
    instructions: BTreeMap<String, u64>,
}

/// Counts and compares. Where valgrind is not installed, says so and does nothing, or fails in CI.
pub(crate) fn check(scratch: &Path) -> anyhow::Result<()> {
    if !met(Requirement::Valgrind) {
        return Ok(());
    }
    let valgrind = program("valgrind").context("valgrind has gone from the search path")?;
    let text = std::fs::read_to_string(root().join(FILE)).with_context(|| format!("cannot read `{FILE}`"))?;
    let budgets = Budgets::parse(&text)?;
    let counted = count_all(&valgrind, scratch)?;
    let findings = budgets.compare(&counted);
    for (path, count) in &counted {
        let budget = budgets
            .instructions
            .get(path)
            .map_or("none".to_owned(), u64::to_string);
        println!("budgets: {path:<18} {count:>10} instructions, budget {budget:>10}");
    }
    findings
        .remarks
        .iter()
        .for_each(|remark| println!("budgets: {remark}"));
    if !findings.faults.is_empty() {
        bail!(
            "{}\nif that is worth it: `cargo xtask bench --accept-budgets`, and say why in the commit",
            findings.faults.join("\n")
        );
    }
    Ok(())
}

/// Counts, and writes the counts down as the new budgets.
pub(crate) fn accept(scratch: &Path) -> anyhow::Result<()> {
    let valgrind =
        program("valgrind").context("budgets are counted with valgrind: apt-get install valgrind")?;
    let before = std::fs::read_to_string(root().join(FILE))
        .ok()
        .and_then(|text| Budgets::parse(&text).ok());
    let budgets = Budgets {
        tolerance_percent: before.map_or(DEFAULT_TOLERANCE_PERCENT, |before| before.tolerance_percent),
        instructions: count_all(&valgrind, scratch)?,
    };
    std::fs::write(root().join(FILE), budgets.text()).with_context(|| format!("cannot write `{FILE}`"))?;
    println!("wrote {FILE}");
    Ok(())
}

fn count_all(valgrind: &Path, scratch: &Path) -> anyhow::Result<BTreeMap<String, u64>> {
    let arguments = [
        "build",
        "--profile",
        "budget",
        "-p",
        PACKAGE,
        "--message-format=json-render-diagnostics",
    ];
    let built = programs(cargo(&arguments), "bin")?;
    let (_, paths) = built
        .first()
        .with_context(|| format!("cargo built no `{PACKAGE}`"))?;
    let mut list = Command::new(paths);
    list.arg("list");
    let names = process::run(list, LIMIT, Echo::Kept)?.output;
    std::fs::create_dir_all(scratch)?;
    names
        .into_iter()
        .map(|name| Ok((name.clone(), count(valgrind, paths, &name, scratch)?)))
        .collect()
}

fn count(valgrind: &Path, paths: &Path, name: &str, scratch: &Path) -> anyhow::Result<u64> {
    let profile: PathBuf = scratch.join(format!("{name}.callgrind"));
    let mut command = Command::new(valgrind);
    command
        .args([
            "--tool=callgrind",
            "--collect-atstart=no",
            "--toggle-collect=*::measured*",
            "--compress-strings=no",
        ])
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(paths)
        .arg(name);
    let ended = process::run(command, LIMIT, Echo::Kept)?;
    if !ended.ended_well() {
        bail!(
            "path `{name}` under valgrind ended with {:?}: {}",
            ended.end,
            ended.last_words()
        );
    }
    let text = std::fs::read_to_string(&profile)
        .with_context(|| format!("valgrind wrote no profile of `{name}`"))?;
    match own_instructions(&text, PACKAGE) {
        0 => bail!("path `{name}`: nothing was counted below `measured`"),
        count => Ok(count),
    }
}

/// Instructions that a profile charges to functions of this program itself, not to libraries it loads.
fn own_instructions(profile: &str, program: &str) -> u64 {
    let (mut is_own, mut is_call, mut sum) = (false, false, 0);
    for line in profile.lines() {
        if let Some(object) = line.strip_prefix("ob=") {
            is_own = object.ends_with(program);
        } else if line.starts_with("calls=") {
            // The next line is what the call cost inclusively; the callee has its own lines.
            is_call = true;
        } else if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) {
            let cost = line
                .split_whitespace()
                .nth(1)
                .and_then(|cost| cost.parse::<u64>().ok());
            if is_own && !is_call {
                sum += cost.unwrap_or(0);
            }
            is_call = false;
        }
    }
    sum
}

/// What a comparison found.
#[derive(Debug, Default, PartialEq, Eq)]
struct Findings {
    faults: Vec<String>,
    remarks: Vec<String>,
}

impl Budgets {
    /// Lines `name = number`; the tolerance stands before the table of instructions.
    fn parse(text: &str) -> anyhow::Result<Budgets> {
        let mut budgets = Budgets {
            tolerance_percent: DEFAULT_TOLERANCE_PERCENT,
            instructions: BTreeMap::new(),
        };
        let lines = text
            .lines()
            .map(|line| line.split('#').next().unwrap_or_default().trim());
        for line in lines.filter(|line| !line.is_empty() && *line != "[instructions]") {
            let pair = line.split_once('=').and_then(|(name, number)| {
                Some((name.trim(), number.trim().replace('_', "").parse::<u64>().ok()?))
            });
            match pair {
                Some(("tolerance_percent", percent)) => budgets.tolerance_percent = percent,
                Some((name, number)) => drop(budgets.instructions.insert(name.to_owned(), number)),
                None => bail!("`{FILE}`: `{line}` is not `name = number`"),
            }
        }
        Ok(budgets)
    }

    fn text(&self) -> String {
        let mut text = format!(
            "# Instructions of the core's hot paths, counted by callgrind in `bench/core-paths`. Written by\n\
             # `cargo xtask bench --accept-budgets`; `cargo xtask test` compares. What a path may cost more\n\
             # before that fails:\n\
             tolerance_percent = {}\n\n[instructions]\n",
            self.tolerance_percent
        );
        for (name, number) in &self.instructions {
            text.push_str(&format!("{name} = {number}\n"));
        }
        text
    }

    fn compare(&self, counted: &BTreeMap<String, u64>) -> Findings {
        let mut findings = Findings::default();
        for (path, count) in counted {
            let Some(budget) = self.instructions.get(path) else {
                findings.faults.push(format!("path `{path}` has no budget"));
                continue;
            };
            let percent = *count as f64 / *budget as f64 * 100.0 - 100.0;
            if percent > self.tolerance_percent as f64 {
                let message = format!(
                    "path `{path}` costs {count} instructions, {percent:.1} % over its budget of {budget}"
                );
                findings.faults.push(message);
            } else if percent < -(self.tolerance_percent as f64) {
                let message = format!(
                    "path `{path}` costs {:.1} % less than its budget: accept that",
                    -percent
                );
                findings.remarks.push(message);
            }
        }
        let gone = self
            .instructions
            .keys()
            .filter(|path| !counted.contains_key(*path));
        findings
            .faults
            .extend(gone.map(|path| format!("path `{path}` has a budget and is gone")));
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
        pairs
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect()
    }

    #[test]
    fn budgets_read_back_as_they_were_written() {
        let budgets = Budgets {
            tolerance_percent: 7,
            instructions: counts(&[("append", 120), ("hide", 5)]),
        };
        assert_eq!(Budgets::parse(&budgets.text()).unwrap(), budgets);
        assert!(Budgets::parse("append = many").is_err());
    }

    #[test]
    fn what_costs_more_than_its_tolerance_is_a_fault_and_what_costs_less_a_remark() {
        let budgets = Budgets {
            tolerance_percent: 5,
            instructions: counts(&[("dear", 100), ("cheap", 100), ("same", 100), ("gone", 1)]),
        };
        let found = budgets.compare(&counts(&[
            ("dear", 106),
            ("cheap", 90),
            ("same", 105),
            ("new", 1),
        ]));
        assert_eq!(
            found.faults,
            [
                "path `dear` costs 106 instructions, 6.0 % over its budget of 100",
                "path `new` has no budget",
                "path `gone` has a budget and is gone",
            ]
        );
        assert_eq!(
            found.remarks,
            ["path `cheap` costs 10.0 % less than its budget: accept that"]
        );
    }

    #[test]
    fn only_instructions_of_the_program_itself_count() {
        let profile = "\
events: Ir\n\
ob=/lib/libc.so.6\nfl=a.c\nfn=memcpy\n10 1000\n\n\
ob=/t/annals-core-paths\nfl=b.rs\nfn=measured\n5 20\n+1 3\ncob=/lib/libc.so.6\ncfn=memcpy\ncalls=1 10\n6 1000\n-1 4\n* 2\n\n\
totals: 1029\n";
        assert_eq!(own_instructions(profile, "annals-core-paths"), 29);
    }
}
