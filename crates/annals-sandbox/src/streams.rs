//! Streams order operations: first in, first out within one, concurrent between several.
//!
//! A stream is a queue and one task, no thread. Events tie streams together: an event is *recorded* at a place in
//! one stream and *waited for* at a place in another. An event can only be waited for after it was recorded, so
//! waits never form a circle and nothing deadlocks at any fan-out.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::FutureExt;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::failure::{Failure, FailureKind};
use crate::ops::{Op, OpResult};
use crate::sandbox::Sandbox;

/// A queue of operations on one sandbox, performed one at a time in the order of submission.
pub struct Stream {
    /// None once closed. A lock, because submitting must not need a `&mut`; held only to send.
    queue: Mutex<Option<mpsc::UnboundedSender<Job>>>,
    unfinished: Arc<AtomicUsize>,
    /// Resolves when the task has drained the queue.
    drained: watch::Receiver<bool>,
}

enum Job {
    Perform {
        op: Op,
        cancel: CancellationToken,
        reply: oneshot::Sender<Result<OpResult, Failure>>,
    },
    Record(watch::Sender<Option<Instant>>),
    Wait {
        event: Event,
        timeout: Option<Duration>,
        reply: oneshot::Sender<Result<(), Failure>>,
    },
}

impl Stream {
    /// A stream of operations on `sandbox`. Must be called within a Tokio runtime, whose tasks it uses.
    pub fn new(sandbox: Arc<dyn Sandbox>) -> Self {
        let (queue, jobs) = mpsc::unbounded_channel();
        let (done, drained) = watch::channel(false);
        let unfinished = Arc::new(AtomicUsize::new(0));
        tokio::spawn(drain(sandbox, jobs, Arc::clone(&unfinished), done));
        Self {
            queue: Mutex::new(Some(queue)),
            unfinished,
            drained,
        }
    }

    /// Appends an operation; the future resolves when it is done. Dropping the future cancels nothing.
    pub fn submit(&self, op: Op) -> Result<Pending<OpResult>, StreamClosed> {
        self.submit_cancellable(op, CancellationToken::new())
    }

    /// Appends an operation that `cancel` stops, whether it waits or runs.
    pub fn submit_cancellable(
        &self,
        op: Op,
        cancel: CancellationToken,
    ) -> Result<Pending<OpResult>, StreamClosed> {
        let (reply, pending) = oneshot::channel();
        self.send(Job::Perform { op, cancel, reply })?;
        Ok(Pending(pending))
    }

    /// Marks this place: the event happens when all submitted before it is done.
    pub fn record_event(&self) -> Result<Event, StreamClosed> {
        let (sender, receiver) = watch::channel(None);
        self.send(Job::Record(sender))?;
        Ok(Event(receiver))
    }

    /// What is submitted after this waits until `event` has happened.
    ///
    /// If `timeout` passes first, the returned future fails with a timeout and the stream goes on.
    pub fn wait_event(&self, event: &Event, timeout: Option<Duration>) -> Result<Pending<()>, StreamClosed> {
        let (reply, pending) = oneshot::channel();
        self.send(Job::Wait {
            event: event.clone(),
            timeout,
            reply,
        })?;
        Ok(Pending(pending))
    }

    /// What is submitted after this waits until all that `other` holds now is done.
    pub fn wait_stream(&self, other: &Stream) -> Result<Pending<()>, StreamClosed> {
        match other.record_event() {
            Ok(event) => self.wait_event(&event, None),
            // A closed stream takes no event, but may still be draining.
            Err(StreamClosed) => self.wait_event(&Event::after(other.drained.clone()), None),
        }
    }

    /// Waits until everything submitted so far is done.
    pub async fn synchronize(&self) {
        match self.record_event() {
            Ok(event) => event.happened().await,
            Err(StreamClosed) => self.wait_drained().await,
        }
    }

    /// Whether everything submitted so far is done; does not wait.
    pub fn query(&self) -> bool {
        self.unfinished.load(Ordering::Acquire) == 0
    }

    /// Takes no more and waits until everything submitted is done. Dropping a stream also lets it drain.
    pub async fn close(&self) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.wait_drained().await;
    }

    async fn wait_drained(&self) {
        // An error means the task is gone with its runtime: nothing is left to wait for.
        let _ = self.drained.clone().wait_for(|drained| *drained).await;
    }

    fn send(&self, job: Job) -> Result<(), StreamClosed> {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = queue.as_ref().ok_or(StreamClosed)?;
        self.unfinished.fetch_add(1, Ordering::AcqRel);
        queue.send(job).map_err(|_| StreamClosed)
    }
}

async fn drain(
    sandbox: Arc<dyn Sandbox>,
    mut jobs: mpsc::UnboundedReceiver<Job>,
    unfinished: Arc<AtomicUsize>,
    done: watch::Sender<bool>,
) {
    while let Some(job) = jobs.recv().await {
        match job {
            Job::Perform { op, cancel, reply } => {
                let result = perform(&*sandbox, op, &cancel).await;
                unfinished.fetch_sub(1, Ordering::AcqRel);
                let _ = reply.send(result);
            }
            Job::Record(event) => {
                unfinished.fetch_sub(1, Ordering::AcqRel);
                event.send_replace(Some(Instant::now()));
            }
            Job::Wait {
                event,
                timeout,
                reply,
            } => {
                let result = wait(&event, timeout).await;
                unfinished.fetch_sub(1, Ordering::AcqRel);
                let _ = reply.send(result);
            }
        }
    }
    done.send_replace(true);
}

async fn perform(sandbox: &dyn Sandbox, op: Op, cancel: &CancellationToken) -> Result<OpResult, Failure> {
    if cancel.is_cancelled() {
        return Err(Failure::cancelled());
    }
    // A backend that panics fails this operation; the stream goes on.
    AssertUnwindSafe(sandbox.dispatch(op, cancel))
        .catch_unwind()
        .await
        .unwrap_or_else(|_| {
            Err(Failure::new(
                FailureKind::OsError,
                "the sandbox backend panicked while performing the operation",
            ))
        })
}

async fn wait(event: &Event, timeout: Option<Duration>) -> Result<(), Failure> {
    match timeout {
        None => event.happened().await,
        Some(timeout) => tokio::time::timeout(timeout, event.happened())
            .await
            .map_err(|_| {
                Failure::new(
                    FailureKind::Timeout,
                    format!("the event did not happen within {} ms", timeout.as_millis()),
                )
            })?,
    }
    Ok(())
}

/// A place in a stream; happens when all before it is done.
#[derive(Debug, Clone)]
pub struct Event(watch::Receiver<Option<Instant>>);

impl Event {
    /// An event of its own that happens when `drained` becomes true or its stream is gone.
    fn after(mut drained: watch::Receiver<bool>) -> Self {
        let (sender, receiver) = watch::channel(None);
        tokio::spawn(async move {
            let _ = drained.wait_for(|drained| *drained).await;
            sender.send_replace(Some(Instant::now()));
        });
        Self(receiver)
    }

    /// Whether it has happened; does not wait.
    pub fn query(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Resolves when it happens. An event whose stream ended with its runtime counts as happened.
    pub async fn happened(&self) {
        let _ = self.0.clone().wait_for(Option::is_some).await;
    }

    /// Time from `earlier` to this event, once both have happened; zero if they happened the other way round.
    pub fn elapsed(&self, earlier: &Event) -> Option<Duration> {
        let (from, to) = ((*earlier.0.borrow())?, (*self.0.borrow())?);
        Some(to.saturating_duration_since(from))
    }
}

/// A result that is on its way.
#[derive(Debug)]
pub struct Pending<T>(oneshot::Receiver<Result<T, Failure>>);

impl<T> Future for Pending<T> {
    type Output = Result<T, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0)
            .poll(cx)
            .map(|reply| reply.unwrap_or_else(|_| Err(Failure::closed())))
    }
}

/// The stream was closed and takes nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the stream is closed; open another with `sandbox.stream()`")]
pub struct StreamClosed;
