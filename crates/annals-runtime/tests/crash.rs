//! A process that dies at any append, before or after it took effect, and around every tool: the next one goes on, and
//! nothing happens twice.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use annals_core::block::{BlobDigest, Block};
use annals_core::ids::{ConversationId, ConversationKey, NodeId, Scope, Seq, TurnId};
use annals_model::ScriptModel;
use annals_model::script::Script;
use annals_runtime::{Agent, RunError, Session, TurnRequest, World};
use annals_store::{
    Answers, Append, ArtifactStore, AskingPage, BlockLog, Claimed, Claims, ConversationInfo, Cursor,
    IdempotencyKey, Inbox, InboxId, Lease, Listing, LogError, Member, Members, MemoryLog, NewConversation,
    Owner, Pending, Post, Posted, Store, StoredAnswer, Tails, Token, Tokens,
};
use annals_tools::{DynamicTool, Effect, Tool, ToolSpec};
use common::{shape, texts};
use futures::stream::BoxStream;
use serde_json::{Value, json};

/// A log whose process dies at the n-th append: just before it, or just after it became durable.
struct MortalLog {
    log: Arc<MemoryLog>,
    appends_left: AtomicUsize,
    death: Death,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    BeforeAppend,
    AfterAppend,
}

#[async_trait::async_trait]
impl BlockLog for MortalLog {
    async fn create(&self, new: NewConversation) -> Result<(), LogError> {
        self.log.create(new).await
    }
    async fn get(&self, id: &ConversationKey) -> Result<ConversationInfo, LogError> {
        self.log.get(id).await
    }
    async fn list(&self, scope: &Scope, cursor: Option<Cursor>, limit: usize) -> Result<Listing, LogError> {
        self.log.list(scope, cursor, limit).await
    }
    async fn asking(
        &self,
        scope: &Scope,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<AskingPage, LogError> {
        self.log.asking(scope, cursor, limit).await
    }
    async fn acquire(&self, key: &ConversationKey, owner: &Owner, ttl: Duration) -> Result<Lease, LogError> {
        self.log.acquire(key, owner, ttl).await
    }
    async fn renew(&self, lease: &Lease) -> Result<(), LogError> {
        self.log.renew(lease).await
    }
    async fn release(&self, lease: &Lease) -> Result<(), LogError> {
        self.log.release(lease).await
    }
    async fn append(&self, lease: &Lease, append: Append) -> Result<Option<Seq>, LogError> {
        let left = self.appends_left.fetch_sub(1, Ordering::SeqCst);
        match (left, self.death) {
            (1, Death::BeforeAppend) => Err(LogError::Closed),
            (1, Death::AfterAppend) => {
                self.log.append(lease, append).await?;
                Err(LogError::Closed)
            }
            _ => self.log.append(lease, append).await,
        }
    }
    async fn read(&self, id: &ConversationKey, from: Seq, limit: usize) -> Result<Vec<Block>, LogError> {
        self.log.read(id, from, limit).await
    }
    async fn fork(&self, parent: &ConversationKey, at: Seq, new: NewConversation) -> Result<(), LogError> {
        self.log.fork(parent, at, new).await
    }
    async fn named_blobs(
        &self,
        after: Option<BlobDigest>,
        limit: usize,
    ) -> Result<Vec<BlobDigest>, LogError> {
        self.log.named_blobs(after, limit).await
    }
    async fn delete(&self, lease: &Lease) -> Result<(), LogError> {
        self.log.delete(lease).await
    }
}

#[async_trait::async_trait]
impl Inbox for MortalLog {
    async fn post(&self, key: &ConversationKey, post: Post) -> Result<Posted, LogError> {
        self.log.post(key, post).await
    }
    async fn pending(&self, key: &ConversationKey) -> Result<Vec<Pending>, LogError> {
        self.log.pending(key).await
    }
    fn posted(
        &self,
        key: &ConversationKey,
        after: Option<InboxId>,
    ) -> BoxStream<'static, Result<InboxId, LogError>> {
        self.log.posted(key, after)
    }
}

#[async_trait::async_trait]
impl Claims for MortalLog {
    async fn claim(&self, owner: &Owner, ttl: Duration, limit: usize) -> Result<Vec<Claimed>, LogError> {
        self.log.claim(owner, ttl, limit).await
    }
}

#[async_trait::async_trait]
impl Members for MortalLog {
    async fn join(&self, node: &NodeId, address: Option<&str>, ttl: Duration) -> Result<Owner, LogError> {
        self.log.join(node, address, ttl).await
    }
    async fn beat(&self, owner: &Owner) -> Result<(), LogError> {
        self.log.beat(owner).await
    }
    async fn leave(&self, owner: &Owner) -> Result<(), LogError> {
        self.log.leave(owner).await
    }
    async fn alive(&self) -> Result<Vec<Member>, LogError> {
        self.log.alive().await
    }
}

#[async_trait::async_trait]
impl Answers for MortalLog {
    async fn answered(&self, to: &IdempotencyKey) -> Result<Option<StoredAnswer>, LogError> {
        self.log.answered(to).await
    }
    async fn keep_answer(&self, answer: StoredAnswer) -> Result<(), LogError> {
        self.log.keep_answer(answer).await
    }
}

#[async_trait::async_trait]
impl Tokens for MortalLog {
    async fn add_token(&self, token: Token) -> Result<(), LogError> {
        self.log.add_token(token).await
    }
    async fn find_token(&self, hash: &[u8; 32]) -> Result<Option<Token>, LogError> {
        self.log.find_token(hash).await
    }
    async fn tokens(&self) -> Result<Vec<Token>, LogError> {
        self.log.tokens().await
    }
    async fn revoke_token(&self, name: &str) -> Result<bool, LogError> {
        self.log.revoke_token(name).await
    }
    async fn server_key(&self, name: &str, fresh: [u8; 32]) -> Result<[u8; 32], LogError> {
        self.log.server_key(name, fresh).await
    }
}

impl Tails for MortalLog {
    fn follow(&self, key: &ConversationKey, after: Option<Seq>) -> BoxStream<'static, Result<Seq, LogError>> {
        self.log.follow(key, after)
    }
}

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
    let mortal = MortalLog {
        log: log.clone(),
        appends_left: AtomicUsize::new(first_death_at),
        death,
    };
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
