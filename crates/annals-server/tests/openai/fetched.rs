//! Files that messages name by address: fetched within limits of count and size, and never held in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use annals_server::{Limits, Options};
use annals_tools::web::egress::Opened;
use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use serde_json::{Value, json};

use crate::common::{Running, options};

/// Bytes of each file that is served.
const FILE_BYTES: usize = 4_000;

#[derive(Clone, Default)]
struct Files(Arc<AtomicUsize>);

async fn file(State(files): State<Files>, Path(name): Path<String>) -> Vec<u8> {
    files.0.fetch_add(1, Ordering::SeqCst);
    name.bytes().cycle().take(FILE_BYTES).collect()
}

impl Files {
    async fn listen(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/{name}", get(file)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        address.to_string()
    }
}

async fn served(steps: Value, limits: Limits) -> (Files, String, Running) {
    let files = Files::default();
    let address = files.listen().await;
    let options = Options {
        opened: vec![Opened::parse(&address).unwrap()],
        limits,
        ..options()
    };
    let server = Running::with(steps, options, |builder| builder).await;
    (files, address, server)
}

fn named(address: &str, name: impl std::fmt::Display) -> Value {
    json!({"type": "image_url", "image_url": {"url": format!("http://{address}/{name}")}})
}

async fn ask(server: &Running, messages: Value) -> (u16, Value) {
    let body = json!({"model": "annals", "messages": messages});
    let answer = server.post("/v1/chat/completions", &body).await;
    (answer.status().as_u16(), answer.json().await.unwrap())
}

#[tokio::test]
async fn a_prompt_with_too_many_files_is_refused_before_any_is_fetched() {
    let (files, address, server) = served(json!([]), Limits::default()).await;
    let parts: Vec<Value> = (0..200).map(|n| named(&address, n)).collect();
    let (status, body) = ask(&server, json!([{"role": "user", "content": parts}])).await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (400, &json!("too_many_files")),
        "{body}"
    );
    assert_eq!(files.0.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_history_may_not_name_more_addresses_than_a_prompt_may_have_files() {
    let limits = Limits {
        attachments_max: 3,
        ..Limits::default()
    };
    let (files, address, server) = served(json!([]), limits).await;
    let mut messages = Vec::new();
    for n in 0..10 {
        messages.push(json!({"role": "user", "content": [named(&address, n)]}));
        messages.push(json!({"role": "assistant", "content": "seen"}));
    }
    messages.push(json!({"role": "user", "content": "and now?"}));
    let (status, body) = ask(&server, json!(messages)).await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (400, &json!("too_many_files")),
        "{body}"
    );
    assert_eq!(files.0.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn what_is_fetched_for_a_request_has_a_limit_in_all() {
    let limits = Limits {
        upload_max_bytes: 2 * FILE_BYTES as u64 + 100,
        ..Limits::default()
    };
    let (_files, address, server) = served(json!([]), limits).await;
    let parts: Vec<Value> = (0..3).map(|n| named(&address, n)).collect();
    let (status, body) = ask(&server, json!([{"role": "user", "content": parts}])).await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (400, &json!("too_large")),
        "{body}"
    );
}

#[tokio::test]
async fn an_address_that_a_history_repeats_is_fetched_once_and_the_answer_comes() {
    let steps = json!([{"text": "the same", "expect": ["file-1.txt"]}]);
    let (files, address, server) = served(steps, Limits::default()).await;
    let mut messages = Vec::new();
    for _ in 0..5 {
        messages.push(json!({"role": "user", "content": [named(&address, "a")]}));
        messages.push(json!({"role": "assistant", "content": "seen"}));
    }
    messages.push(
        json!({"role": "user", "content": [{"type": "text", "text": "and now?"}, named(&address, "a")]}),
    );
    let (status, body) = ask(&server, json!(messages)).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(body["choices"][0]["message"]["content"], "the same");
    assert_eq!(files.0.load(Ordering::SeqCst), 1);
}
