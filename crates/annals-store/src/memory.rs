//! A log that lives and dies with the process: for tests, demos and as the plainest statement of the contract.
//!
//! It keeps every rule of [`BlockLog`] except that nothing survives the process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use annals_core::block::{BlobDigest, Block};
use annals_core::ids::{ConversationId, Scope, Seq};
use annals_core::time::Timestamp;
use async_trait::async_trait;

use crate::log::{
    BlockLog, ConversationInfo, Cursor, Holding, Lease, Listing, LogError, NewConversation, Stale,
    check_order, expiry, named_by,
};

/// A block log in memory.
#[derive(Debug, Default)]
pub struct MemoryLog {
    /// One lock: no operation holds it across an await, and all are short.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    conversations: BTreeMap<ConversationId, Conversation>,
    made: u64,
}

#[derive(Debug)]
struct Conversation {
    /// Place in the order of making, for listings.
    number: u64,
    new: NewConversation,
    strand: Arc<Strand>,
    token: u64,
    holding: Option<Holding>,
}

/// Blocks of one conversation after those it shares. A strand lives as long as a conversation needs it, which
/// may be longer than its own.
#[derive(Debug, Default)]
struct Strand {
    base: Option<(Arc<Strand>, Seq)>,
    own: Mutex<Vec<Block>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while holding these locks half-way through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Strand {
    /// How many blocks lie before its own.
    fn shared(&self) -> u64 {
        self.base.as_ref().map_or(0, |(_, cut)| cut.get())
    }

    fn tail(&self) -> Option<Seq> {
        Seq::try_new(self.shared() + lock(&self.own).len() as u64).ok()
    }

    /// Adds blocks `from..=to` to `found`.
    fn read(&self, from: u64, to: u64, found: &mut Vec<Block>) {
        let shared = self.shared();
        if let Some((base, _)) = &self.base
            && from <= shared
        {
            base.read(from, to.min(shared), found);
        }
        if to > shared {
            let own = lock(&self.own);
            let start = from.saturating_sub(shared + 1).min(own.len() as u64) as usize;
            let end = (to - shared).min(own.len() as u64) as usize;
            found.extend_from_slice(&own[start..end]);
        }
    }

    fn last(&self) -> Option<Block> {
        let tail = self.tail()?.get();
        let mut found = Vec::new();
        self.read(tail, tail, &mut found);
        found.pop()
    }

    fn name_blobs(&self, cut: u64, named: &mut BTreeSet<BlobDigest>) {
        let shared = self.shared();
        lock(&self.own)
            .iter()
            .take_while(|b| b.seq.get() <= cut)
            .for_each(|b| named.extend(named_by(b)));
        if let Some((base, _)) = &self.base {
            base.name_blobs(cut.min(shared), named);
        }
    }
}

impl Conversation {
    fn info(&self) -> ConversationInfo {
        ConversationInfo {
            id: self.new.id.clone(),
            scope: self.new.scope.clone(),
            title: self.new.title.clone(),
            created: self.new.created,
            updated: self.strand.last().map(|block| block.ts),
            tail: self.strand.tail(),
            lineage: self.new.lineage.clone(),
            holding: self.holding.clone(),
        }
    }
}

impl State {
    fn add(&mut self, new: NewConversation, strand: Strand) -> Result<(), LogError> {
        if self.conversations.contains_key(&new.id) {
            return Err(LogError::Exists { id: new.id });
        }
        self.made += 1;
        let conversation = Conversation {
            number: self.made,
            new: new.clone(),
            strand: Arc::new(strand),
            token: 0,
            holding: None,
        };
        self.conversations.insert(new.id, conversation);
        Ok(())
    }

    fn find(&mut self, id: &ConversationId) -> Result<&mut Conversation, LogError> {
        self.conversations
            .get_mut(id)
            .ok_or_else(|| LogError::NotFound { id: id.clone() })
    }

    /// The conversation, if this lease is the newest one.
    fn held(&mut self, lease: &Lease) -> Result<&mut Conversation, LogError> {
        let id = lease.conversation();
        let conversation = self.find(id)?;
        if (conversation.number, conversation.token) != (lease.made, lease.token) {
            let stale = Stale::Lease {
                token: lease.token,
                current: conversation.token,
            };
            return Err(LogError::Conflict {
                id: id.clone(),
                stale,
            });
        }
        Ok(conversation)
    }
}

impl Conversation {
    /// Moves the expiry forward, never back.
    fn keep(&mut self, lease: &Lease, now: Timestamp) {
        let until = expiry(now, lease.ttl);
        if let Some(holding) = &mut self.holding {
            holding.until = holding.until.max(until);
        }
    }
}

#[async_trait]
impl BlockLog for MemoryLog {
    async fn create(&self, new: NewConversation) -> Result<(), LogError> {
        lock(&self.state).add(new, Strand::default())
    }

    async fn get(&self, id: &ConversationId) -> Result<ConversationInfo, LogError> {
        Ok(lock(&self.state).find(id)?.info())
    }

    async fn list(&self, scope: &Scope, cursor: Option<Cursor>, limit: usize) -> Result<Listing, LogError> {
        let state = lock(&self.state);
        let mut found: Vec<&Conversation> = state
            .conversations
            .values()
            .filter(|c| c.new.scope == *scope && cursor.is_none_or(|cursor| c.number < cursor.0))
            .collect();
        found.sort_by_key(|c| std::cmp::Reverse(c.number));
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(|c| Cursor(c.number));
        Ok(Listing {
            items: found.into_iter().map(Conversation::info).collect(),
            next,
        })
    }

    async fn acquire(
        &self,
        id: &ConversationId,
        holder: &str,
        now: Timestamp,
        ttl: Duration,
    ) -> Result<Lease, LogError> {
        let mut state = lock(&self.state);
        let conversation = state.find(id)?;
        let mut until = expiry(now, ttl);
        if let Some(holding) = &conversation.holding {
            if holding.by != holder && holding.until > now {
                return Err(LogError::Held {
                    id: id.clone(),
                    by: holding.by.clone(),
                    until: holding.until,
                });
            }
            until = until.max(holding.until);
        }
        conversation.token += 1;
        conversation.holding = Some(Holding {
            by: holder.to_owned(),
            until,
        });
        Ok(Lease {
            conversation: id.clone(),
            holder: holder.to_owned(),
            made: conversation.number,
            token: conversation.token,
            ttl,
        })
    }

    async fn renew(&self, lease: &Lease, now: Timestamp) -> Result<(), LogError> {
        lock(&self.state).held(lease)?.keep(lease, now);
        Ok(())
    }

    async fn release(&self, lease: &Lease) -> Result<(), LogError> {
        match lock(&self.state).held(lease) {
            Ok(conversation) => {
                conversation.holding = None;
                conversation.token += 1;
                Ok(())
            }
            Err(LogError::Conflict { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn append(
        &self,
        lease: &Lease,
        expected_tail: Option<Seq>,
        blocks: Vec<Block>,
    ) -> Result<Seq, LogError> {
        let mut state = lock(&self.state);
        let conversation = state.held(lease)?;
        let id = lease.conversation();
        let actual = conversation.strand.tail();
        if actual != expected_tail {
            let stale = Stale::Tail {
                expected: expected_tail,
                actual,
            };
            return Err(LogError::Conflict {
                id: id.clone(),
                stale,
            });
        }
        let last = check_order(id, actual, &blocks)?;
        let (seq, ts) = (last.seq, last.ts);
        conversation.keep(lease, ts);
        lock(&conversation.strand.own).extend(blocks);
        Ok(seq)
    }

    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Vec<Block>, LogError> {
        let strand = Arc::clone(&lock(&self.state).find(id)?.strand);
        let mut found = Vec::new();
        let to = from.get().saturating_add(limit as u64).saturating_sub(1);
        strand.read(from.get(), to, &mut found);
        Ok(found)
    }

    async fn fork(&self, parent: &ConversationId, at: Seq, new: NewConversation) -> Result<(), LogError> {
        let mut state = lock(&self.state);
        let mut base = Arc::clone(&state.find(parent)?.strand);
        let tail = base.tail();
        if tail.is_none_or(|tail| tail < at) {
            return Err(LogError::NoSuchBlock {
                id: parent.clone(),
                at,
                tail,
            });
        }
        // A cut inside what the parent itself shares goes straight to the strand that has the block.
        while let Some((deeper, cut)) = &base.base {
            if at > *cut {
                break;
            }
            base = Arc::clone(deeper);
        }
        state.add(
            new,
            Strand {
                base: Some((base, at)),
                own: Mutex::default(),
            },
        )
    }

    async fn delete(&self, lease: &Lease) -> Result<(), LogError> {
        let mut state = lock(&self.state);
        state.held(lease)?;
        state.conversations.remove(lease.conversation());
        Ok(())
    }

    async fn named_blobs(&self) -> Result<Vec<BlobDigest>, LogError> {
        let mut named = BTreeSet::new();
        for conversation in lock(&self.state).conversations.values() {
            conversation.strand.name_blobs(u64::MAX, &mut named);
        }
        Ok(named.into_iter().collect())
    }
}
