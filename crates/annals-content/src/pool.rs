//! Helpers: started ahead, used by one task at a time, kept only while healthy, replaced when killed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use annals_sandbox::Isolation;
use annals_sandbox::helper::{HelperProcess, HelperSpec};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::error::ContentError;
use crate::helper::ROLE;
use crate::limits::{self, Limits};
use crate::source::Source;
use crate::task::{Answer, Asset, FromHelper, Order, Task};
use crate::wire::{self, Unsent, WireError};

/// Gives the bytes behind a reference that a document names.
pub(crate) type Pictures = Arc<dyn Fn(&str) -> Option<Vec<u8>> + Send + Sync>;

/// What a helper is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Parsing and layout.
    Reader,
    /// The same, and a browser.
    Browser,
}

/// Helpers of one kind.
pub(crate) struct Pool {
    kind: Kind,
    limits: Limits,
    isolation: Isolation,
    /// One for each task at work and each helper that is being started. A helper is started only by the holder of one,
    /// and only when none is idle, so there are never more helpers than slots.
    slots: Arc<Semaphore>,
    idle: Mutex<Vec<Idle>>,
}

/// A helper that waits for a task.
struct Idle {
    helper: Helper,
    since: Instant,
}

struct Helper {
    process: HelperProcess,
    tasks: u32,
}

/// What a task hands over.
pub(crate) struct Given<'a> {
    pub(crate) task: Task,
    pub(crate) content: Source<'a>,
    pub(crate) pictures: Option<Pictures>,
}

/// How a conversation with a helper went.
enum Exchange {
    Done(Answer, Vec<Vec<u8>>, u64),
    /// It went away before it had the task: the task did not do that.
    NeverTaken,
    Gone,
    TooLarge(u64),
    /// What the task is about cannot be read to its end.
    Unreadable(String),
}

/// How long after its deadline a helper that is gone may still say why.
const LAST_WORDS: std::time::Duration = std::time::Duration::from_secs(1);

impl Pool {
    pub(crate) fn new(kind: Kind, limits: Limits, isolation: Isolation) -> Arc<Self> {
        Arc::new(Self {
            kind,
            slots: Arc::new(Semaphore::new(limits.helpers.max(1))),
            limits,
            isolation,
            idle: Mutex::new(Vec::new()),
        })
    }

    /// Performs a task, within the deadline. Dropping the future kills its helper.
    pub(crate) async fn perform(
        self: &Arc<Self>,
        given: Given<'_>,
    ) -> Result<(Answer, Vec<Vec<u8>>), ContentError> {
        let late = || ContentError::Deadline {
            limit: self.limits.deadline,
        };
        let bytes = given.content.size_bytes();
        if bytes > limits::INPUT_MAX_BYTES {
            return Err(ContentError::Input {
                bytes,
                limit_bytes: limits::INPUT_MAX_BYTES,
            });
        }
        let deadline = Instant::now() + self.limits.deadline;
        let slot = timeout_at(deadline, Arc::clone(&self.slots).acquire_owned()).await;
        let Ok(Ok(slot)) = slot else {
            return Err(ContentError::Busy);
        };
        // A helper may have died while it was idle; a second one is new.
        for _ in 0..2 {
            let mut helper = timeout_at(deadline, self.take()).await.map_err(|_| late())??;
            match timeout_at(deadline, self.exchange(&mut helper, &given)).await {
                Ok(Exchange::Done(answer, parts, resident_bytes)) => {
                    self.give_back(helper, &answer, resident_bytes, slot);
                    return Ok((answer, parts));
                }
                Ok(Exchange::NeverTaken) => {}
                Ok(Exchange::TooLarge(limit_bytes)) => {
                    self.replace(helper, slot);
                    return Err(ContentError::Output { limit_bytes });
                }
                Ok(Exchange::Unreadable(reason)) => {
                    self.replace(helper, slot);
                    return Err(ContentError::Unreadable(reason));
                }
                Ok(Exchange::Gone) => {
                    // One that let go of its socket may run on all the same.
                    let ending = timeout_at(deadline + LAST_WORDS, helper.process.ended()).await;
                    drop(slot);
                    self.start_ahead();
                    let ending = ending.map_err(|_| late())?;
                    return Err(ContentError::from_ending(
                        &ending,
                        &self.limits,
                        self.memory_bytes(),
                    ));
                }
                Err(_) => {
                    self.replace(helper, slot);
                    return Err(late());
                }
            }
        }
        Err(ContentError::Broken {
            reason: "its helper process did not take the task".to_owned(),
        })
    }

    /// Starts a helper in the background, unless one waits already or there is no room.
    pub(crate) fn start_ahead(self: &Arc<Self>) {
        if !self.lock().is_empty() {
            return;
        }
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else {
            return;
        };
        let pool = Arc::clone(self);
        tokio::spawn(async move {
            // Where none can be started, the next task says why.
            if let Ok(helper) = pool.start().await {
                pool.keep(helper);
            }
            drop(slot);
        });
    }

    async fn take(&self) -> Result<Helper, ContentError> {
        while let Some(idle) = self.pop() {
            if idle.helper.process.is_alive() {
                return Ok(idle.helper);
            }
        }
        self.start().await
    }

    async fn start(&self) -> Result<Helper, ContentError> {
        let is_browser = self.kind == Kind::Browser;
        let memory_bytes = self.memory_bytes();
        let limits = annals_sandbox::Limits {
            memory_bytes,
            // The helper keeps a bound for each task; this one is for a helper that does not.
            cpu_seconds: 24 * 60 * 60,
            processes: if is_browser {
                limits::BROWSER_PROCESSES
            } else {
                limits::PROCESSES
            },
            file_bytes: self.file_bytes(),
            scratch_bytes: if is_browser { 256 << 20 } else { 16 << 20 },
            ..annals_sandbox::Limits::default()
        };
        // A browser reserves far more addresses than there is memory.
        let address_space_bytes = match self.kind {
            Kind::Reader => memory_bytes.saturating_add(limits::ADDRESS_SPACE_EXTRA_BYTES),
            Kind::Browser => u64::MAX,
        };
        let mut env = BTreeMap::new();
        if let (true, Ok(chromium)) = (is_browser, std::env::var("ANNALS_CHROMIUM")) {
            env.insert("ANNALS_CHROMIUM".to_owned(), chromium);
        }
        let process = HelperProcess::start(HelperSpec {
            role: ROLE.name,
            limits,
            address_space_bytes: Some(address_space_bytes),
            isolation: self.isolation.clone(),
            env,
        })
        .await?;
        Ok(Helper { process, tasks: 0 })
    }

    /// Memory that the processes of a helper may take, the stack of the parsing thread included.
    fn memory_bytes(&self) -> u64 {
        match self.kind {
            Kind::Reader => self.limits.memory_bytes,
            Kind::Browser => self.limits.browser_memory_bytes,
        }
    }

    /// The largest file that a helper may write, in its `/tmp`. A browser has files of its own, and shares memory by some.
    fn file_bytes(&self) -> u64 {
        match self.kind {
            Kind::Reader => self.limits.output_bytes,
            Kind::Browser => self.limits.browser_memory_bytes,
        }
    }

    async fn exchange(&self, helper: &mut Helper, given: &Given<'_>) -> Exchange {
        let order = Order {
            task: given.task.clone(),
            cpu_ms: self.limits.cpu.as_millis() as u64,
            stack_bytes: self.limits.stack_bytes,
        };
        let socket = helper.process.socket();
        match wire::send_source(socket, &order, given.content).await {
            Ok(()) => {}
            Err(Unsent::Socket) => return Exchange::NeverTaken,
            Err(Unsent::Source(error)) => return Exchange::Unreadable(error.to_string()),
        }
        match wire::receive_async::<FromHelper>(socket, 0).await {
            Ok((FromHelper::Taken, _)) => {}
            _ => return Exchange::NeverTaken,
        }
        let mut asked = 0;
        loop {
            match wire::receive_async::<FromHelper>(socket, self.limits.output_bytes).await {
                Ok((
                    FromHelper::Done {
                        answer,
                        resident_bytes,
                    },
                    parts,
                )) => {
                    return Exchange::Done(answer, parts, resident_bytes);
                }
                Ok((FromHelper::Asset { reference }, _)) if asked < limits::ASSETS_MAX_COUNT => {
                    asked += 1;
                    let bytes = look_up(given.pictures.clone(), reference).await;
                    let answer = Asset {
                        is_found: bytes.is_some(),
                    };
                    let parts: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
                    if wire::send_async(socket, &answer, &parts).await.is_err() {
                        return Exchange::Gone;
                    }
                }
                Ok(_) | Err(WireError::Io(_)) => return Exchange::Gone,
                Err(WireError::TooLarge { limit_bytes }) => return Exchange::TooLarge(limit_bytes),
            }
        }
    }

    /// A helper that did its task well waits for the next one; another is killed.
    fn give_back(
        self: &Arc<Self>,
        mut helper: Helper,
        answer: &Answer,
        resident_bytes: u64,
        slot: OwnedSemaphorePermit,
    ) {
        helper.tasks += 1;
        let is_healthy = !matches!(answer, Answer::Panicked(_))
            && helper.tasks < self.limits.tasks_per_helper
            && (resident_bytes < self.limits.resident_bytes || self.kind == Kind::Browser);
        if is_healthy {
            self.keep(helper);
        } else {
            self.replace(helper, slot);
        }
    }

    /// Kills a helper, and starts another in its place.
    fn replace(self: &Arc<Self>, helper: Helper, slot: OwnedSemaphorePermit) {
        drop(helper);
        drop(slot);
        self.start_ahead();
    }

    fn keep(self: &Arc<Self>, helper: Helper) {
        let idle = Idle {
            helper,
            since: Instant::now(),
        };
        self.lock().push(idle);
        let (pool, limit) = (Arc::downgrade(self), self.limits.idle);
        tokio::spawn(async move {
            tokio::time::sleep(limit).await;
            if let Some(pool) = pool.upgrade() {
                pool.lock().retain(|idle| idle.since.elapsed() < limit);
            }
        });
    }

    fn pop(&self) -> Option<Idle> {
        self.lock().pop()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes of a picture; looking for it may block.
async fn look_up(pictures: Option<Pictures>, reference: String) -> Option<Vec<u8>> {
    let pictures = pictures?;
    let found = tokio::task::spawn_blocking(move || pictures(&reference)).await;
    found.ok()?.filter(|bytes| bytes.len() <= limits::ASSET_MAX_BYTES)
}
