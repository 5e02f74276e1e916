//! Figures of this process in the text form of Prometheus. They are counted from the blocks that its turns write; no label
//! carries an id.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use annals_core::block::payload::{CallText, TurnReport};
use annals_core::block::{Block, BlockKind};
use annals_core::ids::{CallId, TurnId};
use annals_core::turn::TurnEnd;
use annals_runtime::{Listen, Update};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};

use crate::app::App;

/// Calls whose result is awaited; more than these are forgotten, and counted without their tool.
const CALLS_MAX: usize = 100_000;

/// What is counted.
#[derive(Default)]
pub(crate) struct Metrics(Mutex<Figures>);

#[derive(Default)]
struct Figures {
    blocks: u64,
    turns: BTreeMap<&'static str, u64>,
    turn_millis: u64,
    model_calls: BTreeMap<&'static str, u64>,
    tokens: BTreeMap<&'static str, u64>,
    tool_calls: BTreeMap<(String, &'static str), u64>,
    /// Turns that have begun, or gone on, here and have not ended.
    unfinished: HashSet<TurnId>,
    /// The tools of calls without a result.
    calls: HashMap<(TurnId, CallId), String>,
}

impl Listen for Metrics {
    fn on(&self, update: Update) {
        if let Update::Block(block) = update {
            self.figures().count(&block);
        }
    }
}

impl Metrics {
    fn figures(&self) -> MutexGuard<'_, Figures> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Figures {
    fn count(&mut self, block: &Block) {
        self.blocks += 1;
        match block.kind {
            BlockKind::TurnHeader => {
                self.unfinished.insert(block.turn.clone());
            }
            BlockKind::ReactCompletion => self.ended(block),
            BlockKind::ToolCall => {
                if let (Some(call), Ok(said)) = (&block.meta().call, block.payload::<CallText<'_>>()) {
                    if self.calls.len() >= CALLS_MAX {
                        self.calls.clear();
                    }
                    self.calls
                        .insert((block.turn.clone(), call.clone()), said.tool_id.into_owned());
                }
            }
            BlockKind::ToolResult => self.returned(block),
            _ => {}
        }
    }

    fn ended(&mut self, block: &Block) {
        self.unfinished.remove(&block.turn);
        let Ok(report) = block.payload::<TurnReport>() else {
            return;
        };
        *self.turns.entry(report.outcome.as_str()).or_default() += 1;
        self.turn_millis += report.elapsed_ms;
        *self.model_calls.entry("ok").or_default() += u64::from(report.iterations);
        if report.outcome == TurnEnd::ModelError {
            *self.model_calls.entry("error").or_default() += 1;
        }
        let usage = report.usage;
        for (bucket, tokens) in [
            ("input", usage.input_tokens),
            ("output", usage.output_tokens),
            ("cache_read", usage.cache_read_tokens),
            ("cache_write", usage.cache_write_tokens),
        ] {
            *self.tokens.entry(bucket).or_default() += tokens;
        }
    }

    /// A call is counted at its first result.
    fn returned(&mut self, block: &Block) {
        let Some(call) = &block.meta().call else { return };
        if let Some(tool) = self.calls.remove(&(block.turn.clone(), call.clone())) {
            let outcome = if block.meta().error.is_some() {
                "error"
            } else {
                "ok"
            };
            *self.tool_calls.entry((tool, outcome)).or_default() += 1;
        }
    }

    fn text(&self, model: &str, streams: usize) -> String {
        let by = |label: &str, rows: &BTreeMap<&'static str, u64>| {
            let row = |(value, count): (&&str, &u64)| (format!("{{{label}=\"{}\"}}", escaped(value)), *count);
            rows.iter().map(row).collect::<Vec<_>>()
        };
        let calls = self.model_calls.iter().map(|(outcome, count)| {
            let labels = format!("{{model=\"{}\",outcome=\"{outcome}\"}}", escaped(model));
            (labels, *count)
        });
        let tools = self.tool_calls.iter().map(|((tool, outcome), count)| {
            let labels = format!("{{tool=\"{}\",outcome=\"{outcome}\"}}", escaped(tool));
            (labels, *count)
        });
        let counters = [
            (
                "annals_turns_total",
                "Turns that ended here.",
                by("outcome", &self.turns),
            ),
            (
                "annals_turn_milliseconds_total",
                "Time of the turns that ended here.",
                alone(self.turn_millis),
            ),
            (
                "annals_model_calls_total",
                "Model calls of turns that ended here.",
                calls.collect(),
            ),
            (
                "annals_tokens_total",
                "Tokens, as providers counted them.",
                by("bucket", &self.tokens),
            ),
            ("annals_tool_calls_total", "Calls of tools.", tools.collect()),
            ("annals_blocks_total", "Blocks written here.", alone(self.blocks)),
        ];
        let gauges = [
            (
                "annals_turns_running",
                "Turns that run or wait here.",
                alone(self.unfinished.len() as u64),
            ),
            (
                "annals_streams",
                "Streams of events that are open.",
                alone(streams as u64),
            ),
        ];
        let mut text = String::new();
        for (name, about, rows) in counters {
            family(&mut text, "counter", name, about, rows);
        }
        for (name, about, rows) in gauges {
            family(&mut text, "gauge", name, about, rows);
        }
        text
    }
}

/// Labels and values.
type Rows = Vec<(String, u64)>;

fn alone(value: u64) -> Rows {
    vec![(String::new(), value)]
}

fn family(text: &mut String, kind: &str, name: &str, about: &str, rows: Rows) {
    let _ = writeln!(text, "# HELP {name} {about}\n# TYPE {name} {kind}");
    for (labels, value) in rows {
        let _ = writeln!(text, "{name}{labels} {value}");
    }
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

pub(crate) async fn text(State(app): State<App>) -> Response {
    let text = app
        .metrics
        .figures()
        .text(app.agent.model().name(), app.usage.streams());
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_break_its_line() {
        let mut figures = Figures::default();
        figures.tool_calls.insert(("a\"b\\c\nd".to_owned(), "ok"), 2);
        let text = figures.text("m", 3);
        assert!(
            text.contains("annals_tool_calls_total{tool=\"a\\\"b\\\\c\\nd\",outcome=\"ok\"} 2\n"),
            "{text}"
        );
        assert!(text.contains("annals_streams 3\n"));
    }
}
