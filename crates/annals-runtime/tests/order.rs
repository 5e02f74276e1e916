//! Calls of one answer: what conflicts runs in the order given, the rest together, and nothing starts after a cancel.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use annals_core::turn::TurnEnd;
use annals_model::{Event, EventStream, Model, ModelError, Request, StopReason, Usage, Window};
use annals_runtime::{CancellationToken, HookCx, Hooks, TurnRequest, Verdict};
use annals_tools::{DynamicTool, Effect, Tool, ToolSpec, Uses};
use common::{Bench, shape, texts, turn};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};

/// What the cell holds after `x` was put into it: it tells every order of puts from every other.
fn after(before: i64, x: i64) -> i64 {
    (before * 10 + x) % 1_000_003
}

/// One cell that tools read and write, slowly.
#[derive(Clone, Default)]
struct Cell(Arc<Mutex<i64>>);

impl Cell {
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let schema = json!({"type": "object", "properties": {"x": {"type": "integer"}}});
        let (read, write) = (self.clone(), self.clone());
        let reads = ToolSpec::builder("get")
            .parameters(schema.clone())
            .reads(Uses::named("cell"));
        let writes = ToolSpec::builder("put")
            .parameters(schema)
            .writes(Uses::named("cell"));
        vec![
            Arc::new(DynamicTool::with_spec(reads.build().unwrap(), move |_, _| {
                let cell = read.clone();
                async move {
                    tokio::task::yield_now().await;
                    Ok(json!(*cell.0.lock().unwrap()))
                }
            })),
            Arc::new(DynamicTool::with_spec(writes.build().unwrap(), move |_, args| {
                let cell = write.clone();
                async move {
                    let before = *cell.0.lock().unwrap();
                    tokio::task::yield_now().await;
                    tokio::task::yield_now().await;
                    *cell.0.lock().unwrap() = after(before, args["x"].as_i64().unwrap());
                    Ok(json!("put"))
                }
            })),
        ]
    }
}

/// Many short conversations, because every prompt of a long one is long.
const CONVERSATIONS: usize = 25;
const ANSWERS: usize = 40;

/// Answers with five calls [`ANSWERS`] times in each turn, then with a word. `n` keeps them from being a loop.
#[derive(Default)]
struct Puts {
    asked: AtomicUsize,
}

#[async_trait::async_trait]
impl Model for Puts {
    fn name(&self) -> &str {
        "puts"
    }

    fn window(&self) -> Window {
        Window {
            context_tokens: 100_000_000,
            max_output_tokens: 8_000,
        }
    }

    async fn stream(&self, _: Request, _: &CancellationToken) -> Result<EventStream, ModelError> {
        let n = self.asked.fetch_add(1, Ordering::SeqCst);
        let finished = |stop| Event::Finished {
            stop,
            usage: Usage::default(),
        };
        let calls = [("put", 1), ("get", 1), ("put", 2), ("get", 2), ("get", 3)];
        let mut events = Vec::new();
        if n % (ANSWERS + 1) == ANSWERS {
            events.extend([Event::Text("done".into()), finished(StopReason::EndTurn)]);
        } else {
            for (index, (tool, x)) in calls.into_iter().enumerate() {
                events.push(Event::CallStarted {
                    index,
                    id: Some(format!("c{n}_{index}")),
                    tool: tool.into(),
                });
                events.push(Event::CallArguments {
                    index,
                    json: json!({"x": x, "n": n}).to_string(),
                });
            }
            events.push(finished(StopReason::ToolUse));
        }
        Ok(stream::iter(events.into_iter().map(Ok)).boxed())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conflicting_calls_are_right_a_thousand_times_of_a_thousand() {
    let settings = annals_core::settings::Settings {
        max_iterations: 1_000,
        ..Default::default()
    };
    let cell = Cell::default();
    let home = tempfile::tempdir().unwrap();
    let agent = annals_runtime::Agent::builder()
        .model(Puts::default())
        .tools(cell.tools())
        .log(Arc::new(annals_store::MemoryLog::default()))
        .artifacts(annals_store::ArtifactStore::open(home.path().join("artifacts")).unwrap())
        .workspaces(home.path().join("workspace"))
        .settings(settings)
        .build()
        .await
        .unwrap();
    let mut results = Vec::new();
    for n in 0..CONVERSATIONS {
        let session = agent.session(&format!("c{n}")).await.unwrap();
        let turn = agent.run(session, "Go").await.unwrap();
        assert_eq!(turn.end(), TurnEnd::Complete, "{:?}", turn.reason());
        results.extend(texts(turn.session(), "react.tool.result"));
    }
    let mut cell = 0_i64;
    let mut right = 0;
    for answer in results.chunks(5) {
        let one = after(cell, 1);
        let two = after(one, 2);
        let expected = [
            "\"put\"".to_owned(),
            one.to_string(),
            "\"put\"".to_owned(),
            two.to_string(),
            two.to_string(),
        ];
        right += usize::from(answer == expected);
        cell = two;
    }
    assert_eq!(right, 1_000);
    assert_eq!(results.len(), 5 * CONVERSATIONS * ANSWERS);
}

/// A file that each answer writes and looks into twice, with the tools that models use.
#[tokio::test(flavor = "multi_thread")]
async fn writes_and_searches_of_one_answer_see_each_other() {
    const ANSWERS: usize = 50;
    let write = |id: String, text: String| {
        json!({"id": id, "tool": "react.write", "params": {
            "path": "f.md", "channel": "canvas", "content": text, "kind": "file"}})
    };
    let search = |id: String| json!({"id": id, "tool": "react.search_files", "params": {"name_regex": "f.md", "content_regex": "(first|second) "}});
    let answer = |n: usize| {
        json!({"tool_calls": [
            write(format!("a{n}"), format!("first {n}")), search(format!("b{n}")),
            write(format!("c{n}"), format!("second {n}")), search(format!("d{n}")),
        ]})
    };
    let steps: Vec<Value> = (0..ANSWERS)
        .map(answer)
        .chain([json!({"text": "done"})])
        .collect();
    let settings = annals_core::settings::Settings {
        max_iterations: 60,
        ..Default::default()
    };
    let bench = Bench::new();
    let builder = bench.builder(json!({ "steps": steps })).settings(settings);
    let agent = builder.build().await.unwrap();
    let session = turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Go").await;
    let results = texts(&session, "react.tool.result");
    let found: Vec<String> = results
        .iter()
        .filter_map(|text| {
            let json: Value = serde_json::from_str(text).ok()?;
            json["hits"][0]["text"].as_str().map(str::to_owned)
        })
        .collect();
    let written: Vec<String> = (0..ANSWERS)
        .flat_map(|n| [format!("first {n}"), format!("second {n}")])
        .collect();
    assert_eq!(found, written);
}

/// Waits before every call of `slow`, and counts what it was asked.
#[derive(Clone)]
struct Waits {
    asked: Arc<AtomicUsize>,
    release: Arc<tokio::sync::Semaphore>,
}

impl Waits {
    fn new() -> Self {
        Waits {
            asked: Arc::default(),
            release: Arc::new(tokio::sync::Semaphore::new(0)),
        }
    }
}

#[async_trait::async_trait]
impl Hooks for Waits {
    async fn before_call(&self, cx: &HookCx, tool: &ToolSpec, _: &Value) -> Verdict {
        assert!(cx.call.is_some() && cx.step == 1 && cx.conversation.as_str() == "c");
        self.asked.fetch_add(1, Ordering::SeqCst);
        if tool.name().as_str() == "slow" {
            let _released = self.release.acquire().await;
        }
        Verdict::Allow
    }
}

fn counting(name: &str, runs: &Arc<AtomicUsize>) -> Arc<dyn Tool> {
    let (spec, runs) = (ToolSpec::builder(name).effect(Effect::Once), runs.clone());
    Arc::new(DynamicTool::with_spec(spec.build().unwrap(), move |_, _| {
        runs.fetch_add(1, Ordering::SeqCst);
        async { Ok(json!("ran")) }
    }))
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..3_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

#[tokio::test]
async fn a_slow_check_of_one_call_does_not_hold_up_the_calls_before_it() {
    let (fast, slow) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let hooks = Waits::new();
    let bench = Bench::new();
    let calls = json!([{"id": "a", "tool": "fast", "params": {}}, {"id": "b", "tool": "slow", "params": {}}]);
    let agent = bench
        .builder(json!({"steps": [{"tool_calls": calls}, {"text": "ok"}]}))
        .tools([counting("fast", &fast), counting("slow", &slow)])
        .hooks(hooks.clone())
        .build()
        .await
        .unwrap();
    let session = agent.session("c").await.unwrap();
    let (turn, ()) = tokio::join!(agent.run(session, "Go"), async {
        until("the fast tool runs", || fast.load(Ordering::SeqCst) == 1).await;
        assert_eq!(slow.load(Ordering::SeqCst), 0);
        hooks.release.add_permits(1);
    });
    assert_eq!(turn.unwrap().answer(), "ok");
    assert_eq!(
        (slow.load(Ordering::SeqCst), hooks.asked.load(Ordering::SeqCst)),
        (1, 2)
    );
}

#[tokio::test]
async fn nothing_starts_after_a_cancel_however_long_its_check_takes() {
    let runs = Arc::new(AtomicUsize::new(0));
    let hooks = Waits::new();
    let bench = Bench::new();
    let calls = json!([{"id": "a", "tool": "slow", "params": {}}, {"id": "b", "tool": "slow", "params": {}}]);
    let agent = bench
        .builder(json!({"steps": [{"tool_calls": calls}, {"text": "never"}]}))
        .tools([counting("slow", &runs)])
        .hooks(hooks.clone())
        .build()
        .await
        .unwrap();
    let cancel = CancellationToken::new();
    let request = TurnRequest::new("Go").cancel(cancel.clone());
    let session = agent.session("c").await.unwrap();
    let (turn, ()) = tokio::join!(agent.run(session, request), async {
        until("the hook is asked", || hooks.asked.load(Ordering::SeqCst) == 2).await;
        cancel.cancel();
        hooks.release.add_permits(2);
    });
    let turn = turn.unwrap();
    assert_eq!((turn.end(), runs.load(Ordering::SeqCst)), (TurnEnd::Cancelled, 0));
    for result in texts(turn.session(), "react.tool.result") {
        assert!(result.contains("did nothing"), "{result}");
    }
}

#[tokio::test]
async fn a_queued_call_of_a_cancelled_turn_does_not_start() {
    let (runs, first) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(tokio::sync::Notify::new()),
    );
    let spec = |name: &str| {
        ToolSpec::builder(name)
            .writes(Uses::named("thing"))
            .build()
            .unwrap()
    };
    let waiting: Arc<dyn Tool> = {
        let first = first.clone();
        Arc::new(DynamicTool::with_spec(spec("first"), move |cx, _| {
            let first = first.clone();
            async move {
                first.notify_one();
                cx.cancel().cancelled().await;
                Ok(json!("stopped"))
            }
        }))
    };
    let second: Arc<dyn Tool> = {
        let runs = runs.clone();
        Arc::new(DynamicTool::with_spec(spec("second"), move |_, _| {
            runs.fetch_add(1, Ordering::SeqCst);
            async { Ok(json!("ran")) }
        }))
    };
    let calls =
        json!([{"id": "a", "tool": "first", "params": {}}, {"id": "b", "tool": "second", "params": {}}]);
    let bench = Bench::new();
    let agent = bench
        .agent_with(json!([{"tool_calls": calls}]), vec![waiting, second])
        .await;
    let cancel = CancellationToken::new();
    let request = TurnRequest::new("Go").cancel(cancel.clone());
    let session = agent.session("c").await.unwrap();
    let (turn, ()) = tokio::join!(agent.run(session, request), async {
        first.notified().await;
        cancel.cancel();
    });
    assert_eq!(turn.unwrap().end(), TurnEnd::Cancelled);
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

/// A hide counts what the hides before it left, so it has to see them on the timeline.
#[tokio::test]
async fn two_hides_behind_a_slow_call_see_each_other() {
    let slow: Arc<dyn Tool> = {
        let spec = ToolSpec::builder("slow").independent().build().unwrap();
        Arc::new(DynamicTool::with_spec(spec, |_, _| async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok(json!("slept"))
        }))
    };
    let path = "fi:turn_1.files/a.md";
    let hide =
        |id: &str| json!({"id": id, "tool": "react.hide", "params": {"path": path, "replacement": id}});
    let write = json!({"tool_calls": [{"id": "w", "tool": "react.write", "params": {
        "path": "a.md", "channel": "canvas", "content": "words ".repeat(100), "kind": "file"}}]});
    let hides =
        json!({"tool_calls": [{"id": "s", "tool": "slow", "params": {}}, hide("first"), hide("second")]});
    let bench = Bench::new();
    let agent = bench
        .agent_with(json!([write, hides, {"text": "ok"}]), vec![slow])
        .await;
    let session = turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Go").await;
    let results = texts(&session, "react.tool.result");
    let hidden: Vec<u64> = results
        .iter()
        .filter_map(|text| serde_json::from_str::<Value>(text).ok()?["blocks_hidden"].as_u64())
        .collect();
    assert_eq!(hidden.len(), 2, "{}", shape(&session));
    assert!(
        hidden[0] > 0 && hidden[1] == 0,
        "the second hid what was hidden: {hidden:?}"
    );
}

/// A model that cannot call tools writes its calls as text; everything else is the same.
#[test]
fn every_sequence_is_the_same_in_the_timeline_layout() {
    annals_requirements::again_in_the_timeline_layout(&["--skip", "a_thousand_times"]);
}
