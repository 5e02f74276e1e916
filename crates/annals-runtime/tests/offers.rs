//! What a model was offered is a value of its step: calls are dispatched against it, and every prompt can be made again by
//! a program whose tools, instructions and settings are others.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use annals_core::block::payload::ToolsTable;
use annals_core::block::{BlockKind, Meta};
use annals_core::ids::{CallId, ConversationId, Seq};
use annals_core::settings::Settings;
use annals_core::turn::{SentPrompt, TurnEnd};
use annals_core::view::{Layout, View};
use annals_model::ScriptModel;
use annals_model::script::Script;
use annals_runtime::{Agent, Runtime, Session, TurnRequest, World};
use annals_store::{BlockLogExt as _, ImportAs, export_conversation, import_conversation};
use annals_tools::{DynamicTool, Effect, Tool, ToolSpec};
use common::{Bench, shape, texts, turn};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A program of one edition.
#[derive(Clone, Debug)]
struct Edition {
    instructions: Option<String>,
    /// Tools by name, description and whether they take a parameter.
    tools: Vec<(&'static str, &'static str, bool)>,
    layout: Layout,
    max_iterations: u32,
    context_tokens: u32,
}

fn tool(name: &str, description: &str, parameters: Value, runs: &Arc<AtomicUsize>) -> Arc<dyn Tool> {
    let spec = ToolSpec::builder(name)
        .description(description)
        .parameters(parameters);
    let runs = runs.clone();
    let spec = spec.effect(Effect::Replayable).build().unwrap();
    Arc::new(DynamicTool::with_spec(spec, move |_, _| {
        runs.fetch_add(1, Ordering::SeqCst);
        async { Ok(json!("seen")) }
    }))
}

fn parameters(takes_one: bool) -> Value {
    match takes_one {
        true => json!({"type": "object", "properties": {"x": {"type": "integer"}}}),
        false => json!({"type": "object", "properties": {}}),
    }
}

impl Edition {
    fn plain() -> Self {
        Edition {
            instructions: None,
            tools: vec![("look", "Looks.", false)],
            layout: Layout::Chat,
            max_iterations: 5,
            context_tokens: 100_000,
        }
    }

    async fn agent(&self, runtime: &Runtime, steps: Value, runs: &Arc<AtomicUsize>) -> Agent {
        let script = Script::parse(&json!({ "steps": steps }).to_string()).unwrap();
        let tools = self.tools.iter();
        let tools = tools.map(|(name, description, takes)| tool(name, description, parameters(*takes), runs));
        let builder = Agent::builder()
            .model(ScriptModel::new("test", script))
            .tools(tools.collect::<Vec<_>>())
            .layout(self.layout)
            .context_tokens(self.context_tokens)
            .settings(Settings {
                max_iterations: self.max_iterations,
                ..Settings::default()
            })
            .runtime(runtime.clone());
        let builder = match &self.instructions {
            Some(instructions) => builder.instructions(instructions.clone()),
            None => builder,
        };
        builder.build().await.unwrap()
    }
}

fn editions() -> impl Strategy<Value = Edition> {
    let tools = prop::sample::subsequence(
        vec![
            ("look", "Looks.", false),
            ("look", "Looks twice.", false),
            ("peek", "Peeks.", true),
            ("stare", "Stares.", false),
        ],
        0..=3,
    );
    let layout = prop_oneof![Just(Layout::Chat), Just(Layout::Timeline)];
    (
        prop::option::of("[a-zß]{1,12}"),
        tools,
        layout,
        1..5_u32,
        20_000..200_000_u32,
    )
        .prop_map(
            |(instructions, mut tools, layout, max_iterations, context_tokens)| {
                tools.dedup_by_key(|(name, ..)| *name);
                Edition {
                    instructions,
                    tools,
                    layout,
                    max_iterations,
                    context_tokens,
                }
            },
        )
}

fn id(text: &str) -> ConversationId {
    ConversationId::parse(text).unwrap()
}

/// The requests of a conversation: the first block that answers each, and the digest it was sent with.
fn requests(view: &View) -> Vec<(Seq, SentPrompt)> {
    let sent = |meta: &Meta| meta.prompt::<SentPrompt>();
    let blocks = view.blocks().iter();
    blocks
        .filter_map(|block| Some((block.seq, sent(block.meta())?)))
        .collect()
}

/// Every prompt is made again by this agent, byte for byte; gives how many there were.
async fn all_made_again(agent: &Agent, view: &View) -> usize {
    let requests = requests(view);
    for (seq, sent) in &requests {
        let prompt = agent.sent_prompt(view, *seq).await.unwrap().unwrap();
        assert_eq!(prompt.digest(), sent.digest, "the prompt before block {seq}");
        let before = Seq::try_new(seq.get() - 1).unwrap();
        let rendered = agent.rendered(view, Some(before)).await.unwrap();
        assert_eq!(rendered.system, prompt.system);
        assert_eq!(rendered.digest, Some(sent.digest));
    }
    requests.len()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Law: whatever program made each turn, and whatever program looks at it later, rendering at the place of a request
    /// gives the digest that was sent.
    #[test]
    fn every_prompt_is_made_again_by_any_other_program(
        writers in prop::collection::vec(editions(), 1..4),
        reader in editions(),
    ) {
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        executor.block_on(async {
            let runtime = Runtime::in_memory(World::seeded(3)).unwrap();
            let runs = Arc::default();
            for (n, writer) in writers.iter().enumerate() {
                let looks = json!({"text": "hm", "tool_calls": [{"tool": "look", "params": {}}]});
                let agent = writer.agent(&runtime, json!([looks, {"text": "done [[S:1]]"}]), &runs).await;
                let session = agent.session("c").await.unwrap();
                turn(&agent, session, &format!("turn_{n}"), "Do it").await;
            }
            let reader = reader.agent(&runtime, json!([]), &runs).await;
            let view = reader.timeline(&id("c")).await.unwrap();
            assert_eq!(all_made_again(&reader, &view).await, 2 * writers.len());
            assert!(view.malformed().is_empty());
        });
    }
}

#[tokio::test]
async fn a_table_is_written_when_the_offer_changes_and_only_then() {
    let runtime = Runtime::in_memory(World::seeded(3)).unwrap();
    let runs = Arc::default();
    let one = Edition::plain();
    let other = Edition {
        instructions: Some("Be brief.".into()),
        ..one.clone()
    };
    for (n, edition) in [&one, &one, &other, &other, &one].into_iter().enumerate() {
        let agent = edition.agent(&runtime, json!([{"text": "done"}]), &runs).await;
        let session = agent.session("c").await.unwrap();
        turn(&agent, session, &format!("turn_{n}"), "Do it").await;
    }
    let view = one
        .agent(&runtime, json!([]), &runs)
        .await
        .timeline(&id("c"))
        .await
        .unwrap();
    let tables: Vec<(String, ToolsTable)> = view
        .blocks()
        .iter()
        .filter(|block| block.kind == BlockKind::ToolsTable)
        .map(|block| (block.turn.to_string(), block.payload().unwrap()))
        .collect();
    let turns: Vec<&str> = tables.iter().map(|(turn, _)| turn.as_str()).collect();
    assert_eq!(turns, ["turn_0", "turn_2", "turn_4"]);
    assert_eq!(tables[0].1, tables[2].1);
    assert_eq!(tables[0].1.definitions, tables[1].1.definitions);
    assert_ne!(tables[0].1.system, tables[1].1.system);
}

/// A conversation whose process died after its model had called `look`.
async fn left_open(runtime: &Runtime, runs: &Arc<AtomicUsize>) -> ConversationId {
    let first = Edition::plain();
    let steps = json!([{"tool_calls": [{"id": "l1", "tool": "look", "params": {}}]}, {"text": "done"}]);
    let agent = first.agent(runtime, steps, runs).await;
    let session = turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Do it").await;
    let call = session.timeline(|view| {
        let mut calls = view
            .blocks()
            .iter()
            .filter(|block| block.kind == BlockKind::ToolCall);
        calls.next().unwrap().seq
    });
    runs.store(0, Ordering::SeqCst);
    agent.fork(&id("c"), Some(call)).await.unwrap()
}

async fn gone_on_with(edition: Edition) -> (Session, usize, Agent) {
    let runtime = Runtime::in_memory(World::seeded(3)).unwrap();
    let runs = Arc::default();
    let open = left_open(&runtime, &runs).await;
    let agent = edition.agent(&runtime, json!([{"text": "went on"}]), &runs).await;
    let session = agent.open(&open).await.unwrap();
    let end = agent.run_in(&session, TurnRequest::resume()).await.unwrap();
    assert_eq!(end, TurnEnd::Complete, "{}", shape(&session));
    (session, runs.load(Ordering::SeqCst), agent)
}

#[tokio::test]
async fn a_call_runs_only_if_its_tool_takes_what_it_took_when_it_was_offered() {
    let edition = |tools| Edition {
        tools,
        ..Edition::plain()
    };
    for (tools, result) in [
        (vec![("look", "Looks.", false)], "seen"),
        (vec![("look", "Looks, as everybody does.", false)], "seen"),
        (vec![("look", "Looks.", false), ("peek", "Peeks.", true)], "seen"),
        (vec![("look", "Looks.", true)], "tool_changed"),
        (vec![("peek", "Peeks.", true)], "tool_changed"),
    ] {
        let (session, runs, agent) = gone_on_with(edition(tools.clone())).await;
        let results = texts(&session, "react.tool.result");
        assert!(results[0].contains(result), "{tools:?}: {results:?}");
        assert_eq!(runs, usize::from(result == "seen"), "{tools:?}");
        let view = agent.timeline(session.id()).await.unwrap();
        assert_eq!(all_made_again(&agent, &view).await, 2, "{tools:?}");
    }
}

#[tokio::test]
async fn a_tool_that_was_not_offered_is_unknown_although_the_program_has_it() {
    let runtime = Runtime::in_memory(World::seeded(3)).unwrap();
    let runs = Arc::default();
    let first = Edition::plain();
    let steps = json!([{"tool_calls": [{"id": "p1", "tool": "peek", "params": {}}]}, {"text": "done"}]);
    let agent = first.agent(&runtime, steps, &runs).await;
    let session = turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Do it").await;
    let results = texts(&session, "react.tool.result");
    assert!(results[0].contains("unknown_tool"), "{results:?}");
    let peek = CallId::parse("p1").unwrap();
    let call = session.timeline(|view| view.call_block(&peek).unwrap().seq);
    let open = agent.fork(&id("c"), Some(call)).await.unwrap();
    let richer = Edition {
        tools: vec![("look", "Looks.", false), ("peek", "Peeks.", false)],
        ..first
    };
    let agent = richer.agent(&runtime, json!([{"text": "went on"}]), &runs).await;
    let session = agent.open(&open).await.unwrap();
    agent.run_in(&session, TurnRequest::resume()).await.unwrap();
    let results = texts(&session, "react.tool.result");
    assert!(results[0].contains("unknown_tool"), "{results:?}");
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn what_was_offered_survives_garbage_collection_and_comes_along_in_an_export() {
    let bench = Bench::new();
    let agent = bench
        .builder(json!({"steps": [{"text": "done"}]}))
        .instructions("Of the first program.")
        .build()
        .await
        .unwrap();
    turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Do it").await;
    let (log, artifacts) = (agent.log(), agent.artifacts());
    let live: Vec<_> = log.named_blobs(None, 1_000).await.unwrap();
    let far = annals_core::time::Timestamp::from_unix_millis(4_000_000_000_000);
    artifacts.gc(live, far).await.unwrap();

    let mut file = Vec::new();
    export_conversation(&**log, artifacts, &agent.key(&id("c")), &mut file)
        .await
        .unwrap();
    let elsewhere = Bench::new();
    let other = elsewhere
        .builder(json!({"steps": []}))
        .instructions("Of another program.")
        .build()
        .await
        .unwrap();
    let import_as = ImportAs {
        id: None,
        scope: other.scope().clone(),
        owner: other.owner(),
    };
    import_conversation(&**other.log(), other.artifacts(), &mut &file[..], import_as)
        .await
        .unwrap();
    let view = other.timeline(&id("c")).await.unwrap();
    assert_eq!(all_made_again(&other, &view).await, 1);
    let rendered = other.rendered(&view, None).await.unwrap();
    assert!(
        rendered.system.starts_with("Of the first program."),
        "{}",
        rendered.system
    );
}

#[tokio::test]
async fn a_log_without_tables_renders_with_what_the_program_has() {
    let bench = Bench::new();
    let agent = bench
        .builder(json!({"steps": [{"text": "done"}]}))
        .build()
        .await
        .unwrap();
    let session = turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Do it").await;
    let blocks = agent.log().read_all(&agent.key(&id("c"))).await.unwrap();
    let without = blocks
        .into_iter()
        .filter(|block| block.kind != BlockKind::ToolsTable);
    let old: Vec<_> = without
        .enumerate()
        .map(|(at, mut block)| {
            block.seq = Seq::try_new(at as u64 + 1).unwrap();
            Arc::new(block)
        })
        .collect();
    let old = View::fold(old).unwrap();
    assert!(old.tools().is_none() && session.timeline(|view| view.tools().is_some()));
    assert_eq!(all_made_again(&agent, &old).await, 1);
}

/// A model that cannot call tools writes its calls as text; everything else is the same.
#[test]
fn every_sequence_is_the_same_in_the_timeline_layout() {
    annals_requirements::again_in_the_timeline_layout(&[]);
}
