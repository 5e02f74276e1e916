//! The reference of built-in tools, from the schemas that a model is sent.

use anyhow::{Context as _, ensure};

use super::cell;
use crate::json::Json;
use crate::repository::cargo;

const HEAD: &str = "\
# Tools

Every built-in tool with the parameters a model is offered, in their order. Made by `cargo xtask docs` from
`annals tool schema`: change the tools. On the wire a `.` in a name is `__`.
";

/// The page.
pub(crate) fn page() -> anyhow::Result<String> {
    let mut command = cargo(&["run", "--quiet", "--package", "annals", "--", "tool", "schema"]);
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

/// The tools of an output: a list of them, one a line, or a list below the key `tools`.
fn tools(text: &str) -> anyhow::Result<Vec<Json>> {
    let mut tools = Vec::new();
    for value in Json::parse_all(text)? {
        let listed = value.get("tools").unwrap_or(&value).elements().to_vec();
        match value.get("name") {
            Some(_) => tools.push(value),
            None => tools.extend(listed),
        }
    }
    Ok(tools)
}

fn section(tool: &Json) -> String {
    let text = |key: &str| tool.get(key).and_then(Json::as_text).unwrap_or_default();
    let mut section = format!("\n## {}\n\n{}\n", text("name"), text("description"));
    let schema = ["parameters", "input_schema"]
        .into_iter()
        .find_map(|key| tool.get(key));
    let Some(schema) = schema else { return section };
    let properties = schema.get("properties").map(Json::members).unwrap_or_default();
    if properties.is_empty() {
        return section + "\nNo parameters.\n";
    }
    let required = schema.get("required").map(Json::elements).unwrap_or_default();
    section.push_str("\n| parameter | type | required | meaning |\n|---|---|---|---|\n");
    for (name, property) in properties {
        let is_required = required.iter().any(|required| required.as_text() == Some(name));
        let meaning = property
            .get("description")
            .and_then(Json::as_text)
            .unwrap_or_default();
        let meaning = match property.get("default") {
            Some(default) => format!("{meaning} Default `{default}`."),
            None => meaning.to_owned(),
        };
        let required = if is_required { "yes" } else { "" };
        section.push_str(&format!(
            "| `{name}` | {} | {required} | {} |\n",
            cell(&kind(property)),
            cell(&meaning)
        ));
    }
    section
}

/// A parameter's type in words.
fn kind(property: &Json) -> String {
    if let Some(choices) = property.get("enum") {
        let choices = choices
            .elements()
            .iter()
            .filter_map(Json::as_text)
            .map(|choice| format!("`{choice}`"));
        return choices.collect::<Vec<_>>().join(", ");
    }
    let one = |name: &str| match (name, property.get("items")) {
        ("array", Some(items)) => format!("list of {}", kind(items)),
        ("object", _)
            if !property
                .get("properties")
                .map(Json::members)
                .unwrap_or_default()
                .is_empty() =>
        {
            let members = property.get("properties").map(Json::members).unwrap_or_default();
            let members = members
                .iter()
                .map(|(name, member)| format!("{name}: {}", kind(member)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
        _ => name.to_owned(),
    };
    match property.get("type") {
        Some(Json::Text(name)) => one(name),
        Some(Json::List(names)) => names
            .iter()
            .filter_map(Json::as_text)
            .map(one)
            .collect::<Vec<_>>()
            .join(" or "),
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

    #[test]
    fn a_list_and_lines_give_the_same_tools() {
        let tool = r#"{"name": "a", "description": "b"}"#;
        assert_eq!(
            tools(&format!("[{tool},{tool}]")).unwrap(),
            tools(&format!("{tool}\n{tool}\n")).unwrap()
        );
    }
}
