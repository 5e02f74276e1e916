//! A call that a person has to allow: the turn waits, in no process at all if need be, until somebody decides.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use annals_core::ids::ConversationId;
use annals_core::time::Timestamp;
use annals_core::turn::TurnEnd;
use annals_model::ScriptModel;
use annals_model::script::Script;
use annals_runtime::{
    Agent, AgentBuilder, ApprovalDecision, Ask, CancellationToken, ConversationHandle, Decision, HookCx,
    Hooks, PolicyFiles, RunError, Session, TurnRequest, Update, Verdict,
};
use annals_sandbox::{Backend, OpenError, Opening, Sandbox};
use annals_store::{ArtifactStore, ManualClock, MemoryLog};
use annals_tools::{DynamicTool, Effect, Reach, Tool, ToolSpec};
use common::{Heard, shape, texts, types};
use serde_json::{Map, Value, json};

/// Asks about `send`, refuses `forbidden`, allows the rest.
#[derive(Clone, Default)]
struct Asks {
    expires_in: Option<Duration>,
}

#[async_trait::async_trait]
impl Hooks for Asks {
    async fn before_call(&self, _: &HookCx, tool: &ToolSpec, args: &Value) -> Verdict {
        match (tool.name().as_str(), args["to"].as_str()) {
            ("send", Some("nobody")) => Verdict::Deny("nobody gets nothing".into()),
            ("send", _) => Verdict::Ask(Ask {
                rule: Some("send".into()),
                expires_in: self.expires_in,
                ..Ask::default()
            }),
            _ => Verdict::Allow,
        }
    }
}

/// Processes come and go on one log; what they did outside stays.
#[derive(Clone)]
struct World {
    home: Arc<tempfile::TempDir>,
    clock: Arc<ManualClock>,
    log: Arc<MemoryLog>,
    sent: Arc<std::sync::Mutex<Vec<String>>>,
    looked: Arc<AtomicUsize>,
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_unix_millis(1_770_000_000_000)));
        World {
            home: Arc::new(tempfile::tempdir().unwrap()),
            log: Arc::new(MemoryLog::with_clock(clock.clone())),
            clock,
            sent: Arc::default(),
            looked: Arc::default(),
        }
    }

    async fn process(&self, steps: Value, hooks: Asks) -> Agent {
        self.process_with(steps, hooks, |builder| builder).await
    }

    async fn process_with(
        &self,
        steps: Value,
        hooks: Asks,
        change: impl FnOnce(AgentBuilder) -> AgentBuilder,
    ) -> Agent {
        let schema = json!({"type": "object", "properties": {"to": {"type": "string"}}});
        let sent = self.sent.clone();
        let spec = ToolSpec::builder("send").parameters(schema).effect(Effect::Once);
        let send: Arc<dyn Tool> = Arc::new(DynamicTool::with_spec(spec.build().unwrap(), move |_, args| {
            sent.lock()
                .unwrap()
                .push(args["to"].as_str().unwrap_or_default().to_owned());
            async { Ok(json!("sent")) }
        }));
        let looked = self.looked.clone();
        let spec = ToolSpec::builder("look").effect(Effect::Once).independent();
        let look: Arc<dyn Tool> = Arc::new(DynamicTool::with_spec(spec.build().unwrap(), move |_, _| {
            looked.fetch_add(1, Ordering::SeqCst);
            async { Ok(json!("seen")) }
        }));
        let script = Script::parse(&json!({ "steps": steps }).to_string()).unwrap();
        let builder = Agent::builder()
            .model(ScriptModel::new("test", script))
            .layout(common::layout())
            .tools([send, look])
            .hooks(hooks)
            .log(self.log.clone())
            .artifacts(ArtifactStore::open(self.home.path().join("artifacts")).unwrap())
            .workspaces(self.home.path().join("workspace"));
        change(builder).build().await.unwrap()
    }

    fn sent(&self) -> Vec<String> {
        self.sent.lock().unwrap().clone()
    }
}

fn call(id: &str, tool: &str, to: &str) -> Value {
    json!({"id": id, "tool": tool, "params": {"to": to}})
}

fn decision(id: &annals_core::ids::RequestId, decision: Decision) -> ApprovalDecision {
    ApprovalDecision {
        approval_id: id.clone(),
        decision,
        by: "ann".into(),
        via: "test".into(),
        edited_args: None,
        note: None,
    }
}

async fn until_waiting(handle: &ConversationHandle) -> Vec<annals_runtime::ApprovalRequest> {
    for _ in 0..1_000 {
        if let Ok(waiting) = handle.approvals().await
            && !waiting.is_empty()
        {
            return waiting;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("nothing waits");
}

fn conversation() -> ConversationId {
    ConversationId::parse("c").unwrap()
}

async fn ended(agent: &Agent) -> Session {
    for _ in 0..1_000 {
        if let Ok(session) = agent.session("c").await
            && session.outcome().is_some()
        {
            return session;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the turn does not end");
}

#[tokio::test]
async fn a_turn_waits_for_a_decision_and_goes_on_with_it() {
    let world = World::new();
    let steps = json!([{"tool_calls": [call("l", "look", ""), call("s", "send", "bob"), call("m", "look", "")]}, {"text": "ok"}]);
    let agent = world.process(steps, Asks::default()).await;
    let session = agent.session("c").await.unwrap();
    let handle = agent.conversation(&conversation());
    let (turn, ()) = tokio::join!(agent.run(session, "Send it"), async {
        let waiting = until_waiting(&handle).await;
        let asked = &waiting[0];
        assert_eq!(
            asked.approval_id.to_string(),
            format!("{}.s.1", asked.approval_id.turn())
        );
        assert_eq!(
            (asked.tool.as_str(), world.looked.load(Ordering::SeqCst)),
            ("send", 1)
        );
        assert!(world.sent().is_empty());
        handle
            .decide(decision(&asked.approval_id, Decision::Once))
            .await
            .unwrap();
        let again = handle.decide(decision(&asked.approval_id, Decision::Deny)).await;
        assert!(
            matches!(again, Err(RunError::NothingToDecide(_))),
            "the first decision holds: {again:?}"
        );
    });
    let turn = turn.unwrap();
    assert_eq!(
        (turn.answer(), world.sent()),
        ("ok", vec!["bob".to_owned()]),
        "{}",
        shape(turn.session())
    );
    assert_eq!(
        texts(turn.session(), "react.tool.result"),
        ["\"seen\"", "\"sent\"", "\"seen\""]
    );
    assert_eq!(world.looked.load(Ordering::SeqCst), 2);
}

/// The process that asked dies before anybody decides; another one hears the decision and goes on.
#[tokio::test]
async fn a_waiting_turn_survives_its_process() {
    for decided in [Decision::Once, Decision::Deny, Decision::DenyAndStop] {
        let world = World::new();
        let steps = json!([{"tool_calls": [call("s", "send", "bob"), call("l", "look", "")]}]);
        let first = world.process(steps, Asks::default()).await;
        {
            let handle = first.conversation(&conversation());
            let run = first.run(first.session("c").await.unwrap(), "Send it");
            // A process that dies does not cancel anything: its future is forgotten, not dropped.
            let mut run = Box::pin(run);
            tokio::select! {
                _ = &mut run => panic!("it waits for a person"),
                _ = until_waiting(&handle) => {}
            }
            std::mem::forget(run);
        }
        let second = world.process(json!([{"text": "went on"}]), Asks::default()).await;
        let handle = second.conversation(&conversation());
        let [asked] = &handle.approvals().await.unwrap()[..] else {
            panic!()
        };
        // What the dead process held is taken over once its lease has run out.
        world.clock.advance(Duration::from_secs(120));
        let mut decision = decision(&asked.approval_id, decided);
        decision.note = Some("not to bob".into());
        handle.decide(decision).await.unwrap();
        let session = ended(&second).await;
        let results = texts(&session, "react.tool.result");
        match decided {
            Decision::Once => {
                assert_eq!(
                    (session.answer().as_str(), world.sent()),
                    ("went on", vec!["bob".to_owned()])
                );
                assert_eq!(results, ["\"sent\"", "\"seen\""], "{}", shape(&session));
            }
            Decision::Deny => {
                assert!(
                    results[0].contains("denied_by_person") && results[0].contains("not to bob"),
                    "{results:?}"
                );
                assert_eq!(
                    (session.answer().as_str(), world.looked.load(Ordering::SeqCst)),
                    ("went on", 1)
                );
                assert!(world.sent().is_empty());
            }
            _ => {
                assert_eq!(session.outcome(), Some(TurnEnd::Cancelled));
                assert!(results[1].contains("did nothing"), "{results:?}");
                assert!(world.sent().is_empty());
            }
        }
    }
}

/// A turn that waits for a decision, which lies in the inbox, and no process has either. It would send, then hold.
async fn decided_while_nobody_has_it(world: &World) {
    let first = world.clone();
    let dies = move || {
        let mut process = tokio::runtime::Builder::new_current_thread();
        let process = process.enable_all().build().unwrap();
        process.block_on(async {
            let steps = json!([{"tool_calls": [call("s", "send", "bob"), call("h", "hold", "")]}]);
            let agent = first
                .process_with(steps, Asks::default(), holding(&Hold::default()))
                .await;
            let handle = agent.conversation(&conversation());
            let mut run = Box::pin(agent.run(agent.session("c").await.unwrap(), "Send it"));
            tokio::select! {
                _ = &mut run => panic!("it waits for a person"),
                _ = until_waiting(&handle) => {}
            }
            std::mem::forget(run);
        });
        // Its tasks end where they are.
        drop(process);
    };
    tokio::task::spawn_blocking(dies).await.unwrap();
    world.clock.advance(Duration::from_secs(120));
    let clerk = world
        .process(json!([{"text": "never asked"}]), Asks::default())
        .await;
    let handle = clerk.conversation(&conversation()).only_posting();
    let [asked] = &handle.approvals().await.unwrap()[..] else {
        panic!()
    };
    handle
        .decide(decision(&asked.approval_id, Decision::Once))
        .await
        .unwrap();
}

/// A tool that begins, and ends when it is let go.
#[derive(Clone, Default)]
struct Hold {
    began: Arc<tokio::sync::Notify>,
    let_go: Arc<tokio::sync::Notify>,
}

fn holding(hold: &Hold) -> impl FnOnce(AgentBuilder) -> AgentBuilder {
    let hold = hold.clone();
    let spec = ToolSpec::builder("hold").effect(Effect::Once).build().unwrap();
    let tool: Arc<dyn Tool> = Arc::new(DynamicTool::with_spec(spec, move |_, _| {
        let hold = hold.clone();
        async move {
            hold.began.notify_one();
            hold.let_go.notified().await;
            Ok(json!("held"))
        }
    }));
    |builder| builder.tools([tool])
}

fn told_blocks(heard: &Heard) -> Vec<u64> {
    let heard = heard.0.lock().unwrap();
    let seq = |update: &Update| match update {
        Update::Block(block) => Some(block.seq.get()),
        _ => None,
    };
    heard.iter().filter_map(seq).collect()
}

/// The decision wakes the owner before the one who opened the conversation asks to go on.
#[tokio::test]
async fn who_resumes_a_turn_that_its_owner_took_up_hears_of_all_of_it() {
    for comes_late in [false, true] {
        let world = World::new();
        decided_while_nobody_has_it(&world).await;
        let hold = Hold::default();
        let steps = json!([{"text": "went on"}]);
        let agent = world.process_with(steps, Asks::default(), holding(&hold)).await;
        let session = agent.open(&conversation()).await.unwrap();
        hold.began.notified().await;
        if comes_late {
            hold.let_go.notify_one();
            agent.conversation(&conversation()).settled().await;
            assert_eq!(session.outcome(), Some(TurnEnd::Complete));
        }
        let heard = Heard::default();
        let resume = agent.run(session, TurnRequest::resume().listen(heard.listener()));
        // The request is there before the tool is let go.
        let (turn, ()) = tokio::join!(biased; resume, async { hold.let_go.notify_one() });
        let turn = turn.unwrap();
        assert_eq!((turn.answer(), turn.end()), ("went on", TurnEnd::Complete));
        assert_eq!(world.sent(), ["bob"]);
        let told = told_blocks(&heard);
        let (first, last) = turn.session().timeline(|timeline| {
            let asked = |block: &&Arc<annals_core::block::Block>| block.kind.tag() == "approval.request";
            let asked = timeline.blocks().iter().find(asked).unwrap();
            (asked.seq.get() + 1, timeline.tail().unwrap().get())
        });
        assert_eq!(
            told,
            (first..=last).collect::<Vec<_>>(),
            "each block once, in order"
        );
        let again = agent.run(turn.into_session(), TurnRequest::resume()).await;
        let again = again.map(|turn| turn.end()).map_err(|failed| failed.error);
        assert!(matches!(again, Err(RunError::NothingToResume(_))), "{again:?}");
    }
}

#[tokio::test]
async fn who_joins_a_turn_may_cancel_it() {
    let world = World::new();
    decided_while_nobody_has_it(&world).await;
    let hold = Hold::default();
    let steps = json!([{"text": "never said"}]);
    let agent = world.process_with(steps, Asks::default(), holding(&hold)).await;
    let session = agent.open(&conversation()).await.unwrap();
    hold.began.notified().await;
    let cancel = CancellationToken::new();
    let resume = agent.run(session, TurnRequest::resume().cancel(cancel.clone()));
    let (turn, ()) = tokio::join!(biased; resume, async { cancel.cancel() });
    assert_eq!(turn.unwrap().end(), TurnEnd::Cancelled);
}

#[tokio::test]
async fn a_decision_may_edit_the_arguments_and_never_lifts_a_refusal() {
    let world = World::new();
    let steps = json!([
        {"tool_calls": [call("s", "send", "bob")]},
        {"expect": ["call_edited", "carol"], "tool_calls": [call("n", "send", "nobody")]},
        {"expect": ["denied_by_policy", "nobody gets nothing"], "text": "ok"},
    ]);
    let agent = world.process(steps, Asks::default()).await;
    let handle = agent.conversation(&conversation());
    let session = agent.session("c").await.unwrap();
    let (turn, ()) = tokio::join!(agent.run(session, "Go"), async {
        let waiting = until_waiting(&handle).await;
        let mut decision = decision(&waiting[0].approval_id, Decision::Conversation);
        decision.edited_args = Some(Map::from_iter([("to".to_owned(), json!("carol"))]));
        handle.decide(decision).await.unwrap();
    });
    assert_eq!(
        (turn.unwrap().answer(), world.sent()),
        ("ok", vec!["carol".to_owned()])
    );
}

#[tokio::test]
async fn a_decision_for_the_conversation_is_asked_for_once() {
    let world = World::new();
    let steps = json!([{"tool_calls": [call("a", "send", "bob")]}, {"text": "one"},
                       {"tool_calls": [call("b", "send", "carol")]}, {"text": "two"}]);
    let agent = world.process(steps, Asks::default()).await;
    let handle = agent.conversation(&conversation());
    let session = agent.session("c").await.unwrap();
    let (turn, ()) = tokio::join!(agent.run(session, "Go"), async {
        let waiting = until_waiting(&handle).await;
        handle
            .decide(decision(&waiting[0].approval_id, Decision::Conversation))
            .await
            .unwrap();
    });
    let turn = agent.run(turn.unwrap().into_session(), "Again").await.unwrap();
    assert_eq!((turn.answer(), world.sent().len()), ("two", 2));
    let asked = types(turn.session())
        .iter()
        .filter(|kind| *kind == "approval.request")
        .count();
    assert_eq!(asked, 1);
}

/// A conversation with a decision for all its later calls, as a file.
async fn exported_with_a_decision(world: &World) -> Vec<u8> {
    let steps = json!([{"tool_calls": [call("a", "send", "bob")]}, {"text": "one"}]);
    let agent = world.process(steps, Asks::default()).await;
    let handle = agent.conversation(&conversation());
    let session = agent.session("c").await.unwrap();
    let (turn, ()) = tokio::join!(agent.run(session, "Go"), async {
        let waiting = until_waiting(&handle).await;
        let always = decision(&waiting[0].approval_id, Decision::Conversation);
        handle.decide(always).await.unwrap();
    });
    turn.unwrap().into_session().close().await.unwrap();
    let artifacts = ArtifactStore::open(world.home.path().join("artifacts")).unwrap();
    let mut file = Vec::new();
    let key = annals_core::ids::ConversationKey::new(Default::default(), conversation());
    annals_store::export_conversation(&*world.log, &artifacts, &key, &mut file)
        .await
        .unwrap();
    file
}

async fn import_as(world: &World, file: &[u8], id: &ConversationId) {
    let artifacts = ArtifactStore::open(world.home.path().join("artifacts")).unwrap();
    let import_as = annals_store::ImportAs {
        id: Some(id.clone()),
        scope: Default::default(),
        owner: annals_store::Owner::new(annals_core::ids::NodeId::parse("importer").unwrap(), 1),
    };
    let mut reader = file;
    annals_store::import_conversation(&*world.log, &artifacts, &mut reader, import_as)
        .await
        .unwrap();
}

/// Whether the same kind of call is a question in this conversation; it is answered with no.
async fn asks(world: &World, id: &ConversationId) -> bool {
    let steps = json!([{"tool_calls": [call("b", "send", "carol")]}, {"text": "two"}]);
    let agent = world.process(steps, Asks::default()).await;
    let handle = agent.conversation(id);
    let session = agent.session(id.as_str()).await.unwrap();
    let before = world.sent().len();
    let deny = async {
        let waiting = until_waiting(&handle).await;
        let deny = decision(&waiting[0].approval_id, Decision::Deny);
        handle.decide(deny).await.unwrap();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        turn = agent.run(session, "Again") => turn.unwrap().into_session().close().await.unwrap(),
        () = deny => {}
    }
    world.sent().len() == before
}

#[tokio::test]
async fn a_decision_in_an_imported_file_allows_nothing_here() {
    let world = World::new();
    let file = exported_with_a_decision(&world).await;
    let agent = world.process(json!([]), Asks::default()).await;
    let [imported, forked, local, empty] =
        ["imported", "forked", "local", "empty"].map(|name| ConversationId::parse(name).unwrap());
    import_as(&world, &file, &imported).await;
    agent.fork_as(&imported, None, &forked, None).await.unwrap();
    // One that was decided in here, and one in which nothing was.
    agent.fork_as(&conversation(), None, &local, None).await.unwrap();
    agent
        .session(empty.as_str())
        .await
        .unwrap()
        .close()
        .await
        .unwrap();
    let mut strange = vec![imported.clone(), forked.clone()];
    for (first, second) in [
        (&imported, &empty),
        (&empty, &imported),
        (&empty, &forked),
        (&forked, &imported),
    ] {
        strange.push(agent.merge(first, second).await.unwrap());
    }
    // Merged once more, so that the file's blocks stand behind others of both kinds.
    strange.push(agent.merge(&empty, &strange[3]).await.unwrap());
    strange.push(agent.fork(&strange[6], None).await.unwrap());
    for id in &strange {
        assert!(asks(&world, id).await, "{id} believes the file");
    }
    // What was decided here holds, wherever it stands.
    let mut own = vec![local.clone()];
    own.push(agent.merge(&local, &imported).await.unwrap());
    own.push(agent.merge(&imported, &local).await.unwrap());
    for id in &own {
        assert!(!asks(&world, id).await, "{id} forgot a decision");
    }
}

/// A conversation that is gone cannot say that no file brought what was copied from it, and neither can another under its
/// name.
#[tokio::test]
async fn a_decision_without_an_origin_allows_nothing() {
    let world = World::new();
    let file = exported_with_a_decision(&world).await;
    let agent = world.process(json!([]), Asks::default()).await;
    let [imported, forked] = ["imported", "forked"].map(|name| ConversationId::parse(name).unwrap());
    import_as(&world, &file, &imported).await;
    agent.fork_as(&imported, None, &forked, None).await.unwrap();
    agent.delete_conversation(&imported).await.unwrap();
    assert!(asks(&world, &forked).await);
    world.clock.advance(Duration::from_secs(60));
    agent
        .session(imported.as_str())
        .await
        .unwrap()
        .close()
        .await
        .unwrap();
    assert!(asks(&world, &forked).await);
}

#[tokio::test]
async fn what_nobody_decides_in_time_lapses_and_says_so() {
    let world = World::new();
    let hooks = Asks {
        expires_in: Some(Duration::from_millis(50)),
    };
    let agent = world
        .process(json!([{"tool_calls": [call("s", "send", "bob")]}]), hooks)
        .await;
    let turn = agent.run(agent.session("c").await.unwrap(), "Go").await.unwrap();
    assert_eq!(turn.end(), TurnEnd::ApprovalExpired);
    assert!(texts(turn.session(), "react.tool.result")[0].contains("approval_expired"));
    assert!(world.sent().is_empty());
}

#[tokio::test]
async fn a_cancel_ends_a_turn_that_waits_and_a_prompt_waits_behind_it() {
    let world = World::new();
    let steps = json!([{"tool_calls": [call("s", "send", "bob")]}, {"text": "next"}]);
    let agent = world.process(steps, Asks::default()).await;
    let handle = agent.conversation(&conversation());
    let (one, two) = (
        agent.session("c").await.unwrap(),
        agent.session("c").await.unwrap(),
    );
    let cancel = CancellationToken::new();
    let first = agent.run(one, TurnRequest::new("Go").cancel(cancel.clone()));
    let second = agent.run(two, "After that");
    let (first, second, ()) = tokio::join!(first, second, async {
        until_waiting(&handle).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(
            handle.approvals().await.unwrap().len(),
            1,
            "the prompt closed a turn that waits"
        );
        cancel.cancel();
    });
    assert_eq!(first.unwrap().end(), TurnEnd::Cancelled);
    assert_eq!(second.unwrap().answer(), "next");
    assert!(world.sent().is_empty());
}

/// All conversations of a scope, without folding any: what was decided, ended or lapsed is not listed.
#[tokio::test]
async fn what_waits_is_listed_over_all_conversations() {
    let world = World::new();
    let steps =
        json!([{"tool_calls": [call("s", "send", "bob")]}, {"tool_calls": [call("t", "send", "carol")]}]);
    let agent = world.process(steps, Asks::default()).await;
    let list = async || -> Vec<(String, String)> {
        let pending = agent.pending_approvals().await.unwrap();
        let named = |waits: &annals_runtime::PendingApproval| {
            (waits.conversation.to_string(), waits.request.call_id.to_string())
        };
        pending.iter().map(named).collect()
    };
    assert!(list().await.is_empty());
    for (name, call) in [("c", "s"), ("d", "t")] {
        let id = ConversationId::parse(name).unwrap();
        drop(agent.session(name).await.unwrap());
        let handle = agent.conversation(&id);
        handle.post("Go").await.unwrap();
        assert_eq!(until_waiting(&handle).await[0].call_id.as_str(), call);
    }
    let both = [("c", "s"), ("d", "t")].map(|(c, id)| (c.to_owned(), id.to_owned()));
    assert_eq!(list().await, both);
    agent.conversation(&conversation()).cancel().await.unwrap();
    for _ in 0..1_000 {
        if list().await.len() == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(list().await, both[1..]);
}

#[tokio::test]
async fn a_result_keeps_which_rules_decided() {
    let world = World::new();
    let rules = "[[rule]]\nname = \"look-freely\"\ntool = \"look\"\ndecide = \"allow\"\nwhy = \"looking is free\"\n\n\
        [[rule]]\nname = \"no-post\"\ntool = \"send\"\ndecide = \"deny\"\n";
    let owner = world.home.path().join("policy.toml");
    std::fs::write(&owner, rules).unwrap();
    let files = PolicyFiles::new(owner, world.home.path().join("config.toml"));
    let steps = json!([
        {"tool_calls": [call("c1", "look", ""), call("c2", "send", "ann")]},
        {"text": "done"},
    ]);
    let agent = world
        .process_with(steps, Asks::default(), |builder| builder.policy(files))
        .await;
    let session = agent.session("c").await.unwrap();
    let turn = agent.run(session, "go").await.unwrap();
    let session = turn.session();
    let gates: Vec<_> = session.timeline(|timeline| {
        let results = timeline.blocks().iter();
        let results = results.filter(|block| block.meta().result_count.is_some());
        results.map(|block| block.meta().gate()).collect()
    });
    let gate = |at: usize| gates[at].clone().unwrap();
    assert_eq!(
        (gate(0).decide.as_str(), gate(0).by[0].id.as_str()),
        ("allow", "look-freely")
    );
    assert_eq!(gate(0).by[0].place.as_deref(), Some("policy.toml:1"));
    assert_eq!(gate(0).by[0].why.as_deref(), Some("looking is free"));
    assert_eq!(
        (gate(1).decide.as_str(), gate(1).by[0].id.as_str()),
        ("deny", "no-post")
    );
    // It is for people: the model reads the reason of a refusal, and no more.
    let shown = session.timeline(|timeline| agent.outline(timeline, None).to_text());
    assert!(
        shown.contains("no-post") && !shown.contains("look-freely"),
        "{shown}"
    );
}

/// A backend that a host brings, under a name that nobody here knows.
struct HostsOwn {
    isolates: bool,
}

#[async_trait::async_trait]
impl Backend for HostsOwn {
    fn name(&self) -> &str {
        "hosts-own"
    }

    fn isolates(&self) -> bool {
        self.isolates
    }

    async fn open(&self, _: Opening) -> Result<Arc<dyn Sandbox>, OpenError> {
        unreachable!("rules are asked before anything is opened")
    }
}

#[tokio::test]
async fn a_command_that_nothing_isolates_counts_as_reaching_everything() {
    for isolates in [true, false] {
        let spec = ToolSpec::builder("run").reaches([Reach::Exec]).build().unwrap();
        let run = DynamicTool::with_spec(spec, |_, _| async { Ok(json!("ran")) });
        let agent = World::new()
            .process_with(json!([]), Asks::default(), |builder| {
                builder.tool(run).sandbox(Arc::new(HostsOwn { isolates }))
            })
            .await;
        let judged = agent.judge("run", &json!({})).await.unwrap();
        assert_eq!(judged.call.effects.contains(&Reach::External), !isolates);
    }
}

/// A model that cannot call tools writes its calls as text; everything else is the same.
#[test]
fn every_sequence_is_the_same_in_the_timeline_layout() {
    annals_requirements::again_in_the_timeline_layout(&[]);
}
