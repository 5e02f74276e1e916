//! What large files cost the server. It is alone in its program, because it measures its own process.

mod common;

annals_sandbox::helpers_in_tests!(annals_content::init);

use common::Running;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

fn peak_memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// Uploads a file, asks about it, reads it back piece by piece; gives the digest of what came back.
async fn round_trip(server: &Running, name: &str, bytes: Vec<u8>) -> [u8; 32] {
    let form = Form::new()
        .text("purpose", "user_data")
        .part("file", Part::bytes(bytes).file_name(name.to_owned()));
    let uploaded = server.request(Method::POST, "/v1/files").multipart(form).send();
    let file: Value = uploaded.await.unwrap().json().await.unwrap();
    let id = file["id"].as_str().unwrap_or_else(|| panic!("{file}"));
    let content = json!([{"type": "text", "text": "Look"}, {"type": "file", "file": {"file_id": id}}]);
    let asked = json!({"model": "annals", "messages": [{"role": "user", "content": content}]});
    let answer = server.post("/v1/chat/completions", &asked).await;
    assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    let mut kept = server.get(&format!("/v1/files/{id}/content")).await;
    assert_eq!(kept.content_length(), file["bytes"].as_u64());
    let mut hash = Sha256::new();
    while let Some(piece) = kept.chunk().await.unwrap() {
        hash.update(&piece);
    }
    hash.finalize().into()
}

/// The same file in the form that starts a turn.
async fn attach(server: &Running, name: &str, bytes: Vec<u8>) {
    let made: Value = server
        .post("/v1/conversations", &json!({}))
        .await
        .json()
        .await
        .unwrap();
    let turns = format!("/v1/conversations/{}/turns", made["id"].as_str().unwrap());
    let form = Form::new()
        .text("prompt", "Look")
        .part("file", Part::bytes(bytes).file_name(name.to_owned()));
    let started = server
        .request(Method::POST, &turns)
        .multipart(form)
        .send()
        .await
        .unwrap();
    assert_eq!(started.status(), 202, "{}", started.text().await.unwrap());
}

/// Received, kept, given to a turn by its id or with the prompt, sent back: the server holds a piece of it at a time.
#[tokio::test]
async fn a_large_upload_is_never_held_whole() {
    let steps = ["Small.", "Small.", "Large.", "Large."].map(|text| json!({ "text": text }));
    let server = Running::start(json!(steps)).await;
    // No text, and nothing that a packer would make small.
    let mut state = 1_u64;
    let large: Vec<u8> = (0..24 << 20)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    let digest: [u8; 32] = Sha256::digest(&large).into();
    let again = large.clone();
    round_trip(&server, "small.bin", vec![0, 159, 146, 150]).await;
    attach(&server, "small.bin", vec![0, 159, 146, 150]).await;
    let before = peak_memory_bytes();
    attach(&server, "large.bin", again).await;
    assert_eq!(round_trip(&server, "large.bin", large).await, digest);
    let grown = peak_memory_bytes().saturating_sub(before);
    assert!(grown < 12 << 20, "grew by {} MB", grown >> 20);
}
