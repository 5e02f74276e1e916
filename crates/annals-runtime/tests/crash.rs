//! A process that dies at any append, before or after it took effect, and around every tool: the next one goes on, and
//! nothing happens twice.

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use annals_core::ids::{ConversationId, TurnId};
use annals_model::ScriptModel;
use annals_model::script::Script;
use annals_runtime::{Agent, RunError, Session, TurnRequest, World};
use annals_store::{ArtifactStore, LogError, MemoryLog, Store};
use annals_tools::{DynamicTool, Effect, Tool, ToolSpec};
use common::store::{Death, FrontStore};
use common::{shape, texts};
use serde_json::{Value, json};

fn steps() -> Vec<Value> {
    vec![
        json!({"text": "Writing", "tool_calls": [{"id": "w", "tool": "react.write", "params": {
            "path": "a.md", "channel": "canvas", "content": "# A\n", "kind": "file"}}]}),
        json!({"tool_calls": [{"id": "once", "tool": "send_mail", "params": {}}, {"id": "again", "tool": "look", "params": {}}]}),
        json!({"tool_calls": [{"id": "once2", "tool": "send_mail", "params": {}}]}),
        json!({"text": "All done"}),
    ]
}

/// What tools did to the world outside.
#[derive(Clone, Default)]
struct Outside(Arc<Mutex<Vec<String>>>);

fn counting(name: &str, effect: Effect, outside: &Outside) -> Arc<dyn Tool> {
    let spec = ToolSpec::builder(name).effect(effect).build().unwrap();
    let (outside, name) = (outside.clone(), name.to_owned());
    Arc::new(DynamicTool::with_spec(spec, move |cx, _| {
        outside.0.lock().unwrap().push(format!("{name} {}", cx.call()));
        async { Ok(json!("done")) }
    }))
}

async fn agent(
    home: &tempfile::TempDir,
    log: Arc<dyn Store>,
    outside: &Outside,
    steps: Vec<Value>,
    process: u64,
) -> Agent {
    let script = Script::parse(&json!({ "steps": steps }).to_string()).unwrap();
    Agent::builder()
        .model(ScriptModel::new("test", script))
        .tools(annals_tools::react::all())
        .tools([
            counting("send_mail", Effect::Once, outside),
            counting("look", Effect::Replayable, outside),
        ])
        .log(log)
        .artifacts(ArtifactStore::open(home.path().join("artifacts")).unwrap())
        .workspaces(home.path().join("workspace"))
        .world(World::seeded(process))
        .build()
        .await
        .unwrap()
}

/// Runs the turn with processes that die at their n-th append until one finishes it.
async fn run_with_deaths(first_death_at: usize, death: Death) -> (Session, Outside, usize) {
    let home = tempfile::tempdir().unwrap();
    let outside = Outside::default();
    let log = Arc::new(MemoryLog::default());
    let mortal = FrontStore::dying(log.clone(), first_death_at, death);
    let first = agent(&home, Arc::new(mortal), &outside, steps(), 1).await;
    let session = first.session("c").await.unwrap();
    let request = TurnRequest::new("Go").turn_id(TurnId::parse("turn_1").unwrap());
    match first.run(session, request).await {
        Ok(turn) => return (turn.into_session(), outside, 0),
        Err(failed) if matches!(failed.error, RunError::Log(LogError::Closed)) => {}
        Err(failed) => panic!("{failed}"),
    }
    drop(first);
    let id = ConversationId::parse("c").unwrap();
    let reader = agent(&home, log.clone(), &outside, Vec::new(), 2).await;
    let timeline = reader.timeline(&id).await.unwrap();
    let answered = timeline.current_turn().map_or(0, |turn| turn.steps as usize);
    let next = agent(&home, log, &outside, steps().split_off(answered.min(4)), 3).await;
    // A session that failed gives its lease back when it is dropped.
    let session = open_when_free(&next, &id).await;
    if session.is_unfinished() {
        next.run_in(&session, TurnRequest::resume()).await.unwrap();
        return (session, outside, 1);
    }
    if session.timeline(|timeline| timeline.current_turn().is_none()) {
        let request = TurnRequest::new("Go").turn_id(TurnId::parse("turn_1").unwrap());
        return (
            next.run(session, request).await.unwrap().into_session(),
            outside,
            1,
        );
    }
    (session, outside, 1)
}

async fn open_when_free(agent: &Agent, id: &ConversationId) -> Session {
    for _ in 0..5_000 {
        match agent.open(id).await {
            Ok(session) => return session,
            Err(RunError::Log(LogError::Held { .. })) => tokio::time::sleep(Duration::from_millis(1)).await,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the lease of the failed session was not given back");
}

#[tokio::test]
async fn a_death_at_any_append_repeats_nothing_and_loses_nothing() {
    let (whole, _, _) = run_with_deaths(usize::MAX, Death::BeforeAppend).await;
    let expected: Vec<String> = kinds(&whole);
    for death in [Death::BeforeAppend, Death::AfterAppend] {
        for at in 1.. {
            let (session, outside, deaths) = run_with_deaths(at, death).await;
            if deaths == 0 {
                break;
            }
            let context = format!("{death:?} {at}\n{}", shape(&session));
            assert_eq!(session.answer(), "All done", "{context}");
            let mails: Vec<String> = outside
                .0
                .lock()
                .unwrap()
                .iter()
                .filter(|done| done.starts_with("send_mail"))
                .cloned()
                .collect();
            let mut once = mails.clone();
            once.dedup();
            assert_eq!(mails, once, "a mail was sent twice: {context}");
            let interrupted = texts(&session, "react.tool.result")
                .iter()
                .any(|text| text.contains("interrupted"));
            assert!(
                mails.len() == 2 || interrupted,
                "a mail got lost without a word: {context}"
            );
            assert_eq!(kinds(&session), expected, "{context}");
        }
    }
}

fn kinds(session: &Session) -> Vec<String> {
    session.timeline(|timeline| {
        timeline
            .blocks()
            .iter()
            .map(|block| format!("{} {:?}", block.kind, block.path))
            .collect()
    })
}
