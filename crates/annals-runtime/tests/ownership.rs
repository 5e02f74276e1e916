//! One owner a conversation: requests queue and never fence each other, a lease is given back when its last session goes,
//! and whatever goes wrong leaves a conversation that can be gone on with.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use annals_core::block::{BlockKind, NewBlock};
use annals_core::ids::{ConversationId, Scope};
use annals_core::path::LogicalPath;
use annals_core::time::Timestamp;
use annals_core::timeline::Timeline;
use annals_core::turn::TurnEnd;
use annals_model::{Event, EventStream, Model, ModelError, Request, StopReason, Usage, Window};
use annals_runtime::{
    Agent, CancellationToken, HookCx, Hooks, RunError, Runtime, TurnRequest, Update, Verdict, World,
};
use annals_store::{ArtifactStore, LogError, ManualClock, MemoryLog, Operator, Store};
use annals_tools::{DynamicTool, Tool, ToolSpec};
use common::{Bench, texts, turn};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};

/// Answers with the prompt it was given, after one call of `add_one`.
#[derive(Default)]
struct Echo {
    asked: AtomicUsize,
}

#[async_trait::async_trait]
impl Model for Echo {
    fn name(&self) -> &str {
        "echo"
    }

    fn window(&self) -> Window {
        Window {
            context_tokens: 4_000_000,
            max_output_tokens: 8_000,
        }
    }

    async fn stream(&self, request: Request, _: &CancellationToken) -> Result<EventStream, ModelError> {
        let n = self.asked.fetch_add(1, Ordering::Relaxed);
        // The tail follows the prompt; the last message that is a tool's says that the call was made.
        let messages: Vec<String> = request.prompt.messages.iter().map(|m| format!("{m:?}")).collect();
        let text = messages.iter().rev().find_map(|text| {
            let (_, rest) = text.rsplit_once("<<")?;
            Some(rest.split_once(">>")?.0.to_owned())
        });
        let called = messages.iter().rev().take(2).any(|text| text.starts_with("Tool"));
        let finished = |stop| Event::Finished {
            stop,
            usage: Usage::default(),
        };
        let events = match called {
            false => vec![
                Event::CallStarted {
                    index: 0,
                    id: Some(format!("c{n}")),
                    tool: "add_one".into(),
                },
                Event::CallArguments {
                    index: 0,
                    json: "{\"x\":1}".into(),
                },
                finished(StopReason::ToolUse),
            ],
            true => vec![
                Event::Text(text.unwrap_or_default()),
                finished(StopReason::EndTurn),
            ],
        };
        Ok(stream::iter(events.into_iter().map(Ok)).boxed())
    }
}

fn add_one() -> DynamicTool {
    let schema = json!({"type": "object", "properties": {"x": {"type": "integer"}}});
    DynamicTool::new("add_one", "adds one", schema, |_, args| async move {
        Ok(json!(args["x"].as_i64().unwrap_or(0) + 1))
    })
    .unwrap()
}

async fn echo(home: &tempfile::TempDir) -> Agent {
    echo_on(home, Arc::new(MemoryLog::default())).await
}

async fn echo_on(home: &tempfile::TempDir, log: Arc<dyn Store>) -> Agent {
    Agent::builder()
        .model(Echo::default())
        .tools([add_one()])
        .log(log)
        .artifacts(ArtifactStore::open(home.path().join("artifacts")).unwrap())
        .workspaces(home.path().join("workspace"))
        .build()
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_requests_on_ten_conversations_lose_repeat_and_reorder_nothing() {
    let home = tempfile::tempdir().unwrap();
    many_requests(echo(&home).await, 100).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_requests_on_ten_conversations_of_one_file_lose_repeat_and_reorder_nothing() {
    let home = tempfile::tempdir().unwrap();
    let log = annals_store::SqliteLog::open(home.path().join("log.db"), Default::default());
    many_requests(echo_on(&home, Arc::new(log.unwrap())).await, 20).await;
}

/// Asks each of ten conversations this often at the same time.
async fn many_requests(agent: Agent, requests: usize) {
    const CONVERSATIONS: usize = 10;
    let mut running = Vec::new();
    for conversation in 0..CONVERSATIONS {
        let sessions = futures::future::join_all((0..requests).map(|_| {
            let (agent, name) = (agent.clone(), format!("c{conversation}"));
            async move { agent.session(&name).await.unwrap() }
        }));
        for (n, session) in sessions.await.into_iter().enumerate() {
            let agent = agent.clone();
            // Polled once here, in order: that is when a request takes its place in the queue.
            let mut request = Box::pin(async move {
                let turn = agent
                    .run(session, format!("<<{conversation}:{n}>>"))
                    .await
                    .unwrap();
                assert_eq!(turn.end(), TurnEnd::Complete);
                turn.answer().to_owned()
            });
            let first = futures::poll!(&mut request);
            running.push((
                conversation,
                n,
                tokio::spawn(async move {
                    match first {
                        std::task::Poll::Ready(answer) => answer,
                        std::task::Poll::Pending => request.await,
                    }
                }),
            ));
        }
    }
    for (conversation, n, request) in running {
        assert_eq!(request.await.unwrap(), format!("{conversation}:{n}"));
    }
    for conversation in 0..CONVERSATIONS {
        let session = agent.session(&format!("c{conversation}")).await.unwrap();
        let expected: Vec<String> = (0..requests).map(|n| format!("<<{conversation}:{n}>>")).collect();
        assert_eq!(texts(&session, "user.prompt"), expected);
        let answers: Vec<String> = (0..requests).map(|n| format!("{conversation}:{n}")).collect();
        assert_eq!(texts(&session, "assistant.completion"), answers);
        assert_eq!(texts(&session, "react.tool.result"), vec!["2"; requests]);
    }
}

#[tokio::test]
async fn two_agents_on_one_runtime_share_a_conversation() {
    let home = tempfile::tempdir().unwrap();
    let first = echo(&home).await;
    let runtime: Runtime = first.runtime().clone();
    let second = Agent::builder()
        .model(Echo::default())
        .tool(add_one())
        .runtime(runtime);
    let second = second.build().await.unwrap();
    let (one, two) = (
        first.session("c").await.unwrap(),
        second.session("c").await.unwrap(),
    );
    let (one, two) = tokio::join!(first.run(one, "<<a>>"), second.run(two, "<<b>>"));
    assert_eq!((one.unwrap().answer(), two.unwrap().answer()), ("a", "b"));
}

#[tokio::test]
async fn a_dropped_session_gives_its_lease_back_at_once() {
    let bench = Bench::new();
    let first = bench.agent(json!([{"text": "one"}])).await;
    let session = turn(&first, first.session("c").await.unwrap(), "turn_1", "Go").await;
    // An agent with a runtime of its own is another owner, as another process would be.
    let second = bench
        .builder(json!({"steps": [{"text": "two"}]}))
        .world(World::default())
        .build()
        .await
        .unwrap();
    assert!(matches!(second.session("c").await, Err(RunError::Log(_))));
    drop(session);
    for _ in 0..500 {
        match second.session("c").await {
            Ok(session) => {
                let session = turn(&second, session, "turn_2", "Go").await;
                return assert_eq!(session.answer(), "two");
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
    panic!("the lease was not given back");
}

#[tokio::test]
async fn an_error_gives_the_session_back() {
    let bench = Bench::new();
    let agent = bench.agent(json!([{"text": "fine"}])).await;
    let failed = agent
        .run(agent.session("c").await.unwrap(), "  ")
        .await
        .unwrap_err();
    assert!(matches!(failed.error, RunError::PromptEmpty));
    assert_eq!(failed.error.class(), annals_runtime::ErrorClass::Request);
    let boxed: Box<dyn std::error::Error + Send + Sync> = Box::new(failed);
    let failed = boxed.downcast::<annals_runtime::RunFailed>().unwrap();
    assert_eq!(agent.run(failed.session, "Go").await.unwrap().answer(), "fine");
}

/// Panics at every moment.
struct Panics;

#[async_trait::async_trait]
impl Hooks for Panics {
    async fn turn_started(
        &self,
        _: &HookCx,
        _: &annals_core::timeline::Timeline,
    ) -> Vec<annals_core::block::NewBlock> {
        panic!("at the start")
    }
    async fn before_model(&self, _: &HookCx, _: &annals_core::view::Prompt) {
        panic!("before the model")
    }
    async fn before_call(&self, _: &HookCx, _: &ToolSpec, _: &Value) -> Verdict {
        panic!("before a call")
    }
    async fn turn_ending(
        &self,
        _: &HookCx,
        _: &annals_core::timeline::Timeline,
    ) -> Vec<annals_core::block::NewBlock> {
        panic!("at the end")
    }
}

#[tokio::test]
async fn a_hook_that_panics_refuses_its_call_and_does_not_reach_the_caller() {
    let bench = Bench::new();
    let steps = json!({"steps": [{"tool_calls": [{"id": "a", "tool": "add_one", "params": {"x": 1}}]}, {"text": "ok"}]});
    let agent = bench
        .builder(steps)
        .tool(add_one())
        .hooks(Panics)
        .build()
        .await
        .unwrap();
    let turn = agent.run(agent.session("c").await.unwrap(), "Go").await.unwrap();
    assert_eq!(turn.end(), TurnEnd::Complete);
    let result = texts(turn.session(), "react.tool.result").remove(0);
    assert!(
        result.contains("denied_by_policy") && result.contains("before a call"),
        "{result}"
    );
}

/// Contributes a block at both ends of a turn, and remembers where it saw the timeline.
#[derive(Clone, Default)]
struct Contributes {
    places: Arc<std::sync::Mutex<Vec<usize>>>,
}

impl Contributes {
    fn block(&self, cx: &HookCx, timeline: &Timeline) -> Vec<NewBlock> {
        self.places
            .lock()
            .unwrap()
            .push(std::ptr::from_ref(timeline).addr());
        let path = LogicalPath::named(&cx.turn, "x.seen").unwrap();
        let block = NewBlock::new(BlockKind::Other("x.seen".into()), &cx.turn, path);
        vec![block.text("text/plain", "seen")]
    }
}

#[async_trait::async_trait]
impl Hooks for Contributes {
    async fn turn_started(&self, cx: &HookCx, timeline: &Timeline) -> Vec<NewBlock> {
        self.block(cx, timeline)
    }
    async fn turn_ending(&self, cx: &HookCx, timeline: &Timeline) -> Vec<NewBlock> {
        self.block(cx, timeline)
    }
}

/// The timeline is copied on write, so a snapshot that a hook was lent must be gone before its blocks are appended: the timeline
/// stays in its place. A copy would be in another, since the snapshot keeps the old one alive meanwhile.
#[tokio::test]
async fn what_a_hook_contributes_does_not_copy_the_timeline() {
    let bench = Bench::new();
    let hooks = Contributes::default();
    let steps = json!({"steps": [{"text": "one"}, {"text": "two"}]});
    let agent = bench.builder(steps).hooks(hooks.clone()).build().await.unwrap();
    let session = turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Go").await;
    let session = turn(&agent, session, "turn_2", "On").await;
    assert_eq!(texts(&session, "x.seen").len(), 4);
    let places = hooks.places.lock().unwrap().clone();
    assert_eq!(places, [places[0]; 4]);
}

/// A listener is the caller's own code, and runs inside the turn.
#[tokio::test]
async fn a_listener_that_panics_stops_the_turn_and_the_session_goes_on() {
    let bench = Bench::new();
    let agent = bench.agent(json!([{"text": "one"}, {"text": "two"}])).await;
    let request = TurnRequest::new("Go").listen(|update: Update| {
        assert!(
            !matches!(update, Update::Block(block) if block.kind == BlockKind::AssistantCompletion),
            "boom"
        );
    });
    let failed = agent
        .run(agent.session("c").await.unwrap(), request)
        .await
        .unwrap_err();
    assert!(
        matches!(&failed.error, RunError::Panicked(said) if said.contains("boom")),
        "{failed}"
    );
    let turn = agent.run(failed.session, "Again").await.unwrap();
    assert_eq!(turn.answer(), "two");
}

#[tokio::test]
async fn dropping_a_run_cancels_its_turn_and_the_next_one_follows() {
    let started = Arc::new(tokio::sync::Notify::new());
    let endless: Arc<dyn Tool> = {
        let started = started.clone();
        let schema = json!({"type": "object", "properties": {}});
        let tool = DynamicTool::new("endless", "never ends", schema, move |cx, _| {
            let started = started.clone();
            async move {
                started.notify_one();
                cx.cancel().cancelled().await;
                Ok(json!("stopped"))
            }
        });
        Arc::new(tool.unwrap())
    };
    let bench = Bench::new();
    let steps = json!([{"tool_calls": [{"id": "a", "tool": "endless", "params": {}}]}, {"text": "next"}]);
    let agent = bench.agent_with(steps, vec![endless]).await;
    let session = agent.session("c").await.unwrap();
    {
        let run = agent.run_in(&session, "Go");
        tokio::select! {
            _ = run => panic!("it never ends"),
            () = started.notified() => {}
        }
    }
    let turn = agent.run(session, "Again").await.unwrap();
    assert_eq!(turn.answer(), "next");
    assert!(texts(turn.session(), "react.completion")[0].contains("cancelled"));
}

#[tokio::test]
async fn a_turn_says_what_it_came_to() {
    let bench = Bench::new();
    let write = |content: &str| {
        json!({"usage": {"input_tokens": 10, "output_tokens": 5}, "tool_calls": [{"tool": "react.write", "params": {
            "path": "a.md", "channel": "canvas", "content": content, "kind": "file"}}]})
    };
    let steps = json!([write("# A\n"), write("# A, longer\n"),
                       {"text": "Done", "usage": {"input_tokens": 20, "output_tokens": 1}}]);
    let agent = bench.agent(steps).await;
    let turn = agent.run(agent.session("c").await.unwrap(), "Go").await.unwrap();
    assert_eq!(
        (turn.answer(), turn.end(), turn.reason()),
        ("Done", TurnEnd::Complete, None)
    );
    assert_eq!((turn.usage().input_tokens, turn.usage().output_tokens), (40, 11));
    let [file] = turn.files() else {
        panic!("{:?}", turn.files())
    };
    assert_eq!(file.path.as_str(), format!("fi:{}.files/a.md", turn.id()));
    assert_eq!(file.size_bytes, Some("# A, longer\n".len() as u64));
    assert!(file.digest.is_some());
}

#[tokio::test]
async fn a_subscriber_gets_every_block_and_is_told_what_it_missed() {
    let bench = Bench::new();
    let long = "word ".repeat(4_000);
    let agent = bench
        .builder(json!({"chunk_ms": 0, "steps": [{"text": long}, {"text": "two"}]}))
        .build()
        .await
        .unwrap();
    let session = agent.session("c").await.unwrap();
    let mut watching = agent.subscribe(session.id(), None).await.unwrap();
    let session = agent.run(session, "One").await.unwrap().into_session();
    let session = agent.run(session, "Two").await.unwrap().into_session();
    let tail = session.timeline(|timeline| timeline.tail()).unwrap();
    let (mut seen, mut ends, mut missed) = (Vec::new(), 0, 0);
    while seen.last() != Some(&tail) || missed == 0 {
        let next = tokio::time::timeout(Duration::from_secs(120), watching.next());
        match next.await.expect("it is told that it missed something").unwrap() {
            Update::Block(block) => seen.push(block.seq),
            Update::Gap { missed: more } => missed += more,
            Update::TurnEnded { .. } => ends += 1,
            Update::Delta(delta) => assert_eq!((&delta.conversation, delta.step), (session.id(), 1)),
            _ => {}
        }
    }
    assert!(ends <= 2);
    assert!(missed > 0);
    let all: Vec<_> = session.timeline(|timeline| timeline.blocks().iter().map(|block| block.seq).collect());
    assert_eq!(seen, all);
}

#[tokio::test]
async fn what_another_process_wrote_is_folded_in_instead_of_conflicting_for_ever() {
    let clock = Arc::new(ManualClock::new(Timestamp::from_unix_millis(1_770_000_000_000)));
    let log = Arc::new(MemoryLog::with_clock(clock.clone()));
    let home = tempfile::tempdir().unwrap();
    let process = async || {
        let builder = Agent::builder()
            .model(Echo::default())
            .tool(add_one())
            .log(log.clone());
        let artifacts = ArtifactStore::open(home.path().join("artifacts")).unwrap();
        let builder = builder
            .artifacts(artifacts)
            .workspaces(home.path().join("workspace"));
        builder.build().await.unwrap()
    };
    let (first, second) = (process().await, process().await);
    let session = first
        .run(first.session("c").await.unwrap(), "<<a>>")
        .await
        .unwrap()
        .into_session();
    let held = second.session("c").await;
    assert!(matches!(held, Err(RunError::Log(LogError::Held { .. }))));
    clock.advance(Duration::from_secs(120));
    let other = second
        .run(second.session("c").await.unwrap(), "<<b>>")
        .await
        .unwrap();
    // While the other process still holds it, the first one is told so and keeps its session.
    let failed = first.run(session, "<<c>>").await.unwrap_err();
    assert_eq!(
        failed.error.class(),
        annals_runtime::ErrorClass::Retry,
        "{failed}"
    );
    other.into_session().close().await.unwrap();
    let turn = first.run(failed.session, "<<c>>").await.unwrap();
    assert_eq!(turn.answer(), "c");
    assert_eq!(texts(turn.session(), "user.prompt"), ["<<a>>", "<<b>>", "<<c>>"]);
}

#[tokio::test]
async fn merging_takes_two_conversations_of_one_scope_and_records_both() {
    let home = tempfile::tempdir().unwrap();
    let agent = echo(&home).await;
    let other = Agent::builder()
        .model(Echo::default())
        .tool(add_one())
        .runtime(agent.runtime().clone())
        .scope(Scope::parse("other/project/ann").unwrap())
        .build()
        .await
        .unwrap();
    for (agent, name) in [(&agent, "a"), (&agent, "b"), (&other, "secret")] {
        let session = agent.session(name).await.unwrap();
        agent.run(session, format!("<<{name}>>")).await.unwrap();
    }
    let id = |name: &str| ConversationId::parse(name).unwrap();
    for (one, two) in [("a", "secret"), ("secret", "a")] {
        let refused = agent.merge(&id(one), &id(two)).await;
        assert!(
            matches!(refused, Err(RunError::Log(LogError::NotFound { .. }))),
            "{refused:?}"
        );
    }
    let merged = agent.merge(&id("a"), &id("b")).await.unwrap();
    let info = agent.log().get(&agent.key(&merged)).await.unwrap();
    let parents: Vec<&str> = info.lineage.iter().map(|from| from.parent.as_str()).collect();
    assert_eq!(parents, ["a", "b"]);
    assert!(
        info.lineage
            .iter()
            .all(|from| from.operator == Operator::Merge && from.at.is_some())
    );
    let session = agent.open(&merged).await.unwrap();
    assert_eq!(texts(&session, "assistant.completion"), ["a", "b"]);
    assert_eq!(agent.run(session, "<<on>>").await.unwrap().answer(), "on");
}

/// Another process takes the conversation while a tool of this one runs: the tool is stopped, and nothing more is written.
#[tokio::test]
async fn a_lost_lease_stops_what_runs() {
    let clock = Arc::new(ManualClock::new(Timestamp::from_unix_millis(1_770_000_000_000)));
    let log = Arc::new(MemoryLog::with_clock(clock.clone()));
    let home = tempfile::tempdir().unwrap();
    let (started, stopped) = (
        Arc::new(tokio::sync::Notify::new()),
        Arc::new(AtomicUsize::new(0)),
    );
    let tool = {
        let (started, stopped) = (started.clone(), stopped.clone());
        let schema = json!({"type": "object", "properties": {"x": {"type": "integer"}}});
        DynamicTool::new("add_one", "never ends", schema, move |cx, _| {
            let (started, stopped) = (started.clone(), stopped.clone());
            async move {
                started.notify_one();
                cx.cancel().cancelled().await;
                stopped.fetch_add(1, Ordering::SeqCst);
                Ok(json!(2))
            }
        })
    };
    let process = |tool: DynamicTool| {
        let artifacts = ArtifactStore::open(home.path().join("artifacts")).unwrap();
        let builder = Agent::builder()
            .model(Echo::default())
            .tool(tool)
            .log(log.clone());
        let builder = builder
            .artifacts(artifacts)
            .workspaces(home.path().join("workspace"));
        builder.lease_ttl(Duration::from_millis(300)).build()
    };
    let first = process(tool.unwrap()).await.unwrap();
    let second = process(add_one()).await.unwrap();
    let session = first.session("c").await.unwrap();
    let (failed, other) = tokio::join!(first.run(session, "<<a>>"), async {
        started.notified().await;
        clock.advance(Duration::from_secs(1));
        second
            .run(second.session("c").await.unwrap(), "<<b>>")
            .await
            .unwrap()
    });
    let failed = failed.unwrap_err();
    assert!(
        matches!(
            failed.error,
            RunError::LeaseLost(_) | RunError::Log(LogError::Conflict { .. })
        ),
        "{failed}"
    );
    assert_eq!((other.answer(), stopped.load(Ordering::SeqCst)), ("b", 1));
    let results = texts(other.session(), "react.tool.result");
    assert!(results[0].contains("interrupted"), "{results:?}");
}

#[tokio::test]
async fn a_picture_is_read_once_in_a_turn() {
    let bench = Bench::new();
    let artifacts = bench.home.path().join("artifacts");
    let schema = json!({"type": "object", "properties": {}});
    let lose = DynamicTool::new("lose", "loses the artifacts", schema, move |_, _| {
        std::fs::remove_dir_all(&artifacts).unwrap();
        async { Ok(json!("lost")) }
    });
    let steps = json!([{"tool_calls": [{"id": "l", "tool": "lose", "params": {}}]}, {"text": "still here"}]);
    let agent = bench.agent_with(steps, vec![Arc::new(lose.unwrap())]).await;
    let png = [
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89".as_slice(),
        b"\0\0\0\nIDATx\x9cc\0\x01\0\0\x05\0\x01\r\n-\xb4\0\0\0\0IEND\xaeB`\x82".as_slice(),
    ]
    .concat();
    let request = TurnRequest::new("Look").attach(annals_runtime::Attachment::new("a.png", png));
    let turn = agent
        .run(agent.session("c").await.unwrap(), request)
        .await
        .unwrap();
    assert_eq!((turn.answer(), turn.end()), ("still here", TurnEnd::Complete));
}

/// A file that is read into a store under the name it had says that the conversation came from one of that name.
#[tokio::test]
async fn the_ancestry_of_a_conversation_that_bears_its_parent_s_name_has_an_end() {
    let (home, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let agent = echo(&elsewhere).await;
    let session = agent.session("c").await.unwrap();
    let turn = agent.run(session, "<<one>>").await.unwrap();
    turn.into_session().close().await.unwrap();
    let (id, mut file) = (ConversationId::parse("c").unwrap(), Vec::new());
    annals_store::export_conversation(&**agent.log(), agent.artifacts(), &agent.key(&id), &mut file)
        .await
        .unwrap();
    let agent = echo(&home).await;
    let import_as = annals_store::ImportAs {
        id: None,
        scope: agent.scope().clone(),
        owner: agent.owner(),
    };
    let mut reader = &file[..];
    annals_store::import_conversation(&**agent.log(), agent.artifacts(), &mut reader, import_as)
        .await
        .unwrap();
    let fork = agent.fork(&id, None).await.unwrap();
    // On a thread of its own: one that walks in a circle never lets others have theirs.
    let (tell, told) = std::sync::mpsc::channel();
    let walk = (agent.clone(), fork.clone());
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _ = tell.send(runtime.block_on(walk.0.lineage(&walk.1)));
    });
    let rows = told
        .recv_timeout(Duration::from_secs(60))
        .expect("it ends")
        .unwrap();
    let told: Vec<_> = rows
        .iter()
        .map(|row| {
            (
                row.conversation.as_str(),
                row.ancestor.parent.as_str(),
                row.ancestor.operator,
            )
        })
        .collect();
    assert_eq!(
        told,
        [(fork.as_str(), "c", Operator::Fork), ("c", "c", Operator::Import)]
    );
}
