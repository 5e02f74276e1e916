//! Any OpenAI-compatible server. Here a tiny one in this process that always says the same.

#![allow(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use annals::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// One answer as a stream of server-sent events.
fn answer() -> String {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        format!(
            "data: {}\n\n",
            json!({"id": "x", "object": "chat.completion.chunk", "choices": [choice]})
        )
    };
    let usage = json!({"id": "x", "choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 4}});
    let body = [
        chunk(
            json!({"role": "assistant", "content": "Hello from "}),
            Value::Null,
        ),
        chunk(json!({"content": "this machine."}), Value::Null),
        chunk(json!({}), json!("stop")),
        format!("data: {usage}\n\ndata: [DONE]\n\n"),
    ];
    let body = body.concat();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

async fn serve(listener: TcpListener) -> std::io::Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        let mut request = Vec::new();
        let mut buffer = [0; 16_384];
        // The request is whole when its head and as many bytes as it announces are there.
        while !is_whole(&request) {
            match stream.read(&mut buffer).await? {
                0 => break,
                n => request.extend_from_slice(&buffer[..n]),
            }
        }
        stream.write_all(answer().as_bytes()).await?;
    }
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    body.len() >= length.unwrap_or(0)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    annals::launcher::init();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/v1", listener.local_addr()?);
    let server = tokio::spawn(serve(listener));
    let data = tempfile::tempdir()?;
    let model = OpenAi::builder("any-name").base_url(&url).build()?;
    let agent = Agent::builder().model(model).home(data.path()).build().await?;
    let turn = agent.run(agent.session("conv_1").await?, "Say hello").await?;
    println!("{} ({} tokens)", turn.answer(), turn.usage().output_tokens);
    server.abort();
    Ok(turn.into_session().close().await?)
}
