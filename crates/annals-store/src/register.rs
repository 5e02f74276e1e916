//! Values by name beside the conversations, on every backend: what a scope may do, what it has used up.
//!
//! A value is the last block of a conversation of its own, in a scope that nobody's conversations have. So a change is one
//! append, durable, whole or not at all, and two who change a value at once go one after the other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use annals_core::block::{BlobDigest, Block, BlockKind, NewBlock};
use annals_core::ids::{ConversationId, ConversationKey, Scope, Seq, TurnId};
use annals_core::path::LogicalPath;
use annals_core::time::Timestamp;

use crate::log::{Append, BatchId, BlockLogExt as _, LogError, NewConversation, Owner, Store};

/// The tenant of the scopes that hold registers. No token opens it.
pub const REGISTER_TENANT: &str = "annals.register";

/// A change takes no longer than this; a process that dies in one keeps others waiting for as long.
const CHANGE_TTL: Duration = Duration::from_secs(5);
/// Others who change the same value are waited for this long.
const PATIENCE: Duration = Duration::from_secs(15);
const KIND: &str = "x.annals.register";

/// One table of values. Clones share it.
#[derive(Clone)]
pub struct Register {
    log: Arc<dyn Store>,
    scope: Scope,
    /// Who changes which value in this process: the store would let them take it from each other.
    changing: Arc<Mutex<HashMap<ConversationId, Weak<tokio::sync::Mutex<()>>>>>,
}

/// Who changes a value, and when.
#[derive(Clone, Debug)]
pub struct Hand {
    /// Among those that share the store.
    pub owner: Owner,
    /// The time that the change carries.
    pub now: Timestamp,
    /// Drawn at random for this change.
    pub random: u64,
}

impl Register {
    /// The table of this name, which is a part of a scope.
    pub fn new(log: Arc<dyn Store>, table: &'static str) -> Self {
        Register {
            log,
            scope: Scope::try_new(REGISTER_TENANT, table, "values").expect("tables have plain names"),
            changing: Arc::default(),
        }
    }

    fn key(&self, name: &str) -> ConversationKey {
        let hex = BlobDigest::of(name.as_bytes()).hex();
        let id = ConversationId::parse(&format!("v_{}", &hex[..40])).expect("hex digits are an id");
        ConversationKey::new(self.scope.clone(), id)
    }

    /// The value of a name.
    pub async fn get(&self, name: &str) -> Result<Option<String>, LogError> {
        match self.last(&self.key(name)).await {
            Ok(last) => Ok(last.map(|block| text_of(&block))),
            Err(LogError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn last(&self, key: &ConversationKey) -> Result<Option<Block>, LogError> {
        match self.log.tail(key).await? {
            Some(tail) => Ok(self.log.read(key, tail, 1).await?.pop()),
            None => Ok(None),
        }
    }

    /// Makes a value of the present one; `next` may be asked again when somebody else was quicker. What is the same as
    /// before is not written.
    pub async fn change(
        &self,
        name: &str,
        hand: &Hand,
        mut next: impl FnMut(Option<&str>) -> String + Send,
    ) -> Result<(), LogError> {
        let key = self.key(name);
        let place = self.place(&key.id);
        let _alone = place.lock().await;
        let mut waited = Duration::ZERO;
        loop {
            match self.change_once(&key, hand, &mut next).await {
                Err(LogError::NotFound { .. }) => {
                    match self.log.create(NewConversation::new(key.clone(), hand.now)).await {
                        Ok(()) | Err(LogError::Exists { .. }) => {}
                        Err(error) => return Err(error),
                    }
                }
                Err(LogError::Held { .. } | LogError::Conflict { .. }) if waited < PATIENCE => {
                    // Uneven, so that two who met do not meet again.
                    let pause = Duration::from_millis(2 + hand.random % 7) + waited / 4;
                    tokio::time::sleep(pause).await;
                    waited += pause;
                }
                changed => return changed,
            }
        }
    }

    async fn change_once(
        &self,
        key: &ConversationKey,
        hand: &Hand,
        next: &mut (impl FnMut(Option<&str>) -> String + Send),
    ) -> Result<(), LogError> {
        let lease = self.log.acquire(key, &hand.owner, CHANGE_TTL).await?;
        let changed = async {
            let last = self.last(key).await?;
            let before = last.as_ref().map(text_of);
            let value = next(before.as_deref());
            if before.as_deref() == Some(&*value) {
                return Ok(());
            }
            let tail = last.map(|block| block.seq);
            let seq = tail.map_or(Seq::FIRST, Seq::next);
            let turn = TurnId::parse("turn_register").expect("a plain name");
            let path = LogicalPath::named(&turn, "value").expect("a plain name");
            let block = NewBlock::new(BlockKind::Other(KIND.into()), &turn, path).text("text/plain", value);
            let append = Append::new(BatchId::new(hand.random), tail, vec![block.seal(seq, hand.now)]);
            self.log.append(&lease, append).await.map(drop)
        };
        let changed = changed.await;
        self.log.release(&lease).await?;
        changed
    }

    /// Forgets a name. One that is not there is forgotten already.
    pub async fn remove(&self, name: &str, owner: &Owner) -> Result<(), LogError> {
        let lease = match self.log.acquire(&self.key(name), owner, CHANGE_TTL).await {
            Err(LogError::NotFound { .. }) => return Ok(()),
            lease => lease?,
        };
        self.log.delete(&lease).await
    }

    fn place(&self, id: &ConversationId) -> Arc<tokio::sync::Mutex<()>> {
        let mut changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = changing.get(id).and_then(Weak::upgrade) {
            return place;
        }
        changing.retain(|_, place| place.strong_count() > 0);
        let place = Arc::default();
        changing.insert(id.clone(), Arc::downgrade(&place));
        place
    }
}

fn text_of(block: &Block) -> String {
    block.text().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use annals_core::ids::NodeId;

    use super::*;
    use crate::MemoryLog;

    fn hand(node: &str, random: u64) -> Hand {
        Hand {
            owner: Owner::new(NodeId::parse(node).unwrap(), 1),
            now: Timestamp::from_unix_millis(0),
            random,
        }
    }

    #[tokio::test]
    async fn a_value_is_what_it_was_last_changed_to() {
        let register = Register::new(Arc::new(MemoryLog::default()), "test");
        assert_eq!(register.get("a").await.unwrap(), None);
        for (random, value) in [(1, "one"), (2, "two"), (3, "two")] {
            let hand = hand("n", random);
            register.change("a", &hand, |_| value.to_owned()).await.unwrap();
            assert_eq!(register.get("a").await.unwrap().as_deref(), Some(value));
        }
        let tail = register.log.tail(&register.key("a")).await.unwrap();
        assert_eq!(tail.map(Seq::get), Some(2), "the same again is not written");
        register.remove("a", &hand("n", 4).owner).await.unwrap();
        register.remove("a", &hand("n", 4).owner).await.unwrap();
        assert_eq!(register.get("a").await.unwrap(), None);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn changes_of_several_processes_and_tasks_are_all_there() {
        let log: Arc<dyn Store> = Arc::new(MemoryLog::default());
        let mut tasks = tokio::task::JoinSet::new();
        for process in 0..3 {
            let register = Register::new(log.clone(), "test");
            for task in 0..20 {
                let register = register.clone();
                tasks.spawn(async move {
                    let hand = hand(&format!("node{process}"), process * 1_000 + task);
                    let more = |before: Option<&str>| {
                        let before: u64 = before.map_or(0, |text| text.parse().unwrap());
                        (before + 1).to_string()
                    };
                    register.change("count", &hand, more).await.unwrap();
                });
            }
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        let register = Register::new(log, "test");
        assert_eq!(register.get("count").await.unwrap().as_deref(), Some("60"));
    }
}
