//! Figures in the text form of Prometheus. What has happened is counted from the blocks that this process writes; what is so
//! at the moment is looked up when it is asked for, since turns begin, wait and end on other nodes, too. No label carries an
//! id.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use annals_core::block::payload::{CallText, HideReason, HideText, TurnReport};
use annals_core::block::{Block, BlockKind};
use annals_core::ids::{CallId, TurnId};
use annals_core::time::Timestamp;
use annals_core::turn::{SentPrompt, TurnEnd};
use annals_runtime::{Counted, Durations};
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
    /// Calls without a result: their tool, and since when they run.
    calls: HashMap<(TurnId, CallId), (String, Timestamp)>,
    tool_seconds: BTreeMap<String, Durations>,
    model_seconds: Durations,
    cache_breaks: BTreeMap<&'static str, u64>,
}

impl Metrics {
    /// Counts a block that was written.
    pub(crate) fn count(&self, block: &Block) {
        self.figures().count(block);
    }

    fn figures(&self) -> MutexGuard<'_, Figures> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Figures {
    fn count(&mut self, block: &Block) {
        self.blocks += 1;
        if let Some(sent) = block.meta().prompt::<SentPrompt>() {
            self.model_seconds.observe(since(sent.asked_at, block.ts));
        }
        if let Some(reason) = breaks_cache(block) {
            *self.cache_breaks.entry(reason).or_default() += 1;
        }
        let call = block
            .meta()
            .call
            .as_ref()
            .map(|call| (block.turn.clone(), call.clone()));
        match (&block.kind, call) {
            (BlockKind::ReactCompletion, _) => self.ended(block),
            (BlockKind::ToolCall, Some(call)) => {
                if let Ok(said) = block.payload::<CallText<'_>>() {
                    if self.calls.len() >= CALLS_MAX {
                        self.calls.clear();
                    }
                    self.calls.insert(call, (said.tool_id.into_owned(), block.ts));
                }
            }
            // What a call waited for somebody is not the tool's time.
            (BlockKind::ApprovalDecision | BlockKind::InputResponse, Some(call)) => {
                if let Some((_, since)) = self.calls.get_mut(&call) {
                    *since = block.ts;
                }
            }
            (BlockKind::ToolResult, Some(call)) => self.returned(block, &call),
            _ => {}
        }
    }

    fn ended(&mut self, block: &Block) {
        // Calls without a result here got theirs on another node, or none.
        self.calls.retain(|(turn, _), _| *turn != block.turn);
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
    fn returned(&mut self, block: &Block, call: &(TurnId, CallId)) {
        let Some((tool, began)) = self.calls.remove(call) else {
            return;
        };
        let outcome = if block.meta().error.is_some() {
            "error"
        } else {
            "ok"
        };
        self.tool_seconds
            .entry(tool.clone())
            .or_default()
            .observe(since(began, block.ts));
        *self.tool_calls.entry((tool, outcome)).or_default() += 1;
    }

    fn text(&self, model: &str, now: &Now, appends: &Counted) -> String {
        let mut text = String::new();
        for (name, about, rows) in self.counters(model) {
            family(&mut text, "counter", name, about, rows);
        }
        for (name, about, rows) in now.gauges() {
            family(&mut text, "gauge", name, about, rows);
        }
        let tools = self.tool_seconds.iter().map(|(tool, took)| {
            let label = format!("tool=\"{}\"", escaped(tool));
            (label, took.counted())
        });
        let model = format!("model=\"{}\"", escaped(model));
        let took = [(model, self.model_seconds.counted())];
        let appends = [(String::new(), appends.clone())];
        histogram(
            &mut text,
            "annals_tool_seconds",
            "Time of tools, from a call to its result.",
            tools,
        );
        histogram(
            &mut text,
            "annals_model_seconds",
            "Time of model calls, from a request to its answer.",
            took,
        );
        histogram(
            &mut text,
            "annals_append_seconds",
            "Time of appends to the log.",
            appends,
        );
        text
    }

    fn counters(&self, model: &str) -> Vec<Family> {
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
        vec![
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
            (
                "annals_cache_breaks_total",
                "What changed the prefix that providers cache.",
                by("reason", &self.cache_breaks),
            ),
        ]
    }
}

/// What is so at the moment.
struct Now {
    turns_running: usize,
    streams: usize,
    /// Unknown while the store does not answer.
    approvals: Option<usize>,
}

impl Now {
    async fn of(app: &App) -> Self {
        let approvals = app.approvals_pending().await;
        let approvals = approvals.inspect_err(|error| tracing::warn!(%error, "what waits cannot be counted"));
        Now {
            turns_running: app.agent.runtime().turns_running(),
            streams: app.usage.streams(),
            approvals: approvals.ok(),
        }
    }

    fn gauges(&self) -> Vec<Family> {
        let mut gauges = vec![
            (
                "annals_turns_running",
                "Turns that run in this process.",
                alone(self.turns_running as u64),
            ),
            (
                "annals_streams",
                "Streams of events that are open.",
                alone(self.streams as u64),
            ),
        ];
        gauges.extend(self.approvals.map(|approvals| {
            (
                "annals_approvals_pending",
                "Calls in the store about which a person is asked, in the scopes of its tokens and those served here.",
                alone(approvals as u64),
            )
        }));
        gauges
    }
}

fn since(began: Timestamp, now: Timestamp) -> Duration {
    Duration::from_micros(now.micros_since(began))
}

/// Why the prefix that a provider has cached is not the beginning of the next prompt, if that is so after this block.
fn breaks_cache(block: &Block) -> Option<&'static str> {
    match block.kind {
        BlockKind::RangeSummary => Some("compaction"),
        BlockKind::TimelineHide => {
            let HideText { reason, .. } = block.payload().ok()?;
            Some(if reason == HideReason::Hide {
                "hide"
            } else {
                "prune"
            })
        }
        _ => None,
    }
}

/// Labels and values.
type Rows = Vec<(String, u64)>;

/// A name, what it is about, and its rows.
type Family = (&'static str, &'static str, Rows);

fn alone(value: u64) -> Rows {
    vec![(String::new(), value)]
}

fn family(text: &mut String, kind: &str, name: &str, about: &str, rows: Rows) {
    let _ = writeln!(text, "# HELP {name} {about}\n# TYPE {name} {kind}");
    for (labels, value) in rows {
        let _ = writeln!(text, "{name}{labels} {value}");
    }
}

/// A family of durations; each of its members has a label, or none where there is one member.
fn histogram(
    text: &mut String,
    name: &str,
    about: &str,
    members: impl IntoIterator<Item = (String, Counted)>,
) {
    let _ = writeln!(text, "# HELP {name} {about}\n# TYPE {name} histogram");
    for (label, counted) in members {
        let comma = if label.is_empty() { "" } else { "," };
        for (bound, count) in &counted.at_most {
            let _ = writeln!(text, "{name}_bucket{{{label}{comma}le=\"{bound}\"}} {count}");
        }
        let _ = writeln!(
            text,
            "{name}_bucket{{{label}{comma}le=\"+Inf\"}} {}",
            counted.count
        );
        let braces = if label.is_empty() {
            String::new()
        } else {
            format!("{{{label}}}")
        };
        let _ = writeln!(text, "{name}_sum{braces} {}", counted.seconds);
        let _ = writeln!(text, "{name}_count{braces} {}", counted.count);
    }
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

pub(crate) async fn text(State(app): State<App>) -> Response {
    let now = Now::of(&app).await;
    let appends = app.agent.runtime().append_durations().counted();
    let text = app
        .metrics
        .figures()
        .text(app.agent.model().name(), &now, &appends);
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
        let now = Now {
            turns_running: 1,
            streams: 3,
            approvals: None,
        };
        let text = figures.text("m", &now, &Durations::default().counted());
        assert!(
            text.contains("annals_tool_calls_total{tool=\"a\\\"b\\\\c\\nd\",outcome=\"ok\"} 2\n"),
            "{text}"
        );
        assert!(text.contains("annals_streams 3\n"));
    }
}
