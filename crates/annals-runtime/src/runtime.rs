//! What all agents of a process share: the stores, the clock, and at most one owner per conversation.

use std::collections::HashMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use annals_core::ids::ConversationKey;
use annals_store::{ArtifactStore, MemoryLog, Recall, Store};
use tempfile::TempDir;

use crate::conversation::Conversation;
use crate::durations::Durations;
use crate::error::{BuildError, RunError};
use crate::journal::LEASE_TTL;
use crate::listen::{Listen, Subscribers};
use crate::membership::Membership;
use crate::scope_budget::ScopeBudgets;
use crate::world::World;

/// The stores, the clock and the open conversations that agents share. Cheap to clone.
///
/// Agents that write to one log within a process should share one: then two of them that open the same conversation queue,
/// where two runtimes would take it from each other.
#[derive(Clone)]
pub struct Runtime {
    pub(crate) parts: Arc<RuntimeParts>,
}

pub(crate) struct RuntimeParts {
    pub(crate) log: Arc<dyn Store>,
    pub(crate) recall: Option<Arc<dyn Recall>>,
    pub(crate) artifacts: ArtifactStore,
    pub(crate) workspaces: PathBuf,
    pub(crate) world: World,
    pub(crate) membership: Arc<Membership>,
    pub(crate) lease_ttl: Duration,
    pub(crate) appended: Arc<Durations>,
    pub(crate) scope_budgets: ScopeBudgets,
    open: Mutex<HashMap<ConversationKey, Arc<Slot>>>,
    observer: OnceLock<Arc<dyn Listen>>,
    /// The folder of a runtime that keeps nothing, removed with it.
    _temporary: Option<TempDir>,
}

/// The place of one conversation, whether it is open or only watched.
#[derive(Default)]
pub(crate) struct Slot {
    /// Locked while it is being opened.
    open: tokio::sync::Mutex<Weak<Conversation>>,
    pub(crate) subscribers: Subscribers,
}

impl Slot {
    /// Whether this process owns the conversation, or is about to.
    pub(crate) fn is_open(&self) -> bool {
        self.open
            .try_lock()
            .map_or(true, |place| place.strong_count() > 0)
    }
}

impl Runtime {
    /// A runtime that keeps nothing: a log in memory, files in a temporary folder that is removed with it.
    pub fn in_memory(world: World) -> Result<Self, BuildError> {
        let failed = |what: &str, reason: String| BuildError::Open {
            what: what.to_owned(),
            reason,
        };
        let folder = tempfile::Builder::new()
            .prefix("annals-")
            .tempdir()
            .map_err(|error| failed("a temporary folder", error.to_string()))?;
        let artifacts = ArtifactStore::open(folder.path().join("artifacts"))
            .map_err(|error| failed("a temporary artifact store", error.to_string()))?;
        let workspaces = folder.path().join("workspace");
        let log = Arc::new(MemoryLog::default());
        Ok(Self::made(log, None, artifacts, workspaces, world, Some(folder)))
    }

    /// A runtime on these stores.
    pub fn new(
        log: Arc<dyn Store>,
        recall: Option<Arc<dyn Recall>>,
        artifacts: ArtifactStore,
        workspaces: PathBuf,
        world: World,
    ) -> Self {
        Self::made(log, recall, artifacts, workspaces, world, None)
    }

    fn made(
        log: Arc<dyn Store>,
        recall: Option<Arc<dyn Recall>>,
        artifacts: ArtifactStore,
        workspaces: PathBuf,
        world: World,
        temporary: Option<TempDir>,
    ) -> Self {
        let parts = RuntimeParts {
            membership: Membership::new(&world),
            scope_budgets: ScopeBudgets::new(log.clone()),
            log,
            recall,
            artifacts,
            workspaces,
            world,
            lease_ttl: LEASE_TTL,
            appended: Arc::default(),
            open: Mutex::default(),
            observer: OnceLock::new(),
            _temporary: temporary,
        };
        Runtime {
            parts: Arc::new(parts),
        }
    }

    /// With leases that last this long without being renewed: a process that dies keeps others waiting for as long.
    #[must_use]
    pub fn lease_ttl(mut self, ttl: Duration) -> Self {
        if let Some(parts) = Arc::get_mut(&mut self.parts) {
            parts.lease_ttl = ttl;
        }
        self
    }

    /// The log it writes to.
    pub fn log(&self) -> &Arc<dyn Store> {
        &self.parts.log
    }

    /// Memory search over the log, if it has one.
    pub fn recall(&self) -> Option<&Arc<dyn Recall>> {
        self.parts.recall.as_ref()
    }

    /// Where it keeps bytes.
    pub fn artifacts(&self) -> &ArtifactStore {
        &self.parts.artifacts
    }

    /// Where time and ids come from.
    pub fn world(&self) -> &World {
        &self.parts.world
    }

    /// Tells an observer of every block that this process writes, in conversations that are opened from now on. The first
    /// observer stays.
    pub fn observe(&self, observer: impl Listen + 'static) {
        let _ = self.parts.observer.set(Arc::new(observer));
    }

    /// How long appends to the log took.
    pub fn append_durations(&self) -> &Durations {
        &self.parts.appended
    }

    /// Whether both are one.
    pub(crate) fn is(&self, other: &Runtime) -> bool {
        Arc::ptr_eq(&self.parts, &other.parts)
    }

    /// The conversation if it is open in this process, else what `open` makes of it. Others who want it wait meanwhile.
    pub(crate) async fn conversation<F>(
        &self,
        key: &ConversationKey,
        open: impl FnOnce(Subscribers) -> F,
    ) -> Result<Arc<Conversation>, RunError>
    where
        F: Future<Output = Result<Conversation, RunError>>,
    {
        let slot = self.slot(key);
        let mut place = slot.open.lock().await;
        if let Some(conversation) = place.upgrade() {
            return Ok(conversation);
        }
        slot.subscribers.observed_by(self.parts.observer.get().cloned());
        slot.subscribers.begin_anew();
        // Followed before it is taken, so that no post falls in between.
        let posts = self.parts.log.posted_later(key);
        let conversation = Arc::new(open(slot.subscribers.clone()).await?);
        conversation.watch_inbox(posts);
        *place = Arc::downgrade(&conversation);
        Ok(conversation)
    }

    /// How many conversations have a turn that runs in this process. Turns that wait for a person do not run.
    pub fn turns_running(&self) -> usize {
        let slots: Vec<Arc<Slot>> = {
            let open = self.parts.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.values().cloned().collect()
        };
        // One that is just being opened runs nothing yet.
        let open = slots
            .iter()
            .filter_map(|slot| slot.open.try_lock().ok()?.upgrade());
        open.filter(|conversation| conversation.has_running_turn())
            .count()
    }

    /// Has `remove` remove a conversation that nobody opens meanwhile. It is given the one that is open in this process, which
    /// nobody is given any more afterwards.
    pub(crate) async fn remove(
        &self,
        key: &ConversationKey,
        remove: impl AsyncFnOnce(Option<Arc<Conversation>>) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        let slot = self.slot(key);
        let mut place = slot.open.lock().await;
        remove(place.upgrade()).await?;
        *place = Weak::new();
        Ok(())
    }

    /// Waits until no turn runs in this process. Turns that wait for a person are not waited for.
    pub async fn settled(&self) {
        loop {
            let slots: Vec<Arc<Slot>> = {
                let open = self.parts.open.lock().unwrap_or_else(PoisonError::into_inner);
                open.values().cloned().collect()
            };
            let mut was_working = false;
            for slot in slots {
                let conversation = slot.open.lock().await.upgrade();
                if let Some(conversation) = conversation.filter(|conversation| conversation.is_working()) {
                    was_working = true;
                    conversation.settled().await;
                }
            }
            if !was_working {
                return;
            }
        }
    }

    /// The conversation if it is open in this process.
    pub(crate) async fn open_here(&self, key: &ConversationKey) -> Option<Arc<Conversation>> {
        self.slot(key).open.lock().await.upgrade()
    }

    pub(crate) fn slot(&self, key: &ConversationKey) -> Arc<Slot> {
        let mut open = self.parts.open.lock().unwrap_or_else(PoisonError::into_inner);
        // Conversations leave by themselves; what they leave behind goes when the table would grow.
        if open.len() == open.capacity() {
            open.retain(|_, slot| slot.is_open() || Arc::strong_count(slot) > 1);
        }
        open.entry(key.clone()).or_default().clone()
    }
}
