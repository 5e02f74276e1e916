//! Files that come with a question: bytes, or a link to what a conversation of this server has.

use annals_core::limits::ATTACHMENT_MAX_BYTES;
use annals_runtime::Attachment;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{AnnalsServer, Unmet, look};
use crate::text;

/// Files that may come with one question.
const ATTACHED_MAX: usize = 32;

/// A file as a client sends it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    base64: Option<String>,
    #[serde(default)]
    uri: Option<String>,
}

/// The parameter in the question's schema.
pub(super) fn schema() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    json!({
        "type": "array",
        "maxItems": ATTACHED_MAX,
        "description": "Files that come with the prompt, each by its bytes or by the address of one that is here already.",
        "items": {
            "type": "object",
            "properties": {
                "name": text("The file's name; with `uri` only to give it another."),
                "base64": text("Its bytes."),
                "uri": text("A resource of this server instead: `annals://c/ID/PATH`."),
            },
            "additionalProperties": false,
        },
    })
}

impl AnnalsServer {
    /// The files of a question. Whether they may come with it is judged where it is posted, as for every prompt.
    pub(super) async fn attached(&self, arguments: &Map<String, Value>) -> Result<Vec<Attachment>, Unmet> {
        let Some(sent) = arguments.get("attachments") else {
            return Ok(Vec::new());
        };
        let sent = Vec::<Sent>::deserialize(sent)
            .map_err(|error| Unmet(format!("`attachments` cannot be read: {error}")))?;
        if sent.len() > ATTACHED_MAX {
            return Err(Unmet(format!(
                "{} files came with the prompt, and at most {ATTACHED_MAX} may",
                sent.len()
            )));
        }
        let mut attached = Vec::with_capacity(sent.len());
        for file in sent {
            attached.push(match file {
                Sent {
                    name: Some(name),
                    base64: Some(base64),
                    uri: None,
                } => Attachment::new(name.clone(), decoded(&name, &base64)?),
                Sent {
                    name,
                    base64: None,
                    uri: Some(uri),
                } => self.linked(name, &uri).await?,
                _ => {
                    return Err(Unmet::new(
                        "an attachment needs `name` and `base64`, or `uri` of a resource of this server",
                    ));
                }
            });
        }
        Ok(attached)
    }

    /// A file of a conversation here. Nothing is fetched from elsewhere.
    async fn linked(&self, name: Option<String>, uri: &str) -> Result<Attachment, Unmet> {
        let Some((id, Some(path))) = look::parse_uri(uri) else {
            return Err(Unmet(format!(
                "`{}` is no file of this server: attach `annals://c/ID/PATH`, or its bytes as `base64`",
                text::one_line(uri, 200)
            )));
        };
        let whole = self.whole(&id, &path).await?;
        let last = path.rsplit(['/', ':']).next().unwrap_or(&path);
        Ok(Attachment::new(
            name.unwrap_or_else(|| last.to_owned()),
            whole.bytes,
        ))
    }
}

fn decoded(name: &str, base64: &str) -> Result<Vec<u8>, Unmet> {
    let name = text::one_line(name, 120);
    // Judged before it is decoded: four characters are at most three bytes.
    let size_bytes = base64.len() as u64 / 4 * 3;
    if size_bytes > ATTACHMENT_MAX_BYTES + 3 {
        return Err(Unmet(format!(
            "attachment `{name}` has about {size_bytes} bytes, and at most {ATTACHMENT_MAX_BYTES} may be attached"
        )));
    }
    STANDARD
        .decode(base64)
        .map_err(|error| Unmet(format!("attachment `{name}` is no base64: {error}")))
}
