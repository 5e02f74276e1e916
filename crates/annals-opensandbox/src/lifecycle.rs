//! The lifecycle server: sandboxes made, found, renewed, deleted.
//!
//! Requests that change nothing twice are repeated until an answer comes or the budget is used up. Creating is not among
//! them: whether a lost request made a sandbox is found out by listing ([`Lifecycle::list`]).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use reqwest::header::DATE;
use reqwest::{Method, RequestBuilder, Response};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use annals_remote::http::json;
use annals_remote::{ApiError, Server};

use crate::wire::{CreateSandbox, Endpoint, RenewExpiration, SandboxInfo, SandboxPage};

const PAGE_SIZE: usize = 100;
/// A server with more pages than this repeats itself.
const PAGES_MAX_COUNT: usize = 100;

/// A client of one lifecycle server.
#[derive(Debug, Clone)]
pub(crate) struct Lifecycle {
    server: Server,
    /// What the server's clock said, and when: expiry is a time of that clock.
    clock: Arc<Mutex<Option<(Timestamp, Instant)>>>,
}

impl Lifecycle {
    pub(crate) fn new(server: Server) -> Self {
        Self {
            server,
            clock: Arc::default(),
        }
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        self.server.request(method, path, &[])
    }

    async fn send(&self, doing: &'static str, request: RequestBuilder) -> Result<Response, ApiError> {
        let timeout = self.server.http().timing().request;
        self.send_within(doing, request, timeout).await
    }

    async fn send_within(
        &self,
        doing: &'static str,
        request: RequestBuilder,
        timeout: Duration,
    ) -> Result<Response, ApiError> {
        let answer = request.timeout(timeout).send().await;
        if let Ok(answer) = &answer {
            let date = answer.headers().get(DATE).and_then(|date| date.to_str().ok());
            if let Some(now) = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok()) {
                self.observe(now.timestamp());
            }
        }
        self.server.http().accepted(doing, answer).await
    }

    fn observe(&self, now: Timestamp) {
        *self.clock.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, Instant::now()));
    }

    /// The time of the server's clock after `wait`, in RFC 3339; none before the server told its time.
    pub(crate) fn now_after(&self, wait: Duration) -> Option<String> {
        let (told, at) = (*self.clock.lock().unwrap_or_else(PoisonError::into_inner))?;
        let later = told.checked_add(SignedDuration::try_from(at.elapsed() + wait).ok()?);
        later.ok().map(|later| later.to_string())
    }

    async fn repeated<T, F: Future<Output = Result<T, ApiError>> + Send>(
        &self,
        attempt: impl Fn() -> F,
    ) -> Result<T, ApiError> {
        self.server.http().repeated(attempt).await
    }

    async fn get<T: DeserializeOwned>(
        &self,
        doing: &'static str,
        path: &[&str],
        query: &[(&str, String)],
    ) -> Result<T, ApiError> {
        self.repeated(|| async {
            let request = self.server.request(Method::GET, path, query);
            json(doing, self.send(doing, request).await?).await
        })
        .await
    }

    /// The server's version, where it tells one.
    pub(crate) async fn version(&self) -> Result<String, ApiError> {
        let doing = "ask for the server's version";
        let told: serde_json::Value = self.get(doing, &["version"], &[]).await?;
        let version = told["version"].as_str().map(str::to_owned);
        Ok(version.unwrap_or_else(|| told.to_string()))
    }

    /// Not repeated: an error that is transient leaves open whether a sandbox was made.
    pub(crate) async fn create(&self, body: &CreateSandbox<'_>) -> Result<SandboxInfo, ApiError> {
        let doing = "create a sandbox";
        let request = self.request(Method::POST, &["sandboxes"]).json(body);
        let timeout = self.server.http().timing().create;
        let created: SandboxInfo = json(doing, self.send_within(doing, request, timeout).await?).await?;
        if let Some(at) = created.created_at.as_deref().and_then(|at| at.parse().ok())
            && self.now_after(Duration::ZERO).is_none()
        {
            self.observe(at);
        }
        Ok(created)
    }

    pub(crate) async fn sandbox(&self, id: &str) -> Result<SandboxInfo, ApiError> {
        self.get("look at the sandbox", &["sandboxes", id], &[]).await
    }

    /// All sandboxes that carry these metadata, whatever their state.
    pub(crate) async fn list(
        &self,
        metadata: &BTreeMap<String, String>,
    ) -> Result<Vec<SandboxInfo>, ApiError> {
        let filter = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(metadata)
            .finish();
        let mut found = Vec::new();
        for page in 1..=PAGES_MAX_COUNT {
            let query = [
                ("metadata", filter.clone()),
                ("page", page.to_string()),
                ("pageSize", PAGE_SIZE.to_string()),
            ];
            let listed: SandboxPage = self.get("list sandboxes", &["sandboxes"], &query).await?;
            found.extend(listed.items);
            if !listed.pagination.has_next_page {
                break;
            }
        }
        // A server that takes no notice of the filter must not make us delete what is not ours.
        found.retain(|info| {
            metadata
                .iter()
                .all(|(key, value)| info.metadata(key) == Some(value))
        });
        Ok(found)
    }

    /// Deleting what is gone is a success.
    pub(crate) async fn delete(&self, id: &str) -> Result<(), ApiError> {
        let doing = "delete the sandbox";
        let deleted = self
            .repeated(|| async {
                self.send(doing, self.request(Method::DELETE, &["sandboxes", id]))
                    .await
                    .map(drop)
            })
            .await;
        match deleted {
            Err(error) if error.is_not_found() => Ok(()),
            deleted => deleted,
        }
    }

    /// `expires_at` in RFC 3339, by the server's clock.
    pub(crate) async fn renew(&self, id: &str, expires_at: String) -> Result<(), ApiError> {
        let doing = "renew the sandbox";
        let body = RenewExpiration { expires_at };
        self.repeated(|| async {
            let request = self.request(Method::POST, &["sandboxes", id, "renew-expiration"]);
            self.send(doing, request.json(&body)).await.map(drop)
        })
        .await
    }

    pub(crate) async fn resume(&self, id: &str) -> Result<(), ApiError> {
        let doing = "resume the sandbox";
        self.repeated(|| async {
            let request = self.request(Method::POST, &["sandboxes", id, "resume"]);
            self.send(doing, request).await.map(drop)
        })
        .await
    }

    pub(crate) async fn endpoint(&self, id: &str, port: u16, through: Route) -> Result<Endpoint, ApiError> {
        let query: &[(&str, String)] = match through {
            Route::Direct => &[],
            Route::ServerProxy => &[("use_server_proxy", "true".to_owned())],
        };
        let port = port.to_string();
        self.get(
            "ask for the sandbox's address",
            &["sandboxes", id, "endpoints", &port],
            query,
        )
        .await
    }
}

/// How the ports of a sandbox are reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Route {
    /// At the address that the server names.
    #[default]
    Direct,
    /// Through the server, when the network of the sandboxes cannot be reached from here.
    ServerProxy,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn expiry_is_reckoned_by_the_server_s_clock() {
        let address = annals_remote::ServerAddress::new("http://127.0.0.1:1/v1", None);
        let server = Server::parse(address, &crate::backend::DIALECT).unwrap();
        let lifecycle = Lifecycle::new(server);
        assert_eq!(lifecycle.now_after(Duration::from_secs(60)), None);
        let date = jiff::fmt::rfc2822::parse("Tue, 17 Nov 2026 05:25:32 GMT").unwrap();
        lifecycle.observe(date.timestamp());
        tokio::time::advance(Duration::from_secs(28)).await;
        assert_eq!(
            lifecycle.now_after(Duration::from_secs(60)).as_deref(),
            Some("2026-11-17T05:27:00Z")
        );
    }
}
