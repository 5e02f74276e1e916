//! Work that no process has is taken up: processes that are killed, that lose the store, that stop, and turns that kill.

mod common;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use annals_core::ids::ConversationId;
use annals_core::time::Timestamp;
use annals_core::turn::TurnEnd;
use annals_runtime::{Agent, Ask, HookCx, Hooks, RunError, Verdict, WorkerOptions, World};
use annals_store::{BlockLog as _, ManualClock, MemoryLog, Owner, Post};
use annals_tools::{DynamicTool, Effect, Tool, ToolSpec};
use common::{Bench, shape, texts};
use serde_json::{Value, json};

const ROLE: &str = "ANNALS_TEST_WORKER_ROLE";
const HOME: &str = "ANNALS_TEST_WORKER_HOME";
const TTL: Duration = Duration::from_secs(2);

fn conversation() -> ConversationId {
    ConversationId::parse("c").unwrap()
}

fn options() -> WorkerOptions {
    WorkerOptions::default().poll(Duration::from_millis(20))
}

fn tool(
    name: &str,
    effect: Effect,
    run: impl Fn(annals_tools::ToolCx) -> futures::future::BoxFuture<'static, Value> + Send + Sync + 'static,
) -> Arc<dyn Tool> {
    let spec = ToolSpec::builder(name)
        .effect(effect)
        .independent()
        .build()
        .unwrap();
    Arc::new(DynamicTool::with_spec(spec, move |cx, _| {
        let result = run(cx);
        async move { Ok(result.await) }
    }))
}

fn call(tool: &str) -> Value {
    json!({"tool_calls": [{"id": tool, "tool": tool, "params": {}}]})
}

/// An agent of a process that shares the home with others.
async fn agent_at(home: &Path, steps: Value, tools: Vec<Arc<dyn Tool>>) -> Agent {
    let script = annals_model::script::Script::parse(&json!({ "steps": steps }).to_string()).unwrap();
    Agent::builder()
        .model(annals_model::ScriptModel::new("test", script))
        .tools(tools)
        .home(home)
        .lease_ttl(TTL)
        .build()
        .await
        .unwrap()
}

/// A prompt as a handle posts it, past the handle: no process hears of it but through the store.
fn posted(turn: &str, prompt: &str) -> Post {
    Post {
        client_key: turn.into(),
        kind: "prompt".into(),
        body: json!({"kind": "prompt", "turn": turn, "prompt": prompt})
            .to_string()
            .into_bytes(),
        answer: None,
    }
}

async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..3_000 {
        if let Some(found) = look().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

async fn ends(agent: &Agent) -> Vec<(TurnEnd, Option<String>)> {
    let timeline = agent.timeline(&conversation()).await.unwrap();
    let blocks = timeline.blocks().iter();
    blocks
        .filter(|block| block.kind.tag() == "react.completion")
        .map(|block| serde_json::from_str::<Value>(block.text().unwrap()).unwrap())
        .map(|report| {
            let outcome = serde_json::from_value(report["outcome"].clone()).unwrap();
            (outcome, report["error"].as_str().map(str::to_owned))
        })
        .collect()
}

/// Another process, which plays a role of this file.
fn process(role: &str, home: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "plays_a_role", "--ignored", "--nocapture"])
        .env(ROLE, role)
        .env(HOME, home)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by the other tests as a process of its own"]
async fn plays_a_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let home = std::path::PathBuf::from(std::env::var(HOME).unwrap());
    let runs = home.join("runs");
    let note_run = move || {
        use std::io::Write as _;
        let file = std::fs::File::options().append(true).create(true).open(&runs);
        file.unwrap().write_all(b".").unwrap();
    };
    let noted = note_run.clone();
    let hang = tool("hang", Effect::Replayable, move |_| {
        noted();
        Box::pin(std::future::pending())
    });
    let kill = tool("kill", Effect::Replayable, move |_| {
        note_run();
        std::process::abort()
    });
    let steps = match role.as_str() {
        "hangs" => json!([call("hang")]),
        _ => json!([call("kill")]),
    };
    let agent = agent_at(&home, steps, vec![hang, kill]).await;
    let _worker = agent.runtime().worker(agent.clone(), options()).await.unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_whose_process_was_killed_is_gone_on_with_by_another() {
    let bench = Bench::new();
    let home = bench.home.path();
    let hung = Arc::new(AtomicUsize::new(0));
    let count = hung.clone();
    let hang = tool("hang", Effect::Replayable, move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { json!("it did not hang here") })
    });
    let agent = agent_at(home, json!([{"text": "first"}, {"text": "second"}]), vec![hang]).await;
    drop(agent.session("c").await.unwrap());
    let key = agent.key(&conversation());
    // Posted past this process, so that the worker of the other one finds it.
    let mut child = process("hangs", home);
    until("the other process has joined", async || {
        (!agent.log().alive().await.unwrap().is_empty()).then_some(())
    })
    .await;
    agent.log().post(&key, posted("turn_1", "One")).await.unwrap();
    until("the tool runs in the other process", async || {
        home.join("runs").exists().then_some(())
    })
    .await;
    agent.log().post(&key, posted("turn_2", "Two")).await.unwrap();

    let worker = agent.runtime().worker(agent.clone(), options()).await.unwrap();
    tokio::time::sleep(TTL + TTL / 2).await;
    assert_eq!(
        hung.load(Ordering::SeqCst),
        0,
        "it is held by a process that lives"
    );
    child.kill().unwrap();
    child.wait().unwrap();

    until("both turns end", async || {
        (ends(&agent).await.len() == 2).then_some(())
    })
    .await;
    assert_eq!(
        ends(&agent).await,
        [(TurnEnd::Complete, None), (TurnEnd::Complete, None)]
    );
    assert_eq!(
        hung.load(Ordering::SeqCst),
        1,
        "run again once, because it may be"
    );
    worker.stop(Duration::from_secs(5)).await;
    let session = agent.session("c").await.unwrap();
    assert_eq!(texts(&session, "user.prompt"), ["One", "Two"]);
    assert_eq!(texts(&session, "assistant.completion"), ["first", "second"]);
    assert!(agent.log().pending(&key).await.unwrap().is_empty());
    assert!(agent.log().alive().await.unwrap().is_empty(), "it has left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_kills_every_process_is_ended_after_five_attempts() {
    let bench = Bench::new();
    let home = bench.home.path();
    let agent = agent_at(home, json!([]), Vec::new()).await;
    drop(agent.session("c").await.unwrap());
    let key = agent.key(&conversation());
    agent.log().post(&key, posted("turn_1", "Die")).await.unwrap();
    let mut deaths = 0;
    let ended = loop {
        let mut child = process("dies", home);
        let ended = until("it dies or ends the turn", async || {
            if child.try_wait().unwrap().is_some() {
                return Some(None);
            }
            let ended = ends(&agent).await;
            (!ended.is_empty()).then_some(Some(ended))
        })
        .await;
        match ended {
            None => deaths += 1,
            Some(ended) => {
                child.kill().unwrap();
                child.wait().unwrap();
                break ended;
            }
        }
        assert!(deaths < 10, "it is tried without end");
    };
    // The first process claimed the post, made the call durable, and died of it; five more tried the call.
    let runs = std::fs::read(home.join("runs")).unwrap().len();
    assert_eq!((deaths, runs), (6, 6));
    let [(end, Some(why))] = &ended[..] else {
        panic!("{ended:?}")
    };
    assert_eq!(*end, TurnEnd::Failed);
    assert!(why.contains("5 times"), "{why}");
    let session = agent.session("c").await.unwrap();
    assert!(
        texts(&session, "react.tool.result")[0].contains("interrupted"),
        "{}",
        shape(&session)
    );
}

/// Processes on one log in memory, whose time a test moves.
struct Shared {
    bench: Bench,
    clock: Arc<ManualClock>,
    log: Arc<MemoryLog>,
}

impl Shared {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_unix_millis(1_770_000_000_000)));
        Shared {
            bench: Bench::new(),
            log: Arc::new(MemoryLog::with_clock(clock.clone())),
            clock,
        }
    }

    async fn process(&self, steps: Value, tools: Vec<Arc<dyn Tool>>, hooks: Asks) -> Agent {
        self.bench
            .builder(json!({ "steps": steps }))
            .log(self.log.clone())
            .tools(tools)
            .hooks(hooks)
            .world(World::default())
            .lease_ttl(Duration::from_millis(600))
            .build()
            .await
            .unwrap()
    }
}

#[derive(Clone, Default)]
struct Asks {
    expires_in: Option<Duration>,
}

#[async_trait::async_trait]
impl Hooks for Asks {
    async fn before_call(&self, _: &HookCx, tool: &ToolSpec, _: &Value) -> Verdict {
        match tool.name().as_str() {
            "send" => Verdict::Ask(Ask {
                expires_in: self.expires_in,
                ..Ask::default()
            }),
            _ => Verdict::Allow,
        }
    }
}

/// A tool that tells when it begins, runs until it is cancelled, and tells that.
fn endless(begun: &Arc<tokio::sync::Notify>, cancelled: &Arc<AtomicUsize>) -> Arc<dyn Tool> {
    let (begun, cancelled) = (begun.clone(), cancelled.clone());
    tool("endless", Effect::Replayable, move |cx| {
        let (begun, cancelled) = (begun.clone(), cancelled.clone());
        Box::pin(async move {
            begun.notify_one();
            cx.cancel().cancelled().await;
            cancelled.fetch_add(1, Ordering::SeqCst);
            json!("cancelled")
        })
    })
}

#[tokio::test]
async fn a_lost_lease_cancels_the_tool_and_nothing_of_it_is_written() {
    let shared = Shared::new();
    let (begun, cancelled) = (Arc::default(), Arc::default());
    let tools = vec![endless(&begun, &cancelled)];
    let agent = shared
        .process(json!([call("endless")]), tools, Asks::default())
        .await;
    let session = agent.session("c").await.unwrap();
    let other = Owner::new(annals_core::ids::NodeId::parse("other").unwrap(), 1);
    let key = agent.key(&conversation());
    let (failed, _) = tokio::join!(agent.run_in(&session, "Go"), async {
        begun.notified().await;
        // The store's time passes, not this process's: to others the lease is over.
        shared.clock.advance(Duration::from_secs(10));
        shared
            .log
            .acquire(&key, &other, Duration::from_secs(60))
            .await
            .unwrap()
    });
    assert!(matches!(failed, Err(RunError::LeaseLost(_))), "{failed:?}");
    assert_eq!(cancelled.load(Ordering::SeqCst), 1);
    assert!(
        texts(&session, "react.tool.result").is_empty(),
        "{}",
        shape(&session)
    );
    assert!(ends(&agent).await.is_empty());
}

#[tokio::test]
async fn a_process_that_stops_leaves_its_turn_to_the_next() {
    let shared = Shared::new();
    let (begun, cancelled) = (Arc::default(), Arc::default());
    let tools = vec![endless(&begun, &cancelled)];
    let first = shared
        .process(json!([call("endless")]), tools, Asks::default())
        .await;
    drop(first.session("c").await.unwrap());
    let worker = first.runtime().worker(first.clone(), options()).await.unwrap();
    first.conversation(&conversation()).post("Go").await.unwrap();
    begun.notified().await;
    worker.stop(Duration::from_millis(50)).await;
    assert_eq!(cancelled.load(Ordering::SeqCst), 1);
    assert!(ends(&first).await.is_empty(), "the turn was not ended");

    let done = tool("endless", Effect::Replayable, |_| {
        Box::pin(async { json!("done") })
    });
    let second = shared
        .process(json!([{"text": "all right"}]), vec![done], Asks::default())
        .await;
    let _worker = second.runtime().worker(second.clone(), options()).await.unwrap();
    until("it ends", async || {
        (!ends(&second).await.is_empty()).then_some(())
    })
    .await;
    assert_eq!(ends(&second).await, [(TurnEnd::Complete, None)]);
}

fn send() -> Vec<Arc<dyn Tool>> {
    vec![tool("send", Effect::Once, |_| Box::pin(async { json!("sent") }))]
}

/// Posts a prompt whose call asks a person, and lets its process go.
async fn ask_and_go(shared: &Shared, hooks: &Asks) {
    let first = shared.process(json!([call("send")]), send(), hooks.clone()).await;
    drop(first.session("c").await.unwrap());
    let handle = first.conversation(&conversation());
    handle.post("Send it").await.unwrap();
    until("it asks", async || {
        (!handle.approvals().await.unwrap().is_empty()).then_some(())
    })
    .await;
    handle.settled().await;
}

#[tokio::test]
async fn a_request_that_lapses_while_no_process_has_it_ends_its_turn() {
    let shared = Shared::new();
    let hooks = Asks {
        expires_in: Some(Duration::from_millis(300)),
    };
    ask_and_go(&shared, &hooks).await;
    let second = shared.process(json!([]), send(), hooks).await;
    let _worker = second.runtime().worker(second.clone(), options()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(
        ends(&second).await.is_empty(),
        "by the store's time it is not due"
    );
    shared.clock.advance(Duration::from_millis(300));
    until("it ends", async || {
        (!ends(&second).await.is_empty()).then_some(())
    })
    .await;
    assert_eq!(ends(&second).await[0].0, TurnEnd::ApprovalExpired);
}

/// A prompt behind a turn that waits makes the conversation due all the time, and nobody can do anything about it.
#[tokio::test]
async fn a_turn_that_waits_with_more_behind_it_is_kept_and_not_claimed_without_end() {
    let shared = Shared::new();
    ask_and_go(&shared, &Asks::default()).await;
    let script = json!([{"text": "sent"}, {"text": "later"}]);
    let second = shared.process(script, send(), Asks::default()).await;
    let worker = second.runtime().worker(second.clone(), options()).await.unwrap();
    let key = second.key(&conversation());
    second
        .log()
        .post(&key, posted("turn_2", "And then"))
        .await
        .unwrap();
    let token = async || second.log().get(&key).await.unwrap().holding.map(|held| held.by);
    until("the worker has it", async || {
        token().await.filter(|by| *by == worker.owner())
    })
    .await;
    // Longer than a lease, by the time of the worker and of the store.
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        shared.clock.advance(Duration::from_millis(100));
        assert_eq!(token().await, Some(worker.owner()));
    }
    assert!(ends(&second).await.is_empty(), "it waits still");
    let handle = second.conversation(&conversation());
    let approval_id = handle.approvals().await.unwrap()[0].approval_id.clone();
    let decision = annals_runtime::ApprovalDecision {
        approval_id,
        decision: annals_runtime::Decision::Once,
        by: "ann".into(),
        via: "test".into(),
        edited_args: None,
        note: None,
    };
    handle.decide(decision).await.unwrap();
    until("both end", async || {
        (ends(&second).await.len() == 2).then_some(())
    })
    .await;
    worker.stop(Duration::from_secs(1)).await;
    let session = second.session("c").await.unwrap();
    assert_eq!(texts(&session, "assistant.completion"), ["sent", "later"]);
}

#[tokio::test]
async fn a_member_that_was_silent_for_too_long_stops_and_joins_again() {
    let shared = Shared::new();
    let (begun, cancelled) = (Arc::default(), Arc::default());
    let tools = vec![endless(&begun, &cancelled)];
    let script = json!([call("endless"), call("endless")]);
    let agent = shared.process(script, tools, Asks::default()).await;
    drop(agent.session("c").await.unwrap());
    let worker = agent.runtime().worker(agent.clone(), options()).await.unwrap();
    let before = worker.owner();
    agent.conversation(&conversation()).post("Go").await.unwrap();
    begun.notified().await;
    shared.clock.advance(Duration::from_secs(10));
    begun.notified().await;
    assert_eq!(
        cancelled.load(Ordering::SeqCst),
        1,
        "the first life stopped what it did"
    );
    assert_eq!(worker.owner(), Owner::new(before.node, before.epoch + 1));
    agent.conversation(&conversation()).cancel().await.unwrap();
    until("it ends", async || (!ends(&agent).await.is_empty()).then_some(())).await;
    assert_eq!(ends(&agent).await, [(TurnEnd::Cancelled, None)]);
}
