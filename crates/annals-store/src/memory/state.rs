//! Everything a log in memory knows, behind one lock.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use annals_core::block::BlobDigest;
use annals_core::ids::{ConversationId, ConversationKey, NodeId, Scope, Seq};
use annals_core::time::Timestamp;

use super::lock;
use super::strand::Strand;
use crate::log::{
    ANSWER_KEPT, Append, Asking, AskingPage, BatchId, CLIENT_KEY_KEPT, Claimed, ConversationInfo, Cursor,
    Holding, IdempotencyKey, InboxId, Lease, Listing, LogError, Mark, Member, NewConversation, Owner,
    Pending, Post, Posted, Stale, StoredAnswer, Token, TokenHash, Work, asks_from, expiry, named_in_post,
};

#[derive(Debug, Default)]
pub(super) struct State {
    conversations: BTreeMap<ConversationKey, Conversation>,
    members: BTreeMap<NodeId, Membership>,
    made: u64,
    posts: u64,
    answers: BTreeMap<IdempotencyKey, (StoredAnswer, Timestamp)>,
    tokens: BTreeMap<String, Token>,
    server_keys: BTreeMap<String, [u8; 32]>,
}

#[derive(Debug)]
pub(super) struct Conversation {
    /// Place in the order of making, for listings.
    number: u64,
    new: NewConversation,
    strand: Arc<Strand>,
    token: u64,
    holding: Option<Holding>,
    batch: Option<(BatchId, Option<Seq>)>,
    inbox: BTreeMap<InboxId, Pending>,
    /// What was posted under which key, when.
    client_keys: HashMap<String, (InboxId, Post, Timestamp)>,
    last_post: Option<InboxId>,
    due: Option<Timestamp>,
    attempts: u32,
    asks_from: Option<Seq>,
}

#[derive(Debug)]
struct Membership {
    epoch: u64,
    address: Option<String>,
    ttl: Duration,
    /// None once it left.
    until: Option<Timestamp>,
}

impl State {
    pub(super) fn create(&mut self, new: NewConversation, now: Timestamp) -> Result<(), LogError> {
        self.add(new, Strand::default(), now)
    }

    fn add(&mut self, mut new: NewConversation, strand: Strand, now: Timestamp) -> Result<(), LogError> {
        self.check_answer(new.answer.as_ref(), now)?;
        if self.conversations.contains_key(&new.key) {
            return Err(LogError::Exists { id: new.key.id });
        }
        self.made += 1;
        self.keep_answer(new.answer.take(), now);
        let strand = Strand {
            number: self.made,
            ..strand
        };
        let asks_from = strand.asks_from();
        let conversation = Conversation {
            number: self.made,
            new: new.clone(),
            strand: Arc::new(strand),
            token: 0,
            holding: None,
            batch: None,
            inbox: BTreeMap::new(),
            client_keys: HashMap::new(),
            last_post: None,
            due: None,
            attempts: 0,
            asks_from,
        };
        self.conversations.insert(new.key, conversation);
        Ok(())
    }

    pub(super) fn find(&mut self, key: &ConversationKey) -> Result<&mut Conversation, LogError> {
        self.conversations
            .get_mut(key)
            .ok_or_else(|| LogError::NotFound { id: key.id.clone() })
    }

    /// The conversations of a scope with their blocks.
    pub(super) fn strands(&self, scope: &Scope) -> Vec<(ConversationId, Arc<Strand>)> {
        self.conversations
            .values()
            .filter(|c| c.new.key.scope == *scope)
            .map(|c| (c.new.key.id.clone(), c.strand()))
            .collect()
    }

    /// How many blocks there are, those that conversations share once.
    pub(super) fn count_blocks(&self) -> u64 {
        let own = self
            .conversations
            .values()
            .map(|c| lock(&c.strand().own).len() as u64);
        own.sum()
    }

    pub(super) fn list(&self, scope: &Scope, before: Option<u64>, limit: usize) -> Listing {
        let mut found: Vec<&Conversation> = self
            .conversations
            .values()
            .filter(|c| c.new.key.scope == *scope && before.is_none_or(|before| c.number < before))
            .collect();
        found.sort_by_key(|c| std::cmp::Reverse(c.number));
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(|c| Cursor::of_number(c.number));
        Listing {
            items: found.into_iter().map(Conversation::info).collect(),
            next,
        }
    }

    pub(super) fn asking(&self, scope: &Scope, after: u64, limit: usize) -> AskingPage {
        let asks = |c: &Conversation| {
            Some((
                c.number,
                c.asks_from.filter(|_| c.number > after)?,
                c.new.key.clone(),
            ))
        };
        let mut found: Vec<(u64, Seq, ConversationKey)> = self
            .conversations
            .values()
            .filter(|c| c.new.key.scope == *scope)
            .filter_map(asks)
            .collect();
        found.sort();
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found
            .last()
            .filter(|_| more)
            .map(|(number, ..)| Cursor::of_number(*number));
        AskingPage {
            items: found
                .into_iter()
                .map(|(_, from, key)| Asking { key, from })
                .collect(),
            next,
        }
    }

    /// The conversation, if this lease is the newest one.
    pub(super) fn held(&mut self, lease: &Lease) -> Result<&mut Conversation, LogError> {
        let conversation = self.find(lease.key())?;
        if (conversation.number, conversation.token) != (lease.incarnation(), lease.token()) {
            let stale = Stale::Lease {
                token: lease.token(),
                current: conversation.token,
            };
            return Err(conflict(lease.key(), stale));
        }
        Ok(conversation)
    }

    /// Who keeps others from taking a conversation.
    fn holder<'c>(&self, conversation: &'c Conversation, now: Timestamp) -> Option<&'c Holding> {
        conversation
            .holding
            .as_ref()
            .filter(|holding| holding.until > now && !self.is_gone(&holding.by, now))
    }

    fn is_gone(&self, owner: &Owner, now: Timestamp) -> bool {
        self.members.get(&owner.node).is_some_and(|member| {
            member.epoch > owner.epoch || member.epoch == owner.epoch && member.until.is_none_or(|t| t <= now)
        })
    }

    pub(super) fn acquire(
        &mut self,
        key: &ConversationKey,
        owner: &Owner,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Lease, LogError> {
        let conversation = &*self.find(key)?;
        let number = conversation.number;
        let holder = self.conversations.get(key).and_then(|c| self.holder(c, now));
        match holder {
            Some(holding) if holding.by != *owner => Err(LogError::Held {
                id: key.id.clone(),
                by: holding.by.clone(),
                until: holding.until,
            }),
            _ => {
                let conversation = self.find(key)?;
                let token = conversation.give(owner, expiry(now, ttl));
                Ok(Lease::new(key.clone(), owner.clone(), token, ttl, number))
            }
        }
    }

    pub(super) fn claim(
        &mut self,
        owner: &Owner,
        ttl: Duration,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<Claimed>, LogError> {
        if self.is_gone(owner, now) {
            return Err(LogError::NotAMember { owner: owner.clone() });
        }
        let mut due: Vec<(Timestamp, u64, ConversationKey)> = self
            .conversations
            .values()
            .filter(|c| self.holder(c, now).is_none())
            .filter_map(|c| Some((c.due.filter(|due| *due <= now)?, c.number, c.new.key.clone())))
            .collect();
        due.sort();
        due.truncate(limit);
        let mut claimed = Vec::with_capacity(due.len());
        for (_, number, key) in due {
            let conversation = self.find(&key)?;
            conversation.attempts += 1;
            let attempts = conversation.attempts;
            let token = conversation.give(owner, expiry(now, ttl));
            let lease = Lease::new(key, owner.clone(), token, ttl, number);
            claimed.push(Claimed { lease, attempts });
        }
        Ok(claimed)
    }

    pub(super) fn fork(
        &mut self,
        parent: &ConversationKey,
        at: Seq,
        new: NewConversation,
        now: Timestamp,
    ) -> Result<(), LogError> {
        if parent.scope != new.key.scope {
            return Err(LogError::NotFound {
                id: parent.id.clone(),
            });
        }
        let mut base = self.find(parent)?.strand();
        let tail = base.tail();
        if tail.is_none_or(|tail| tail < at) {
            return Err(LogError::NoSuchBlock {
                id: parent.id.clone(),
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
        let strand = Strand {
            base: Some((base, at)),
            ..Strand::default()
        };
        self.add(new, strand, now)
    }

    pub(super) fn remove(&mut self, lease: &Lease) -> Result<(), LogError> {
        self.held(lease)?;
        self.conversations.remove(lease.key());
        Ok(())
    }

    pub(super) fn name_blobs(&self, named: &mut BTreeSet<BlobDigest>) {
        for conversation in self.conversations.values() {
            conversation.strand.name_blobs(u64::MAX, named);
            let waiting = conversation.inbox.values();
            named.extend(waiting.flat_map(|pending| named_in_post(&pending.post.body)));
        }
    }

    pub(super) fn post(
        &mut self,
        key: &ConversationKey,
        mut post: Post,
        now: Timestamp,
    ) -> Result<Posted, LogError> {
        let answer = post.answer.take();
        self.check_answer(answer.as_ref(), now)?;
        let id = InboxId::new(self.posts + 1);
        let posted = self.find(key)?.post(id, post, now)?;
        self.posts += 1;
        if matches!(posted, Posted::New(_)) {
            self.keep_answer(answer, now);
        }
        Ok(posted)
    }

    pub(super) fn append(
        &mut self,
        lease: &Lease,
        mut append: Append,
        now: Timestamp,
    ) -> Result<Option<Seq>, LogError> {
        let answer = append.answer.take();
        let conversation = self.held(lease)?;
        if !conversation.is_repeated(&append) {
            self.check_answer(answer.as_ref(), now)?;
        }
        let tail = self.held(lease)?.append(lease, append, now)?;
        self.keep_answer(answer, now);
        Ok(tail)
    }

    pub(super) fn answered(&self, to: &IdempotencyKey, now: Timestamp) -> Option<&StoredAnswer> {
        let (answer, kept) = self.answers.get(to)?;
        (expiry(*kept, ANSWER_KEPT) > now).then_some(answer)
    }

    /// Refuses what was answered before.
    pub(super) fn check_answer(&self, answer: Option<&StoredAnswer>, now: Timestamp) -> Result<(), LogError> {
        match answer.and_then(|answer| self.answered(&answer.to, now)) {
            Some(known) => Err(LogError::Answered {
                key: known.to.key.clone(),
            }),
            None => Ok(()),
        }
    }

    pub(super) fn keep_answer(&mut self, answer: Option<StoredAnswer>, now: Timestamp) {
        let Some(answer) = answer else { return };
        self.answers
            .retain(|_, (_, kept)| expiry(*kept, ANSWER_KEPT) > now);
        self.answers.insert(answer.to.clone(), (answer, now));
    }

    pub(super) fn add_token(&mut self, token: Token) -> Result<(), LogError> {
        match self.tokens.contains_key(&token.name) {
            true => Err(LogError::TokenExists { name: token.name }),
            false => {
                self.tokens.insert(token.name.clone(), token);
                Ok(())
            }
        }
    }

    pub(super) fn find_token(&self, hash: &TokenHash, now: Timestamp) -> Option<&Token> {
        self.tokens
            .values()
            .find(|token| token.hash == *hash && token.is_valid(now))
    }

    pub(super) fn tokens(&self) -> Vec<Token> {
        self.tokens.values().cloned().collect()
    }

    pub(super) fn revoke_token(&mut self, name: &str) -> bool {
        self.tokens.remove(name).is_some()
    }

    pub(super) fn server_key(&mut self, name: &str, fresh: [u8; 32]) -> [u8; 32] {
        *self.server_keys.entry(name.to_owned()).or_insert(fresh)
    }

    pub(super) fn join(
        &mut self,
        node: &NodeId,
        address: Option<&str>,
        ttl: Duration,
        now: Timestamp,
    ) -> Owner {
        let epoch = self.members.get(node).map_or(0, |member| member.epoch) + 1;
        let membership = Membership {
            epoch,
            address: address.map(str::to_owned),
            ttl,
            until: Some(expiry(now, ttl)),
        };
        self.members.insert(node.clone(), membership);
        Owner::new(node.clone(), epoch)
    }

    pub(super) fn beat(&mut self, owner: &Owner, now: Timestamp) -> Result<(), LogError> {
        match self.members.get_mut(&owner.node) {
            Some(member) if member.epoch == owner.epoch && member.until.is_some_and(|until| until > now) => {
                member.until = member.until.max(Some(expiry(now, member.ttl)));
                Ok(())
            }
            _ => Err(LogError::NotAMember { owner: owner.clone() }),
        }
    }

    pub(super) fn leave(&mut self, owner: &Owner) {
        if let Some(member) = self.members.get_mut(&owner.node)
            && member.epoch == owner.epoch
        {
            member.until = None;
        }
    }

    pub(super) fn alive(&self, now: Timestamp) -> Vec<Member> {
        let there = self.members.iter().filter_map(|(node, member)| {
            let until = member.until.filter(|until| *until > now)?;
            Some(Member {
                owner: Owner::new(node.clone(), member.epoch),
                address: member.address.clone(),
                until,
            })
        });
        there.collect()
    }
}

fn conflict(key: &ConversationKey, stale: Stale) -> LogError {
    LogError::Conflict {
        id: key.id.clone(),
        stale,
    }
}

impl Conversation {
    pub(super) fn info(&self) -> ConversationInfo {
        ConversationInfo {
            key: self.new.key.clone(),
            title: self.new.title.clone(),
            created: self.new.created,
            updated: self.strand.last().map(|block| block.ts),
            tail: self.strand.tail(),
            lineage: self.new.lineage.clone(),
            holding: self.holding.clone(),
        }
    }

    pub(super) fn strand(&self) -> Arc<Strand> {
        Arc::clone(&self.strand)
    }

    pub(super) fn mark(&self) -> Mark {
        Mark {
            tail: self.strand.tail(),
            posted: self.last_post,
        }
    }

    pub(super) fn pending(&self) -> Vec<Pending> {
        self.inbox.values().cloned().collect()
    }

    /// Gives the next token out.
    fn give(&mut self, owner: &Owner, until: Timestamp) -> u64 {
        let own = self.holding.as_ref().filter(|holding| holding.by == *owner);
        let until = own.map_or(until, |holding| holding.until.max(until));
        self.token += 1;
        self.holding = Some(Holding {
            by: owner.clone(),
            until,
        });
        self.token
    }

    /// Moves the expiry forward, never back.
    pub(super) fn keep(&mut self, lease: &Lease, now: Timestamp) {
        let until = expiry(now, lease.ttl());
        if let Some(holding) = &mut self.holding {
            holding.until = holding.until.max(until);
        }
    }

    pub(super) fn free(&mut self) {
        self.holding = None;
        self.token += 1;
    }

    /// Whether this is the last append, asked for again.
    fn is_repeated(&self, append: &Append) -> bool {
        self.batch == Some((append.batch, append.expected_tail))
    }

    fn append(&mut self, lease: &Lease, append: Append, now: Timestamp) -> Result<Option<Seq>, LogError> {
        let (key, actual) = (lease.key(), self.strand.tail());
        if self.is_repeated(&append) {
            return Ok(actual);
        }
        if actual != append.expected_tail {
            let stale = Stale::Tail {
                expected: append.expected_tail,
                actual,
            };
            return Err(conflict(key, stale));
        }
        append.check(key)?;
        if let Some(row) = append.consumes.iter().find(|row| !self.inbox.contains_key(row)) {
            return Err(conflict(key, Stale::Inbox { row: *row }));
        }
        let posted = append
            .seen
            .and_then(|seen| self.inbox.keys().find(|row| **row > seen));
        if let Some(row) = posted {
            return Err(conflict(key, Stale::Posted { row: *row }));
        }
        for row in &append.consumes {
            self.inbox.remove(row);
        }
        self.batch = Some((append.batch, append.expected_tail));
        self.attempts = 0;
        self.due = match append.work {
            Work::Keep => self.due,
            _ if !self.inbox.is_empty() => Some(now),
            Work::DueIn(wait) => Some(expiry(now, wait)),
            Work::Done => None,
        };
        self.keep(lease, now);
        self.asks_from = append.blocks.iter().fold(self.asks_from, asks_from);
        lock(&self.strand.own).extend(append.blocks);
        Ok(self.strand.tail())
    }

    fn post(&mut self, id: InboxId, post: Post, now: Timestamp) -> Result<Posted, LogError> {
        let waiting = &self.inbox;
        self.client_keys
            .retain(|_, (id, _, at)| expiry(*at, CLIENT_KEY_KEPT) > now || waiting.contains_key(id));
        if let Some((id, before, _)) = self.client_keys.get(&post.client_key) {
            return match *before == post {
                true => Ok(Posted::Duplicate(*id)),
                false => Err(LogError::KeyReused {
                    id: self.new.key.id.clone(),
                    client_key: post.client_key,
                }),
            };
        }
        self.client_keys
            .insert(post.client_key.clone(), (id, post.clone(), now));
        let pending = Pending {
            id,
            post,
            posted: now,
        };
        self.inbox.insert(id, pending);
        self.last_post = Some(id);
        self.due = Some(self.due.map_or(now, |due| due.min(now)));
        Ok(Posted::New(id))
    }
}
