//! A store that fails, answers late, or loses what it had confirmed: callers hear of it, and nothing hangs or goes wrong
//! silently.

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use annals_core::block::Block;
use annals_core::ids::{ConversationId, NodeId};
use annals_model::ScriptModel;
use annals_model::script::Script;
use annals_runtime::{Agent, ErrorClass, RunError, Runtime, Subscription, Update, World};
use annals_store::{
    Append, ArtifactStore, BatchId, BlockLog as _, BlockLogExt as _, MemoryLog, NewConversation, Owner, Post,
    Store,
};
use common::store::FrontStore;
use common::texts;
use serde_json::{Value, json};

/// An end for what would wait for ever.
const PATIENCE: Duration = Duration::from_secs(60);

async fn agent(home: &tempfile::TempDir, log: Arc<dyn Store>, steps: Value) -> Agent {
    let script = Script::parse(&json!({ "steps": steps }).to_string()).unwrap();
    let artifacts = ArtifactStore::open(home.path().join("artifacts")).unwrap();
    let runtime = Runtime::new(
        log,
        None,
        artifacts,
        home.path().join("workspace"),
        World::default(),
    );
    let builder = Agent::builder().model(ScriptModel::new("test", script));
    builder
        .layout(common::layout())
        .runtime(runtime)
        .build()
        .await
        .unwrap()
}

fn conversation() -> ConversationId {
    ConversationId::parse("c").unwrap()
}

#[tokio::test]
async fn a_caller_hears_that_the_inbox_cannot_be_read_and_may_try_again() {
    let home = tempfile::tempdir().unwrap();
    let store = Arc::new(FrontStore::new(Arc::new(MemoryLog::default())));
    let agent = agent(&home, store.clone(), json!([{"text": "one"}, {"text": "two"}])).await;
    let session = agent.session("c").await.unwrap();
    // What is in the inbox is looked at before anything is run.
    let stale = Post::new(
        "stale",
        "cancel",
        br#"{"kind":"cancel","turn":"turn_of_yesterday"}"#.to_vec(),
    );
    store.failing_pendings.store(1, Ordering::SeqCst);
    agent
        .log()
        .post(&agent.key(&conversation()), stale)
        .await
        .unwrap();
    let run = tokio::time::timeout(PATIENCE, agent.run(session, "First")).await;
    let session = match run.expect("the caller hears of it") {
        // The look that failed may have been the one for the post.
        Ok(turn) => turn.into_session(),
        Err(failed) => {
            assert!(matches!(failed.error, RunError::Inbox(_)), "{failed}");
            assert_eq!(failed.error.class(), ErrorClass::Retry);
            failed.session
        }
    };
    let turn = agent.run(session, "Second").await.unwrap();
    assert!(!turn.answer().is_empty());
    // What could not be read is read in the end, without anybody's help.
    let key = agent.key(&conversation());
    let read = async {
        while !agent.log().pending(&key).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, read)
        .await
        .expect("the inbox is read again");
}

/// A copy of the first blocks of a conversation, as a server has it that never got the others.
async fn copy(from: &dyn Store, agent: &Agent, blocks: usize) -> Arc<MemoryLog> {
    let (log, key) = (Arc::new(MemoryLog::default()), agent.key(&conversation()));
    let info = from.get(&key).await.unwrap();
    log.create(NewConversation::new(key.clone(), info.created))
        .await
        .unwrap();
    let mut first = from.read_all(&key).await.unwrap();
    first.truncate(blocks);
    let owner = Owner::new(NodeId::parse("copier").unwrap(), 1);
    let lease = log.acquire(&key, &owner, Duration::from_secs(1)).await.unwrap();
    log.append(&lease, Append::new(BatchId::new(1), None, first))
        .await
        .unwrap();
    log.release(&lease).await.unwrap();
    log
}

#[tokio::test]
async fn blocks_that_the_log_lost_are_reported_once_and_the_rest_is_gone_on_with() {
    let home = tempfile::tempdir().unwrap();
    let first: Arc<dyn Store> = Arc::new(MemoryLog::default());
    let store = Arc::new(FrontStore::new(first.clone()));
    let steps = json!([{"text": "one"}, {"text": "two"}, {"text": "three"}]);
    let agent = agent(&home, store.clone(), steps).await;
    let session = agent.session("c").await.unwrap();
    let session = agent.run(session, "First").await.unwrap().into_session();
    let kept = session.timeline(|timeline| timeline.blocks().len());
    let session = agent.run(session, "Second").await.unwrap().into_session();
    let all = session.timeline(|timeline| timeline.blocks().len());
    // Another server takes over that never got the second turn.
    store.replace(copy(&*first, &agent, kept).await);
    let mut session = session;
    let mut told = Vec::new();
    // The write that meets another log is refused; then the loss is known.
    for _ in 0..3 {
        match agent.run(session, "Third").await {
            Ok(turn) => {
                session = turn.into_session();
                break;
            }
            Err(failed) => {
                told.push(failed.error);
                session = failed.session;
            }
        }
    }
    let lost: Vec<_> = told
        .iter()
        .filter_map(|error| match error {
            RunError::BlocksLost {
                conversation,
                lost,
                first,
            } => Some((conversation.as_str(), *lost as usize, first.get() as usize)),
            _ => None,
        })
        .collect();
    assert_eq!(lost, [("c", all - kept, kept + 1)], "{told:?}");
    assert_eq!(texts(&session, "user.prompt"), ["First", "Third"]);
    let stored = store.read_all(&agent.key(&conversation())).await.unwrap();
    let known = session.timeline(|timeline| {
        timeline
            .blocks()
            .iter()
            .map(|b| (**b).clone())
            .collect::<Vec<_>>()
    });
    assert_eq!(stored, known);
}

/// The time of a lease begins when the store is asked: an answer that came late is worth less.
#[tokio::test(start_paused = true)]
async fn a_lease_whose_answer_came_late_is_renewed_before_it_is_trusted() {
    let home = tempfile::tempdir().unwrap();
    let store = Arc::new(FrontStore::new(Arc::new(MemoryLog::default())));
    let agent = agent(&home, store.clone(), json!([{"text": "one"}])).await;
    agent.session("c").await.unwrap().close().await.unwrap();
    // Of sixty seconds, two thirds are over when the answer comes.
    *store.slow_acquire.lock().unwrap() = Some(Duration::from_secs(40));
    let session = agent.session("c").await.unwrap();
    assert_eq!(store.renewed.load(Ordering::SeqCst), 0);
    let turn = agent.run(session, "Go").await.unwrap();
    assert_eq!(turn.answer(), "one");
    assert!(
        store.renewed.load(Ordering::SeqCst) > 0,
        "a lease with ten seconds left was trusted for a minute"
    );
}

/// Blocks as a subscriber holds them: what is lost goes, what follows is added.
struct Watching {
    subscription: Subscription,
    held: Vec<Arc<Block>>,
    /// From where on blocks were lost, each time.
    lost: Vec<u64>,
}

impl Watching {
    async fn start(agent: &Agent) -> Self {
        Watching {
            subscription: agent.subscribe(&conversation(), None).await.unwrap(),
            held: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// Listens until it holds just these blocks.
    async fn holds(&mut self, stored: &[Block]) {
        while !self.held.iter().map(|block| &**block).eq(stored) {
            let next = tokio::time::timeout(PATIENCE, self.subscription.next());
            match next.await.expect("something comes").unwrap() {
                Update::Block(block) => {
                    assert_eq!(
                        block.seq.get() as usize,
                        self.held.len() + 1,
                        "no gap, no duplicate"
                    );
                    self.held.push(block);
                }
                Update::Lost { first } => {
                    self.lost.push(first.get());
                    self.held.truncate(first.get() as usize - 1);
                }
                _ => {}
            }
        }
    }
}

#[tokio::test]
async fn a_subscriber_is_told_of_lost_blocks_and_gets_what_is_there_in_their_place() {
    let home = tempfile::tempdir().unwrap();
    let first: Arc<dyn Store> = Arc::new(MemoryLog::default());
    let store = Arc::new(FrontStore::new(first.clone()));
    let steps = json!([{"text": "one"}, {"text": "two"}, {"text": "three"}]);
    let agent = agent(&home, store.clone(), steps).await;
    let key = agent.key(&conversation());
    let session = agent.session("c").await.unwrap();
    let mut watching = Watching::start(&agent).await;
    let session = agent.run(session, "First").await.unwrap().into_session();
    let kept = session.timeline(|timeline| timeline.blocks().len());
    let mut session = agent.run(session, "Second").await.unwrap().into_session();
    watching.holds(&store.read_all(&key).await.unwrap()).await;
    store.replace(copy(&*first, &agent, kept).await);
    // The write that meets another log is refused; then the loss is known.
    for _ in 0..3 {
        session = match agent.run(session, "Third").await {
            Ok(turn) => turn.into_session(),
            Err(failed) => failed.session,
        };
        if texts(&session, "user.prompt") == ["First", "Third"] {
            break;
        }
    }
    watching.holds(&store.read_all(&key).await.unwrap()).await;
    assert_eq!(watching.lost, [kept as u64 + 1]);
}

/// A process that only watches has no more than the number and the mark of the last block.
#[tokio::test]
async fn a_subscriber_of_another_process_finds_out_when_it_reads_on() {
    let home = tempfile::tempdir().unwrap();
    let first: Arc<dyn Store> = Arc::new(MemoryLog::default());
    let steps = json!([{"text": "one"}, {"text": "two"}, {"text": "three"}]);
    let writing = agent(&home, first.clone(), steps).await;
    let key = writing.key(&conversation());
    let session = writing.session("c").await.unwrap();
    let session = writing.run(session, "First").await.unwrap().into_session();
    let kept = session.timeline(|timeline| timeline.blocks().len());
    let session = writing.run(session, "Second").await.unwrap().into_session();
    let (elsewhere, store) = (
        tempfile::tempdir().unwrap(),
        Arc::new(FrontStore::new(first.clone())),
    );
    let other = agent(&elsewhere, store.clone(), json!([])).await;
    let mut watching = Watching::start(&other).await;
    watching.holds(&first.read_all(&key).await.unwrap()).await;
    let another = copy(&*first, &writing, kept).await;
    store.replace(another.clone());
    writing.run(session, "Third").await.unwrap();
    watching.holds(&another.read_all(&key).await.unwrap()).await;
    assert_eq!(watching.lost, [1], "how far back the log went is not known");
}
