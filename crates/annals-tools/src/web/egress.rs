//! Protection against SSRF: the web tools reach public addresses over HTTP, and nothing of the machine or its network.
//!
//! A URL is checked three times. Its form, before anything is asked: scheme, credentials, port, addresses written
//! as the host in any notation. Its name's answers, inside the connector: the addresses that were judged are the
//! very ones that are connected to, so a name that answers differently the second time gains nothing. And all of
//! it again for every redirect, which is why redirects are followed by [`fetch`](super::fetch) and never by the
//! HTTP client. This module sends nothing itself.

use annals_core::address;
use annals_core::code::Code;
use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

/// How we present ourselves, so that site owners can see who asks and write rules for it.
pub const USER_AGENT: &str = concat!(
    "Annals/",
    env!("CARGO_PKG_VERSION"),
    " (agent acting for a person; +https://github.com/annals-dev/annals)"
);

/// A connection that is not there after this many seconds will not come.
const CONNECT_TIMEOUT_SECONDS: u64 = 10;
/// Longer addresses are an attack or a mistake.
const URL_MAX_BYTES: usize = 8_192;

/// Why an address is not reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The text is no address.
    #[error("`{given}` is not a web address: give a whole one, such as https://example.com/page")]
    NotAnAddress {
        /// What was given, cut.
        given: String,
    },
    /// Another protocol.
    #[error("`{scheme}:` addresses are not fetched: give an http or https address")]
    Scheme {
        /// The scheme.
        scheme: String,
    },
    /// A name and password in the address: at best a leak, at worst a disguise of the host.
    #[error("the address has credentials before its host `{host}`: give it without them")]
    Credentials {
        /// The host that would have been asked.
        host: String,
    },
    /// A port where no web server is expected.
    #[error("port {port} is not a web port: use 80, 443 or one from 1024 on")]
    Port {
        /// The port.
        port: u16,
    },
    /// The host, or what it resolves to, is not on the public internet.
    #[error("`{host}` is not a public address ({why}): only the public web can be fetched")]
    Private {
        /// The host as written.
        host: String,
        /// Which rule refused it.
        why: &'static str,
    },
    /// The name has no address.
    #[error("`{host}` could not be resolved: {reason}")]
    Unresolved {
        /// The host.
        host: String,
        /// What the resolver said.
        reason: String,
    },
}

impl Refusal {
    /// A stable word for the kind of refusal.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::NotAnAddress { .. } => Code::InvalidUrl.as_str(),
            Refusal::Scheme { .. } => Code::UnsupportedScheme.as_str(),
            Refusal::Credentials { .. } | Refusal::Port { .. } | Refusal::Private { .. } => {
                Code::AddressRefused.as_str()
            }
            Refusal::Unresolved { .. } => Code::NameNotResolved.as_str(),
        }
    }
}

/// Turns names into addresses. The system's resolver outside tests.
///
/// Rule: an implementation only answers; whether an answer may be used is decided by [`EgressPolicy`].
pub trait Resolver: Send + Sync + 'static {
    /// The addresses of `host`.
    fn resolve(&self, host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The resolver of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve(&self, host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((host.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// A host and port that a person has opened, whatever its address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Opened {
    host: String,
    port: u16,
}

/// An entry of the allow-list that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not `host:port`: write for example `localhost:8080` or `[::1]:8080`")]
pub struct OpenedError(String);

impl Opened {
    /// Reads `host:port`.
    pub fn parse(text: &str) -> Result<Self, OpenedError> {
        let bad = || OpenedError(text.to_owned());
        let (host, port) = text.trim().rsplit_once(':').ok_or_else(bad)?;
        let port = port.parse().map_err(|_| bad())?;
        // The same canonical form that a fetched address has.
        let host = Host::parse(host).map_err(|_| bad())?;
        Ok(Opened {
            host: canonical(&host),
            port,
        })
    }

    /// Reads a comma-separated list, as `ANNALS_WEB_ALLOW` has it.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, OpenedError> {
        text.split(',')
            .filter(|entry| !entry.trim().is_empty())
            .map(Self::parse)
            .collect()
    }
}

fn canonical<S: AsRef<str>>(host: &Host<S>) -> String {
    match host {
        Host::Domain(name) => name.as_ref().trim_end_matches('.').to_ascii_lowercase(),
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => format!("[{address}]"),
    }
}

/// Says why an address may not be reached; none when it may.
type Judge = fn(IpAddr) -> Result<(), &'static str>;

/// The egress: every request of the web tools to an address that a model chose passes here.
#[derive(Clone)]
pub struct EgressPolicy {
    opened: Arc<HashSet<Opened>>,
    judge: Judge,
    public: reqwest::Client,
    any: reqwest::Client,
}

/// A URL whose form was judged, with the client that judges the rest when it connects.
#[derive(Clone, Debug)]
pub struct Passed {
    /// The address.
    pub url: Url,
    client: reqwest::Client,
}

impl EgressPolicy {
    /// EgressPolicy with these places opened.
    pub fn new(opened: impl IntoIterator<Item = Opened>) -> Result<Self, reqwest::Error> {
        Self::with(opened, Arc::new(SystemResolver), address::public)
    }

    pub(super) fn with(
        opened: impl IntoIterator<Item = Opened>,
        resolver: Arc<dyn Resolver>,
        judge: Judge,
    ) -> Result<Self, reqwest::Error> {
        let public = client(Judged {
            resolver: resolver.clone(),
            judge,
        })?;
        let any = client(Judged {
            resolver,
            judge: |_| Ok(()),
        })?;
        Ok(EgressPolicy {
            opened: Arc::new(opened.into_iter().collect()),
            judge,
            public,
            any,
        })
    }

    /// Judges the form of an address.
    pub fn pass(&self, text: &str) -> Result<Passed, Refusal> {
        let not_an_address = || Refusal::NotAnAddress {
            given: text.chars().take(200).collect(),
        };
        if text.len() > URL_MAX_BYTES {
            return Err(not_an_address());
        }
        self.pass_url(Url::parse(text.trim()).map_err(|_| not_an_address())?)
    }

    /// Judges the form of an address that was already read, such as a redirect's target.
    pub fn pass_url(&self, mut url: Url) -> Result<Passed, Refusal> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refusal::Scheme {
                scheme: url.scheme().to_owned(),
            });
        }
        let (Some(host), Some(port)) = (
            url.host().map(|host| host.to_owned()),
            url.port_or_known_default(),
        ) else {
            return Err(Refusal::NotAnAddress {
                given: url.as_str().chars().take(200).collect(),
            });
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refusal::Credentials {
                host: host.to_string(),
            });
        }
        url.set_fragment(None);
        if self.opened.contains(&Opened {
            host: canonical(&host),
            port,
        }) {
            return Ok(Passed {
                url,
                client: self.any.clone(),
            });
        }
        if port < 1024 && !matches!(port, 80 | 443) {
            return Err(Refusal::Port { port });
        }
        let judged = match &host {
            Host::Domain(name) => address::public_name(name),
            // The client does not ask its resolver about these, so they are judged here.
            Host::Ipv4(address) => (self.judge)(IpAddr::V4(*address)),
            Host::Ipv6(address) => (self.judge)(IpAddr::V6(*address)),
        };
        judged.map_err(|why| Refusal::Private {
            host: host.to_string(),
            why,
        })?;
        Ok(Passed {
            url,
            client: self.public.clone(),
        })
    }
}

impl Passed {
    /// A request for what is there.
    pub fn get(&self) -> reqwest::RequestBuilder {
        self.client.get(self.url.clone())
    }

    /// A request that brings something.
    pub fn post(&self) -> reqwest::RequestBuilder {
        self.client.post(self.url.clone())
    }
}

/// The refusal that a failed request was caused by, if it was.
pub fn refusal(error: &reqwest::Error) -> Option<Refusal> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(refusal) = error.downcast_ref::<Refusal>() {
            return Some(refusal.clone());
        }
        cause = error.source();
    }
    None
}

/// An HTTP client to be built, once TLS has its cryptography: a host's own choice, or else `ring`.
pub(super) fn http() -> reqwest::ClientBuilder {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
}

fn client(resolver: Judged) -> Result<reqwest::Client, reqwest::Error> {
    http()
        .user_agent(USER_AGENT)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(CONNECT_TIMEOUT_SECONDS))
        .dns_resolver(Arc::new(resolver))
        .build()
}

/// A resolver whose answers are judged before the connector gets them.
struct Judged {
    resolver: Arc<dyn Resolver>,
    judge: Judge,
}

impl Resolve for Judged {
    fn resolve(&self, name: Name) -> Resolving {
        let (host, judge) = (name.as_str().to_owned(), self.judge);
        let answer = self.resolver.resolve(host.clone());
        Box::pin(async move {
            let unresolved = |reason: String| Refusal::Unresolved {
                host: host.clone(),
                reason,
            };
            let found = answer.await.map_err(|error| unresolved(error.to_string()))?;
            if found.is_empty() {
                return Err(unresolved("it has no address".into()).into());
            }
            // One private answer among public ones is how rebinding looks, so it spoils them all.
            for address in &found {
                judge(*address).map_err(|why| Refusal::Private {
                    host: host.clone(),
                    why,
                })?;
            }
            let addresses: Vec<SocketAddr> = found
                .into_iter()
                .map(|address| SocketAddr::new(address, 0))
                .collect();
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}
