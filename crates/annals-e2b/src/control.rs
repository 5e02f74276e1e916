//! The server: sandboxes made, found, renewed, deleted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use annals_remote::{ApiError, ControlPlane, Daemon, Record, Server, Status, http};
use annals_sandbox::Limits;
use async_trait::async_trait;
use reqwest::Method;
use serde_json::json;

use crate::envd::{self, Access, Envd};
use crate::settings::Settings;
use crate::wire::{NewSandbox, SandboxInfo};

const PAGE_SIZE: usize = 100;
/// A server with more pages than this repeats itself.
const PAGES_MAX_COUNT: usize = 100;
const NEXT_PAGE_HEADER: &str = "x-next-token";

/// A client of one server, with what its sandboxes are made of.
pub(crate) struct Control {
    settings: Settings,
    server: Server,
}

impl Control {
    pub(crate) fn new(settings: Settings, server: Server) -> Self {
        Self { settings, server }
    }

    fn ttl(&self) -> Duration {
        self.settings.fleet.ttl()
    }

    async fn info(&self, id: &str) -> Result<SandboxInfo, ApiError> {
        let doing = "look at the sandbox";
        self.server
            .http()
            .repeated(|| async {
                let request = self.server.request(Method::GET, &["sandboxes", id], &[]);
                http::json(doing, self.server.send(doing, request).await?).await
            })
            .await
    }

    /// Wakes the sandbox if it sleeps, and lets it live for no less than `ttl`.
    async fn attach(&self, id: &str, ttl: Duration) -> Result<SandboxInfo, ApiError> {
        let doing = "connect to the sandbox";
        let body = json!({"timeout": ttl.as_secs()});
        self.server
            .http()
            .repeated(|| async {
                let request = self
                    .server
                    .request(Method::POST, &["sandboxes", id, "connect"], &[]);
                http::json(doing, self.server.send(doing, request.json(&body)).await?).await
            })
            .await
    }

    async fn page(
        &self,
        path: &[&str],
        query: &[(&str, String)],
    ) -> Result<(Vec<SandboxInfo>, Option<String>), ApiError> {
        let doing = "list sandboxes";
        self.server
            .http()
            .repeated(|| async {
                let answer = self
                    .server
                    .send(doing, self.server.request(Method::GET, path, query))
                    .await?;
                let next = answer.headers().get(NEXT_PAGE_HEADER);
                let next = next.and_then(|token| token.to_str().ok()).map(str::to_owned);
                let next = next.filter(|token| !token.is_empty());
                Ok((http::json(doing, answer).await?, next))
            })
            .await
    }

    async fn list_all(&self, filter: &str) -> Result<Vec<SandboxInfo>, ApiError> {
        let mut query = vec![
            ("metadata", filter.to_owned()),
            ("state", "running,paused".to_owned()),
            ("limit", PAGE_SIZE.to_string()),
        ];
        let mut found = Vec::new();
        for page in 0..PAGES_MAX_COUNT {
            let listed = match self.page(&["v2", "sandboxes"], &query).await {
                // Servers that implement a part of the protocol have only the first edition, which has no pages.
                Err(error) if page == 0 && error.is_not_found() => {
                    return Ok(self.page(&["sandboxes"], &query[..1]).await?.0);
                }
                listed => listed?,
            };
            found.extend(listed.0);
            let Some(next) = listed.1 else { break };
            query.truncate(3);
            query.push(("nextToken", next));
        }
        Ok(found)
    }
}

fn record(info: SandboxInfo) -> Record {
    Record {
        phase: info.phase(),
        id: info.sandbox_id,
        metadata: info.metadata.unwrap_or_default(),
        created_at: info.started_at,
    }
}

#[async_trait]
impl ControlPlane for Control {
    async fn list(&self, metadata: &BTreeMap<String, String>) -> Result<Vec<Record>, ApiError> {
        let filter = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(metadata)
            .finish();
        let mut found: Vec<Record> = self.list_all(&filter).await?.into_iter().map(record).collect();
        // A server that takes no notice of the filter must not make us delete what is not ours.
        found.retain(|record| {
            metadata
                .iter()
                .all(|(key, value)| record.metadata.get(key) == Some(value))
        });
        Ok(found)
    }

    async fn create(&self, metadata: &BTreeMap<String, String>, _: &Limits) -> Result<String, ApiError> {
        let doing = "create a sandbox";
        let options = &self.settings.options;
        let body = NewSandbox {
            template_id: &options.template,
            timeout: self.ttl().as_secs(),
            metadata,
            env_vars: &options.env,
            secure: true,
            allow_internet_access: options.internet,
        };
        let request = self.server.request(Method::POST, &["sandboxes"], &[]);
        let http = self.server.http();
        let answer = http
            .send_within(doing, request.json(&body), http.timing().create)
            .await?;
        let made: SandboxInfo = http::json(doing, answer).await?;
        Ok(made.sandbox_id)
    }

    async fn status(&self, id: &str) -> Result<Status, ApiError> {
        let info = self.info(id).await?;
        Ok(Status {
            phase: info.phase(),
            told: info.state.unwrap_or_else(|| "running".to_owned()),
        })
    }

    async fn delete(&self, id: &str) -> Result<(), ApiError> {
        let doing = "delete the sandbox";
        let deleted = self
            .server
            .http()
            .repeated(|| async {
                let request = self.server.request(Method::DELETE, &["sandboxes", id], &[]);
                self.server.send(doing, request).await.map(drop)
            })
            .await;
        match deleted {
            Err(error) if error.is_not_found() => Ok(()),
            deleted => deleted,
        }
    }

    async fn wake(&self, id: &str) -> Result<(), ApiError> {
        self.attach(id, self.ttl()).await.map(drop)
    }

    async fn renew(&self, id: &str, ttl: Duration) -> Result<(), ApiError> {
        let doing = "renew the sandbox";
        let body = json!({"timeout": ttl.as_secs()});
        let renewed = self
            .server
            .http()
            .repeated(|| async {
                let request = self
                    .server
                    .request(Method::POST, &["sandboxes", id, "timeout"], &[]);
                self.server.send(doing, request.json(&body)).await.map(drop)
            })
            .await;
        match renewed {
            // No such sandbox, or no such route: not every server has it.
            Err(error) if error.is_not_found() => {
                self.info(id).await?;
                match self.attach(id, ttl).await {
                    // It is there, so it is the route that is not.
                    Err(error) if error.is_not_found() => Err(ApiError::protocol(
                        doing,
                        "the server can neither set its timeout nor connect to it, so it lives as long as it was made for",
                    )),
                    attached => attached.map(drop),
                }
            }
            renewed => renewed,
        }
    }

    async fn connect(&self, id: &str) -> Result<Option<Arc<dyn Daemon>>, ApiError> {
        let info = match self.attach(id, self.ttl()).await {
            Err(error) if error.is_not_found() => self.info(id).await,
            attached => attached,
        };
        let info = match info {
            Err(error) if error.is_not_found() => return Ok(None),
            info => info?,
        };
        let address = self
            .settings
            .address(self.server.url(), id, envd::PORT, info.domain.as_deref());
        let address =
            address.ok_or_else(|| ApiError::protocol("use the sandbox's address", "its domain is none"))?;
        let access = Access {
            sandbox: id,
            token: info.envd_access_token.as_deref(),
            user: self.settings.options.user.as_deref().or(info.default_user()),
        };
        let envd = Envd::new(self.server.http().clone(), address, &access)?;
        match envd.health().await {
            Err(error) if error.is_transient() || error.is_not_found() => Ok(None),
            answered => answered.map(|()| Some(Arc::new(envd) as Arc<dyn Daemon>)),
        }
    }
}
