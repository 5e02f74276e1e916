//! A server: its options, its accept loop, its end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use annals_core::ids::{ConversationKey, NodeId};
use annals_mcp::ServerSet;
use annals_model::Catalog;
use annals_runtime::{Agent, Agents, RunError, Worker, WorkerOptions};
use annals_tools::web::egress::{EgressPolicy, Opened};
use async_trait::async_trait;
use axum::Router;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::app::{App, Door, Outside, PublicUrl};
use crate::connection::Taken;
use crate::limits::Limits;
use crate::openai::{is_reserved, take_up};
use crate::secrets::{Signer, SignerError, hash_of, new_token};
use crate::webhooks::{Webhook, Webhooks};
use crate::{relay, routes};

/// How a server is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Whether requests need a token. Without one, everybody who reaches the address may do everything.
    pub needs_token: bool,
    /// How people reach the server, when that is not the address it listens on: `https://annals.example`.
    pub public_url: Option<String>,
    /// How much a caller may have.
    pub limits: Limits,
    /// At the stop, answers and turns under way have this long together; tools that then have to be stopped get ten seconds.
    pub grace: Duration,
    /// Where other nodes reach this one, `http://10.0.0.7:7878`, when that is not the address it listens on.
    pub advertise: Option<String>,
    /// As which node the process takes part in what is shared; a name of its own unless set.
    pub node: Option<NodeId>,
    /// Who is told of turns that end and of calls that wait for a person.
    pub webhooks: Vec<Webhook>,
    /// Places that are reached although they are not public: for webhooks and for pictures that clients name by address.
    pub opened: Vec<Opened>,
    /// Whether tools that come with requests of the OpenAI-compatible API are offered to the model, and their calls handed
    /// to the client. A request may say otherwise. By itself an agent uses its own tools.
    pub offers_client_tools: bool,
    /// What models cost, for the page.
    pub catalog: Catalog,
    /// The agent's tools that MCP clients may call, by name.
    pub mcp_tools: Vec<String>,
    /// MCP servers whose resources and prompts people of the agent's own scope may use: those that the agent's tools come
    /// from, so that each is started once.
    pub mcp_servers: Option<Arc<ServerSet>>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            listen: SocketAddr::from(([127, 0, 0, 1], 7878)),
            needs_token: true,
            public_url: None,
            limits: Limits::default(),
            grace: Duration::from_secs(5),
            advertise: None,
            node: None,
            webhooks: Vec::new(),
            opened: Vec::new(),
            offers_client_tools: false,
            catalog: Catalog::default(),
            mcp_tools: Vec::new(),
            mcp_servers: None,
        }
    }
}

impl Options {
    fn check(&self, agent: &Agent) -> Result<(), ServeError> {
        let is_unknown = |name: &&String| agent.tools().get_wire(name).is_none();
        if let Some(unknown) = self.mcp_tools.iter().find(is_unknown) {
            return Err(ServeError::NoSuchTool(unknown.clone()));
        }
        if !self.needs_token && !self.listen.ip().is_loopback() {
            return Err(ServeError::OpenToOthers(self.listen));
        }
        Ok(())
    }
}

/// Why a server cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address is taken, or not this machine's.
    #[error("cannot listen on `{address}`: {error}; choose another with `--listen`")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        error: std::io::Error,
    },
    /// Everybody in the network would be let in.
    #[error("`{0}` is reached from other machines: leave out `--no-token`, or listen on 127.0.0.1")]
    OpenToOthers(SocketAddr),
    /// The public address cannot be used.
    #[error("`{0}` is no public address: use `https://NAME` or `http://NAME:PORT`, without a path")]
    PublicUrl(String),
    /// Clients of MCP would be offered a tool that the agent does not have.
    #[error("there is no tool `{0}` that MCP clients could call: see `annals tool list`")]
    NoSuchTool(String),
    /// Other nodes cannot reach this one there.
    #[error("`{0}` is no address for other nodes: use `http://ADDRESS:PORT`, without a path")]
    Advertise(String),
    /// The process cannot become a member of those that share the store.
    #[error("cannot take up work: {0}")]
    Join(RunError),
    /// Nothing outside could be reached.
    #[error("no connection to other servers can be made: {0}")]
    Egress(String),
    /// The keys cannot be had.
    #[error(transparent)]
    Keys(#[from] SignerError),
}

/// A server that listens and serves nobody yet.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    app: App,
    grace: Duration,
    token: Option<String>,
    worker: Worker,
}

/// A server goes on with the conversations of every scope.
struct EveryScope(Agent);

#[async_trait]
impl Agents for EveryScope {
    async fn agent(&self, key: &ConversationKey) -> Option<Agent> {
        match is_reserved(&key.scope) {
            true => take_up(&self.0, key).await,
            false => Some(self.0.in_scope(&key.scope)),
        }
    }
}

impl Server {
    /// Listens for an agent, and goes on with the turns that no process has.
    pub async fn bind(agent: Agent, options: Options) -> Result<Self, ServeError> {
        options.check(&agent)?;
        let Options {
            listen,
            needs_token,
            public_url,
            limits,
            grace,
            advertise,
            node,
            webhooks,
            opened,
            offers_client_tools,
            catalog,
            mcp_tools,
            mcp_servers,
        } = options;
        let public = public_url.as_deref().map(read_public_url).transpose()?;
        let failed = |error| ServeError::Listen {
            address: listen,
            error,
        };
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let reached = reached_at(advertise, address)?;
        let signer = Signer::of(&**agent.log()).await?;
        let token = match needs_token {
            true => Some(new_token().map_err(SignerError::from)?),
            false => None,
        };
        let door = Door {
            printed: token.as_deref().map(hash_of),
            is_open: !needs_token,
            // A browser sends the cookies of all ports of a host; behind one public address all nodes are one server.
            cookie: match public {
                Some(_) => "annals".to_owned(),
                None => format!("annals_{}", address.port()),
            },
            is_loopback: listen.ip().is_loopback(),
            public,
            advertised: reached
                .as_deref()
                .and_then(|url| url.strip_prefix("http://"))
                .map(str::to_owned),
        };
        let egress = EgressPolicy::new(opened).map_err(|error| ServeError::Egress(error.to_string()))?;
        let outside = Outside {
            webhooks: Webhooks::new(webhooks, &egress),
            egress,
            peers: relay::peers().map_err(|error| ServeError::Egress(error.to_string()))?,
            offers_client_tools,
            mcp_tools,
            mcp_servers,
        };
        let member = member(reached, node);
        let worker = agent.runtime().worker(EveryScope(agent.clone()), member).await;
        Ok(Server {
            listener,
            address,
            worker: worker.map_err(ServeError::Join)?,
            app: App::new(agent, limits, catalog, signer, door, outside),
            grace,
            token,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The token of this start, if one is needed. It is stored nowhere.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// What a person opens in a browser.
    pub fn url(&self) -> String {
        let origin = match &self.app.door.public {
            Some(public) => public.origin.clone(),
            // An address that stands for all of a machine's is no place to go to.
            None if self.address.ip().is_unspecified() => format!("http://127.0.0.1:{}", self.address.port()),
            None => format!("http://{}", self.address),
        };
        match &self.token {
            Some(token) => format!("{origin}/?token={token}"),
            None => format!("{origin}/"),
        }
    }

    /// Serves until `stop` is cancelled. Then streams end, answers and turns under way have their grace, and the rest is
    /// cut off: a turn that has not ended goes on at the next start, or on another node.
    pub async fn serve(self, stop: CancellationToken) {
        let Server {
            listener,
            app,
            grace,
            worker,
            ..
        } = self;
        let router = routes::router(&app);
        let webhooks = app.outside.webhooks.clone();
        app.tasks
            .spawn(webhooks.deliver(app.agent.clone(), app.stopping.clone()));
        let places = Arc::new(Semaphore::new(app.limits.connections_max));
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                accepted = accept(&listener, &places) => accepted,
            };
            let Some((stream, place)) = accepted else { continue };
            let (router, connection) = (router.clone(), app.clone());
            app.tasks.spawn(async move {
                serve_connection(stream, router, &connection).await;
                drop(place);
            });
        }
        drop(listener);
        // One deadline for answers and turns: whoever started the process kills it soon after.
        let deadline = tokio::time::Instant::now() + grace;
        worker.take_up_no_more();
        app.stopping.cancel();
        app.tasks.close();
        if tokio::time::timeout_at(deadline, app.tasks.wait()).await.is_err() {
            tracing::warn!("some connections did not end in time and are cut off");
        }
        worker
            .stop(deadline.saturating_duration_since(tokio::time::Instant::now()))
            .await;
    }
}

type Place = tokio::sync::OwnedSemaphorePermit;

/// The next connection, once there is a place for it. None when it went away again.
async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> Option<(TcpStream, Place)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, place)),
        Err(error) => {
            // Out of file handles, mostly: others have to go first.
            tracing::warn!(%error, "a connection was not accepted");
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

async fn serve_connection(stream: TcpStream, router: Router, app: &App) {
    // Events are small and should not wait for each other.
    let _ = stream.set_nodelay(true);
    let service = TowerToHyperService::new(router.map_request(|request: http::Request<Incoming>| request));
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(app.limits.head_timeout)
        .max_buf_size(app.limits.head_max_bytes)
        .serve_connection(
            TokioIo::new(Taken::new(stream, app.limits.write_timeout)),
            service,
        );
    let mut connection = std::pin::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = app.stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// As whom the process takes part in what is shared.
fn member(reached: Option<String>, node: Option<NodeId>) -> WorkerOptions {
    let mut member = WorkerOptions::default();
    if let Some(reached) = reached {
        member = member.address(reached);
    }
    if let Some(node) = node {
        member = member.node(node);
    }
    member
}

/// Where other nodes reach this one: nowhere, when it listens on all addresses of its machine and says none of them.
fn reached_at(advertise: Option<String>, listens: SocketAddr) -> Result<Option<String>, ServeError> {
    let Some(advertise) = advertise else {
        return Ok((!listens.ip().is_unspecified()).then(|| format!("http://{listens}")));
    };
    match read_public_url(&advertise).is_ok_and(|url| !url.is_https) {
        true => Ok(Some(advertise.trim_end_matches('/').to_owned())),
        false => Err(ServeError::Advertise(advertise)),
    }
}

fn read_public_url(text: &str) -> Result<PublicUrl, ServeError> {
    let malformed = || ServeError::PublicUrl(text.to_owned());
    let origin = text.trim_end_matches('/');
    let uri: http::Uri = origin.parse().map_err(|_| malformed())?;
    let is_https = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return Err(malformed()),
    };
    let authority = uri.authority().ok_or_else(malformed)?.as_str();
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() || authority.contains('@') {
        return Err(malformed());
    }
    Ok(PublicUrl {
        origin: origin.to_owned(),
        authority: authority.to_owned(),
        is_https,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_nodes_reach_a_node_where_it_says_or_where_it_listens() {
        let at = |advertise: Option<&str>, listens: &str| {
            reached_at(advertise.map(str::to_owned), listens.parse().unwrap()).ok()
        };
        let reached = |address: &str| Some(Some(address.to_owned()));
        assert_eq!(at(None, "10.0.0.7:7878"), reached("http://10.0.0.7:7878"));
        assert_eq!(
            at(None, "0.0.0.0:7878"),
            Some(None),
            "others would reach themselves"
        );
        assert_eq!(
            at(Some("http://10.0.0.7:1/"), "0.0.0.0:7878"),
            reached("http://10.0.0.7:1")
        );
        assert_eq!(at(Some("https://10.0.0.7"), "0.0.0.0:7878"), None);
        assert_eq!(at(Some("10.0.0.7:1"), "0.0.0.0:7878"), None);
    }

    #[test]
    fn a_public_address_is_an_origin() {
        let read = read_public_url("https://annals.example/").unwrap();
        assert_eq!(
            (read.origin.as_str(), read.authority.as_str()),
            ("https://annals.example", "annals.example")
        );
        assert!(read.is_https && !read_public_url("http://h:8080").unwrap().is_https);
        for wrong in [
            "annals.example",
            "ftp://x",
            "https://x/path",
            "https://u@x",
            "https://",
            "https://x?q",
        ] {
            assert!(read_public_url(wrong).is_err(), "{wrong}");
        }
    }
}
