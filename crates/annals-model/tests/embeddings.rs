//! The embeddings endpoint against a server that behaves as providers do, and worse.

#[allow(dead_code, reason = "the providers' tests use the rest")]
mod loopback;

use std::time::Duration;

use annals_embed::{EmbedError, Embedder};
use annals_model::{ApiKey, EmbeddingsEndpoint, EmbeddingsSpec, RetryPolicy, Timeouts};
use loopback::{Reply, Server, Then};
use serde_json::json;

fn vectors(vectors: &[&[f32]]) -> Reply {
    let data: Vec<_> = vectors
        .iter()
        .enumerate()
        .map(|(index, numbers)| json!({"object": "embedding", "index": index, "embedding": numbers}))
        .collect();
    Reply::error(200, &json!({"object": "list", "data": data}).to_string())
}

fn endpoint(server: &Server) -> EmbeddingsEndpoint {
    EmbeddingsEndpoint::new(EmbeddingsSpec {
        base_url: server.base_url.clone(),
        key: Some(ApiKey::new("sk-very-secret")),
        retry: RetryPolicy {
            max_attempts: 3,
            ..RetryPolicy::default()
        }
        .without_waits(),
        timeouts: Timeouts {
            first_byte: Duration::from_millis(300),
            idle: Duration::from_millis(300),
            ..Timeouts::default()
        },
        ..EmbeddingsSpec::new("embed-small", 1)
    })
    .unwrap()
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn texts_go_out_and_vectors_come_back_in_their_order() {
    let shuffled = json!({"data": [
        {"index": 1, "embedding": [0.0, 2.0]},
        {"index": 0, "embedding": [3.0, 0.0]},
    ]});
    let server = Server::playing(vec![Reply::error(200, &shuffled.to_string())]).await;
    let endpoint = endpoint(&server);
    assert_eq!(endpoint.dimension(), None);
    let found = endpoint.embed(&texts(&["one", ""])).await.unwrap();
    assert_eq!(
        (found[0].numbers(), found[1].numbers()),
        (&[127, 0][..], &[0, 127][..])
    );
    assert_eq!(endpoint.dimension(), Some(2));
    let asked = &server.asked()[0];
    assert_eq!(
        asked.body,
        json!({"model": "embed-small", "input": ["one", " "], "encoding_format": "float"})
    );
    assert!(asked.head.starts_with("post /v1/embeddings "), "{}", asked.head);
    assert!(
        asked.head.contains("authorization: bearer sk-very-secret"),
        "{}",
        asked.head
    );
    assert!(endpoint.at_once("one").is_none());
    assert!(
        endpoint
            .identity()
            .starts_with("openai:embed-small@http://127.0.0.1"),
        "{}",
        endpoint.identity()
    );
}

#[tokio::test]
async fn a_limited_rate_and_a_failing_server_are_tried_again() {
    let server = Server::playing(vec![
        Reply::error(429, r#"{"error":{"message":"slow down"}}"#).header("retry-after-ms: 1"),
        Reply::error(503, "busy"),
        vectors(&[&[1.0]]),
    ])
    .await;
    assert_eq!(endpoint(&server).embed(&texts(&["a"])).await.unwrap().len(), 1);
    assert_eq!(server.asked().len(), 3);
}

#[tokio::test]
async fn a_refused_key_is_not_tried_again_and_never_shown() {
    let server = Server::playing(vec![Reply::error(
        401,
        r#"{"error":{"message":"bad key sk-very-secret"}}"#,
    )])
    .await;
    let error = endpoint(&server)
        .embed(&texts(&["a"]))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("refused the key") && !error.contains("secret"),
        "{error}"
    );
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn vectors_of_another_length_are_refused() {
    let server = Server::playing(vec![
        vectors(&[&[1.0, 0.0]]),
        vectors(&[&[1.0, 0.0, 0.0]]),
        vectors(&[&[]]),
    ])
    .await;
    let endpoint = endpoint(&server);
    endpoint.embed(&texts(&["a"])).await.unwrap();
    for found in [3, 0] {
        let error = endpoint.embed(&texts(&["a"])).await.unwrap_err();
        assert_eq!(error, EmbedError::WrongDimension { expected: 2, found });
    }
}

#[tokio::test]
async fn too_few_vectors_are_refused() {
    let server = Server::playing(vec![vectors(&[&[1.0]])]).await;
    let error = endpoint(&server).embed(&texts(&["a", "b"])).await.unwrap_err();
    assert_eq!(error, EmbedError::WrongCount { asked: 2, found: 1 });
}

#[tokio::test]
async fn whatever_is_no_answer_is_an_error_that_says_so() {
    for (reply, expected) in [
        (Reply::error(200, "<html>"), "cannot be read"),
        (Reply::error(200, r#"{"data": "none"}"#), "no embeddings"),
        (
            Reply::error(200, r#"{"error": {"message": "model not loaded"}}"#),
            "model not loaded",
        ),
        (Reply::error(200, r#"{"data""#).then(Then::Break), "connection"),
        (Reply::error(200, r#"{"data""#).then(Then::Hang), "in vain"),
    ] {
        let server = Server::playing(vec![reply]).await;
        let error = endpoint(&server)
            .embed(&texts(&["a"]))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}
