//! Results of sandbox operations, each in the form and within the caps that the model knows.

use annals_core::code::Code;
use annals_core::limits;
use annals_core::path::LogicalPath;
use annals_core::turn::outcome::Payload;
use annals_core::view::cut;
use annals_sandbox::{
    Captured, CodeResult, CommandResult, EntryKind, Failure, FailureKind, FileEntries, FileEntry, OpResult,
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
    if cut::fits(&stdout, limits::VALUE_MAX_CHARS) && cut::fits(&stderr, limits::VALUE_MAX_CHARS) {
        return Payload::json(&form(&stdout, &stderr));
    }
    let whole = WholeStreams::of(&form("", ""), &stdout, &stderr);
    let path = cx.result_path();
    let cut = |text: &str, before| head_and_tail(text, limits::VALUE_MAX_CHARS, &path, before);
    let shown_out = cut(&stdout, whole.lines_before_stdout);
    let shown_err = cut(&stderr, whole.lines_before_stderr);
    match keep(cx, whole.text).await {
        None => Payload::json(&form(&stdout, &stderr)),
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

/// A result as text, its streams as they were written: in JSON a stream would be one line, and nobody could read its
/// middle.
struct WholeStreams {
    text: String,
    lines_before_stdout: u32,
    lines_before_stderr: u32,
}

impl WholeStreams {
    /// The other fields of the result first, a line each, then both streams under their names.
    fn of(fields: &Value, stdout: &str, stderr: &str) -> Self {
        let mut text = String::new();
        let others = fields.as_object().into_iter().flatten();
        for (name, value) in others.filter(|(name, _)| !matches!(name.as_str(), "stdout" | "stderr")) {
            text.push_str(&format!("{name}: {value}\n"));
        }
        let mut stream = |title: &str, stream: &str| {
            text.push_str(&format!("[{title}]\n"));
            let before = cut::line_count(&text);
            text.push_str(stream);
            if !stream.is_empty() && !stream.ends_with('\n') {
                text.push('\n');
            }
            before
        };
        let lines_before_stdout = stream("stdout", stdout);
        let lines_before_stderr = stream("stderr", stderr);
        WholeStreams {
            text,
            lines_before_stdout,
            lines_before_stderr,
        }
    }
}

/// Half of the cap from the beginning and half from the end, in whole lines where there are any, with a counted marker
/// between that names the lines of the whole result; none when it fits.
fn head_and_tail(text: &str, cap_chars: usize, path: &LogicalPath, lines_before: u32) -> Option<String> {
    text.char_indices().nth(cap_chars)?;
    let half = text.char_indices().nth(cap_chars / 2)?.0;
    let head_end = text[..half].rfind('\n').map_or(half, |newline| newline + 1);
    let half = text.char_indices().rev().nth(cap_chars / 2 - 1)?.0;
    let tail_start = text[half..].find('\n').map_or(half, |newline| half + newline + 1);
    let missing = text[head_end..tail_start].chars().count();
    let lines = |text: &str| text.matches('\n').count() as u32;
    let first = lines_before + lines(&text[..head_end]) + 1;
    let last = first + lines(&text[head_end..tail_start]).saturating_sub(1);
    let gap = if text[..head_end].ends_with('\n') {
        ""
    } else {
        "\n"
    };
    Some(format!(
        "{}{gap}...[truncated: {missing} characters; read them with react.read(paths=[\"{path}#L{first}-{last}\"])]...\n{}",
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
    if cut::fits(text, limits::FILE_CONTENT_MAX_CHARS) {
        return Payload::json(&json!({"data": text}));
    }
    // The whole is the file itself, so its lines are the lines to go on with.
    let Some(blob) = keep(cx, text.to_owned()).await else {
        return Payload::json(&json!({"data": text}));
    };
    let data = cut::cut(text, limits::FILE_CONTENT_MAX_CHARS, Some(&cx.result_path()));
    Payload {
        whole: Some(blob),
        ..Payload::json(&json!({"data": data}))
    }
}

/// What a kind of failure is called in results; the sandbox, which knows no results, has the same words.
fn code_of(kind: FailureKind) -> Code {
    match kind {
        FailureKind::Timeout => Code::Timeout,
        FailureKind::FileNotFound => Code::FileNotFound,
        FailureKind::PathViolation => Code::PathViolation,
        FailureKind::OsError => Code::OsError,
        FailureKind::Unsupported => Code::Unsupported,
        FailureKind::SandboxClosed => Code::SandboxClosed,
        FailureKind::OutputTooLarge => Code::OutputTooLarge,
        FailureKind::Cancelled => Code::Cancelled,
        FailureKind::ResourceLimit => Code::ResourceLimit,
        _ => Code::ToolError,
    }
}

/// A sandbox failure with what its command had written until then.
pub(super) fn failure(failure: &Failure) -> ToolFailure {
    let shown = ToolFailure::new(code_of(failure.kind), failure.message.clone());
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
    fn a_failure_of_the_sandbox_has_the_same_word_in_a_result() {
        use FailureKind::*;
        for kind in [
            Timeout,
            FileNotFound,
            PathViolation,
            OsError,
            Unsupported,
            SandboxClosed,
            OutputTooLarge,
            Cancelled,
            ResourceLimit,
        ] {
            assert_eq!(code_of(kind).as_str(), kind.as_str());
        }
    }

    #[test]
    fn a_long_stream_keeps_its_head_and_tail_and_names_the_lines_between() {
        let path = LogicalPath::parse("tc:turn_1.c.result").unwrap();
        let text: String = ('a'..='z').collect();
        assert_eq!(head_and_tail(&text, 26, &path, 3), None);
        insta::assert_snapshot!(head_and_tail(&text, 10, &path, 3).unwrap(), @r#"
        abcde
        ...[truncated: 16 characters; read them with react.read(paths=["tc:turn_1.c.result#L4-4"])]...
        vwxyz
        "#);
        assert!(
            head_and_tail("ééééééééééé", 10, &path, 3)
                .unwrap()
                .starts_with("ééééé\n")
        );
    }

    #[test]
    fn the_lines_that_a_marker_names_are_those_that_are_missing() {
        let path = LogicalPath::parse("tc:turn_1.c.result").unwrap();
        let stdout: String = (1..=60_000).map(|n| format!("{n}\n")).collect();
        let whole = WholeStreams::of(
            &json!({"exit_code": 0, "stdout": "", "stderr": ""}),
            &stdout,
            "oops",
        );
        assert!(whole.text.starts_with("exit_code: 0\n[stdout]\n1\n2\n"));
        assert!(whole.text.ends_with("60000\n[stderr]\noops\n"));
        let shown = head_and_tail(&stdout, 48_000, &path, whole.lines_before_stdout).unwrap();
        let (head, rest) = shown.split_once("...[truncated").unwrap();
        let (marker, tail) = rest.split_once("]...\n").unwrap();
        let range = marker.split_once("#L").unwrap().1.split_once('"').unwrap().0;
        let (first, last) = range.split_once('-').unwrap();
        let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
        let missing: Vec<&str> = whole
            .text
            .lines()
            .skip(first - 1)
            .take(last + 1 - first)
            .collect();
        assert_eq!(format!("{head}{}\n{tail}", missing.join("\n")), stdout);
    }
}
