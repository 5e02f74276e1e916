//! Figures that are a comparison with another system: the targets of the project that name one.

use super::run::{Figure, Run};
use super::table::times_faster;
use super::workload;

/// Such figures of a run, as far as both sides were measured.
pub(crate) fn figures(run: &Run) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (streams, workload) in [("1 stream", "streams-1"), ("8 streams", "streams-8")] {
        let name = format!("stream operations, {streams}, against OpenRath");
        figures.extend(ratio(run, workload, workload).map(|value| at_least(name, value, "×", 10.0)));
    }
    let name = "durable sessions of 10 calls against OpenRath's in memory".to_owned();
    figures
        .extend(ratio(run, "sessions-persisted", "sessions").map(|value| at_least(name, value, "×", 20.0)));
    figures.extend(session_kilobytes(run));
    figures.extend(in_flight(run));
    figures
}

/// How many times as fast our workload is as OpenRath's, at the largest size of both.
fn ratio(run: &Run, ours: &str, theirs: &str) -> Option<f64> {
    let n = run.sizes(ours).pop()?;
    let workload = workload::ALL.iter().find(|workload| workload.name == ours)?;
    times_faster(
        run.find(ours, n, "annals"),
        run.find(theirs, n, "openrath"),
        workload,
    )
}

fn session_kilobytes(run: &Run) -> Option<Figure> {
    let n = run.sizes("sessions-persisted").pop()?;
    let held = run.find("sessions-persisted", n, "annals")?.median("rss_bytes")?;
    Some(Figure {
        at_most: Some(30.0),
        at_least: None,
        ..at_least(
            "memory of a durable session at rest, by resident memory".into(),
            held as f64 / n as f64 / 1e3,
            "KB",
            0.0,
        )
    })
}

fn in_flight(run: &Run) -> Option<Figure> {
    let n = run.sizes("in-flight").pop()?;
    let most = run.find("in-flight", n, "annals")?.median("in_flight")?;
    let name = format!("model calls in flight, of {n} sessions");
    Some(at_least(name, most as f64, "calls", n as f64))
}

fn at_least(name: String, value: f64, unit: &str, target: f64) -> Figure {
    Figure {
        bench: "peers".into(),
        name,
        value,
        unit: unit.into(),
        at_most: None,
        at_least: Some(target),
    }
}

#[cfg(test)]
mod tests {
    use super::super::run::{Measured, Outcome, Sample};
    use super::*;

    #[test]
    fn a_comparison_needs_both_sides() {
        let mut run = super::super::run::tests::example();
        let stream = |system: &str, wall| Measured {
            workload: "streams-1".into(),
            n: 100,
            system: system.into(),
            outcome: Outcome::Done(vec![Sample(vec![("wall_ns".into(), wall)])]),
        };
        run.measured.push(stream("annals", 1_000));
        assert!(figures(&run).is_empty());
        run.measured.push(stream("openrath", 30_000));
        let found = figures(&run);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].value, found[0].is_met()), (30.0, Some(true)));
    }
}
