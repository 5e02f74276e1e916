//! One tool called without a model: by a person, who has decided by calling, and by a program, which decides nothing.

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use annals_core::block::{BlockKind, NewBlock};
use annals_core::ids::{CallId, ConversationId, TurnId};
use annals_core::path::LogicalPath;
use annals_core::time::Timestamp;
use annals_core::turn::TurnEnd;
use annals_core::turn::round::{NewAnswer, NewCall, answer_blocks};
use annals_model::ScriptModel;
use annals_model::script::Script;
use annals_runtime::{
    Agent, ApprovalDecision, ApprovalRequest, ConversationHandle, Decision, PolicyFiles, RunError, ToolCall,
    TurnRequest, TurnState,
};
use annals_store::{ArtifactStore, MemoryLog};
use annals_tools::{DynamicTool, Effect, Tool, ToolSpec};
use serde_json::{Map, Value, json};

/// Processes come and go on one log; what they did outside stays. The model has nothing to say: whoever asks it fails.
struct World {
    home: tempfile::TempDir,
    log: Arc<MemoryLog>,
    sent: Arc<Mutex<Vec<String>>>,
}

impl World {
    fn with(rules: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("policy.toml"), rules).unwrap();
        World {
            home,
            log: Arc::new(MemoryLog::default()),
            sent: Arc::default(),
        }
    }

    async fn process(&self) -> Agent {
        let sent = self.sent.clone();
        let schema = json!({"type": "object", "properties": {"to": {"type": "string"}}});
        let spec = ToolSpec::builder("send").parameters(schema).effect(Effect::Once);
        let send: Arc<dyn Tool> = Arc::new(DynamicTool::with_spec(spec.build().unwrap(), move |_, args| {
            let to = args["to"].as_str().unwrap_or_default().to_owned();
            sent.lock().unwrap().push(to);
            async { Ok(json!("sent")) }
        }));
        let home = self.home.path();
        let script = Script::parse(&json!({"steps": []}).to_string()).unwrap();
        Agent::builder()
            .model(ScriptModel::new("test", script))
            .layout(common::layout())
            .tools([send])
            .policy(PolicyFiles::new(
                home.join("policy.toml"),
                home.join("config.toml"),
            ))
            .log(self.log.clone())
            .artifacts(ArtifactStore::open(home.join("artifacts")).unwrap())
            .workspaces(home.join("workspace"))
            .build()
            .await
            .unwrap()
    }

    fn sent(&self) -> Vec<String> {
        self.sent.lock().unwrap().clone()
    }
}

const ASK: &str = "[[rule]]\ntool = \"send\"\ndecide = \"ask\"\nwhy = \"it leaves the house\"\n";
const DENY: &str = "[[rule]]\ntool = \"send\"\ndecide = \"deny\"\nwhy = \"nothing leaves\"\n";

fn conversation() -> ConversationId {
    ConversationId::parse("c").unwrap()
}

fn to(whom: &str) -> Map<String, Value> {
    Map::from_iter([("to".to_owned(), json!(whom))])
}

fn send(key: &str) -> ToolCall {
    ToolCall {
        tool: "send".to_owned(),
        params: to("ada"),
        client_key: Some(key.to_owned()),
    }
}

async fn posted(agent: &Agent, key: &str) -> (ConversationHandle, TurnId) {
    if agent.timeline(&conversation()).await.is_err() {
        agent
            .create_conversation(&conversation(), None, None)
            .await
            .unwrap();
    }
    let handle = agent.conversation(&conversation());
    let turn = handle.post_call(send(key)).await.unwrap();
    (handle, turn)
}

async fn until(handle: &ConversationHandle, turn: &TurnId, state: TurnState) {
    for _ in 0..6_000 {
        let status = handle.turn_status(turn).await.unwrap();
        if status.is_some_and(|status| status.state == state) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the turn did not become {state:?}");
}

fn decided(request: &ApprovalRequest, decision: Decision) -> ApprovalDecision {
    ApprovalDecision {
        approval_id: request.approval_id.clone(),
        decision,
        by: "ann".into(),
        via: "test".into(),
        edited_args: None,
        note: None,
    }
}

/// The outcome of a turn, and the code of its result if that is a failure.
async fn came_to(agent: &Agent, turn: &TurnId) -> (TurnEnd, Option<String>) {
    let timeline = agent.timeline(&conversation()).await.unwrap();
    let turn = timeline.turn(turn).unwrap();
    let blocks = timeline.turn_blocks(turn);
    let result = blocks
        .iter()
        .find(|block| block.kind == BlockKind::ToolResult)
        .expect("every call has a result");
    let code = result.meta().error.as_ref().map(|error| error.code.clone());
    (turn.end.unwrap(), code)
}

#[tokio::test]
async fn a_person_is_not_asked_about_the_own_call_and_a_program_has_to_wait_for_one() {
    let world = World::with(ASK);
    let agent = world.process().await;
    let session = agent.session("c").await.unwrap();
    let end = agent.run_in(&session, TurnRequest::call("send", to("bob"))).await;
    assert_eq!(end.unwrap(), TurnEnd::Complete);
    assert_eq!(world.sent(), ["bob"]);
    let (handle, turn) = posted(&agent, "one").await;
    until(&handle, &turn, TurnState::Waiting).await;
    assert_eq!(world.sent(), ["bob"], "nothing runs before somebody has decided");
    let request = handle.approvals().await.unwrap().pop().unwrap();
    let why = request.why.as_deref().unwrap_or_default();
    assert!(why.starts_with("it leaves the house"), "{why}");
    handle.decide(decided(&request, Decision::Once)).await.unwrap();
    until(&handle, &turn, TurnState::Ended).await;
    assert_eq!(world.sent(), ["bob", "ada"]);
    assert_eq!(came_to(&agent, &turn).await, (TurnEnd::Complete, None));
    let timeline = agent.timeline(&conversation()).await.unwrap();
    let blocks = timeline.turn_blocks(timeline.turn(&turn).unwrap());
    let call = blocks
        .iter()
        .find(|block| block.kind == BlockKind::ToolCall)
        .unwrap();
    assert_eq!(call.author.to_string(), "client");
    let is_prompt = |block: &BlockKind| *block == BlockKind::UserPrompt;
    assert!(!blocks.iter().any(|block| is_prompt(&block.kind)));
}

#[tokio::test]
async fn what_a_program_called_waits_without_a_process_and_runs_once_in_another() {
    let world = World::with(ASK);
    let first = world.process().await;
    let (handle, turn) = posted(&first, "one").await;
    until(&handle, &turn, TurnState::Waiting).await;
    first.open(&conversation()).await.unwrap().close().await.unwrap();
    drop((first, handle));
    let second = world.process().await;
    let handle = second.conversation(&conversation());
    let request = handle.approvals().await.unwrap().pop().unwrap();
    handle.decide(decided(&request, Decision::Once)).await.unwrap();
    until(&handle, &turn, TurnState::Ended).await;
    assert_eq!(world.sent(), ["ada"]);
    assert_eq!(came_to(&second, &turn).await, (TurnEnd::Complete, None));
}

#[tokio::test]
async fn a_refusal_is_the_result_and_stops_the_turn_if_it_says_so() {
    for (decision, end) in [
        (Decision::Deny, TurnEnd::Complete),
        (Decision::DenyAndStop, TurnEnd::Cancelled),
    ] {
        let world = World::with(ASK);
        let agent = world.process().await;
        let (handle, turn) = posted(&agent, "one").await;
        until(&handle, &turn, TurnState::Waiting).await;
        let request = handle.approvals().await.unwrap().pop().unwrap();
        handle.decide(decided(&request, decision)).await.unwrap();
        until(&handle, &turn, TurnState::Ended).await;
        let refused = Some("denied_by_person".to_owned());
        assert_eq!(came_to(&agent, &turn).await, (end, refused));
        assert!(world.sent().is_empty());
    }
}

#[tokio::test]
async fn what_rules_deny_neither_calls() {
    let world = World::with(DENY);
    let agent = world.process().await;
    let (handle, turn) = posted(&agent, "one").await;
    until(&handle, &turn, TurnState::Ended).await;
    let denied = (TurnEnd::Complete, Some("denied_by_policy".to_owned()));
    assert_eq!(came_to(&agent, &turn).await, denied);
    let session = agent.open(&conversation()).await.unwrap();
    let turn = TurnId::parse("turn_person").unwrap();
    let request = TurnRequest::call("send", to("bob")).turn_id(turn.clone());
    agent.run_in(&session, request).await.unwrap();
    assert_eq!(came_to(&agent, &turn).await, denied);
    assert!(world.sent().is_empty());
}

#[tokio::test]
async fn a_post_that_is_sent_again_is_the_same_call_and_an_unknown_tool_is_no_post() {
    let world = World::with("default = \"allow-all\"\n");
    let agent = world.process().await;
    let (handle, turn) = posted(&agent, "one").await;
    let (_, again) = posted(&agent, "one").await;
    assert_eq!(turn, again);
    until(&handle, &turn, TurnState::Ended).await;
    handle.settled().await;
    assert_eq!(world.sent(), ["ada"]);
    let absent = ToolCall {
        tool: "absent".to_owned(),
        ..ToolCall::default()
    };
    let refused = handle.post_call(absent).await;
    assert!(matches!(refused, Err(RunError::NoSuchTool(_))), "{refused:?}");
}

/// The beginning of a turn in which a tool that must not run twice was called, as a process leaves it that dies there.
fn begun(turn: &TurnId, caller: Option<&str>) -> Vec<NewBlock> {
    let mut header = NewBlock::new(BlockKind::TurnHeader, turn, LogicalPath::turn_header(turn));
    if let Some(caller) = caller {
        header.meta = header.meta.with("caller", caller);
    }
    let answer = NewAnswer {
        calls: vec![NewCall {
            id: CallId::parse("tc_1").unwrap(),
            tool: "send".to_owned(),
            params: to("ada"),
            unreadable: None,
            cut: None,
        }],
        ..NewAnswer::default()
    };
    let mut calls = answer_blocks(turn, 0, Timestamp::from_unix_millis(1_770_000_000_000), &answer);
    for block in &mut calls {
        block.meta.started = Some(true);
    }
    [header].into_iter().chain(calls).collect()
}

#[tokio::test]
async fn a_call_that_a_crash_left_is_not_made_twice_whoever_called() {
    for (caller, end) in [(Some("program"), TurnEnd::Complete), (None, TurnEnd::Interrupted)] {
        let world = World::with("default = \"allow-all\"\n");
        let agent = world.process().await;
        let session = agent.session("c").await.unwrap();
        let turn = TurnId::parse("turn_1").unwrap();
        agent.append(&session, begun(&turn, caller)).await.unwrap();
        agent.run_in(&session, TurnRequest::resume()).await.unwrap();
        let interrupted = Some("interrupted".to_owned());
        assert_eq!(came_to(&agent, &turn).await, (end, interrupted));
        assert!(world.sent().is_empty());
    }
}
