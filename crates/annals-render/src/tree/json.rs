//! JSON for people: a list of plain objects is a table, everything else is code.

use serde_json::{Map, Value, json};

use super::colours;
use super::table::{self, ROWS_SHOWN};
use crate::limits::MAX_COLUMNS;

/// A list with fewer rows than this is read more easily as it is.
const TABLE_MIN_ROWS: usize = 2;

pub(super) fn draw(text: &str) -> Value {
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return colours::listing(super::bounded(text).0, Some("json"));
    };
    if let Some(table) = as_table(&value) {
        return table;
    }
    let pretty = serde_json::to_string_pretty(&value).unwrap_or_else(|_| text.to_owned());
    colours::listing(super::bounded(&pretty).0, Some("json"))
}

/// The table of a list of objects whose values are no lists or objects themselves.
fn as_table(value: &Value) -> Option<Value> {
    let objects: Option<Vec<&Map<String, Value>>> = value.as_array()?.iter().map(Value::as_object).collect();
    let objects = objects.filter(|objects| objects.len() >= TABLE_MIN_ROWS)?;
    let mut columns: Vec<&str> = Vec::new();
    for object in &objects {
        if object.values().any(|value| value.is_array() || value.is_object()) {
            return None;
        }
        for name in object.keys() {
            if !columns.contains(&name.as_str()) {
                columns.push(name);
            }
            if columns.len() > MAX_COLUMNS {
                return None;
            }
        }
    }
    if columns.is_empty() {
        return None;
    }
    let row = |object: &&Map<String, Value>| -> Vec<String> {
        columns.iter().map(|name| cell(object.get(*name))).collect()
    };
    let rows: Vec<Vec<String>> = objects.iter().take(ROWS_SHOWN).map(row).collect();
    Some(json!({ "columns": columns, "rows": rows, "total": objects.len() }))
}

fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => table::cut(text),
        Some(other) => other.to_string(),
    }
}
