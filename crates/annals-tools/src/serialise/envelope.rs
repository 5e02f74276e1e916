//! Envelopes: how tools that were made elsewhere say whether they did what they were asked.

use annals_core::code::Code;
use serde_json::{Value, json};

use crate::failure::ToolFailure;

/// An envelope taken apart.
#[derive(Debug, PartialEq)]
pub(super) struct Envelope {
    /// The payload; null when there is none.
    pub(super) ret: Value,
    pub(super) failure: Option<ToolFailure>,
}

/// Opens `{ok, error, ret}` and `{ok, error, …}`. A value that is not an envelope is the output itself.
pub(super) fn open(value: Value) -> Envelope {
    let Value::Object(mut fields) = value else {
        return Envelope {
            ret: value,
            failure: None,
        };
    };
    let is_error = |error: &Value| error.is_null() || error.is_object() || error.is_string();
    let ok = match (fields.get("ok"), fields.get("error"), fields.get("ret")) {
        (Some(Value::Bool(ok)), Some(error), _) if is_error(error) => *ok,
        (Some(Value::Bool(ok)), None, Some(_)) => *ok,
        (Some(Value::Bool(false)), None, None) => false,
        _ => {
            return Envelope {
                ret: Value::Object(fields),
                failure: None,
            };
        }
    };
    let error = fields.shift_remove("error").unwrap_or(Value::Null);
    fields.shift_remove("ok");
    let ret = match fields.shift_remove("ret") {
        Some(ret) => ret,
        None if fields.is_empty() && ok => json!({"ok": true}),
        None if fields.is_empty() => Value::Null,
        None => Value::Object(fields),
    };
    Envelope {
        ret,
        failure: (!ok).then(|| envelope_failure(error)),
    }
}

/// `{code, message, where, managed}`; `managed` is nobody's business but the host's.
fn envelope_failure(error: Value) -> ToolFailure {
    let Value::Object(mut error) = error else {
        let message = error
            .as_str()
            .unwrap_or("the tool said that it failed, but not why");
        return ToolFailure::new(Code::ToolError, message);
    };
    let mut text = |name: &str| match error.shift_remove(name) {
        Some(Value::String(text)) if !text.is_empty() => Some(text),
        _ => None,
    };
    let kind = text("code").unwrap_or_else(|| Code::ToolError.into());
    let message = text("message").unwrap_or_else(|| format!("the tool failed with `{kind}`"));
    error.shift_remove("managed");
    error.retain(|_, fact| !fact.is_null());
    let failure = ToolFailure::new(kind, message);
    if error.is_empty() {
        failure
    } else {
        failure.detail(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envelopes_are_opened_and_other_values_are_left_alone() {
        let ok = |value: Value| {
            let opened = open(value);
            assert_eq!(opened.failure, None);
            opened.ret
        };
        assert_eq!(ok(json!({"ok": true, "error": null, "ret": [1]})), json!([1]));
        assert_eq!(ok(json!({"ok": true, "ret": 7})), json!(7));
        assert_eq!(
            ok(json!({"ok": true, "error": null, "rows": 3})),
            json!({"rows": 3})
        );
        assert_eq!(ok(json!({"ok": true, "error": null})), json!({"ok": true}));
        for plain in [
            json!(7),
            json!({"ok": true}),
            json!({"ok": "yes", "error": {}}),
            json!({"error": {}}),
            json!([]),
        ] {
            assert_eq!(ok(plain.clone()), plain);
        }
    }

    #[test]
    fn a_failed_envelope_is_an_error_even_with_a_ret_and_never_shows_managed() {
        let error = json!({"code": "quota", "message": "no more", "where": "api", "managed": true});
        let opened = open(json!({"ok": false, "error": error, "ret": {"partial": 1}}));
        let failure = opened.failure.unwrap();
        assert_eq!(opened.ret, json!({"partial": 1}));
        assert_eq!(
            (failure.kind.as_str(), failure.message.as_str()),
            ("quota", "no more")
        );
        assert_eq!(failure.detail, Some(json!({"where": "api"})));
    }

    #[test]
    fn a_failure_without_an_error_is_a_tool_error() {
        for value in [
            json!({"ok": false}),
            json!({"ok": false, "error": null}),
            json!({"ok": false, "ret": null}),
        ] {
            let opened = open(value);
            assert_eq!(opened.failure.unwrap().kind, "tool_error");
            assert_eq!(opened.ret, Value::Null);
        }
        assert_eq!(
            open(json!({"ok": false, "error": "boom"}))
                .failure
                .unwrap()
                .message,
            "boom"
        );
    }
}
