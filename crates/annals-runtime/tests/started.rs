//! A crash between a call's start and its result is told from one before it started: what did nothing runs, what may have
//! done its work does not run again. Every prefix of a log is what some crash leaves.

mod common;

use std::sync::{Arc, Mutex};

use annals_core::block::BlockKind;
use annals_core::ids::{CallId, ConversationId, Seq};
use annals_core::turn::TurnEnd;
use annals_core::view::View;
use annals_model::ScriptModel;
use annals_model::script::Script;
use annals_runtime::{Agent, HookCx, Hooks, Runtime, Session, TurnRequest, Verdict, World};
use annals_tools::{DynamicTool, Effect, Tool, ToolSpec, Uses};
use common::{shape, turn};
use serde_json::{Value, json};

/// Thinks about every call, and allows it.
struct Considers;

#[async_trait::async_trait]
impl Hooks for Considers {
    async fn before_call(&self, _: &HookCx, _: &ToolSpec, _: &Value) -> Verdict {
        tokio::task::yield_now().await;
        Verdict::Allow
    }
}

type Ran = Arc<Mutex<Vec<String>>>;

fn tool(name: &str, effect: Effect, ran: &Ran) -> Arc<dyn Tool> {
    let spec = ToolSpec::builder(name).effect(effect);
    let spec = match effect {
        Effect::None => spec,
        _ => spec.writes(Uses::named("outside")),
    };
    let ran = ran.clone();
    Arc::new(DynamicTool::with_spec(spec.build().unwrap(), move |cx, _| {
        ran.lock().unwrap().push(cx.call().to_string());
        async { Ok(json!("done")) }
    }))
}

fn steps() -> Vec<Value> {
    vec![
        json!({"tool_calls": [{"id": "mail1", "tool": "mail", "params": {}}]}),
        json!({"tool_calls": [
            {"id": "look1", "tool": "look", "params": {}},
            {"id": "mail2", "tool": "mail", "params": {}},
            {"id": "save1", "tool": "save", "params": {}},
            {"id": "mail3", "tool": "mail", "params": {}},
        ]}),
        json!({"text": "All done"}),
    ]
}

async fn agent(runtime: &Runtime, steps: &[Value], hooks: Option<Considers>, ran: &Ran) -> Agent {
    let script = Script::parse(&json!({ "steps": steps }).to_string()).unwrap();
    let builder = Agent::builder()
        .model(ScriptModel::new("test", script))
        .layout(common::layout())
        .tools([
            tool("mail", Effect::Once, ran),
            tool("save", Effect::Replayable, ran),
            tool("look", Effect::None, ran),
        ])
        .runtime(runtime.clone());
    match hooks {
        Some(hooks) => builder.hooks(hooks),
        None => builder,
    }
    .build()
    .await
    .unwrap()
}

fn count(ran: &Ran, call: &CallId) -> usize {
    ran.lock()
        .unwrap()
        .iter()
        .filter(|ran| *ran == call.as_str())
        .count()
}

fn is_interrupted(session: &Session, call: &CallId) -> bool {
    session.timeline(|view| {
        let results = view.blocks().iter();
        let mut of_call = results
            .filter(|block| block.kind == BlockKind::ToolResult && block.meta().call.as_ref() == Some(call));
        of_call.any(|block| block.text().is_some_and(|text| text.contains("interrupted")))
    })
}

/// What each open call must come to when a process goes on from here: whether it runs.
fn expected(view: &View) -> Vec<(CallId, bool)> {
    let runs = |tool: &str, is_held: bool| tool != "mail" || is_held;
    view.open_calls()
        .map(|call| (call.id.clone(), runs(&call.tool, call.is_held())))
        .collect()
}

async fn every_crash(hooks: fn() -> Option<Considers>) -> (usize, usize) {
    let runtime = Runtime::in_memory(World::seeded(5)).unwrap();
    let id = ConversationId::parse("c").unwrap();
    let first = agent(&runtime, &steps(), hooks(), &Ran::default()).await;
    turn(&first, first.session("c").await.unwrap(), "turn_1", "Go").await;
    let whole = first.timeline(&id).await.unwrap();
    let (mut held, mut begun) = (0, 0);
    for seq in (4..whole.tail().unwrap().get()).map(|seq| Seq::try_new(seq).unwrap()) {
        let at = whole.at(seq);
        let expected = expected(&at);
        let ran = Ran::default();
        let answered = at.current_turn().map_or(0, |turn| turn.steps as usize);
        let next = agent(&runtime, &steps()[answered..], hooks(), &ran).await;
        let fork = next.fork(&id, Some(seq)).await.unwrap();
        let session = next.open(&fork).await.unwrap();
        let end = next.run_in(&session, TurnRequest::resume()).await.unwrap();
        let context = format!("after block {seq}\n{}", shape(&session));
        assert_eq!(end, TurnEnd::Complete, "{context}");
        for (call, runs) in expected {
            assert_eq!(count(&ran, &call), usize::from(runs), "{call} {context}");
            assert_eq!(is_interrupted(&session, &call), !runs, "{call} {context}");
            *(if runs { &mut held } else { &mut begun }) += 1;
        }
    }
    (held, begun)
}

#[tokio::test]
async fn a_crash_at_any_block_runs_what_did_nothing_and_repeats_nothing() {
    let (held, begun) = every_crash(|| Some(Considers)).await;
    assert!(held >= 4 && begun >= 3, "{held} calls had not begun, {begun} had");
    let (held, begun) = every_crash(|| None).await;
    assert!(held >= 2 && begun >= 3, "{held} calls had not begun, {begun} had");
}

#[tokio::test]
async fn a_call_that_nothing_holds_up_costs_no_block_of_its_own() {
    let count = async |hooks| {
        let runtime = Runtime::in_memory(World::seeded(5)).unwrap();
        let agent = agent(&runtime, &steps(), hooks, &Ran::default()).await;
        let session = turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Go").await;
        let blocks = session.timeline(|view| view.blocks().to_vec());
        blocks
            .iter()
            .filter(|block| block.kind == BlockKind::ToolStarted)
            .count()
    };
    assert_eq!(count(None).await, 0);
    // A hook is asked about all three.
    assert_eq!(count(Some(Considers)).await, 3);
}

/// A model that cannot call tools writes its calls as text; everything else is the same.
#[test]
fn every_sequence_is_the_same_in_the_timeline_layout() {
    annals_requirements::again_in_the_timeline_layout(&[]);
}
