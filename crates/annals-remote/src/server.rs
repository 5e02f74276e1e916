//! A server as a wire reaches it: its address and key, checked, and requests to it.

use annals_core::redact::SafeUrl;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Method, RequestBuilder, Response};
use url::Url;

use crate::error::{ApiError, SettingsError};
use crate::http::{Http, ReadRefusal};
use crate::timing::Timing;

/// What a wire says of all its servers.
#[derive(Debug, Clone, Copy)]
pub struct Dialect {
    /// The name of the backend.
    pub name: &'static str,
    /// How the address of a server is written.
    pub example: &'static str,
    /// The header that carries the key, in lower case.
    pub key_header: &'static str,
    /// The environment variable that people keep the key in.
    pub key_variable: &'static str,
    /// How its refusals are read.
    pub read_refusal: ReadRefusal,
}

/// Where a server is, and what it is told.
#[derive(Clone)]
pub struct ServerAddress {
    url: String,
    key: Option<String>,
    timing: Timing,
}

impl ServerAddress {
    /// The server at `url`, with the key it asks for.
    pub fn new(url: impl Into<String>, key: Option<String>) -> Self {
        Self {
            url: url.into(),
            key,
            timing: Timing::default(),
        }
    }

    /// With other waits.
    #[must_use]
    pub fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }
}

/// The address of a server, or the text without its password.
pub fn server_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok();
    url.filter(|url| matches!(url.scheme(), "http" | "https") && url.host_str().is_some())
        .ok_or_else(|| SafeUrl(text).to_string())
}

/// A server that is asked.
#[derive(Debug, Clone)]
pub struct Server {
    url: Url,
    key: Option<(HeaderName, HeaderValue)>,
    http: Http,
}

impl Server {
    /// Checks where it is and its key. Nothing is asked of it yet.
    pub fn parse(address: ServerAddress, dialect: &Dialect) -> Result<Self, SettingsError> {
        let url = server_url(&address.url).map_err(|given| SettingsError::Url {
            given,
            example: dialect.example,
        })?;
        let key = address.key.map(|key| {
            let mut key = HeaderValue::from_str(&key).map_err(|_| SettingsError::Key {
                variable: dialect.key_variable,
            })?;
            key.set_sensitive(true);
            Ok((HeaderName::from_static(dialect.key_header), key))
        });
        let http = Http::new(&url, dialect.read_refusal, address.timing)
            .map_err(|error| SettingsError::Client(error.to_string()))?;
        Ok(Self {
            url,
            key: key.transpose()?,
            http,
        })
    }

    /// Where it is.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// HTTP, also for its sandboxes.
    pub fn http(&self) -> &Http {
        &self.http
    }

    /// A request with the key.
    pub fn request(&self, method: Method, path: &[&str], query: &[(&str, String)]) -> RequestBuilder {
        let request = self.http.request(method, &self.url, path, query);
        match &self.key {
            Some((name, key)) => request.header(name, key),
            None => request,
        }
    }

    /// Sends a request whose answer is short.
    pub async fn send(&self, doing: &'static str, request: RequestBuilder) -> Result<Response, ApiError> {
        self.http.send(doing, request).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIALECT: Dialect = Dialect {
        name: "wire",
        example: "wire:https://host",
        key_header: "x-key",
        key_variable: "WIRE_KEY",
        read_refusal: |_| (None, String::new()),
    };

    #[test]
    fn an_address_or_key_that_cannot_be_used_is_refused_without_its_secret() {
        let parse = |url: &str, key: &str| {
            let address = ServerAddress::new(url, Some(key.to_owned()));
            Server::parse(address, &DIALECT)
                .map(drop)
                .map_err(|error| error.to_string())
        };
        assert_eq!(parse("http://127.0.0.1:8080", "key"), Ok(()));
        for url in ["ftp://user:secret@host", "host:8080", "http://", "secret"] {
            let refused = parse(url, "key").unwrap_err();
            assert!(refused.contains("`wire:https://host`"), "{refused}");
            assert!(!refused.contains("user:secret"), "{refused}");
        }
        let refused = parse("http://host", "secret\n").unwrap_err();
        assert!(
            refused.contains("`WIRE_KEY`") && !refused.contains("secret"),
            "{refused}"
        );
    }
}
