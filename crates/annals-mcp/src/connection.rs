//! One session with a server: handshake, list, calls. Every wait is bounded here, whatever the server does.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use annals_core::redact::Secrets;
use annals_sandbox::service::ServiceEnd;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientRequest, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, FormElicitationCapability, Implementation, ProgressNotificationParam,
    ProgressToken, ProtocolVersion, ServerResult, UrlElicitationCapability,
};
use rmcp::service::{
    ClientInitializeError, NotificationContext, PeerRequestOptions, RequestContext, RequestHandle,
    RunningService,
};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt as _, ErrorData, Peer, RoleClient, ServiceError,
};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::auth::{Authorizer, LoginNeeded, NoToken};
use crate::config::{ServerConfig, Transport};
use crate::limits;
use crate::listing::{Changes, Listing};
use crate::question::{self, Question};
use crate::text;
use crate::transport::{self, Bounded, Flow, Process, TransportError};

/// By which a server says that a person has to open pages first.
pub(crate) const URL_ELICITATION_REQUIRED: i32 = -32042;

/// Why a session could not begin, or a request got no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The program did not start, or the address was not reached.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The session ended.
    #[error("the server ended the session: {0}")]
    Closed(String),
    /// No sign of life.
    #[error("the server gave no sign of life for {} s", .0.as_secs_f64())]
    Silent(Duration),
    /// Signs of life and no answer.
    #[error("the server did not answer within {} s", .0.as_secs_f64())]
    TooLong(Duration),
    /// The turn was cancelled.
    #[error("the turn was cancelled while the server worked")]
    Cancelled,
    /// The server refused the request.
    #[error("the server refused: {message} (code {code})")]
    Refused {
        /// Of the protocol.
        code: i32,
        /// In the server's words, cleaned.
        message: String,
    },
    /// A person has to open pages before the server does what it was asked.
    #[error("the server refused: {message} (code {code})", code = URL_ELICITATION_REQUIRED)]
    PagesFirst {
        /// In the server's words, cleaned.
        message: String,
        /// Which pages, as the server sent them.
        pages: Vec<Value>,
    },
    /// What came is not what the protocol allows.
    #[error("the server broke the protocol: {0}")]
    Protocol(String),
    /// A person has to log in first.
    #[error("the server wants a login: {}", .0.reason)]
    Login(LoginNeeded),
    /// The login that is there could not be renewed now.
    #[error("the request was not made: {0}")]
    NoToken(String),
    /// The server wants to know something first.
    #[error("the server asks for input that nobody here can give")]
    InputRequired,
}

impl From<NoToken> for ConnectionError {
    fn from(none: NoToken) -> Self {
        match none {
            NoToken::Login(needed) => ConnectionError::Login(needed),
            NoToken::Failed(why) => ConnectionError::NoToken(why),
        }
    }
}

/// A sign of life.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// How far.
    pub progress: f64,
    /// Of what.
    pub total: Option<f64>,
    /// In the server's words, cleaned.
    pub message: Option<String>,
}

/// How long a server may take.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// From its start to its list of tools.
    pub startup: Duration,
    /// For a call without a sign of life.
    pub idle: Duration,
    /// For a call in all.
    pub total: Duration,
}

/// Answers what a server asks or tells.
#[derive(Clone)]
pub(crate) struct Handler {
    pub(crate) flow: Arc<Flow>,
    progress: Arc<Mutex<Watched>>,
    pub(crate) changes: Arc<Changes>,
    calls: Arc<Mutex<Listeners>>,
}

/// Who hears signs of life.
type Watched = HashMap<ProgressToken, mpsc::Sender<Progress>>;

/// Takes no more signs of life when it is dropped.
pub(crate) struct Watch {
    progress: Arc<Mutex<Watched>>,
    token: ProgressToken,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watched = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        watched.remove(&self.token);
    }
}

/// A question, and where its answer goes.
type Asked = (Question, oneshot::Sender<ElicitResult>);

/// The calls under way, which may be asked something.
#[derive(Default)]
struct Listeners {
    calls: HashMap<u64, mpsc::Sender<Asked>>,
    next: u64,
}

/// Questions of the server's to one call, until it is dropped.
pub(crate) struct Listening {
    pub(crate) questions: mpsc::Receiver<Asked>,
    calls: Arc<Mutex<Listeners>>,
    call: u64,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut listeners = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.calls.remove(&self.call);
    }
}

impl Handler {
    /// The call that a question belongs to. The protocol does not say which one it is; where it may be another's, the
    /// question could be shown to somebody whom it does not concern.
    fn asked_call(&self) -> Option<mpsc::Sender<Asked>> {
        let listeners = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let mut calls = listeners.calls.values();
        match (calls.next(), calls.next()) {
            (Some(call), None) => Some(call.clone()),
            _ => None,
        }
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        // Nothing is advertised that is not implemented: servers offer more to clients that claim more.
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(
            ElicitationCapability::new()
                .with_form(FormElicitationCapability::new())
                .with_url(UrlElicitationCapability::new()),
        );
        ClientConfig::new(
            capabilities,
            Implementation::new("annals", env!("CARGO_PKG_VERSION")),
        )
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let (reply, answer) = oneshot::channel();
        let is_asked = match self.asked_call() {
            Some(call) => call.try_send((Question(request), reply)).is_ok(),
            None => false,
        };
        if !is_asked {
            tracing::warn!(
                "a question of an MCP server was declined: it belongs to no call, or to one of several"
            );
            return Ok(question::declined());
        }
        // A call that went away takes its questions with it.
        let gone = |_| ElicitResult::new(ElicitationAction::Cancel);
        Ok(answer.await.unwrap_or_else(gone))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.flow.message();
        let sender = {
            let watched = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
            watched.get(&params.progress_token).cloned()
        };
        if let Some(sender) = sender {
            // One that is not taken in time is lost: only the newest matters.
            let _ = sender.try_send(Progress {
                progress: params.progress,
                total: params.total,
                message: params.message.map(|message| text::one_line(&message, 200)),
            });
        }
    }

    #[expect(deprecated, reason = "servers of earlier revisions still log")]
    async fn on_logging_message(
        &self,
        params: rmcp::model::LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.flow.message();
        let words = text::one_line(&params.data.to_string(), 500);
        tracing::debug!("an MCP server says: {words}");
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.flow.message();
        self.changes.tell();
    }
}

/// A session with a server. Dropping it ends the server's process.
pub struct Connection {
    pub(crate) running: RunningService<RoleClient, Handler>,
    pub(crate) handler: Handler,
    process: Mutex<Option<Process>>,
    /// What is offered now.
    pub(crate) listing: Listing,
    patience: Patience,
}

impl Connection {
    /// Starts or reaches the server, shakes hands and lists its tools.
    pub(crate) async fn open(
        config: &ServerConfig,
        folder: &Path,
        secrets: &Secrets,
        authorizer: Option<Arc<Authorizer>>,
        patience: Patience,
    ) -> Result<Self, ConnectionError> {
        let opening = async {
            let connection = Self::shake_hands(config, folder, secrets, authorizer, patience).await?;
            connection.list().await?;
            Ok(connection)
        };
        match tokio::time::timeout(patience.startup, opening).await {
            Ok(opened) => opened,
            Err(_) => Err(ConnectionError::TooLong(patience.startup)),
        }
    }

    /// Shakes hands in whichever lifecycle the server knows.
    async fn shake_hands(
        config: &ServerConfig,
        folder: &Path,
        secrets: &Secrets,
        authorizer: Option<Arc<Authorizer>>,
        patience: Patience,
    ) -> Result<Self, ConnectionError> {
        let newest = || vec![ProtocolVersion::V_2026_07_28];
        let either = ClientLifecycleMode::Auto {
            preferred_versions: newest(),
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        };
        let only_newest = ClientLifecycleMode::Discover {
            preferred_versions: newest(),
        };
        let mut refused = ConnectionError::Closed(String::new());
        // A server that takes ten seconds to start answers the first probe when it has been given up already, and the two
        // answers cross. Such a one is asked again, for one lifecycle after the other.
        for lifecycle in [either, only_newest, ClientLifecycleMode::Initialize] {
            let (tried, handler, process) =
                try_lifecycle(config, folder, secrets, authorizer.clone(), lifecycle.clone()).await?;
            if let (Err(_), Some(none)) = (&tried, handler.flow.no_token()) {
                return Err(none.into());
            }
            let error = match tried {
                Ok(running) => {
                    let connection = Connection {
                        running,
                        handler,
                        process: Mutex::new(process),
                        listing: Listing::default(),
                        patience,
                    };
                    connection.check_revision()?;
                    return Ok(connection);
                }
                Err(error) => error,
            };
            // Some servers answer what they do not know with nothing instead of an error.
            let was_misunderstood = matches!(
                error,
                ClientInitializeError::ConflictInitResponseId(..)
                    | ClientInitializeError::ExpectedInitResult(_)
            );
            let is_probe = matches!(lifecycle, ClientLifecycleMode::Discover { .. });
            let reason = match (is_about_streams(&error), process) {
                (true, Some(process)) => obituary(&handler.flow, process).await,
                _ => text::one_line(&said(&error), limits::ERROR_MAX_CHARS),
            };
            refused = ConnectionError::Closed(reason);
            if !was_misunderstood && !is_probe {
                break;
            }
        }
        Err(refused)
    }

    /// A server that answers in a revision that nobody knows does not understand what it is asked, either.
    fn check_revision(&self) -> Result<(), ConnectionError> {
        match self.running.peer_info() {
            Some(info) if !ProtocolVersion::KNOWN_VERSIONS.contains(&info.protocol_version) => {
                let revision = text::one_line(&info.protocol_version.to_string(), 40);
                Err(ConnectionError::Protocol(format!(
                    "it speaks the unknown revision `{revision}`"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Name and version as the server gave them.
    pub fn implementation(&self) -> String {
        let info = self.running.peer_info();
        let of = |implementation: &Implementation| {
            text::one_line(
                &format!("{} {}", implementation.name, implementation.version),
                120,
            )
        };
        info.and_then(|info| info.server_info.as_ref().map(of))
            .unwrap_or_default()
    }

    /// Whether the server has something to read.
    pub fn has_resources(&self) -> bool {
        let info = self.running.peer_info();
        info.is_some_and(|info| info.capabilities.resources.is_some())
    }

    /// The negotiated revision of the protocol.
    pub fn protocol(&self) -> String {
        self.running
            .peer_info()
            .map(|info| info.protocol_version.to_string())
            .unwrap_or_default()
    }

    /// Whether the session has ended.
    pub fn is_closed(&self) -> bool {
        self.running.is_transport_closed() || self.handler.flow.reason().is_some()
    }

    /// How the session ended, with the server's last words.
    pub async fn how_it_ended(&self) -> String {
        let process = self.process.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (process, self.handler.flow.reason()) {
            (Some(process), _) => obituary(&self.handler.flow, process).await,
            (None, Some(reason)) => reason.to_owned(),
            (None, None) => "the connection was closed".to_owned(),
        }
    }

    /// What the server was kept from reaching since this was last asked, with what would allow it.
    pub fn kept_from(&self) -> Vec<String> {
        self.handler.flow.kept_from.take()
    }

    /// Whether the server answers with questions instead of asking while it works, so that a call can be begun anew.
    pub(crate) fn asks_in_rounds(&self) -> bool {
        let info = self.running.peer_info();
        info.is_some_and(|info| info.protocol_version >= ProtocolVersion::V_2026_07_28)
    }

    pub(crate) fn patience(&self) -> Patience {
        self.patience
    }

    /// Fires when the server is cut off.
    pub(crate) fn cut_off(&self) -> &CancellationToken {
        &self.handler.flow.cancel
    }

    /// Hears signs of life of one request.
    pub(crate) fn watch(&self, token: ProgressToken) -> (mpsc::Receiver<Progress>, Watch) {
        let (sender, receiver) = mpsc::channel(16);
        let progress = self.handler.progress.clone();
        let mut watched = progress.lock().unwrap_or_else(PoisonError::into_inner);
        watched.insert(token.clone(), sender);
        drop(watched);
        (receiver, Watch { progress, token })
    }

    /// Hears questions from now on.
    pub(crate) fn listen(&self) -> Listening {
        let (sender, questions) = mpsc::channel(4);
        let calls = self.handler.calls.clone();
        let mut listeners = calls.lock().unwrap_or_else(PoisonError::into_inner);
        let call = listeners.next;
        listeners.next += 1;
        listeners.calls.insert(call, sender);
        drop(listeners);
        Listening {
            questions,
            calls,
            call,
        }
    }

    /// Asks for something that takes no longer than a call without a sign of life may.
    pub(crate) async fn asked(&self, request: ClientRequest) -> Result<ServerResult, ConnectionError> {
        let handle = self.send(request).await?;
        tokio::select! {
            biased;
            () = self.cut_off().cancelled() => Err(self.ended().await),
            answer = handle.rx => self.judged(answer).await,
            () = tokio::time::sleep(self.patience.idle) => Err(ConnectionError::Silent(self.patience.idle)),
        }
    }

    pub(crate) async fn send(
        &self,
        request: ClientRequest,
    ) -> Result<RequestHandle<RoleClient>, ConnectionError> {
        self.handler.flow.asked();
        let peer: &Peer<RoleClient> = &self.running;
        let sending = peer.send_request_with_option(request, PeerRequestOptions::no_options());
        match tokio::time::timeout(limits::SEND_TIMEOUT, sending).await {
            Ok(Ok(handle)) => Ok(handle),
            Ok(Err(_)) => Err(self.ended().await),
            Err(_) => Err(ConnectionError::Silent(limits::SEND_TIMEOUT)),
        }
    }

    pub(crate) async fn ended(&self) -> ConnectionError {
        match self.handler.flow.no_token() {
            Some(none) => none.into(),
            None => ConnectionError::Closed(self.how_it_ended().await),
        }
    }

    pub(crate) async fn judged(
        &self,
        answer: Result<Result<ServerResult, ServiceError>, tokio::sync::oneshot::error::RecvError>,
    ) -> Result<ServerResult, ConnectionError> {
        match answer {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(ServiceError::McpError(error))) => {
                let message = text::one_line(&error.message, limits::ERROR_MAX_CHARS);
                let pages = error
                    .data
                    .as_ref()
                    .and_then(|data| data.get("elicitations")?.as_array());
                match pages.filter(|_| error.code.0 == URL_ELICITATION_REQUIRED) {
                    Some(pages) => Err(ConnectionError::PagesFirst {
                        message,
                        pages: pages.iter().take(limits::PAGES_ASKED_MAX).cloned().collect(),
                    }),
                    None => Err(ConnectionError::Refused {
                        code: error.code.0,
                        message,
                    }),
                }
            }
            Ok(Err(ServiceError::UnexpectedResponse)) => Err(ConnectionError::Protocol(
                "its answer has no known form".to_owned(),
            )),
            Ok(Err(ServiceError::TransportSend(error))) => Err(match self.handler.flow.no_token() {
                Some(none) => none.into(),
                None => ConnectionError::Closed(text::one_line(&error.to_string(), limits::ERROR_MAX_CHARS)),
            }),
            Ok(Err(_)) | Err(_) => Err(self.ended().await),
        }
    }
}

/// What came of one attempt to shake hands.
type Tried = (
    Result<RunningService<RoleClient, Handler>, ClientInitializeError>,
    Handler,
    Option<Process>,
);

async fn try_lifecycle(
    config: &ServerConfig,
    folder: &Path,
    secrets: &Secrets,
    authorizer: Option<Arc<Authorizer>>,
    lifecycle: ClientLifecycleMode,
) -> Result<Tried, ConnectionError> {
    let handler = Handler {
        flow: Arc::default(),
        progress: Arc::default(),
        changes: Arc::default(),
        calls: Arc::default(),
    };
    match &config.transport {
        Transport::Stdio(program) => {
            let started = transport::start(&config.name, program, folder, secrets, &handler.flow).await?;
            let (process, (stdout, stdin)) = started;
            let stdout = Bounded::new(stdout, handler.flow.clone());
            let transport = AsyncRwTransport::new(stdout, stdin).with_max_line_length(usize::MAX);
            let tried = handler.clone().serve_with_lifecycle(transport, lifecycle).await;
            Ok((tried, handler, Some(process)))
        }
        Transport::Http(endpoint) => {
            let transport = transport::http(endpoint, secrets, authorizer, handler.flow.clone())?;
            let tried = handler.clone().serve_with_lifecycle(transport, lifecycle).await;
            Ok((tried, handler, None))
        }
    }
}

/// Whether a handshake failed because the streams ended, so that the process knows more.
fn is_about_streams(error: &ClientInitializeError) -> bool {
    match error {
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. } => true,
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => is_about_streams(fallback),
        _ => false,
    }
}

/// Why a handshake failed: of the older lifecycle, if both were tried.
fn said(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => said(fallback),
        ClientInitializeError::JsonRpcError(error) => {
            format!("it refused: {} (code {})", error.message, error.code.0)
        }
        error => error.to_string(),
    }
}

/// How a server's process ended, with its last words.
async fn obituary(flow: &Flow, process: Process) -> String {
    let ServiceEnd { how, last_words } = process.service.ended().await;
    let how = match (how, flow.reason()) {
        (_, Some(reason)) => format!("{reason}, and was ended"),
        (Some(how), None) => how,
        (None, None) => "it closed its streams and was killed".to_owned(),
    };
    let how = match text::one_line(last_lines(&last_words), 500) {
        words if words.is_empty() => how,
        words => format!("{how}; it said: {words}"),
    };
    let kept_from = flow.kept_from.take().into_iter();
    kept_from.fold(how, |how, refusal| format!("{how}; {refusal}"))
}

/// The end of a log, from the beginning of a line.
fn last_lines(log: &str) -> &str {
    let log = log.trim_end();
    let from = log.ceil_char_boundary(log.len().saturating_sub(400));
    match (from, log[from..].find('\n')) {
        (1.., Some(line_end)) => &log[from + line_end + 1..],
        _ => &log[from..],
    }
}
