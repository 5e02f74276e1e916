//! What all requests share.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use annals_core::block::BlockKind;
use annals_core::ids::Scope;
use annals_mcp::ServerSet;
use annals_model::Catalog;
use annals_runtime::{Agent, Listen, RunError, Update};
use annals_store::{LogError, Store, Token};
use annals_tools::web::egress::EgressPolicy;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::limits::{Limits, Usage};
use crate::metrics::Metrics;
use crate::page::{Trees, Views};
use crate::relay::Relays;
use crate::secrets::Signer;
use crate::webhooks::Webhooks;

/// A revoked token still opens for at most this long.
const TOKEN_CACHED: Duration = Duration::from_secs(2);
/// Tokens that are remembered between two requests.
const TOKENS_CACHED_MAX: usize = 1_024;
/// What clients leave behind is swept this often.
const SWEPT_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// Scopes whose approvals are counted.
const SCOPES_MAX: usize = 10_000;

/// What all requests share. Cheap to clone.
#[derive(Clone)]
pub(crate) struct App(Arc<Parts>);

pub(crate) struct Parts {
    pub(crate) agent: Agent,
    pub(crate) limits: Limits,
    /// What models cost.
    pub(crate) catalog: Catalog,
    pub(crate) usage: Arc<Usage>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) signer: Signer,
    pub(crate) door: Door,
    /// Ends every stream.
    pub(crate) stopping: CancellationToken,
    pub(crate) readiness: crate::health::Readiness,
    /// What outlives its connection and is waited for at the stop.
    pub(crate) tasks: TaskTracker,
    pub(crate) outside: Outside,
    /// Conversations of other nodes that are watched here.
    pub(crate) relays: Relays,
    /// When the entries of each scope were last swept.
    swept: Mutex<HashMap<Scope, Instant>>,
    /// Requests of the OpenAI-compatible API, decided one after the other where they concern one past.
    pub(crate) turnstile: Arc<crate::openai::Turnstile>,
    /// What speaks MCP, by scope.
    pub(crate) mcp: crate::mcp::Faces,
    /// Conversations that the page looks at.
    pub(crate) views: Views,
    /// Texts as the page draws them.
    pub(crate) trees: Trees,
    tokens: Mutex<HashMap<[u8; 32], (Token, Instant)>>,
    /// Scopes that were served since the start.
    served: Mutex<HashSet<Scope>>,
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
    /// The name by which other nodes reach it.
    pub(crate) advertised: Option<String>,
}

/// What the server has to do with others.
pub(crate) struct Outside {
    pub(crate) webhooks: Webhooks,
    /// What may be reached.
    pub(crate) egress: EgressPolicy,
    /// How other nodes are asked.
    pub(crate) peers: reqwest::Client,
    /// Whether tools that come with requests of the OpenAI-compatible API are offered to the model.
    pub(crate) offers_client_tools: bool,
    /// The agent's tools that MCP clients may call.
    pub(crate) mcp_tools: Vec<String>,
    /// The servers whose resources and prompts people may use.
    pub(crate) mcp_servers: Option<Arc<ServerSet>>,
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

/// Sees every block that this process writes.
struct Observer {
    metrics: Arc<Metrics>,
    usage: Arc<Usage>,
}

impl Listen for Observer {
    fn on(&self, update: Update) {
        let Update::Block(block) = &update else { return };
        use BlockKind::{ApprovalRequest, InputRequest, ReactCompletion};
        if matches!(block.kind, ApprovalRequest | InputRequest | ReactCompletion) {
            self.usage.turn_rests(&block.turn);
        }
        self.metrics.count(block);
    }
}

impl App {
    pub(crate) fn new(
        agent: Agent,
        limits: Limits,
        catalog: Catalog,
        signer: Signer,
        door: Door,
        outside: Outside,
    ) -> Self {
        let (metrics, usage) = (Arc::<Metrics>::default(), Arc::<Usage>::default());
        let observer = Observer {
            metrics: metrics.clone(),
            usage: usage.clone(),
        };
        agent.runtime().observe(observer);
        App(Arc::new(Parts {
            agent,
            limits,
            catalog,
            usage,
            metrics,
            signer,
            door,
            stopping: CancellationToken::new(),
            readiness: crate::health::Readiness::default(),
            tasks: TaskTracker::new(),
            outside,
            relays: Relays::default(),
            swept: Mutex::default(),
            turnstile: Arc::default(),
            mcp: crate::mcp::Faces::default(),
            views: Views::default(),
            trees: Trees::default(),
            tokens: Mutex::default(),
            served: Mutex::default(),
        }))
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        self.agent.log()
    }

    /// The agent for the conversations of a scope.
    pub(crate) fn agent(&self, scope: &Scope) -> Agent {
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        if !served.contains(scope) && served.len() < SCOPES_MAX {
            served.insert(scope.clone());
        }
        self.agent.in_scope(scope)
    }

    /// How many calls wait for a person in the scopes that have tokens or were served since the start.
    pub(crate) async fn approvals_pending(&self) -> Result<usize, RunError> {
        let mut scopes = {
            let served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
            served.clone()
        };
        scopes.insert(self.agent.scope().clone());
        let tokens = self.store().tokens().await?.into_iter();
        scopes.extend(tokens.map(|token| token.scope).take(SCOPES_MAX));
        let mut pending = 0;
        for scope in &scopes {
            pending += self.agent.runtime().pending_approvals(scope).await?.len();
        }
        Ok(pending)
    }

    /// Whether what the OpenAI-compatible API keeps for a scope is due to be swept: once a day.
    pub(crate) fn is_sweep_due(&self, scope: &Scope) -> bool {
        let now = Instant::now();
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        swept.retain(|_, at| now.saturating_duration_since(*at) < SWEPT_EVERY);
        match swept.contains_key(scope) {
            true => false,
            false => swept.insert(scope.clone(), now).is_none(),
        }
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
