//! How bytes reach a server: the pipes of an isolated process, or HTTP. What comes back is counted before anybody parses it.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};

use annals_core::redact::Secrets;
use annals_sandbox::limits::Limits;
use annals_sandbox::service::{Service, ServiceSpec, ServiceStreams, Trust};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig,
};
use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::auth::{Authorizer, NoToken};
use crate::config::{Endpoint, Program};
use crate::hidden;
use crate::http_client::{BoundedHttp, Door};
use crate::limits;
use crate::proxy::{self, Gate, KeptFrom, Proxy};

/// Stands for a configured secret in environments and headers.
const SECRET: &str = "secret:";

/// Where certificates of authorities are, by which a program knows the hosts that it reaches.
const AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs",
    "/etc/ssl/cert.pem",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
];

/// How much a server sent since it was last asked for something, and why it was cut off, if it was.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    messages: AtomicUsize,
    bytes: AtomicUsize,
    cut_off: OnceLock<String>,
    no_token: Mutex<Option<NoToken>>,
    /// Hosts that it tried to reach and may not.
    pub(crate) kept_from: Arc<KeptFrom>,
    /// Fires when the server is cut off.
    pub(crate) cancel: CancellationToken,
}

impl Flow {
    /// It was asked for something: what it sends from here on is counted anew.
    pub(crate) fn asked(&self) {
        self.messages.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
        self.set_no_token(None);
    }

    /// A request was not made, or was refused, for want of a token.
    pub(crate) fn shut(&self, why: NoToken) {
        self.set_no_token(Some(why));
    }

    fn set_no_token(&self, why: Option<NoToken>) {
        *self.no_token.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// Why there is no token, if the last request failed for that.
    pub(crate) fn no_token(&self) -> Option<NoToken> {
        self.no_token
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Counts one message.
    pub(crate) fn message(&self) {
        if self.messages.fetch_add(1, Ordering::Relaxed) >= limits::MESSAGES_PER_REQUEST_MAX {
            self.cut_off(format!(
                "it sent more than {} messages for one request",
                limits::MESSAGES_PER_REQUEST_MAX
            ));
        }
    }

    pub(crate) fn bytes(&self, count: usize) {
        if self.bytes.fetch_add(count, Ordering::Relaxed) >= limits::BYTES_PER_REQUEST_MAX {
            self.cut_off(format!(
                "it sent more than {} bytes for one request",
                limits::BYTES_PER_REQUEST_MAX
            ));
        }
    }

    /// Its message has no acceptable end.
    pub(crate) fn message_too_long(&self) {
        self.cut_off(format!(
            "it sent a message of more than {} bytes",
            limits::MESSAGE_MAX_BYTES
        ));
    }

    fn cut_off(&self, reason: String) {
        let _ = self.cut_off.set(reason);
        self.cancel.cancel();
    }

    /// Why the server was cut off, if it was.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.cut_off.get().map(String::as_str)
    }
}

/// A stream of lines whose length, number and bytes are bounded; beyond a bound it fails.
pub(crate) struct Bounded<R> {
    inner: R,
    flow: Arc<Flow>,
    line_bytes: usize,
}

impl<R> Bounded<R> {
    pub(crate) fn new(inner: R, flow: Arc<Flow>) -> Self {
        Bounded {
            inner,
            flow,
            line_bytes: 0,
        }
    }

    fn count(&mut self, read: &[u8]) {
        self.flow.bytes(read.len());
        for piece in read.split_inclusive(|byte| *byte == b'\n') {
            self.line_bytes += piece.len();
            if self.line_bytes > limits::MESSAGE_MAX_BYTES {
                self.flow.message_too_long();
            }
            if piece.ends_with(b"\n") {
                self.line_bytes = 0;
                self.flow.message();
            }
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Bounded<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        if let Poll::Ready(Ok(())) = polled {
            let (_, read) = buf.filled().split_at(before);
            self.count(read);
            if let Some(reason) = self.flow.reason() {
                // A read that fails has read nothing.
                buf.set_filled(before);
                return Poll::Ready(Err(io::Error::other(reason.to_owned())));
            }
        }
        polled
    }
}

/// Why a server could not be started or addressed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TransportError(pub(crate) String);

impl TransportError {
    pub(crate) fn new(error: impl ToString) -> Self {
        TransportError(error.to_string())
    }
}

/// The value, or the secret that it stands for.
pub(crate) fn resolved(value: &str, secrets: &Secrets) -> Result<String, TransportError> {
    match value.strip_prefix(SECRET) {
        None => Ok(value.to_owned()),
        Some(name) => match secrets.get(name) {
            Some(secret) => Ok(secret.to_string()),
            None => Err(TransportError(format!(
                "there is no secret `{name}`: name it in `[secrets]` of the configuration"
            ))),
        },
    }
}

/// A server's program that runs, with its way out.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) service: Service,
    /// Ends with it.
    _proxy: Option<Proxy>,
}

/// Starts the program of the server `name`. `folder` is its own: where it starts, may write and has its home.
pub(crate) async fn start(
    name: &str,
    program: &Program,
    folder: &Path,
    secrets: &Secrets,
    flow: &Flow,
) -> Result<(Process, ServiceStreams), TransportError> {
    let has_hosts = !program.hosts.is_empty();
    let mut env: BTreeMap<String, String> =
        has_hosts.then(proxy::environment).into_iter().flatten().collect();
    let mut readable = program.read.clone();
    if has_hosts {
        let authorities = AUTHORITIES.map(PathBuf::from).into_iter();
        readable.extend(authorities.filter(|path| path.exists() && !program.read.contains(path)));
    }
    for (name, value) in &program.env {
        env.insert(name.clone(), resolved(value, secrets)?);
    }
    let spec = ServiceSpec {
        argv: program.argv.clone(),
        env,
        folder: folder.to_owned(),
        cwd: program.cwd.clone(),
        readable,
        writable: program.write.clone(),
        trust: match program.on_host {
            true => Trust::Host,
            false => Trust::Sandboxed,
        },
        listens_on: has_hosts.then_some(proxy::PORT),
        limits: Limits {
            // A server lives as long as its agent, not as long as a call.
            cpu_seconds: 24 * 3600,
            ..Limits::default()
        },
    };
    let (mut service, streams) = Service::start(spec).await.map_err(TransportError::new)?;
    let gate = || Gate::new(name, program.hosts.clone(), flow.kept_from.clone());
    let proxy = service
        .take_listener()
        .map(|listener| Proxy::start(listener, gate()));
    let process = Process {
        service,
        _proxy: proxy.transpose().map_err(TransportError::new)?,
    };
    Ok((process, streams))
}

/// A client of streamable HTTP.
pub(crate) type Http = StreamableHttpClientTransport<BoundedHttp>;

/// The client of an address. Nothing is sent yet.
pub(crate) fn http(
    endpoint: &Endpoint,
    secrets: &Secrets,
    authorizer: Option<Arc<Authorizer>>,
    flow: Arc<Flow>,
) -> Result<Http, TransportError> {
    let bearer = endpoint.bearer.as_deref().map(|bearer| resolved(bearer, secrets));
    let mut config = StreamableHttpClientTransportConfig::with_uri(endpoint.url.as_str());
    config.auth_header = bearer.transpose()?;
    config.custom_headers = headers(endpoint, secrets)?;
    let url = Url::parse(&endpoint.url).map_err(TransportError::new)?;
    let door = match endpoint.has_own_token() {
        true => Door::OwnToken(own_tokens(&config)),
        false => Door::Login(authorizer),
    };
    Ok(StreamableHttpClientTransport::with_client(
        BoundedHttp::new(client(&url)?, url, door, flow),
        config,
    ))
}

/// The tokens that requests carry by the configuration, without the word that says of what kind they are.
fn own_tokens(config: &StreamableHttpClientTransportConfig) -> Arc<[String]> {
    let header = config.custom_headers.get(&header::AUTHORIZATION);
    let header = header.and_then(|value| value.to_str().ok());
    let tokens = config.auth_header.as_deref().into_iter().chain(header);
    let bare = tokens.filter_map(|token| token.split_ascii_whitespace().last());
    bare.filter(|token| hidden::can_hide(token))
        .map(str::to_owned)
        .collect()
}

/// The configured headers of every request.
pub(crate) fn headers(
    endpoint: &Endpoint,
    secrets: &Secrets,
) -> Result<HashMap<HeaderName, HeaderValue>, TransportError> {
    let mut headers = HashMap::new();
    for (name, value) in &endpoint.headers {
        let value = resolved(value, secrets)?;
        let name: HeaderName = name.parse().map_err(TransportError::new)?;
        let mut value = HeaderValue::from_str(&value).map_err(TransportError::new)?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// How a server says what it wants of who may use it.
pub(crate) fn challenge(headers: &HeaderMap) -> Option<String> {
    let said = headers.get_all(header::WWW_AUTHENTICATE).iter();
    let said: Vec<&str> = said.filter_map(|value| value.to_str().ok()).collect();
    let said = said.join(", ");
    (!said.is_empty() && said.len() <= limits::CHALLENGE_MAX_BYTES).then_some(said)
}

/// A client for one address.
pub(crate) fn client(url: &Url) -> Result<reqwest::Client, TransportError> {
    let is_loopback = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    // A host's own choice of cryptography stands.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut client = reqwest::Client::builder()
        .connect_timeout(limits::SEND_TIMEOUT)
        // A redirect would carry the token to another host.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("annals/", env!("CARGO_PKG_VERSION")));
    if is_loopback {
        client = client.no_proxy();
    }
    client.build().map_err(TransportError::new)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    async fn read(bytes: &[u8]) -> (io::Result<usize>, Arc<Flow>) {
        let flow = Arc::new(Flow::default());
        let mut out = Vec::new();
        let read = Bounded::new(bytes, flow.clone()).read_to_end(&mut out).await;
        (read, flow)
    }

    #[tokio::test]
    async fn lines_pass_and_a_line_beyond_the_bound_ends_the_stream() {
        let (fine, flow) = read(b"{}\n{}\n").await;
        assert_eq!((fine.unwrap(), flow.reason()), (6, None));
        let long = vec![b'x'; limits::MESSAGE_MAX_BYTES + 2];
        let (cut, flow) = read(&long).await;
        assert!(cut.is_err() && flow.reason().unwrap().contains("16777216 bytes"));
    }

    #[tokio::test]
    async fn messages_are_counted_for_one_request() {
        let flood = vec![b'\n'; limits::MESSAGES_PER_REQUEST_MAX + 2];
        let (cut, flow) = read(&flood).await;
        assert!(cut.is_err() && flow.reason().unwrap().contains("20000 messages"));
        assert!(flow.cancel.is_cancelled());
    }
}
