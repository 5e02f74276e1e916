//! Following conversations as they grow.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};

use annals_core::ids::{ConversationKey, Seq};
use futures::stream::{self, BoxStream, StreamExt};
use tokio::sync::watch;

use super::{InboxId, LogError};

/// Tells of growth.
///
/// A follower misses nothing: after every append that was acknowledged, by whatever process, it is told of that tail or
/// a later one. It reads the blocks from the log.
pub trait Tails: Send + Sync {
    /// Tells of every tail beyond `after` (`None`: beyond the empty log), at once if there is one. A slow reader skips
    /// some. Ends with an error when the conversation is gone.
    fn follow(&self, key: &ConversationKey, after: Option<Seq>) -> BoxStream<'static, Result<Seq, LogError>>;

    /// The same for a caller that looks how far the conversation has come after this call: growth before it need not be
    /// told, which may save a look into the store.
    fn follow_later(&self, key: &ConversationKey) -> BoxStream<'static, Result<Seq, LogError>> {
        self.follow(key, None)
    }
}

/// How far a conversation has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Its last block.
    pub tail: Option<Seq>,
    /// The last post to it.
    pub posted: Option<InboxId>,
}

impl Mark {
    /// Of a post, which says nothing of blocks.
    pub fn of_post(row: InboxId) -> Self {
        Mark {
            tail: None,
            posted: Some(row),
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    mark: Mark,
    is_gone: bool,
}

/// Who follows which conversation in this process: for backends to tell them.
///
/// A backend calls [`advance`](Self::advance) after each commit, and whenever it finds out what others committed.
#[derive(Debug, Default)]
pub struct Followers {
    watched: Mutex<HashMap<ConversationKey, watch::Sender<Seen>>>,
}

impl Followers {
    /// Held for a lookup only.
    fn lock(&self) -> MutexGuard<'_, HashMap<ConversationKey, watch::Sender<Seen>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells those who follow a conversation how far it has come. A mark only moves forward.
    pub fn advance(&self, key: &ConversationKey, mark: Mark) {
        if let Some(sender) = self.lock().get(key) {
            sender.send_if_modified(|seen| {
                let moved = Mark {
                    tail: seen.mark.tail.max(mark.tail),
                    posted: seen.mark.posted.max(mark.posted),
                };
                let is_news = moved != seen.mark;
                seen.mark = moved;
                is_news
            });
        }
    }

    /// Tells those who follow a conversation that it is gone.
    pub fn end(&self, key: &ConversationKey) {
        if let Some(sender) = self.lock().remove(key) {
            sender.send_modify(|seen| seen.is_gone = true);
        }
    }

    /// Whether nobody follows anything.
    pub fn is_empty(&self) -> bool {
        self.lock().values().all(|sender| sender.receiver_count() == 0)
    }

    /// The conversations that somebody follows.
    pub fn keys(&self) -> Vec<ConversationKey> {
        let mut watched = self.lock();
        watched.retain(|_, sender| sender.receiver_count() > 0);
        watched.keys().cloned().collect()
    }

    fn watch(&self, key: &ConversationKey) -> watch::Receiver<Seen> {
        let mut watched = self.lock();
        // A reader that went away leaves its entry; it goes when the table would grow.
        if watched.len() == watched.capacity() {
            watched.retain(|_, sender| sender.receiver_count() > 0);
        }
        watched.entry(key.clone()).or_default().subscribe()
    }

    /// The marks of a conversation that `beyond` finds new, the first one read by `now`.
    fn marks<T: PartialOrd + Copy + Send + Sync + 'static>(
        self: &std::sync::Arc<Self>,
        key: &ConversationKey,
        after: Option<T>,
        now: impl Future<Output = Result<Mark, LogError>> + Send + 'static,
        part: fn(Mark) -> Option<T>,
    ) -> BoxStream<'static, Result<T, LogError>> {
        // Subscribed before the first look, so that nothing falls in between.
        let (seen, key, followers) = (self.watch(key), key.clone(), std::sync::Arc::clone(self));
        let begin = async move {
            followers.advance(&key, now.await?);
            Ok::<_, LogError>(stream::unfold(Some((seen, after)), move |state| {
                next(state, key.clone(), part)
            }))
        };
        stream::once(begin)
            .flat_map(|begun| match begun {
                Ok(marks) => marks.boxed(),
                Err(error) => stream::once(async { Err(error) }).boxed(),
            })
            .boxed()
    }

    /// What is told from here on.
    fn later<T: PartialOrd + Copy + Send + Sync + 'static>(
        &self,
        key: &ConversationKey,
        part: fn(Mark) -> Option<T>,
    ) -> BoxStream<'static, Result<T, LogError>> {
        let (seen, key) = (self.watch(key), key.clone());
        stream::unfold(Some((seen, None)), move |state| next(state, key.clone(), part)).boxed()
    }

    /// The stream of [`Tails::follow_later`].
    pub fn later_tails(&self, key: &ConversationKey) -> BoxStream<'static, Result<Seq, LogError>> {
        self.later(key, |mark| mark.tail)
    }

    /// The stream of [`Inbox::posted_later`](super::Inbox::posted_later).
    pub fn later_posts(&self, key: &ConversationKey) -> BoxStream<'static, Result<InboxId, LogError>> {
        self.later(key, |mark| mark.posted)
    }

    /// The stream of [`Tails::follow`]; `now` reads the present mark.
    pub fn tails(
        self: &std::sync::Arc<Self>,
        key: &ConversationKey,
        after: Option<Seq>,
        now: impl Future<Output = Result<Mark, LogError>> + Send + 'static,
    ) -> BoxStream<'static, Result<Seq, LogError>> {
        self.marks(key, after, now, |mark| mark.tail)
    }

    /// The stream of [`Inbox::posted`](super::Inbox::posted); `now` reads the present mark.
    pub fn posts(
        self: &std::sync::Arc<Self>,
        key: &ConversationKey,
        after: Option<InboxId>,
        now: impl Future<Output = Result<Mark, LogError>> + Send + 'static,
    ) -> BoxStream<'static, Result<InboxId, LogError>> {
        self.marks(key, after, now, |mark| mark.posted)
    }
}

type Following<T> = Option<(watch::Receiver<Seen>, Option<T>)>;

/// Waits for the next news of one follower.
async fn next<T: PartialOrd + Copy>(
    state: Following<T>,
    key: ConversationKey,
    part: fn(Mark) -> Option<T>,
) -> Option<(Result<T, LogError>, Following<T>)> {
    let (mut seen, after) = state?;
    loop {
        let now = *seen.borrow_and_update();
        match part(now.mark) {
            Some(news) if after.is_none_or(|after| news > after) => {
                return Some((Ok(news), Some((seen, Some(news)))));
            }
            _ if now.is_gone => return Some((Err(LogError::NotFound { id: key.id }), None)),
            _ => {}
        }
        if seen.changed().await.is_err() {
            let is_gone = seen.borrow().is_gone;
            let error = match is_gone {
                true => LogError::NotFound { id: key.id },
                false => LogError::Closed,
            };
            return Some((Err(error), None));
        }
    }
}
