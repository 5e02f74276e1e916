//! A run as tables: figures with their targets, and systems side by side. As text for a terminal, as markdown for the
//! page; both say the same.

use super::run::{Figure, Measured, Outcome, Run};
use super::workload::{self, Cost, Workload};

/// The systems in the order of the columns, with the names that people know.
pub(crate) const SYSTEMS: [(&str, &str); 3] = [
    ("annals", "Annals"),
    ("openrath", "OpenRath"),
    ("langgraph", "LangGraph"),
];

/// Rows of cells under a head.
pub(crate) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new(head: &[&str]) -> Self {
        Table {
            head: head.iter().map(|cell| (*cell).to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// For a terminal: columns aligned, the first to the left.
    pub(crate) fn text(&self) -> String {
        let width = |column: usize| {
            let cells = self
                .rows
                .iter()
                .chain([&self.head])
                .map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let line = |row: &Vec<String>| {
            let mut line = String::new();
            for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let padding = " ".repeat(width - cell.chars().count());
                match at {
                    0 => line.extend([cell, &*padding]),
                    _ => line.extend(["  ", &padding, cell]),
                }
            }
            line.trim_end().to_owned() + "\n"
        };
        [&self.head].into_iter().chain(&self.rows).map(line).collect()
    }

    pub(crate) fn markdown(&self) -> String {
        let line = |row: &Vec<String>| format!("| {} |\n", row.join(" | "));
        let rule = format!("|---{}|\n", "|---:".repeat(self.head.len() - 1));
        let rows: String = self.rows.iter().map(line).collect();
        line(&self.head) + &rule + &rows
    }
}

/// Every figure with a target, and whether it is met.
pub(crate) fn targets(run: &Run) -> Table {
    let mut table = Table::new(&["figure", "measured", "target", "verdict"]);
    for figure in &run.figures {
        let Some(is_met) = figure.is_met() else {
            continue;
        };
        let verdict = if is_met { "met" } else { "MISSED" };
        table.rows.push(vec![
            figure.name.clone(),
            quantity(figure.value, &figure.unit),
            target(figure),
            verdict.to_owned(),
        ]);
    }
    table
}

/// Every figure without a target.
pub(crate) fn others(run: &Run) -> Table {
    let mut table = Table::new(&["figure", "measured"]);
    let without = run.figures.iter().filter(|figure| figure.is_met().is_none());
    table
        .rows
        .extend(without.map(|figure| vec![figure.name.clone(), quantity(figure.value, &figure.unit)]));
    table
}

fn target(figure: &Figure) -> String {
    let bound = |sign: &str, value: Option<f64>| {
        value.map(|value| format!("{sign} {}", quantity(value, &figure.unit)))
    };
    let bounds = [bound("≤", figure.at_most), bound("≥", figure.at_least)];
    bounds.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Every workload at every size, the systems side by side, with the ratio of the least wall times.
pub(crate) fn side_by_side(run: &Run) -> Table {
    let mut table = Table::new(&["work", "n", "Annals", "OpenRath", "ratio", "LangGraph", "ratio"]);
    for workload in workload::ALL {
        for n in run.sizes(workload.name) {
            let [ours, openrath, langgraph] = SYSTEMS.map(|(system, _)| run.find(workload.name, n, system));
            table.rows.push(vec![
                workload.title.to_owned(),
                grouped(n),
                cost(ours, workload),
                cost(openrath, workload),
                ratio(ours, openrath, workload),
                cost(langgraph, workload),
                ratio(ours, langgraph, workload),
            ]);
        }
    }
    table
}

/// What is not time: memory, disk, calls in flight.
pub(crate) fn beside_time(run: &Run) -> Table {
    let mut table = Table::new(&["what", "n", "Annals", "OpenRath", "LangGraph"]);
    let mut add = |what: &str, workload: &str, value: &dyn Fn(&Measured) -> Option<String>| {
        for n in run.sizes(workload) {
            let cells = SYSTEMS.map(|(system, _)| match run.find(workload, n, system) {
                Some(found) => value(found).unwrap_or_else(|| absence(found)),
                None => "–".to_owned(),
            });
            table
                .rows
                .push([what.to_owned(), grouped(n)].into_iter().chain(cells).collect());
        }
    };
    let each = |found: &Measured| {
        Some(quantity(
            found.median("rss_bytes")? as f64 / found.n as f64 / 1_000.0,
            "KB",
        ))
    };
    add(
        "memory of a session at rest (10 calls), in memory",
        "sessions",
        &each,
    );
    add(
        "memory of a session at rest (10 calls), persisted",
        "sessions-persisted",
        &each,
    );
    add("bytes on disk per byte of payload", "storage", &|found| {
        Some(quantity(per_payload(found)?, "×"))
    });
    add("model calls in flight at once", "in-flight", &|found| {
        Some(grouped(found.median("in_flight")?))
    });
    table
}

/// Bytes on disk per byte of payload.
pub(crate) fn per_payload(found: &Measured) -> Option<f64> {
    Some(found.median("disk_bytes")? as f64 / found.median("payload_bytes")? as f64)
}

/// Work that another system does faster, in words.
pub(crate) fn slower(run: &Run) -> Vec<String> {
    let mut slower = Vec::new();
    for workload in workload::ALL {
        for n in run.sizes(workload.name) {
            for (system, name) in &SYSTEMS[1..] {
                let (ours, theirs) = (
                    run.find(workload.name, n, "annals"),
                    run.find(workload.name, n, system),
                );
                if let Some(ratio) = times_faster(ours, theirs, workload).filter(|ratio| *ratio < 1.0) {
                    let n = grouped(n);
                    slower.push(format!(
                        "{}, n = {n}: {name} is {:.1} times as fast",
                        workload.title,
                        1.0 / ratio
                    ));
                }
            }
        }
    }
    slower
}

fn clock(workload: &Workload) -> (&'static str, &'static str) {
    match workload.cost {
        Cost::Process => ("process_wall_ns", "process_cpu_ns"),
        Cost::Each | Cost::Rate(_) | Cost::Whole => ("wall_ns", "cpu_ns"),
    }
}

/// How many times as fast the first is as the second.
pub(crate) fn times_faster(
    ours: Option<&Measured>,
    theirs: Option<&Measured>,
    workload: &Workload,
) -> Option<f64> {
    let (wall, _) = clock(workload);
    let (ours, theirs) = (ours?, theirs?);
    let each = |found: &Measured| Some(found.least(wall)? as f64 / found.n as f64);
    Some(each(theirs)? / each(ours)?)
}

fn ratio(ours: Option<&Measured>, theirs: Option<&Measured>, workload: &Workload) -> String {
    match times_faster(ours, theirs, workload) {
        Some(ratio) => quantity(ratio, "×"),
        None => "–".to_owned(),
    }
}

/// The least, with the middle and the processor time behind it.
fn cost(found: Option<&Measured>, workload: &Workload) -> String {
    let Some(found) = found else {
        return "–".to_owned();
    };
    let (wall, cpu) = clock(workload);
    let (Some(least), Some(median)) = (found.least(wall), found.median(wall)) else {
        return absence(found);
    };
    let tell = |nanos: u64| match workload.cost {
        Cost::Each => time(nanos as f64 / found.n as f64),
        Cost::Rate(unit) => quantity(found.n as f64 / (nanos as f64 / 1e9), unit),
        Cost::Whole | Cost::Process => time(nanos as f64),
    };
    let short = |nanos: u64| match workload.cost {
        Cost::Rate(_) => grouped((found.n as f64 / (nanos as f64 / 1e9)) as u64),
        _ => tell(nanos),
    };
    let each = if matches!(workload.cost, Cost::Each | Cost::Rate(_)) {
        found.n
    } else {
        1
    };
    let cpu = found.least(cpu).map_or(String::new(), |cpu| {
        format!(", CPU {}", time(cpu as f64 / each as f64))
    });
    format!("{} (median {}{cpu})", tell(least), short(median))
}

fn absence(found: &Measured) -> String {
    match &found.outcome {
        Outcome::Done(_) => "–".to_owned(),
        Outcome::OverTime(seconds) if found.workload == "parallel-writes" => {
            format!("stuck: not done after {seconds} s")
        }
        Outcome::OverTime(seconds) => format!("not done after {seconds} s"),
        Outcome::Absent => "has none".to_owned(),
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
pub(crate) fn quantity(value: f64, unit: &str) -> String {
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
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::super::run::tests::example;
    use super::*;

    #[test]
    fn targets_say_plainly_what_is_missed() {
        assert_eq!(
            targets(&example()).text(),
            "figure                    measured   target  verdict\n\
             one round at 1000 blocks   8.25 µs  ≤ 50 µs      met\n\
             hide at 1000 blocks          31 µs  ≤ 20 µs   MISSED\n"
        );
    }

    #[test]
    fn systems_stand_side_by_side_with_what_they_could_not_do() {
        let page = side_by_side(&example()).markdown();
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
    fn numbers_have_three_digits_that_matter() {
        let shown = [0.1234, 1.0, 9.999, 12.34, 123.4, 1234.5, 1_234_567.0].map(|value| quantity(value, "x"));
        assert_eq!(
            shown,
            [
                "0.12 x",
                "1 x",
                "10.0 x",
                "12.3 x",
                "123 x",
                "1,235 x",
                "1,234,567 x"
            ]
        );
        assert_eq!(time(1_500_000.0), "1.50 ms");
        assert_eq!(quantity(121_300.0, "µs"), "121 ms");
    }
}
