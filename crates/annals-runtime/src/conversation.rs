//! One conversation in this process: its one owner, however often it is opened.
//!
//! Requests queue and run one after the other in the order in which they came; they never fence each other. While a turn
//! waits for a person nothing runs, and what the person decides wakes it. The writer is behind a lock of its own, so that
//! what a host adds between turns waits for the running turn. When nothing holds the conversation any more its lease is
//! released and its memory freed.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use annals_core::ids::{ConversationKey, TurnId};
use annals_core::view::View;
use annals_store::{InboxId, LogError, Pending, Store, Work as Remaining};
use annals_tools::ConversationCx;
use annals_tools::execute::panic_text;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use crate::agent::AgentParts;
use crate::approval::Imported;
use crate::error::{ErrorClass, RunError};
use crate::joining::{Joined, UnfinishedTurn};
use crate::journal::Journal;
use crate::mail::{Letter, Mail};
use crate::parked::Parked;
use crate::perform;
use crate::request::{TurnRequest, Work};
use crate::turn::Ended;
use crate::writer::Writer;

/// After this time an inbox that could not be read is read again.
const INBOX_RETRY: Duration = Duration::from_secs(1);

/// The one owner of a conversation in this process.
pub(crate) struct Conversation {
    pub(crate) key: ConversationKey,
    pub(crate) cx: Arc<ConversationCx>,
    /// Who opened it, and answers what is posted to it.
    agent: Arc<AgentParts>,
    log: Arc<dyn Store>,
    /// The turn that was unfinished when it was opened, for the first who asks.
    found: Mutex<Option<UnfinishedTurn>>,
    writer: tokio::sync::Mutex<Writer>,
    queue: Mutex<Queue>,
    /// Whether the inbox may hold rows that were not looked at.
    has_mail: AtomicBool,
    watch: OnceLock<AbortOnDropHandle<()>>,
    /// Told whenever work begins or ends.
    changed: Notify,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Queued>,
    letters: Vec<Letter>,
    last_row: Option<InboxId>,
    /// Callers whose turn waits for a person.
    parked: Vec<Parked>,
    /// Whether a task works the queue off.
    is_working: bool,
    /// Whether an inbox that could not be read is going to be read again.
    is_retried: bool,
    /// Ends the turn that runs.
    running: Option<CancellationToken>,
    /// Who hears of the turn that the owner goes on with by itself.
    joined: Option<Arc<Joined>>,
    /// A process left a turn open, and this one is to see to it before anything else.
    take_up: Option<TakeUp>,
}

/// What to do with a turn that its process left open.
#[derive(Clone, Copy)]
enum TakeUp {
    GoOn,
    /// It, or the prompt that would be next, ended the processes that tried.
    GiveUp,
}

struct Queued {
    agent: Arc<AgentParts>,
    request: TurnRequest,
    row: Option<InboxId>,
    reply: Option<Reply>,
}

/// Who waits for the end of a turn.
pub(crate) type Reply = oneshot::Sender<Result<Ended, RunError>>;

/// Tells of posts to a conversation.
type Posts = BoxStream<'static, Result<InboxId, LogError>>;

/// What the owner does next.
enum Job {
    Run(Queued),
    GoOn,
    /// End the open turn, or else this prompt that was to be next, as failed.
    GiveUp(Option<Queued>),
    Discard(Vec<Letter>),
}

impl Queue {
    fn next_posted(&mut self) -> Option<Queued> {
        let at = self.waiting.iter().position(|queued| queued.row.is_some())?;
        self.waiting.remove(at)
    }
}

impl Conversation {
    pub(crate) fn new(
        agent: Arc<AgentParts>,
        cx: Arc<ConversationCx>,
        journal: Journal,
        imported: Imported,
    ) -> Self {
        let found = UnfinishedTurn::in_timeline(&cx.timeline.read().unwrap_or_else(PoisonError::into_inner));
        Conversation {
            found: Mutex::new(found),
            key: ConversationKey::new(cx.scope.clone(), cx.conversation.clone()),
            log: agent.log().clone(),
            agent,
            cx,
            writer: tokio::sync::Mutex::new(Writer::new(journal, imported)),
            queue: Mutex::default(),
            has_mail: AtomicBool::new(false),
            watch: OnceLock::new(),
            changed: Notify::new(),
        }
    }

    /// Follows the inbox for as long as the conversation is open, and begins with what was taken in.
    pub(crate) fn watch_inbox(self: &Arc<Self>, mut posted: Posts) {
        let conversation = Arc::downgrade(self);
        let watch = tokio::spawn(async move {
            while let Some(Ok(row)) = posted.next().await {
                let Some(conversation) = conversation.upgrade() else {
                    return;
                };
                if conversation.seen() < row {
                    conversation.mail_came().await;
                }
            }
        });
        let _ = self.watch.set(AbortOnDropHandle::new(watch));
        let has_work = {
            let queue = self.queue();
            !queue.waiting.is_empty() || !queue.letters.is_empty()
        };
        if has_work {
            self.start();
        }
    }

    /// Somebody posted something. A running turn hears of a cancel at once, of the rest between its steps.
    pub(crate) async fn mail_came(self: &Arc<Self>) {
        self.has_mail.store(true, Ordering::Release);
        let running = self.queue().running.clone();
        match running {
            Some(cancel) => {
                let rows = self.log.pending(&self.key).await.unwrap_or_default();
                let turn = self.current_turn();
                if rows
                    .into_iter()
                    .any(|row| Letter::from(row).cancels(turn.as_ref()))
                {
                    cancel.cancel();
                }
            }
            None => self.start(),
        }
    }

    /// Waits for the turns before, and takes the writer.
    pub(crate) async fn writer(&self) -> tokio::sync::MutexGuard<'_, Writer> {
        self.writer.lock().await
    }

    /// Queues a request. It runs on a task of its own, so that a tool's task begins and ends on the same thread; awaited
    /// from a program's `main`, each call would wake two.
    pub(crate) fn submit(
        self: &Arc<Self>,
        agent: Arc<AgentParts>,
        request: TurnRequest,
    ) -> oneshot::Receiver<Result<Ended, RunError>> {
        let (reply, answer) = oneshot::channel();
        let mut queue = self.queue();
        match queue.joined.clone().filter(|_| self.goes_on_with_open(&request)) {
            Some(joined) => {
                let found = request.found.as_ref();
                joined.joins(request.listener.clone(), || {
                    found.map_or_else(Vec::new, |found| self.read(|timeline| found.missed(timeline)))
                });
                let parked = Parked::new(self, agent, request.listener, request.cancel, reply);
                queue.parked.push(parked);
            }
            None => queue.waiting.push_back(Queued {
                agent,
                request,
                row: None,
                reply: Some(reply),
            }),
        }
        drop(queue);
        self.start();
        answer
    }

    /// Whether it asks to go on with the turn that is open.
    fn goes_on_with_open(&self, request: &TurnRequest) -> bool {
        matches!(request.work, Work::Resume) && !self.asks_for_ended(request)
    }

    /// Whether it asks to go on with a turn that has ended since its caller found it open.
    fn asks_for_ended(&self, request: &TurnRequest) -> bool {
        let found = request.found.as_ref();
        found.is_some_and(|found| self.read(|timeline| found.has_ended(timeline)))
    }

    /// The unfinished turn that somebody finds who opens the conversation now. Who opened it first finds what was there
    /// then, whatever the owner has done since.
    pub(crate) fn found(&self) -> Option<UnfinishedTurn> {
        let first = self.found.lock().unwrap_or_else(PoisonError::into_inner).take();
        first.or_else(|| self.read(|timeline| UnfinishedTurn::in_timeline(timeline)))
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn start(self: &Arc<Self>) {
        if !std::mem::replace(&mut self.queue().is_working, true) {
            self.changed.notify_waiters();
            tokio::spawn(work(self.clone()).in_current_span());
        }
    }

    fn stop_working(&self, queue: &mut Queue) {
        queue.is_working = false;
        self.changed.notify_waiters();
    }

    /// The turn that another process left open comes before everything else.
    pub(crate) fn take_up_first(&self, is_poison: bool) {
        self.has_mail.store(true, Ordering::Release);
        self.queue().take_up = Some(match is_poison {
            true => TakeUp::GiveUp,
            false => TakeUp::GoOn,
        });
    }

    /// Whether anything waits in its inbox.
    pub(crate) async fn has_posts(&self) -> Result<bool, RunError> {
        Ok(!self.log.pending(&self.key).await?.is_empty())
    }

    /// Letters for the turn that runs. Prompts among them take their place in the queue.
    pub(crate) async fn letters(&self) -> Result<Vec<Letter>, RunError> {
        self.read_inbox().await?;
        Ok(std::mem::take(&mut self.queue().letters))
    }

    /// Whether something came that the turn which runs has not taken in.
    pub(crate) fn has_letters(&self) -> bool {
        self.has_mail.load(Ordering::Acquire) || !self.queue().letters.is_empty()
    }

    /// The last row of the inbox that was looked at.
    pub(crate) fn seen(&self) -> InboxId {
        self.queue().last_row.unwrap_or(InboxId::new(0))
    }

    /// There is something in the inbox that was not looked at.
    pub(crate) fn look_again(&self) {
        self.has_mail.store(true, Ordering::Release);
    }

    /// Letters that a turn could not take in before it had to wait.
    pub(crate) fn put_back(&self, letters: Vec<Letter>) {
        self.queue().letters.splice(0..0, letters);
    }

    async fn read_inbox(&self) -> Result<(), RunError> {
        if !self.has_mail.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let rows = self
            .log
            .pending(&self.key)
            .await
            .inspect_err(|_| self.look_again())?;
        self.take_in(rows);
        Ok(())
    }

    /// The inbox cannot be read. Who asked for a turn that has not begun hears of it; what waits for the inbox itself is
    /// looked at again in a moment.
    fn inbox_failed(self: &Arc<Self>, error: &RunError) {
        tracing::warn!(%error, "the inbox of a conversation cannot be read");
        let mut queue = self.queue();
        let waiting = std::mem::take(&mut queue.waiting).into_iter();
        let (asked, posted): (VecDeque<_>, VecDeque<_>) = waiting.partition(|queued| queued.reply.is_some());
        queue.waiting = posted;
        let is_retried = std::mem::replace(&mut queue.is_retried, true);
        self.stop_working(&mut queue);
        drop(queue);
        for reply in asked.into_iter().filter_map(|queued| queued.reply) {
            let _ = reply.send(Err(RunError::Inbox(error.to_string())));
        }
        if !is_retried {
            let conversation = Arc::downgrade(self);
            tokio::spawn(async move {
                tokio::time::sleep(INBOX_RETRY).await;
                if let Some(conversation) = conversation.upgrade() {
                    conversation.queue().is_retried = false;
                    conversation.start();
                }
            });
        }
    }

    /// Takes in rows of the inbox that were not looked at.
    pub(crate) fn take_in(&self, rows: Vec<Pending>) {
        let mut queue = self.queue();
        for row in rows {
            if queue.last_row >= Some(row.id) {
                continue;
            }
            queue.last_row = Some(row.id);
            let mut letter = Letter::from(row);
            match letter.take_request() {
                Some(request) => queue.waiting.push_back(Queued {
                    agent: self.agent.clone(),
                    request,
                    row: letter.row,
                    reply: None,
                }),
                None => queue.letters.push(letter),
            }
        }
    }

    fn read<T>(&self, ask: impl FnOnce(&View) -> T) -> T {
        ask(&self.cx.timeline.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn has_open_turn(&self) -> bool {
        self.read(|timeline| timeline.current_turn().is_some_and(|turn| turn.end.is_none()))
    }

    /// Waits until nothing is left to do here.
    pub(crate) async fn settled(&self) {
        self.until(|queue| !queue.is_working).await;
    }

    pub(crate) fn is_working(&self) -> bool {
        self.queue().is_working
    }

    /// Whether a turn runs, and does not wait.
    pub(crate) fn has_running_turn(&self) -> bool {
        self.is_working() && self.has_open_turn()
    }

    /// Whether a turn runs, or is to run next.
    pub(crate) fn runs_turn(&self) -> bool {
        let queue = self.queue();
        queue.running.is_some() || !queue.waiting.is_empty()
    }

    /// It is gone for good, and what its turn waited for with it.
    pub(crate) fn was_deleted(&self) {
        let parked = {
            let mut queue = self.queue();
            queue.letters.clear();
            std::mem::take(&mut queue.parked)
        };
        for parked in parked {
            let id = self.key.id.clone();
            let _ = parked.reply.send(Err(LogError::NotFound { id }.into()));
        }
    }

    /// Waits until something is to be done.
    pub(crate) async fn begins(&self) {
        self.until(|queue| queue.is_working).await;
    }

    async fn until(&self, is_so: impl Fn(&Queue) -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the look, so that nothing falls in between.
            changed.as_mut().enable();
            if is_so(&self.queue()) {
                return;
            }
            changed.await;
        }
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.has_open_turn() && self.read(|timeline| timeline.waiting().next().is_some())
    }

    /// What to do next; none when there is nothing, and then nobody works any more.
    async fn next(self: &Arc<Self>) -> Result<Option<Job>, RunError> {
        loop {
            self.read_inbox().await?;
            let is_waiting = self.is_waiting();
            if let Some(job) = self.pick(is_waiting) {
                return Ok(Some(job));
            }
            if self.stop_if_idle(is_waiting) {
                return Ok(None);
            }
        }
    }

    fn pick(self: &Arc<Self>, is_waiting: bool) -> Option<Job> {
        let mut queue = self.queue();
        match queue.take_up.take() {
            Some(TakeUp::GiveUp) if !is_waiting => return Some(Job::GiveUp(queue.next_posted())),
            // One that waits may have waited too long.
            Some(_) if self.has_open_turn() => return Some(Job::GoOn),
            _ => {}
        }
        // Those need nothing of the turn that runs or waits now.
        let over = queue
            .waiting
            .iter()
            .position(|queued| self.asks_for_ended(&queued.request));
        if let Some(queued) = over.and_then(|at| queue.waiting.remove(at)) {
            return Some(Job::Run(queued));
        }
        if !is_waiting {
            return match queue.waiting.pop_front() {
                Some(queued) => Some(Job::Run(queued)),
                None if queue.letters.is_empty() => None,
                // Nobody runs the turn that they are for: its process is gone.
                None if self.has_open_turn() && queue.letters.iter().any(Letter::is_for_turn) => {
                    Some(Job::GoOn)
                }
                None => Some(Job::Discard(std::mem::take(&mut queue.letters))),
            };
        }
        // Who asks to go on with a turn that waits, waits with it.
        while let Some(at) = queue
            .waiting
            .iter()
            .position(|queued| matches!(queued.request.work, Work::Resume))
        {
            if let Some(Queued {
                agent,
                request,
                reply: Some(reply),
                ..
            }) = queue.waiting.remove(at)
            {
                let parked = Parked::new(self, agent, request.listener, request.cancel, reply);
                queue.parked.push(parked);
            }
        }
        queue.letters.iter().any(Letter::wakes).then_some(Job::GoOn)
    }

    fn stop_if_idle(&self, is_waiting: bool) -> bool {
        let mut queue = self.queue();
        let has_work = match is_waiting {
            true => queue.letters.iter().any(Letter::wakes),
            false => !queue.waiting.is_empty() || !queue.letters.is_empty(),
        };
        if has_work || queue.take_up.is_some() || self.has_mail.load(Ordering::Acquire) {
            return false;
        }
        self.stop_working(&mut queue);
        true
    }

    /// Something happened on a caller's side for which the turn that waits has to go on.
    pub(crate) fn wake(self: &Arc<Self>, mail: Mail, cancelled: &CancellationToken) {
        let running = {
            let mut queue = self.queue();
            queue.letters.push(Letter::local(mail));
            queue.running.clone().filter(|_| cancelled.is_cancelled())
        };
        running.inspect(CancellationToken::cancel);
        self.start();
    }

    pub(crate) fn current_turn(&self) -> Option<TurnId> {
        self.read(|timeline| timeline.current_turn().map(|turn| turn.id.clone()))
    }

    /// How long the first of the requests that wait still has.
    pub(crate) fn lapses_in(&self) -> Option<Duration> {
        let now = self.agent.world().now();
        let first = self.read(|timeline| timeline.waiting().filter_map(|request| request.expires).min())?;
        Some(Duration::from_micros(first.micros_since(now)))
    }

    /// Runs one request to the end of its turn; none when the turn waits for a person.
    async fn run(
        self: &Arc<Self>,
        agent: &Arc<AgentParts>,
        request: TurnRequest,
        row: Option<InboxId>,
    ) -> Result<Option<Ended>, RunError> {
        let mut writer = self.writer().await;
        self.queue().running = Some(request.cancel.clone());
        let performed = perform::turn(agent, self, &mut writer, request, row);
        let ended = AssertUnwindSafe(performed).catch_unwind().await;
        self.queue().running = None;
        writer.rest();
        ended.unwrap_or_else(|panic| Err(RunError::Panicked(panic_text(&*panic).to_owned())))
    }

    /// Goes on with the open turn by itself. Those who waited with it hear of it, and those who come meanwhile. Gives
    /// their replies, unless it waits again.
    async fn go_on(self: &Arc<Self>) -> Vec<(Reply, Result<Ended, RunError>)> {
        let joined = Arc::new(Joined::default());
        let agent = {
            let mut queue = self.queue();
            let listeners = queue.parked.iter().map(|parked| parked.listener.clone());
            listeners.for_each(|listener| joined.was_there(listener));
            queue.joined = Some(joined.clone());
            queue
                .parked
                .first()
                .map_or(&self.agent, |first| &first.agent)
                .clone()
        };
        let ended = self.run(&agent, TurnRequest::resume().listen(joined), None).await;
        let mut queue = self.queue();
        queue.joined = None;
        let parked = std::mem::take(&mut queue.parked).into_iter();
        let Some(ended) = ended.transpose() else {
            queue.parked = parked.map(|parked| parked.again(self)).collect();
            return Vec::new();
        };
        match ended {
            Ok(ended) => parked.map(|parked| (parked.reply, Ok(ended.clone()))).collect(),
            Err(error) => {
                tracing::warn!(%error, "a turn could not be gone on with");
                let mut error = Some(error);
                let mut next = || Err(error.take().unwrap_or(RunError::Stopped));
                parked.map(|parked| (parked.reply, next())).collect()
            }
        }
    }

    /// Ends what ended the processes that went on with it.
    async fn give_up(self: &Arc<Self>, next: Option<Queued>) {
        let (request, row) = match next {
            Some(next) => (Some(next.request), next.row),
            None => (None, None),
        };
        let mut writer = self.writer().await;
        let given_up = perform::give_up(&self.agent, self, &mut writer, request, row).await;
        writer.rest();
        if let Err(error) = given_up {
            tracing::warn!(%error, "a turn that ended its processes could not be ended");
        }
    }

    /// A post that can never run is forgotten; any other waits in the inbox for a better time.
    async fn posted_failed(&self, row: InboxId, error: &RunError) {
        tracing::warn!(%error, "a post could not be run");
        if error.class() == ErrorClass::Request {
            let letter = Letter {
                row: Some(row),
                client_key: None,
                mail: None,
            };
            self.discard(vec![letter]).await;
        }
    }

    async fn discard(&self, letters: Vec<Letter>) {
        let rows: Vec<InboxId> = letters.iter().filter_map(|letter| letter.row).collect();
        let mut writer = self.writer().await;
        let discarded = async {
            writer.ready().await?;
            let work = match self.has_open_turn() {
                true => Remaining::Keep,
                false => Remaining::Done,
            };
            writer.journal.append_consuming(Vec::new(), rows, work).await
        };
        if let Err(error) = discarded.await {
            tracing::warn!(%error, "what came too late stays in the inbox");
        }
    }

    /// Closes the sandbox and gives the lease back, if nobody else uses the conversation.
    pub(crate) async fn close(self: Arc<Self>) -> Result<(), RunError> {
        let Some(mut conversation) = Arc::into_inner(self) else {
            return Ok(());
        };
        if let Some(sandbox) = &conversation.cx.sandbox {
            sandbox.close().await;
        }
        conversation.writer.get_mut().journal.release().await
    }
}

/// Works the queue of a conversation off.
async fn work(mut conversation: Arc<Conversation>) {
    loop {
        let job = match conversation.next().await {
            Ok(Some(job)) => job,
            Ok(None) => return,
            Err(error) => {
                return conversation.inbox_failed(&error);
            }
        };
        let replies = match job {
            Job::GoOn => conversation.go_on().await,
            Job::Run(queued) => run_queued(&conversation, queued).await.into_iter().collect(),
            Job::GiveUp(next) => {
                conversation.give_up(next).await;
                Vec::new()
            }
            Job::Discard(letters) => {
                conversation.discard(letters).await;
                Vec::new()
            }
        };
        // Gone before a caller hears of it, so that one who then closes the conversation is the last.
        let is_idle = !replies.is_empty() && conversation.stop_if_idle(conversation.is_waiting());
        let conversation_left = (!is_idle).then_some(conversation);
        for (reply, ended) in replies {
            let _ = reply.send(ended);
        }
        match conversation_left {
            Some(left) => conversation = left,
            None => return,
        }
    }
}

/// Runs one request. Gives the reply that its caller waits for, unless there is none or the turn waits for a person.
async fn run_queued(
    conversation: &Arc<Conversation>,
    queued: Queued,
) -> Option<(Reply, Result<Ended, RunError>)> {
    let Queued {
        agent,
        request,
        row,
        reply,
    } = queued;
    if reply.as_ref().is_some_and(oneshot::Sender::is_closed) && request.cancel.is_cancelled() {
        // Given up before it began.
        return None;
    }
    let (listener, cancel) = (request.listener.clone(), request.cancel.clone());
    let ended = conversation.run(&agent, request, row).await;
    if let (Err(error), Some(row)) = (&ended, row) {
        conversation.posted_failed(row, error).await;
    }
    match (ended.transpose(), reply) {
        (Some(ended), Some(reply)) => Some((reply, ended)),
        (None, Some(reply)) => {
            let parked = Parked::new(conversation, agent, listener, cancel, reply);
            conversation.queue().parked.push(parked);
            None
        }
        (_, None) => None,
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        let Some((log, lease)) = self.writer.get_mut().journal.take_lease() else {
            return;
        };
        // Outside a runtime nothing can be awaited; then the lease runs out, or the process ends, which is the same.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = log.release(&lease).await {
                    tracing::debug!(%error, "a lease was not released and will run out");
                }
            });
        }
    }
}
