//! Results of sandbox operations, each in the form and within the caps that the model knows.

use annals_core::limits;
use annals_core::turn::outcome::Payload;
use annals_core::view::cut;
use annals_sandbox::{
    Captured, CodeResult, CommandResult, EntryKind, Failure, FileEntries, FileEntry, OpResult,
};
use serde_json::{Map, Value, json};

use super::keep;
use crate::cx::ToolCx;
use crate::failure::ToolFailure;

/// An operation's result as the table of forms has it.
pub(super) async fn payload(cx: &ToolCx, result: &OpResult) -> Payload {
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
        let entry = |entry: &FileEntry| {
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
        whole: Some(blob),
        ..Payload::json(&json!({"data": data}))
    }
}

/// A sandbox failure with what its command had written until then.
pub(super) fn failure(failure: &Failure) -> ToolFailure {
    let shown = ToolFailure::new(failure.kind.as_str(), failure.message.clone());
    let cut = |stream: &Captured| {
        let text = stream.text().into_owned();
        cut::brief(&text, limits::EXEC_STREAM_TAIL_MAX_CHARS)
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
