//! One session with a server: handshake, list, calls. Every wait is bounded here, whatever the server does.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use annals_core::redact::Secrets;
use annals_sandbox::service::Service;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ClientRequest,
    Implementation, ListToolsRequest, PaginatedRequestParams, ProgressNotificationParam, ProgressToken,
    ProtocolVersion, ServerResult,
};
use rmcp::service::{
    ClientInitializeError, NotificationContext, PeerRequestOptions, RequestHandle, RunningService,
};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt as _, Peer, RoleClient, ServiceError};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::config::{ServerConfig, Transport};
use crate::definition::{Definition, Digest};
use crate::limits;
use crate::text;
use crate::transport::{self, Bounded, Flow, TransportError};

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
    /// What came is not what the protocol allows.
    #[error("the server broke the protocol: {0}")]
    Protocol(String),
    /// The server wants to know something first.
    #[error("the server asks for input that nobody here can give")]
    InputRequired,
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

/// What a server offers, and how much of it could not be kept.
#[derive(Debug, Clone, Default)]
pub struct Offer {
    /// Its tools, in its own order.
    pub tools: Vec<Definition>,
    /// The digest of each, by name.
    pub digests: BTreeMap<String, Digest>,
    /// Tools that are malformed, too large, or beyond the bound.
    pub left_out: usize,
}

/// Answers what a server asks or tells.
#[derive(Clone)]
struct Handler {
    flow: Arc<Flow>,
    progress: Arc<Mutex<HashMap<ProgressToken, mpsc::Sender<Progress>>>>,
    list_changed: Arc<AtomicBool>,
}

impl Handler {
    fn watch(&self, token: ProgressToken) -> (mpsc::Receiver<Progress>, Watch<'_>) {
        let (sender, receiver) = mpsc::channel(16);
        let mut watched = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        watched.insert(token.clone(), sender);
        (receiver, Watch { handler: self, token })
    }
}

/// Takes no more signs of life when it is dropped.
struct Watch<'h> {
    handler: &'h Handler,
    token: ProgressToken,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let mut watched = self
            .handler
            .progress
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        watched.remove(&self.token);
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        // Nothing is advertised that is not implemented: servers offer more to clients that claim more.
        ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("annals", env!("CARGO_PKG_VERSION")),
        )
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
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
        self.list_changed.store(true, Ordering::Relaxed);
    }
}

/// A session with a server. Dropping it ends the server's process.
pub struct Connection {
    running: RunningService<RoleClient, Handler>,
    handler: Handler,
    service: Mutex<Option<Service>>,
    /// What is offered now.
    offer: Mutex<Offer>,
    patience: Patience,
}

impl Connection {
    /// Starts or reaches the server, shakes hands and lists its tools.
    pub async fn open(
        config: &ServerConfig,
        folder: &Path,
        secrets: &Secrets,
        patience: Patience,
    ) -> Result<Self, ConnectionError> {
        let opening = async {
            let connection = Self::shake_hands(config, folder, secrets, patience).await?;
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
            let (tried, handler, service) = try_lifecycle(config, folder, secrets, lifecycle.clone()).await?;
            let error = match tried {
                Ok(running) => {
                    let connection = Connection {
                        running,
                        handler,
                        service: Mutex::new(service),
                        offer: Mutex::default(),
                        patience,
                    };
                    connection.check_revision()?;
                    return Ok(connection);
                }
                Err(error) => error,
            };
            let answers_crossed = matches!(error, ClientInitializeError::ConflictInitResponseId(..));
            let is_probe = matches!(lifecycle, ClientLifecycleMode::Discover { .. });
            let reason = match (is_about_streams(&error), service) {
                (true, Some(service)) => obituary(&handler.flow, service).await,
                _ => text::one_line(&said(&error), limits::ERROR_MAX_CHARS),
            };
            refused = ConnectionError::Closed(reason);
            if !answers_crossed && !is_probe {
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
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (service, self.handler.flow.reason()) {
            (Some(service), _) => obituary(&self.handler.flow, service).await,
            (None, Some(reason)) => reason.to_owned(),
            (None, None) => "the connection was closed".to_owned(),
        }
    }

    /// The digest of what the server offers under this name now; lists again if the server said that something changed.
    pub(crate) async fn digest_of(&self, tool: &str) -> Result<Option<Digest>, ConnectionError> {
        if self.handler.list_changed.swap(false, Ordering::Relaxed) {
            self.list_again().await?;
        }
        let offer = self.offer.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(offer.digests.get(tool).cloned())
    }

    /// What the server offers, as it said last.
    pub fn offer(&self) -> Offer {
        self.offer.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lists the tools, within the time that a start may take.
    async fn list_again(&self) -> Result<(), ConnectionError> {
        let listed = tokio::time::timeout(self.patience.startup, self.list()).await;
        listed.unwrap_or(Err(ConnectionError::TooLong(self.patience.startup)))
    }

    async fn list(&self) -> Result<(), ConnectionError> {
        let mut offer = Offer::default();
        let has_tools = self
            .running
            .peer_info()
            .is_none_or(|info| info.capabilities.tools.is_some());
        let mut cursor = None;
        let mut seen = HashSet::new();
        for _ in 0..limits::PAGES_MAX {
            if !has_tools {
                break;
            }
            let (tools, next) = self.page(cursor.take(), &mut offer.left_out).await?;
            for tool in tools {
                if offer.tools.len() < limits::TOOLS_MAX && tool.fits() {
                    offer.tools.push(tool);
                } else {
                    offer.left_out += 1;
                }
            }
            match next {
                None => break,
                Some(next) if !seen.insert(next.clone()) => {
                    return Err(ConnectionError::Protocol(
                        "its list of tools runs in a circle".to_owned(),
                    ));
                }
                Some(next) => cursor = Some(next),
            }
        }
        // Of tools with one name the first counts, as in the pins.
        let digests = offer
            .tools
            .iter()
            .rev()
            .map(|tool| (tool.name.clone(), tool.digest()));
        offer.digests = digests.collect();
        *self.offer.lock().unwrap_or_else(PoisonError::into_inner) = offer;
        Ok(())
    }

    async fn page(
        &self,
        cursor: Option<String>,
        left_out: &mut usize,
    ) -> Result<(Vec<Definition>, Option<String>), ConnectionError> {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
        let handle = self.send(request).await?;
        let answer = tokio::select! {
            answer = handle.rx => answer,
            () = self.handler.flow.cancel.cancelled() => return Err(self.ended().await),
        };
        match self.judged(answer).await? {
            ServerResult::ListToolsResult(page) => {
                Ok((page.tools.iter().map(Definition::of).collect(), page.next_cursor))
            }
            // One malformed tool must not cost the others.
            ServerResult::CustomResult(raw) => {
                let tools = raw.0.get("tools").and_then(Value::as_array);
                let tools =
                    tools.ok_or_else(|| ConnectionError::Protocol("its list of tools is none".to_owned()))?;
                let read: Vec<Definition> = tools
                    .iter()
                    .filter_map(|tool| serde_json::from_value(tool.clone()).ok())
                    .collect();
                *left_out += tools.len() - read.len();
                let next = raw.0.get("nextCursor").and_then(Value::as_str);
                Ok((read, next.map(str::to_owned)))
            }
            _ => Err(ConnectionError::Protocol(
                "it answered another question than the one asked".to_owned(),
            )),
        }
    }

    /// Calls a tool by the server's own name for it. `on_progress` hears signs of life.
    pub async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        cancel: &CancellationToken,
        on_progress: impl Fn(&Progress),
    ) -> Result<CallToolResult, ConnectionError> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let mut handle = self.send(request).await?;
        let (mut signs, _watch) = self.handler.watch(handle.progress_token.clone());
        let patience = self.patience;
        let total = tokio::time::sleep(patience.total);
        tokio::pin!(total);
        let stopped = loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => break ConnectionError::Cancelled,
                () = self.handler.flow.cancel.cancelled() => return Err(self.ended().await),
                answer = &mut handle.rx => return called(self.judged(answer).await?),
                () = &mut total => break ConnectionError::TooLong(patience.total),
                Some(sign) = signs.recv() => on_progress(&sign),
                () = tokio::time::sleep(patience.idle) => break ConnectionError::Silent(patience.idle),
            }
        };
        abandon(handle, &stopped);
        Err(stopped)
    }

    async fn send(&self, request: ClientRequest) -> Result<RequestHandle<RoleClient>, ConnectionError> {
        self.handler.flow.asked();
        let peer: &Peer<RoleClient> = &self.running;
        let sending = peer.send_request_with_option(request, PeerRequestOptions::no_options());
        match tokio::time::timeout(limits::SEND_TIMEOUT, sending).await {
            Ok(Ok(handle)) => Ok(handle),
            Ok(Err(_)) => Err(self.ended().await),
            Err(_) => Err(ConnectionError::Silent(limits::SEND_TIMEOUT)),
        }
    }

    async fn ended(&self) -> ConnectionError {
        ConnectionError::Closed(self.how_it_ended().await)
    }

    async fn judged(
        &self,
        answer: Result<Result<ServerResult, ServiceError>, tokio::sync::oneshot::error::RecvError>,
    ) -> Result<ServerResult, ConnectionError> {
        match answer {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(ServiceError::McpError(error))) => Err(ConnectionError::Refused {
                code: error.code.0,
                message: text::one_line(&error.message, limits::ERROR_MAX_CHARS),
            }),
            Ok(Err(ServiceError::UnexpectedResponse)) => Err(ConnectionError::Protocol(
                "its answer has no known form".to_owned(),
            )),
            Ok(Err(ServiceError::TransportSend(error))) => Err(ConnectionError::Closed(text::one_line(
                &error.to_string(),
                limits::ERROR_MAX_CHARS,
            ))),
            Ok(Err(_)) | Err(_) => Err(self.ended().await),
        }
    }
}

/// Tells the server that nobody waits any more, without waiting for it to listen.
fn abandon(handle: RequestHandle<RoleClient>, why: &ConnectionError) {
    let reason = why.to_string();
    tokio::spawn(async move {
        let _ = tokio::time::timeout(limits::SEND_TIMEOUT, handle.cancel(Some(reason))).await;
    });
}

fn called(result: ServerResult) -> Result<CallToolResult, ConnectionError> {
    match result {
        ServerResult::CallToolResult(result) => Ok(result),
        ServerResult::InputRequiredResult(_) => Err(ConnectionError::InputRequired),
        ServerResult::EmptyResult(_) => Ok(CallToolResult::success(Vec::new())),
        // Content of a kind that is not known yet must not cost the rest.
        ServerResult::CustomResult(raw) => crate::result::salvaged(&raw.0)
            .ok_or_else(|| ConnectionError::Protocol("its result has no known form".to_owned())),
        _ => Err(ConnectionError::Protocol(
            "it answered another question than the one asked".to_owned(),
        )),
    }
}

/// What came of one attempt to shake hands.
type Tried = (
    Result<RunningService<RoleClient, Handler>, ClientInitializeError>,
    Handler,
    Option<Service>,
);

async fn try_lifecycle(
    config: &ServerConfig,
    folder: &Path,
    secrets: &Secrets,
    lifecycle: ClientLifecycleMode,
) -> Result<Tried, ConnectionError> {
    let handler = Handler {
        flow: Arc::default(),
        progress: Arc::default(),
        list_changed: Arc::default(),
    };
    match &config.transport {
        Transport::Stdio(program) => {
            let (service, (stdout, stdin)) = transport::start(program, folder, secrets).await?;
            let stdout = Bounded::new(stdout, handler.flow.clone());
            let transport = AsyncRwTransport::new(stdout, stdin).with_max_line_length(usize::MAX);
            let tried = handler.clone().serve_with_lifecycle(transport, lifecycle).await;
            Ok((tried, handler, Some(service)))
        }
        Transport::Http(endpoint) => {
            let transport = transport::http(endpoint, secrets)?;
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
async fn obituary(flow: &Flow, service: Service) -> String {
    let last_words = service.last_words();
    let how = match (service.ended().await, flow.reason()) {
        (_, Some(reason)) => format!("{reason}, and was ended"),
        (Some(how), None) => how,
        (None, None) => "it closed its streams and was killed".to_owned(),
    };
    match text::one_line(last_lines(&last_words), 500) {
        words if words.is_empty() => how,
        words => format!("{how}; it said: {words}"),
    }
}

/// The end of a log, from the beginning of a line.
fn last_lines(log: &str) -> &str {
    let log = log.trim_end();
    let from = log.len().saturating_sub(400);
    let from = (from..=log.len())
        .find(|at| log.is_char_boundary(*at))
        .unwrap_or(log.len());
    match (from, log[from..].find('\n')) {
        (1.., Some(line_end)) => &log[from + line_end + 1..],
        _ => &log[from..],
    }
}
