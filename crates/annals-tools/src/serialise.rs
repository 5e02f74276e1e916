//! What tools return, made into the text a model reads.
//!
//! One place unwraps envelopes, applies the caps and orders the keys. Whatever is cut is kept whole in the
//! artifact store first, so that every cut can be undone. It must not write blocks.

use annals_core::block::{Blob, ShownError};
use annals_core::limits;
use annals_core::turn::outcome::{Notice, Outcome, Output, Payload};
use annals_sandbox::{Captured, CodeResult, CommandResult, EntryKind, Failure, FileEntries, OpResult};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::cx::ToolCx;
use crate::failure::{TOOL_ERROR, ToolFailure, ToolResult};
use crate::spec::{Family, ToolSpec};

const JSON: &str = "application/json";

/// What a tool function's return becomes.
pub async fn answer(cx: &ToolCx, spec: &ToolSpec, result: ToolResult) -> Outcome {
    match result {
        Ok(value) => unwrapped(cx, spec, value).await,
        Err(failure) => said_no(spec, &failure, failed(&failure)),
    }
}

/// What a sandbox operation's return becomes.
pub async fn answer_op(cx: &ToolCx, spec: &ToolSpec, result: Result<OpResult, Failure>) -> Outcome {
    match result {
        Ok(result) => Outcome {
            output: Output::Payload(op(cx, &result).await),
            ..Outcome::default()
        },
        Err(failure) => {
            let failure = sandbox_failure(&failure);
            said_no(spec, &failure, failed(&failure))
        }
    }
}

/// A failed call: `{"ok":false,"error_kind":…,"message":…,"detail":…}`, in this order.
pub fn failed(failure: &ToolFailure) -> Outcome {
    #[derive(Serialize)]
    struct Shown<'a> {
        ok: bool,
        #[serde(flatten)]
        failure: &'a ToolFailure,
    }
    Outcome {
        output: Output::Payload(Payload::json(&Shown { ok: false, failure })),
        error: Some(failure.shown()),
        ..Outcome::default()
    }
}

/// A failed react call: `{"ok":false,"error":{"code":…,"message":…,"details":…}}`.
pub fn refused(error: ShownError) -> Outcome {
    Outcome {
        output: Output::Payload(Payload::json(&json!({"ok": false, "error": error}))),
        error: Some(error),
        ..Outcome::default()
    }
}

/// Adds `tool_result_error`: it ran, and said no. Exec tools say so in their report, react tools in their result.
fn said_no(spec: &ToolSpec, failure: &ToolFailure, mut outcome: Outcome) -> Outcome {
    if !matches!(spec.family(), Family::Exec | Family::React) {
        outcome.notices.push(
            Notice::new("tool_result_error", failure.message.clone())
                .with("error", failure.kind.clone())
                .with("tool_id", spec.name().as_str()),
        );
    }
    outcome
}

/// An envelope taken apart.
#[derive(Debug, PartialEq)]
struct Envelope {
    /// The payload; null when there is none.
    ret: Value,
    failure: Option<ToolFailure>,
}

async fn unwrapped(cx: &ToolCx, spec: &ToolSpec, value: Value) -> Outcome {
    let Envelope { ret, failure } = open(value);
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

/// Opens `{ok, error, ret}` and `{ok, error, …}`. A value that is not an envelope is the output itself.
fn open(value: Value) -> Envelope {
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
        return ToolFailure::new(TOOL_ERROR, message);
    };
    let mut text = |name: &str| match error.shift_remove(name) {
        Some(Value::String(text)) if !text.is_empty() => Some(text),
        _ => None,
    };
    let kind = text("code").unwrap_or_else(|| TOOL_ERROR.into());
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

/// A value as JSON, within the cap; the whole is kept.
pub async fn payload(cx: &ToolCx, value: &Value) -> Payload {
    match value {
        Value::Bool(ok) => Payload::json(&json!({"ok": ok})),
        value => capped(cx, Payload::json(value), value, limits::VALUE_MAX_CHARS).await,
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
        "{}\n...[truncated: {more} more characters; the whole value is at {path}: react.read({path}#L1-400)]",
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

/// An operation's result as the table of forms has it.
async fn op(cx: &ToolCx, result: &OpResult) -> Payload {
    match result {
        OpResult::Exists(exists) => Payload::json(&json!({"ok": exists})),
        OpResult::Written(written) => Payload::json(&json!({"bytes_written": written.bytes_written})),
        OpResult::Command(result) => command(cx, result).await,
        OpResult::Code(result) => code(cx, result).await,
        OpResult::Entries(entries) => listing(cx, entries).await,
        OpResult::File(content) => file(cx, &content.data.to_text()).await,
    }
}

async fn command(cx: &ToolCx, result: &CommandResult) -> Payload {
    let fields = |stdout: &str, stderr: &str| {
        json!({
            "exit_code": result.exit_code,
            "stdout": stdout,
            "stderr": stderr,
            "elapsed_ms": result.elapsed_ms,
        })
    };
    streams(cx, &result.stdout, &result.stderr, fields).await
}

async fn code(cx: &ToolCx, result: &CodeResult) -> Payload {
    let fields = |stdout: &str, stderr: &str| json!({"text": result.text, "stdout": stdout, "stderr": stderr, "error": result.error});
    streams(cx, &result.stdout, &result.stderr, fields).await
}

/// Two streams within their caps, head and tail kept, in the fields that `form` gives them.
async fn streams(
    cx: &ToolCx,
    stdout: &Captured,
    stderr: &Captured,
    form: impl Fn(&str, &str) -> Value,
) -> Payload {
    let (stdout, stderr) = (stdout.text(), stderr.text());
    let cut = |text: &str| head_and_tail(text, limits::VALUE_MAX_CHARS, cx.result_path().as_str());
    let (shown_out, shown_err) = (cut(&stdout), cut(&stderr));
    if shown_out.is_none() && shown_err.is_none() {
        return Payload::json(&form(&stdout, &stderr));
    }
    let whole = form(&stdout, &stderr);
    let pretty = serde_json::to_string_pretty(&whole).unwrap_or_default();
    match keep(cx, pretty).await {
        None => Payload::json(&whole),
        Some(blob) => {
            let shown = form(
                shown_out.as_deref().unwrap_or(&stdout),
                shown_err.as_deref().unwrap_or(&stderr),
            );
            Payload {
                whole: Some(blob),
                ..Payload::json(&shown)
            }
        }
    }
}

/// Half of the cap from the beginning and half from the end, with a counted marker between; none when it fits.
fn head_and_tail(text: &str, cap_chars: usize, path: &str) -> Option<String> {
    text.char_indices().nth(cap_chars)?;
    let head_end = text.char_indices().nth(cap_chars / 2)?.0;
    let tail_start = text.char_indices().rev().nth(cap_chars / 2 - 1)?.0;
    let missing = text[head_end..tail_start].chars().count();
    Some(format!(
        "{}\n...[truncated: {missing} characters; the whole is at {path}]...\n{}",
        &text[..head_end],
        &text[tail_start..]
    ))
}

async fn listing(cx: &ToolCx, entries: &FileEntries) -> Payload {
    let shown = |count: usize| -> Vec<Value> {
        let entry = |entry: &annals_sandbox::FileEntry| {
            let mut fields = Map::new();
            fields.insert("name".into(), entry.name.clone().into());
            fields.insert("kind".into(), kind_name(entry.kind).into());
            fields.extend(entry.size_bytes.map(|size| ("size_bytes".into(), size.into())));
            Value::Object(fields)
        };
        entries.entries.iter().take(count).map(entry).collect()
    };
    if entries.total <= limits::FILE_ENTRIES_MAX_COUNT && entries.entries.len() == entries.total {
        return Payload::json(&json!({"entries": shown(usize::MAX)}));
    }
    let whole = json!({"entries": shown(usize::MAX), "total": entries.total});
    let pretty = serde_json::to_string_pretty(&whole).unwrap_or_default();
    let cut = json!({"entries": shown(limits::FILE_ENTRIES_MAX_COUNT), "total": entries.total});
    Payload {
        whole: keep(cx, pretty).await,
        ..Payload::json(&cut)
    }
}

fn kind_name(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::File => "file",
        EntryKind::Directory => "directory",
        EntryKind::Symlink => "symlink",
        EntryKind::Other => "other",
    }
}

async fn file(cx: &ToolCx, text: &str) -> Payload {
    let Some((end, _)) = text.char_indices().nth(limits::FILE_CONTENT_MAX_CHARS) else {
        return Payload::json(&json!({"data": text}));
    };
    // The whole is the file itself, so its lines are the lines to go on with.
    let Some(blob) = keep(cx, text.to_owned()).await else {
        return Payload::json(&json!({"data": text}));
    };
    let more = text[end..].chars().count();
    let next = text[..end].matches('\n').count() + 1;
    let path = cx.result_path();
    let marker = format!(
        "\n...[truncated: {more} more characters; go on with react.read({path}#L{next}-{})]",
        next + 400
    );
    let data = format!("{}{marker}", &text[..end]);
    Payload {
        mime: JSON.into(),
        whole: Some(blob),
        ..Payload::json(&json!({"data": data}))
    }
}

/// A sandbox failure with what its command had written until then.
fn sandbox_failure(failure: &Failure) -> ToolFailure {
    let shown = ToolFailure::new(failure.kind.as_str(), failure.message.clone());
    let cut = |stream: &Captured| {
        let text = stream.text().into_owned();
        annals_core::view::cut::brief(&text, limits::EXEC_STREAM_TAIL_MAX_CHARS)
    };
    match (&failure.detail, &failure.partial) {
        (None, None) => shown,
        (Some(detail), None) => shown.detail(detail.clone()),
        (detail, Some(partial)) => {
            let mut facts = Map::new();
            facts.extend(
                detail
                    .as_ref()
                    .map(|detail| ("detail".into(), detail.clone().into())),
            );
            facts.insert("stdout".into(), cut(&partial.stdout).into());
            facts.insert("stderr".into(), cut(&partial.stderr).into());
            facts.insert("elapsed_ms".into(), partial.elapsed_ms.into());
            shown.detail(facts)
        }
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

    #[test]
    fn a_long_stream_keeps_its_head_and_tail_and_counts_the_rest() {
        let text: String = ('a'..='z').collect();
        assert_eq!(head_and_tail(&text, 26, "p"), None);
        insta::assert_snapshot!(head_and_tail(&text, 10, "tc:t.c.result").unwrap(), @r"
        abcde
        ...[truncated: 16 characters; the whole is at tc:t.c.result]...
        vwxyz
        ");
        assert!(
            head_and_tail("ééééééééééé", 10, "p")
                .unwrap()
                .starts_with("ééééé\n")
        );
    }
}
