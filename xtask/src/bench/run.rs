//! One run as data: what was measured on what, written as JSON and read back.

use anyhow::{Context as _, ensure};

use crate::json::Json;

/// Everything that one run measured.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Run {
    pub(crate) is_quick: bool,
    /// Processor, cores, kernel, compiler, commit, date, versions of the peers.
    pub(crate) machine: Vec<(String, String)>,
    pub(crate) figures: Vec<Figure>,
    pub(crate) measured: Vec<Measured>,
}

/// A figure of a benchmark, with its target.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    /// The benchmark it comes from.
    pub(crate) bench: String,
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: String,
    pub(crate) at_most: Option<f64>,
    pub(crate) at_least: Option<f64>,
}

impl Figure {
    /// Whether the target is met; `None` without one.
    pub(crate) fn is_met(&self) -> Option<bool> {
        match (self.at_most, self.at_least) {
            (None, None) => None,
            (most, least) => Some(
                most.is_none_or(|most| self.value <= most) && least.is_none_or(|least| self.value >= least),
            ),
        }
    }

    /// As it comes from a benchmark.
    pub(crate) fn from_json(bench: &str, json: &Json) -> anyhow::Result<Figure> {
        let text = |key: &str| {
            let text = json.get(key).and_then(Json::as_text).map(str::to_owned);
            text.with_context(|| format!("a figure of `{bench}` has no `{key}`: {json}"))
        };
        Ok(Figure {
            bench: bench.to_owned(),
            name: text("name")?,
            value: number(json, "value")
                .with_context(|| format!("a figure of `{bench}` has no `value`: {json}"))?,
            unit: text("unit")?,
            at_most: number(json, "at_most"),
            at_least: number(json, "at_least"),
        })
    }

    fn to_json(&self) -> Json {
        let mut members = vec![
            ("bench".to_owned(), Json::text(&self.bench)),
            ("name".to_owned(), Json::text(&self.name)),
            ("value".to_owned(), decimal(self.value)),
            ("unit".to_owned(), Json::text(&self.unit)),
        ];
        let targets = [("at_most", self.at_most), ("at_least", self.at_least)];
        let given = targets
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), decimal(value?))));
        members.extend(given);
        Json::Object(members)
    }
}

/// One workload at one size by one system.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measured {
    pub(crate) workload: String,
    pub(crate) n: u64,
    pub(crate) system: String,
    pub(crate) outcome: Outcome,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Done(Vec<Sample>),
    /// Not finished within so many seconds.
    OverTime(u64),
    /// The system has nothing of the sort.
    Absent,
    Failed(String),
}

/// One process's figures, as its protocol names them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample(pub(crate) Vec<(String, u64)>);

impl Sample {
    pub(crate) fn get(&self, key: &str) -> Option<u64> {
        self.0
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| *value)
    }
}

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
        let mut values: Vec<u64> = samples.iter().filter_map(|sample| sample.get(key)).collect();
        values.sort_unstable();
        values
    }

    fn to_json(&self) -> Json {
        let outcome = match &self.outcome {
            Outcome::Done(samples) => ("samples", Json::List(samples.iter().map(sample_json).collect())),
            Outcome::OverTime(seconds) => ("over_seconds", Json::Number(seconds.to_string())),
            Outcome::Absent => ("absent", Json::Bool(true)),
            Outcome::Failed(why) => ("failed", Json::text(why)),
        };
        Json::Object(vec![
            ("workload".into(), Json::text(&self.workload)),
            ("n".into(), Json::Number(self.n.to_string())),
            ("system".into(), Json::text(&self.system)),
            (outcome.0.into(), outcome.1),
        ])
    }

    fn from_json(json: &Json) -> anyhow::Result<Measured> {
        let text = |key: &str| json.get(key).and_then(Json::as_text).map(str::to_owned);
        let outcome = match (json.get("samples"), number(json, "over_seconds"), text("failed")) {
            (Some(samples), ..) => Outcome::Done(samples.elements().iter().map(sample).collect()),
            (_, Some(seconds), _) => Outcome::OverTime(seconds as u64),
            (.., Some(why)) => Outcome::Failed(why),
            _ => Outcome::Absent,
        };
        Ok(Measured {
            workload: text("workload").context("a measurement without `workload`")?,
            n: number(json, "n").context("a measurement without `n`")? as u64,
            system: text("system").context("a measurement without `system`")?,
            outcome,
        })
    }
}

impl Run {
    /// The run as JSON: one figure and one measurement a line, so that two runs can be compared.
    pub(crate) fn to_text(&self) -> String {
        let machine = self
            .machine
            .iter()
            .map(|(key, value)| (key.clone(), Json::text(value)));
        let list = |items: Vec<Json>| {
            let lines: Vec<String> = items.iter().map(|item| format!("  {item}")).collect();
            format!("[\n{}\n]", lines.join(",\n"))
        };
        format!(
            "{{\"quick\": {},\n\"machine\": {},\n\"figures\": {},\n\"measured\": {}}}\n",
            self.is_quick,
            Json::Object(machine.collect()),
            list(self.figures.iter().map(Figure::to_json).collect()),
            list(self.measured.iter().map(Measured::to_json).collect()),
        )
    }

    pub(crate) fn parse(text: &str) -> anyhow::Result<Run> {
        let values = Json::parse_all(text)?;
        ensure!(values.len() == 1, "a run is one JSON object");
        let json = &values[0];
        let list = |key: &str| json.get(key).map(Json::elements).unwrap_or_default();
        let bench = |figure: &Json| {
            figure
                .get("bench")
                .and_then(Json::as_text)
                .unwrap_or_default()
                .to_owned()
        };
        let machine = json.get("machine").map(Json::members).unwrap_or_default();
        Ok(Run {
            is_quick: json.get("quick") == Some(&Json::Bool(true)),
            machine: machine
                .iter()
                .filter_map(|(key, value)| Some((key.clone(), value.as_text()?.to_owned())))
                .collect(),
            figures: list("figures")
                .iter()
                .map(|figure| Figure::from_json(&bench(figure), figure))
                .collect::<anyhow::Result<_>>()?,
            measured: list("measured")
                .iter()
                .map(Measured::from_json)
                .collect::<anyhow::Result<_>>()?,
        })
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

/// The fields of a protocol line that are numbers.
pub(crate) fn sample(json: &Json) -> Sample {
    let numbers = json.members().iter().filter_map(|(key, value)| match value {
        Json::Number(digits) => Some((key.clone(), digits.parse().ok()?)),
        _ => None,
    });
    Sample(numbers.collect())
}

fn sample_json(sample: &Sample) -> Json {
    let members = sample
        .0
        .iter()
        .map(|(key, value)| (key.clone(), Json::Number(value.to_string())));
    Json::Object(members.collect())
}

fn number(json: &Json, key: &str) -> Option<f64> {
    match json.get(key)? {
        Json::Number(digits) => digits.parse().ok(),
        _ => None,
    }
}

/// Enough digits to compare, not more than were measured.
fn decimal(value: f64) -> Json {
    let digits = if value.fract() == 0.0 || value.abs() >= 1000.0 {
        0
    } else {
        4
    };
    Json::Number(format!("{value:.digits$}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A small run with one of everything.
    pub(crate) fn example() -> Run {
        let done = |workload: &str, n, system: &str, samples: &[(u64, u64)]| Measured {
            workload: workload.into(),
            n,
            system: system.into(),
            outcome: Outcome::Done(
                samples
                    .iter()
                    .map(|(wall, cpu)| Sample(vec![("wall_ns".into(), *wall), ("cpu_ns".into(), *cpu)]))
                    .collect(),
            ),
        };
        let other = |system: &str, outcome| Measured {
            workload: "rounds".into(),
            n: 100,
            system: system.into(),
            outcome,
        };
        let figure = |name: &str, value, at_most| Figure {
            bench: "core".into(),
            name: name.into(),
            value,
            unit: "µs".into(),
            at_most,
            at_least: None,
        };
        Run {
            is_quick: false,
            machine: vec![
                ("cores".into(), "2".into()),
                ("date".into(), "2026-11-16T01:00:00Z".into()),
            ],
            figures: vec![
                figure("one round at 1000 blocks", 8.25, Some(50.0)),
                figure("hide at 1000 blocks", 31.0, Some(20.0)),
                figure("prompt", 3.0, None),
            ],
            measured: vec![
                done(
                    "rounds",
                    10,
                    "annals",
                    &[(900_000, 300_000), (800_000, 310_000), (1_000_000, 320_000)],
                ),
                done("rounds", 10, "openrath", &[(1_600_000, 1_500_000)]),
                done("rounds", 100, "annals", &[(8_000_000, 3_000_000)]),
                other("openrath", Outcome::OverTime(60)),
                other("langgraph", Outcome::Absent),
            ],
        }
    }

    #[test]
    fn a_run_reads_back_as_it_was_written() {
        let run = example();
        assert_eq!(Run::parse(&run.to_text()).unwrap(), run);
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
            at_most: None,
            at_least: Some(10.0),
            ..example().figures[2].clone()
        };
        assert_eq!(rate.is_met(), Some(false));
    }

    #[test]
    fn what_is_no_figure_is_named() {
        let json = &Json::parse_all(r#"{"name": "x", "unit": "µs"}"#).unwrap()[0];
        let error = Figure::from_json("core", json).unwrap_err().to_string();
        assert!(error.starts_with("a figure of `core` has no `value`"), "{error}");
    }
}
