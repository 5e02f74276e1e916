//! `tool list`, `tool schema`, `tool call`.

use serde_json::json;

use super::annals::{Annals, Ran, types};

#[test]
fn every_group_of_tools_is_listed_by_name() {
    let rows = Annals::new().run(&["tool", "list", "--json"]).good().json();
    let names: Vec<&str> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(names, sorted);
    for name in [
        "react.read",
        "run_shell_command",
        "rendering_tools.write_pdf",
        "web_tools.web_fetch",
    ] {
        assert!(names.contains(&name), "{name} is missing of {names:?}");
    }
}

#[test]
fn a_schema_keeps_the_order_of_its_parameters() {
    let schema = Annals::new()
        .run(&["tool", "schema", "react.write"])
        .good()
        .json();
    let order: Vec<&String> = schema["parameters"]["properties"]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    assert_eq!(order, ["path", "channel", "content", "kind"]);
}

#[test]
fn a_call_writes_the_blocks_of_a_turn_of_its_own() {
    let annals = Annals::new();
    let params = json!({"path": "a.md", "channel": "canvas", "content": "# A\n\nSome text.", "kind": "file"})
        .to_string();
    let ran = annals
        .run(&[
            "tool",
            "call",
            "c1",
            "react.write",
            &params,
            "--turn-id",
            "turn_1",
        ])
        .good();
    let blocks = ran.json_lines();
    insta::assert_snapshot!(types(&blocks), @r"
    turn.header
    react.tool.call
    react.tool.result
    react.tool.result
    react.completion
    ");
    assert_eq!(blocks[1]["author"], "user");
    assert_eq!(
        annals.run(&["read", "c1", "fi:turn_1.files/a.md"]).good().stdout,
        "# A\n\nSome text."
    );
}

#[test]
fn parameters_may_come_from_standard_input_and_a_failing_tool_ends_with_code_one() {
    let annals = Annals::new();
    let ran = annals.run_with(
        &["tool", "call", "c1", "react.write", "-"],
        r#"{"path": "../../x", "channel": "canvas", "content": "x", "kind": "file"}"#,
    );
    assert_eq!(ran.code, 1, "{}", ran.shown());
    assert!(ran.stdout.contains("unsafe_path"), "{}", ran.stdout);
}

#[test]
fn a_browser_that_does_not_work_is_replaced_unless_it_was_asked_for_by_name() {
    let annals = Annals::new();
    let render = |engine: &str| {
        let params = json!({"path": "a.pdf", "content": "<p>words</p>", "format": "html", "engine": engine})
            .to_string();
        let mut command = annals.command(&["tool", "call", "c1", "rendering_tools.write_pdf", &params]);
        Ran::of(command.env("ANNALS_CHROMIUM", "/bin/false").output().unwrap())
    };
    let auto = render("auto").good();
    assert!(
        auto.stdout.contains("laid out by the embedded engine"),
        "{}",
        auto.stdout
    );
    let by_name = render("chromium");
    assert_eq!(by_name.code, 1);
    assert!(
        by_name.stdout.contains("chromium_not_available"),
        "{}",
        by_name.stdout
    );
}
