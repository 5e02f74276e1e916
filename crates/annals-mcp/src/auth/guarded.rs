//! Requests that a stranger's metadata asks for. They reach public addresses and the places that a person named, never the
//! rest of this machine or its network, and are bounded in size, time and number.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use annals_tools::web::egress::{self, EgressPolicy, Opened, Passed};
use http::{Method, Request, Response};
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};
use url::{Host, Url};

use crate::limits;
use crate::text;

/// The client of one login or one renewal.
pub(crate) struct GuardedHttp {
    server: Url,
    opened: Vec<Opened>,
    sent: AtomicUsize,
    /// Why a request was not made or not read: what calls this client keeps only that it failed.
    failed: Mutex<Option<String>>,
}

impl GuardedHttp {
    /// `hosts` are those of the authorization server that may be private.
    pub(crate) fn new(server: Url, hosts: &[Opened]) -> Self {
        let mut opened = hosts.to_vec();
        // A person configured the server itself.
        opened.extend(place(&server));
        GuardedHttp {
            server,
            opened,
            sent: AtomicUsize::new(0),
            failed: Mutex::default(),
        }
    }

    /// Why the last request failed, if it was here.
    pub(crate) fn failure(&self) -> Option<String> {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.take()
    }

    fn passed(&self, address: &str) -> Result<Passed, String> {
        let url = Url::parse(address).map_err(|_| "an address in it cannot be read".to_owned())?;
        keeps_to_tls(&self.server, &url)?;
        let mut opened = self.opened.clone();
        // A server on this machine may have its authorization server beside it.
        if is_loopback(&self.server) && is_loopback(&url) {
            opened.extend(place(&url));
        }
        let policy = EgressPolicy::new(opened).map_err(|error| error.to_string())?;
        policy.pass_url(url).map_err(|refusal| refusal.to_string())
    }

    async fn answer(&self, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, String> {
        if self.sent.fetch_add(1, Ordering::Relaxed) >= limits::LOGIN_REQUESTS_MAX {
            return Err(format!(
                "it asks for more than {} requests",
                limits::LOGIN_REQUESTS_MAX
            ));
        }
        let passed = self.passed(&request.uri().to_string())?;
        let sending = match *request.method() {
            Method::GET => passed.get(),
            Method::POST => passed.post(),
            _ => return Err("only GET and POST are sent".to_owned()),
        };
        let (head, body) = request.into_parts();
        let sending = sending.headers(head.headers).body(body);
        let mut came = sending.send().await.map_err(|error| said(&error))?;
        let mut answer = Response::builder().status(came.status());
        for (name, value) in came.headers() {
            answer = answer.header(name, value);
        }
        let mut body = Vec::new();
        while let Some(piece) = came.chunk().await.map_err(|error| said(&error))? {
            if body.len() + piece.len() > limits::METADATA_MAX_BYTES {
                return Err(format!(
                    "`{}` answers with more than {} bytes",
                    text::one_line(passed.url.as_str(), 200),
                    limits::METADATA_MAX_BYTES
                ));
            }
            body.extend_from_slice(&piece);
        }
        answer.body(body).map_err(|error| error.to_string())
    }
}

impl OAuthHttpClient for GuardedHttp {
    /// Redirects are never followed: where a request goes is decided before it carries anything.
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let answer = self.answer(request.request);
            let answer = match tokio::time::timeout(limits::LOGIN_REQUEST_TIMEOUT, answer).await {
                Ok(answer) => answer,
                Err(_) => Err(format!(
                    "no answer within {} s",
                    limits::LOGIN_REQUEST_TIMEOUT.as_secs()
                )),
            };
            answer.map_err(|why| {
                let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
                *failed = Some(why.clone());
                why.into()
            })
        })
    }
}

/// What was refused, or else what went wrong at its root, without the address, which may carry a code.
fn said(error: &reqwest::Error) -> String {
    if let Some(refusal) = egress::refusal(error) {
        return refusal.to_string();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    text::one_line(&cause.to_string(), 300)
}

/// A server that is reached over TLS gives no reason to do without.
pub(crate) fn keeps_to_tls(server: &Url, url: &Url) -> Result<(), String> {
    match (server.scheme(), url.scheme()) {
        (_, "https") | ("http", "http") => Ok(()),
        _ => Err(format!(
            "`{}` is not an https address",
            text::one_line(url.as_str(), 200)
        )),
    }
}

pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name.trim_end_matches('.').eq_ignore_ascii_case("localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn place(url: &Url) -> Option<Opened> {
    let (host, port) = (url.host_str()?, url.port_or_known_default()?);
    Opened::parse(&format!("{host}:{port}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(server: &str, hosts: &[&str], url: &str) -> Result<(), String> {
        let hosts: Vec<Opened> = hosts.iter().map(|host| Opened::parse(host).unwrap()).collect();
        let guarded = GuardedHttp::new(Url::parse(server).unwrap(), &hosts);
        guarded.passed(url).map(drop)
    }

    #[test]
    fn metadata_leads_to_public_addresses_and_to_the_servers_own_place() {
        let public = "https://tracker.example/mcp";
        passes(public, &[], "https://login.example/token").unwrap();
        for private in [
            "https://127.0.0.1/token",
            "https://localhost:8443/token",
            "https://10.0.0.9/token",
            "https://169.254.169.254/latest/meta-data",
            "https://[::1]/token",
            "https://[fd00::1]/token",
            "https://0x7f000001/token",
        ] {
            let refused = passes(public, &[], private).unwrap_err();
            assert!(refused.contains("not a public address"), "{private}: {refused}");
        }
        passes("https://10.0.0.9/mcp", &[], "https://10.0.0.9/token").unwrap();
        passes("https://10.0.0.9/mcp", &[], "https://10.0.0.10/token").unwrap_err();
        passes("https://10.0.0.9/mcp", &[], "https://127.0.0.1/token").unwrap_err();
        passes(
            "https://10.0.0.9/mcp",
            &["sso.local:443"],
            "https://sso.local/token",
        )
        .unwrap();
    }

    #[test]
    fn a_server_of_this_machine_may_have_its_login_on_this_machine_and_nowhere_else_private() {
        let local = "http://127.0.0.1:8080/mcp";
        passes(local, &[], "http://localhost:9090/token").unwrap();
        passes(local, &[], "http://[::1]:9090/token").unwrap();
        passes(local, &[], "http://192.168.1.1/token").unwrap_err();
    }

    #[test]
    fn a_token_does_not_leave_tls() {
        let refused = passes("https://tracker.example/mcp", &[], "http://login.example/token");
        assert!(refused.unwrap_err().contains("not an https address"));
        passes("https://tracker.example/mcp", &[], "file:///etc/passwd").unwrap_err();
    }
}
