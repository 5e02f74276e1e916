//! The schema of an answer, as OpenAI's two protocols carry it.

use serde::Serialize;
use serde_json::{Map, Value};

/// What these servers call the answer.
const NAME: &str = "answer";
/// What a schema may say for the server to keep to it strictly.
const STRICT_KEYWORDS: [&str; 9] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "anyOf",
    "title",
    "description",
];

/// A schema with a name.
#[derive(Serialize)]
pub(crate) struct AnswerSchema<'a> {
    name: &'static str,
    schema: &'a Value,
    strict: bool,
}

impl<'a> AnswerSchema<'a> {
    /// As it is sent; none when these servers would refuse it, which want an object. What they do not enforce is validated
    /// by who asked.
    pub(crate) fn of(schema: &'a Value) -> Option<Self> {
        let is_object = schema.get("type").and_then(Value::as_str) == Some("object");
        is_object.then(|| AnswerSchema {
            name: NAME,
            schema,
            strict: is_strict(schema),
        })
    }
}

/// Whether a server can hold the model to every word of it: objects say all of their properties, and require them.
fn is_strict(schema: &Value) -> bool {
    let Some(schema) = schema.as_object() else {
        return false;
    };
    let knows_all = schema.keys().all(|key| STRICT_KEYWORDS.contains(&key.as_str()));
    let below = |name: &str| schema.get(name).is_none_or(is_strict);
    let any_of = schema.get("anyOf").and_then(Value::as_array);
    knows_all && is_closed(schema) && below("items") && any_of.is_none_or(|kinds| kinds.iter().all(is_strict))
}

fn is_closed(schema: &Map<String, Value>) -> bool {
    let is_object = schema.get("type").and_then(Value::as_str) == Some("object");
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return !is_object;
    };
    let required: Vec<&str> = match schema.get("required").and_then(Value::as_array) {
        Some(names) => names.iter().filter_map(Value::as_str).collect(),
        None => Vec::new(),
    };
    schema.get("additionalProperties") == Some(&Value::Bool(false))
        && properties
            .iter()
            .all(|(name, property)| required.contains(&name.as_str()) && is_strict(property))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_is_strict_when_it_leaves_nothing_open() {
        let closed = |city: Value| {
            json!({"type": "object", "additionalProperties": false, "required": ["city"],
                "properties": {"city": city}})
        };
        let strict = |schema: Value| AnswerSchema::of(&schema).map(|named| named.strict);
        assert_eq!(strict(closed(json!({"type": "string"}))), Some(true));
        assert_eq!(
            strict(closed(json!({"anyOf": [{"type": "string"}, {"type": "null"}]}))),
            Some(true)
        );
        let list = json!({"type": "array", "items": closed(json!({"enum": ["a", "b"]}))});
        assert_eq!(strict(closed(list)), Some(true));
        for open in [
            closed(json!({"type": "string", "minLength": 1})),
            closed(json!({"type": "object", "properties": {}})),
            json!({"type": "object"}),
            json!({"type": "object", "additionalProperties": false, "properties": {"a": {"type": "string"}}}),
        ] {
            assert_eq!(strict(open.clone()), Some(false), "{open}");
        }
        assert_eq!(
            strict(json!({"type": "array"})),
            None,
            "an answer is an object there"
        );
    }
}
