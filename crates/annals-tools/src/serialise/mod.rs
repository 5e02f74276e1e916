//! What tools return, made into the text a model reads.
//!
//! One place unwraps envelopes, applies the caps and orders the keys. Whatever is cut is kept whole in the
//! artifact store first, so that every cut can be undone. It must not write blocks.

mod envelope;
mod operation;

use annals_core::block::{Blob, ShownError};
use annals_core::code::Code;
use annals_core::limits;
use annals_core::turn::outcome::{Notice, Outcome, Output, Payload};
use annals_sandbox::{Failure, OpResult};
use serde_json::{Value, json};

use crate::cx::ToolCx;
use crate::failure::ToolFailure;
use crate::spec::{Family, ToolSpec};
use envelope::Envelope;

/// What a value that a tool returns becomes, or its failure; an envelope is opened.
pub async fn answer(cx: &ToolCx, spec: &ToolSpec, result: Result<Value, ToolFailure>) -> Outcome {
    match result {
        Ok(value) => unwrapped(cx, spec, value).await,
        Err(failure) => said_no(spec, &failure, failed(&failure)),
    }
}

/// What a sandbox operation's return becomes.
pub async fn answer_op(cx: &ToolCx, spec: &ToolSpec, result: Result<OpResult, Failure>) -> Outcome {
    match result {
        Ok(result) => Outcome {
            output: Output::Payload(operation::payload(cx, &result).await),
            ..Outcome::default()
        },
        Err(failure) => {
            let failure = operation::failure(&failure);
            said_no(spec, &failure, failed(&failure))
        }
    }
}

/// What the failure of a sandbox operation is to the model.
pub(crate) fn sandbox_failure(failure: &Failure) -> ToolFailure {
    operation::failure(failure)
}

/// A failed react call: `{"ok":false,"error":{"code":…,"message":…,"details":…}}`, which is the form that models are told of.
pub fn refused(error: ShownError) -> Outcome {
    Outcome {
        output: Output::Payload(Payload::json(&json!({"ok": false, "error": error}))),
        error: Some(error),
        ..Outcome::default()
    }
}

/// A failed call.
pub fn failed(failure: &ToolFailure) -> Outcome {
    Outcome::failure(failure.shown())
}

/// Adds `tool_result_error`: it ran, and said no. Exec tools say so in their report, react tools in their result.
fn said_no(spec: &ToolSpec, failure: &ToolFailure, mut outcome: Outcome) -> Outcome {
    if !matches!(spec.family(), Family::Exec | Family::React) {
        outcome.notices.push(
            Notice::new(Code::ToolResultError, failure.message.clone())
                .with("error", failure.kind.clone())
                .with("tool_id", spec.name().as_str()),
        );
    }
    outcome
}

async fn unwrapped(cx: &ToolCx, spec: &ToolSpec, value: Value) -> Outcome {
    let Envelope { ret, failure } = envelope::open(value);
    match failure {
        None => Outcome {
            output: Output::Payload(payload(cx, &ret).await),
            ..Outcome::default()
        },
        Some(failure) if ret.is_null() => said_no(spec, &failure, failed(&failure)),
        Some(failure) => {
            let output = Output::Payload(payload(cx, &ret).await);
            said_no(
                spec,
                &failure,
                Outcome {
                    output,
                    ..failed(&failure)
                },
            )
        }
    }
}

/// A value as JSON, within the cap; the whole is kept.
pub async fn payload(cx: &ToolCx, value: &Value) -> Payload {
    match value {
        Value::Bool(ok) => Payload::json(&json!({"ok": ok})),
        value => capped(cx, Payload::json(value), value, limits::VALUE_MAX_CHARS).await,
    }
}

/// A text as it is, within the cap; the whole is kept, and its lines are the lines to go on with.
pub(crate) async fn text(cx: &ToolCx, text: &str) -> Payload {
    let Some((end, _)) = text.char_indices().nth(limits::VALUE_MAX_CHARS) else {
        return Payload::markdown(text);
    };
    let Some(blob) = keep(cx, text.to_owned()).await else {
        return Payload::markdown(text);
    };
    let more = text[end..].chars().count();
    let next = text[..end].matches('\n').count() + 1;
    let path = cx.result_path();
    let shown = format!(
        "{}\n...[truncated: {more} more characters; go on with react.read({path}#L{next}-{})]",
        &text[..end],
        next + 399
    );
    Payload {
        whole: Some(blob),
        ..Payload::markdown(shown)
    }
}

/// A text within a cap: when it is longer, its beginning, a counted marker, and the whole in the store.
async fn capped(cx: &ToolCx, payload: Payload, whole: &Value, cap_chars: usize) -> Payload {
    let Some((end, _)) = payload.text.char_indices().nth(cap_chars) else {
        return payload;
    };
    // Pretty, so that the rest can be read by lines.
    let pretty = serde_json::to_string_pretty(whole).unwrap_or_else(|_| payload.text.to_string());
    let Some(blob) = keep(cx, pretty).await else {
        return payload;
    };
    let more = payload.text[end..].chars().count();
    let text = format!(
        "{}\n...[truncated: {more} more characters; the whole value is at {path}: react.read(paths=[\"{path}#L1-400\"])]",
        &payload.text[..end],
        path = cx.result_path(),
    );
    Payload {
        text: text.into(),
        whole: Some(blob),
        ..payload
    }
}

/// Keeps the whole of something; none when the store cannot, in which case nothing may be cut.
async fn keep(cx: &ToolCx, text: String) -> Option<Blob> {
    cx.artifacts().put(text).await.ok().map(|stored| stored.blob)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_has_its_keys_in_order() {
        let failure = ToolFailure::new("timeout", "too long").detail(json!({"s": 3}));
        let Output::Payload(payload) = failed(&failure).output else {
            panic!("a failure has a payload")
        };
        insta::assert_snapshot!(
            payload.text,
            @r#"{"ok":false,"error_kind":"timeout","message":"too long","detail":{"s":3}}"#
        );
    }
}
