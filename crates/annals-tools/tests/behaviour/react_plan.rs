use serde_json::{Value, json};

use crate::stage::{Stage, error_code, json as answer};

fn plan(mode: &str, steps: &[&str]) -> Value {
    json!({"mode": mode, "steps": steps})
}

#[tokio::test]
async fn a_plan_is_a_snapshot_that_updates_and_closes_under_one_id() {
    let mut stage = Stage::new();
    let made = answer(&stage.call("react.plan", plan("new", &["look", "write"])).await);
    insta::assert_snapshot!(stage.shape());
    let updated = answer(
        &stage
            .call("react.plan", plan("update", &["look", "draft", "write"]))
            .await,
    );
    assert_eq!(updated["plan_id"], made["plan_id"]);
    assert_eq!(
        stage.cx.timeline.read().unwrap().plan().unwrap().steps().count(),
        3
    );
    let closed = answer(&stage.call("react.plan", json!({"mode": "close"})).await);
    assert_eq!(
        (&closed["plan_id"], &closed["status"]),
        (&made["plan_id"], &json!("closed"))
    );
    assert!(stage.cx.timeline.read().unwrap().plan().is_none());
}

#[tokio::test]
async fn what_makes_no_plan_says_why() {
    let mut stage = Stage::new();
    for (args, code) in [
        (plan("update", &["x"]), "no_active_plan"),
        (plan("close", &[]), "no_active_plan"),
        (plan("new", &[]), "invalid_plan"),
        (plan("new", &["ok", "  "]), "invalid_plan"),
    ] {
        let outcome = stage.call("react.plan", args).await;
        assert_eq!(error_code(&outcome), Some(code));
        assert!(outcome.beside.is_empty());
    }
}
