//! A server as an agent has it: started at its first call, restarted with growing pauses when it fails, and never trusted to
//! still be what was accepted.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use annals_core::code::Code;
use annals_core::redact::Secrets;
use serde_json::{Map, Value};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::auth::file::LoginFolder;
use crate::auth::login::{Login, LoginError};
use crate::auth::{self, Authorizer, LoginNeeded, LoginState};
use crate::call::Call;
use crate::config::{ServerConfig, Transport};
use crate::connection::{Connection, ConnectionError, Patience};
use crate::definition::Digest;
use crate::limits;
use crate::listing::Offer;
use crate::package::{Package, PackageFolder};
use crate::parked::{Parked, ParkedCalls};
use crate::text;

/// Why a server did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// It did not start, and is left alone for a while.
    #[error("the MCP server `{server}` is not available: {reason}; it is tried again in {} s", .retry_in.as_secs().max(1))]
    Unavailable {
        /// The server.
        server: String,
        /// How starting it failed.
        reason: String,
        /// When a call tries to start it again.
        retry_in: Duration,
    },
    /// It ended while it worked.
    #[error(
        "the MCP server `{server}` ended during the call: {reason}; whether the call took effect is not known, look before \
         you repeat it"
    )]
    Died {
        /// The server.
        server: String,
        /// How.
        reason: String,
    },
    /// Its package is not installed, or another one is.
    #[error(
        "the MCP server `{server}` is the package `{spec}`, which is not installed, and no sandbox fetches it: a person has to \
         run `annals mcp install {server}` once"
    )]
    NotInstalled {
        /// The server.
        server: String,
        /// The package, as it is asked for.
        spec: String,
    },
    /// A person has to log in.
    #[error(
        "the MCP server `{server}` wants a login: {}; a person has to run `annals mcp login {server}{}`",
        .needed.reason,
        scopes_option(.needed)
    )]
    Login {
        /// The server.
        server: String,
        /// Why, and for what.
        needed: LoginNeeded,
    },
    /// The tool is not what was accepted.
    #[error(
        "the MCP server `{server}` changed the definition of `{tool}` since it was accepted, so it is not called: a person \
         can compare and accept it with `annals mcp inspect {server}`"
    )]
    Changed {
        /// The server.
        server: String,
        /// The tool, by the server's name.
        tool: String,
    },
    /// The tool is not there any more.
    #[error("the MCP server `{server}` does not offer `{tool}` any more: use another tool")]
    Gone {
        /// The server.
        server: String,
        /// The tool, by the server's name.
        tool: String,
    },
    /// The process that had the call ended while a person was asked.
    #[error(
        "the call of the MCP server `{server}` was lost while a person was asked, because the process that had it ended; \
         whether it took effect is not known, look before you repeat it"
    )]
    Lost {
        /// The server.
        server: String,
    },
    /// The request got no answer, or a bad one.
    #[error("MCP server `{server}`: {error}")]
    Call {
        /// The server.
        server: String,
        /// What happened.
        error: ConnectionError,
    },
}

/// The scopes of a login as they are typed.
fn scopes_option(needed: &LoginNeeded) -> String {
    let scopes = needed.scopes.iter();
    scopes.map(|scope| format!(" --oauth-scope {scope}")).collect()
}

impl ServerError {
    /// A stable word for it.
    pub fn code(&self) -> &'static str {
        match self {
            ServerError::Unavailable { .. } | ServerError::NotInstalled { .. } => {
                Code::McpServerUnavailable.as_str()
            }
            ServerError::Login { .. } => Code::McpLoginNeeded.as_str(),
            ServerError::Died { .. } => Code::McpServerDied.as_str(),
            ServerError::Changed { .. } => Code::ToolChanged.as_str(),
            ServerError::Gone { .. } => Code::ToolGone.as_str(),
            ServerError::Lost { .. } => Code::Interrupted.as_str(),
            ServerError::Call { error, .. } => match error {
                ConnectionError::Silent(_) | ConnectionError::TooLong(_) => Code::Timeout.as_str(),
                ConnectionError::Cancelled => Code::Cancelled.as_str(),
                ConnectionError::Refused { .. } | ConnectionError::PagesFirst { .. } => {
                    Code::McpError.as_str()
                }
                ConnectionError::InputRequired => Code::McpInputRequired.as_str(),
                ConnectionError::NoToken(_) => Code::McpServerUnavailable.as_str(),
                _ => Code::McpProtocolError.as_str(),
            },
        }
    }
}

/// A server that runs when it is needed.
pub struct RemoteServer {
    config: ServerConfig,
    /// The folder that is its home and working directory.
    folder: PathBuf,
    secrets: Secrets,
    authorizer: Option<Arc<Authorizer>>,
    packages: Option<PackageFolder>,
    patience: Patience,
    state: Mutex<State>,
    parked: ParkedCalls,
}

/// Whether a call may be begun that was begun before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// It was not, or it may run any number of times.
    Freely,
    /// Only where a server that asks has not begun to work.
    OnlyInRounds,
}

enum State {
    /// Not started, or ended after it had worked.
    Idle,
    Up(Arc<Connection>),
    Down {
        until: Instant,
        pause: Duration,
        reason: String,
    },
}

impl RemoteServer {
    /// A server that is not started yet. `folder` is where servers have their own folders.
    pub fn new(config: ServerConfig, folder: PathBuf, secrets: Secrets) -> Self {
        RemoteServer {
            folder: folder.join(&config.namespace),
            patience: Patience {
                startup: limits::STARTUP_TIMEOUT,
                idle: config.timeout,
                total: limits::CALL_TIMEOUT_TOTAL,
            },
            config,
            secrets,
            authorizer: None,
            packages: None,
            state: Mutex::new(State::Idle),
            parked: ParkedCalls::default(),
        }
    }

    /// With logins that are kept here.
    #[must_use]
    pub fn logins(mut self, folder: &LoginFolder) -> Self {
        if let Transport::Http(endpoint) = &self.config.transport
            && !endpoint.has_own_token()
        {
            let file = folder.file(&self.config.namespace);
            // An address that cannot be read is said when it is used.
            self.authorizer = Authorizer::new(endpoint, &self.secrets, file).ok().map(Arc::new);
        }
        self
    }

    /// With packages that are kept here.
    #[must_use]
    pub fn packages(mut self, folder: PackageFolder) -> Self {
        self.packages = Some(folder);
        self
    }

    /// The package that it is.
    pub fn package(&self) -> Option<&Package> {
        match &self.config.transport {
            Transport::Stdio(program) => program.package.as_ref(),
            Transport::Http(_) => None,
        }
    }

    /// How it is started: as it is configured, or what was installed for that.
    fn started_as(&self) -> Result<Cow<'_, ServerConfig>, ServerError> {
        let Some(package) = self.package() else {
            return Ok(Cow::Borrowed(&self.config));
        };
        let not_installed = || ServerError::NotInstalled {
            server: self.config.name.clone(),
            spec: text::one_line(package.spec(), 200),
        };
        let folder = self.packages.as_ref().ok_or_else(not_installed)?;
        let found = folder.installed(&self.config.namespace);
        let found = found.map_err(|error| self.unavailable(error.to_string(), Duration::ZERO))?;
        let installed = found.filter(|found| found.is(package));
        let installed = installed.ok_or_else(not_installed)?;
        let mut config = self.config.clone();
        if let Transport::Stdio(program) = &mut config.transport {
            program.argv = [installed.argv, package.args.clone()].concat();
            program.read.extend(installed.read);
        }
        Ok(Cow::Owned(config))
    }

    /// What is known of the login at this server; none if it was not asked for one.
    pub fn login_state(&self) -> io::Result<Option<LoginState>> {
        match &self.authorizer {
            Some(authorizer) => authorizer.state(),
            None => Ok(None),
        }
    }

    /// Begins a login. `scopes` are asked for beside those that were granted.
    pub async fn login(&self, scopes: &[String]) -> Result<Login, LoginError> {
        let Some(authorizer) = &self.authorizer else {
            return Err(LoginError::NotFor(match &self.config.transport {
                Transport::Stdio(_) => "it is a program, which gets its secrets by `env`".to_owned(),
                Transport::Http(endpoint) if endpoint.has_own_token() => {
                    "its token is in the configuration".to_owned()
                }
                Transport::Http(_) => "there is no folder for logins".to_owned(),
            }));
        };
        if let Some(scope) = scopes.iter().find(|scope| !auth::is_scope(scope)) {
            return Err(LoginError::NotFor(format!("`{scope}` is no scope")));
        }
        Login::begin(authorizer.clone(), scopes).await
    }

    /// The text without tokens of a login. What a server says has none already; this is for what is said of a login.
    pub(crate) fn hidden<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match &self.authorizer {
            Some(authorizer) => authorizer.hidden(text),
            None => Cow::Borrowed(text),
        }
    }

    /// With other bounds than those of its configuration.
    #[must_use]
    pub fn patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
    }

    /// How it is configured.
    pub fn config(&self) -> &ServerConfig {
        &self.config
    }

    /// A session, started now if there is none.
    pub async fn connection(&self) -> Result<Arc<Connection>, ServerError> {
        let mut state = self.state.lock().await;
        let pause = match &*state {
            State::Up(connection) if !connection.is_closed() => return Ok(connection.clone()),
            State::Idle | State::Up(_) => limits::BACKOFF_FIRST,
            State::Down { until, pause, reason } => {
                let retry_in = until.saturating_duration_since(Instant::now());
                if !retry_in.is_zero() {
                    return Err(self.unavailable(reason.clone(), retry_in));
                }
                (*pause * 2).min(limits::BACKOFF_MAX)
            }
        };
        let config = self.started_as()?;
        let opening = Connection::open(
            &config,
            &self.folder,
            &self.secrets,
            self.authorizer.clone(),
            self.patience,
        );
        match opening.await {
            Ok(connection) => {
                let connection = Arc::new(connection);
                *state = State::Up(connection.clone());
                Ok(connection)
            }
            // A person may log in at any moment, and then it is there at once.
            Err(ConnectionError::Login(needed)) => {
                *state = State::Idle;
                Err(self.failed(ConnectionError::Login(needed)))
            }
            Err(error) => {
                let reason = self.hidden(&error.to_string()).into_owned();
                *state = State::Down {
                    until: Instant::now() + pause,
                    pause,
                    reason: reason.clone(),
                };
                Err(self.unavailable(reason, pause))
            }
        }
    }

    /// A session, and what the server offers in it.
    pub async fn offer(&self) -> Result<(Arc<Connection>, Offer), ServerError> {
        let connection = self.connection().await?;
        let offer = connection.offer();
        Ok((connection, offer))
    }

    /// Calls a tool, if it still is what was accepted. A call that was begun before and is lost is begun `again` only where
    /// that is what the protocol foresees, or harmless.
    pub(crate) async fn begin(
        &self,
        tool: &str,
        accepted: Option<&Digest>,
        arguments: Map<String, Value>,
        again: Again,
        cancel: &CancellationToken,
    ) -> Result<Call, ServerError> {
        let connection = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(self.failed(ConnectionError::Cancelled)),
            connection = self.connection() => connection?,
        };
        let offered = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(self.failed(ConnectionError::Cancelled)),
            offered = connection.digest_of(tool) => offered.map_err(|error| self.failed(error))?,
        };
        let (server, tool_shown) = (self.config.name.clone(), text::one_line(tool, 128));
        match offered {
            None => {
                return Err(ServerError::Gone {
                    server,
                    tool: tool_shown,
                });
            }
            Some(digest) if Some(&digest) != accepted => {
                return Err(ServerError::Changed {
                    server,
                    tool: tool_shown,
                });
            }
            Some(_) => {}
        }
        if again == Again::OnlyInRounds && !connection.asks_in_rounds() {
            return Err(ServerError::Lost { server });
        }
        let begun = Call::begin(connection, tool, arguments).await;
        begun.map_err(|error| self.failed(error))
    }

    /// Keeps a call open until somebody has answered. Its session serves no other calls meanwhile, so that later questions
    /// in it are this call's.
    pub(crate) async fn park(&self, key: String, parked: Parked) {
        let mut state = self.state.lock().await;
        if matches!(&*state, State::Up(connection) if Arc::ptr_eq(connection, parked.call.connection())) {
            *state = State::Idle;
        }
        self.parked.park(key, parked);
    }

    /// The call that waited for an answer.
    pub(crate) fn parked(&self, key: &str) -> Option<Parked> {
        self.parked.take(key)
    }

    /// Ends a call that waits and will not go on: the server is told, and its session is over.
    pub(crate) fn abandon(&self, key: &str) {
        if let Some(parked) = self.parked.take(key) {
            parked.call.end();
        }
    }

    fn unavailable(&self, reason: String, retry_in: Duration) -> ServerError {
        ServerError::Unavailable {
            server: self.config.name.clone(),
            reason,
            retry_in,
        }
    }

    pub(crate) fn failed(&self, error: ConnectionError) -> ServerError {
        let server = self.config.name.clone();
        match error {
            ConnectionError::Closed(reason) => ServerError::Died { server, reason },
            ConnectionError::Login(needed) => ServerError::Login { server, needed },
            error => ServerError::Call { server, error },
        }
    }
}
