//! Which servers there are: `[mcp.<name>]` of the configuration, and the `{"mcpServers": {…}}` that other programs share.
//!
//! Both forms are read into one [`ServerConfig`]. Nothing here starts anything.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use annals_tools::web::egress::Opened;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::auth;
use crate::hosts::AllowedHosts;
use crate::limits;
use crate::name;
use crate::package::Package;

/// Why a server cannot be used as it is configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The name cannot be a namespace.
    #[error(
        "`{0}` cannot name an MCP server: give a word of letters, digits and `_`, at most {max} bytes, that is no namespace \
         of built-in tools",
        max = name::SERVER_MAX_BYTES
    )]
    Name(String),
    /// Two names that become one namespace.
    #[error(
        "the MCP servers `{first}` and `{second}` would share the namespace `{namespace}`: rename one of them"
    )]
    SameNamespace {
        /// One.
        first: String,
        /// The other.
        second: String,
        /// What both become.
        namespace: String,
    },
    /// Something about one server is wrong.
    #[error("the MCP server `{server}` cannot be used: {reason}")]
    Server {
        /// The server.
        server: String,
        /// What is wrong, and what to give instead.
        reason: String,
    },
    /// The file is not of the common form.
    #[error("not a list of MCP servers: {0}; give `{{\"mcpServers\": {{\"name\": {{\"command\": …}}}}}}`")]
    Json(String),
}

/// One server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Its name, as the person wrote it.
    pub name: String,
    /// The namespace of its tools.
    pub namespace: String,
    /// How it is reached.
    pub transport: Transport,
    /// Which of its tools are offered.
    pub offered: Offered,
    /// Tools that may run again after a crash, if the server calls them harmless to repeat.
    pub replay: Vec<String>,
    /// How long a call may take without a sign of life.
    pub timeout: Duration,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// A program that speaks over its standard streams.
    Stdio(Program),
    /// An address that speaks streamable HTTP.
    Http(Endpoint),
}

/// A program that speaks over its standard streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The package that these would fetch, which is started as it was installed instead.
    pub package: Option<Package>,
    /// Its environment; a value `secret:NAME` stands for a configured secret.
    pub env: BTreeMap<String, String>,
    /// Paths of this machine that it may read.
    pub read: Vec<PathBuf>,
    /// Paths of this machine that it may change.
    pub write: Vec<PathBuf>,
    /// Where it starts, if not in its own folder.
    pub cwd: Option<PathBuf>,
    /// Hosts that it may reach; none for no network.
    pub hosts: AllowedHosts,
    /// Whether it runs as a process of the user instead of in a sandbox.
    pub on_host: bool,
}

/// An address that speaks streamable HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The address.
    pub url: String,
    /// Headers of every request; a value `secret:NAME` stands for a configured secret.
    pub headers: BTreeMap<String, String>,
    /// Sent as `Authorization: Bearer …`; `secret:NAME` stands for a configured secret.
    pub bearer: Option<String>,
    /// How a person logs in, if the server wants that.
    pub oauth: Oauth,
}

impl Endpoint {
    /// Whether requests carry what the configuration says, so that a login would not be used.
    pub fn has_own_token(&self) -> bool {
        let is_authorization = |name: &String| name.eq_ignore_ascii_case("authorization");
        self.bearer.is_some() || self.headers.keys().any(is_authorization)
    }
}

/// How a person logs in at a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Oauth {
    /// The client that the authorization server knows; one is registered at each login if there is none.
    pub client_id: Option<String>,
    /// Its secret; `secret:NAME` stands for a configured secret.
    pub client_secret: Option<String>,
    /// What is asked for; what the server says if there are none.
    pub scopes: Vec<String>,
    /// The port of this machine to which the browser comes back.
    pub redirect_port: Option<u16>,
    /// Places of the authorization server that may have private addresses.
    pub hosts: Vec<Opened>,
}

/// Which tools of a server are offered, by the server's own names; `*` stands for any text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offered {
    /// Only these, if there are any.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Not these, even if they are allowed.
    #[serde(default)]
    pub deny: Vec<String>,
}

impl Offered {
    /// Whether a tool of this name is offered.
    pub fn includes(&self, tool: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, tool));
        (self.allow.is_empty() || any(&self.allow)) && !any(&self.deny)
    }
}

/// Whether a pattern with `*` matches the whole text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(text) = text.strip_prefix(first) else {
        return false;
    };
    if rest.is_empty() {
        return true;
    }
    text.char_indices()
        .map(|(at, _)| at)
        .chain([text.len()])
        .any(|at| matches(rest, &text[at..]))
}

/// The servers, sorted by namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Servers(Vec<ServerConfig>);

impl Servers {
    /// The servers of `[mcp]` in the configuration.
    pub fn from_toml(table: toml::Table) -> Result<Self, ConfigError> {
        let entries = table.into_iter().map(|(name, value)| {
            let entry = no_unknown_key(&value).and_then(|()| {
                let entry: Result<Entry, _> = value.try_into();
                entry.map_err(|error: toml::de::Error| error.message().to_owned())
            });
            (name, entry)
        });
        Self::of(entries)
    }

    /// The servers of a file in the common form.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        let file: CommonFile =
            serde_json::from_str(text).map_err(|error| ConfigError::Json(error.to_string()))?;
        let entries = file.servers.into_iter().map(|(name, value)| {
            let entry: Result<CommonEntry, _> = serde_json::from_value(value);
            let entry = entry.map_err(|error| error.to_string());
            (name, entry.map(|common| common.entry))
        });
        Self::of(entries)
    }

    /// Both, unless two servers would share a namespace.
    pub fn and(self, other: Servers) -> Result<Self, ConfigError> {
        let mut all = self.0;
        for server in other.0 {
            insert(&mut all, server)?;
        }
        Ok(Servers(all))
    }

    fn of(entries: impl Iterator<Item = (String, Result<Entry, String>)>) -> Result<Self, ConfigError> {
        let mut servers = Vec::new();
        for (name, entry) in entries {
            let wrong = |reason| ConfigError::Server {
                server: name.clone(),
                reason,
            };
            let entry = entry.map_err(wrong)?;
            if entry.disabled {
                continue;
            }
            let namespace = name::namespace(&name).ok_or_else(|| ConfigError::Name(name.clone()))?;
            let server = entry.server(name.clone(), namespace).map_err(wrong)?;
            insert(&mut servers, server)?;
        }
        Ok(Servers(servers))
    }

    /// All of them, sorted by namespace.
    pub fn iter(&self) -> impl Iterator<Item = &ServerConfig> {
        self.0.iter()
    }

    /// The server of this name or namespace.
    pub fn get(&self, name: &str) -> Option<&ServerConfig> {
        self.0
            .iter()
            .find(|server| server.name == name || server.namespace == name)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn insert(servers: &mut Vec<ServerConfig>, server: ServerConfig) -> Result<(), ConfigError> {
    match servers.binary_search_by(|other| other.namespace.cmp(&server.namespace)) {
        Ok(at) => Err(ConfigError::SameNamespace {
            first: servers[at].name.clone(),
            second: server.name,
            namespace: server.namespace,
        }),
        Err(at) => {
            servers.insert(at, server);
            Ok(())
        }
    }
}

/// `{"mcpServers": {…}}`; what else such a file has is another program's.
#[derive(Deserialize)]
struct CommonFile {
    #[serde(rename = "mcpServers")]
    servers: BTreeMap<String, serde_json::Value>,
}

/// What can be said of a server. In a list that other programs share, more than this stands beside it.
const KEYS: [&str; 17] = [
    "args",
    "bearer",
    "command",
    "cwd",
    "disabled",
    "env",
    "headers",
    "hosts",
    "network",
    "oauth",
    "read",
    "replay",
    "timeout_ms",
    "tools",
    "trust",
    "url",
    "write",
];
/// The same of `oauth`, with the spellings of other programs.
const OAUTH_KEYS: [&str; 8] = [
    "callbackPort",
    "clientId",
    "clientSecret",
    "client_id",
    "client_secret",
    "hosts",
    "redirect_port",
    "scopes",
];

/// A misspelt key must not be taken for one that was left out: `host` for `hosts`, `deny` beside `tools`.
fn no_unknown_key(entry: &toml::Value) -> Result<(), String> {
    let unknown = |table: Option<&toml::Table>, known: &[&str]| {
        let mut keys = table.into_iter().flat_map(toml::Table::keys);
        keys.find(|key| !known.contains(&key.as_str())).cloned()
    };
    if let Some(key) = unknown(entry.as_table(), &KEYS) {
        return Err(format!("there is no `{key}`: give some of {}", KEYS.join(", ")));
    }
    let oauth = entry.get("oauth").and_then(toml::Value::as_table);
    match unknown(oauth, &OAUTH_KEYS) {
        Some(key) => Err(format!(
            "there is no `{key}` in `oauth`: give some of {}",
            OAUTH_KEYS.join(", ")
        )),
        None => Ok(()),
    }
}

/// An entry of the common form: other programs keep fields of their own beside it.
#[derive(Deserialize)]
struct CommonEntry {
    #[serde(flatten)]
    entry: Entry,
}

/// A server as it is written down.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Its environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Headers of every request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The token of the `Authorization` header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer: Option<String>,
    /// How a person logs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OauthEntry>,
    /// Paths that it may read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<PathBuf>,
    /// Paths that it may change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<PathBuf>,
    /// Where it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Hosts that it may reach, `host` or `host:port`; `*.` before a name stands for all names below it.
    #[serde(default, alias = "network", skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// `sandboxed` or `host`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<String>,
    /// Which tools are offered.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tools: Offered,
    /// Tools that may run again after a crash.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replay: Vec<String>,
    /// How long a call may take without a sign of life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
}

/// A login as it is written down; other programs spell some of it otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OauthEntry {
    /// The client.
    #[serde(default, alias = "clientId", skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Its secret.
    #[serde(default, alias = "clientSecret", skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// What is asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// Where the browser comes back to.
    #[serde(default, alias = "callbackPort", skip_serializing_if = "Option::is_none")]
    pub redirect_port: Option<u16>,
    /// Places that may have private addresses, as `host:port`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
}

impl OauthEntry {
    fn read(self) -> Result<Oauth, String> {
        if self.client_secret.is_some() && self.client_id.is_none() {
            return Err("`oauth.client_secret` is nobody's: give `oauth.client_id`, too".to_owned());
        }
        if let Some(scope) = self.scopes.iter().find(|scope| !auth::is_scope(scope)) {
            return Err(format!(
                "`{scope}` in `oauth.scopes` is no scope: give one word for each"
            ));
        }
        let hosts = self.hosts.iter().map(|host| Opened::parse(host));
        let hosts = hosts
            .collect::<Result<_, _>>()
            .map_err(|error| format!("in `oauth.hosts`, {error}"))?;
        Ok(Oauth {
            client_id: self.client_id,
            client_secret: self.client_secret,
            scopes: self.scopes,
            redirect_port: self.redirect_port,
            hosts,
        })
    }
}

fn is_default(offered: &Offered) -> bool {
    *offered == Offered::default()
}

impl Entry {
    /// The server that it describes.
    pub fn server(self, name: String, namespace: String) -> Result<ServerConfig, String> {
        let timeout = match self.timeout_ms {
            None => limits::CALL_TIMEOUT,
            Some(1..=600_000) => Duration::from_millis(self.timeout_ms.unwrap_or_default()),
            Some(other) => return Err(format!("`timeout_ms` is `{other}`: give 1 to 600000")),
        };
        let (offered, replay) = (self.tools.clone(), self.replay.clone());
        let transport = match (&self.command, &self.url) {
            (Some(_), None) => Transport::Stdio(self.program()?),
            (None, Some(_)) => Transport::Http(self.endpoint()?),
            (Some(_), Some(_)) => return Err("it has a `command` and a `url`: give one of them".to_owned()),
            (None, None) => return Err("it has neither `command` nor `url`: give one of them".to_owned()),
        };
        Ok(ServerConfig {
            name,
            namespace,
            transport,
            offered,
            replay,
            timeout,
        })
    }

    fn program(self) -> Result<Program, String> {
        let on_host = match self.trust.as_deref() {
            None | Some("sandboxed") => false,
            Some("host") => true,
            Some(other) => return Err(format!("`trust` is `{other}`: give `sandboxed` or `host`")),
        };
        if self.bearer.is_some() || !self.headers.is_empty() || self.oauth.is_some() {
            return Err(
                "`headers`, `bearer` and `oauth` are for a `url`: give `env` to a program".to_owned(),
            );
        }
        if let Some(path) = self
            .read
            .iter()
            .chain(&self.write)
            .chain(&self.cwd)
            .find(|path| !path.is_absolute())
        {
            return Err(format!(
                "the path `{}` is relative: give an absolute one",
                path.display()
            ));
        }
        let is_given = |cwd: &PathBuf| {
            self.read
                .iter()
                .chain(&self.write)
                .any(|path| cwd.starts_with(path))
        };
        if let Some(cwd) = self.cwd.as_ref().filter(|cwd| !on_host && !is_given(cwd)) {
            return Err(format!(
                "`cwd` is `{}`, which it cannot see: give that path in `read` or `write`, too",
                cwd.display()
            ));
        }
        if on_host && !self.hosts.is_empty() {
            return Err(
                "`hosts` bounds a sandboxed program: leave out `hosts` or `trust = \"host\"`".to_owned(),
            );
        }
        let hosts = AllowedHosts::parse(&self.hosts)?;
        let command = self.command.unwrap_or_default();
        if command.trim().is_empty() {
            return Err("`command` is empty: name a program".to_owned());
        }
        let argv: Vec<String> = std::iter::once(command).chain(self.args).collect();
        Ok(Program {
            // On the host it does what it does everywhere.
            package: Package::of(&argv).filter(|_| !on_host),
            argv,
            env: self.env,
            read: self.read,
            write: self.write,
            cwd: self.cwd,
            hosts,
            on_host,
        })
    }

    fn endpoint(self) -> Result<Endpoint, String> {
        let url = self.url.unwrap_or_default();
        let parsed = Url::parse(&url).map_err(|error| format!("`url` is no address: {error}"))?;
        if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
            return Err("`url` is no address: give `https://host/path`".to_owned());
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err("`url` carries a password: give it as `bearer` or in `headers`".to_owned());
        }
        for (name, value) in &self.headers {
            if is_of_protocol(name) {
                return Err(format!(
                    "`{name}` in `headers` is the protocol's own: leave it out"
                ));
            }
            let name_fits = http::HeaderName::from_bytes(name.as_bytes()).is_ok();
            if !name_fits || http::HeaderValue::from_str(value).is_err() {
                return Err(format!(
                    "`{name}` in `headers` cannot be sent: check its characters"
                ));
            }
        }
        let paths_and_hosts = self.read.len() + self.write.len() + self.hosts.len();
        let of_program = self.trust.is_some() || self.cwd.is_some() || !self.args.is_empty();
        if of_program || paths_and_hosts > 0 {
            return Err("`args`, `cwd`, `trust`, `read`, `write` and `hosts` are for a `command`".to_owned());
        }
        let endpoint = Endpoint {
            url,
            headers: self.headers,
            bearer: self.bearer,
            oauth: Oauth::default(),
        };
        match self.oauth {
            Some(_) if endpoint.has_own_token() => {
                Err("it has a token and `oauth`: give one of them".to_owned())
            }
            Some(oauth) => Ok(Endpoint {
                oauth: oauth.read()?,
                ..endpoint
            }),
            None => Ok(endpoint),
        }
    }
}

/// Whether a header says what only the protocol itself can know.
fn is_of_protocol(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.starts_with("mcp-")
        || [
            "accept",
            "content-type",
            "content-length",
            "last-event-id",
            "host",
        ]
        .contains(&name.as_str())
}

#[cfg(test)]
mod tests;
