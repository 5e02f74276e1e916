//! What the provider's prompt cache gets to see, counted by its own rules on what was really sent.

mod common;
mod day;

use std::sync::{Arc, Mutex};

use annals_core::settings::Settings;
use annals_core::view::Prompt;
use annals_model::cache_sim::CacheSim;
use annals_runtime::{HookCx, Hooks};
use common::{Bench, turn};
use serde_json::{Value, json};

/// Sends every prompt through the simulated cache.
#[derive(Clone, Default)]
struct Provider(Arc<Mutex<(CacheSim, u64, u64)>>);

#[async_trait::async_trait]
impl Hooks for Provider {
    async fn before_model(&self, _: &HookCx, prompt: &Prompt) {
        let mut provider = self.0.lock().unwrap();
        let reading = provider.0.send(prompt);
        provider.1 += reading.read_tokens;
        provider.2 += reading.reusable_tokens;
    }
}

#[tokio::test]
async fn a_turn_of_fifty_rounds_reads_what_it_can_from_the_cache() {
    let write = |n: usize| {
        json!({"text": format!("Writing part {n}"), "tool_calls": [{"id": format!("w{n}"), "tool": "react.write",
            "params": {"path": format!("part{n}.md"), "channel": "canvas",
                       "content": format!("# Part {n}\n\n{}", "Some words that stay. ".repeat(40)), "kind": "display"}}]})
    };
    let mut steps: Vec<Value> = (0..50).map(write).collect();
    steps.push(json!({"text": "Done"}));
    let provider = Provider::default();
    let settings = Settings {
        max_iterations: 60,
        ..Settings::default()
    };
    let bench = Bench::new();
    let builder = bench
        .builder(json!({ "steps": steps }))
        .settings(settings)
        .hooks(provider.clone());
    let agent = builder.build().await.unwrap();
    turn(
        &agent,
        agent.session("c").await.unwrap(),
        "turn_1",
        "Write fifty parts",
    )
    .await;
    let (_, read, reusable) = &*provider.0.lock().unwrap();
    let percent = read * 100 / reusable;
    assert!(
        percent >= 95,
        "{read} of {reusable} reusable tokens were read from the cache, {percent} %"
    );
}

#[tokio::test]
async fn a_working_day_reads_its_prompts_from_the_cache() {
    let day = day::live(day::Size::SMALL).await;
    let (anthropic, openai) = (&day.anthropic, &day.openai);
    assert_eq!((day.prunes, day.compactions), (1, 1), "the day has both: {day:?}");
    assert!(anthropic.requests >= 30 * 13, "{day:?}");
    for tally in [anthropic, openai] {
        assert!(
            tally.read_percent() >= 90.0,
            "{:.1} %: {day:?}",
            tally.read_percent()
        );
        assert!(tally.longest_tail_tokens <= 1_500, "{day:?}");
        // What stands before the tail is read by the next request, but after the pause, with its prune, and the compaction.
        assert_eq!(tally.breaks, day.prunes + day.compactions, "{day:?}");
    }
}
