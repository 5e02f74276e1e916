//! Hosts that a sandboxed server may reach, as a person writes them: `api.example.com`, `*.example.org:443`, `10.0.0.5:8080`.
//!
//! Pure: what a name resolves to is judged by [`AllowedHosts::judge`] and looked up by `proxy`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use annals_core::address;
use url::Host;

/// The ports of an entry that names none.
const WEB_PORTS: [u16; 2] = [80, 443];

/// What `localhost` is everywhere, so that no resolver is asked about it.
pub(crate) const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// The hosts that a server may reach; none is no network at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedHosts(Vec<Allowed>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Allowed {
    host: Pattern,
    port: Option<u16>,
    /// As it was written.
    text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    Name(String),
    /// Names below this one, itself not among them.
    Below(String),
    Address(IpAddr),
}

/// A host and a port that a server wants to reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Destination {
    pub(crate) host: DestinationHost,
    pub(crate) port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DestinationHost {
    /// In lower case and ASCII, without a dot at its end.
    Name(String),
    Address(IpAddr),
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            DestinationHost::Name(name) => write!(f, "{name}:{}", self.port),
            DestinationHost::Address(address) => {
                write!(f, "{}", std::net::SocketAddr::new(*address, self.port))
            }
        }
    }
}

impl Destination {
    /// Reads a host in any notation that URLs allow; the same host has one form whichever is used.
    pub(crate) fn parse(host: &str, port: u16) -> Option<Self> {
        let host = match Host::parse(host).ok()? {
            Host::Domain(name) => DestinationHost::Name(canonical(&name)),
            Host::Ipv4(address) => DestinationHost::Address(address.into()),
            Host::Ipv6(address) => DestinationHost::Address(IpAddr::V6(address).to_canonical()),
        };
        Some(Destination { host, port })
    }
}

fn canonical(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

impl AllowedHosts {
    /// Reads the entries; says what is wrong with the first that cannot be read.
    pub fn parse(entries: &[String]) -> Result<Self, String> {
        let allowed = entries.iter().map(|entry| Allowed::parse(entry.trim()));
        Ok(AllowedHosts(allowed.collect::<Result<_, _>>()?))
    }

    /// Whether nothing may be reached.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The entries as they were written.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|allowed| allowed.text.as_str())
    }

    /// Whether a person has named this host and port.
    pub(crate) fn names(&self, target: &Destination) -> bool {
        self.0.iter().any(|allowed| {
            let is_host = match (&allowed.host, &target.host) {
                (Pattern::Name(name), DestinationHost::Name(wanted)) => name == wanted,
                (Pattern::Below(parent), DestinationHost::Name(wanted)) => {
                    let below = wanted.strip_suffix(parent.as_str());
                    below.is_some_and(|label| label.len() > 1 && label.ends_with('.'))
                }
                (Pattern::Address(address), DestinationHost::Address(wanted)) => address == wanted,
                _ => false,
            };
            is_host && allowed.is_port(target.port)
        })
    }

    /// Whether an address that a named host has may be connected to: a public one, or one that is itself on the list.
    /// Otherwise says what it is.
    pub(crate) fn judge(&self, address: IpAddr, port: u16) -> Result<(), &'static str> {
        let address = address.to_canonical();
        let literally = Destination {
            host: DestinationHost::Address(address),
            port,
        };
        let is_named = self.names(&literally)
            || LOOPBACK.contains(&address)
                && self.names(&Destination {
                    host: DestinationHost::Name("localhost".to_owned()),
                    port,
                });
        match is_named {
            true => Ok(()),
            false => address::public(address),
        }
    }
}

impl Allowed {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            Err(format!(
                "`{text}` in `hosts` {why}: give `api.example.com`, `*.example.org:443` or `127.0.0.1:8080`"
            ))
        };
        if text.contains('/') || text.contains('@') {
            return wrong("is an address of a page");
        }
        let (host, port) = match text.rsplit_once(':') {
            // A bare IPv6 address has colons of its own.
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => match port.parse() {
                Ok(port) if port > 0 => (host, Some(port)),
                _ => return wrong("has no port from 1 to 65535 after its colon"),
            },
            _ => (text, None),
        };
        let bare: Option<Ipv6Addr> = host.parse().ok();
        if let Some(address) = bare {
            return Ok(Allowed {
                host: Pattern::Address(IpAddr::V6(address).to_canonical()),
                port,
                text: text.to_owned(),
            });
        }
        let (name, is_below) = match host.strip_prefix("*.") {
            Some(parent) => (parent, true),
            None => (host, false),
        };
        if name.contains('*') {
            return wrong("has a `*` that does not stand for the first part of a name");
        }
        let Some(target) = Destination::parse(name, 0) else {
            return wrong("names no host");
        };
        let host = match (target.host, is_below) {
            (DestinationHost::Name(parent), true) if !parent.contains('.') => {
                return wrong("stands for a whole top-level domain");
            }
            (DestinationHost::Name(parent), true) => Pattern::Below(parent),
            (DestinationHost::Name(name), false) => Pattern::Name(name),
            (DestinationHost::Address(address), false) => Pattern::Address(address),
            (DestinationHost::Address(_), true) => return wrong("has a `*` before an address"),
        };
        Ok(Allowed {
            host,
            port,
            text: text.to_owned(),
        })
    }

    fn is_port(&self, port: u16) -> bool {
        match self.port {
            Some(allowed) => allowed == port,
            None => WEB_PORTS.contains(&port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(entries: &[&str]) -> AllowedHosts {
        let entries: Vec<String> = entries.iter().map(ToString::to_string).collect();
        AllowedHosts::parse(&entries).unwrap()
    }

    #[test]
    fn an_entry_stands_for_what_it_says_and_nothing_beside_it() {
        let allowed = hosts(&[
            "API.example.com.",
            "*.example.org:8443",
            "127.0.0.1:8080",
            "[::1]:9",
            "bücher.example",
        ]);
        for (host, port, expected) in [
            ("api.example.com", 443, true),
            ("api.example.com", 80, true),
            ("API.EXAMPLE.COM.", 443, true),
            ("api.example.com", 22, false),
            ("example.com", 443, false),
            ("x.api.example.com", 443, false),
            ("api.example.com.evil.net", 443, false),
            ("a.example.org", 8443, true),
            ("a.b.example.org", 8443, true),
            ("a.example.org", 443, false),
            ("example.org", 8443, false),
            (".example.org", 8443, false),
            ("evilexample.org", 8443, false),
            ("127.0.0.1", 8080, true),
            ("127.1", 8080, true),
            ("0x7f000001", 8080, true),
            ("[::ffff:127.0.0.1]", 8080, true),
            ("127.0.0.1", 8081, false),
            ("127.0.0.2", 8080, false),
            ("localhost", 8080, false),
            ("[::1]", 9, true),
            ("[0:0::1]", 9, true),
            ("xn--bcher-kva.example", 443, true),
        ] {
            let named = Destination::parse(host, port).is_some_and(|target| allowed.names(&target));
            assert_eq!(named, expected, "{host}:{port}");
        }
    }

    #[test]
    fn a_private_address_has_to_be_on_the_list_itself() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let allowed = hosts(&["intranet.example", "10.0.0.5:443", "localhost:8080"]);
        assert_eq!(allowed.judge(address("93.184.215.14"), 443), Ok(()));
        assert_eq!(allowed.judge(address("10.0.0.5"), 443), Ok(()));
        assert_eq!(allowed.judge(address("10.0.0.5"), 80), Err("private network"));
        assert_eq!(allowed.judge(address("10.0.0.6"), 443), Err("private network"));
        assert_eq!(allowed.judge(address("::1"), 8080), Ok(()));
        assert_eq!(allowed.judge(address("::ffff:127.0.0.1"), 8081), Err("loopback"));
        assert_eq!(
            allowed.judge(address("169.254.169.254"), 80),
            Err("link-local, cloud metadata")
        );
    }

    #[test]
    fn what_is_no_host_is_refused_with_what_to_write_instead() {
        for (entry, why) in [
            ("https://example.com", "address of a page"),
            ("example.com/path", "address of a page"),
            ("user@example.com", "address of a page"),
            ("*", "has a `*`"),
            ("a.*.example.com", "has a `*`"),
            ("*example.com", "has a `*`"),
            ("*.com", "top-level domain"),
            ("*.10.0.0.1", "before an address"),
            ("example.com:https", "no port"),
            ("example.com:0", "no port"),
            ("example.com:70000", "no port"),
            ("", "names no host"),
            ("a b", "names no host"),
        ] {
            let refused = AllowedHosts::parse(&[entry.to_owned()]).unwrap_err();
            assert!(
                refused.contains(why) && refused.contains("`*.example.org:443`"),
                "{entry}: {refused}"
            );
        }
    }
}
