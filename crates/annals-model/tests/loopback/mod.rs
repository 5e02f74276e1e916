//! A server on this machine that plays recorded and broken answers, and keeps what it was asked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

/// What is done after the last chunk.
#[derive(Clone, Copy)]
pub(crate) enum Then {
    /// The body ends as it should.
    End,
    /// The connection breaks in the middle of the body.
    Break,
    /// Nothing more comes, and the connection stays open.
    Hang,
    /// The last chunk comes again and again, with this pause, until the client hangs up.
    Repeat(Duration),
    /// After the status, header lines come until the client hangs up.
    Headers,
}

/// One answer.
#[derive(Clone)]
pub(crate) struct Reply {
    status: u16,
    headers: String,
    chunks: Vec<Vec<u8>>,
    gate: Option<Arc<Barrier>>,
    then: Then,
}

impl Reply {
    /// A stream of these chunks.
    pub(crate) fn stream(chunks: &[&[u8]]) -> Self {
        let chunks = chunks.iter().map(|chunk| chunk.to_vec()).collect();
        let headers = "content-type: text/event-stream\r\n".into();
        Reply {
            status: 200,
            headers,
            chunks,
            gate: None,
            then: Then::End,
        }
    }

    /// A stream of one chunk.
    pub(crate) fn text(body: &str) -> Self {
        Reply::stream(&[body.as_bytes()])
    }

    /// A complaint.
    pub(crate) fn error(status: u16, body: &str) -> Self {
        let headers = "content-type: application/json\r\n".into();
        Reply {
            status,
            headers,
            chunks: vec![body.into()],
            gate: None,
            then: Then::End,
        }
    }

    pub(crate) fn header(mut self, line: &str) -> Self {
        self.headers.push_str(line);
        self.headers.push_str("\r\n");
        self
    }

    /// The first chunk is sent, the rest when as many connections as the barrier counts have come as far.
    pub(crate) fn held_at(mut self, gate: Barrier) -> Self {
        self.gate = Some(Arc::new(gate));
        self
    }

    pub(crate) fn then(mut self, then: Then) -> Self {
        self.then = then;
        self
    }
}

/// What was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) head: String,
    pub(crate) body: serde_json::Value,
}

/// The server. Stops when it is dropped.
pub(crate) struct Server {
    pub(crate) base_url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    _tasks: JoinSet<()>,
}

impl Server {
    /// The k-th request gets the k-th reply, later ones the last.
    pub(crate) async fn playing(replies: Vec<Reply>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&asked);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let replies = Arc::new(replies);
            let next = AtomicUsize::new(0);
            let mut connections = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let at = next.fetch_add(1, Ordering::Relaxed).min(replies.len() - 1);
                connections.spawn(serve(socket, replies[at].clone(), Arc::clone(&shared)));
            }
        });
        Server {
            base_url,
            asked,
            _tasks: tasks,
        }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

async fn serve(mut socket: TcpStream, reply: Reply, asked: Arc<Mutex<Vec<Asked>>>) {
    let Some(request) = read_request(&mut socket).await else {
        return;
    };
    asked.lock().unwrap().push(request);
    let Reply {
        status,
        headers,
        chunks,
        mut gate,
        then,
    } = reply;
    if let Then::Headers = then {
        let mut sent = socket.write_all(b"HTTP/1.1 200 OK\r\n").await;
        while sent.is_ok() {
            sent = socket.write_all(b"x-more: 0123456789\r\n").await;
        }
        return;
    }
    let head =
        format!("HTTP/1.1 {status} X\r\n{headers}transfer-encoding: chunked\r\nconnection: close\r\n\r\n");
    let mut sent = socket.write_all(head.as_bytes()).await;
    for chunk in chunks.iter().filter(|chunk| !chunk.is_empty()) {
        sent = sent.and(socket.write_all(&framed(chunk)).await);
        sent = sent.and(socket.flush().await);
        if let Some(gate) = gate.take() {
            gate.wait().await;
        }
    }
    drop(sent); // a client that hung up has read what it wanted
    match then {
        Then::End => drop(socket.write_all(b"0\r\n\r\n").await),
        Then::Break => drop(socket.write_all(b"ffff\r\n").await),
        Then::Hang => std::future::pending().await,
        Then::Repeat(pause) => {
            let chunk = framed(chunks.last().map_or(&b"\n"[..], Vec::as_slice));
            while socket.write_all(&chunk).await.is_ok() {
                tokio::time::sleep(pause).await;
            }
        }
        Then::Headers => {}
    }
}

fn framed(chunk: &[u8]) -> Vec<u8> {
    let mut framed = format!("{:x}\r\n", chunk.len()).into_bytes();
    framed.extend_from_slice(chunk);
    framed.extend_from_slice(b"\r\n");
    framed
}

async fn read_request(socket: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..head_end].to_vec())
        .unwrap()
        .to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"))
        .unwrap();
    let length: usize = length.trim().parse().unwrap();
    while bytes.len() < head_end + length {
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let body = serde_json::from_slice(&bytes[head_end..]).unwrap();
    Some(Asked { head, body })
}
