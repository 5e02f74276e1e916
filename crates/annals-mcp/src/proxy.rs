//! The only way out of a sandboxed server: an HTTP proxy of ours on the loopback of its own network, which connects to the
//! hosts that a person gave to the server and to nothing else.
//!
//! Names are resolved here and the addresses that were judged are the ones that are connected to, so that a name which
//! answers differently the second time gains nothing. Redirects are the server's own new requests and are judged as such. The
//! proxy looks into no tunnel, keeps nothing of what passes, and asks no resolver about a host that is not allowed.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener as StdTcpListener};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri, uri};
use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
use hyper::body::{Bytes, Incoming};
use hyper::ext::ReasonPhrase;
use hyper::service::service_fn;
use hyper::{client, server};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::hosts::{AllowedHosts, Destination, DestinationHost, LOOPBACK};
use crate::limits;

/// Where the proxy listens inside. The network is the server's own, so nobody else can have taken the port.
pub(crate) const PORT: u16 = 3128;

/// Names by which programs learn of a proxy.
const VARIABLES: [&str; 6] = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
];

/// Headers that are about one connection and not about the request.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The environment that leads a program to the proxy.
pub(crate) fn environment() -> impl Iterator<Item = (String, String)> {
    let address = format!("http://127.0.0.1:{PORT}");
    let variables = VARIABLES.map(|name| (name.to_owned(), address.clone()));
    // Node reads the others only if it is told to.
    variables
        .into_iter()
        .chain([("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned())])
}

/// Why a server did not reach a host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Refusal {
    #[error(
        "`{target}` is not among the hosts of the MCP server `{server}`: a person can allow it with \
         `hosts = [\"{target}\"]` of `[mcp.{server}]` in config.toml, or `\"hosts\"` of `{server}` in mcp.json"
    )]
    NotAllowed { server: String, target: Destination },
    #[error(
        "`{target}` leads to {} ({what}), which the MCP server `{server}` may not reach: a person can allow it with \
         `\"{literal}\"` in `hosts` of `[mcp.{server}]` in config.toml, or `\"hosts\"` of `{server}` in mcp.json",
        .literal.ip()
    )]
    NotPublic {
        server: String,
        target: Destination,
        /// The entry that would allow it.
        literal: SocketAddr,
        what: &'static str,
    },
    #[error("`{target}` could not be resolved: {reason}")]
    Unresolved { target: Destination, reason: String },
    #[error("`{target}` could not be reached: {reason}")]
    Unreachable { target: Destination, reason: String },
    #[error("{0}")]
    BadRequest(&'static str),
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Refusal::NotAllowed { .. } | Refusal::NotPublic { .. } => StatusCode::FORBIDDEN,
            Refusal::Unresolved { .. } | Refusal::Unreachable { .. } => StatusCode::BAD_GATEWAY,
            Refusal::BadRequest(_) => StatusCode::BAD_REQUEST,
        }
    }

    /// Whether a person has to know of it to make it work.
    fn is_for_people(&self) -> bool {
        self.status() == StatusCode::FORBIDDEN
    }
}

/// Looks names up: the system's resolver outside tests.
type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// What a server was kept from reaching since it was last asked, once each.
#[derive(Debug, Default)]
pub(crate) struct KeptFrom(Mutex<Vec<String>>);

impl KeptFrom {
    fn note(&self, refusal: String) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < limits::REFUSED_HOSTS_MAX && !kept.contains(&refusal) {
            kept.push(refusal);
        }
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How much a server may take of the proxy.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    connections: usize,
    head_bytes: usize,
    head: Duration,
    connect: Duration,
    idle: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            connections: limits::PROXY_CONNECTIONS_MAX,
            head_bytes: limits::PROXY_HEAD_MAX_BYTES,
            head: limits::PROXY_HEAD_TIMEOUT,
            connect: limits::PROXY_CONNECT_TIMEOUT,
            idle: limits::PROXY_IDLE_TIMEOUT,
        }
    }
}

/// What decides where a server gets through.
pub(crate) struct Gate {
    server: String,
    hosts: AllowedHosts,
    kept_from: Arc<KeptFrom>,
    lookup: Lookup,
    bounds: Bounds,
}

impl Gate {
    pub(crate) fn new(server: &str, hosts: AllowedHosts, kept_from: Arc<KeptFrom>) -> Self {
        Gate {
            server: server.to_owned(),
            hosts,
            kept_from,
            lookup: Arc::new(|name| {
                Box::pin(async move {
                    let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
                    Ok(found.map(|address| address.ip()).collect())
                })
            }),
            bounds: Bounds::default(),
        }
    }

    /// A connection to a host that is allowed.
    async fn connect(&self, target: &Destination) -> Result<TcpStream, Refusal> {
        let connecting = async {
            let addresses = self.addresses(target).await?;
            let mut reason = String::new();
            for address in addresses {
                match TcpStream::connect((address, target.port)).await {
                    Ok(stream) => return Ok(stream),
                    Err(error) => reason = error.to_string(),
                }
            }
            Err(Refusal::Unreachable {
                target: target.clone(),
                reason,
            })
        };
        let connected = tokio::time::timeout(self.bounds.connect, connecting).await;
        connected.unwrap_or_else(|_| {
            Err(Refusal::Unreachable {
                target: target.clone(),
                reason: format!("no answer within {} s", self.bounds.connect.as_secs_f64()),
            })
        })
    }

    /// The addresses of a host, each of which may be connected to.
    async fn addresses(&self, target: &Destination) -> Result<Vec<IpAddr>, Refusal> {
        if !self.hosts.names(target) {
            return Err(Refusal::NotAllowed {
                server: self.server.clone(),
                target: target.clone(),
            });
        }
        let found = match &target.host {
            DestinationHost::Address(address) => vec![*address],
            DestinationHost::Name(name) if name == "localhost" => LOOPBACK.to_vec(),
            DestinationHost::Name(name) => {
                let found = (self.lookup)(name.clone()).await;
                let unresolved = |reason: String| Refusal::Unresolved {
                    target: target.clone(),
                    reason,
                };
                let found = found.map_err(|error| unresolved(error.to_string()))?;
                if found.is_empty() {
                    return Err(unresolved("it has no address".to_owned()));
                }
                found
            }
        };
        // One private answer among public ones is how rebinding looks, so it spoils them all.
        for address in &found {
            self.hosts
                .judge(*address, target.port)
                .map_err(|what| Refusal::NotPublic {
                    server: self.server.clone(),
                    target: target.clone(),
                    literal: SocketAddr::new(address.to_canonical(), target.port),
                    what,
                })?;
        }
        Ok(found)
    }
}

/// A proxy that runs until this is dropped, and its connections with it.
#[derive(Debug)]
pub(crate) struct Proxy(#[expect(dead_code, reason = "held for what its drop does")] DropGuard);

impl Proxy {
    /// Answers on `listener`. Must be called within a Tokio runtime.
    pub(crate) fn start(listener: StdTcpListener, gate: Gate) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let closed = CancellationToken::new();
        let guard = closed.clone().drop_guard();
        tokio::spawn(async move {
            tokio::select! {
                () = closed.cancelled() => {}
                () = accept(listener, Arc::new(gate), &closed) => {}
            }
        });
        Ok(Proxy(guard))
    }
}

async fn accept(listener: TcpListener, gate: Arc<Gate>, closed: &CancellationToken) {
    let slots = Arc::new(Semaphore::new(gate.bounds.connections));
    loop {
        // Taken before a connection is: those beyond the bound wait in the kernel.
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // Out of descriptors, say: other connections may end meanwhile.
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let leg = Leg {
            gate: gate.clone(),
            slot: Arc::new(slot),
            closed: closed.clone(),
        };
        tokio::spawn(leg.serve(stream));
    }
}

/// One connection of the server's, which has a slot until all that came of it has ended.
#[derive(Clone)]
struct Leg {
    gate: Arc<Gate>,
    slot: Arc<OwnedSemaphorePermit>,
    closed: CancellationToken,
}

type Body = BoxBody<Bytes, hyper::Error>;

impl Leg {
    async fn serve(self, stream: TcpStream) {
        let (closed, bounds) = (self.closed.clone(), self.gate.bounds);
        let answering = service_fn(move |request| {
            let leg = self.clone();
            async move { Ok::<_, Infallible>(leg.answer(request).await) }
        });
        let serving = server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(bounds.head)
            .max_buf_size(bounds.head_bytes)
            .serve_connection(TokioIo::new(Quiet::new(stream, bounds.idle)), answering)
            .with_upgrades();
        tokio::select! {
            () = closed.cancelled() => {}
            // A program that breaks its own connection off is its own concern.
            _ = serving => {}
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let answered = match request.method() {
            &Method::CONNECT => self.tunnel(request).await,
            _ => self.forward(request).await,
        };
        answered.unwrap_or_else(|refusal| {
            let words = refusal.to_string();
            if refusal.is_for_people() {
                self.gate.kept_from.note(words.clone());
            }
            refused(refusal.status(), words)
        })
    }

    /// A connection whose bytes are passed on as they are.
    async fn tunnel(&self, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
        let target = request
            .uri()
            .authority()
            .and_then(|authority| Destination::parse(authority.host(), authority.port_u16()?));
        let target = target.ok_or(Refusal::BadRequest("CONNECT needs `host:port`"))?;
        let upstream = self.gate.connect(&target).await?;
        let Leg { gate, slot, closed } = self.clone();
        tokio::spawn(async move {
            let _slot = slot;
            let outside = Quiet::new(upstream, gate.bounds.idle);
            let passing = async {
                let inside = hyper::upgrade::on(request).await.map_err(io::Error::other)?;
                let (mut inside, mut outside) = (TokioIo::new(inside), outside);
                tokio::io::copy_bidirectional(&mut inside, &mut outside).await
            };
            tokio::select! {
                () = closed.cancelled() => {}
                _ = passing => {}
            }
        });
        Ok(Response::new(empty()))
    }

    /// One request, made again at the host that it is for.
    async fn forward(&self, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
        let (mut head, body) = request.into_parts();
        let form = Refusal::BadRequest(
            "this is a proxy: ask for a whole `http://` address, or CONNECT to `host:port`",
        );
        let address = std::mem::take(&mut head.uri).into_parts();
        let (Some(authority), true) = (address.authority, address.scheme == Some(uri::Scheme::HTTP)) else {
            return Err(form);
        };
        let target =
            Destination::parse(authority.host(), authority.port_u16().unwrap_or(80)).ok_or(form.clone())?;
        let upstream = self.gate.connect(&target).await?;
        let unreachable = |error: hyper::Error| Refusal::Unreachable {
            target: target.clone(),
            reason: error.to_string(),
        };
        let path = address
            .path_and_query
            .unwrap_or_else(|| uri::PathAndQuery::from_static("/"));
        head.uri = Uri::from(path);
        without_hops(&mut head.headers);
        // The host that was judged, whatever the request says beside it.
        let host = match authority.port() {
            Some(port) => format!("{}:{port}", authority.host()),
            None => authority.host().to_owned(),
        };
        let host = HeaderValue::try_from(host).map_err(|_| form)?;
        head.headers.insert(header::HOST, host);
        let io = TokioIo::new(Quiet::new(upstream, self.gate.bounds.idle));
        let (mut sender, connection) = client::conn::http1::handshake(io).await.map_err(unreachable)?;
        let Leg { slot, closed, .. } = self.clone();
        tokio::spawn(async move {
            let _slot = slot;
            tokio::select! {
                () = closed.cancelled() => {}
                _ = connection => {}
            }
        });
        let answer = sender.send_request(Request::from_parts(head, body)).await;
        let (mut head, body) = answer.map_err(unreachable)?.into_parts();
        without_hops(&mut head.headers);
        Ok(Response::from_parts(head, body.boxed()))
    }
}

/// Removes what is about one connection only, also what `Connection` says is.
fn without_hops(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

fn empty() -> Body {
    Full::default()
        .map_err(|never: Infallible| match never {})
        .boxed()
}

/// Says why in the body and, because many clients show nothing else of a failed CONNECT, in the status line.
fn refused(status: StatusCode, words: String) -> Response<Body> {
    let reason = ReasonPhrase::try_from(words.clone().into_bytes());
    let body = Full::from(format!("{words}\n")).map_err(|never: Infallible| match never {});
    let mut response = Response::new(body.boxed());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    if let Ok(reason) = reason {
        response.extensions_mut().insert(reason);
    }
    response
}

/// A connection that fails when nothing passes through it for long.
struct Quiet {
    stream: TcpStream,
    idle: Duration,
    until: Pin<Box<Sleep>>,
}

impl Quiet {
    fn new(stream: TcpStream, idle: Duration) -> Self {
        let _ = stream.set_nodelay(true);
        Quiet {
            stream,
            idle,
            until: Box::pin(tokio::time::sleep(idle)),
        }
    }

    /// Something passed, or nothing did for too long.
    fn judged<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            let until = Instant::now() + self.idle;
            self.until.as_mut().reset(until);
            return polled;
        }
        match self.until.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Quiet {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.judged(cx, polled)
    }
}

impl AsyncWrite for Quiet {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.judged(cx, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
