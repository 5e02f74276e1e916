//! Retries with exponential backoff and jitter: a decorator around any model.
//!
//! Waits grow twofold up to a cap, with full jitter so that a thousand sessions do not come back together; what the
//! provider asks for in `Retry-After` is the least that is waited. It stops after some attempts or some time. An
//! attempt that had begun to speak is only tried again after the listener was told to forget it. Only
//! [retryable](ModelError::is_retryable) errors are tried again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use annals_core::tokens::MediaRule;
use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::ModelError;
use crate::event::Event;
use crate::model::{EventStream, Model, Request, Window};
use crate::usage::Price;

/// When to try again, and how long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// All attempts, the first one included.
    pub max_attempts: u32,
    /// Upper bound of the first wait; each further one doubles.
    pub base_wait: Duration,
    /// Upper bound of every wait that the provider did not ask for.
    pub max_wait: Duration,
    /// No wait is begun that would end later than this after the first attempt.
    pub max_total: Duration,
    /// What to do when an attempt fails that had begun to speak.
    pub mid_stream: MidStream,
}

/// What to do when an attempt fails that had begun to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MidStream {
    /// Tell the listener with [`Event::Restarted`], and try again.
    Restart,
    /// Give the error.
    Fail,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        RetryPolicy {
            max_attempts: 5,
            base_wait: Duration::from_millis(500),
            max_wait: Duration::from_secs(30),
            max_total: Duration::from_secs(180),
            mid_stream: MidStream::Restart,
        }
    }
}

impl RetryPolicy {
    /// One attempt.
    pub fn never() -> Self {
        RetryPolicy {
            max_attempts: 1,
            ..Self::default()
        }
    }

    /// The same attempts without any wait of our own: for models that are not really elsewhere.
    pub fn without_waits(self) -> Self {
        RetryPolicy {
            base_wait: Duration::ZERO,
            max_wait: Duration::ZERO,
            ..self
        }
    }

    /// How long to wait after this attempt (from 1), given a random number in `[0, 1)`.
    fn wait(&self, attempt: u32, retry_after: Option<Duration>, random: f64) -> Duration {
        let doublings = attempt.saturating_sub(1).min(20);
        let bound = self.base_wait.saturating_mul(1 << doublings).min(self.max_wait);
        retry_after
            .unwrap_or_default()
            .saturating_add(bound.mul_f64(random.clamp(0.0, 1.0)))
    }
}

/// Where random numbers in `[0, 1)` come from.
#[derive(Clone)]
pub struct Jitter(Arc<dyn Fn() -> f64 + Send + Sync>);

impl Jitter {
    /// From this function.
    pub fn new(draw: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        Jitter(Arc::new(draw))
    }

    /// A sequence that follows from a seed.
    pub fn seeded(seed: u64) -> Self {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let state = AtomicU64::new(seed);
        Jitter::new(move || {
            // SplitMix64: one atomic addition, then mixing. The top 53 bits make a double.
            let mut z = state.fetch_add(GOLDEN, Ordering::Relaxed).wrapping_add(GOLDEN);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
        })
    }

    fn draw(&self) -> f64 {
        (self.0)()
    }
}

impl std::fmt::Debug for Jitter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Jitter")
    }
}

/// Makes attempts of something that is no stream, by this policy, until one succeeds or no further one is worth it.
#[cfg(any(feature = "openai", feature = "ollama"))]
pub(crate) async fn attempts<T, F: Future<Output = Result<T, ModelError>>>(
    policy: &RetryPolicy,
    jitter: &Jitter,
    cancel: &CancellationToken,
    mut attempt: impl FnMut() -> F,
) -> Result<T, ModelError> {
    let started = Instant::now();
    let mut made = 0;
    loop {
        made += 1;
        let error = match attempt().await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let wait = policy.wait(made, error.retry_after(), jitter.draw());
        let is_last = !error.is_retryable() || made >= policy.max_attempts;
        if is_last || started.elapsed().saturating_add(wait) > policy.max_total {
            return Err(error);
        }
        let sleep = tokio::time::sleep(wait);
        cancel
            .run_until_cancelled(sleep)
            .await
            .ok_or(ModelError::Cancelled)?;
    }
}

/// A model that tries again.
#[derive(Debug)]
pub struct Retrying<M> {
    inner: Arc<M>,
    policy: RetryPolicy,
    jitter: Jitter,
}

impl<M: Model + 'static> Retrying<M> {
    /// This model, tried again by this policy.
    pub fn new(inner: M, policy: RetryPolicy, jitter: Jitter) -> Self {
        Retrying {
            inner: Arc::new(inner),
            policy,
            jitter,
        }
    }
}

#[async_trait]
impl<M: Model + 'static> Model for Retrying<M> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn window(&self) -> Window {
        self.inner.window()
    }

    fn media_rule(&self) -> MediaRule {
        self.inner.media_rule()
    }

    fn price(&self) -> Option<Price> {
        self.inner.price()
    }

    async fn stream(&self, request: Request, cancel: &CancellationToken) -> Result<EventStream, ModelError> {
        let mut attempts = Attempts {
            model: Arc::clone(&self.inner),
            policy: self.policy,
            jitter: self.jitter.clone(),
            request,
            cancel: cancel.clone(),
            started: Instant::now(),
            made: 0,
        };
        let (stream, _) = attempts.begin().await?;
        let listening = Listening {
            attempts,
            stream: Some(stream),
            has_spoken: false,
        };
        Ok(stream::unfold(listening, |mut listening| async move {
            let item = listening.next().await?;
            Some((item, listening))
        })
        .boxed())
    }
}

/// One request and the attempts at it.
struct Attempts<M> {
    model: Arc<M>,
    policy: RetryPolicy,
    jitter: Jitter,
    request: Request,
    cancel: CancellationToken,
    started: Instant,
    made: u32,
}

impl<M: Model> Attempts<M> {
    /// Attempts until a stream begins; also says how long was waited.
    async fn begin(&mut self) -> Result<(EventStream, Duration), ModelError> {
        let mut waited = Duration::ZERO;
        loop {
            self.made += 1;
            match self.model.stream(self.request.clone(), &self.cancel).await {
                Ok(stream) => return Ok((stream, waited)),
                Err(error) => waited += self.pause(error).await?,
            }
        }
    }

    /// Waits before the next attempt, or gives the error back if there is to be none.
    async fn pause(&self, error: ModelError) -> Result<Duration, ModelError> {
        if !error.is_retryable() || self.made >= self.policy.max_attempts {
            return Err(error);
        }
        let wait = self
            .policy
            .wait(self.made, error.retry_after(), self.jitter.draw());
        if self.started.elapsed().saturating_add(wait) > self.policy.max_total {
            return Err(error);
        }
        tracing::info!(
            model = self.model.name(),
            attempt = self.made,
            kind = error.kind(),
            ?wait,
            "trying again"
        );
        let sleep = tokio::time::sleep(wait);
        self.cancel
            .run_until_cancelled(sleep)
            .await
            .ok_or(ModelError::Cancelled)?;
        Ok(wait)
    }
}

/// A stream that is being read, and what is needed to begin another one.
struct Listening<M> {
    attempts: Attempts<M>,
    /// `None` after the end.
    stream: Option<EventStream>,
    has_spoken: bool,
}

impl<M: Model> Listening<M> {
    async fn next(&mut self) -> Option<Result<Event, ModelError>> {
        loop {
            let error = match self.stream.as_mut()?.next().await {
                Some(Ok(event)) => {
                    if matches!(event, Event::Finished { .. }) {
                        self.stream = None;
                    }
                    self.has_spoken = true;
                    return Some(Ok(event));
                }
                Some(Err(error)) => error,
                None => ModelError::CutOff,
            };
            self.stream = None;
            let reason = error.kind();
            if self.has_spoken && self.attempts.policy.mid_stream == MidStream::Fail {
                return Some(Err(error));
            }
            let (stream, waited) = match self.restart(error).await {
                Ok(restarted) => restarted,
                Err(error) => return Some(Err(error)),
            };
            self.stream = Some(stream);
            if std::mem::take(&mut self.has_spoken) {
                return Some(Ok(Event::Restarted {
                    attempt: self.attempts.made,
                    reason,
                    waited,
                }));
            }
        }
    }

    async fn restart(&mut self, error: ModelError) -> Result<(EventStream, Duration), ModelError> {
        let waited = self.attempts.pause(error).await?;
        let (stream, more) = self.attempts.begin().await?;
        Ok((stream, waited + more))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_cap_and_never_undercut_what_the_provider_asks() {
        let policy = RetryPolicy::default();
        let most: Vec<u128> = (1..=9)
            .map(|attempt| policy.wait(attempt, None, 1.0).as_millis())
            .collect();
        assert_eq!(
            most,
            [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]
        );
        assert_eq!(policy.wait(3, None, 0.0), Duration::ZERO);
        let asked = Duration::from_secs(7);
        assert_eq!(policy.wait(1, Some(asked), 0.0), asked);
        assert_eq!(policy.wait(u32::MAX, None, 1.0), policy.max_wait);
    }

    #[test]
    fn jitter_follows_from_its_seed_and_stays_in_its_interval() {
        let (one, same, other) = (Jitter::seeded(7), Jitter::seeded(7), Jitter::seeded(8));
        let draws: Vec<f64> = (0..1_000).map(|_| one.draw()).collect();
        assert!(draws.iter().all(|draw| (0.0..1.0).contains(draw)));
        assert!(draws.iter().all(|draw| *draw == same.draw()));
        assert_ne!(draws[0], other.draw());
        let mean = draws.iter().sum::<f64>() / 1_000.0;
        assert!((0.45..0.55).contains(&mean), "{mean}");
    }
}
