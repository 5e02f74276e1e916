//! One run as data: what was measured on what, written as JSON and read back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Everything that one run measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    #[serde(rename = "quick")]
    pub(crate) is_quick: bool,
    /// Processor, cores, kernel, compiler, commit, date, versions of the peers.
    pub(crate) machine: Map<String, Value>,
    pub(crate) figures: Vec<Figure>,
    pub(crate) measured: Vec<Measured>,
}

/// A figure of a benchmark, with its target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// The benchmark it comes from, which does not say so itself.
    #[serde(default)]
    pub(crate) bench: String,
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) at_most: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) at_least: Option<f64>,
}

impl Figure {
    /// Whether the target is met; `None` without one.
    pub(crate) fn is_met(&self) -> Option<bool> {
        let most = self.at_most.map(|most| self.value <= most);
        let least = self.at_least.map(|least| self.value >= least);
        most.into_iter().chain(least).reduce(|a, b| a && b)
    }
}

/// One workload at one size by one system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) workload: String,
    pub(crate) n: u64,
    pub(crate) system: String,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    #[serde(rename = "samples")]
    Done(Vec<Sample>),
    /// Not finished within this many seconds.
    #[serde(rename = "over_seconds")]
    OverTime(u64),
    /// The system has nothing of the sort; always `true`.
    #[serde(rename = "absent")]
    Absent(bool),
    #[serde(rename = "failed")]
    Failed(String),
}

/// One process's figures, as its protocol names them.
pub(crate) type Sample = BTreeMap<String, u64>;

impl Measured {
    /// The least value of all runs.
    pub(crate) fn least(&self, key: &str) -> Option<u64> {
        self.values(key).first().copied()
    }

    /// The middle value of all runs.
    pub(crate) fn median(&self, key: &str) -> Option<u64> {
        let values = self.values(key);
        values.get(values.len() / 2).copied()
    }

    fn values(&self, key: &str) -> Vec<u64> {
        let Outcome::Done(samples) = &self.outcome else {
            return Vec::new();
        };
        let mut values: Vec<u64> = samples
            .iter()
            .filter_map(|sample| sample.get(key).copied())
            .collect();
        values.sort_unstable();
        values
    }
}

impl Run {
    /// The run as JSON: one figure and one measurement a line, so that two runs can be compared.
    pub(crate) fn to_text(&self) -> anyhow::Result<String> {
        Ok(format!(
            "{{\"quick\": {},\n\"machine\": {},\n\"figures\": {},\n\"measured\": {}}}\n",
            self.is_quick,
            serde_json::to_string(&self.machine)?,
            line_each(&self.figures)?,
            line_each(&self.measured)?,
        ))
    }

    /// A workload at one size by one system.
    pub(crate) fn find(&self, workload: &str, n: u64, system: &str) -> Option<&Measured> {
        self.measured
            .iter()
            .find(|found| found.workload == workload && found.n == n && found.system == system)
    }

    /// The sizes a workload was measured at, smallest first.
    pub(crate) fn sizes(&self, workload: &str) -> Vec<u64> {
        let of = self.measured.iter().filter(|found| found.workload == workload);
        let mut sizes: Vec<u64> = of.map(|found| found.n).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }
}

fn line_each<T: Serialize>(items: &[T]) -> anyhow::Result<String> {
    let lines: Result<Vec<String>, _> = items.iter().map(serde_json::to_string).collect();
    Ok(format!("[\n  {}\n]", lines?.join(",\n  ")))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A small run with one of everything.
    pub(crate) fn example() -> Run {
        let text = r#"{"quick": false, "machine": {"cores": "2", "date": "2026-11-16T01:00:00Z"}, "figures": [
            {"bench": "core", "name": "one round at 1000 blocks", "value": 8.25, "unit": "µs", "at_most": 50},
            {"bench": "core", "name": "hide at 1000 blocks", "value": 31, "unit": "µs", "at_most": 20},
            {"bench": "core", "name": "prompt", "value": 3, "unit": "µs"}], "measured": [
            {"workload": "rounds", "n": 10, "system": "annals", "samples": [{"wall_ns": 900000, "cpu_ns": 300000},
                {"wall_ns": 800000, "cpu_ns": 310000}, {"wall_ns": 1000000, "cpu_ns": 320000}]},
            {"workload": "rounds", "n": 10, "system": "openrath", "samples": [{"wall_ns": 1600000, "cpu_ns": 1500000}]},
            {"workload": "rounds", "n": 100, "system": "annals", "samples": [{"wall_ns": 8000000, "cpu_ns": 3000000}]},
            {"workload": "rounds", "n": 100, "system": "openrath", "over_seconds": 60},
            {"workload": "rounds", "n": 100, "system": "langgraph", "absent": true}]}"#;
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_run_reads_back_as_it_was_written() {
        let run = example();
        assert_eq!(serde_json::from_str::<Run>(&run.to_text().unwrap()).unwrap(), run);
    }

    #[test]
    fn of_several_runs_there_is_a_least_and_a_middle() {
        let run = example();
        let rounds = run.find("rounds", 10, "annals").unwrap();
        assert_eq!(rounds.least("wall_ns"), Some(800_000));
        assert_eq!(rounds.median("wall_ns"), Some(900_000));
        assert_eq!(run.sizes("rounds"), [10, 100]);
        assert_eq!(
            run.find("rounds", 100, "openrath").unwrap().least("wall_ns"),
            None
        );
    }

    #[test]
    fn a_target_is_met_missed_or_absent() {
        let met: Vec<Option<bool>> = example().figures.iter().map(Figure::is_met).collect();
        assert_eq!(met, [Some(true), Some(false), None]);
        let rate = Figure {
            at_least: Some(10.0),
            ..example().figures[2].clone()
        };
        assert_eq!(rate.is_met(), Some(false));
    }
}
