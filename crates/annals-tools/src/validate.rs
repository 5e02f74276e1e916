//! Arguments as the model sent them, made into what a tool may rely on.
//!
//! [`read`] parses a text, once; [`check`] bounds what came of it, drops what the tool does not know, and compares the
//! rest with the schema. What they refuse or change, they say in words the model can act on. Nothing runs here.

use annals_core::code::Code;
use annals_core::turn::outcome::{Notice, Outcome};
use annals_core::view::cut;
use serde_json::{Map, Value, json};

use crate::failure::ToolFailure;
use crate::name::ToolName;
use crate::schema::{Misfit, Misfits, Schema, SchemaError};
use crate::serialise;
use crate::spec::{Family, ToolSpec};

/// Arguments nest at most so deep. Far above any honest call, far below what exhausts a stack.
const DEPTH_MAX: usize = 64;
/// This many schema errors are named; more would not help the model.
const SHOWN_ERRORS_MAX: usize = 5;
/// A value inside an error message is cut to this many characters.
const SHOWN_VALUE_MAX_CHARS: usize = 200;

/// Arguments that satisfy the schema, in the order they came.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// The arguments.
    pub args: Value,
    /// What was changed, for the model to know.
    pub notices: Vec<Notice>,
}

/// Arguments that a tool cannot be run with.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Violation {
    /// `invalid_tool_arguments` or `tool_signature_red`.
    pub code: Code,
    /// What is wrong, and where.
    pub message: String,
    /// The place as a JSON pointer, empty for the whole.
    pub path: String,
}

impl Violation {
    fn unreadable(message: String) -> Self {
        Violation {
            code: Code::InvalidToolArguments,
            message,
            path: String::new(),
        }
    }

    pub(crate) fn endless(tool: &ToolName) -> Self {
        Self::unreadable(format!(
            "the call was passed on again and again, last by `{tool}`: name the tool itself"
        ))
    }

    /// The notice that counts as a protocol violation.
    pub fn notice(&self) -> Notice {
        let code = match self.code {
            Code::ToolSignatureRed => Code::ViolationToolSignatureRed,
            _ => Code::ViolationInvalidToolArguments,
        };
        let notice = Notice::new(code, self.message.clone());
        if self.path.is_empty() {
            notice
        } else {
            notice.with("path", self.path.clone())
        }
    }

    /// What the call gets instead of a run.
    pub fn outcome(&self) -> Outcome {
        let mut failure = ToolFailure::new(Code::InvalidToolArguments, self.message.clone());
        if !self.path.is_empty() {
            failure = failure.detail(json!({"path": self.path}));
        }
        Outcome {
            notices: vec![self.notice()],
            ..serialise::failed(&failure)
        }
    }
}

/// Checks arguments for this tool.
pub fn check(spec: &ToolSpec, mut args: Map<String, Value>) -> Result<Checked, Violation> {
    if args.values().any(|value| exceeds_depth(value, DEPTH_MAX - 1)) {
        return Err(Violation::unreadable(format!(
            "the arguments nest deeper than {DEPTH_MAX} levels: send a flatter object"
        )));
    }
    let mut notices = Vec::new();
    notices.extend(drop_unknown(spec, &mut args));
    notices.extend(order_notice(spec, &args));
    let args = Value::Object(args);
    signature(spec, &args)?;
    Ok(Checked { args, notices })
}

/// Why a value does not fit a JSON Schema, if it does not. A schema that is none fits everything.
pub fn misfit(schema: &Value, value: &Value) -> Option<String> {
    let schema = match Schema::new(schema) {
        Ok(schema) => schema,
        Err(SchemaError::Invalid(_)) => return None,
        Err(error @ (SchemaError::NotBuiltIn { .. } | SchemaError::TooMuch { .. })) => {
            return Some(error.to_string());
        }
    };
    let misfits = schema.misfits(value, usize::MAX).shown;
    let said: Vec<String> = misfits.into_iter().map(|misfit| misfit.said).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// Arguments as a model wrote them. The empty text means `{}`.
pub fn read(raw: &str) -> Result<Map<String, Value>, Violation> {
    if raw.trim().is_empty() {
        return Ok(Map::new());
    }
    let value = serde_json::from_str(raw).map_err(|error| {
        Violation::unreadable(format!(
            "the arguments are not JSON ({error}): send one JSON object"
        ))
    })?;
    object(value)
}

/// Arguments by name.
pub(crate) fn object(value: Value) -> Result<Map<String, Value>, Violation> {
    match value {
        Value::Object(args) => Ok(args),
        // Some models send no arguments as `null`.
        Value::Null => Ok(Map::new()),
        other => Err(Violation::unreadable(format!(
            "the arguments are {}, not an object: send parameters by name",
            type_name(&other)
        ))),
    }
}

/// The parser already refuses more than 128 levels, so this walk cannot exhaust the stack.
fn exceeds_depth(value: &Value, left: usize) -> bool {
    match value {
        Value::Array(items) => left == 0 || items.iter().any(|item| exceeds_depth(item, left - 1)),
        Value::Object(fields) => left == 0 || fields.values().any(|field| exceeds_depth(field, left - 1)),
        _ => false,
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Removes parameters the tool does not have, unless its schema welcomes others.
fn drop_unknown(spec: &ToolSpec, args: &mut Map<String, Value>) -> Option<Notice> {
    let known = spec.properties()?;
    let schema = spec.parameters();
    let welcomes_others = schema.get("patternProperties").is_some()
        || !matches!(
            schema.get("additionalProperties"),
            None | Some(Value::Bool(false))
        );
    if welcomes_others || args.keys().all(|name| known.contains_key(name)) {
        return None;
    }
    let dropped: Vec<String> = args
        .keys()
        .filter(|name| !known.contains_key(*name))
        .cloned()
        .collect();
    args.retain(|name, _| known.contains_key(name));
    let message = format!(
        "`{}` has no parameter {}: dropped. It takes {}",
        spec.name(),
        quoted(&dropped),
        if known.is_empty() {
            "none".into()
        } else {
            quoted(known.keys())
        }
    );
    Some(Notice::new(Code::ViolationToolSignatureValidation, message).with("dropped", dropped))
}

/// Parameters of built-in tools must come in the order of the schema, because some are streamed while they arrive. A
/// program's own tools promise no order, so there is nothing to tell the model.
fn order_notice(spec: &ToolSpec, args: &Map<String, Value>) -> Option<Notice> {
    if spec.family() == Family::Plain {
        return None;
    }
    let known = spec.properties()?;
    let places: Vec<usize> = args
        .keys()
        .filter_map(|name| known.keys().position(|property| property == name))
        .collect();
    if places.is_sorted() {
        return None;
    }
    let expected: Vec<String> = known
        .keys()
        .filter(|name| args.contains_key(*name))
        .cloned()
        .collect();
    let received: Vec<String> = args.keys().cloned().collect();
    let message = format!(
        "`{}` takes its parameters in the order {}",
        spec.name(),
        quoted(&expected)
    );
    Some(
        Notice::new(Code::ViolationParamOrder, message)
            .with("expected", expected)
            .with("received", received),
    )
}

fn quoted(names: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let names: Vec<String> = names
        .into_iter()
        .map(|name| format!("`{}`", name.as_ref()))
        .collect();
    names.join(", ")
}

fn signature(spec: &ToolSpec, args: &Value) -> Result<(), Violation> {
    if spec.checker().is_valid(args) {
        return Ok(());
    }
    let Misfits { shown, more } = spec.checker().misfits(args, SHOWN_ERRORS_MAX);
    let mut message = format!("the arguments of `{}` do not fit its schema: ", spec.name());
    let texts: Vec<String> = shown.iter().map(misfit_text).collect();
    message.push_str(&texts.join("; "));
    if more > 0 {
        message.push_str(&format!("; and {more} more"));
    }
    Err(Violation {
        code: Code::ToolSignatureRed,
        message,
        path: shown.into_iter().next().unwrap_or_default().path,
    })
}

fn misfit_text(misfit: &Misfit) -> String {
    let place = match misfit.path.as_str() {
        "" => "/",
        path => path,
    };
    // The offending value is quoted whole; a page of content would drown the message.
    let said = match misfit.said.char_indices().nth(SHOWN_VALUE_MAX_CHARS * 2) {
        None => misfit.said.clone(),
        Some(_) => format!("`{place}` {}", misfit.masked),
    };
    // Only the first of many choices are named, and the one that is wanted may be among the others.
    let choices = match &misfit.choices {
        Some(choices) if said.contains("other candidate") => {
            format!("; give one of {}", cut::brief(choices, SHOWN_VALUE_MAX_CHARS))
        }
        _ => String::new(),
    };
    format!("at `{place}`: {said}{choices}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> ToolSpec {
        of_family(Family::Builtin)
    }

    fn of_family(family: Family) -> ToolSpec {
        ToolSpec::builder("notes.add")
            .family(family)
            .parameters(json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "lines": {"type": "array", "items": {"type": "integer"}},
                    "mode": {"enum": ["new", "update"]},
                    "paper": {"enum": ["a3", "a4", "a5", "letter"]},
                },
                "required": ["path"],
                "additionalProperties": false,
            }))
            .build()
            .unwrap()
    }

    fn check_raw(spec: &ToolSpec, raw: &str) -> Result<Checked, Violation> {
        read(raw).and_then(|args| check(spec, args))
    }

    fn refused(raw: &str) -> (String, String) {
        let violation = check_raw(&spec(), raw).unwrap_err();
        (
            format!("{} {}", violation.code, violation.path),
            violation.message,
        )
    }

    #[test]
    fn arguments_that_are_no_object_are_refused_with_what_to_send() {
        let deep = format!("{{\"path\":{}{}}}", "[".repeat(100), "]".repeat(100));
        let deeper = format!("{{\"path\":{}1{}}}", "[".repeat(1_000), "]".repeat(1_000));
        for (raw, said) in [
            ("{not json", "not JSON"),
            ("[1]", "an array, not an object"),
            ("\"x\"", "a string, not an object"),
            ("7", "a number, not an object"),
            ("{} {}", "not JSON"),
            (deep.as_str(), "deeper than 64"),
            (deeper.as_str(), "recursion limit"),
        ] {
            let (place, message) = refused(raw);
            assert_eq!(place, "invalid_tool_arguments ", "{raw}");
            assert!(message.contains(said), "{raw}: {message}");
        }
    }

    #[test]
    fn nothing_blank_and_null_mean_no_arguments() {
        let none = ToolSpec::builder("now").build().unwrap();
        for raw in ["", " \n", "{}", "null"] {
            assert_eq!(
                check_raw(&none, raw).unwrap(),
                Checked {
                    args: json!({}),
                    notices: vec![]
                }
            );
        }
        assert_eq!(refused("").0, "tool_signature_red ");
    }

    #[test]
    fn a_schema_error_names_the_place() {
        assert_eq!(
            refused(r#"{"path": "a", "lines": [1, "two"]}"#).1,
            "the arguments of `notes.add` do not fit its schema: at `/lines/1`: \"two\" is not of type \"integer\""
        );
        assert_eq!(
            refused(r#"{"path": "a", "lines": [1, "two"]}"#).0,
            "tool_signature_red /lines/1"
        );
        assert_eq!(refused(r#"{"path": 1}"#).0, "tool_signature_red /path");
        assert_eq!(
            refused(r#"{"path": "a", "mode": "delete"}"#).0,
            "tool_signature_red /mode"
        );
        let (_, message) = refused(r#"{"path": "a", "paper": "A5"}"#);
        assert!(
            message.ends_with(r#"; give one of ["a3","a4","a5","letter"]"#),
            "{message}"
        );
        let (place, message) = refused("{}");
        assert_eq!(place, "tool_signature_red ");
        assert!(
            message.ends_with("at `/`: \"path\" is a required property"),
            "{message}"
        );
    }

    #[test]
    fn a_long_value_does_not_drown_the_message() {
        let raw = json!({"path": ["x".repeat(100_000)]}).to_string();
        assert!(refused(&raw).1.len() < 1_000);
    }

    #[test]
    fn unknown_parameters_are_dropped_with_a_notice() {
        let checked = check_raw(&spec(), r#"{"path": "a", "colour": "red"}"#).unwrap();
        assert_eq!(checked.args, json!({"path": "a"}));
        assert_eq!(checked.notices.len(), 1);
        assert_eq!(
            checked.notices[0].code,
            "protocol_violation.tool_signature_validation"
        );
        assert_eq!(checked.notices[0].facts["dropped"], json!(["colour"]));
    }

    #[test]
    fn another_order_gets_a_notice_and_keeps_the_order_it_came_in() {
        let checked = check_raw(&spec(), r#"{"mode": "new", "path": "a"}"#).unwrap();
        assert_eq!(
            serde_json::to_string(&checked.args).unwrap(),
            r#"{"mode":"new","path":"a"}"#
        );
        assert_eq!(checked.notices[0].code, "protocol_violation.param_order");
        assert_eq!(checked.notices[0].facts["expected"], json!(["path", "mode"]));
        assert!(
            check_raw(&spec(), r#"{"path": "a", "mode": "new"}"#)
                .unwrap()
                .notices
                .is_empty()
        );
    }

    #[test]
    fn a_programs_own_tools_take_their_parameters_in_any_order() {
        let checked = check_raw(&of_family(Family::Plain), r#"{"mode": "new", "path": "a"}"#).unwrap();
        assert_eq!(checked.notices, vec![]);
    }

    #[test]
    fn a_schema_that_welcomes_others_keeps_them() {
        let open = ToolSpec::builder("open")
            .parameters(json!({"type": "object", "properties": {"x": {}}, "additionalProperties": true}))
            .build()
            .unwrap();
        let checked = check_raw(&open, r#"{"y": 1, "x": 2}"#).unwrap();
        assert_eq!((checked.args, checked.notices), (json!({"y": 1, "x": 2}), vec![]));
    }
}
