use std::sync::Arc;

use annals_core::turn::outcome::Output;
use annals_tools::{DynamicTool, Family, IntoFailure as _, Tool, ToolFailure, ToolResult, ToolSpec};
use serde_json::{Value, json};

use crate::stage::{Stage, codes, error_code, json as answer};

fn returning(name: &str, family: Family, result: Result<Value, ToolFailure>) -> Arc<dyn Tool> {
    let spec = ToolSpec::builder(name).family(family).build().unwrap();
    Arc::new(DynamicTool::with_spec(spec, move |_, _| {
        let result = result.clone();
        async move { Ok(result?) }
    }))
}

async fn outcome_of(
    family: Family,
    result: Result<Value, ToolFailure>,
) -> annals_core::turn::outcome::Outcome {
    let mut stage = Stage::with(|_, _| {}, vec![returning("it", family, result)]);
    stage.call("it", json!({})).await
}

#[tokio::test]
async fn plain_values_are_json_and_booleans_say_ok() {
    for (value, text) in [
        (json!(42), "42"),
        (json!("hi"), "\"hi\""),
        (json!({"b": 1, "a": [2]}), "{\"b\":1,\"a\":[2]}"),
        (json!(true), "{\"ok\":true}"),
        (json!(false), "{\"ok\":false}"),
        (Value::Null, "null"),
    ] {
        let outcome = outcome_of(Family::Plain, Ok(value)).await;
        let Output::Payload(payload) = &outcome.output else {
            panic!()
        };
        assert_eq!((&*payload.text, payload.whole), (text, None));
        assert_eq!(outcome.error, None);
    }
}

#[tokio::test]
async fn an_envelope_is_opened_and_its_error_shown_without_managed() {
    let envelope = json!({
        "ok": false,
        "error": {"code": "quota", "message": "no more today", "where": "api", "managed": true},
        "ret": {"rows": 2},
    });
    let outcome = outcome_of(Family::Builtin, Ok(envelope)).await;
    assert_eq!(answer(&outcome), json!({"rows": 2}));
    assert_eq!(
        (codes(&outcome), error_code(&outcome)),
        (vec!["tool_result_error"], Some("quota"))
    );
    let shown =
        serde_json::to_string(&outcome.error).unwrap() + &serde_json::to_string(&outcome.notices).unwrap();
    assert!(!shown.contains("managed"), "{shown}");
}

#[tokio::test]
async fn a_failure_is_a_result_and_a_notice() {
    let failure =
        ToolFailure::new("not_found", "no such city: check the spelling").detail(json!({"city": "Atlantis"}));
    let outcome = outcome_of(Family::Plain, Err(failure)).await;
    assert_eq!(
        serde_json::to_string(&answer(&outcome)).unwrap(),
        r#"{"ok":false,"error_kind":"not_found","message":"no such city: check the spelling","detail":{"city":"Atlantis"}}"#
    );
    assert_eq!(
        (codes(&outcome), error_code(&outcome)),
        (vec!["tool_result_error"], Some("not_found"))
    );
}

#[tokio::test]
async fn any_error_can_be_returned_with_a_question_mark() {
    fn body() -> ToolResult {
        let number: i64 = "many".parse()?;
        Ok(json!(number))
    }
    let outcome = outcome_of(Family::Plain, body().map_err(|error| error.into_failure())).await;
    assert_eq!(error_code(&outcome), Some("tool_error"));
    assert!(
        answer(&outcome)["message"]
            .as_str()
            .unwrap()
            .contains("invalid digit")
    );
}
