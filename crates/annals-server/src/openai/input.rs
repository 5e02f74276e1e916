//! Content of messages as it comes in both wire forms: texts, and files as data, by id or by address.

use std::collections::HashMap;

use annals_core::block::{Blob, BlobDigest};
use annals_core::limits::ATTACHMENT_MAX_BYTES;
use annals_tools::web::fetch::{FetchLimits, Fetcher, Kept};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use super::ask::Face;
use super::error::ApiError;
use super::transcript::{File, Held, Message, Role, Said};

/// The content of a message: a text, or parts.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Content {
    Text(String),
    Parts(Vec<Value>),
    /// `null`, as some clients send with calls.
    Nothing(()),
}

/// One part, read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    Text(String),
    File { name: Option<String>, from: FileSource },
}

impl Part {
    fn is_file(&self) -> bool {
        matches!(self, Part::File { .. })
    }
}

/// Where a file's bytes are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FileSource {
    Bytes(Vec<u8>),
    Id(String),
    /// Somewhere on the web.
    Url(String),
}

/// A message whose files are not loaded yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RawMessage {
    pub(crate) role: Role,
    pub(crate) parts: Vec<Part>,
}

impl RawMessage {
    /// A message of this role; none for roles that say nothing to an agent. `call` is the call that a tool's message
    /// gives the result of.
    pub(crate) fn read(role: &str, content: Content, call: Option<&str>) -> Result<Option<Self>, ApiError> {
        let role = match role {
            "system" | "developer" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "tool" => {
                let missing =
                    || ApiError::invalid("messages", "missing_call", "a result needs its `tool_call_id`");
                Role::Tool(call.ok_or_else(missing)?.to_owned())
            }
            // The form before tools: no client that speaks it can name a call.
            "function" => return Ok(None),
            other => {
                let message = format_args!(
                    "`{other}` is not a role: use `system`, `developer`, `user`, `assistant` or `tool`"
                );
                return Err(ApiError::invalid("messages", "invalid_role", message));
            }
        };
        let parts = match content {
            Content::Nothing(()) => Vec::new(),
            Content::Text(text) => vec![Part::Text(text)],
            Content::Parts(parts) => parts
                .iter()
                .filter_map(|part| part_of(part).transpose())
                .collect::<Result<_, _>>()?,
        };
        Ok(Some(RawMessage { role, parts }))
    }
}

/// The messages of one request while their files are loaded.
///
/// What came with the body has passed the body's limit. What is fetched or was uploaded has not: it goes to the artifact
/// store as it arrives, each address once, their number and their bytes in all bounded. A history may hold as many files as
/// it likes; what is new is a prompt, with a prompt's limit.
pub(crate) struct Loading<'f> {
    face: &'f Face,
    files: usize,
    fetched: HashMap<String, Kept>,
    fetched_bytes: u64,
}

impl<'f> Loading<'f> {
    pub(crate) fn new(face: &'f Face) -> Self {
        Loading {
            face,
            files: 0,
            fetched: HashMap::new(),
            fetched_bytes: 0,
        }
    }

    pub(crate) async fn all(mut self, raw: Vec<RawMessage>) -> Result<Vec<Message>, ApiError> {
        let most = self.face.app.limits.attachments_max;
        let files = |message: &RawMessage| message.parts.iter().filter(|part| part.is_file()).count();
        let is_answer = |message: &RawMessage| message.role == Role::Assistant;
        let answered = raw.iter().rposition(is_answer).map_or(0, |last| last + 1);
        if raw[answered..].iter().map(files).sum::<usize>() > most {
            let message = format_args!("at most {most} files may come with a prompt");
            return Err(ApiError::invalid("messages", "too_many_files", message));
        }
        let mut messages = Vec::with_capacity(raw.len());
        for message in raw {
            messages.push(self.one(message).await?);
        }
        Ok(messages)
    }

    async fn one(&mut self, raw: RawMessage) -> Result<Message, ApiError> {
        let mut message = Message {
            role: raw.role,
            said: Said::default(),
        };
        for part in raw.parts {
            match part {
                Part::Text(text) => {
                    if !message.said.text.is_empty() {
                        message.said.text.push('\n');
                    }
                    message.said.text.push_str(&text);
                }
                Part::File { name, from } => {
                    self.files += 1;
                    message.said.files.push(self.file(name, from).await?);
                }
            }
        }
        Ok(message)
    }

    async fn file(&mut self, name: Option<String>, from: FileSource) -> Result<File, ApiError> {
        Ok(match from {
            FileSource::Bytes(bytes) => sent(name.as_deref(), self.files, bytes),
            FileSource::Url(url) => {
                let Kept { blob, head } = self.fetched(url).await?;
                kept(named(name.as_deref(), self.files, &head), blob)
            }
            FileSource::Id(id) => {
                let (kept_name, blob) = self.face.kept_file(&id).await?;
                kept(named(name.or(Some(kept_name)).as_deref(), self.files, &[]), blob)
            }
        })
    }

    /// A file from an address, within what may be reached.
    async fn fetched(&mut self, url: String) -> Result<Kept, ApiError> {
        if let Some(known) = self.fetched.get(&url) {
            return Ok(known.clone());
        }
        let app = &self.face.app;
        if self.fetched.len() >= app.limits.attachments_max {
            let most = app.limits.attachments_max;
            let message =
                format_args!("at most {most} addresses are fetched for a request: upload the files");
            return Err(ApiError::invalid("messages", "too_many_files", message));
        }
        let left = app.limits.upload_max_bytes.saturating_sub(self.fetched_bytes);
        let most = usize::try_from(left.min(ATTACHMENT_MAX_BYTES)).unwrap_or(usize::MAX);
        let limits = FetchLimits {
            body_bytes: most,
            wire_bytes: most,
            ..FetchLimits::default()
        };
        let egress = app.outside.egress.clone();
        let fetcher = Fetcher::with_limits(egress, annals_content::Content::default(), limits);
        let fetched = fetcher.keep(&url, self.face.agent.artifacts()).await;
        let fetched = fetched.map_err(|error| {
            let message = format_args!("a file cannot be fetched: {error}");
            ApiError::invalid("messages", error.code(), message)
        })?;
        self.fetched_bytes += fetched.blob.size_bytes;
        self.fetched.insert(url, fetched.clone());
        Ok(fetched)
    }
}

fn kept(name: String, blob: Blob) -> File {
    File {
        name,
        digest: blob.digest,
        held: Held::Kept(blob),
    }
}

/// A file whose bytes came with the message.
fn sent(name: Option<&str>, number: usize, bytes: Vec<u8>) -> File {
    File {
        name: named(name, number, &bytes),
        digest: BlobDigest::of(&bytes),
        held: Held::Here(bytes),
    }
}

/// A name that no other file of the request has.
fn named(name: Option<&str>, number: usize, bytes: &[u8]) -> String {
    let name = name
        .and_then(|name| name.rsplit(['/', '\\']).next())
        .unwrap_or_default();
    if name.is_empty() {
        return format!("file-{number}.{}", extension(bytes));
    }
    name.to_owned()
}

fn extension(bytes: &[u8]) -> &'static str {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => "png",
        [0xff, 0xd8, 0xff, ..] => "jpg",
        [b'G', b'I', b'F', b'8', ..] => "gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "webp",
        [b'%', b'P', b'D', b'F', ..] => "pdf",
        // Of a file that was fetched only the first bytes are here, which may end within a character.
        bytes if std::str::from_utf8(bytes).map_or_else(|error| error.error_len().is_none(), |_| true) => {
            "txt"
        }
        _ => "bin",
    }
}

/// The schema that a format asks the answer to fit; `named` is where the wire form has it.
pub(crate) fn schema_of(
    param: &'static str,
    format: &Value,
    named: &Value,
) -> Result<Option<Value>, ApiError> {
    match format["type"].as_str() {
        None | Some("text") => Ok(None),
        Some("json_object") => Ok(Some(serde_json::json!({"type": "object"}))),
        Some("json_schema") if named["schema"].is_object() => Ok(Some(named["schema"].clone())),
        Some("json_schema") => Err(ApiError::invalid(
            param,
            "invalid_schema",
            "the format has no `schema`",
        )),
        Some(other) => {
            let message =
                format_args!("`{other}` is not a format: use `text`, `json_object` or `json_schema`");
            Err(ApiError::invalid(param, "unsupported_value", message))
        }
    }
}

/// One part of either wire form. Parts that carry nothing for the agent are left out.
fn part_of(part: &Value) -> Result<Option<Part>, ApiError> {
    let kind = part["type"].as_str().unwrap_or_default();
    let text = |name: &str| Ok(part[name].as_str().map(|text| Part::Text(text.to_owned())));
    match kind {
        "text" | "input_text" | "output_text" => text("text"),
        "refusal" => text("refusal"),
        "image_url" => file(&part["image_url"]["url"], &Value::Null, &Value::Null),
        "input_image" => file(&part["image_url"], &part["file_id"], &Value::Null),
        "file" => {
            let inner = &part["file"];
            file(&inner["file_data"], &inner["file_id"], &inner["filename"])
        }
        "input_file" => {
            let data = if part["file_url"].is_string() {
                &part["file_url"]
            } else {
                &part["file_data"]
            };
            file(data, &part["file_id"], &part["filename"])
        }
        "input_audio" => {
            let format = part["input_audio"]["format"].as_str().unwrap_or("wav");
            let name = Value::String(format!("audio.{format}"));
            file(&part["input_audio"]["data"], &Value::Null, &name)
        }
        "thinking" | "reasoning" | "reasoning_text" | "summary_text" => Ok(None),
        other => {
            let message = format_args!("content of type `{other}` is not taken: send text, images or files");
            Err(ApiError::invalid("messages", "unsupported_content", message))
        }
    }
}

fn file(data: &Value, id: &Value, name: &Value) -> Result<Option<Part>, ApiError> {
    let name = name.as_str().map(str::to_owned);
    let from = match (data.as_str(), id.as_str()) {
        (Some(url), _) if url.starts_with("http://") || url.starts_with("https://") => {
            FileSource::Url(url.to_owned())
        }
        (Some(data), _) => FileSource::Bytes(bytes_of(data)?),
        (None, Some(id)) => FileSource::Id(id.to_owned()),
        (None, None) => {
            let message = "a file needs `file_data`, `file_id` or an image's `url`";
            return Err(ApiError::invalid("messages", "missing_file", message));
        }
    };
    Ok(Some(Part::File { name, from }))
}

/// The bytes of a `data:` address, or of bare base64.
fn bytes_of(data: &str) -> Result<Vec<u8>, ApiError> {
    let invalid = |message: &str| ApiError::invalid("messages", "invalid_file", message);
    let encoded = match data.strip_prefix("data:") {
        Some(rest) => {
            let (kind, encoded) = rest
                .split_once(',')
                .ok_or_else(|| invalid("the `data:` address has no comma"))?;
            if !kind.ends_with(";base64") {
                return Err(invalid("the `data:` address is not base64"));
            }
            encoded
        }
        None => data,
    };
    STANDARD
        .decode(encoded.trim())
        .map_err(|error| invalid(&format!("the file is not valid base64: {error}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(parts: Value) -> Result<Vec<Part>, ApiError> {
        let content = serde_json::from_value(parts).unwrap();
        RawMessage::read("user", content, None).map(|message| message.unwrap().parts)
    }

    #[test]
    fn both_wire_forms_give_the_same_parts() {
        let png = "data:image/png;base64,iVBORw==";
        let chat = json!([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": png}},
            {"type": "file", "file": {"file_data": png, "filename": "p.png"}}, {"type": "file", "file": {"file_id": "file-1"}}]);
        let responses = json!([{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": png},
            {"type": "input_file", "file_data": png, "filename": "p.png"}, {"type": "input_file", "file_id": "file-1"}]);
        let read_chat = read(chat).unwrap();
        assert_eq!(read_chat, read(responses).unwrap());
        assert_eq!(read_chat.len(), 4);
    }

    #[test]
    fn what_cannot_be_taken_says_why() {
        for (part, code) in [
            (json!({"type": "video"}), "unsupported_content"),
            (
                json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,%"}}),
                "invalid_file",
            ),
            (json!({"type": "input_file"}), "missing_file"),
        ] {
            let error = read(json!([part])).unwrap_err();
            assert_eq!(error.body.code.as_deref(), Some(code));
            assert_eq!(error.status, 400);
        }
    }
}
