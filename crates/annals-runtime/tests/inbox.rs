//! What is posted to a conversation: durable when the post returns, taken in once, whatever process owns it.

mod common;

use std::sync::Arc;
use std::time::Duration;

use annals_core::ids::ConversationId;
use annals_core::time::Timestamp;
use annals_core::turn::TurnEnd;
use annals_runtime::{Agent, Prompt, RunError, Session, World};
use annals_store::{ManualClock, MemoryLog, Post};
use annals_tools::{DynamicTool, Tool, ToolSpec};
use common::{Bench, shape, texts};
use serde_json::{Value, json};

fn conversation() -> ConversationId {
    ConversationId::parse("c").unwrap()
}

/// A tool that waits until it is let go.
#[derive(Clone)]
struct Gate {
    begun: Arc<tokio::sync::Notify>,
    go: Arc<tokio::sync::Semaphore>,
}

impl Gate {
    fn new() -> Self {
        Gate {
            begun: Arc::default(),
            go: Arc::new(tokio::sync::Semaphore::new(0)),
        }
    }

    fn tool(&self) -> Arc<dyn Tool> {
        let gate = self.clone();
        let spec = ToolSpec::builder("wait").independent().build().unwrap();
        Arc::new(DynamicTool::with_spec(spec, move |cx, _| {
            let gate = gate.clone();
            async move {
                gate.begun.notify_one();
                tokio::select! {
                    _ = gate.go.acquire() => {}
                    () = cx.cancel().cancelled() => {}
                }
                Ok(json!("waited"))
            }
        }))
    }
}

fn wait(id: &str) -> Value {
    json!({"tool_calls": [{"id": id, "tool": "wait", "params": {}}]})
}

async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..2_000 {
        if let Some(found) = look().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("never: {what}");
}

async fn when_answered(agent: &Agent, answers: usize) -> Session {
    let session = until("the conversation is free", async || agent.session("c").await.ok()).await;
    until("all turns end", async || {
        (texts(&session, "react.completion").len() >= answers).then_some(())
    })
    .await;
    session
}

#[tokio::test]
async fn a_steer_is_taken_in_after_the_results_and_a_late_one_goes_round_once_more() {
    let gate = Gate::new();
    let bench = Bench::new();
    let steps = json!([wait("a"), {"expect": ["in French, please"], "text": "Voilà"}]);
    let agent = bench.agent_with(steps, vec![gate.tool()]).await;
    let session = agent.session("c").await.unwrap();
    let handle = agent.conversation(&conversation());
    let (turn, ()) = tokio::join!(agent.run(session, "Go"), async {
        gate.begun.notified().await;
        handle.steer("in French, please").await.unwrap();
        gate.go.add_permits(1);
    });
    let turn = turn.unwrap();
    assert_eq!(
        (turn.answer(), turn.end()),
        ("Voilà", TurnEnd::Complete),
        "{}",
        shape(turn.session())
    );
    assert_eq!(texts(turn.session(), "user.steer"), ["in French, please"]);
    let late = handle.steer("and shorter").await;
    assert!(matches!(late, Err(RunError::TurnEnded(_))), "{late:?}");
}

#[tokio::test]
async fn a_cancel_reaches_a_tool_that_runs() {
    let gate = Gate::new();
    let bench = Bench::new();
    let agent = bench
        .agent_with(json!([wait("a"), {"text": "never"}]), vec![gate.tool()])
        .await;
    let session = agent.session("c").await.unwrap();
    let handle = agent.conversation(&conversation());
    let (turn, ()) = tokio::join!(agent.run(session, "Go"), async {
        gate.begun.notified().await;
        handle.cancel().await.unwrap();
    });
    let turn = turn.unwrap();
    assert_eq!(turn.end(), TurnEnd::Cancelled);
    let left = agent.log().pending(&agent.key(&conversation())).await.unwrap();
    assert!(left.is_empty(), "the cancel was not consumed: {left:?}");
}

/// The turn ended while its cancel was on the way, and the next one runs already.
#[tokio::test]
async fn a_cancel_for_a_turn_that_has_ended_does_not_end_the_next() {
    let gate = Gate::new();
    let bench = Bench::new();
    let agent = bench
        .agent_with(json!([wait("a"), {"text": "done"}]), vec![gate.tool()])
        .await;
    let session = agent.session("c").await.unwrap();
    let key = agent.key(&conversation());
    let (turn, ()) = tokio::join!(agent.run(session, "Go"), async {
        gate.begun.notified().await;
        let body = json!({"kind": "cancel", "turn": "turn_before"}).to_string();
        let late = Post::new("late", "cancel", body);
        agent.log().post(&key, late).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        gate.go.add_permits(1);
    });
    let turn = turn.unwrap();
    assert_eq!((turn.answer(), turn.end()), ("done", TurnEnd::Complete));
    assert!(agent.log().pending(&key).await.unwrap().is_empty());
}

#[tokio::test]
async fn posted_prompts_run_in_order_and_once_each() {
    let bench = Bench::new();
    let agent = bench
        .agent(json!([{"text": "one"}, {"text": "two"}, {"text": "three"}]))
        .await;
    drop(agent.session("c").await.unwrap());
    let handle = agent.conversation(&conversation());
    let prompt = |text: &str, key: &str| Prompt {
        client_key: Some(key.to_owned()),
        ..Prompt::from(text)
    };
    let first = handle.post(prompt("1", "a")).await.unwrap();
    let second = handle.post(prompt("2", "b")).await.unwrap();
    assert_eq!(
        handle.post(prompt("1", "a")).await.unwrap(),
        first,
        "posted twice, run once"
    );
    handle.post("3").await.unwrap();
    assert_ne!(first, second);
    let session = when_answered(&agent, 3).await;
    assert_eq!(texts(&session, "user.prompt"), ["1", "2", "3"]);
    assert_eq!(texts(&session, "assistant.completion"), ["one", "two", "three"]);
    assert!(session.timeline(|timeline| timeline.turn(&first).is_some()));
    assert!(
        agent
            .log()
            .pending(&agent.key(&conversation()))
            .await
            .unwrap()
            .is_empty()
    );
}

/// The process that took the post ends before it runs the turn.
#[tokio::test]
async fn a_clients_instructions_stand_after_the_prompt_and_the_model_reads_them() {
    let bench = Bench::new();
    let agent = bench
        .agent(json!([{"text": "one", "expect": ["[USER INSTRUCTIONS]", "Answer in rhymes"]}]))
        .await;
    drop(agent.session("c").await.unwrap());
    let prompt = Prompt {
        instructions: Some("Answer in rhymes".to_owned()),
        ..Prompt::from("Hello")
    };
    agent.conversation(&conversation()).post(prompt).await.unwrap();
    let session = when_answered(&agent, 1).await;
    let kinds = session.timeline(|timeline| {
        let blocks = timeline.blocks().iter().take(4);
        blocks
            .map(|block| block.kind.tag().to_owned())
            .collect::<Vec<_>>()
    });
    assert_eq!(
        kinds[1..],
        ["user.prompt", "user.instructions", "agent.log.header"]
    );
    assert_eq!(texts(&session, "user.instructions"), ["Answer in rhymes"]);
    assert_eq!(texts(&session, "assistant.completion"), ["one"]);
}

#[tokio::test]
async fn a_posted_prompt_survives_its_process() {
    let clock = Arc::new(ManualClock::new(Timestamp::from_unix_millis(1_770_000_000_000)));
    let log = Arc::new(MemoryLog::with_clock(clock.clone()));
    let (gate, bench) = (Gate::new(), Bench::new());
    let process = async |steps: Value| {
        let builder = bench.builder(json!({ "steps": steps })).log(log.clone());
        builder
            .tools([gate.tool()])
            .world(World::default())
            .build()
            .await
            .unwrap()
    };
    let first = process(json!([wait("a")])).await;
    let session = first.session("c").await.unwrap();
    let mut run = Box::pin(first.run_in(&session, "Go"));
    tokio::select! {
        _ = &mut run => panic!("it waits"),
        () = gate.begun.notified() => {}
    }
    let turn = first
        .conversation(&conversation())
        .post("After that")
        .await
        .unwrap();
    // A process that dies neither cancels nor releases anything; its lease runs out.
    std::mem::forget(run);
    clock.advance(Duration::from_secs(120));
    let second = process(json!([{"text": "done"}])).await;
    let session = when_answered(&second, 2).await;
    assert_eq!(texts(&session, "user.prompt"), ["Go", "After that"]);
    assert_eq!(session.answer(), "done");
    assert!(session.timeline(|timeline| timeline.turn(&turn).is_some()));
}

/// Words that are acknowledged before the turn's end is durable are taken in, however late; later ones are refused.
#[tokio::test]
async fn a_steer_in_the_last_moment_is_taken_in_or_refused_but_never_dropped() {
    for round in 0..60_u64 {
        let bench = Bench::new();
        let steps = json!([{"delay_ms": 3, "text": "first"}, {"text": "second"}]);
        let agent = bench.agent(steps).await;
        let session = agent.session("c").await.unwrap();
        let handle = agent.conversation(&conversation());
        let (turn, steered) = tokio::join!(agent.run(session, "Go"), async {
            tokio::time::sleep(Duration::from_micros(2_000 + round * 100)).await;
            handle.steer("and again").await
        });
        let turn = turn.unwrap();
        let taken = texts(turn.session(), "user.steer");
        match steered {
            Ok(()) => assert_eq!(
                (taken.len(), turn.answer()),
                (1, "second"),
                "round {round}: {}",
                shape(turn.session())
            ),
            Err(RunError::TurnEnded(_)) => {
                assert_eq!((taken.len(), turn.answer()), (0, "first"), "round {round}")
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// A model that cannot call tools writes its calls as text; everything else is the same.
#[test]
fn every_sequence_is_the_same_in_the_timeline_layout() {
    annals_requirements::again_in_the_timeline_layout(&[]);
}
