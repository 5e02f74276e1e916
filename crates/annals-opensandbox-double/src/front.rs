//! Connections: every request passes the switchboard, and those for a sandbox go on to its execd.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::uri::{PathAndQuery, Uri};
use http::{HeaderMap, Request};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, UnixStream};
use tokio::task::JoinSet;
use tower::ServiceExt as _;

use crate::faults::{Fault, Faults, Service, disturb, gateway};
use crate::line::{Line, Tamper};

/// What a fault does to the sandbox that a request is for.
pub(crate) type Kill = Arc<dyn Fn(&str, &HeaderMap) + Send + Sync>;

/// What stands behind a listener.
#[derive(Clone)]
pub(crate) struct Front {
    pub(crate) service: Service,
    pub(crate) router: Router,
    pub(crate) faults: Faults,
    pub(crate) kill: Kill,
}

/// Serves until the task is aborted. Its connections end with it: the port may be another sandbox's a moment later, and a
/// kept-alive connection of a client must not lead to this one then.
pub(crate) async fn serve(listener: TcpListener, front: Front) {
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(_) => return,
            },
            Some(_) = connections.join_next() => continue,
        };
        let _ = stream.set_nodelay(true);
        let front = front.clone();
        connections.spawn(async move {
            let tamper = Tamper::default();
            let line = Line::new(stream, tamper.clone());
            let service = service_fn(|request| front.answer(request, &tamper));
            let connection =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(line), service);
            // An error is what a fault makes, or a client that hung up.
            let _ = connection.await;
        });
    }
}

impl Front {
    /// An error closes the connection without an answer.
    async fn answer(&self, request: Request<Incoming>, tamper: &Tamper) -> Result<Response, std::io::Error> {
        let (path, headers) = (request.uri().path().to_owned(), request.headers().clone());
        let fault = self.faults.of(self.service, request.method().as_str(), &path);
        let closed = || Err(std::io::Error::other("closed by a fault"));
        match fault {
            Some(Fault::LoseRequest) => return closed(),
            Some(Fault::Gateway(status)) => return Ok(gateway(status)),
            Some(Fault::Delay(pause)) => tokio::time::sleep(pause).await,
            Some(Fault::KillSandbox) => {
                (self.kill)(&path, &headers);
                return closed();
            }
            _ => {}
        }
        let mut request = request.map(Body::new);
        if fault == Some(Fault::WholeFile) {
            request.headers_mut().remove(http::header::RANGE);
        }
        let answer = match self.router.clone().oneshot(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        };
        if let Some(harm) = fault.and_then(Fault::harm) {
            tamper.set(harm);
            return Ok(answer);
        }
        match fault {
            None => Ok(answer),
            Some(Fault::LoseAnswer) => {
                drain(answer).await;
                closed()
            }
            Some(Fault::GatewayAfter(status)) => {
                drain(answer).await;
                Ok(gateway(status))
            }
            Some(Fault::DelayAnswer(pause)) => {
                tokio::time::sleep(pause).await;
                Ok(answer)
            }
            Some(Fault::KillSandboxAfter) => {
                drain(answer).await;
                (self.kill)(&path, &headers);
                closed()
            }
            Some(fault) => Ok(disturb(answer, fault)),
        }
    }
}

/// Lets what was asked come to its end, as far as that takes no longer than a stream stays open.
async fn drain(answer: Response) {
    use http_body_util::BodyExt as _;
    let bound = std::time::Duration::from_millis(300);
    let _ = tokio::time::timeout(bound, answer.into_body().collect()).await;
}

/// Sends a request on to the service behind a socket; 502 while nobody listens there.
pub(crate) async fn forward(socket: &Path, path_and_query: &str, request: Request<Body>) -> Response {
    match try_forward(socket.to_owned(), path_and_query, request).await {
        Ok(answer) => answer,
        Err(_) => gateway(502),
    }
}

async fn try_forward(
    socket: PathBuf,
    path_and_query: &str,
    mut request: Request<Body>,
) -> Result<Response, Box<dyn std::error::Error + Send + Sync>> {
    let stream = UnixStream::connect(socket).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    *request.uri_mut() = Uri::from(path_and_query.parse::<PathAndQuery>()?);
    if !request.headers().contains_key(http::header::HOST) {
        request
            .headers_mut()
            .insert(http::header::HOST, http::HeaderValue::from_static("sandbox"));
    }
    let answer = sender.send_request(request).await?;
    Ok(answer.map(Body::new))
}
