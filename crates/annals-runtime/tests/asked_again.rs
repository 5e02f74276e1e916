//! Calls that a person is asked about more than once, or about other arguments than the model's.

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use annals_core::ids::ConversationId;
use annals_core::turn::TurnEnd;
use annals_runtime::{
    Agent, ApprovalDecision, ApprovalRequest, Ask, ConversationHandle, Decision, HookCx, Hooks, PolicyFiles,
    Verdict,
};
use annals_store::{Inbox as _, Post};
use annals_tools::{DynamicTool, Effect, Tool, ToolSpec};
use common::{Bench, shape, texts};
use serde_json::{Map, Value, json};

/// Long enough for a busy machine, and an end for what would wait for ever.
const PATIENCE: Duration = Duration::from_secs(60);

fn conversation() -> ConversationId {
    ConversationId::parse("c").unwrap()
}

/// A tool that writes down to whom it sent.
fn send(sent: &Arc<Mutex<Vec<String>>>) -> Arc<dyn Tool> {
    let sent = sent.clone();
    let schema = json!({"type": "object", "properties": {"to": {"type": "string"}}});
    let spec = ToolSpec::builder("send").parameters(schema).effect(Effect::Once);
    Arc::new(DynamicTool::with_spec(spec.build().unwrap(), move |_, args| {
        let to = args["to"].as_str().unwrap_or_default().to_owned();
        sent.lock().unwrap().push(to);
        async { Ok(json!("sent")) }
    }))
}

fn call(id: &str, to: &str) -> Value {
    json!({"tool_calls": [{"id": id, "tool": "send", "params": {"to": to}}]})
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// Waits until something is asked that was not asked before.
async fn next_question(handle: &ConversationHandle, before: &[ApprovalRequest]) -> ApprovalRequest {
    let look = async {
        loop {
            let waiting = handle.approvals().await.unwrap_or_default();
            let is_new = |asked: &ApprovalRequest| before.iter().all(|b| b.approval_id != asked.approval_id);
            if let Some(asked) = waiting.into_iter().find(is_new) {
                return asked;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look)
        .await
        .expect("nothing is asked")
}

fn allow(asked: &ApprovalRequest, edited_args: Option<Map<String, Value>>) -> ApprovalDecision {
    ApprovalDecision {
        approval_id: asked.approval_id.clone(),
        decision: Decision::Once,
        by: "ann".into(),
        via: "test".into(),
        edited_args,
        note: None,
    }
}

/// Adds a mark to whom something is sent.
struct Marks;

#[async_trait::async_trait]
impl Hooks for Marks {
    async fn before_call(&self, _: &HookCx, _: &ToolSpec, args: &Value) -> Verdict {
        let to = args["to"].as_str().unwrap_or_default();
        Verdict::Edit(object(&json!({"to": format!("{to}!")})))
    }
}

/// An agent whose hook edits every call, and whose rules ask about it.
async fn editing_and_asking(bench: &Bench, sent: &Arc<Mutex<Vec<String>>>) -> Agent {
    let owner = bench.home.path().join("policy.toml");
    std::fs::write(&owner, "[[rule]]\ntool = \"send\"\ndecide = \"ask\"\n").unwrap();
    let builder = bench.builder(json!({"steps": [call("s", "bob"), {"text": "ok"}]}));
    let files = PolicyFiles::new(owner, bench.home.path().join("config.toml"));
    let builder = builder.tools([send(sent)]).hooks(Marks).policy(files);
    builder.build().await.unwrap()
}

#[tokio::test]
async fn a_yes_to_arguments_that_a_hook_made_is_an_answer() {
    for (edited, expected) in [(None, "bob!"), (Some(json!({"to": "carol"})), "carol!")] {
        let (bench, sent) = (Bench::new(), Arc::<Mutex<Vec<String>>>::default());
        let agent = editing_and_asking(&bench, &sent).await;
        let session = agent.session("c").await.unwrap();
        let handle = agent.conversation(&conversation());
        let answer = async {
            let asked = next_question(&handle, &[]).await;
            handle
                .decide(allow(&asked, edited.as_ref().map(object)))
                .await
                .unwrap();
            // A second question would have no answer.
        };
        let turn = tokio::time::timeout(PATIENCE, async {
            tokio::join!(agent.run(session, "Send it"), answer)
        });
        let (turn, ()) = turn.await.expect("one yes is enough");
        let turn = turn.unwrap();
        assert_eq!(turn.answer(), "ok", "{}", shape(turn.session()));
        assert_eq!(*sent.lock().unwrap(), [expected]);
        assert_eq!(texts(turn.session(), "approval.request").len(), 1);
        let told: Vec<String> = texts(turn.session(), "react.notice");
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains(expected), "{told:?}");
    }
}

/// Arguments that a person saw, and a hook changed since, are others.
#[tokio::test]
async fn a_yes_holds_for_no_other_arguments_than_those_that_were_seen() {
    /// Makes something else of the arguments each time.
    #[derive(Default)]
    struct Changes(std::sync::atomic::AtomicUsize);
    #[async_trait::async_trait]
    impl Hooks for Changes {
        async fn before_call(&self, _: &HookCx, _: &ToolSpec, _: &Value) -> Verdict {
            let n = self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            Verdict::Edit(object(&json!({"to": format!("{}", n / 2)})))
        }
    }
    let (bench, sent) = (Bench::new(), Arc::<Mutex<Vec<String>>>::default());
    let owner = bench.home.path().join("policy.toml");
    std::fs::write(&owner, "[[rule]]\ntool = \"send\"\ndecide = \"ask\"\n").unwrap();
    let files = PolicyFiles::new(owner, bench.home.path().join("config.toml"));
    let hooks = Changes(1.into());
    let builder = bench.builder(json!({"steps": [call("s", "bob"), {"text": "ok"}]}));
    let agent = builder.tools([send(&sent)]).hooks(hooks).policy(files);
    let agent = agent.build().await.unwrap();
    let session = agent.session("c").await.unwrap();
    let handle = agent.conversation(&conversation());
    let answers = async {
        let first = next_question(&handle, &[]).await;
        handle.decide(allow(&first, None)).await.unwrap();
        let second = next_question(&handle, std::slice::from_ref(&first)).await;
        assert_ne!(first.args_digest, second.args_digest);
        handle.decide(allow(&second, None)).await.unwrap();
    };
    let (turn, ()) = tokio::join!(agent.run(session, "Send it"), answers);
    assert_eq!(turn.unwrap().answer(), "ok");
    assert_eq!(*sent.lock().unwrap(), ["1"]);
}

/// Asks about every call; only the second question of a turn lapses.
struct SecondLapses;

#[async_trait::async_trait]
impl Hooks for SecondLapses {
    async fn before_call(&self, _: &HookCx, _: &ToolSpec, args: &Value) -> Verdict {
        let is_second = args["to"] == "second";
        Verdict::Ask(Ask {
            expires_in: is_second.then_some(Duration::from_millis(100)),
            ..Ask::default()
        })
    }
}

#[tokio::test]
async fn the_second_question_of_a_turn_lapses_too_for_a_caller_who_waits() {
    let (bench, sent) = (Bench::new(), Arc::<Mutex<Vec<String>>>::default());
    let steps = json!({"steps": [call("a", "first"), call("b", "second"), {"text": "never"}]});
    let builder = bench.builder(steps).world(annals_runtime::World::default());
    let agent = builder
        .tools([send(&sent)])
        .hooks(SecondLapses)
        .build()
        .await
        .unwrap();
    let session = agent.session("c").await.unwrap();
    let handle = agent.conversation(&conversation());
    let decide = async {
        let first = next_question(&handle, &[]).await;
        handle.decide(allow(&first, None)).await.unwrap();
    };
    let run = async { tokio::join!(agent.run(session, "Send both"), decide) };
    let (turn, ()) = tokio::time::timeout(PATIENCE, run)
        .await
        .expect("the caller hears of it");
    let turn = turn.unwrap();
    assert_eq!(turn.end(), TurnEnd::ApprovalExpired, "{}", shape(turn.session()));
    assert_eq!(*sent.lock().unwrap(), ["first"]);
}

/// What came for no turn that there is leaves the inbox when the turn rests, not only when it ends.
#[tokio::test]
async fn a_stale_letter_does_not_stay_in_the_inbox_of_a_turn_that_waits() {
    let (bench, sent) = (Bench::new(), Arc::<Mutex<Vec<String>>>::default());
    let log = Arc::new(annals_store::MemoryLog::default());
    let post = {
        let log = log.clone();
        let spec = ToolSpec::builder("look").independent().build().unwrap();
        DynamicTool::with_spec(spec, move |_, _| {
            let log = log.clone();
            async move {
                let key = annals_core::ids::ConversationKey::new(Default::default(), conversation());
                let stale = Post::new(
                    "stale",
                    "cancel",
                    br#"{"kind":"cancel","turn":"turn_of_yesterday"}"#.to_vec(),
                );
                log.post(&key, stale).await.unwrap();
                Ok(json!("seen"))
            }
        })
    };
    let look = json!({"tool_calls": [{"id": "l", "tool": "look", "params": {}}]});
    /// Asks about what is sent.
    struct AsksToSend;
    #[async_trait::async_trait]
    impl Hooks for AsksToSend {
        async fn before_call(&self, _: &HookCx, tool: &ToolSpec, _: &Value) -> Verdict {
            match tool.name().as_str() {
                "send" => Verdict::Ask(Ask::default()),
                _ => Verdict::Allow,
            }
        }
    }
    let steps = json!({"steps": [look, call("s", "bob"), {"text": "ok"}]});
    let script = annals_model::script::Script::parse(&steps.to_string()).unwrap();
    let agent = Agent::builder()
        .model(annals_model::ScriptModel::new("test", script))
        .layout(common::layout())
        .tools([send(&sent)])
        .tool(post)
        .hooks(AsksToSend)
        .log(log.clone())
        .artifacts(annals_store::ArtifactStore::open(bench.home.path().join("artifacts")).unwrap())
        .workspaces(bench.home.path().join("workspace"));
    let agent = agent.build().await.unwrap();
    let session = agent.session("c").await.unwrap();
    let handle = agent.conversation(&conversation());
    let look = async {
        let asked = next_question(&handle, &[]).await;
        let key = agent.key(&conversation());
        let gone = async {
            while !log.pending(&key).await.unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let gone = tokio::time::timeout(PATIENCE, gone).await;
        handle.decide(allow(&asked, None)).await.unwrap();
        gone
    };
    let (turn, gone) = tokio::join!(agent.run(session, "Look, then send"), look);
    assert_eq!(turn.unwrap().answer(), "ok");
    gone.expect("it leaves the inbox while the turn waits");
}
