use std::time::Duration;

use annals_core::ids::TurnId;
use annals_tools::{Access, Effect, Family, Resource, Tool as _, ToolCx, ToolResult, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

use crate::stage::{Stage, codes, json as answer};

#[derive(Deserialize, JsonSchema)]
struct AddOne {
    /// The number to add to.
    x: i64,
}

#[tool(name = "add_one", description = "Add 1 to x", crate = annals_tools)]
async fn add_one(_cx: &ToolCx, args: AddOne) -> ToolResult {
    Ok(json!(args.x + 1))
}

/// Which turn is running.
#[tool(name = "clock.turn", replayable, resource = "clock", timeout_s = 3, crate = annals_tools)]
async fn running_turn(cx: &ToolCx) -> ToolResult {
    Ok(json!(cx.turn().as_str()))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Unit {
    Metre,
    Foot,
}

#[derive(Deserialize, JsonSchema)]
struct Convert {
    #[serde(rename = "to")]
    unit: Unit,
    value: f64,
    digits: Option<u8>,
}

#[tool(crate = annals_tools, resource = "scale:{to}")]
async fn convert(_cx: &ToolCx, args: Convert) -> ToolResult {
    let factor = match args.unit {
        Unit::Metre => 0.3048,
        Unit::Foot => 1.0 / 0.3048,
    };
    let parsed: f64 = format!(
        "{:.*}",
        usize::from(args.digits.unwrap_or(2)),
        args.value * factor
    )
    .parse()?;
    Ok(json!({ "value": parsed }))
}

#[tokio::test]
async fn a_function_is_a_tool() {
    let mut stage = Stage::with(
        |_, _| {},
        vec![Arc::new(add_one), Arc::new(running_turn), Arc::new(convert)],
    );
    assert_eq!(answer(&stage.call("add_one", json!({"x": 41})).await), json!(42));
    assert_eq!(
        answer(&stage.call("clock.turn", json!({})).await),
        json!("turn_1")
    );
    assert_eq!(
        answer(&stage.call("convert", json!({"to": "metre", "value": 10.0})).await),
        json!({"value": 3.05})
    );
    let refused = stage.call("add_one", json!({"x": "many"})).await;
    assert_eq!(codes(&refused), ["protocol_violation.tool_signature_red"]);
}

#[test]
fn a_functions_declaration_comes_from_its_attribute_docs_and_type() {
    insta::assert_snapshot!(
        serde_json::to_string_pretty(&[add_one.spec().schema(), convert.spec().schema()]).unwrap()
    );
    let spec = running_turn.spec();
    assert_eq!(
        (spec.name().as_str(), spec.description()),
        ("clock.turn", "Which turn is running.")
    );
    assert_eq!(
        (spec.effect(), spec.family()),
        (Effect::Replayable, Family::Plain)
    );
    assert_eq!(spec.timeout(), Some(Duration::from_secs(3)));
    let turn = TurnId::parse("turn_1").unwrap();
    let writes = |name: &str| Some(Access::NOTHING.write(Resource::Named(name.into())));
    assert_eq!(running_turn.access(&turn, &json!({})), writes("clock"));
    assert_eq!(
        convert.access(&turn, &json!({"to": "foot"})),
        writes("scale:foot")
    );
    assert_eq!(add_one.access(&turn, &json!({})), None);
}
