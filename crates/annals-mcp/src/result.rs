//! What a call gave back, made into an outcome by the laws that hold for every tool: text within caps, files in the turn's
//! folder, addresses as sources, failures as data.

use annals_core::block::ShownError;
use annals_core::code::Code;
use annals_core::sources::{SourceRow, SourceType};
use annals_core::turn::outcome::{Notice, Outcome, Output};
use annals_tools::schema::Schema;
use annals_tools::{IntoOutcome as _, ToolCx, ToolOutput, ToolSpec, serialise};
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{DecodeError, Engine as _};
use rmcp::model::{CallToolResult, ContentBlock, MetaObject, Resource, ResourceContents};
use serde_json::{Value, json};

use crate::limits;
use crate::linked;
use crate::text;
use crate::tool::Few;

/// Servers disagree about padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Begins what the protocol itself says in `_meta`, such as the server's name in every result.
const OF_PROTOCOL: &str = "io.modelcontextprotocol/";

/// Bytes as servers send them; some break the lines.
pub(crate) fn decoded(data: &str) -> Result<Vec<u8>, DecodeError> {
    let data: String = data.split_ascii_whitespace().collect();
    BASE64.decode(&data)
}

/// What of the result's surroundings its files and notices name.
#[derive(Clone, Copy)]
pub(crate) struct Origin<'o> {
    pub(crate) server: &'o str,
    pub(crate) spec: &'o ToolSpec,
    /// What a structured answer must fit, if the server said so.
    pub(crate) output: Option<&'o Schema>,
    /// Whether the model can read what the server links to.
    pub(crate) links_are_read: bool,
}

/// A result, taken apart.
#[derive(Default)]
struct Parts {
    texts: Vec<String>,
    files: Vec<(String, Vec<u8>)>,
    sources: Vec<SourceRow>,
    complaints: Few,
    hidden: usize,
}

/// The outcome of a call.
pub(crate) async fn outcome(cx: &ToolCx, origin: Origin<'_>, result: CallToolResult) -> Outcome {
    let is_error = result.is_error == Some(true);
    let mut parts = Parts::default();
    parts.take_content(cx, origin, result.content);
    let server_meta = result.meta.and_then(|MetaObject(mut meta)| {
        meta.retain(|key, _| !key.starts_with(OF_PROTOCOL));
        parts.kept_meta(Value::Object(meta))
    });
    let structured = result
        .structured_content
        .map(|value| parts.checked(&value, origin, is_error));
    parts.complain_of_hidden();
    let words = parts.texts.join("\n\n");
    let mut output = match answer(&words, structured) {
        Answer::Json(value) => Outcome {
            output: Output::Payload(serialise::payload(cx, &value).await),
            ..Outcome::default()
        }
        .into_output(),
        Answer::Text(words) => ToolOutput::text(words),
        Answer::Files if parts.files.is_empty() => ToolOutput::text("(no content)"),
        Answer::Files => ToolOutput::new(),
    };
    for (path, bytes) in parts.files {
        output = output.file(path, bytes);
    }
    let mut outcome = output.outcome(cx, origin.spec).await;
    outcome.sources.extend(parts.sources);
    outcome.server_meta = server_meta;
    let notice =
        |message: String| Notice::new(Code::McpResult, message).with("tool_id", origin.spec.name().as_str());
    outcome
        .notices
        .splice(0..0, parts.complaints.said("remarks on the result").map(notice));
    if is_error {
        fail(origin.spec, &words, &mut outcome);
    }
    outcome
}

/// The tool ran, and says that it failed.
fn fail(spec: &ToolSpec, words: &str, outcome: &mut Outcome) {
    let said = match text::one_line(words, 300) {
        said if said.is_empty() => "the tool says that it failed, and not why".to_owned(),
        said => said,
    };
    outcome.notices.push(
        Notice::new(Code::ToolResultError, said.clone())
            .with("error", Code::ToolError.as_str())
            .with("tool_id", spec.name().as_str()),
    );
    outcome
        .error
        .get_or_insert(ShownError::new(Code::ToolError, said));
}

/// What the call itself answers.
enum Answer {
    Json(Value),
    Text(String),
    /// The files are the answer.
    Files,
}

fn answer(words: &str, structured: Option<Value>) -> Answer {
    match structured {
        None if words.is_empty() => Answer::Files,
        None => Answer::Text(words.to_owned()),
        Some(value) => {
            // Servers repeat the structured answer as text, for clients that know no other.
            let repeats = serde_json::from_str::<Value>(words).is_ok_and(|text| text == value);
            match repeats || words.is_empty() {
                true => Answer::Json(value),
                false => Answer::Json(json!({"text": words, "structured": value})),
            }
        }
    }
}

impl Parts {
    fn take_content(&mut self, cx: &ToolCx, origin: Origin<'_>, content: Vec<ContentBlock>) {
        let server = origin.server;
        let beyond = content.len().saturating_sub(limits::RESULT_PARTS_MAX);
        for part in content.into_iter().take(limits::RESULT_PARTS_MAX) {
            match part {
                ContentBlock::Text(part) => self.say(&part.text),
                ContentBlock::Image(part) => self.encoded(cx, server, "image", &part.mime_type, &part.data),
                ContentBlock::Audio(part) => self.encoded(cx, server, "audio", &part.mime_type, &part.data),
                ContentBlock::ResourceLink(link) => self.link(origin, &link),
                ContentBlock::Resource(part) => self.resource(cx, server, part.resource),
                _ => self
                    .complaints
                    .push("a part of an unknown kind was left out".to_owned()),
            }
        }
        if beyond > 0 {
            self.complaints
                .begin_with(format!("{beyond} more parts of the result were left out"));
        }
    }

    fn say(&mut self, words: &str) {
        let cleaned = text::clean(words);
        self.hidden += cleaned.removed;
        self.texts.push(cleaned.text);
    }

    fn encoded(&mut self, cx: &ToolCx, server: &str, what: &str, mime: &str, data: &str) {
        match decoded(data) {
            Ok(bytes) => self.file(cx, server, &format!("{what}.{}", extension(mime)), bytes),
            Err(error) => self.complaints.push(format!(
                "a part of the result (`{what}`) is not base64 and was left out: {error}"
            )),
        }
    }

    fn resource(&mut self, cx: &ToolCx, server: &str, resource: ResourceContents) {
        match resource {
            ResourceContents::TextResourceContents {
                uri, mime_type, text, ..
            } => {
                let name = file_name(&uri, mime_type.as_deref().unwrap_or("text/plain"));
                self.file(cx, server, &name, text.into_bytes());
            }
            ResourceContents::BlobResourceContents {
                uri, mime_type, blob, ..
            } => {
                let mime = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                match decoded(&blob) {
                    Ok(bytes) => self.file(cx, server, &file_name(&uri, &mime), bytes),
                    Err(error) => self.complaints.push(format!(
                        "an embedded resource is not base64 and was left out: {error}"
                    )),
                }
            }
            _ => self
                .complaints
                .push("a resource of an unknown kind was left out".to_owned()),
        }
    }

    /// What the bytes are is found out from the bytes; the name is only the server's claim.
    fn file(&mut self, cx: &ToolCx, server: &str, name: &str, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return self
                .complaints
                .push(format!("`{name}` of the result is empty and was left out"));
        }
        if self.files.len() >= limits::RESULT_FILES_MAX {
            return self
                .complaints
                .push(format!("`{name}` is one file too many and was left out"));
        }
        let at = self.files.len() + 1;
        self.files
            .push((format!("mcp/{server}/{}-{at}-{name}", cx.call()), bytes));
    }

    fn link(&mut self, origin: Origin<'_>, link: &Resource) {
        let title = text::one_line(link.title.as_deref().unwrap_or(&link.name), 200);
        let about = link.description.as_deref().unwrap_or_default();
        let about = text::clean_and_cut(about, limits::PARAMETER_DESCRIPTION_MAX_CHARS);
        let uri = text::one_line(&link.uri, 2_000);
        // What is on the web is fetched from there. All else only its own server gives out, by the address that it gave.
        if uri.starts_with("https://") || uri.starts_with("http://") {
            self.sources.push(SourceRow::web(&uri, &title, &about));
        } else if origin.links_are_read && uri == link.uri && !uri.is_empty() {
            let address = linked::address(origin.server, &uri);
            self.texts.push(format!(
                "resource `{title}`: {address} ({} reads it)",
                linked::READ
            ));
            self.sources.push(SourceRow {
                source_type: SourceType::Resource,
                ..SourceRow::web(&address, &title, &about)
            });
            return;
        }
        self.texts.push(format!("resource `{title}`: {uri}"));
    }

    /// What the server says of the result to programs, cleaned like all of it; the model is not told.
    fn kept_meta(&mut self, meta: Value) -> Option<Box<Value>> {
        if !text::json_fits(&meta, limits::META_MAX_BYTES) {
            self.complaints.push(format!(
                "the metadata of the result is larger than {} bytes and was not kept",
                limits::META_MAX_BYTES
            ));
            return None;
        }
        let is_empty = meta.as_object().is_some_and(serde_json::Map::is_empty);
        // What is hidden in it is counted for nobody: only what the model reads is.
        (!is_empty).then(|| Box::new(Parts::default().cleaned(&meta)))
    }

    /// The structured answer without hidden characters. One that does not fit what the server promised is shown all the
    /// same: a wrong schema is the server's mistake, the answer may still be of use.
    fn checked(&mut self, value: &Value, origin: Origin<'_>, is_error: bool) -> Value {
        let misfit = origin
            .output
            .filter(|_| !is_error)
            .and_then(|output| output.misfits(value, 1).shown.pop());
        if let Some(misfit) = misfit {
            let error = text::one_line(&misfit.said, 200);
            self.complaints.begin_with(format!(
                "the structured answer does not fit the server's own schema: {error}"
            ));
        }
        self.cleaned(value)
    }

    fn cleaned(&mut self, value: &Value) -> Value {
        match value {
            Value::String(words) => {
                let cleaned = text::clean(words);
                self.hidden += cleaned.removed;
                Value::String(cleaned.text)
            }
            Value::Array(items) => Value::Array(items.iter().map(|item| self.cleaned(item)).collect()),
            Value::Object(object) => Value::Object(
                object
                    .iter()
                    .map(|(key, value)| (text::clean(key).text, self.cleaned(value)))
                    .collect(),
            ),
            other => other.clone(),
        }
    }

    fn complain_of_hidden(&mut self) {
        if self.hidden > 0 {
            self.complaints.begin_with(format!(
                "{} characters that nobody can see were removed from the result",
                self.hidden
            ));
        }
    }
}

/// The result in a message that has parts of unknown kinds: what is known of it.
pub(crate) fn salvaged(raw: &Value) -> Option<CallToolResult> {
    let content = raw.get("content")?.as_array()?;
    let part = |part: &Value| {
        serde_json::from_value(part.clone()).unwrap_or_else(|_| {
            let kind = part
                .get("type")
                .and_then(Value::as_str)
                .unwrap_or("without a type");
            ContentBlock::text(format!(
                "[a part that cannot be shown: {}]",
                text::one_line(kind, 40)
            ))
        })
    };
    let parts = content.iter().take(limits::RESULT_PARTS_MAX).map(part).collect();
    let is_error = raw.get("isError").and_then(Value::as_bool).unwrap_or_default();
    let mut result = match is_error {
        true => CallToolResult::error(parts),
        false => CallToolResult::success(parts),
    };
    result.structured_content = raw.get("structuredContent").cloned();
    let meta = raw.get("_meta").and_then(Value::as_object);
    result.meta = meta.map(|meta| MetaObject(meta.clone()));
    Some(result)
}

/// The last part of an address as a file name, with an extension.
pub(crate) fn file_name(uri: &str, mime: &str) -> String {
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    let last = path
        .trim_end_matches('/')
        .rsplit(['/', ':', '\\'])
        .next()
        .unwrap_or_default();
    let plain: String = last
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
        .take(60)
        .collect();
    match plain.trim_matches('.') {
        "" => format!("resource.{}", extension(mime)),
        name if name.contains('.') => name.to_owned(),
        name => format!("{name}.{}", extension(mime)),
    }
}

fn extension(mime: &str) -> &'static str {
    let mime = mime
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    match mime.as_str() {
        "image/png" => "png",
        "image/jpeg" | "image/jpg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "image/svg+xml" => "svg",
        "audio/wav" | "audio/x-wav" | "audio/wave" => "wav",
        "audio/mpeg" | "audio/mp3" => "mp3",
        "audio/ogg" => "ogg",
        "application/pdf" => "pdf",
        "application/json" => "json",
        "application/gzip" => "gz",
        "application/zip" => "zip",
        "text/html" => "html",
        "text/markdown" => "md",
        "text/csv" => "csv",
        mime if mime.starts_with("text/") => "txt",
        _ => "bin",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_from_an_address_leads_nowhere() {
        for (uri, mime, name) in [
            ("file:///a/report.pdf", "application/pdf", "report.pdf"),
            ("demo://resource/7", "text/plain", "7.txt"),
            ("x:../../etc/passwd", "text/plain", "passwd.txt"),
            ("..", "image/png", "resource.png"),
            ("http://h/a?b=../c", "text/html; charset=utf-8", "a.html"),
            ("c:\\x\\y.txt", "text/plain", "y.txt"),
            ("\u{202e}", "video/mp4", "resource.bin"),
        ] {
            assert_eq!(file_name(uri, mime), name, "{uri}");
        }
    }

    #[test]
    fn known_parts_are_kept_beside_unknown_ones() {
        let raw = json!({
            "content": [{"type": "text", "text": "a"}, {"type": "hologram"}], "isError": true, "_meta": {"k": 1},
        });
        let result = salvaged(&raw).unwrap();
        assert_eq!((result.content.len(), result.is_error), (2, Some(true)));
        assert_eq!(result.meta.unwrap().0["k"], 1);
        assert!(salvaged(&json!({"x": 1})).is_none());
    }

    #[test]
    fn a_structured_answer_that_is_repeated_as_text_is_shown_once() {
        let value = json!({"a": 1});
        assert!(matches!(answer("{\"a\":1}", Some(value.clone())), Answer::Json(shown) if shown == value));
        assert!(matches!(answer("one", Some(value)), Answer::Json(shown) if shown["text"] == "one"));
        assert!(matches!(answer("", None), Answer::Files));
    }
}
