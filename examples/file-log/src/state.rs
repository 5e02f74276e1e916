//! What the commands so far have come to. A function of them and of their times: it reads no clock.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use annals_core::block::{BlobDigest, Block};
use annals_core::ids::{ConversationId, ConversationKey, NodeId, Scope, Seq};
use annals_core::time::Timestamp;
use annals_store::log::{ANSWER_KEPT, CLIENT_KEY_KEPT, Mark, asks_from, expiry, named_by, named_in_post};
use annals_store::{
    Append, Asking, AskingPage, BatchId, Claimed, ConversationInfo, Cursor, Holding, IdempotencyKey, InboxId, Lease, Listing,
    LogError, Member, NewConversation, Owner, Pending, Post, Posted, Stale, StoredAnswer, Token, Work,
};

use crate::command::{Command, LeaseLine, WorkLine};

#[derive(Default)]
pub(crate) struct State {
    conversations: BTreeMap<ConversationKey, Conversation>,
    members: BTreeMap<NodeId, Membership>,
    made: u64,
    posts: u64,
    answers: BTreeMap<IdempotencyKey, (StoredAnswer, Timestamp)>,
    tokens: BTreeMap<String, Token>,
    server_keys: BTreeMap<String, [u8; 32]>,
}

struct Conversation {
    number: u64,
    new: NewConversation,
    /// Appends, one after the other. A fork takes those of its parent, which are shared; only one that it is cut within is
    /// copied.
    appends: Vec<Arc<[Block]>>,
    token: u64,
    holding: Option<Holding>,
    last: Option<(BatchId, Option<Seq>)>,
    inbox: BTreeMap<InboxId, Pending>,
    posted: HashMap<String, (InboxId, Post, Timestamp)>,
    last_post: Option<InboxId>,
    due: Option<Timestamp>,
    attempts: u32,
}

struct Membership {
    owner: Owner,
    address: Option<String>,
    ttl: Duration,
    /// None once it left.
    until: Option<Timestamp>,
}

/// What a command gives.
pub(crate) enum Answer {
    Done,
    Lease(Lease),
    Tail(Option<Seq>),
    Posted(Posted),
    Claimed(Vec<Claimed>),
    Owner(Owner),
    WasThere(bool),
    Key([u8; 32]),
}

impl Answer {
    pub(crate) fn lease(self) -> Result<Lease, LogError> {
        match self {
            Answer::Lease(lease) => Ok(lease),
            _ => Err(LogError::Closed),
        }
    }

    pub(crate) fn tail(self) -> Option<Seq> {
        match self {
            Answer::Tail(tail) => tail,
            _ => None,
        }
    }

    pub(crate) fn posted(self) -> Result<Posted, LogError> {
        match self {
            Answer::Posted(posted) => Ok(posted),
            _ => Err(LogError::Closed),
        }
    }

    pub(crate) fn claimed(self) -> Vec<Claimed> {
        match self {
            Answer::Claimed(claimed) => claimed,
            _ => Vec::new(),
        }
    }

    pub(crate) fn was_there(self) -> bool {
        matches!(self, Answer::WasThere(true))
    }

    pub(crate) fn key(self) -> Result<[u8; 32], LogError> {
        match self {
            Answer::Key(key) => Ok(key),
            _ => Err(LogError::Closed),
        }
    }

    pub(crate) fn owner(self) -> Result<Owner, LogError> {
        match self {
            Answer::Owner(owner) => Ok(owner),
            _ => Err(LogError::Closed),
        }
    }
}

fn damaged(detail: impl ToString) -> LogError {
    LogError::Corrupt {
        log: "file-log".to_owned(),
        detail: detail.to_string(),
    }
}

fn read_key(text: &str) -> Result<ConversationKey, LogError> {
    ConversationKey::parse(text).map_err(damaged)
}

fn conflict(key: &ConversationKey, stale: Stale) -> LogError {
    LogError::Conflict {
        id: key.id.clone(),
        stale,
    }
}

impl State {
    /// Carries a command out and keeps what its request is answered, unless it was answered before.
    pub(crate) fn answer(
        &mut self,
        command: Command,
        answer: Option<StoredAnswer>,
        now: Timestamp,
    ) -> Result<Answer, LogError> {
        if let Some(answer) = &answer
            && self.answered(&answer.to, now).is_some()
            && !self.is_repeated(&command)
        {
            let key = answer.to.key.clone();
            return Err(LogError::Answered { key });
        }
        let done = self.apply(command, now)?;
        if let Some(answer) = answer {
            self.answers.insert(answer.to.clone(), (answer, now));
        }
        Ok(done)
    }

    /// Whether this is a conversation's last append, asked for again.
    fn is_repeated(&self, command: &Command) -> bool {
        let Command::Append {
            lease,
            expected_tail,
            batch,
            ..
        } = command
        else {
            return false;
        };
        let key = read_key(&lease.key).ok();
        let last = key.and_then(|key| self.conversations.get(&key)?.last);
        last == Some((BatchId::new(*batch), *expected_tail))
    }

    pub(crate) fn answered(&self, to: &IdempotencyKey, now: Timestamp) -> Option<&StoredAnswer> {
        let (answer, kept) = self.answers.get(to)?;
        (expiry(*kept, ANSWER_KEPT) > now).then_some(answer)
    }

    pub(crate) fn find_token(&self, hash: &[u8; 32], now: Timestamp) -> Option<Token> {
        let mut tokens = self.tokens.values();
        tokens
            .find(|token| token.hash == *hash && token.is_valid(now))
            .cloned()
    }

    pub(crate) fn tokens(&self) -> Vec<Token> {
        self.tokens.values().cloned().collect()
    }

    fn add_token(&mut self, token: Token) -> Result<Answer, LogError> {
        if self.tokens.contains_key(&token.name) {
            return Err(LogError::TokenExists { name: token.name });
        }
        self.tokens.insert(token.name.clone(), token);
        Ok(Answer::Done)
    }

    /// Carries a command out, wholly or not at all.
    fn apply(&mut self, command: Command, now: Timestamp) -> Result<Answer, LogError> {
        match command {
            Command::Create {
                key,
                title,
                created,
                lineage,
                fork,
            } => {
                let mut new = NewConversation::new(read_key(&key)?, Timestamp::from_unix_micros(created));
                (new.title, new.lineage) = (title, lineage);
                self.create(new, fork)
            }
            Command::Acquire { key, owner, ttl } => self.acquire(&read_key(&key)?, owner.into(), ttl, now),
            Command::Renew(lease) => {
                let ttl = lease.ttl;
                self.held(&lease)?.1.keep(expiry(now, ttl));
                Ok(Answer::Done)
            }
            Command::Release(lease) => {
                match self.held(&lease) {
                    Ok((_, conversation)) => {
                        conversation.holding = None;
                        conversation.token += 1;
                    }
                    Err(LogError::Conflict { .. }) => {}
                    Err(error) => return Err(error),
                }
                Ok(Answer::Done)
            }
            Command::Append {
                lease,
                expected_tail,
                blocks,
                batch,
                consumes,
                work,
                seen,
            } => {
                let blocks = blocks
                    .into_iter()
                    .map(|json| json.into_block().map(|(block, _)| block));
                let append = Append {
                    expected_tail,
                    blocks: blocks.collect::<Result<_, _>>().map_err(damaged)?,
                    batch: BatchId::new(batch),
                    consumes: consumes.into_iter().map(InboxId::new).collect(),
                    work: match work {
                        WorkLine::Keep => Work::Keep,
                        WorkLine::DueIn(wait) => Work::DueIn(wait),
                        WorkLine::Done => Work::Done,
                    },
                    answer: None,
                    seen: seen.map(InboxId::new),
                };
                let ttl = lease.ttl;
                let (key, conversation) = self.held(&lease)?;
                conversation.append(&key, append, ttl, now)
            }
            Command::Delete(lease) => {
                let (key, _) = self.held(&lease)?;
                self.conversations.remove(&key);
                Ok(Answer::Done)
            }
            Command::Post {
                key,
                client_key,
                kind,
                body,
            } => {
                let post = Post::new(client_key, kind, body);
                let id = InboxId::new(self.posts + 1);
                let posted = self.find(&read_key(&key)?)?.post(id, post, now)?;
                self.posts += 1;
                Ok(Answer::Posted(posted))
            }
            Command::KeepAnswer => Ok(Answer::Done),
            Command::AddToken(token) => self.add_token(token),
            Command::RevokeToken(name) => Ok(Answer::WasThere(self.tokens.remove(&name).is_some())),
            Command::ServerKey { name, fresh } => {
                Ok(Answer::Key(*self.server_keys.entry(name).or_insert(fresh)))
            }
            Command::Claim { owner, ttl, limit } => self.claim(owner.into(), ttl, limit, now),
            Command::Join { node, address, ttl } => Ok(self.join(node, address, ttl, now)),
            Command::Beat(owner) => self.beat(owner.into(), now),
            Command::Leave(owner) => {
                let owner = Owner::from(owner);
                if let Some(member) = self.members.get_mut(&owner.node).filter(|m| m.owner == owner) {
                    member.until = None;
                }
                Ok(Answer::Done)
            }
        }
    }

    fn find(&mut self, key: &ConversationKey) -> Result<&mut Conversation, LogError> {
        self.conversations
            .get_mut(key)
            .ok_or_else(|| LogError::NotFound { id: key.id.clone() })
    }

    fn seen(&self, key: &ConversationKey) -> Result<&Conversation, LogError> {
        self.conversations
            .get(key)
            .ok_or_else(|| LogError::NotFound { id: key.id.clone() })
    }

    /// Every block of the scope is looked at, which a file of this size allows.
    pub(crate) fn asking(&self, scope: &Scope, after: u64, limit: usize) -> AskingPage {
        let asks = |c: &Conversation| c.appends.iter().flat_map(|blocks| blocks.iter()).fold(None, asks_from);
        let mut found: Vec<(u64, Asking)> = self
            .conversations
            .values()
            .filter(|c| c.new.key.scope == *scope && c.number > after)
            .filter_map(|c| {
                let (from, key) = (asks(c)?, c.new.key.clone());
                Some((c.number, Asking { key, from }))
            })
            .collect();
        found.sort_by_key(|(number, _)| *number);
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(|(number, _)| Cursor::of_number(*number));
        let items = found.into_iter().map(|(_, asking)| asking).collect();
        AskingPage { items, next }
    }

    fn create(
        &mut self,
        new: NewConversation,
        fork: Option<(ConversationId, Seq)>,
    ) -> Result<Answer, LogError> {
        let appends = match fork {
            None => Vec::new(),
            Some((id, at)) => {
                let parent = ConversationKey::new(new.key.scope.clone(), id);
                self.seen(&parent)?.shared(at)?
            }
        };
        if self.conversations.contains_key(&new.key) {
            return Err(LogError::Exists { id: new.key.id });
        }
        self.made += 1;
        let conversation = Conversation {
            number: self.made,
            new: new.clone(),
            appends,
            token: 0,
            holding: None,
            last: None,
            inbox: BTreeMap::new(),
            posted: HashMap::new(),
            last_post: None,
            due: None,
            attempts: 0,
        };
        self.conversations.insert(new.key, conversation);
        Ok(Answer::Done)
    }

    fn held(&mut self, lease: &LeaseLine) -> Result<(ConversationKey, &mut Conversation), LogError> {
        let key = read_key(&lease.key)?;
        let conversation = self.find(&key)?;
        if (conversation.number, conversation.token) != (lease.incarnation, lease.token) {
            let stale = Stale::Lease {
                token: lease.token,
                current: conversation.token,
            };
            return Err(conflict(&key, stale));
        }
        Ok((key, conversation))
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
            member.owner.epoch > owner.epoch || member.owner == *owner && !member.is_alive(now)
        })
    }

    fn acquire(
        &mut self,
        key: &ConversationKey,
        owner: Owner,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Answer, LogError> {
        if let Some(holding) = self
            .holder(self.seen(key)?, now)
            .filter(|holding| holding.by != owner)
        {
            return Err(LogError::Held {
                id: key.id.clone(),
                by: holding.by.clone(),
                until: holding.until,
            });
        }
        Ok(Answer::Lease(self.find(key)?.give(key, owner, ttl, now)))
    }

    fn claim(
        &mut self,
        owner: Owner,
        ttl: Duration,
        limit: usize,
        now: Timestamp,
    ) -> Result<Answer, LogError> {
        if self.is_gone(&owner, now) {
            return Err(LogError::NotAMember { owner });
        }
        let free = |c: &&Conversation| self.holder(c, now).is_none();
        let mut due: Vec<_> = self
            .conversations
            .values()
            .filter(free)
            .filter_map(|c| Some((c.due.filter(|due| *due <= now)?, c.number, c.new.key.clone())))
            .collect();
        due.sort();
        let mut claimed = Vec::new();
        for (_, _, key) in due.into_iter().take(limit) {
            let conversation = self.find(&key)?;
            conversation.attempts += 1;
            let attempts = conversation.attempts;
            let lease = conversation.give(&key, owner.clone(), ttl, now);
            claimed.push(Claimed { lease, attempts });
        }
        Ok(Answer::Claimed(claimed))
    }

    fn join(&mut self, node: NodeId, address: Option<String>, ttl: Duration, now: Timestamp) -> Answer {
        let epoch = self.members.get(&node).map_or(0, |member| member.owner.epoch) + 1;
        let owner = Owner::new(node.clone(), epoch);
        let membership = Membership {
            owner: owner.clone(),
            address,
            ttl,
            until: Some(expiry(now, ttl)),
        };
        self.members.insert(node, membership);
        Answer::Owner(owner)
    }

    fn beat(&mut self, owner: Owner, now: Timestamp) -> Result<Answer, LogError> {
        match self.members.get_mut(&owner.node) {
            Some(member) if member.owner == owner && member.is_alive(now) => {
                member.until = member.until.max(Some(expiry(now, member.ttl)));
                Ok(Answer::Done)
            }
            _ => Err(LogError::NotAMember { owner }),
        }
    }

    pub(crate) fn info(&self, key: &ConversationKey) -> Result<ConversationInfo, LogError> {
        Ok(self.seen(key)?.info())
    }

    pub(crate) fn list(&self, scope: &Scope, before: Option<u64>, limit: usize) -> Result<Listing, LogError> {
        let mut found: Vec<&Conversation> = self
            .conversations
            .values()
            .filter(|c| c.new.key.scope == *scope && before.is_none_or(|before| c.number < before))
            .collect();
        found.sort_by_key(|c| std::cmp::Reverse(c.number));
        let is_last = found.len() <= limit;
        found.truncate(limit);
        let next = found
            .last()
            .filter(|_| !is_last)
            .map(|c| Cursor::of_number(c.number));
        Ok(Listing {
            items: found.into_iter().map(Conversation::info).collect(),
            next,
        })
    }

    pub(crate) fn read(
        &self,
        key: &ConversationKey,
        from: Seq,
        limit: usize,
    ) -> Result<Vec<Block>, LogError> {
        let after_first = self.seen(key)?.blocks().skip_while(|block| block.seq < from);
        Ok(after_first.take(limit).cloned().collect())
    }

    pub(crate) fn mark(&self, key: &ConversationKey) -> Result<Mark, LogError> {
        let conversation = self.seen(key)?;
        Ok(Mark {
            tail: conversation.tail(),
            posted: conversation.last_post,
        })
    }

    pub(crate) fn pending(&self, key: &ConversationKey) -> Result<Vec<Pending>, LogError> {
        Ok(self.seen(key)?.inbox.values().cloned().collect())
    }

    pub(crate) fn named_blobs(&self, after: Option<BlobDigest>, limit: usize) -> Vec<BlobDigest> {
        let blocks = self.conversations.values().flat_map(Conversation::blocks);
        let mut named: BTreeSet<BlobDigest> = blocks.flat_map(named_by).collect();
        let waiting = self.conversations.values().flat_map(|c| c.inbox.values());
        named.extend(waiting.flat_map(|pending| named_in_post(&pending.post.body)));
        let rest = named
            .into_iter()
            .filter(|digest| after.is_none_or(|after| *digest > after));
        rest.take(limit).collect()
    }

    pub(crate) fn alive(&self, now: Timestamp) -> Vec<Member> {
        let there = self.members.values().filter(|member| member.is_alive(now));
        let shown = |member: &Membership| {
            Some(Member {
                owner: member.owner.clone(),
                address: member.address.clone(),
                until: member.until?,
            })
        };
        there.filter_map(shown).collect()
    }
}

impl Membership {
    fn is_alive(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until > now)
    }
}

impl Conversation {
    fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.appends.iter().flat_map(|append| append.iter())
    }

    fn tail(&self) -> Option<Seq> {
        self.appends
            .last()
            .and_then(|append| append.last())
            .map(|block| block.seq)
    }

    fn info(&self) -> ConversationInfo {
        ConversationInfo {
            key: self.new.key.clone(),
            title: self.new.title.clone(),
            created: self.new.created,
            updated: self
                .appends
                .last()
                .and_then(|append| append.last())
                .map(|block| block.ts),
            tail: self.tail(),
            lineage: self.new.lineage.clone(),
            holding: self.holding.clone(),
        }
    }

    /// The appends up to a block.
    fn shared(&self, at: Seq) -> Result<Vec<Arc<[Block]>>, LogError> {
        if self.tail().is_none_or(|tail| tail < at) {
            return Err(LogError::NoSuchBlock {
                id: self.new.key.id.clone(),
                at,
                tail: self.tail(),
            });
        }
        let mut shared = Vec::new();
        for append in &self.appends {
            let kept = append.partition_point(|block| block.seq <= at);
            match kept {
                0 => break,
                kept if kept == append.len() => shared.push(Arc::clone(append)),
                kept => shared.push(append[..kept].into()),
            }
        }
        Ok(shared)
    }

    fn give(&mut self, key: &ConversationKey, owner: Owner, ttl: Duration, now: Timestamp) -> Lease {
        let own = self.holding.as_ref().filter(|holding| holding.by == owner);
        let until = own.map_or(expiry(now, ttl), |holding| holding.until.max(expiry(now, ttl)));
        self.token += 1;
        self.holding = Some(Holding {
            by: owner.clone(),
            until,
        });
        Lease::new(key.clone(), owner, self.token, ttl, self.number)
    }

    fn keep(&mut self, until: Timestamp) {
        if let Some(holding) = &mut self.holding {
            holding.until = holding.until.max(until);
        }
    }

    fn append(
        &mut self,
        key: &ConversationKey,
        append: Append,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Answer, LogError> {
        let actual = self.tail();
        if self.last == Some((append.batch, append.expected_tail)) {
            return Ok(Answer::Tail(actual));
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
        if let Some(seen) = append.seen
            && let Some(row) = self.inbox.keys().find(|row| **row > seen)
        {
            return Err(conflict(key, Stale::Posted { row: *row }));
        }
        self.inbox.retain(|row, _| !append.consumes.contains(row));
        self.last = Some((append.batch, append.expected_tail));
        self.attempts = 0;
        self.due = match append.work {
            Work::Keep => self.due,
            _ if !self.inbox.is_empty() => Some(now),
            Work::DueIn(wait) => Some(expiry(now, wait)),
            Work::Done => None,
        };
        self.keep(expiry(now, ttl));
        if !append.blocks.is_empty() {
            self.appends.push(append.blocks.into());
        }
        Ok(Answer::Tail(self.tail()))
    }

    fn post(&mut self, id: InboxId, post: Post, now: Timestamp) -> Result<Posted, LogError> {
        let waiting = &self.inbox;
        self.posted
            .retain(|_, (id, _, at)| expiry(*at, CLIENT_KEY_KEPT) > now || waiting.contains_key(id));
        if let Some((id, before, _)) = self.posted.get(&post.client_key) {
            return match *before == post {
                true => Ok(Posted::Duplicate(*id)),
                false => Err(LogError::KeyReused {
                    id: self.new.key.id.clone(),
                    client_key: post.client_key,
                }),
            };
        }
        self.posted
            .insert(post.client_key.clone(), (id, post.clone(), now));
        self.inbox.insert(
            id,
            Pending {
                id,
                post,
                posted: now,
            },
        );
        self.last_post = Some(id);
        self.due = Some(self.due.map_or(now, |due| due.min(now)));
        Ok(Posted::New(id))
    }
}
