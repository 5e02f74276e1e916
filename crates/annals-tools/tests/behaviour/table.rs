use annals_core::turn::outcome::Outcome;
use annals_tools::{DynamicTool, Family, SpecError, ToolTable, execute, react, system};
use serde_json::{Value, json};

use crate::stage::{codes, error_code, json as answer};

fn named(name: &str) -> Result<DynamicTool, SpecError> {
    DynamicTool::new(name, "", json!({"type": "object"}), |_, _| async {
        Ok(Value::Null)
    })
}

fn built_in() -> ToolTable {
    ToolTable::builder()
        .add_all(react::all())
        .add_all(system::all())
        .build()
        .unwrap()
}

#[test]
fn schemas_are_sorted_and_the_same_bytes_every_time() {
    let bytes = serde_json::to_string_pretty(&*built_in().schemas()).unwrap();
    assert_eq!(
        bytes,
        serde_json::to_string_pretty(&*built_in().schemas()).unwrap()
    );
    insta::assert_snapshot!(bytes);
}

#[test]
fn other_names_of_a_tool_are_callable_but_not_offered_twice() {
    let table = built_in();
    let offered: Vec<String> = table.schemas().iter().map(|schema| schema.name.clone()).collect();
    assert!(offered.is_sorted());
    for alias in ["react.stream", "react.file", "react.memory_hide"] {
        assert!(
            table.get(alias).is_some() && !offered.iter().any(|name| name == alias),
            "{alias}"
        );
    }
}

#[test]
fn a_name_taken_twice_is_refused_when_the_table_is_built() {
    for (first, second) in [
        ("add_one", "add_one"),
        ("notes.add", "notes__add"),
        ("run_code", "write_workspace_file"),
    ] {
        let with = |name| named(name).unwrap();
        let table = ToolTable::builder()
            .add_all(system::all())
            .add(with(first))
            .add(with(second))
            .build();
        let conflict = table.unwrap_err();
        assert!(conflict.to_string().contains("rename one of them"), "{conflict}");
    }
}

#[test]
fn what_is_no_tool_is_refused_when_it_is_made() {
    assert!(named("Add One").is_err());
    let schema = |schema: Value| {
        DynamicTool::new("x", "", schema, |_, _| async { Ok(Value::Null) })
            .err()
            .map(|error| error.to_string())
    };
    assert!(
        schema(json!({"type": "string"}))
            .unwrap()
            .contains("not a JSON Schema of an object")
    );
    assert!(schema(json!({"type": "object", "properties": {"a": {"type": "nonsense"}}})).is_some());
    assert!(
        schema(json!({"type": "object", "properties": {"a": {"$ref": "https://example.org/x.json"}}}))
            .is_some()
    );
}

#[test]
fn tools_are_found_by_name_and_by_wire_name() {
    let table = built_in();
    let name = |tool: Option<&std::sync::Arc<dyn annals_tools::Tool>>| {
        tool.map(|tool| tool.spec().name().to_string())
    };
    assert_eq!(
        name(table.get_wire("react__write")).as_deref(),
        Some("react.write")
    );
    assert_eq!(
        name(table.get_wire("react.write")).as_deref(),
        Some("react.write")
    );
    assert_eq!(name(table.get("react__write")), None);
}

#[test]
fn a_smaller_table_offers_and_finds_only_what_is_allowed() {
    let react = built_in().allowed(|spec| spec.family() == Family::React);
    assert!(
        react
            .schemas()
            .iter()
            .all(|schema| schema.name.starts_with("react."))
    );
    assert!(react.get("run_code").is_none() && react.get_wire("run_code").is_none());
}

#[test]
fn an_unknown_tool_gets_a_result_with_the_nearest_name() {
    let table = built_in();
    let said = |outcome: &Outcome| answer(outcome)["message"].as_str().unwrap().to_owned();
    let outcome = execute::unknown_tool(&table, "react_write.");
    assert_eq!(
        (codes(&outcome), error_code(&outcome)),
        (vec!["protocol_violation.unknown_tool"], Some("unknown_tool"))
    );
    assert!(said(&execute::unknown_tool(&table, "write")).ends_with("did you mean `react.write`?"));
    assert!(said(&execute::unknown_tool(&table, "functions.run_code")).ends_with("did you mean `run_code`?"));
    assert!(said(&execute::unknown_tool(&table, &"x".repeat(10_000))).len() < 200);
}
