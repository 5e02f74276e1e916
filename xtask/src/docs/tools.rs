//! The reference of built-in tools, from the schemas that a model is sent.

use anyhow::{Context as _, ensure};
use serde_json::{Map, Value};

use super::cell;
use crate::repository::cargo;

const HEAD: &str = "\
# Tools

Every built-in tool with the parameters a model is offered, in their order. Made by `cargo xtask docs` from
`annals tool schema`: change the tools. On the wire a `.` in a name is `__`.
";

/// The page.
pub(crate) fn page() -> anyhow::Result<String> {
    let mut command = cargo(&[
        "run",
        "--quiet",
        "--package",
        "annals-cli",
        "--",
        "tool",
        "schema",
    ]);
    let output = command
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(
        output.status.success(),
        "`annals tool schema` ended with {}",
        output.status
    );
    let text =
        String::from_utf8(output.stdout).context("`annals tool schema` printed something other than text")?;
    let tools = tools(&text)?;
    ensure!(!tools.is_empty(), "`annals tool schema` printed no tool");
    Ok(tools
        .iter()
        .fold(HEAD.to_owned(), |page, tool| page + &section(tool)))
}

/// The tools of an output, which is a list of them.
fn tools(text: &str) -> anyhow::Result<Vec<Value>> {
    serde_json::from_str(text).context("`annals tool schema` printed no list of tools")
}

fn section(tool: &Value) -> String {
    let text = |key: &str| tool[key].as_str().unwrap_or_default();
    let mut section = format!("\n## {}\n\n{}\n", text("name"), text("description"));
    let Some(schema) = tool.get("parameters").or(tool.get("input_schema")) else {
        return section;
    };
    let properties = members(schema);
    if properties.is_empty() {
        return section + "\nNo parameters.\n";
    }
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    section += "\n| parameter | type | required | meaning |\n|---|---|---|---|\n";
    for (name, property) in &properties {
        let meaning = property["description"].as_str().unwrap_or_default();
        let meaning = match property.get("default") {
            Some(default) => format!("{meaning} Default `{default}`."),
            None => meaning.to_owned(),
        };
        let is_required = required.iter().any(|required| required == name);
        let required = if is_required { "yes" } else { "" };
        let (kind, meaning) = (cell(&kind(property)), cell(&meaning));
        section += &format!("| `{name}` | {kind} | {required} | {meaning} |\n");
    }
    section
}

fn members(schema: &Value) -> Map<String, Value> {
    schema["properties"].as_object().cloned().unwrap_or_default()
}

/// A parameter's type in words.
fn kind(property: &Value) -> String {
    if let Some(choices) = property["enum"].as_array() {
        let choices = choices.iter().filter_map(Value::as_str);
        return choices
            .map(|choice| format!("`{choice}`"))
            .collect::<Vec<_>>()
            .join(", ");
    }
    let one = |name: &str| match (name, property.get("items"), members(property)) {
        ("array", Some(items), _) => format!("list of {}", kind(items)),
        ("object", _, members) if !members.is_empty() => {
            let members = members
                .iter()
                .map(|(name, member)| format!("{name}: {}", kind(member)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
        _ => name.to_owned(),
    };
    match &property["type"] {
        Value::String(name) => one(name),
        Value::Array(names) => {
            let names = names.iter().filter_map(Value::as_str).map(one);
            names.collect::<Vec<_>>().join(" or ")
        }
        _ => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r#"[{"name": "react.read", "description": "Reads.", "parameters": {"type": "object",
        "properties": {"paths": {"type": "array", "items": {"type": "string"}, "description": "What a|b."},
                       "kind": {"enum": ["x", "y"], "default": "x"}}, "required": ["paths"]}},
        {"name": "none", "description": "Nothing.", "parameters": {"type": "object", "properties": {}}}]"#;

    #[test]
    fn a_schema_becomes_a_table_of_its_parameters() {
        let page: String = tools(SCHEMA).unwrap().iter().map(section).collect();
        assert_eq!(
            page,
            "\n## react.read\n\nReads.\n\n| parameter | type | required | meaning |\n|---|---|---|---|\n\
             | `paths` | list of string | yes | What a\\|b. |\n| `kind` | `x`, `y` |  | Default `\"x\"`. |\n\
             \n## none\n\nNothing.\n\nNo parameters.\n"
        );
    }
}
