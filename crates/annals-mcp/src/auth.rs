//! Logins at servers that want one (OAuth): a person logs in once, and calls use and renew what came of it.
//!
//! Discovery, PKCE, registration and the exchange are `rmcp`'s. Ours is what it leaves to its host: where requests may go
//! ([`guarded`]), what is kept and who may read it ([`file`](mod@file)), the person's way through a browser ([`login`],
//! [`redirect`]), and when a token is renewed.

pub mod file;
mod guarded;
pub mod login;
mod redirect;

use std::borrow::Cow;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use annals_core::redact::Secrets;
use annals_store::clock::{Clock as _, SystemClock};
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, OAuthClientConfig, WWWAuthenticateParams,
};
use url::Url;

use self::file::{Client, LoginFile, Saved, Tokens};
use self::guarded::GuardedHttp;
use crate::config::Endpoint;
use crate::hidden;
use crate::limits;
use crate::text;
use crate::transport::{TransportError, resolved};

/// Stands in place of a token.
const HIDDEN: &str = "[secret:mcp-login]";
/// A token with less than this many seconds to live is renewed first: it might end on the way.
const RENEWED_BEFORE_SECONDS: u64 = 30;

/// A server wants a login that a person has to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginNeeded {
    /// Why the one that is there does not do.
    pub reason: String,
    /// What has to be asked for beside what was granted.
    pub scopes: Vec<String>,
}

/// Why there is no token for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoToken {
    Login(LoginNeeded),
    /// It may be there the next time.
    Failed(String),
}

impl NoToken {
    fn login(reason: impl Into<String>) -> Self {
        NoToken::Login(LoginNeeded {
            reason: reason.into(),
            scopes: Vec::new(),
        })
    }
}

/// What is known of the login at a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoginState {
    /// There is one; it is renewed as long as the server allows.
    LoggedIn,
    /// Its time is over, and it cannot be renewed.
    Expired,
    /// The server wants one, or refuses the one that there was.
    Needed,
}

impl LoginState {
    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            LoginState::LoggedIn => "logged_in",
            LoginState::Expired => "expired",
            LoginState::Needed => "needed",
        }
    }
}

/// Finds tokens for the requests to one server.
pub(crate) struct Authorizer {
    endpoint: Endpoint,
    url: Url,
    secrets: Secrets,
    file: LoginFile,
    /// One renewal at a time in this process; the file's lock is for others.
    renewing: tokio::sync::Mutex<()>,
    /// Every token that was used, so that none is shown.
    used: Mutex<Vec<String>>,
}

impl Authorizer {
    pub(crate) fn new(
        endpoint: &Endpoint,
        secrets: &Secrets,
        file: LoginFile,
    ) -> Result<Self, TransportError> {
        Ok(Authorizer {
            url: Url::parse(&endpoint.url).map_err(TransportError::new)?,
            endpoint: endpoint.clone(),
            secrets: secrets.clone(),
            file,
            renewing: tokio::sync::Mutex::default(),
            used: Mutex::default(),
        })
    }

    /// What is kept for this address.
    fn saved(&self) -> io::Result<Option<Saved>> {
        let saved = self.file.read()?;
        Ok(saved.filter(|saved| saved.url == self.endpoint.url))
    }

    fn saved_tokens(&self) -> Result<Option<(Saved, Tokens)>, NoToken> {
        let saved = self.saved().map_err(|error| NoToken::Failed(error.to_string()))?;
        let with_tokens = saved.and_then(|saved| saved.tokens().map(|tokens| (saved, tokens)));
        if let Some((_, tokens)) = &with_tokens {
            self.hide(tokens);
        }
        Ok(with_tokens)
    }

    pub(crate) fn state(&self) -> io::Result<Option<LoginState>> {
        let Some(saved) = self.saved()? else {
            return Ok(None);
        };
        Ok(Some(match saved.tokens() {
            Some(_) if saved.is_refused => LoginState::Needed,
            Some(tokens) if tokens.refresh.is_none() && is_over(&tokens, 0) => LoginState::Expired,
            Some(_) => LoginState::LoggedIn,
            None => LoginState::Needed,
        }))
    }

    /// The token for a request; none if nobody logged in.
    pub(crate) async fn token(&self) -> Result<Option<String>, NoToken> {
        let Some((_, tokens)) = self.saved_tokens()? else {
            return Ok(None);
        };
        match &tokens.refresh {
            _ if !is_over(&tokens, RENEWED_BEFORE_SECONDS) => Ok(Some(tokens.access)),
            Some(_) => self.renewed(&tokens.access).await.map(Some),
            None if is_over(&tokens, 0) => Err(NoToken::login("the login has expired")),
            None => Ok(Some(tokens.access)),
        }
    }

    /// The token that is there, over or not.
    pub(crate) fn known_token(&self) -> Option<String> {
        let (_, tokens) = self.saved_tokens().ok()??;
        Some(tokens.access)
    }

    /// Another token than this one, which is over or was refused.
    pub(crate) async fn renewed(&self, sent: &str) -> Result<String, NoToken> {
        let renewed = self.renewed_alone(sent).await;
        if let Err(NoToken::Login(_)) = &renewed {
            self.refused(Some(sent), None).await;
        }
        renewed
    }

    async fn renewed_alone(&self, sent: &str) -> Result<String, NoToken> {
        let _in_this_process = self.renewing.lock().await;
        let locked = self.file.lock().await;
        let _everywhere = locked.map_err(|error| NoToken::Failed(error.to_string()))?;
        let Some((saved, tokens)) = self.saved_tokens()? else {
            return Err(NoToken::login("there is no login any more"));
        };
        // Another call, another process or a person was faster.
        if tokens.access != sent {
            return Ok(tokens.access);
        }
        if tokens.refresh.is_none() {
            return Err(NoToken::login(
                "it refuses the login, which cannot be renewed without a person",
            ));
        }
        self.renew(&saved).await?;
        match self.saved_tokens()? {
            Some((_, tokens)) if tokens.access != sent => Ok(tokens.access),
            _ => Err(NoToken::login("the renewed login is the refused one")),
        }
    }

    async fn renew(&self, saved: &Saved) -> Result<(), NoToken> {
        let (mut manager, http) = self
            .manager()
            .await
            .map_err(|error| NoToken::Failed(error.to_string()))?;
        let client = match &saved.client {
            Some(client) => client.clone(),
            None => return Err(NoToken::login("nobody knows as whom it was made")),
        };
        let failed = |error: AuthError| {
            NoToken::Failed(format!("the login could not be renewed: {}", said(&error, &http)))
        };
        let metadata = self.discovered(&manager, saved.challenge.as_deref());
        let metadata = metadata.await.map_err(failed)?;
        let issued_by = saved.credentials.as_ref().and_then(|kept| kept.issuer.as_deref());
        if metadata.issuer.as_deref() != issued_by {
            // The refresh token is the first one's alone.
            return Err(NoToken::login(
                "it names another authorization server than at the login",
            ));
        }
        manager.set_metadata(metadata);
        let client = self.client_config(&client).map_err(NoToken::Failed)?;
        manager.configure_client(client).map_err(failed)?;
        manager.set_credential_store(self.file.clone());
        match manager.refresh_token().await {
            Ok(_) => Ok(()),
            Err(AuthError::TokenRefreshRejected(_) | AuthError::AuthorizationRequired) => Err(
                NoToken::login("the authorization server does not renew the login"),
            ),
            Err(error) => Err(failed(error)),
        }
    }

    async fn manager(&self) -> Result<(AuthorizationManager, Arc<GuardedHttp>), AuthError> {
        let http = Arc::new(GuardedHttp::new(self.url.clone(), &self.endpoint.oauth.hosts));
        let manager = AuthorizationManager::new_with_oauth_http_client(self.url.clone(), http.clone());
        Ok((manager.await?, http))
    }

    /// What the authorization server says of itself.
    async fn discovered(
        &self,
        manager: &AuthorizationManager,
        challenge: Option<&str>,
    ) -> Result<AuthorizationMetadata, AuthError> {
        let found = manager.resolve_metadata_from_challenge(challenge);
        match tokio::time::timeout(limits::STARTUP_TIMEOUT, found).await {
            Ok(found) => Ok(found?.metadata),
            Err(_) => Err(AuthError::MetadataError("it takes too long".to_owned())),
        }
    }

    /// A client with its secret, which may be in the configuration.
    fn client_config(&self, client: &Client) -> Result<OAuthClientConfig, String> {
        let config = OAuthClientConfig::new(client.id.as_str(), client.redirect.as_str());
        let oauth = &self.endpoint.oauth;
        let configured = match (&oauth.client_id, &oauth.client_secret) {
            (Some(id), Some(secret)) if *id == client.id => {
                Some(resolved(secret, &self.secrets).map_err(|error| error.to_string())?)
            }
            _ => None,
        };
        Ok(match configured.or_else(|| client.secret.clone()) {
            Some(secret) => config.with_client_secret(secret),
            None => config,
        })
    }

    /// Notes that the server wants a login: it refused this token, or a request without one.
    pub(crate) async fn refused(&self, sent: Option<&str>, challenge: Option<&str>) {
        let noted = async {
            let _everywhere = self.file.lock().await?;
            let mut saved = match self.saved()? {
                // A person was faster, or it is known.
                Some(saved) if saved.is_refused => return Ok(()),
                Some(saved) if saved.tokens().map(|tokens| tokens.access).as_deref() != sent => return Ok(()),
                Some(saved) => saved,
                None => Saved::of(&self.endpoint.url),
            };
            saved.is_refused = true;
            saved.challenge = challenge.map(str::to_owned).or(saved.challenge);
            self.file.write(&saved)
        };
        let noted: io::Result<()> = noted.await;
        if let Err(error) = noted {
            tracing::warn!("that an MCP server wants a login cannot be noted: {error}");
        }
    }

    fn hide(&self, tokens: &Tokens) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        for token in [Some(&tokens.access), tokens.refresh.as_ref()]
            .into_iter()
            .flatten()
        {
            if hidden::can_hide(token) && !used.contains(token) {
                used.push(token.clone());
            }
        }
        let too_many = used.len().saturating_sub(limits::TOKENS_HIDDEN_MAX);
        used.drain(..too_many);
    }

    /// The text without tokens of this login: a server may repeat what it was sent.
    pub(crate) fn hidden<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        hidden::without(text, &used, HIDDEN)
    }

    /// The same of a message.
    pub(crate) fn hidden_in_json<'t>(&self, json: &'t str) -> Cow<'t, str> {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        hidden::without_in_json(json, &used, HIDDEN)
    }
}

/// Whether a token has fewer than these seconds left.
fn is_over(tokens: &Tokens, seconds: u64) -> bool {
    let now = u64::try_from(SystemClock.now().unix_micros() / 1_000_000).unwrap_or_default();
    tokens
        .expires_at
        .is_some_and(|expires_at| expires_at < now.saturating_add(seconds))
}

/// What went wrong, in the words of the innermost cause.
fn said(error: &AuthError, http: &GuardedHttp) -> String {
    let error = text::one_line(&error.to_string(), 500);
    match http.failure() {
        Some(why) if !error.contains(&why) => format!("{error}: {why}"),
        _ => error,
    }
}

/// The scopes that a refusal names, as far as they can be typed into a command as they are.
pub(crate) fn scopes_wanted(challenge: &str, server: &Url) -> Vec<String> {
    let params = WWWAuthenticateParams::parse(challenge, server);
    let scopes = params.scope.unwrap_or_default();
    scopes
        .split_ascii_whitespace()
        .filter(|scope| is_scope(scope))
        .take(limits::SCOPES_MAX)
        .map(str::to_owned)
        .collect()
}

/// Whether this is a scope in characters that no shell reads otherwise.
pub(crate) fn is_scope(scope: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/-+=@".contains(&byte);
    (1..=limits::SCOPE_MAX_BYTES).contains(&scope.len()) && scope.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_of_a_refusal_are_plain_and_few() {
        let server = Url::parse("https://h/mcp").unwrap();
        let challenge = r#"Bearer error="insufficient_scope", scope="mcp:read $(id) `x` files.write""#;
        assert_eq!(scopes_wanted(challenge, &server), ["mcp:read", "files.write"]);
        let many = format!("Bearer scope=\"{}\"", "a ".repeat(500));
        assert_eq!(scopes_wanted(&many, &server).len(), limits::SCOPES_MAX);
        assert!(scopes_wanted("Bearer", &server).is_empty());
    }
}
