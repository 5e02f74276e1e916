//! One login of a person: an address for a browser, and what came back from there.

use std::sync::Arc;

use http::header;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, CredentialStore as _, InMemoryCredentialStore,
    OAuthClientConfig,
};
use serde_json::json;
use url::Url;

use super::file::{Client, Saved};
use super::guarded::{GuardedHttp, keeps_to_tls};
use super::redirect::{Came, Listener, Redirected};
use super::{Authorizer, said};
use crate::limits;
use crate::transport;

/// Why a login did not come about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// The server is no address, or its token is configured.
    #[error("there is nothing to log in to: {0}")]
    NotFor(String),
    /// The server or its authorization server cannot be used.
    #[error("the login cannot be made: {0}")]
    Discovery(String),
    /// The authorization server does not know Annals.
    #[error(
        "the authorization server registers no clients on its own ({reason}): register Annals there with the redirect \
         address `{redirect}`, and give `oauth.client_id` and `oauth.redirect_port` in the configuration of the server"
    )]
    Unregistered {
        /// What the authorization server said.
        reason: String,
        /// Where the browser comes back to.
        redirect: String,
    },
    /// The port is taken.
    #[error(
        "port {port} of this machine cannot be listened on: {reason}; give another `oauth.redirect_port`"
    )]
    Listen {
        /// The port.
        port: u16,
        /// What the system said.
        reason: String,
    },
    /// The person or the authorization server said no.
    #[error("the authorization server refused the login: {0}")]
    Refused(String),
    /// What was pasted is not the answer to this login.
    #[error("this is not the address that the browser was sent to for this login: {0}")]
    NotThis(&'static str),
    /// Nobody came back from the browser.
    #[error("nobody came back from the browser within {} minutes: start again", limits::LOGIN_TIMEOUT.as_secs() / 60)]
    TooLong,
    /// No token came for the code.
    #[error("the login was not completed: {0}")]
    Exchange(String),
    /// The tokens cannot be kept.
    #[error("the login cannot be kept: {0}")]
    Keep(String),
}

/// A login that waits for a person.
pub struct Login {
    authorizer: Arc<Authorizer>,
    manager: AuthorizationManager,
    http: Arc<GuardedHttp>,
    /// The tokens of this login, until they are kept beside everything else.
    tokens: InMemoryCredentialStore,
    client: Client,
    challenge: Option<String>,
    listener: Listener,
    address: Url,
    state: String,
}

impl Login {
    /// Finds out where logins are made and as whom. `scopes` are asked for beside those that were granted.
    pub(crate) async fn begin(authorizer: Arc<Authorizer>, scopes: &[String]) -> Result<Self, LoginError> {
        let challenge = challenge(&authorizer).await?;
        let begun = authorizer.manager().await;
        let (mut manager, http) = begun.map_err(|error| LoginError::Discovery(error.to_string()))?;
        let failed = |error: AuthError| LoginError::Discovery(said(&error, &http));
        let metadata = authorizer.discovered(&manager, challenge.as_deref());
        let metadata = metadata.await.map_err(failed)?;
        manager.set_metadata(metadata.clone());
        let tokens = InMemoryCredentialStore::new();
        manager.set_credential_store(tokens.clone());
        let listener = Listener::bind(authorizer.endpoint.oauth.redirect_port).await?;
        let scopes = wanted(&authorizer, &manager, &metadata, scopes).await;
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let client = client(&authorizer, &mut manager, &http, &listener.address(), &scopes).await?;
        let address = manager.get_authorization_url(&scopes).await.map_err(failed)?;
        let address = shown(&authorizer, &address)?;
        let state = address.query_pairs().find(|(name, _)| name == "state");
        let state = state.map(|(_, value)| value.into_owned()).unwrap_or_default();
        Ok(Login {
            authorizer,
            manager,
            http,
            tokens,
            client,
            challenge,
            listener,
            address,
            state,
        })
    }

    /// What a person opens in a browser.
    pub fn address(&self) -> &Url {
        &self.address
    }

    /// Where the browser comes back to.
    pub fn redirect(&self) -> &str {
        &self.client.redirect
    }

    /// Waits until the browser comes back, and keeps what it brings.
    pub async fn completed(self) -> Result<(), LoginError> {
        let coming = self.listener.redirected(&self.state);
        let redirected = match tokio::time::timeout(limits::LOGIN_TIMEOUT, coming).await {
            Ok(redirected) => redirected?,
            Err(_) => return Err(LoginError::TooLong),
        };
        self.exchange(redirected).await
    }

    /// The same with the address that the browser was sent to, where it cannot reach this machine.
    pub async fn completed_by(self, address: &str) -> Result<(), LoginError> {
        let address = Url::parse(address.trim()).map_err(|_| LoginError::NotThis("it is no address"))?;
        match Came::read(&address, &self.state) {
            Came::Code(redirected) => self.exchange(redirected).await,
            Came::Refused(words) => Err(LoginError::Refused(words)),
            Came::Stranger(why) => Err(LoginError::NotThis(why)),
        }
    }

    async fn exchange(self, redirected: Redirected) -> Result<(), LoginError> {
        let exchanged = self.manager.exchange_code_for_token_with_issuer(
            &redirected.code,
            &self.state,
            redirected.issuer.as_deref(),
        );
        let failed = |error: AuthError| LoginError::Exchange(said(&error, &self.http));
        exchanged.await.map_err(failed)?;
        let credentials = self.tokens.load().await.map_err(failed)?;
        let saved = Saved {
            url: self.authorizer.endpoint.url.clone(),
            challenge: self.challenge,
            client: Some(self.client),
            is_refused: false,
            credentials,
        };
        let unkept = |error: std::io::Error| LoginError::Keep(error.to_string());
        let _alone = self.authorizer.file.lock().await.map_err(unkept)?;
        self.authorizer.file.write(&saved).map_err(unkept)
    }
}

/// What the server answers to a request without a token.
async fn challenge(authorizer: &Authorizer) -> Result<Option<String>, LoginError> {
    let failed = |error: String| LoginError::Discovery(error);
    let endpoint = &authorizer.endpoint;
    let client = transport::client(&authorizer.url).map_err(|error| failed(error.to_string()))?;
    let headers =
        transport::headers(endpoint, &authorizer.secrets).map_err(|error| failed(error.to_string()))?;
    let asking = client
        .post(authorizer.url.clone())
        .headers(headers.into_iter().collect())
        .header(header::ACCEPT, "text/event-stream, application/json")
        .timeout(limits::LOGIN_REQUEST_TIMEOUT)
        .json(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    let answer = asking
        .send()
        .await
        .map_err(|error| failed(format!("the server cannot be reached: {}", error.without_url())))?;
    Ok(transport::challenge(answer.headers()))
}

/// The scopes to ask for: those that a person named, or else what the server says.
async fn wanted(
    authorizer: &Authorizer,
    manager: &AuthorizationManager,
    metadata: &AuthorizationMetadata,
    further: &[String],
) -> Vec<String> {
    let mut scopes = authorizer.endpoint.oauth.scopes.clone();
    if !further.is_empty() {
        let saved = authorizer.saved().ok().flatten();
        let granted = saved.and_then(|saved| saved.credentials);
        scopes.extend(granted.map(|granted| granted.granted_scopes).unwrap_or_default());
        scopes.extend_from_slice(further);
    }
    if scopes.is_empty() {
        return manager.select_initial_scopes(&[]).await;
    }
    // Some give nothing to renew a login with unless they are asked for it.
    let offline = "offline_access".to_owned();
    if metadata
        .scopes_supported
        .as_ref()
        .is_some_and(|supported| supported.contains(&offline))
    {
        scopes.push(offline);
    }
    let mut seen = std::collections::BTreeSet::new();
    scopes.retain(|scope| seen.insert(scope.clone()));
    scopes
}

/// The configured client, or one that is registered now.
async fn client(
    authorizer: &Authorizer,
    manager: &mut AuthorizationManager,
    http: &GuardedHttp,
    redirect: &str,
    scopes: &[&str],
) -> Result<Client, LoginError> {
    if let Some(id) = &authorizer.endpoint.oauth.client_id {
        let client = Client {
            id: id.clone(),
            secret: None,
            redirect: redirect.to_owned(),
        };
        let config = authorizer.client_config(&client).map_err(LoginError::Discovery)?;
        let configured = manager.configure_client(config);
        return match configured {
            Ok(()) => Ok(client),
            Err(error) => Err(LoginError::Discovery(said(&error, http))),
        };
    }
    let registered = manager.register_client("Annals", redirect, scopes).await;
    let registered: OAuthClientConfig = registered.map_err(|error| LoginError::Unregistered {
        reason: said(&error, http),
        redirect: redirect.to_owned(),
    })?;
    Ok(Client {
        id: registered.client_id,
        secret: registered.client_secret,
        redirect: redirect.to_owned(),
    })
}

/// The address for the browser. The server chose it, so it is looked at before anybody opens it.
fn shown(authorizer: &Authorizer, address: &str) -> Result<Url, LoginError> {
    let wrong = |why: String| LoginError::Discovery(format!("where to log in: {why}"));
    let url = Url::parse(address).map_err(|_| wrong("it is no address".to_owned()))?;
    keeps_to_tls(&authorizer.url, &url).map_err(wrong)?;
    if url.host_str().is_none() || !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("it hides its host".to_owned()));
    }
    Ok(url)
}
