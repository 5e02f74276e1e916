//! Things to say in a log, and searches over what was said.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use annals_core::block::{BlobDigest, Block, BlockKind, FileMeta, Meta, NewBlock};
use annals_core::ids::{CallId, ConversationId, ConversationKey, Scope, Seq, TurnId};
use annals_core::path::{LogicalPath, RelPath};

use super::sample::{after, at, owner};
use crate::log::{BlockLogExt as _, LogError, NewConversation, Store};
use crate::recall::{Query, RecallHits, RecallIndex, Within};

/// Makes a block of a turn.
pub type Says = Box<dyn Fn(&TurnId, &CallId) -> NewBlock + Send + Sync>;

/// A user's prompt.
pub fn prompt(text: &str) -> Says {
    let text = text.to_owned();
    Box::new(move |turn, _| {
        NewBlock::new(BlockKind::UserPrompt, turn, LogicalPath::user_prompt(turn))
            .text("text/plain", text.as_str())
    })
}

/// An answer.
pub fn answer(text: &str) -> Says {
    let text = text.to_owned();
    Box::new(move |turn, _| {
        let path = LogicalPath::assistant_completion(turn);
        NewBlock::new(BlockKind::AssistantCompletion, turn, path).text("text/markdown", text.as_str())
    })
}

/// A file that came with a prompt.
pub fn attachment(name: &str, text: &str) -> Says {
    let (name, text) = (RelPath::parse(name).expect("a path"), text.to_owned());
    Box::new(move |turn, _| {
        let path = LogicalPath::attachment(turn, &name);
        NewBlock::new(BlockKind::UserAttachment, turn, path)
            .text("text/plain", text.as_str())
            .meta(of_file(&text))
    })
}

/// A file that a call wrote.
pub fn file(name: &str, text: &str) -> Says {
    let (name, text) = (RelPath::parse(name).expect("a path"), text.to_owned());
    Box::new(move |turn, call| {
        let meta = Meta {
            file: of_file(&text).file,
            ..Meta::of_call(call)
        };
        NewBlock::new(BlockKind::ToolResult, turn, LogicalPath::file(turn, &name))
            .text("text/markdown", text.as_str())
            .meta(meta)
    })
}

fn of_file(text: &str) -> Meta {
    Meta {
        file: Some(Box::new(FileMeta {
            content_digest: Some(BlobDigest::of(text.as_bytes())),
            ..FileMeta::default()
        })),
        ..Meta::EMPTY
    }
}

/// A conversation of a scope.
pub fn key(of: &str, name: &str) -> ConversationKey {
    let scope = Scope::parse(of).expect("a scope");
    ConversationKey::new(scope, ConversationId::parse(name).expect("test names are ids"))
}

/// Appends what is said to a conversation, made if it is new.
pub async fn say(log: &dyn Store, to: &ConversationKey, says: &[Says]) {
    static CALLS: AtomicU64 = AtomicU64::new(1);
    match log.create(NewConversation::new(to.clone(), at(0))).await {
        Ok(()) | Err(LogError::Exists { .. }) => {}
        Err(error) => panic!("{error}"),
    }
    let ttl = Duration::from_secs(60);
    let lease = log.acquire(to, &owner("test"), ttl).await.expect("a lease");
    let tail = log.tail(to).await.expect("a tail");
    let first = tail.map_or(1, |tail| tail.get() + 1);
    let turn = TurnId::parse(&format!("turn_{first}")).expect("a turn");
    let blocks: Vec<Block> = says
        .iter()
        .zip(first..)
        .map(|(says, number)| {
            let call = CallId::made(CALLS.fetch_add(1, Ordering::Relaxed));
            says(&turn, &call).seal(Seq::try_new(number).expect("from 1"), at(number as i64))
        })
        .collect();
    log.append(&lease, after(tail, blocks)).await.expect("an append");
}

/// Deletes a conversation.
pub async fn delete(log: &dyn Store, which: &ConversationKey) {
    let ttl = Duration::from_secs(60);
    let lease = log.acquire(which, &owner("test"), ttl).await.expect("a lease");
    log.delete(&lease).await.expect("a deletion");
}

/// A query in a conversation.
pub fn query(of: &ConversationKey, text: &str) -> Query {
    Query::new(of.scope.clone(), of.id.clone(), text, at(1_000))
}

/// A query in all conversations of a scope.
pub fn query_scope(of: &str, text: &str) -> Query {
    Query {
        within: Within::Scope,
        limit: 50,
        ..query(&key(of, "none"), text)
    }
}

/// An empty store with memory search.
#[derive(Clone)]
pub struct Remembering {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Its memory search, with the built-in embedder.
    pub recall: Arc<dyn RecallIndex>,
}

impl Remembering {
    pub(super) async fn says(&self, name: &str, says: &[Says]) {
        self.says_in("t/p/u", name, says).await;
    }

    pub(super) async fn says_in(&self, of: &str, name: &str, says: &[Says]) {
        say(&*self.store, &key(of, name), says).await;
    }

    pub(super) async fn deletes(&self, name: &str) {
        delete(&*self.store, &key("t/p/u", name)).await;
    }

    pub(super) async fn search(&self, name: &str, text: &str) -> RecallHits {
        self.find(query(&key("t/p/u", name), text)).await
    }

    pub(super) async fn everywhere(&self, of: &str, text: &str) -> RecallHits {
        self.find(query_scope(of, text)).await
    }

    pub(super) async fn find(&self, query: Query) -> RecallHits {
        self.recall.search(query).await.expect("a search")
    }
}
