use serde_json::json;

use crate::stage::{Stage, codes, error_code};

#[tokio::test]
async fn a_visible_artifact_stands_for_its_content() {
    let mut stage = Stage::new();
    let content = "the whole of a first document\n".repeat(50);
    stage
        .call(
            "react.write",
            json!({"path": "a.md", "channel": "canvas", "content": content}),
        )
        .await;
    let args = json!({"path": "b.md", "channel": "canvas", "content": "ref:fi:turn_1.files/a.md"});
    stage.call("react.write", args).await;
    assert_eq!(stage.disk("turn_1/files/b.md"), Some(content));
}

#[tokio::test]
async fn a_hidden_unknown_or_binary_one_is_refused() {
    let mut stage = Stage::new();
    stage
        .call(
            "react.write",
            json!({"path": "a.md", "channel": "canvas", "content": "something to hide"}),
        )
        .await;
    stage
        .call(
            "react.hide",
            json!({"path": "fi:turn_1.files/a.md", "replacement": "x"}),
        )
        .await;
    stage.put_on_disk("turn_1/files/x.bin", b"\x00\x01");
    stage
        .call("react.read", json!({"paths": ["turn_1/files/x.bin"]}))
        .await;
    for reference in [
        "ref:fi:turn_1.files/a.md",
        "ref:fi:turn_1.files/none.md",
        "ref:what",
        "ref:turn_1/files/x.bin",
    ] {
        let args = json!({"path": "b.md", "channel": "canvas", "content": reference});
        let outcome = stage.call("react.write", args).await;
        assert_eq!(
            codes(&outcome),
            ["protocol_violation.param_ref_not_visible"],
            "{reference}"
        );
        assert_eq!(error_code(&outcome), Some("param_ref_not_visible"));
        assert_eq!(outcome.notices[0].facts["path"], "/content");
        assert_eq!(stage.disk("turn_1/files/b.md"), None);
    }
}

#[tokio::test]
async fn a_document_that_begins_like_a_reference_is_a_document() {
    let mut stage = Stage::new();
    let content = "ref: see below\nand more of it";
    stage
        .call(
            "react.write",
            json!({"path": "a.md", "channel": "canvas", "content": content}),
        )
        .await;
    assert_eq!(stage.disk("turn_1/files/a.md").as_deref(), Some(content));
}
