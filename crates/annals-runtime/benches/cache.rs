//! How much of what a provider's prompt cache could give is read from it: a scripted turn of fifty rounds, and a working
//! day with its costs, counted by the providers' published rules on what was really sent. Counts, not times.

#![allow(clippy::print_stdout, reason = "a benchmark reports")]

#[path = "../tests/day/mod.rs"]
mod day;

use std::sync::{Arc, Mutex};

use annals_core::settings::Settings;
use annals_core::view::Prompt;
use annals_figures::Figure;
use annals_model::cache_sim::CacheSim;
use annals_model::script::{Script, ScriptStep};
use annals_model::{ScriptModel, Usage};
use annals_runtime::{Agent, HookCx, Hooks};
use annals_store::{ArtifactStore, MemoryLog};
use annals_tools::DynamicTool;
use serde_json::json;

const ROUNDS: usize = 50;
const TARGET_PERCENT: f64 = 95.0;
const DAY_TARGET_PERCENT: f64 = 90.0;
const DAY_TARGET_TAIL_TOKENS: f64 = 1_500.0;

/// Sends every prompt through the simulated cache; keeps what was read, and what could have been.
#[derive(Clone, Default)]
struct Provider(Arc<Mutex<(CacheSim, u64, u64)>>);

#[async_trait::async_trait]
impl Hooks for Provider {
    async fn before_model(&self, _: &HookCx, prompt: &Prompt) {
        let mut provider = self.0.lock().expect("nobody panics with it");
        let reading = provider.0.send(prompt);
        provider.1 += reading.read_tokens;
        provider.2 += reading.reusable_tokens;
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let share = format!("prompt-cache read share of a turn of {ROUNDS} rounds");
        tell(Figure::new(share, share_percent().await, "%").at_least(TARGET_PERCENT));
        working_day().await;
    });
}

async fn working_day() {
    let day = day::live(day::Size::FULL).await;
    let naive = Usage {
        input_tokens: day::naive_tokens(day::Size::FULL).await,
        ..Usage::default()
    };
    let tallies = [
        ("Anthropic", &day.anthropic, "claude-sonnet-4"),
        ("OpenAI", &day.openai, "gpt-5"),
    ];
    for (provider, tally, model) in tallies {
        let name = |what: &str| format!("working day, {provider}'s rules: {what}");
        tell(
            Figure::new(name("prompt-cache read share"), tally.read_percent(), "%")
                .at_least(DAY_TARGET_PERCENT),
        );
        tell(Figure::new(
            name("unread tokens a request"),
            tally.unread_tokens() as f64,
            "tokens",
        ));
        let price = day::price(model);
        let live = tally.dollars(&price);
        let naive = naive.cost(&price).total_nanousd() as f64 / 1e9;
        tell(Figure::new(
            name(&format!("prompts at the price of {model}")),
            live,
            "$",
        ));
        tell(Figure::new(
            name("the same day naively, over this"),
            naive / live,
            "×",
        ));
    }
    for (what, count) in [("prunes", day.prunes), ("compactions", day.compactions)] {
        tell(Figure::new(format!("working day: {what}"), count as f64, ""));
    }
    for (rules, tally) in [("Anthropic", &day.anthropic), ("OpenAI", &day.openai)] {
        let (name, tail) = (
            format!("working day: longest uncached tail by {rules}'s rules"),
            tally.longest_tail_tokens as f64,
        );
        tell(Figure::new(name, tail, "tokens").at_most(DAY_TARGET_TAIL_TOKENS));
    }
}

/// Prints a figure for people, and hands it to `cargo xtask bench`.
fn tell(figure: Figure) {
    println!("{figure}");
    figure.tell();
}

async fn share_percent() -> f64 {
    let home = tempfile::tempdir().expect("a temporary folder");
    let schema = json!({"type": "object", "properties": {"part": {"type": "integer"}}, "required": ["part"]});
    let report = DynamicTool::new("report", "One part of a report", schema, |_, args| async move {
        Ok(json!(format!(
            "Part {}: {}",
            args["part"],
            "Some words that stay. ".repeat(40)
        )))
    });
    let step = |n: usize| ScriptStep::call(&format!("c{n}"), "report", json!({"part": n}));
    let script = Script::of((0..ROUNDS).map(step).chain([ScriptStep::text("Done")]));
    let provider = Provider::default();
    let settings = Settings {
        max_iterations: ROUNDS as u32 + 10,
        ..Settings::default()
    };
    let agent = Agent::builder()
        .model(ScriptModel::new("fifty", script))
        .tool(report.expect("a plain tool"))
        .log(Arc::new(MemoryLog::default()))
        .artifacts(ArtifactStore::open(home.path().join("artifacts")).expect("a fresh folder"))
        .workspaces(home.path().join("workspace"))
        .settings(settings)
        .hooks(provider.clone())
        .build()
        .await
        .expect("all parts are there");
    let session = agent.session("c").await.expect("a new conversation");
    agent
        .run(session, "Write fifty parts")
        .await
        .expect("a script never fails");
    let (_, read, reusable) = &*provider.0.lock().expect("nobody panics with it");
    *read as f64 * 100.0 / *reusable as f64
}
