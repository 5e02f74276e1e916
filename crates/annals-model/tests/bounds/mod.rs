//! Servers that never stop: what one answer may take of time and memory is bounded, and the error says so.

use std::time::Duration;

use crate::loopback::{Reply, Server, Then};
use annals_core::view::prompt::{Message, Piece, Prompt};
use annals_model::{Answer, ApiKey, ModelError, ModelSpec, Request, RetryPolicy, StallPhase, Timeouts, open};
use tokio_util::sync::CancellationToken;

const MODELS: [&str; 2] = ["openai:gpt-5", "anthropic:claude-sonnet-4-5"];

fn spec(name: &str, base_url: &str) -> ModelSpec {
    let mut spec = ModelSpec::new(name.parse().unwrap(), 1);
    spec.base_url = Some(base_url.to_owned());
    spec.openai_key = Some(ApiKey::new("sk-test-secret-openai"));
    spec.anthropic_key = Some(ApiKey::new("sk-test-secret-anthropic"));
    // A server that floods must not be asked again: the policy would, if the error allowed it.
    spec.retry = RetryPolicy::default().without_waits();
    spec.timeouts = Timeouts {
        first_byte: Duration::from_secs(2),
        idle: Duration::from_secs(2),
        whole: Duration::from_secs(20),
        answer_max_bytes: 200_000,
        ..Timeouts::default()
    };
    spec
}

async fn ask(spec: &ModelSpec) -> Result<Answer, ModelError> {
    let prompt = Prompt {
        system: "Be brief.".into(),
        tools: [].into(),
        messages: vec![Message::User(vec![Piece::text("Hello")])].into(),
    };
    let model = open(spec).unwrap();
    let stream = model
        .stream(Request::new(prompt, 1_000), &CancellationToken::new())
        .await?;
    Answer::collect(stream).await
}

/// A piece of text as each provider streams it.
fn piece(name: &str) -> &'static str {
    match name.starts_with("openai") {
        true => "data: {\"choices\":[{\"delta\":{\"content\":\"and so on \"}}]}\n\n",
        false => {
            "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":\
             {\"type\":\"text_delta\",\"text\":\"and so on \"}}\n\n"
        }
    }
}

/// What opens a block of text, where a provider needs it.
fn opening(name: &str) -> &'static str {
    match name.starts_with("openai") {
        true => ": hello\n\n",
        false => {
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{}}}\n\n\
             event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":\
             {\"type\":\"text\",\"text\":\"\"}}\n\n"
        }
    }
}

#[tokio::test]
async fn an_answer_without_end_is_too_large_and_is_not_asked_for_again() {
    for name in MODELS {
        for flood in [
            piece(name),
            "data: {\"x\":\"",
            "0123456789abcdef",
            ": still here\n\n",
            "\n",
        ] {
            // In pieces of some size: two hundred thousand writes of a byte each would test the machine, not the bound.
            let flood_piece = flood.repeat(4_096 / flood.len());
            let chunks = [opening(name).as_bytes(), flood_piece.as_bytes()];
            let reply = Reply::stream(&chunks).then(Then::Repeat(Duration::ZERO));
            let server = Server::playing(vec![reply]).await;
            let error = ask(&spec(name, &server.base_url)).await.unwrap_err();
            assert_eq!(
                error,
                ModelError::TooLarge { max_bytes: 200_000 },
                "{name} {flood}"
            );
            assert_eq!(server.asked().len(), 1, "{name} {flood}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_drips_ends_with_its_time() {
    for name in MODELS {
        let chunks = [opening(name).as_bytes(), piece(name).as_bytes()];
        let reply = Reply::stream(&chunks).then(Then::Repeat(Duration::from_millis(20)));
        let server = Server::playing(vec![reply]).await;
        let mut spec = spec(name, &server.base_url);
        spec.timeouts.whole = Duration::from_millis(300);
        let error = ask(&spec).await.unwrap_err();
        let whole = |error: &ModelError| {
            matches!(
                error,
                ModelError::Stalled {
                    phase: StallPhase::Whole,
                    ..
                }
            )
        };
        assert!(whole(&error), "{error}");
        assert!(!error.is_retryable());
        assert_eq!(server.asked().len(), 1);
    }
}

#[tokio::test]
async fn headers_without_end_end_the_request() {
    let server = Server::playing(vec![Reply::stream(&[]).then(Then::Headers)]).await;
    let mut spec = spec(MODELS[0], &server.base_url);
    spec.retry = RetryPolicy::never();
    let error = ask(&spec).await.unwrap_err();
    assert!(matches!(error.kind(), "network" | "stalled"), "{error}");
}

#[tokio::test]
async fn a_complaint_without_end_is_cut() {
    let complaint = "x".repeat(1_000);
    let reply = Reply::error(400, &complaint).then(Then::Repeat(Duration::ZERO));
    let server = Server::playing(vec![reply]).await;
    let error = ask(&spec(MODELS[0], &server.base_url)).await.unwrap_err();
    assert_eq!(error.kind(), "bad_request");
    assert!(error.to_string().len() < 1_000, "{error}");
}

#[tokio::test]
async fn a_packed_answer_is_not_unpacked() {
    // Ten bytes of gzip's head and then zeros: what a bomb is made of.
    let mut bomb = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    bomb.extend([0; 50_000]);
    let reply = Reply::stream(&[&bomb]).header("content-encoding: gzip");
    let server = Server::playing(vec![reply]).await;
    let mut spec = spec(MODELS[0], &server.base_url);
    spec.retry = RetryPolicy::never();
    let error = ask(&spec).await.unwrap_err();
    assert!(matches!(error.kind(), "malformed" | "cut_off"), "{error}");
    let head = &server.asked()[0].head;
    assert!(!head.contains("accept-encoding"), "{head}");
}

#[tokio::test]
async fn a_password_in_an_address_is_in_no_error() {
    for address in [
        "http://me:hunter2@127.0.0.1:1/v1",
        "http://127.0.0.1:1/v1?key=hunter2",
        "not-a-url://me:hunter2@",
        "me:hunter2@host",
        "http://me:hunter2@:99999/v1",
    ] {
        for name in MODELS {
            let mut spec = spec(name, address);
            spec.retry = RetryPolicy::never();
            let shown = match open(&spec) {
                Err(error) => format!("{error} {error:?}"),
                Ok(_) => {
                    let error = ask(&spec).await.unwrap_err();
                    format!("{error} {error:?}")
                }
            };
            assert!(!shown.contains("hunter2"), "{address}: {shown}");
        }
    }
}
