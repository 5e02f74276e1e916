//! Outgoing webhooks: a receiver is told of every turn that ends and of every call that waits for a person, signed, in the
//! order of the timeline, at least once, whatever process dies in between.
//!
//! Before a prompt is posted, an entry says that its turn owes its events. One node, which holds the lease of a receiver's
//! entries, follows those turns in the log and sends what it finds; an entry goes when the turn's end has arrived. Requests
//! are signed as the Standard Webhooks description says, and pass the egress policy like every other request to an address.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use annals_core::block::payload::{ApprovalRequest, TurnReport};
use annals_core::block::{BlobDigest, Block, BlockKind};
use annals_core::ids::{ConversationId, ConversationKey, Scope, Seq, TurnId};
use annals_core::time::Timestamp;
use annals_runtime::{Agent, RunError, Update};
use annals_store::{Lease, LogError, NewConversation, Store};
use annals_tools::web::egress::EgressPolicy;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::secrets::seconds;
use crate::side_table::{Entry, SideTable};

/// The tenant of the scopes that hold what is owed.
pub(crate) const TENANT: &str = "annals.webhooks";

/// What a secret's text begins with.
const SECRET_PREFIX: &str = "whsec_";
const SECRET_MIN_BYTES: usize = 24;
/// A receiver has this long to answer.
const ANSWERS_IN: Duration = Duration::from_secs(15);
/// An event that could not be delivered for this long is given up.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
/// An entry whose turn does not exist after this long belongs to a prompt that was never posted.
const POSTED_WITHIN: Duration = Duration::from_secs(60);
/// Entries are looked for this often, for those of other nodes; one's own are known at once.
const LOOK_EVERY: Duration = Duration::from_secs(2);
const LEASE_TTL: Duration = Duration::from_secs(30);
/// Entries of other nodes that became visible out of their order are found this often.
const READ_ALL_EVERY: Duration = Duration::from_secs(60);
/// Conversations followed at once for one receiver, unless it says otherwise.
const FOLLOWED_MAX: usize = 1_000;

/// A receiver of events.
#[derive(Clone)]
pub struct Webhook {
    url: String,
    secret: Vec<u8>,
    events: HashSet<WebhookEvent>,
    /// Waited before the second attempt, and twice as long before each further one.
    first_retry: Duration,
    last_retry: Duration,
    followed_max: usize,
}

/// What a receiver can be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WebhookEvent {
    /// `turn.ended`.
    TurnEnded,
    /// `approval.requested`.
    ApprovalRequested,
}

/// Why there can be no such webhook.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum WebhookError {
    /// The secret is none.
    #[error("a webhook's secret is `whsec_` and the base64 of at least {SECRET_MIN_BYTES} random bytes")]
    Secret,
    /// There is no such event.
    #[error("`{0}` is no event of a webhook: use `turn.ended` or `approval.requested`")]
    Event(String),
}

impl WebhookEvent {
    const ALL: [WebhookEvent; 2] = [WebhookEvent::TurnEnded, WebhookEvent::ApprovalRequested];

    /// The event as it is sent.
    pub fn as_str(self) -> &'static str {
        match self {
            WebhookEvent::TurnEnded => "turn.ended",
            WebhookEvent::ApprovalRequested => "approval.requested",
        }
    }

    /// Reads an event's name.
    pub fn parse(text: &str) -> Result<Self, WebhookError> {
        let found = Self::ALL.into_iter().find(|event| event.as_str() == text);
        found.ok_or_else(|| WebhookError::Event(text.to_owned()))
    }
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook")
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}

impl Webhook {
    /// Tells this address of everything, signed with this secret.
    pub fn new(url: impl Into<String>, secret: &str) -> Result<Self, WebhookError> {
        let encoded = secret.strip_prefix(SECRET_PREFIX).ok_or(WebhookError::Secret)?;
        let secret = STANDARD.decode(encoded).map_err(|_| WebhookError::Secret)?;
        if secret.len() < SECRET_MIN_BYTES {
            return Err(WebhookError::Secret);
        }
        Ok(Webhook {
            url: url.into(),
            secret,
            events: WebhookEvent::ALL.into_iter().collect(),
            first_retry: Duration::from_secs(1),
            last_retry: Duration::from_secs(600),
            followed_max: FOLLOWED_MAX,
        })
    }

    /// Tells it of these alone.
    #[must_use]
    pub fn only(mut self, events: impl IntoIterator<Item = WebhookEvent>) -> Self {
        self.events = events.into_iter().collect();
        self
    }

    /// Tries again after this time, then after twice as long each time, at most `last`.
    #[must_use]
    pub fn retry(mut self, first: Duration, last: Duration) -> Self {
        (self.first_retry, self.last_retry) = (first, last);
        self
    }

    /// Follows at most this many conversations at once. Where more owe something, those in which nothing happens make room
    /// for the others.
    #[must_use]
    pub fn follows(mut self, conversations: usize) -> Self {
        self.followed_max = conversations.max(1);
        self
    }

    /// The scope of what is owed to this receiver. The same on every node, and after every restart.
    fn scope(&self) -> Option<Scope> {
        let digest = BlobDigest::of(self.url.as_bytes()).to_string();
        let hex: String = digest.chars().rev().take(32).collect();
        Scope::try_new(TENANT, "owed", &hex).ok()
    }

    fn signature(&self, id: &str, timestamp: i64, body: &str) -> Option<String> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret).ok()?;
        mac.update(format!("{id}.{timestamp}.{body}").as_bytes());
        Some(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
    }
}

/// A turn that owes its events.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owed {
    key: ConversationKey,
    turn: TurnId,
    /// The last block before the prompt was posted.
    after: Option<Seq>,
}

impl Owed {
    fn name(&self) -> Option<ConversationId> {
        let digest = BlobDigest::of(format!("{} {}", self.key, self.turn).as_bytes()).to_string();
        let hex: String = digest.chars().rev().take(48).collect();
        ConversationId::parse(&format!("w_{hex}")).ok()
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let (key, turn, after) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Owed {
            key: ConversationKey::parse(key).ok()?,
            turn: TurnId::parse(turn).ok()?,
            after: Seq::try_new(after.parse().ok()?).ok(),
        })
    }
}

impl std::fmt::Display for Owed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.key, self.turn, self.after.map_or(0, Seq::get))
    }
}

/// The receivers of a server.
#[derive(Clone, Default)]
pub(crate) struct Webhooks(Arc<[Receiver]>);

struct Receiver {
    webhook: Webhook,
    scope: Scope,
    egress: EgressPolicy,
    owed: Notify,
    /// Of all nodes, the one that holds this delivers.
    lease: Mutex<Option<Lease>>,
}

impl Webhooks {
    /// These receivers, reached through this policy.
    pub(crate) fn new(webhooks: Vec<Webhook>, egress: &EgressPolicy) -> Self {
        let receivers = webhooks.into_iter().filter_map(|webhook| {
            Some(Receiver {
                scope: webhook.scope()?,
                webhook,
                egress: egress.clone(),
                owed: Notify::new(),
                lease: Mutex::default(),
            })
        });
        Webhooks(receivers.collect())
    }

    /// Says that a turn, which is about to be posted, owes its events.
    pub(crate) async fn owe(
        &self,
        agent: &Agent,
        id: &ConversationId,
        turn: &TurnId,
    ) -> Result<(), LogError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let key = agent.key(id);
        let owed = Owed {
            after: agent.log().get(&key).await?.tail,
            turn: turn.clone(),
            key,
        };
        for receiver in self.0.iter() {
            if let Some(name) = owed.name() {
                let table = SideTable::new(&**agent.log(), receiver.scope.clone());
                table.put(&name, owed.to_string(), agent.world().now()).await?;
            }
            receiver.owed.notify_one();
        }
        Ok(())
    }

    /// Delivers what is owed until `stop` is cancelled.
    pub(crate) async fn deliver(self, agent: Agent, stop: CancellationToken) {
        let mut tasks = JoinSet::new();
        for at in 0..self.0.len() {
            let (webhooks, agent) = (self.clone(), agent.clone());
            tasks.spawn(async move { webhooks.0[at].run(&agent).await });
        }
        tokio::select! {
            () = stop.cancelled() => {}
            _ = tasks.join_next(), if !tasks.is_empty() => {}
        }
        tasks.shutdown().await;
        for receiver in self.0.iter() {
            // Another node goes on at once.
            if let Some(lease) = receiver.lease.lock().await.take() {
                let _ = agent.log().release(&lease).await;
            }
        }
    }
}

impl Receiver {
    /// Takes the lease, and delivers for as long as it is kept.
    async fn run(&self, agent: &Agent) {
        loop {
            match self.lead(agent).await {
                Ok(lease) => {
                    *self.lease.lock().await = Some(lease.clone());
                    tokio::select! {
                        () = self.deliver_owed(agent) => {}
                        () = kept(agent.log(), &lease) => {}
                    }
                }
                // Another node delivers.
                Err(LogError::Held { .. }) => {}
                Err(error) => tracing::warn!(%error, "webhooks cannot be delivered now"),
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn lead(&self, agent: &Agent) -> Result<Lease, LogError> {
        let leader = ConversationId::parse("leader").map_err(|_| LogError::Closed)?;
        let key = ConversationKey::new(self.scope.clone(), leader);
        let new = NewConversation::new(key.clone(), agent.world().now());
        match agent.log().create(new).await {
            Ok(()) | Err(LogError::Exists { .. }) => {}
            Err(error) => return Err(error),
        }
        agent.log().acquire(&key, &agent.owner(), LEASE_TTL).await
    }

    /// Follows the conversations that owe something, the turns of one in their order.
    async fn deliver_owed(&self, agent: &Agent) {
        let (mut owing, mut tasks) = (Owing::default(), JoinSet::new());
        let is_crowded = Arc::new(AtomicBool::new(false));
        let mut all_read: Option<Instant> = None;
        loop {
            let reads_all = all_read.is_none_or(|read| read.elapsed() >= READ_ALL_EVERY);
            match owing.read(agent, &self.scope, reads_all).await {
                Ok(()) if reads_all => all_read = Some(Instant::now()),
                Ok(()) => {}
                Err(error) => tracing::warn!(%error, "what is owed to a webhook cannot be read"),
            }
            loop {
                while tasks.len() < self.webhook.followed_max
                    && let Some((owed, progress)) = owing.next()
                {
                    let delivery = Delivery {
                        agent: agent.in_scope(&owed.1.key.scope),
                        webhook: self.webhook.clone(),
                        egress: self.egress.clone(),
                        table: self.scope.clone(),
                        is_crowded: is_crowded.clone(),
                    };
                    tasks.spawn(async move {
                        let came = delivery.follow(&owed, progress).await;
                        (owed, came)
                    });
                }
                is_crowded.store(owing.has_waiting(), Ordering::Relaxed);
                tokio::select! {
                    () = self.owed.notified() => break,
                    () = tokio::time::sleep(LOOK_EVERY) => break,
                    Some(done) = tasks.join_next() => {
                        if let Ok((owed, came)) = done {
                            owing.came(&owed, came);
                        }
                    }
                }
            }
        }
    }
}

/// How far the delivery of a turn has come.
#[derive(Clone, Debug, Default)]
struct Progress {
    /// The last block that was looked at.
    after: Option<Seq>,
    /// Whether the turn was found in the log.
    has_begun: bool,
    /// Since when the next event cannot be delivered, and what is waited before the next attempt.
    failing: Option<(Instant, Duration)>,
}

enum IsOver {
    Yes,
    No,
}

/// How a delivery came out.
enum Came {
    ToItsEnd,
    /// Others needed the place, or something failed.
    SoFar(Progress),
}

/// An entry, and what it says.
type OwedEntry = (Entry, Owed);

/// Turns of one conversation in their order.
type Turns = BTreeMap<(Option<Seq>, Timestamp, ConversationId), OwedEntry>;

/// What a receiver is owed, as far as this process knows.
#[derive(Default)]
struct Owing {
    turns: HashMap<ConversationKey, Turns>,
    /// The entries of all of them.
    known: HashSet<ConversationId>,
    /// Conversations that are not followed, in the order in which they will be.
    waiting: VecDeque<ConversationKey>,
    /// How far turns have come that were followed, by entry.
    progress: HashMap<ConversationId, Progress>,
}

impl Owing {
    /// Reads what is new: entries come the newest first, so that those before a known one are known, too.
    async fn read(&mut self, agent: &Agent, scope: &Scope, reads_all: bool) -> Result<(), LogError> {
        let page_entries = if reads_all { 500 } else { 50 };
        let table = SideTable::new(&**agent.log(), scope.clone());
        let mut cursor = None;
        loop {
            let (entries, next) = table.page(cursor, page_entries).await?;
            let mut has_known = false;
            for entry in entries {
                has_known |= !self.add(entry);
            }
            match next {
                Some(next) if reads_all || !has_known => cursor = Some(next),
                _ => return Ok(()),
            }
        }
    }

    /// Whether the entry was not known.
    fn add(&mut self, entry: Entry) -> bool {
        let Some(owed) = Owed::parse(&entry.value) else {
            return true;
        };
        if !self.known.insert(entry.name.clone()) {
            return false;
        }
        let key = owed.key.clone();
        let turns = self.turns.entry(key.clone()).or_default();
        if turns.is_empty() {
            // Before those that were looked at and in which nothing happened.
            self.waiting.push_front(key);
        }
        let owed = (entry, owed);
        turns.insert(place_of(&owed), owed);
        true
    }

    fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// What to follow next.
    fn next(&mut self) -> Option<(OwedEntry, Progress)> {
        let key = self.waiting.pop_front()?;
        let first = self.turns.get(&key)?.first_key_value()?.1.clone();
        let progress = self.progress.remove(&first.0.name).unwrap_or_default();
        Some((first, progress))
    }

    /// What came of a turn that was followed.
    fn came(&mut self, followed: &OwedEntry, came: Came) {
        let (entry, owed) = followed;
        match came {
            Came::SoFar(progress) => {
                self.progress.insert(entry.name.clone(), progress);
                self.waiting.push_back(owed.key.clone());
            }
            Came::ToItsEnd => {
                self.known.remove(&entry.name);
                let Some(turns) = self.turns.get_mut(&owed.key) else {
                    return;
                };
                turns.remove(&place_of(followed));
                match turns.is_empty() {
                    true => drop(self.turns.remove(&owed.key)),
                    false => self.waiting.push_front(owed.key.clone()),
                }
            }
        }
    }
}

/// Its place among the turns of its conversation.
fn place_of((entry, owed): &OwedEntry) -> (Option<Seq>, Timestamp, ConversationId) {
    (owed.after, entry.created, entry.name.clone())
}

/// Ends when the lease cannot be renewed.
async fn kept(log: &Arc<dyn Store>, lease: &Lease) {
    loop {
        tokio::time::sleep(LEASE_TTL / 3).await;
        if log.renew(lease).await.is_err() {
            return;
        }
    }
}

/// What is delivered to one receiver from one scope.
struct Delivery {
    agent: Agent,
    webhook: Webhook,
    egress: EgressPolicy,
    table: Scope,
    /// Whether other conversations wait to be followed.
    is_crowded: Arc<AtomicBool>,
}

impl Delivery {
    /// Delivers the events of a turn, as far as it comes.
    async fn follow(&self, (entry, owed): &OwedEntry, mut progress: Progress) -> Came {
        match self.turn(entry, owed, &mut progress).await {
            Ok(IsOver::Yes) | Err(RunError::Log(LogError::NotFound { .. })) => {}
            Ok(IsOver::No) => return Came::SoFar(progress),
            Err(error) => {
                // Tried again later, before anything that follows it.
                tracing::warn!(%error, "a turn cannot be followed for a webhook");
                tokio::time::sleep(LOOK_EVERY).await;
                return Came::SoFar(progress);
            }
        }
        let table = SideTable::new(&**self.agent.log(), self.table.clone());
        match table.remove(&entry.name, &self.agent.owner()).await {
            Ok(()) => Came::ToItsEnd,
            Err(error) => {
                tracing::warn!(%error, "what a webhook was told will be told again");
                tokio::time::sleep(LOOK_EVERY).await;
                Came::SoFar(Progress::default())
            }
        }
    }

    /// Sends the events of a turn as they come, to its end, or until others need the place more.
    async fn turn(&self, entry: &Entry, owed: &Owed, progress: &mut Progress) -> Result<IsOver, RunError> {
        let id = &owed.key.id;
        let after = progress.after.or(owed.after);
        let mut subscription = self.agent.subscribe(id, after).await?;
        loop {
            let next = tokio::time::timeout(LOOK_EVERY, subscription.next());
            let Ok(update) = next.await else {
                let age = Duration::from_micros(self.agent.world().now().micros_since(entry.created));
                let handle = self.agent.conversation(id);
                if !progress.has_begun
                    && age > POSTED_WITHIN
                    && handle.turn_status(&owed.turn).await?.is_none()
                {
                    return Ok(IsOver::Yes);
                }
                if self.is_crowded.load(Ordering::Relaxed) {
                    return Ok(IsOver::No);
                }
                continue;
            };
            let block = match update? {
                Update::Block(block) => block,
                // Whatever is left of the turn comes again, under the same ids.
                Update::Lost { .. } => {
                    *progress = Progress::default();
                    continue;
                }
                _ => continue,
            };
            if block.turn == owed.turn {
                progress.has_begun = true;
                let event = event_of(&owed.key, &block);
                if let Some((kind, data)) = event {
                    let is_wanted = self.webhook.events.contains(&kind);
                    if is_wanted && !self.send(&owed.key, &block, (kind, data), progress).await {
                        return Ok(IsOver::No);
                    }
                    if kind == WebhookEvent::TurnEnded {
                        return Ok(IsOver::Yes);
                    }
                }
            }
            progress.after = Some(block.seq);
        }
    }

    /// Sends until it has arrived, or for a day. Says whether it is done with: where others wait, it is tried again later.
    async fn send(
        &self,
        key: &ConversationKey,
        block: &Block,
        (event, data): (WebhookEvent, Value),
        progress: &mut Progress,
    ) -> bool {
        let id = message_id(key, block);
        let body = json!({"type": event.as_str(), "timestamp": block.ts, "data": data}).to_string();
        let (began, mut pause) = progress
            .failing
            .unwrap_or_else(|| (Instant::now(), self.webhook.first_retry));
        loop {
            let why = match self.attempt(&id, &body).await {
                Ok(()) => break,
                Err(why) => why,
            };
            if began.elapsed() >= GIVEN_UP_AFTER {
                tracing::error!(id, why, "a webhook is given up");
                break;
            }
            tracing::warn!(id, why, "a webhook was not delivered and is tried again");
            // Up to a quarter more, so that many do not come back at once.
            let more = pause.mul_f64((self.agent.world().random() % 256) as f64 / 1_024.0);
            tokio::time::sleep(pause + more).await;
            pause = (pause * 2).min(self.webhook.last_retry);
            if self.is_crowded.load(Ordering::Relaxed) {
                progress.failing = Some((began, pause));
                return false;
            }
        }
        progress.failing = None;
        true
    }

    async fn attempt(&self, id: &str, body: &str) -> Result<(), String> {
        let timestamp = seconds(self.agent.world().now());
        let signature = self.webhook.signature(id, timestamp, body).unwrap_or_default();
        let passed = self
            .egress
            .pass(&self.webhook.url)
            .map_err(|refusal| refusal.to_string())?;
        let request = passed
            .post()
            .timeout(ANSWERS_IN)
            .header("content-type", "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", signature)
            .body(body.to_owned());
        let answer = request
            .send()
            .await
            .map_err(|error| error.without_url().to_string())?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status => Err(format!("the receiver answered {status}")),
        }
    }
}

/// The same for the same block, however often it is sent: by this a receiver knows what it has.
fn message_id(key: &ConversationKey, block: &Block) -> String {
    let digest = BlobDigest::of(format!("{key} {}", block.seq).as_bytes()).to_string();
    let hex: String = digest.chars().rev().take(32).collect();
    format!("msg_{hex}")
}

/// What a block tells a receiver: where to look, and no content.
fn event_of(key: &ConversationKey, block: &Block) -> Option<(WebhookEvent, Value)> {
    let mut data = json!({"scope": key.scope.to_string(), "conversation": key.id, "turn_id": block.turn, "seq": block.seq});
    match block.kind {
        BlockKind::ReactCompletion => {
            let report = block.payload::<TurnReport>().ok();
            data["outcome"] = json!(report.map(|report| report.outcome.as_str()));
            Some((WebhookEvent::TurnEnded, data))
        }
        BlockKind::ApprovalRequest => {
            let request = block.payload::<ApprovalRequest>().ok()?;
            data["approval_id"] = json!(request.approval_id);
            data["tool"] = json!(request.tool);
            data["expires"] = json!(request.expires);
            Some((WebhookEvent::ApprovalRequested, data))
        }
        _ => None,
    }
}
