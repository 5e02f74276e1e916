//! The sandbox of one conversation, behind all handles that this process has on it: found, made, replaced, given up.
//!
//! A sandbox carries the conversation and the fencing token of its owner as metadata. Before an owner uses one, those of
//! smaller tokens are deleted and gone, so a late command of an earlier owner meets a dead sandbox; a larger token means
//! that this owner has been replaced itself.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use annals_sandbox::{Limits, OpenError, SandboxName};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::ApiError;
use crate::owner;
use crate::port::{ControlPlane, Daemon, Phase, Record};
use crate::remote::Remote;
use crate::timing::Timing;

/// How long a new sandbox may take until it answers.
const READY_BUDGET: Duration = Duration::from_secs(120);
/// How long a deleted sandbox may take until it is gone.
const GONE_BUDGET: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Rounds of finding and making before giving up: each is answered, and another owner keeps interfering.
const ROUNDS_MAX_COUNT: usize = 5;

pub(crate) mod key {
    pub(crate) const NAMESPACE: &str = "annals-namespace";
    pub(crate) const CONVERSATION: &str = "annals-conversation";
    pub(crate) const TOKEN: &str = "annals-token";
    pub(crate) const OWNER: &str = "annals-owner";
}

/// What every sandbox of a server is made with.
pub(crate) struct Site {
    pub(crate) control: Arc<dyn ControlPlane>,
    /// Tells installations on one server apart.
    pub(crate) namespace: String,
    /// Where the workspace is inside.
    pub(crate) workspace: String,
    /// How long a sandbox lives without being renewed.
    pub(crate) ttl: Duration,
    /// How long a sandbox that nobody has open is kept for the next one who needs it.
    pub(crate) linger: Duration,
    pub(crate) timing: Timing,
}

impl Site {
    pub(crate) fn labels(&self) -> BTreeMap<String, String> {
        [(key::NAMESPACE.to_owned(), owner::label(&self.namespace))].into()
    }

    /// Deletes sandboxes whose owner was a process of this machine that runs no more.
    pub(crate) async fn sweep(&self) -> Result<usize, ApiError> {
        let mut swept = 0;
        for record in self.control.list(&self.labels()).await? {
            let is_orphan = record
                .metadata
                .get(key::OWNER)
                .is_some_and(|owner| owner::is_gone(owner));
            if is_orphan && !record.phase.is_over() {
                self.control.delete(&record.id).await?;
                swept += 1;
            }
        }
        Ok(swept)
    }
}

/// The sandbox of one conversation under one token.
pub(crate) struct Slot {
    site: Arc<Site>,
    pub(crate) name: SandboxName,
    /// What it is made with.
    limits: Limits,
    /// A later owner has been seen, or the backend gave the slot up.
    pub(crate) fenced: CancellationToken,
    current: Mutex<Option<Arc<Remote>>>,
    /// A new sandbox stands in for a lost one, and nobody has been told.
    untold: AtomicBool,
    handles: AtomicUsize,
    /// Nobody needed it for a while, so its sandbox was deleted.
    released: AtomicBool,
}

impl Slot {
    pub(crate) fn new(site: Arc<Site>, name: SandboxName, limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            site,
            name,
            limits,
            fenced: CancellationToken::new(),
            current: Mutex::new(None),
            untold: AtomicBool::new(false),
            handles: AtomicUsize::new(0),
            released: AtomicBool::new(false),
        })
    }

    /// The sandbox as it is, also when it is lost.
    pub(crate) async fn current(&self) -> Option<Arc<Remote>> {
        self.current.lock().await.clone()
    }

    /// A sandbox that is not known to be lost, made now if there is none.
    pub(crate) async fn ensure(self: &Arc<Self>) -> Result<Arc<Remote>, OpenError> {
        let mut current = self.current.lock().await;
        let lost = match &*current {
            Some(remote) if remote.lost().is_none() => return Ok(Arc::clone(remote)),
            lost => lost.clone(),
        };
        if let Some(lost) = &lost {
            // Whatever still runs in it must not go on beside the new one.
            lost.delete().await;
        }
        let remote = Arc::new(self.acquire(lost.as_ref().map(|lost| lost.id.as_str())).await?);
        self.untold.fetch_or(lost.is_some(), Ordering::Relaxed);
        *current = Some(Arc::clone(&remote));
        self.keep(&remote);
        Ok(remote)
    }

    /// Whether a new sandbox stands in for a lost one; true once.
    pub(crate) fn take_replaced(&self) -> bool {
        self.untold.swap(false, Ordering::Relaxed)
    }

    /// Deletes whatever there is of it, also what could not be used.
    pub(crate) async fn give_up(&self) {
        self.fenced.cancel();
        let control = &self.site.control;
        for record in control.list(&self.conversation()).await.unwrap_or_default() {
            if let Err(error) = control.delete(&record.id).await {
                tracing::warn!(sandbox = %record.id, "{error}; it is left to expire");
            }
        }
    }

    pub(crate) fn opened(&self) {
        self.handles.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn closed(&self) {
        self.handles.fetch_sub(1, Ordering::Relaxed);
    }

    fn is_in_use(&self) -> bool {
        self.handles.load(Ordering::Relaxed) > 0
    }

    /// Whether there is nothing to remember of it.
    pub(crate) fn is_over(&self) -> bool {
        let is_given_up = self.fenced.is_cancelled() || self.released.load(Ordering::Relaxed);
        is_given_up && !self.is_in_use()
    }

    /// Renews the sandbox while somebody has it open, and deletes it when nobody has had for a while.
    fn keep(self: &Arc<Self>, remote: &Arc<Remote>) {
        let (slot, remote, site): (Weak<Self>, Weak<Remote>, _) = (
            Arc::downgrade(self),
            Arc::downgrade(remote),
            Arc::clone(&self.site),
        );
        let due = site.ttl / site.timing.renewals.max(1);
        let interval = due.min(site.linger.max(POLL_INTERVAL));
        tokio::spawn(async move {
            let mut renewed = Instant::now();
            let mut used = Instant::now();
            loop {
                tokio::time::sleep(interval).await;
                let Some(remote) = remote.upgrade().filter(|remote| remote.lost().is_none()) else {
                    return;
                };
                let Some(slot) = slot.upgrade().filter(|slot| !slot.fenced.is_cancelled()) else {
                    return remote.delete().await;
                };
                if slot.is_in_use() {
                    used = Instant::now();
                } else if used.elapsed() >= site.linger {
                    slot.released.store(true, Ordering::Relaxed);
                    return remote.delete().await;
                }
                if renewed.elapsed() >= due {
                    remote.renew(site.ttl).await;
                    renewed = Instant::now();
                }
            }
        });
    }

    fn conversation(&self) -> BTreeMap<String, String> {
        let mut metadata = self.site.labels();
        metadata.insert(
            key::CONVERSATION.to_owned(),
            owner::label(&self.name.conversation),
        );
        metadata
    }

    /// Finds or makes the sandbox of this token; `not` is one that was lost.
    async fn acquire(&self, not: Option<&str>) -> Result<Remote, OpenError> {
        let mut last = None;
        for _ in 0..ROUNDS_MAX_COUNT {
            let id = match self.own(not).await? {
                Some(id) => id,
                None => match self.create().await {
                    Ok(id) => id,
                    // It may have been made all the same; the next round finds it.
                    Err(error) if error.is_transient() => {
                        last = Some(error);
                        continue;
                    }
                    Err(error) => return Err(remote_error(&error)),
                },
            };
            // An owner that came meanwhile has not seen ours; then we must see its.
            self.own(not).await?;
            let Some(daemon) = self.ready(&id).await? else {
                continue;
            };
            return Remote::prepare(id, &self.site, daemon)
                .await
                .map_err(|failure| OpenError::Remote {
                    reason: failure.message,
                });
        }
        let reason = last.map_or("sandboxes end before they can be used".to_owned(), |error| {
            error.to_string()
        });
        Err(OpenError::Remote { reason })
    }

    /// Ends sandboxes of earlier owners and gives this owner's, if there is one. Fails when a later owner has one.
    async fn own(&self, not: Option<&str>) -> Result<Option<String>, OpenError> {
        let listed = self.site.control.list(&self.conversation()).await;
        let listed = listed.map_err(|error| remote_error(&error))?;
        let token = |record: &Record| record.metadata.get(key::TOKEN)?.parse::<u64>().ok();
        let live: Vec<_> = listed.iter().filter(|record| !record.phase.is_over()).collect();
        if let Some(newer) = live
            .iter()
            .filter_map(|record| token(record))
            .find(|token| *token > self.name.token)
        {
            self.fenced.cancel();
            return Err(OpenError::Fenced {
                name: self.name.to_string(),
                newer,
            });
        }
        let mut own: Vec<_> = Vec::new();
        for record in live {
            if token(record) == Some(self.name.token) && Some(record.id.as_str()) != not {
                own.push(record);
            } else {
                self.end(&record.id).await?;
            }
        }
        // Several are left when an answer to creating was lost; one is enough.
        own.sort_by_key(|record| (record.created_at.clone(), record.id.clone()));
        let mut own = own.into_iter();
        let kept = own.next().map(|record| record.id.clone());
        for extra in own {
            self.end(&extra.id).await?;
        }
        Ok(kept)
    }

    /// Deletes a sandbox and waits until nothing runs in it.
    async fn end(&self, id: &str) -> Result<(), OpenError> {
        let control = &self.site.control;
        control.delete(id).await.map_err(|error| remote_error(&error))?;
        let gone = async {
            let mut backoff = self.site.timing.backoff();
            loop {
                match control.status(id).await {
                    Err(error) if error.is_not_found() => return Ok(()),
                    Err(error) => return Err(remote_error(&error)),
                    Ok(status) if matches!(status.phase, Phase::Ended | Phase::Failed) => return Ok(()),
                    Ok(_) => backoff.wait().await,
                }
            }
        };
        match tokio::time::timeout(GONE_BUDGET, gone).await {
            Ok(gone) => gone,
            Err(_) => Err(OpenError::Remote {
                reason: format!("sandbox `{id}` of an earlier owner was deleted but does not end"),
            }),
        }
    }

    async fn create(&self) -> Result<String, ApiError> {
        let mut metadata = self.conversation();
        metadata.insert(key::TOKEN.to_owned(), self.name.token.to_string());
        if let Some(process) = owner::this_process() {
            metadata.insert(key::OWNER.to_owned(), process.to_owned());
        }
        self.site.control.create(&metadata, &self.limits).await
    }

    /// Waits until the sandbox answers; none when it ended instead.
    async fn ready(&self, id: &str) -> Result<Option<Arc<dyn Daemon>>, OpenError> {
        match tokio::time::timeout(READY_BUDGET, self.answering(id)).await {
            Ok(ready) => ready,
            Err(_) => Err(OpenError::Remote {
                reason: format!(
                    "sandbox `{id}` does not answer after {} s",
                    READY_BUDGET.as_secs()
                ),
            }),
        }
    }

    async fn answering(&self, id: &str) -> Result<Option<Arc<dyn Daemon>>, OpenError> {
        let control = &self.site.control;
        loop {
            let status = match control.status(id).await {
                Ok(status) => status,
                Err(error) if error.is_not_found() => return Ok(None),
                Err(error) => return Err(remote_error(&error)),
            };
            match status.phase {
                Phase::Failed => {
                    let reason = format!("the server could not start it: {}", status.told);
                    return Err(OpenError::Remote { reason });
                }
                Phase::Ending | Phase::Ended => return Ok(None),
                Phase::Paused => control.wake(id).await.map_err(|error| remote_error(&error))?,
                Phase::Running => {
                    let daemon = control.connect(id).await.map_err(|error| remote_error(&error))?;
                    if daemon.is_some() {
                        return Ok(daemon);
                    }
                }
                Phase::Starting => {}
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

fn remote_error(error: &ApiError) -> OpenError {
    OpenError::Remote {
        reason: error.to_string(),
    }
}
