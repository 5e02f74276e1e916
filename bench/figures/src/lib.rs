//! What a benchmark hands to `cargo xtask bench`: figures with their targets, one JSON object a line.
//!
//! A benchmark prints a table for people, as it likes, and says each figure of it here as well. The lines go to the
//! file that [`FILE`] names; without one nothing is written, so that `cargo bench` alone stays a table. Nothing here
//! measures, and nothing fails: a figure that cannot be written is a figure less.

use std::fmt::{self, Write as _};
use std::io::Write as _;

/// The variable with the name of the file that figures are appended to.
pub const FILE: &str = "ANNALS_BENCH_FIGURES";

/// The variable that is set when a benchmark should take seconds instead of minutes.
pub const QUICK: &str = "ANNALS_BENCH_QUICK";

/// The first in a full run, the second in a quick one.
pub fn full_or_quick<T>(full: T, quick: T) -> T {
    match std::env::var_os(QUICK) {
        Some(_) => quick,
        None => full,
    }
}

/// One measured value.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a figure is told with `tell`"]
pub struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    median: Option<f64>,
    at_most: Option<f64>,
    at_least: Option<f64>,
}

impl Figure {
    /// A value in this unit, such as `µs`, `ms`, `×`, `bytes` or `blocks/s`. Of several runs, the best.
    pub fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Figure {
            name: name.into(),
            value,
            unit,
            median: None,
            at_most: None,
            at_least: None,
        }
    }

    /// The middle of the runs.
    pub fn median(mut self, median: f64) -> Self {
        self.median = Some(median);
        self
    }

    /// The target is this or less. An infinite one is none.
    pub fn at_most(mut self, target: f64) -> Self {
        self.at_most = Some(target).filter(|target| target.is_finite());
        self
    }

    /// The target is this or more.
    pub fn at_least(mut self, target: f64) -> Self {
        self.at_least = Some(target);
        self
    }

    /// Appends it to the file that [`FILE`] names.
    pub fn tell(&self) {
        let Some(file) = std::env::var_os(FILE) else {
            return;
        };
        let opened = std::fs::OpenOptions::new().create(true).append(true).open(file);
        if let Ok(mut file) = opened {
            // One write, so that lines of two processes do not mix.
            let _ = file.write_all(format!("{}\n", self.json()).as_bytes());
        }
    }

    fn json(&self) -> String {
        let mut json = format!("{{\"name\": {}, \"value\": {}", quoted(&self.name), self.value);
        let _ = write!(json, ", \"unit\": {}", quoted(self.unit));
        let rest = [
            ("median", self.median),
            ("at_most", self.at_most),
            ("at_least", self.at_least),
        ];
        for (key, value) in rest {
            if let Some(value) = value {
                let _ = write!(json, ", \"{key}\": {value}");
            }
        }
        json.push('}');
        json
    }
}

/// For people: the value in its unit, the target, and whether it is met.
impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<64} {:>12.1} {}", self.name, self.value, self.unit)?;
        let targets = [
            (
                "≤",
                self.at_most,
                self.at_most.is_none_or(|most| self.value <= most),
            ),
            (
                "≥",
                self.at_least,
                self.at_least.is_none_or(|least| self.value >= least),
            ),
        ];
        for (sign, target, is_met) in targets {
            if let Some(target) = target {
                let verdict = if is_met { "ok" } else { "MISSED" };
                write!(f, "   {sign} {target} {}  {verdict}", self.unit)?;
            }
        }
        Ok(())
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push(' '),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_one_line_of_json_with_what_is_known() {
        let figure = Figure::new("hide \"x\"\nat 50k", 12.5, "µs")
            .median(13.0)
            .at_most(20.0);
        assert_eq!(
            figure.json(),
            r#"{"name": "hide \"x\" at 50k", "value": 12.5, "unit": "µs", "median": 13, "at_most": 20}"#
        );
    }

    #[test]
    fn an_infinite_target_is_none() {
        let figure = Figure::new("prompt", 1.0, "µs").at_most(f64::INFINITY);
        assert_eq!(figure.json(), r#"{"name": "prompt", "value": 1, "unit": "µs"}"#);
    }
}
