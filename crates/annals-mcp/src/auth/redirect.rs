//! Where the browser comes back to: a listener on this machine, for one login.

use std::net::Ipv4Addr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use url::Url;

use super::login::LoginError;
use crate::limits;
use crate::text;

const PATH: &str = "/callback";

/// What the authorization server told the browser to bring.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Redirected {
    pub(super) code: String,
    /// Who says so, where the server does.
    pub(super) issuer: Option<String>,
}

/// What a request to the listener, or an address that a person pasted, comes to.
pub(super) enum Came {
    Code(Redirected),
    /// The authorization server, or the person there, said no.
    Refused(String),
    /// Not the answer to this login.
    Stranger(&'static str),
}

impl Came {
    /// Reads the query of an address that the browser was sent to.
    pub(super) fn read(address: &Url, state: &str) -> Self {
        let of = |wanted: &str| {
            let mut found = address.query_pairs().filter(|(name, _)| name == wanted);
            found.next().map(|(_, value)| value.into_owned())
        };
        if of("state").as_deref() != Some(state) {
            return Came::Stranger("its `state` is not the one of this login");
        }
        if let Some(error) = of("error") {
            let about = of("error_description").unwrap_or_default();
            return Came::Refused(text::one_line(&format!("{error} {about}"), 300));
        }
        match of("code") {
            Some(code) if !code.is_empty() => Came::Code(Redirected {
                code,
                issuer: of("iss"),
            }),
            _ => Came::Stranger("it brings no code"),
        }
    }
}

/// A listener for one redirect.
pub(super) struct Listener {
    listener: TcpListener,
    port: u16,
}

impl Listener {
    pub(super) async fn bind(port: Option<u16>) -> Result<Self, LoginError> {
        let port = port.unwrap_or(0);
        let unheard = |error: std::io::Error| LoginError::Listen {
            port,
            reason: error.to_string(),
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .await
            .map_err(unheard)?;
        let port = listener.local_addr().map_err(unheard)?.port();
        Ok(Listener { listener, port })
    }

    pub(super) fn address(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits for the answer to this login. What else comes is told so and does not end it.
    pub(super) async fn redirected(&self, state: &str) -> Result<Redirected, LoginError> {
        let state: Arc<str> = state.into();
        let mut visits = JoinSet::new();
        loop {
            tokio::select! {
                visited = self.listener.accept(), if visits.len() < limits::REDIRECT_VISITS_MAX => {
                    // One that cannot be accepted went away again.
                    if let Ok((stream, _)) = visited {
                        visits.spawn(visit(stream, self.port, state.clone()));
                    }
                }
                Some(came) = visits.join_next() => match came {
                    Ok(Some(Came::Code(redirected))) => return Ok(redirected),
                    Ok(Some(Came::Refused(words))) => return Err(LoginError::Refused(words)),
                    _ => {}
                },
            }
        }
    }
}

async fn visit(mut stream: TcpStream, port: u16, state: Arc<str>) -> Option<Came> {
    let reading = tokio::time::timeout(limits::REDIRECT_VISIT_TIMEOUT, target(&mut stream));
    let target = reading.await.ok()??;
    let address = Url::parse(&format!("http://127.0.0.1:{port}{target}")).ok()?;
    let came = match address.path() == PATH {
        true => Came::read(&address, &state),
        false => Came::Stranger("nothing is here"),
    };
    let (status, words) = match &came {
        Came::Code(_) => (
            "200 OK",
            "Annals has the answer. The terminal says how the login went; this window can be closed.",
        ),
        Came::Refused(_) => (
            "200 OK",
            "The login was refused. The terminal says why; this window can be closed.",
        ),
        Came::Stranger(why) => ("404 Not Found", *why),
    };
    // Plain text, and none of it from outside.
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n{words}\n",
        words.len() + 1
    );
    let telling = async {
        let _ = stream.write_all(answer.as_bytes()).await;
        let _ = stream.shutdown().await;
    };
    let _ = tokio::time::timeout(limits::REDIRECT_VISIT_TIMEOUT, telling).await;
    Some(came)
}

/// The target of a GET request; none if it is another, or not HTTP.
async fn target(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut piece = [0; 2048];
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        let read = stream.read(&mut piece).await.ok()?;
        head.extend_from_slice(&piece[..read]);
        if read == 0 || head.len() > limits::REDIRECT_MAX_BYTES {
            return None;
        }
    }
    let head = String::from_utf8(head).ok()?;
    let mut words = head.lines().next()?.split(' ');
    match (words.next()?, words.next()?) {
        ("GET", target) if target.starts_with('/') => Some(target.to_owned()),
        _ => None,
    }
}
