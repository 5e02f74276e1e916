use annals_core::turn::outcome::Then;
use serde_json::json;

use crate::stage::{Stage, codes, error_code};

#[tokio::test]
async fn questions_end_the_turn() {
    let mut stage = Stage::new();
    let outcome = stage
        .call(
            "react.clarify",
            json!({"questions": ["Which year?", " In euros? "]}),
        )
        .await;
    assert_eq!(outcome.then, Then::Clarify);
    insta::assert_snapshot!(stage.shape());
}

#[tokio::test]
async fn no_question_does_not() {
    let mut stage = Stage::new();
    let outcome = stage.call("react.clarify", json!({"questions": ["  "]})).await;
    assert_eq!(
        (outcome.then, error_code(&outcome)),
        (Then::Continue, Some("clarify_without_question"))
    );
    let outcome = stage.call("react.clarify", json!({"questions": []})).await;
    assert_eq!(
        (outcome.then, codes(&outcome)),
        (Then::Continue, vec!["protocol_violation.tool_signature_red"])
    );
}
