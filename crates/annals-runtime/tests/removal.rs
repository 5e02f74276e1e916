//! Conversations removed for good, also those that are open.

mod common;

use std::sync::Arc;
use std::time::Duration;

use annals_core::ids::ConversationId;
use annals_core::turn::TurnEnd;
use annals_runtime::{Agent, Ask, HookCx, Hooks, RunError, Verdict};
use annals_store::LogError;
use annals_tools::{DynamicTool, Tool, ToolSpec};
use common::{Bench, texts};
use serde_json::{Value, json};

fn conversation() -> ConversationId {
    ConversationId::parse("c").unwrap()
}

fn write(id: &str) -> Value {
    json!({"tool_calls": [{"id": id, "tool": "react.write", "params": {
        "path": "a.md", "channel": "canvas", "content": "# A\n", "kind": "file"}}]})
}

#[tokio::test]
async fn an_open_conversation_that_is_removed_is_gone_for_everybody_and_its_name_is_free() {
    let bench = Bench::new();
    let agent = bench
        .agent(json!([write("w"), {"text": "one"}, {"text": "two"}, {"text": "three"}]))
        .await;
    let session = agent.session("c").await.unwrap();
    let session = agent.run(session, "First").await.unwrap().into_session();
    let tree = session.cx().workspace.root().to_owned();
    assert!(tree.exists());
    agent.delete_conversation(&conversation()).await.unwrap();
    assert!(!tree.exists(), "its files are gone");
    session.timeline(|timeline| assert!(timeline.blocks().is_empty(), "and its blocks"));
    // Who still has it is told so, also once another bears its name.
    for name_is_taken in [false, true] {
        let other = match name_is_taken {
            true => Some(agent.session("c").await.unwrap()),
            false => None,
        };
        let refused = agent.run_in(&session, "Late").await.unwrap_err();
        assert!(
            matches!(refused, RunError::Log(LogError::NotFound { .. })),
            "{refused}"
        );
        if let Some(other) = other {
            let turn = agent.run(other, "Anew").await.unwrap();
            assert_eq!(texts(turn.session(), "user.prompt"), ["Anew"]);
            let turn = agent.run(turn.into_session(), "And on").await.unwrap();
            assert_eq!(turn.end(), TurnEnd::Complete);
        }
    }
}

#[tokio::test]
async fn a_conversation_whose_turn_runs_is_not_removed() {
    let bench = Bench::new();
    let (begun, go) = (
        Arc::new(tokio::sync::Notify::new()),
        Arc::new(tokio::sync::Notify::new()),
    );
    let waits: Arc<dyn Tool> = {
        let (begun, go) = (begun.clone(), go.clone());
        let spec = ToolSpec::builder("wait").build().unwrap();
        Arc::new(DynamicTool::with_spec(spec, move |_, _| {
            let (begun, go) = (begun.clone(), go.clone());
            async move {
                begun.notify_one();
                go.notified().await;
                Ok(json!("waited"))
            }
        }))
    };
    let wait = json!({"tool_calls": [{"id": "w", "tool": "wait", "params": {}}]});
    let agent = bench
        .agent_with(json!([wait, {"text": "done"}]), vec![waits])
        .await;
    let session = agent.session("c").await.unwrap();
    let remove = async {
        begun.notified().await;
        let refused = agent.delete_conversation(&conversation()).await;
        go.notify_one();
        refused
    };
    let (turn, refused) = tokio::join!(agent.run(session, "Go"), remove);
    assert!(
        matches!(refused, Err(RunError::Log(LogError::Held { .. }))),
        "{refused:?}"
    );
    let turn = turn.expect("the turn is not disturbed");
    assert_eq!(turn.answer(), "done");
    drop(turn);
    agent.delete_conversation(&conversation()).await.unwrap();
}

struct AsksAlways;

#[async_trait::async_trait]
impl Hooks for AsksAlways {
    async fn before_call(&self, _: &HookCx, _: &ToolSpec, _: &Value) -> Verdict {
        Verdict::Ask(Ask::default())
    }
}

#[tokio::test]
async fn who_waits_with_a_turn_of_a_conversation_that_is_removed_hears_of_it() {
    let bench = Bench::new();
    let agent = bench.builder(json!({"steps": [write("w"), {"text": "never"}]}));
    let agent: Agent = agent.hooks(AsksAlways).build().await.unwrap();
    let session = agent.session("c").await.unwrap();
    let handle = agent.conversation(&conversation());
    let remove = async {
        while handle.approvals().await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        handle.settled().await;
        agent.delete_conversation(&conversation()).await.unwrap();
    };
    let run = async { tokio::join!(agent.run(session, "Go"), remove) };
    let (turn, ()) = tokio::time::timeout(Duration::from_secs(60), run)
        .await
        .expect("the caller hears of it");
    let failed = turn.unwrap_err();
    assert!(
        matches!(failed.error, RunError::Log(LogError::NotFound { .. })),
        "{failed}"
    );
}

/// What cannot be removed is still there, and can be removed later.
#[cfg(unix)]
#[tokio::test]
async fn a_tree_that_cannot_be_removed_keeps_its_conversation() {
    let bench = Bench::new();
    let agent = bench.agent(json!([write("w"), {"text": "one"}])).await;
    let session = agent.session("c").await.unwrap();
    let session = agent.run(session, "First").await.unwrap().into_session();
    let tree = session.cx().workspace.root().to_owned();
    session.close().await.unwrap();
    // Something that is no folder, in its place: it cannot be removed as one, whoever asks.
    let aside = tree.with_extension("aside");
    std::fs::rename(&tree, &aside).unwrap();
    std::fs::write(&tree, "in the way").unwrap();
    let failed = agent.delete_conversation(&conversation()).await.unwrap_err();
    assert!(matches!(failed, RunError::Removal { .. }), "{failed}");
    std::fs::remove_file(&tree).unwrap();
    std::fs::rename(&aside, &tree).unwrap();
    let session = agent.session("c").await.unwrap();
    assert_eq!(texts(&session, "user.prompt"), ["First"]);
    session.close().await.unwrap();
    agent.delete_conversation(&conversation()).await.unwrap();
    assert!(!tree.exists());
}
