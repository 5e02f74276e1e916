//! `docs/performance.md` and the pictures in it, made from one run.

use anyhow::Context as _;

use super::chart::{Chart, Series};
use super::run::{Measured, Outcome, Run};
use super::table::{self, SYSTEMS};
use super::workload;
use crate::repository::root;

/// Where the run that the page shows is kept.
pub(crate) const RUN: &str = "bench/run.json";
const PAGE: &str = "docs/performance.md";
const PICTURES: &str = "docs/img";

/// Writes the run, the page and its pictures.
pub(crate) fn write(run: &Run) -> anyhow::Result<()> {
    let mut drawn = Vec::new();
    for (name, chart) in charts(run) {
        if let Some(svg) = chart.svg() {
            save(&format!("{PICTURES}/{name}.svg"), &svg)?;
            drawn.push((name, chart.title));
        }
    }
    save(RUN, &run.to_text())?;
    save(PAGE, &page(run, &drawn))
}

fn save(name: &str, text: &str) -> anyhow::Result<()> {
    let path = root().join(name);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(&path, text).with_context(|| format!("cannot write `{name}`"))?;
    println!("wrote {name}");
    Ok(())
}

fn page(run: &Run, drawn: &[(&str, String)]) -> String {
    let fact = |name: &str| {
        let found = run.machine.iter().find(|(key, _)| key == name);
        found.map_or("unknown", |(_, value)| value).to_owned()
    };
    let mut page = format!(
        "# Performance\n\nMade by `cargo xtask bench --peers --docs` from a run of {}{}, kept in `{RUN}`. Change the \
         benchmarks, not this page.\n",
        fact("date"),
        if run.is_quick {
            " (a quick one: few repetitions)"
        } else {
            ""
        },
    );
    page.push_str(
        "\nTimes are the least of several runs, with the median and the processor time (CPU) behind it. The machine is \
         small, virtual and shared, so absolute times drift from run to run; ratios are of processes that ran in \
         turns, and say more.\n",
    );
    page.push_str("\n## Targets\n\n");
    let missed = run
        .figures
        .iter()
        .filter(|figure| figure.is_met() == Some(false))
        .count();
    let judged = run
        .figures
        .iter()
        .filter(|figure| figure.is_met().is_some())
        .count();
    page.push_str(&format!(
        "{} of {judged} met, {missed} missed.\n\n",
        judged - missed
    ));
    page.push_str(&table::targets(run).markdown());
    let others = table::others(run);
    if !others.is_empty() {
        page.push_str("\nWithout a target:\n\n");
        page.push_str(&others.markdown());
    }
    if !run.measured.is_empty() {
        page.push_str(&side_by_side(run));
    }
    if !drawn.is_empty() {
        page.push_str("\n## Growth\n\nBoth axes are logarithmic: a level line is a cost that does not grow with length.\n");
        for (name, title) in drawn {
            page.push_str(&format!("\n![{title}](img/{name}.svg)\n"));
        }
    }
    page.push_str("\n## Machine and versions\n\n| what | |\n|---|---|\n");
    for (key, value) in &run.machine {
        page.push_str(&format!("| {key} | {value} |\n"));
    }
    page.push_str(
        "\n## Again\n\n```sh\ncargo xtask bench --peers --json run.json    # some 15 minutes, besides building; \
         --quick is for a look\ncargo xtask bench --from run.json --docs    # this page from it\n```\n\nOther systems \
         are installed into an environment of their own below the target folder (`python3 -m venv`, pip). What is done \
         on each side is in `bench/workload` and `bench/peers`.\n",
    );
    page
}

fn side_by_side(run: &Run) -> String {
    let mut text = String::from(
        "\n## Side by side\n\nThe same work, done in turns by a process each: an in-process model that answers at once, \
         and a tool that adds one. The ratio says how many times as fast Annals is; below 1 it is slower. Nothing is \
         tuned: each system is used as it ships, through its public interface.\n\n",
    );
    text.push_str(&table::side_by_side(run).markdown());
    text.push_str("\nNot the same on all sides:\n\n");
    for workload in workload::ALL.iter().filter(|workload| !workload.note.is_empty()) {
        if !run.sizes(workload.name).is_empty() {
            text.push_str(&format!("- {}: {}\n", workload.title, workload.note));
        }
    }
    text.push_str("\nBesides time:\n\n");
    text.push_str(&table::beside_time(run).markdown());
    let slower = table::slower(run);
    if !slower.is_empty() {
        text.push_str("\nWhere Annals is slower:\n\n");
        slower
            .iter()
            .for_each(|line| text.push_str(&format!("- {line}\n")));
    }
    text
}

/// The growth curves that a run has the points for.
fn charts(run: &Run) -> Vec<(&'static str, Chart)> {
    let each = |found: &Measured| Some(found.least("wall_ns")? as f64 / found.n as f64 / 1e3);
    let whole = |found: &Measured| Some(found.least("wall_ns")? as f64 / 1e6);
    vec![
        (
            "growth-rounds",
            grown(
                run,
                "rounds",
                "Cost of a round, in memory",
                "rounds in the conversation",
                "µs a round",
                &each,
            ),
        ),
        (
            "growth-rounds-persisted",
            grown(
                run,
                "rounds-persisted",
                "Cost of a round, persisted (only Annals syncs every step)",
                "rounds in the conversation",
                "µs a round",
                &each,
            ),
        ),
        (
            "growth-storage",
            grown(
                run,
                "storage",
                "Room on disk",
                "rounds with a result of 1 KB",
                "bytes on disk per byte of payload",
                &table::per_payload,
            ),
        ),
        (
            "growth-load",
            grown(
                run,
                "records-load",
                "Loading a conversation",
                "records of 1 KB",
                "ms",
                &whole,
            ),
        ),
        ("growth-core", core(run)),
    ]
}

/// How a cost of each system grows with the size of a workload.
fn grown(
    run: &Run,
    workload: &str,
    title: &str,
    x_label: &str,
    y_label: &str,
    cost: &dyn Fn(&Measured) -> Option<f64>,
) -> Chart {
    let series = SYSTEMS.map(|(system, name)| {
        let point = |n: u64| Some((n as f64, cost(run.find(workload, n, system)?)?));
        Series {
            name: format!("{name}{}", given_up(run, workload, system)),
            points: run.sizes(workload).into_iter().filter_map(point).collect(),
        }
    });
    Chart {
        title: title.to_owned(),
        x_label: x_label.to_owned(),
        y_label: y_label.to_owned(),
        series: series
            .into_iter()
            .filter(|series| series.points.len() > 1)
            .collect(),
    }
}

/// Where a line ends because the system was not done in time.
fn given_up(run: &Run, workload: &str, system: &str) -> String {
    let over = run
        .sizes(workload)
        .into_iter()
        .find_map(|n| match run.find(workload, n, system)?.outcome {
            Outcome::OverTime(seconds) => Some((n, seconds)),
            _ => None,
        });
    over.map_or(String::new(), |(n, seconds)| {
        format!(" (over {seconds} s at {})", table::grouped(n))
    })
}

/// Operations of the core that were measured at several lengths: figures named `… at N blocks`.
fn core(run: &Run) -> Chart {
    let mut series: Vec<Series> = Vec::new();
    for figure in run
        .figures
        .iter()
        .filter(|figure| figure.bench == "core" && figure.unit == "µs")
    {
        let sized = figure
            .name
            .strip_suffix(" blocks")
            .and_then(|name| name.rsplit_once(" at "));
        let Some((name, Ok(n))) = sized.map(|(name, n)| (name, n.parse::<f64>())) else {
            continue;
        };
        let point = (n, figure.value);
        match series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => series.push(Series {
                name: name.to_owned(),
                points: vec![point],
            }),
        }
    }
    series.retain(|series| series.points.len() > 1);
    Chart {
        title: "Operations of the core".to_owned(),
        x_label: "blocks on the timeline".to_owned(),
        y_label: "µs".to_owned(),
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::super::run::tests::example;
    use super::*;

    #[test]
    fn the_page_says_what_is_missed_when_and_where() {
        let page = page(&example(), &[("growth-rounds", "Cost".into())]);
        for text in [
            "a run of 2026-11-16T01:00:00Z, kept",
            "1 of 2 met, 1 missed.",
            "| hide at 1000 blocks | 31 µs | ≤ 20 µs | MISSED |",
            "| prompt | 3 µs |",
            "| cores | 2 |",
            "![Cost](img/growth-rounds.svg)",
        ] {
            assert!(page.contains(text), "`{text}` is not in\n{page}");
        }
    }

    #[test]
    fn a_curve_needs_two_points() {
        let charts = charts(&example());
        let rounds = &charts
            .iter()
            .find(|(name, _)| *name == "growth-rounds")
            .unwrap()
            .1;
        let names: Vec<&str> = rounds.series.iter().map(|series| &*series.name).collect();
        assert_eq!(names, ["Annals"]);
        assert_eq!(rounds.series[0].points, [(10.0, 80.0), (100.0, 80.0)]);
    }
}
