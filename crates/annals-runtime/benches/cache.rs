//! How much of what a provider's prompt cache could give is read from it: a scripted turn of fifty rounds, counted by
//! the provider's published rules on what was really sent. A count, not a time.

#![allow(clippy::print_stdout, reason = "a benchmark reports")]

use std::sync::{Arc, Mutex};

use annals_core::settings::Settings;
use annals_core::view::Prompt;
use annals_figures::Figure;
use annals_model::ScriptModel;
use annals_model::cache_sim::CacheSim;
use annals_model::script::{Script, Step};
use annals_runtime::{Agent, HookCx, Hooks};
use annals_store::{ArtifactStore, MemoryLog};
use annals_tools::DynamicTool;
use serde_json::json;

const ROUNDS: usize = 50;
const TARGET_PERCENT: f64 = 95.0;

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
    let percent = runtime.expect("a runtime").block_on(share_percent());
    let name = format!("prompt-cache read share of a turn of {ROUNDS} rounds");
    let verdict = if percent >= TARGET_PERCENT { "ok" } else { "MISSED" };
    println!("{name:<64} {percent:>12.1} %   ≥ {TARGET_PERCENT} %  {verdict}");
    Figure::new(name, percent, "%").at_least(TARGET_PERCENT).tell();
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
    let step = |n: usize| Step::call(&format!("c{n}"), "report", json!({"part": n}));
    let script = Script::of((0..ROUNDS).map(step).chain([Step::text("Done")]));
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
