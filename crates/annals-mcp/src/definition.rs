//! What a server says a tool is, and the part of it that a model may read.

use std::collections::BTreeMap;
use std::fmt;

use annals_tools::schema::Schema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::limits;
use crate::text;

/// A tool as its server defines it, unchanged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Definition {
    /// The server's own name of the tool.
    pub name: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it does, in the server's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of its arguments.
    pub input_schema: Value,
    /// JSON Schema of its structured answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Hints such as `readOnlyHint`, which nothing proves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Value>,
    /// What the server says of it to programs, as far as it is small. Nobody relies on it: it is in no digest.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
}

/// Tells two definitions apart: over every field that a model or a person could rely on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Digest(String);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Definition {
    /// The definition in a message of a server.
    pub(crate) fn of(tool: &rmcp::model::Tool) -> Self {
        let object = |schema: &Map<String, Value>| Value::Object(schema.clone());
        let annotations = tool
            .annotations
            .as_ref()
            .and_then(|hints| serde_json::to_value(hints).ok());
        Definition {
            name: tool.name.to_string(),
            title: tool.title.clone(),
            description: tool.description.as_ref().map(ToString::to_string),
            input_schema: object(&tool.input_schema),
            output_schema: tool.output_schema.as_deref().map(object),
            annotations,
            meta: tool.meta.as_ref().map(|meta| object(&meta.0)),
        }
        .bounded()
    }

    /// The same without what is too large to be kept beside it.
    pub(crate) fn bounded(mut self) -> Self {
        self.meta = self
            .meta
            .filter(|meta| text::json_fits(meta, limits::META_MAX_BYTES));
        self
    }

    /// Its digest; the order of keys in objects does not count.
    pub fn digest(&self) -> Digest {
        let mut value = serde_json::to_value(self).unwrap_or(Value::Null);
        if let Some(fields) = value.as_object_mut() {
            fields.shift_remove("_meta");
        }
        let bytes = serde_json::to_vec(&sorted(&value)).unwrap_or_default();
        let digest = Sha256::digest(bytes);
        Digest(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Whether it is small enough to be kept.
    pub(crate) fn fits(&self) -> bool {
        text::json_fits(self, limits::DEFINITION_MAX_BYTES)
    }

    /// Why structured answers cannot be checked against its output schema, if it has one that is none.
    pub fn output_schema_fault(&self) -> Option<String> {
        let error = Schema::new(self.output_schema.as_ref()?).err()?;
        Some(text::one_line(
            &error.to_string(),
            limits::PARAMETER_DESCRIPTION_MAX_CHARS,
        ))
    }

    /// A hint, as far as the server gives it.
    pub fn hint(&self, name: &str) -> Option<bool> {
        self.annotations.as_ref()?.get(name)?.as_bool()
    }

    /// What the model reads to decide. A stranger wrote it, so it says whose words these are.
    pub fn shown_description(&self, server: &str, real_name: bool) -> String {
        let words = self
            .description
            .as_deref()
            .or(self.title.as_deref())
            .unwrap_or_default();
        let words = text::clean_and_cut(words.trim(), limits::DESCRIPTION_MAX_CHARS);
        let name = match real_name {
            true => format!("`{}` of ", text::one_line(&self.name, 128)),
            false => String::new(),
        };
        format!("[{name}MCP server `{server}`] {words}")
    }

    /// The schema of its arguments as the model reads it: every text in it cleaned and capped, an object in any case.
    pub fn shown_schema(&self) -> Value {
        let mut schema = shown(&self.input_schema);
        if let Some(object) = schema.as_object_mut() {
            object.shift_remove("$schema");
            object.entry("type").or_insert_with(|| json!("object"));
            object.entry("properties").or_insert_with(|| json!({}));
        }
        schema
    }
}

/// The value with all keys in order.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let in_order: BTreeMap<&String, Value> =
                object.iter().map(|(key, value)| (key, sorted(value))).collect();
            Value::Object(
                in_order
                    .into_iter()
                    .map(|(key, value)| (key.clone(), value))
                    .collect(),
            )
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

/// A schema without hidden characters; descriptions are capped. Patterns, constants and names stay as they are where
/// nothing is hidden in them, because they are what arguments are checked against.
pub(crate) fn shown(schema: &Value) -> Value {
    match schema {
        Value::Object(object) => {
            let entry = |(key, value): (&String, &Value)| {
                let value = match (key.as_str(), value) {
                    ("description" | "title" | "$comment", Value::String(words)) => Value::String(
                        text::clean_and_cut(words, limits::PARAMETER_DESCRIPTION_MAX_CHARS),
                    ),
                    (_, value) => shown(value),
                };
                (text::clean(key).text, value)
            };
            Value::Object(object.iter().map(entry).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(shown).collect()),
        Value::String(words) => Value::String(text::clean(words).text),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(json: Value) -> Definition {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_digest_covers_every_field_and_no_order() {
        let base = json!({"name": "a", "description": "d", "inputSchema": {"type": "object", "x": 1}});
        let same = json!({"name": "a", "inputSchema": {"x": 1, "type": "object"}, "description": "d"});
        assert_eq!(definition(base.clone()).digest(), definition(same).digest());
        for (field, value) in [
            ("name", json!("b")),
            ("title", json!("t")),
            ("description", json!("d ")),
            ("inputSchema", json!({"type": "object", "x": 2})),
            ("outputSchema", json!({})),
            ("annotations", json!({"readOnlyHint": true})),
        ] {
            let mut changed = base.clone();
            changed[field] = value;
            assert_ne!(
                definition(base.clone()).digest(),
                definition(changed).digest(),
                "{field}"
            );
        }
    }

    #[test]
    fn what_a_server_says_beside_a_definition_is_kept_and_in_no_digest() {
        let base = json!({"name": "a", "inputSchema": {}});
        let mut noted = base.clone();
        noted["_meta"] = json!({"vendor/team": "search"});
        let (base, noted) = (definition(base), definition(noted));
        assert_eq!(base.digest(), noted.digest());
        let kept = serde_json::to_value(noted.clone().bounded()).unwrap();
        assert_eq!(kept["_meta"], json!({"vendor/team": "search"}));
        let huge = Definition {
            meta: Some(json!({"x": "x".repeat(limits::META_MAX_BYTES)})),
            ..noted
        };
        assert_eq!(huge.bounded(), base);
    }

    #[test]
    fn an_output_schema_that_is_none_is_told_of() {
        let with =
            |schema: Value| definition(json!({"name": "a", "inputSchema": {}, "outputSchema": schema}));
        assert!(with(json!({"type": 7})).output_schema_fault().is_some());
        assert_eq!(with(json!({"type": "object"})).output_schema_fault(), None);
    }

    #[test]
    fn what_the_model_reads_has_nothing_hidden() {
        let tool = definition(json!({
            "name": "getX", "description": "Reads.\u{202e}\u{e0041}\u{1b}[31m",
            "inputSchema": {"$schema": "s", "properties": {"a": {"description": format!("p{}", "x".repeat(900))}}},
        }));
        assert_eq!(
            tool.shown_description("srv", true),
            "[`getX` of MCP server `srv`] Reads.[31m"
        );
        let schema = tool.shown_schema();
        assert_eq!(schema["type"], "object");
        assert!(schema.get("$schema").is_none());
        let description = schema["properties"]["a"]["description"].as_str().unwrap();
        assert!(description.ends_with("[401 more characters]"), "{description}");
    }
}
