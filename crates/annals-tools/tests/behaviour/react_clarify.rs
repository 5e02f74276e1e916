use annals_core::block::BlockKind;
use annals_core::turn::outcome::Outcome;
use serde_json::json;

use crate::stage::{Stage, codes, error_code};

/// Whether it writes the block that ends the turn with questions.
fn asks(outcome: &Outcome) -> bool {
    let mut beside = outcome.beside.iter();
    beside.any(|block| block.kind == BlockKind::StageClarification)
}

#[tokio::test]
async fn questions_end_the_turn() {
    let mut stage = Stage::new();
    let outcome = stage
        .call(
            "react.clarify",
            json!({"questions": ["Which year?", " In euros? "]}),
        )
        .await;
    assert!(asks(&outcome));
    insta::assert_snapshot!(stage.shape());
}

#[tokio::test]
async fn no_question_does_not() {
    let mut stage = Stage::new();
    let outcome = stage.call("react.clarify", json!({"questions": ["  "]})).await;
    assert_eq!(
        (asks(&outcome), error_code(&outcome)),
        (false, Some("clarify_without_question"))
    );
    let outcome = stage.call("react.clarify", json!({"questions": []})).await;
    assert_eq!(
        (asks(&outcome), codes(&outcome)),
        (false, vec!["protocol_violation.tool_signature_red"])
    );
}
