//! A run for people: tables for a terminal, and `docs/performance.md` with its curves. Both say the same.

use anyhow::Context as _;

use super::chart::{Chart, Series};
use super::run::{Figure, Measured, Outcome, Run};
use super::workload::{self, Cost, Workload};
use crate::repository::root;

/// The systems in the order of the columns, with the names that people know.
const SYSTEMS: [(&str, &str); 3] = [
    ("annals", "Annals"),
    ("openrath", "OpenRath"),
    ("langgraph", "LangGraph"),
];
const NONE: &str = "–";

/// Prints a run, and what it missed.
pub(crate) fn show(run: &Run) {
    for (title, rows) in [
        ("figures without a target", others(run)),
        (
            "side by side (ratio: how many times as fast Annals is)",
            side_by_side(run),
        ),
        ("besides time", beside_time(run)),
        ("figures and their targets", targets(run)),
    ] {
        if rows.len() > 1 {
            println!("\n{title}\n\n{}", aligned(&rows));
        }
    }
    slower(run).iter().for_each(|line| println!("slower: {line}"));
    println!("{} targets missed", missed(run));
}

/// Writes the run, the page and its curves.
pub(crate) fn write(run: &Run) -> anyhow::Result<()> {
    let save = |name: &str, text: &str| {
        std::fs::write(root().join(name), text).with_context(|| format!("cannot write `{name}`"))?;
        println!("wrote {name}");
        anyhow::Ok(())
    };
    let mut curves = String::new();
    for (name, chart) in charts(run) {
        if let Some(svg) = chart.svg() {
            save(&format!("docs/img/{name}.svg"), &svg)?;
            curves += &format!("\n![{}](img/{name}.svg)\n", chart.title);
        }
    }
    save("bench/run.json", &run.to_text()?)?;
    save("docs/performance.md", &page(run, &curves))
}

fn page(run: &Run, curves: &str) -> String {
    let fact = |name: &str| {
        run.machine
            .get(name)
            .and_then(|value| value.as_str())
            .unwrap_or("unknown")
    };
    let quick = match run.is_quick {
        true => " (a quick one: few repetitions)",
        false => "",
    };
    let judged = run.figures.iter().filter(|figure| figure.is_met().is_some());
    let judged = judged.count();
    let mut page = format!(
        "# Performance\n\nMade by `cargo xtask bench --peers --builds --docs` from a run of {}{quick}, kept in `bench/run.json`. \
         Change the benchmarks, not this page.\n\nTimes are the least of several runs, with the median and the processor \
         time (CPU) behind it. The machine is small, virtual and shared, so absolute times drift from run to run; ratios \
         are of processes that ran in turns, and say more.\n\n## Targets\n\n{} of {judged} met, {} missed.\n\n{}",
        fact("date"),
        judged - missed(run),
        missed(run),
        markdown(&targets(run)),
    );
    if others(run).len() > 1 {
        page += &format!("\nWithout a target:\n\n{}", markdown(&others(run)));
    }
    if !run.measured.is_empty() {
        page += &compared(run);
    }
    if !curves.is_empty() {
        page += &format!(
            "\n## Growth\n\nBoth axes are logarithmic: a level line is a cost that does not grow with length.\n{curves}"
        );
    }
    page += "\n## Machine and versions\n\n| what | |\n|---|---|\n";
    for (key, value) in &run.machine {
        page += &format!("| {key} | {} |\n", value.as_str().unwrap_or_default());
    }
    page + "\n## Again\n\n```sh\ncargo xtask bench --peers --builds --json run.json    # some 20 minutes, besides building; \
            --quick is for a look\ncargo xtask bench --from run.json --docs    # this page from it\n```\n\nOther systems are \
            installed into an environment of their own below the target folder (`python3 -m venv`, pip). What is done on \
            each side is in `bench/workload` and `bench/peers`.\n"
}

fn compared(run: &Run) -> String {
    let mut text = format!(
        "\n## Side by side\n\nThe same work, done in turns by a process each: an in-process model that answers at once, \
         and a tool that adds one. The ratio says how many times as fast Annals is; below 1 it is slower. Nothing is \
         tuned: each system is used as it ships, through its public interface.\n\n{}\nNot the same on all sides:\n\n",
        markdown(&side_by_side(run))
    );
    for workload in workload::ALL.iter().filter(|workload| !workload.note.is_empty()) {
        if !run.sizes(workload.name).is_empty() {
            text += &format!("- {}: {}\n", workload.title, workload.note);
        }
    }
    text += &format!("\nBesides time:\n\n{}", markdown(&beside_time(run)));
    let slower = slower(run);
    if !slower.is_empty() {
        text += &format!("\nWhere Annals is slower:\n\n- {}\n", slower.join("\n- "));
    }
    text
}

/// The targets of the project that compare with another system, as far as both sides were measured.
pub(crate) fn against(run: &Run) -> Vec<Figure> {
    let figure = |name: String, value: Option<f64>, unit: &str, at_most, at_least| {
        Some(Figure {
            bench: "peers".into(),
            name,
            value: value?,
            unit: unit.into(),
            at_most,
            at_least,
        })
    };
    let ratio = |ours: &str, theirs: &str| {
        let n = run.sizes(ours).pop()?;
        let workload = workload::ALL.iter().find(|workload| workload.name == ours)?;
        times_faster(
            run.find(ours, n, "annals"),
            run.find(theirs, n, "openrath"),
            workload,
        )
    };
    let of_ours = |workload: &str, key: &str| {
        let n = run.sizes(workload).pop()?;
        Some((n as f64, run.find(workload, n, "annals")?.median(key)? as f64))
    };
    let streams = |count: &str| format!("stream operations, {count}, against OpenRath");
    let held = of_ours("sessions-persisted", "rss_bytes");
    let flying = of_ours("in-flight", "in_flight");
    let sessions = flying.map_or(0.0, |(n, _)| n);
    [
        figure(
            streams("1 stream"),
            ratio("streams-1", "streams-1"),
            "×",
            None,
            Some(10.0),
        ),
        figure(
            streams("8 streams"),
            ratio("streams-8", "streams-8"),
            "×",
            None,
            Some(10.0),
        ),
        figure(
            "durable sessions of 10 calls against OpenRath's in memory".into(),
            ratio("sessions-persisted", "sessions"),
            "×",
            None,
            Some(20.0),
        ),
        figure(
            "memory of a durable session at rest, by resident memory".into(),
            held.map(|(n, bytes)| bytes / n / 1e3),
            "KB",
            Some(30.0),
            None,
        ),
        figure(
            format!("model calls in flight, of {sessions} sessions"),
            flying.map(|(_, most)| most),
            "calls",
            None,
            Some(sessions),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn missed(run: &Run) -> usize {
    let missed = run.figures.iter().filter(|figure| figure.is_met() == Some(false));
    missed.count()
}

/// A table: its head, then its rows.
pub(crate) type Rows = Vec<Vec<String>>;

pub(crate) fn head(cells: &[&str]) -> Rows {
    vec![cells.iter().map(|cell| (*cell).to_owned()).collect()]
}

/// For a terminal: columns aligned, the first to the left.
pub(crate) fn aligned(rows: &Rows) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = width(column).unwrap_or(0);
            match column {
                0 => line += &format!("{cell:<width$}"),
                _ => line += &format!("  {cell:>width$}"),
            }
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn markdown(rows: &Rows) -> String {
    let line = |row: &Vec<String>| format!("| {} |\n", row.join(" | "));
    let rule = format!("|---{}|\n", "|---:".repeat(rows[0].len() - 1));
    line(&rows[0]) + &rule + &rows[1..].iter().map(line).collect::<String>()
}

fn targets(run: &Run) -> Rows {
    let mut rows = head(&["figure", "measured", "target", "verdict"]);
    for figure in &run.figures {
        let Some(is_met) = figure.is_met() else { continue };
        let bound = |sign: &str, value: Option<f64>| {
            value.map(|value| format!("{sign} {}", quantity(value, &figure.unit)))
        };
        let bounds = [bound("≤", figure.at_most), bound("≥", figure.at_least)];
        rows.push(vec![
            figure.name.clone(),
            quantity(figure.value, &figure.unit),
            bounds.into_iter().flatten().collect::<Vec<_>>().join(", "),
            if is_met { "met" } else { "MISSED" }.to_owned(),
        ]);
    }
    rows
}

fn others(run: &Run) -> Rows {
    let mut rows = head(&["figure", "measured"]);
    let without = run.figures.iter().filter(|figure| figure.is_met().is_none());
    rows.extend(without.map(|figure| vec![figure.name.clone(), quantity(figure.value, &figure.unit)]));
    rows
}

/// Every workload at every size, with the ratio of the least wall times.
fn side_by_side(run: &Run) -> Rows {
    let mut rows = head(&["work", "n", "Annals", "OpenRath", "ratio", "LangGraph", "ratio"]);
    for workload in workload::ALL {
        for n in run.sizes(workload.name) {
            let [ours, openrath, langgraph] = SYSTEMS.map(|(system, _)| run.find(workload.name, n, system));
            let ratio = |theirs| {
                times_faster(ours, theirs, workload).map_or(NONE.into(), |ratio| quantity(ratio, "×"))
            };
            rows.push(vec![
                workload.title.to_owned(),
                grouped(n),
                cost(ours, workload),
                cost(openrath, workload),
                ratio(openrath),
                cost(langgraph, workload),
                ratio(langgraph),
            ]);
        }
    }
    rows
}

/// What is not time: memory, disk, calls in flight.
fn beside_time(run: &Run) -> Rows {
    type Value = fn(&Measured) -> Option<String>;
    let each: Value = |found| {
        Some(quantity(
            found.median("rss_bytes")? as f64 / found.n as f64 / 1e3,
            "KB",
        ))
    };
    let kinds: [(&str, &str, Value); 4] = [
        (
            "memory of a session at rest (10 calls), in memory",
            "sessions",
            each,
        ),
        (
            "memory of a session at rest (10 calls), persisted",
            "sessions-persisted",
            each,
        ),
        ("bytes on disk per byte of payload", "storage", |found| {
            Some(quantity(per_payload(found)?, "×"))
        }),
        ("model calls in flight at once", "in-flight", |found| {
            Some(grouped(found.median("in_flight")?))
        }),
    ];
    let mut rows = head(&["what", "n", "Annals", "OpenRath", "LangGraph"]);
    for (what, workload, value) in kinds {
        for n in run.sizes(workload) {
            let cells = SYSTEMS.map(|(system, _)| match run.find(workload, n, system) {
                Some(found) => value(found).unwrap_or_else(|| absence(found)),
                None => NONE.to_owned(),
            });
            rows.push([what.to_owned(), grouped(n)].into_iter().chain(cells).collect());
        }
    }
    rows
}

fn per_payload(found: &Measured) -> Option<f64> {
    Some(found.median("disk_bytes")? as f64 / found.median("payload_bytes")? as f64)
}

/// Work that another system does faster, in words.
fn slower(run: &Run) -> Vec<String> {
    let mut slower = Vec::new();
    for workload in workload::ALL {
        for n in run.sizes(workload.name) {
            let ours = run.find(workload.name, n, "annals");
            for (system, name) in &SYSTEMS[1..] {
                let ratio = times_faster(ours, run.find(workload.name, n, system), workload);
                if let Some(ratio) = ratio.filter(|ratio| *ratio < 1.0) {
                    let (title, n, times) = (workload.title, grouped(n), 1.0 / ratio);
                    slower.push(format!("{title}, n = {n}: {name} is {times:.1} times as fast"));
                }
            }
        }
    }
    slower
}

pub(crate) fn clock(workload: &Workload) -> (&'static str, &'static str) {
    match workload.cost {
        Cost::Process => ("process_wall_ns", "process_cpu_ns"),
        Cost::Each | Cost::Rate(_) | Cost::Whole => ("wall_ns", "cpu_ns"),
    }
}

/// How many times as fast the first is as the second.
fn times_faster(ours: Option<&Measured>, theirs: Option<&Measured>, workload: &Workload) -> Option<f64> {
    let (wall, _) = clock(workload);
    let each = |found: &Measured| Some(found.least(wall)? as f64 / found.n as f64);
    Some(each(theirs?)? / each(ours?)?)
}

/// The least, with the middle and the processor time behind it.
fn cost(found: Option<&Measured>, workload: &Workload) -> String {
    let Some(found) = found else {
        return NONE.to_owned();
    };
    let (wall, cpu) = clock(workload);
    let (Some(least), Some(median)) = (found.least(wall), found.median(wall)) else {
        return absence(found);
    };
    let rate = |nanos: u64| found.n as f64 / (nanos as f64 / 1e9);
    let each = match workload.cost {
        Cost::Each | Cost::Rate(_) => found.n as f64,
        Cost::Whole | Cost::Process => 1.0,
    };
    let (least, median) = match workload.cost {
        Cost::Rate(unit) => (quantity(rate(least), unit), grouped(rate(median) as u64)),
        _ => (time(least as f64 / each), time(median as f64 / each)),
    };
    let cpu = found.least(cpu).map(|cpu| time(cpu as f64 / each));
    let cpu = cpu.map_or(String::new(), |cpu| format!(", CPU {cpu}"));
    format!("{least} (median {median}{cpu})")
}

fn absence(found: &Measured) -> String {
    match &found.outcome {
        Outcome::Done(_) => NONE.to_owned(),
        Outcome::OverTime(seconds) if found.workload == "parallel-writes" => {
            format!("stuck: not done after {seconds} s")
        }
        Outcome::OverTime(seconds) => format!("not done after {seconds} s"),
        Outcome::Absent(_) => "has none".to_owned(),
        Outcome::Failed(why) => format!("failed: {}", why.replace('|', "/")),
    }
}

/// A time from nanoseconds, in the unit that reads best.
pub(crate) fn time(nanos: f64) -> String {
    let (value, unit) = match nanos {
        n if n < 1e3 => (n, "ns"),
        n if n < 1e6 => (n / 1e3, "µs"),
        n if n < 1e9 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    quantity(value, unit)
}

/// Three digits that matter, and the unit; long times in the unit that reads best.
fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "µs" if value >= 1e3 => return time(value * 1e3),
        "ms" if value >= 1e3 => return time(value * 1e6),
        _ => {}
    }
    let number = match value.abs() {
        v if v >= 999.5 => grouped(value.round() as u64),
        v if v >= 99.95 || v.fract() == 0.0 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    format!("{number} {unit}")
}

/// A whole number with its thousands apart.
fn grouped(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{},{:03}", grouped(number / 1_000), number % 1_000),
    }
}

/// The growth curves that a run has the points for.
fn charts(run: &Run) -> Vec<(&'static str, Chart)> {
    let each = |found: &Measured| Some(found.least("wall_ns")? as f64 / found.n as f64 / 1e3);
    let whole = |found: &Measured| Some(found.least("wall_ns")? as f64 / 1e6);
    let rounds = ["rounds in the conversation", "µs a round"];
    let grown = |workload, title: &str, labels: [&str; 2], cost: &dyn Fn(&Measured) -> Option<f64>| {
        let series = SYSTEMS.map(|(system, name)| {
            let point = |n: u64| Some((n as f64, cost(run.find(workload, n, system)?)?));
            Series {
                name: format!("{name}{}", given_up(run, workload, system)),
                points: run.sizes(workload).into_iter().filter_map(point).collect(),
            }
        });
        Chart::new(title, labels, series.into())
    };
    vec![
        (
            "growth-rounds",
            grown("rounds", "Cost of a round, in memory", rounds, &each),
        ),
        (
            "growth-rounds-persisted",
            grown(
                "rounds-persisted",
                "Cost of a round, persisted (only Annals syncs every step)",
                rounds,
                &each,
            ),
        ),
        (
            "growth-storage",
            grown(
                "storage",
                "Room on disk",
                [
                    "rounds with a result of 1 KB",
                    "bytes on disk per byte of payload",
                ],
                &per_payload,
            ),
        ),
        (
            "growth-load",
            grown(
                "records-load",
                "Loading a conversation",
                ["records of 1 KB", "ms"],
                &whole,
            ),
        ),
        ("growth-core", core(run)),
    ]
}

/// Where a line ends because the system was not done in time.
fn given_up(run: &Run, workload: &str, system: &str) -> String {
    let mut sizes = run.sizes(workload).into_iter();
    let over = sizes.find_map(|n| match run.find(workload, n, system)?.outcome {
        Outcome::OverTime(seconds) => Some(format!(" (over {seconds} s at {})", grouped(n))),
        _ => None,
    });
    over.unwrap_or_default()
}

/// Operations of the core that were measured at several lengths: figures named `… at N blocks`.
fn core(run: &Run) -> Chart {
    let mut series: Vec<Series> = Vec::new();
    let of_core = |figure: &&Figure| figure.bench == "core" && figure.unit == "µs";
    for figure in run.figures.iter().filter(of_core) {
        let sized = figure.name.strip_suffix(" blocks");
        let Some((name, n)) = sized.and_then(|name| name.rsplit_once(" at ")) else {
            continue;
        };
        let Ok(n) = n.parse::<f64>() else { continue };
        match series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push((n, figure.value)),
            None => series.push(Series {
                name: name.to_owned(),
                points: vec![(n, figure.value)],
            }),
        }
    }
    Chart::new("Operations of the core", ["blocks on the timeline", "µs"], series)
}

#[cfg(test)]
mod tests {
    use super::super::run::tests::example;
    use super::*;

    #[test]
    fn targets_say_plainly_what_is_missed() {
        assert_eq!(
            aligned(&targets(&example())),
            "figure                    measured   target  verdict\n\
             one round at 1000 blocks   8.25 µs  ≤ 50 µs      met\n\
             hide at 1000 blocks          31 µs  ≤ 20 µs   MISSED\n"
        );
    }

    #[test]
    fn systems_stand_side_by_side_with_what_they_could_not_do() {
        let page = markdown(&side_by_side(&example()));
        let rows: Vec<&str> = page.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| round of a model call and an in-process tool, in memory | 10 | 80 µs (median 90 µs, CPU 30 µs) | \
                 160 µs (median 160 µs, CPU 150 µs) | 2 × | – | – |",
                "| round of a model call and an in-process tool, in memory | 100 | 80 µs (median 80 µs, CPU 30 µs) | \
                 not done after 60 s | – | has none | – |",
            ]
        );
    }

    #[test]
    fn what_others_do_faster_is_named() {
        let mut run = example();
        assert!(slower(&run).is_empty());
        run.measured[1].outcome = run.measured[0].outcome.clone();
        run.measured[0].outcome = run.measured[2].outcome.clone();
        assert_eq!(
            slower(&run),
            [
                "round of a model call and an in-process tool, in memory, n = 10: OpenRath is 10.0 times as fast"
            ]
        );
    }

    #[test]
    fn a_comparison_needs_both_sides() {
        let mut run = example();
        let stream = |system: &str, wall| Measured {
            workload: "streams-1".into(),
            n: 100,
            system: system.into(),
            outcome: Outcome::Done(vec![[("wall_ns".to_owned(), wall)].into()]),
        };
        run.measured.push(stream("annals", 1_000));
        assert!(against(&run).is_empty());
        run.measured.push(stream("openrath", 30_000));
        let found = against(&run);
        assert_eq!((found[0].value, found[0].is_met()), (30.0, Some(true)));
    }

    #[test]
    fn numbers_have_three_digits_that_matter() {
        let shown = [0.1234, 1.0, 9.999, 12.34, 123.4, 1234.5, 1_234_567.0].map(|value| quantity(value, "x"));
        let expected = [
            "0.12 x",
            "1 x",
            "10.0 x",
            "12.3 x",
            "123 x",
            "1,235 x",
            "1,234,567 x",
        ];
        assert_eq!(shown, expected);
        assert_eq!(time(1_500_000.0), "1.50 ms");
        assert_eq!(quantity(121_300.0, "µs"), "121 ms");
    }
}
