//! A web server of a few lines that says what it is told and counts who comes.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What a server does with a request, given its head.
pub(super) type Handler = Arc<dyn Fn(&str) -> Vec<u8> + Send + Sync>;

/// A running server; it ends when dropped.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    /// A server on a free port of 127.0.0.1.
    pub(super) async fn start(handler: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::listen("127.0.0.1:0".parse().unwrap(), Arc::new(handler)).await
    }

    /// A server that nobody should reach.
    pub(super) async fn canary() -> Self {
        Self::start(|_| answer(200, "text/plain", b"the canary sang")).await
    }

    pub(super) async fn listen(address: SocketAddr, handler: Handler) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let task = tokio::spawn({
            let (connections, requests) = (connections.clone(), requests.clone());
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    connections.fetch_add(1, Ordering::SeqCst);
                    tokio::spawn(serve(stream, handler.clone(), requests.clone()));
                }
            }
        });
        Server {
            address,
            connections,
            requests,
            task,
        }
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// The heads of all requests so far.
    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: TcpStream, handler: Handler, requests: Arc<Mutex<Vec<String>>>) {
    let mut head = Vec::new();
    let mut byte = [0; 1];
    while !head.ends_with(b"\r\n\r\n") && head.len() < 64_000 {
        match stream.read(&mut byte).await {
            Ok(1) => head.push(byte[0]),
            _ => return,
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    requests.lock().unwrap().push(head.clone());
    let _ = stream.write_all(&handler(&head)).await;
    let _ = stream.shutdown().await;
}

/// The path and query of a request.
pub(super) fn target(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or_default()
}

/// A whole answer.
pub(super) fn answer(status: u16, content_type: &str, body: &[u8]) -> Vec<u8> {
    packed_answer(status, content_type, "identity", body)
}

/// A whole answer in some coding.
pub(super) fn packed_answer(status: u16, content_type: &str, coding: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status} Said\r\nContent-Type: {content_type}\r\nContent-Encoding: {coding}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// A redirect.
pub(super) fn redirect(status: u16, to: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} Moved\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        .into_bytes()
}
