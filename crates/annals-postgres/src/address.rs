//! Where a database is, from a URL: what tokio-postgres reads, TLS, and a few words of our own.

use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Why a text names no database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The text is not a URL of a database, or an option of it is unknown.
    #[error("the store's URL cannot be used: {0}; it looks like `postgres://user@host/database`")]
    Malformed(String),
    /// The certificates cannot be read.
    #[error("the certificates of `{file}` cannot be read: {detail}")]
    Certificates {
        /// The file that was named.
        file: String,
        /// What is wrong with it.
        detail: String,
    },
    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
}

/// Where a database is, and how to talk to it.
#[derive(Clone)]
pub struct Address {
    pub(crate) config: Config,
    /// For what a transaction pooler cannot carry: `LISTEN`.
    pub(crate) direct: Option<Config>,
    /// Whether a transaction pooler is known to stand between.
    is_pooled: bool,
    pub(crate) tls: MakeRustlsConnect,
    pub(crate) name: Arc<str>,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Address").field(&self.name).finish()
    }
}

/// How the server's certificate is judged.
#[derive(Default)]
struct Trust {
    file: Option<String>,
    mode: Option<SslMode>,
}

impl Address {
    /// Reads a URL.
    ///
    /// Beside what tokio-postgres knows there are: `sslmode=verify-full` (the same as `require`: a certificate is always
    /// checked), `sslrootcert=FILE` (whom to trust instead of the system's certificates), `direct_host` and `direct_port`
    /// (the server behind a transaction pooler, for notifications), `pooled=true` (a pooler, and no way around it).
    pub fn parse(url: &str) -> Result<Self, AddressError> {
        let malformed = |error: &dyn std::fmt::Display| AddressError::Malformed(error.to_string());
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut kept, mut own) = (Vec::new(), Vec::new());
        let mut trust = Trust::default();
        for option in query.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("sslrootcert", file)) => trust.file = Some(decoded(file)),
                Some(("sslmode", "verify-full" | "verify-ca")) => trust.mode = Some(SslMode::Require),
                Some((key @ ("direct_host" | "direct_port" | "pooled"), value)) => {
                    own.push((key, decoded(value)));
                }
                _ => kept.push(option),
            }
        }
        let url = match kept.is_empty() {
            true => place.to_owned(),
            false => format!("{place}?{}", kept.join("&")),
        };
        let mut config: Config = url.parse().map_err(|error| malformed(&source(&error)))?;
        defaults(&mut config);
        if let Some(mode) = trust.mode.or(trust.file.as_ref().map(|_| SslMode::Require)) {
            config.ssl_mode(mode);
        }
        Ok(Address {
            direct: direct(&config, &own).map_err(|error| malformed(&error))?,
            tls: MakeRustlsConnect::new(tls(trust.file)?),
            is_pooled: own.iter().any(|option| *option != ("pooled", "false".to_owned())),
            name: name(&config).into(),
            config,
        })
    }

    /// Whether what belongs to a connection, such as prepared statements, is there for its next statement, too.
    pub(crate) fn has_own_sessions(&self) -> bool {
        !self.is_pooled
    }

    /// Host and database, without a password: for messages.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// What the driver adds to its message lies in the source.
fn source(error: &tokio_postgres::Error) -> String {
    use std::error::Error as _;
    error
        .source()
        .map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

/// What an operator would otherwise have to write into every URL.
fn defaults(config: &mut Config) {
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(5));
    }
    if config.get_application_name().is_none() {
        config.application_name("annals");
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(Duration::from_secs(20));
    }
    // With several hosts, the one that takes writes.
    if config.get_hosts().len() > 1 && config.get_target_session_attrs() == TargetSessionAttrs::Any {
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
}

/// The way around a pooler; none where there is none.
fn direct(config: &Config, own: &[(&str, String)]) -> Result<Option<Config>, String> {
    let value = |key: &str| own.iter().find(|(name, _)| *name == key).map(|(_, value)| value);
    let (host, port) = (value("direct_host"), value("direct_port"));
    if host.is_none() && port.is_none() {
        return match value("pooled").map(String::as_str) {
            None | Some("false") => Ok(Some(config.clone())),
            Some("true") => Ok(None),
            Some(other) => Err(format!("`pooled={other}` is neither `true` nor `false`")),
        };
    }
    let mut direct = Config::new();
    config.get_user().map(|user| direct.user(user));
    config.get_password().map(|password| direct.password(password));
    config.get_dbname().map(|name| direct.dbname(name));
    direct.ssl_mode(config.get_ssl_mode());
    defaults(&mut direct);
    match (host, config.get_hosts()) {
        (Some(host), _) => {
            direct.host(host);
        }
        (None, hosts) => {
            for host in hosts {
                match host {
                    Host::Tcp(host) => direct.host(host),
                    Host::Unix(path) => direct.host_path(path),
                };
            }
        }
    }
    if let Some(port) = port {
        direct.port(
            port.parse()
                .map_err(|_| format!("`direct_port={port}` is no port"))?,
        );
    }
    Ok(Some(direct))
}

fn name(config: &Config) -> String {
    let hosts: Vec<String> = config
        .get_hosts()
        .iter()
        .map(|host| match host {
            Host::Tcp(host) => host.clone(),
            Host::Unix(path) => path.display().to_string(),
        })
        .collect();
    format!(
        "postgres://{}/{}",
        hosts.join(","),
        config.get_dbname().unwrap_or_default()
    )
}

/// With this file's certificates, or those that the system trusts.
fn tls(file: Option<String>) -> Result<ClientConfig, AddressError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let Some(file) = file else {
        return Ok(builder.with_platform_verifier()?.with_no_client_auth());
    };
    let unreadable = |detail: String| AddressError::Certificates {
        file: file.clone(),
        detail,
    };
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(&file).map_err(|error| unreadable(error.to_string()))? {
        let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
        roots
            .add(certificate)
            .map_err(|error| unreadable(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(unreadable("it has none".to_owned()));
    }
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// A value of a URL, without its percent signs.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = (first == b'%').then(|| after.get(..2)).flatten();
        let byte = hex
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match byte {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_no_password_and_options_of_ours_do_not_reach_the_driver() {
        let address = Address::parse("postgres://me:secret@db.example:6432/annals?pooled=true").unwrap();
        assert!(!address.has_own_sessions());
        assert_eq!(address.name(), "postgres://db.example/annals");
        assert!(!format!("{address:?}").contains("secret"));
        assert!(address.direct.is_none());
        let address = Address::parse("postgres://me:secret@db/annals?direct_port=5433").unwrap();
        let direct = address.direct.unwrap();
        assert_eq!(direct.get_ports(), [5433]);
        assert_eq!(direct.get_password(), Some("secret".as_bytes()));
    }

    #[test]
    fn several_hosts_mean_the_one_that_takes_writes() {
        let address = Address::parse("postgres://me@a,b,c/annals").unwrap();
        assert_eq!(
            address.config.get_target_session_attrs(),
            TargetSessionAttrs::ReadWrite
        );
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said() {
        for (url, said) in [
            ("postgres://db/annals?colour=red", "colour"),
            ("postgres://db/annals?pooled=perhaps", "pooled=perhaps"),
            ("postgres://db/annals?direct_port=x", "direct_port=x"),
            (
                "postgres://db/annals?sslrootcert=%2Fnowhere%2Fca.pem",
                "/nowhere/ca.pem",
            ),
        ] {
            let error = Address::parse(url).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
