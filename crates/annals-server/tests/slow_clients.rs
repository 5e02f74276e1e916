//! Clients that send or read slowly, over real connections with small buffers: they lose no block, and they hold nothing for
//! long.

mod common;

use std::time::Duration;

use annals_server::{Limits, Options};
use annals_tools::{DynamicTool, ToolProgress, ToolSpec};
use common::{Event, Gate, Running, options, parse, seqs};
use reqwest::multipart::{Form, Part};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

/// An end for what would wait for ever, on a machine that is busy with others.
const PATIENCE: Duration = Duration::from_secs(120);
/// More than the buffers of a connection hold, those that grow included.
const FLOOD_BYTES: usize = 16 << 20;
const MESSAGE_BYTES: usize = 2 << 10;

/// A tool that waits for its gate, and then says more than a client that does not read can be sent.
fn talkative(gate: &Gate) -> DynamicTool {
    let gate = gate.clone();
    let spec = ToolSpec::builder("talk").parameters(json!({"type": "object", "properties": {}}));
    DynamicTool::with_spec(spec.build().unwrap(), move |cx, _| {
        let gate = gate.clone();
        async move {
            gate.begun.notify_one();
            gate.go.notified().await;
            for at in 0..FLOOD_BYTES / MESSAGE_BYTES {
                cx.report(ToolProgress {
                    progress: at as f64,
                    total: None,
                    message: Some("x".repeat(MESSAGE_BYTES)),
                });
                tokio::task::yield_now().await;
            }
            Ok(json!("said"))
        }
    })
}

/// A turn that talks, writes two files and ends.
fn steps() -> Value {
    let write = |path: &str| {
        json!({"tool_calls": [{"tool": "react.write", "params": {
            "path": path, "channel": "canvas", "content": "words", "kind": "file"}}]})
    };
    let answer = "word ".repeat(200);
    json!([{"tool_calls": [{"tool": "talk", "params": {}}]}, write("a.md"), write("b.md"), {"text": answer}])
}

/// A server with that tool, whose client keeps no connection, so that only those of the test take places.
async fn server(limits: Limits, gate: &Gate) -> Running {
    let tool = talkative(gate);
    let options = Options { limits, ..options() };
    let mut server = Running::with(steps(), options, |builder| builder.tool(tool)).await;
    let client = Client::builder().no_proxy().pool_max_idle_per_host(0);
    server.client = client.build().unwrap();
    server
}

/// A connection that takes a little at a time, with a request of HTTP/1.0, whose answer is its plain bytes up to the end.
async fn ask(server: &Running, path: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 << 10).unwrap();
    let address = server.base.strip_prefix("http://").unwrap();
    let mut stream = socket.connect(address.parse().unwrap()).await.unwrap();
    let request = format!(
        "GET {path} HTTP/1.0\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\r\n",
        server.token
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Reads until the text is there; gives all that came.
async fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let mut read = Vec::new();
    let reading = async {
        let mut piece = vec![0; 64 << 10];
        loop {
            let from = read.len().saturating_sub(text.len());
            let count = stream.read(&mut piece).await.unwrap();
            assert!(count > 0, "the stream ended before `{text}`");
            read.extend_from_slice(&piece[..count]);
            if String::from_utf8_lossy(&read[from..]).contains(text) {
                return;
            }
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, reading).await;
    assert!(in_time.is_ok(), "`{text}` does not come");
    String::from_utf8(read).unwrap()
}

/// The events of a stream, without its head.
fn events(text: &str) -> Vec<Event> {
    let (_, body) = text.split_once("\r\n\r\n").unwrap_or(("", text));
    let whole = body.rsplit_once("\n\n").map_or(body, |(whole, _)| whole);
    whole.split("\n\n").filter_map(parse).collect()
}

async fn begun(gate: &Gate) {
    let begun = tokio::time::timeout(PATIENCE, gate.begun.notified());
    begun.await.expect("the tool begins");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_pauses_is_told_of_a_gap_and_misses_no_block() {
    let gate = Gate::default();
    let limits = Limits {
        write_timeout: Duration::from_secs(600),
        ..Limits::default()
    };
    let server = server(limits, &gate).await;
    let c = server.new_conversation().await;
    let mut slow = ask(&server, &format!("/v1/conversations/{c}/events")).await;
    let head = read_until(&mut slow, "\"state\":\"idle\"").await;
    assert!(head.contains("200 OK"), "{head}");
    let turn = server.prompt(&c, "Go").await;
    begun(&gate).await;
    gate.go.notify_one();
    // Everything happens while nobody reads.
    let began = tokio::time::Instant::now();
    while server
        .get_json(&format!("/v1/conversations/{c}/turns/{turn}"))
        .await["state"]
        != "ended"
    {
        assert!(began.elapsed() < PATIENCE, "the reader holds up the turn");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let seen = events(&read_until(&mut slow, "\"state\":\"ended\"").await);
    let missed = seen.iter().filter(|event| event.name == "gap");
    let missed: u64 = missed.map(|event| event.data["missed"].as_u64().unwrap()).sum();
    let told = seen.iter().filter(|event| event.name == "progress").count();
    assert!(missed > 0, "{told} messages came, and no gap was told of");
    let kept = server
        .get_json(&format!("/v1/conversations/{c}/blocks?limit=1000"))
        .await;
    let blocks: Vec<&Value> = seen
        .iter()
        .filter(|event| event.name == "block")
        .map(|event| &event.data)
        .collect();
    assert_eq!(json!(blocks), kept["items"], "every block, once and in order");
    assert_eq!(seqs(&seen).first(), Some(&1));
}

/// That the only place of the server is free again: a request is answered.
async fn is_free(server: &Running) {
    let asked = server.bare(Method::GET, "/healthz").send();
    let answer = tokio::time::timeout(PATIENCE, asked).await;
    let answer = answer.expect("a reader that has stalled keeps its place");
    assert_eq!(answer.unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_takes_nothing_loses_its_place_and_can_come_back() {
    let gate = Gate::default();
    let limits = Limits {
        write_timeout: Duration::from_millis(300),
        connections_max: 1,
        ..Limits::default()
    };
    let server = server(limits, &gate).await;
    let file = Part::bytes(vec![7; FLOOD_BYTES]).file_name("large.bin");
    let form = Form::new().text("purpose", "user_data").part("file", file);
    let uploaded = server.request(Method::POST, "/v1/files").multipart(form).send();
    let uploaded: Value = uploaded.await.unwrap().json().await.unwrap();
    let id = uploaded["id"].as_str().unwrap_or_else(|| panic!("{uploaded}"));
    let mut download = ask(&server, &format!("/v1/files/{id}/content")).await;
    read_until(&mut download, "\r\n\r\n").await;
    is_free(&server).await;
    let mut rest = Vec::new();
    // What was under way in the network still comes.
    let _ = download.read_to_end(&mut rest).await;
    assert!(rest.len() < FLOOD_BYTES, "all of it came");

    let c = server.new_conversation().await;
    let turn = server.prompt(&c, "Go").await;
    begun(&gate).await;
    let mut stream = ask(&server, &format!("/v1/conversations/{c}/events")).await;
    read_until(&mut stream, "\"state\":\"running\"").await;
    gate.go.notify_one();
    is_free(&server).await;
    server.ended(&c, &turn).await;
    let mut again = server.events(&c, None).await;
    let seen = again
        .until(|event| event.data["type"] == "react.completion")
        .await;
    let kept = server
        .agent
        .timeline(&annals_core::ids::ConversationId::parse(&c).unwrap())
        .await
        .unwrap();
    assert_eq!(seqs(&seen), (1..=kept.blocks().len() as u64).collect::<Vec<_>>());
}

/// Sends a body a byte at a time until the server answers; gives the answer.
async fn drip(server: &Running, path: &str, media_type: &str, body: &str) -> String {
    let address = server.base.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\
         Content-Type: {media_type}\r\nContent-Length: 1000000\r\n\r\n{body}",
        server.token
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut answers, mut sending) = stream.into_split();
    let dripping = tokio::spawn(async move {
        while sending.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    let reading = async {
        // The connection may be reset once the answer is sent, since the body was not read to its end.
        while let Ok(count @ 1..) = answers.read(&mut piece).await {
            answer.extend_from_slice(&piece[..count]);
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, reading).await;
    assert!(in_time.is_ok(), "a body that never ends is waited for");
    dripping.abort();
    String::from_utf8(answer).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_comes_a_byte_at_a_time_is_refused_in_every_form() {
    let limits = Limits {
        body_timeout: Duration::from_millis(300),
        ..Limits::default()
    };
    let server = server(limits, &Gate::default()).await;
    let c = server.new_conversation().await;
    let turns = format!("/v1/conversations/{c}/turns");
    let begun_part = "--b\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\n";
    for (path, media_type, body) in [
        (turns.as_str(), "application/json", "{\"prompt\": \""),
        (&turns, "multipart/form-data; boundary=b", begun_part),
        ("/v1/files", "multipart/form-data; boundary=b", begun_part),
        ("/v1/import", "application/octet-stream", ""),
    ] {
        let answer = drip(&server, path, media_type, body).await;
        assert!(
            answer.starts_with("HTTP/1.1 408 "),
            "{path} as {media_type}: {answer}"
        );
        assert!(
            answer.contains("\"timeout\"") || path == "/v1/files",
            "{path}: {answer}"
        );
    }
    let blocks = server.get_json(&format!("/v1/conversations/{c}/blocks")).await;
    assert_eq!(blocks["items"], json!([]), "nothing of them took effect");
}
