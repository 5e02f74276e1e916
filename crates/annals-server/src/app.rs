//! What all requests share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use annals_core::ids::Scope;
use annals_runtime::Agent;
use annals_store::{LogError, Store, Token};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::limits::{Limits, Usage};
use crate::metrics::Metrics;
use crate::page::{Trees, Views};
use crate::secrets::Signer;

/// A revoked token still opens for at most this long.
const TOKEN_CACHED: Duration = Duration::from_secs(2);
/// Tokens that are remembered between two requests.
const TOKENS_CACHED_MAX: usize = 1_024;

/// What all requests share. Cheap to clone.
#[derive(Clone)]
pub(crate) struct App(Arc<Parts>);

pub(crate) struct Parts {
    pub(crate) agent: Agent,
    pub(crate) limits: Limits,
    pub(crate) usage: Arc<Usage>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) signer: Signer,
    pub(crate) door: Door,
    /// Ends every stream.
    pub(crate) stopping: CancellationToken,
    /// What outlives its connection and is waited for at the stop.
    pub(crate) tasks: TaskTracker,
    /// Requests of the OpenAI-compatible API, decided one after the other where they concern one past.
    pub(crate) turnstile: Arc<crate::openai::Turnstile>,
    /// Conversations that the page looks at.
    pub(crate) views: Views,
    /// Texts as the page draws them.
    pub(crate) trees: Trees,
    tokens: Mutex<HashMap<[u8; 32], (Token, Instant)>>,
}

/// Who is let in.
pub(crate) struct Door {
    /// The SHA-256 of the token that was printed at the start; none when everybody is let in.
    pub(crate) printed: Option<[u8; 32]>,
    /// Whether requests need no token at all.
    pub(crate) is_open: bool,
    /// The cookie's name: a browser sends the cookies of all ports of a host.
    pub(crate) cookie: String,
    /// Whether the server is reached by loopback only.
    pub(crate) is_loopback: bool,
    /// Further names that the server is reached by, with their origins.
    pub(crate) public: Option<PublicUrl>,
}

/// How people reach a server that stands behind another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PublicUrl {
    /// `https://annals.example`, without a path.
    pub(crate) origin: String,
    /// What follows `//` in it.
    pub(crate) authority: String,
    pub(crate) is_https: bool,
}

impl App {
    pub(crate) fn new(agent: Agent, limits: Limits, signer: Signer, door: Door) -> Self {
        let metrics = Arc::<Metrics>::default();
        agent.runtime().observe(metrics.clone());
        App(Arc::new(Parts {
            agent,
            limits,
            usage: Arc::default(),
            metrics,
            signer,
            door,
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
            turnstile: Arc::default(),
            views: Views::default(),
            trees: Trees::default(),
            tokens: Mutex::default(),
        }))
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        self.agent.log()
    }

    /// The agent for the conversations of a scope.
    pub(crate) fn agent(&self, scope: &Scope) -> Agent {
        self.agent.in_scope(scope)
    }

    /// The token of a digest, if the store knows it.
    pub(crate) async fn token(&self, hash: &[u8; 32]) -> Result<Option<Token>, LogError> {
        let now = Instant::now();
        let cached = {
            let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
            tokens.get(hash).cloned()
        };
        if let Some((token, known)) = cached
            && now.saturating_duration_since(known) < TOKEN_CACHED
            && token.is_valid(self.agent.world().now())
        {
            return Ok(Some(token));
        }
        let found = self.store().find_token(hash).await?;
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        match &found {
            Some(token) => {
                if tokens.len() >= TOKENS_CACHED_MAX {
                    tokens.clear();
                }
                tokens.insert(*hash, (token.clone(), now));
            }
            None => {
                tokens.remove(hash);
            }
        }
        Ok(found)
    }
}

impl std::ops::Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}
