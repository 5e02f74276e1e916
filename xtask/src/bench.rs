//! `cargo xtask bench`: the benchmarks of all crates, one after the other, since they share the machine.
//!
//! A benchmark is a program that prints a table; nothing here measures. With `--quick` it finds `ANNALS_BENCH_QUICK`
//! set, and may do less.

mod machine;

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use crate::Usage;
use crate::flags::Flags;
use crate::json::Json;
use crate::repository::{cargo, crates};
use crate::stage::seconds;

const QUICK: &str = "ANNALS_BENCH_QUICK";

/// A benchmark of a crate.
struct Bench {
    package: String,
    name: String,
    file: PathBuf,
}

/// A table, as it was printed.
struct Table {
    lines: Vec<String>,
    took: Duration,
    ended_well: bool,
}

/// Runs the benchmarks.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let mut flags = Flags::new(arguments);
    if flags.switch("--peers") {
        let planned = "`--peers` is planned and not built yet: other systems are not measured here";
        return Err(Usage(planned.to_owned()).into());
    }
    let is_quick = flags.switch("--quick");
    let file = flags.value("--json")?;
    let names = flags.names()?;
    let benches = chosen(discover()?, &names);
    ensure!(
        !benches.is_empty(),
        "no benchmark has {} in its name",
        names.join(" or ")
    );
    let mut tables = Vec::new();
    for bench in &benches {
        tables.push(measure(bench, is_quick)?);
    }
    report(&benches, &tables);
    if let Some(file) = file {
        let json = record(&benches, &tables, is_quick);
        std::fs::write(&file, format!("{json}\n")).with_context(|| format!("cannot write `{file}`"))?;
        println!("written to {file}");
    }
    let failed: Vec<&str> = benches
        .iter()
        .zip(&tables)
        .filter(|(_, table)| !table.ended_well)
        .map(|(bench, _)| &*bench.name)
        .collect();
    if !failed.is_empty() {
        bail!("benchmarks that did not end well: {}", failed.join(", "));
    }
    Ok(())
}

fn discover() -> anyhow::Result<Vec<Bench>> {
    let mut benches = Vec::new();
    for krate in crates()? {
        let Ok(entries) = std::fs::read_dir(krate.folder.join("benches")) else {
            continue;
        };
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.sort();
        for file in files
            .into_iter()
            .filter(|file| file.extension().is_some_and(|extension| extension == "rs"))
        {
            let name = file
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            benches.push(Bench {
                package: krate.name.clone(),
                name,
                file,
            });
        }
    }
    Ok(benches)
}

fn chosen(benches: Vec<Bench>, names: &[String]) -> Vec<Bench> {
    let is_chosen = |bench: &Bench| {
        names.is_empty()
            || names
                .iter()
                .any(|name| bench.package.contains(&**name) || bench.name.contains(&**name))
    };
    benches.into_iter().filter(is_chosen).collect()
}

/// Runs one benchmark, showing its lines as they come.
fn measure(bench: &Bench, is_quick: bool) -> anyhow::Result<Table> {
    println!("\n== {} / {}", bench.package, bench.name);
    let has_short_form = std::fs::read_to_string(&bench.file).is_ok_and(|source| source.contains(QUICK));
    if is_quick && !has_short_form {
        println!("   (no short form: runs in full)");
    }
    let mut command = cargo(&["bench", "-p", &bench.package, "--bench", &bench.name]);
    command.stdout(Stdio::piped()).stdin(Stdio::null());
    if is_quick {
        command.env(QUICK, "1");
    }
    let started = Instant::now();
    let mut process = command.spawn().context("cannot start cargo")?;
    let output = process.stdout.take().context("no output to read")?;
    let mut lines = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line.context("the table is not UTF-8")?;
        println!("{line}");
        lines.push(line);
    }
    let ended_well = process.wait().context("cannot wait for the benchmark")?.success();
    Ok(Table {
        lines,
        took: started.elapsed(),
        ended_well,
    })
}

fn report(benches: &[Bench], tables: &[Table]) {
    println!("\n== together");
    for (bench, table) in benches.iter().zip(tables) {
        let missed = table.lines.iter().filter(|line| is_miss(line)).count();
        let verdict = match (table.ended_well, missed) {
            (false, _) => "did not end well".to_owned(),
            (true, 0) => String::new(),
            (true, missed) => format!("{missed} targets missed"),
        };
        println!(
            "{:<28} {:>10}  {verdict}",
            format!("{} / {}", bench.package, bench.name),
            seconds(table.took)
        );
    }
    for (bench, table) in benches.iter().zip(tables) {
        table
            .lines
            .iter()
            .filter(|line| is_miss(line))
            .for_each(|line| println!("missed: {}: {line}", bench.name));
    }
}

/// Benchmarks mark a row whose target was missed with one of these words.
fn is_miss(line: &str) -> bool {
    line.split_whitespace()
        .any(|word| word == "MISS" || word == "MISSED")
}

fn record(benches: &[Bench], tables: &[Table], is_quick: bool) -> Json {
    let tables = benches.iter().zip(tables).map(|(bench, table)| {
        let rows = table
            .lines
            .iter()
            .filter(|line| !line.trim().is_empty())
            .map(|line| cells(line));
        Json::Object(vec![
            ("crate".into(), Json::text(&bench.package)),
            ("bench".into(), Json::text(&bench.name)),
            (
                "seconds_with_build".into(),
                Json::Number(format!("{:.1}", table.took.as_secs_f64())),
            ),
            ("ended_well".into(), Json::Bool(table.ended_well)),
            ("rows".into(), Json::List(rows.collect())),
        ])
    });
    Json::Object(vec![
        ("quick".into(), Json::Bool(is_quick)),
        ("machine".into(), machine::facts()),
        ("benches".into(), Json::List(tables.collect())),
    ])
}

/// A line of a table as its cells: what stands between two spaces or more.
fn cells(line: &str) -> Json {
    let cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
    Json::List(cells.map(Json::text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_table_becomes_its_cells() {
        assert_eq!(
            cells("round at 50k     38.1 µs   50 µs  pass").to_string(),
            r#"["round at 50k", "38.1 µs", "50 µs", "pass"]"#
        );
    }

    #[test]
    fn only_a_mark_of_its_own_is_a_miss() {
        assert!(is_miss("hide   31 µs  20 µs  MISS"));
        assert!(!is_miss("cache MISSES   3"));
    }
}
