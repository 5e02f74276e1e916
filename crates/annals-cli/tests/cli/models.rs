//! Servers that are not what they should be.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use super::annals::Annals;

/// A server that answers every request with this and the address it has.
fn server(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let mut request = Vec::new();
            let mut buffer = [0; 65_536];
            // A server that answers before it has read everything makes clients see a broken connection.
            while !is_whole(&request) {
                match stream.read(&mut buffer) {
                    Ok(0) | Err(_) => break,
                    Ok(n) => request.extend_from_slice(&buffer[..n]),
                }
            }
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    url
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, _)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    request.len() >= head.len() + "\r\n\r\n".len() + length.unwrap_or(0)
}

#[test]
fn a_refused_key_is_an_environment_error_that_names_the_variable() {
    let body = r#"{"error": {"message": "Incorrect API key provided", "type": "invalid_request_error", "code": "invalid_api_key"}}"#;
    let answer = format!(
        "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let url = server(Box::leak(answer.into_boxed_str()));
    let annals = Annals::new();
    let mut command = annals.command(&[
        "run",
        "Hi",
        "--model",
        "openai:gpt-5",
        "--base-url",
        &url,
        "--conversation",
        "c1",
    ]);
    let ran = super::annals::Ran::of(command.env("OPENAI_API_KEY", "sk-wrong").output().unwrap());
    assert_eq!(ran.code, 3, "{}", ran.shown());
    assert!(
        ran.stderr.contains("`OPENAI_API_KEY`") && !ran.stderr.contains("sk-wrong"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_base_url_that_is_no_model_server_is_an_environment_error_that_names_it() {
    let url = server(
        "HTTP/1.1 404 Not Found\r\ncontent-type: text/html\r\ncontent-length: 9\r\nconnection: close\r\n\r\nnot here\n",
    );
    let annals = Annals::new();
    let ran = annals.run(&[
        "run",
        "Hi",
        "--model",
        "openai:x",
        "--base-url",
        &url,
        "--conversation",
        "c1",
    ]);
    assert_eq!(ran.code, 3, "{}", ran.shown());
    assert!(ran.stderr.contains(&url), "{}", ran.stderr);
}
