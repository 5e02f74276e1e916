//! The protocol over streamable HTTP, for a program that has its own listener and knows whom it let in.
//!
//! Clients of revisions up to 2025-11-25 have sessions: an answer whose connection broke is asked for again by
//! `Last-Event-ID`. Later revisions have none, each request stands alone.

use std::sync::Arc;

use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
pub use rmcp::transport::streamable_http_server::session::{SessionState, SessionStore, SessionStoreError};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use super::AnnalsServer;

/// Answers requests.
pub type Service = StreamableHttpService<AnnalsServer, LocalSessionManager>;

/// One agent over HTTP, with the sessions of its clients. Cheap to clone.
#[derive(Clone)]
pub struct HttpServer {
    service: Service,
    sessions: Arc<LocalSessionManager>,
}

impl HttpServer {
    /// Serves until `stop` is cancelled. `kept` remembers sessions beyond this process.
    ///
    /// Host and Origin are not looked at: who has the listener has done that.
    pub fn new(
        server: AnnalsServer,
        kept: Arc<dyn SessionStore>,
        body_max_bytes: usize,
        stop: CancellationToken,
    ) -> Self {
        let mut config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_max_request_body_bytes(body_max_bytes)
            .with_cancellation_token(stop);
        config.session_store = Some(kept);
        let sessions = Arc::new(LocalSessionManager::default());
        HttpServer {
            service: Service::new(move || Ok(server.clone()), sessions.clone(), config),
            sessions,
        }
    }

    /// What answers requests.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// How many sessions this process has.
    pub async fn sessions(&self) -> usize {
        self.sessions.sessions.read().await.len()
    }
}
