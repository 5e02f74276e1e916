//! One source: a web page, a file, an attachment or something a person wrote down.

use std::borrow::Cow;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::ids::Sid;
use crate::path::{LogicalPath, PhysicalPath};
use crate::time::Timestamp;

/// The field with the address at which the redirects of a fetch ended.
const FINAL_URL: &str = "final_url";
/// The field with further addresses that led to the same page.
const OTHER_URLS: &str = "other_urls";
const OTHER_URLS_MAX: usize = 8;

/// What kind of thing a source is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SourceType {
    /// A page of the web.
    #[default]
    Web,
    /// A file that a tool produced.
    File,
    /// A file that the user gave.
    Attachment,
    /// Given by hand, or by a skill.
    Manual,
    /// Something that a foreign server has and gives out itself; its address begins with `mcp:`.
    Resource,
}

/// One row of the sources pool. Texts are shared, so a clone is cheap.
///
/// Reading is lenient: a field that is missing or not of its type is empty, because one odd field must not
/// cost the row; fields with other names are kept as they came.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceRow {
    /// Its place in the pool; none before the pool has given one.
    #[serde(
        default,
        deserialize_with = "lenient",
        skip_serializing_if = "Option::is_none"
    )]
    pub sid: Option<Sid>,
    /// What it is.
    #[serde(default, deserialize_with = "lenient")]
    pub source_type: SourceType,
    /// Its title.
    #[serde(default, deserialize_with = "lenient")]
    pub title: Arc<str>,
    /// Its address; empty for files.
    #[serde(default, deserialize_with = "lenient")]
    pub url: Arc<str>,
    /// A short text: the snippet of a search, the summary of a file.
    #[serde(default, deserialize_with = "lenient")]
    pub text: Arc<str>,
    /// The whole content, once it was fetched.
    #[serde(
        default,
        deserialize_with = "lenient",
        skip_serializing_if = "Option::is_none"
    )]
    pub content: Option<Arc<str>>,
    /// The type of its content.
    #[serde(
        default,
        deserialize_with = "lenient",
        skip_serializing_if = "Option::is_none"
    )]
    pub mime: Option<Arc<str>>,
    /// The size of its content.
    #[serde(
        default,
        deserialize_with = "lenient",
        skip_serializing_if = "Option::is_none"
    )]
    pub size_bytes: Option<u64>,
    /// The name of the file on the timeline.
    #[serde(
        default,
        deserialize_with = "lenient",
        skip_serializing_if = "Option::is_none"
    )]
    pub artifact_path: Option<LogicalPath>,
    /// Where the file lies below OUT_DIR.
    #[serde(
        default,
        deserialize_with = "lenient",
        skip_serializing_if = "Option::is_none"
    )]
    pub physical_path: Option<PhysicalPath>,
    /// When its content was fetched.
    #[serde(
        default,
        deserialize_with = "lenient",
        skip_serializing_if = "Option::is_none"
    )]
    pub fetched_time_iso: Option<Timestamp>,
    /// Everything else.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Reads a value, or its default when it has another type.
fn lenient<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

impl SourceRow {
    /// A page found on the web.
    pub fn web(url: &str, title: &str, text: &str) -> Self {
        Self {
            url: Arc::from(url),
            title: Arc::from(title),
            text: Arc::from(text),
            ..Self::default()
        }
    }

    /// A file with the four fields that let its bytes be found again: both paths, the kind and the type.
    pub fn file(source_type: SourceType, path: PhysicalPath, mime: &str) -> Self {
        Self {
            source_type,
            title: Arc::from(path.rel().file_name()),
            artifact_path: Some(path.logical()),
            physical_path: Some(path),
            mime: Some(Arc::from(mime)),
            ..Self::default()
        }
    }

    /// Notes the address at which redirects ended, if it is another than the one asked for.
    pub fn set_reached(&mut self, address: &str) {
        if address.trim_end_matches('/') != self.url.trim_end_matches('/') {
            self.extra.insert(FINAL_URL.into(), address.into());
        }
    }

    /// Addresses of the same page beside its own.
    pub(super) fn other_addresses(&self) -> impl Iterator<Item = &str> {
        let reached = self.extra.get(FINAL_URL).and_then(Value::as_str);
        let others = self.extra.get(OTHER_URLS).and_then(Value::as_array);
        let others = others.into_iter().flatten().filter_map(Value::as_str);
        reached.into_iter().chain(others)
    }

    /// Notes an address of the same page, as long as there are few.
    pub(super) fn add_other_address(&mut self, address: &str) {
        if address.trim().is_empty()
            || self.url.is_empty()
            || self.other_addresses().any(|own| own == address)
        {
            return;
        }
        let others = self
            .extra
            .entry(OTHER_URLS)
            .or_insert_with(|| Value::Array(Vec::new()));
        if let Some(others) = others
            .as_array_mut()
            .filter(|others| others.len() < OTHER_URLS_MAX)
        {
            others.push(address.into());
        }
    }

    /// Where its file lies, if it is a file: its physical path, or the one its artifact path implies.
    pub fn file_path(&self) -> Option<PhysicalPath> {
        self.physical_path
            .clone()
            .or_else(|| self.artifact_path.as_ref().and_then(LogicalPath::physical))
    }

    /// The fullest text there is: the content, or else the short text.
    pub fn full_text(&self) -> &Arc<str> {
        self.content.as_ref().unwrap_or(&self.text)
    }

    /// The short text, cut to `max_chars` with a marker that counts what is missing and names the whole.
    pub fn snippet(&self, max_chars: usize) -> Cow<'_, str> {
        let text = if self.text.is_empty() {
            self.full_text()
        } else {
            &self.text
        };
        let Some((cut_at, _)) = text.char_indices().nth(max_chars) else {
            return Cow::Borrowed(text);
        };
        let missing_chars = text[cut_at..].chars().count();
        let whole = self
            .sid
            .map_or_else(String::new, |sid| format!("; read so:sources_pool[{sid}]"));
        Cow::Owned(format!(
            "{} …[{missing_chars} more chars{whole}]",
            &text[..cut_at]
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_keeps_the_fields_it_does_not_know() {
        let value = json!({
            "sid": 3, "source_type": "web", "title": "T", "url": "https://a.org", "text": "t",
            "fetched_time_iso": "2026-02-09T02:14:32.000000Z", "provider": "brave", "weight": 0.5
        });
        let row: SourceRow = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(row.extra["provider"], "brave");
        assert_eq!(serde_json::to_value(&row).unwrap(), value);
    }

    #[test]
    fn an_odd_field_does_not_cost_the_row() {
        let row: SourceRow = serde_json::from_value(json!({
            "sid": 0, "source_type": "podcast", "title": null, "url": "https://a.org", "size_bytes": "big",
            "artifact_path": "nonsense", "physical_path": "../../etc/passwd", "fetched_time_iso": 17
        }))
        .unwrap();
        assert_eq!(
            row,
            SourceRow {
                url: "https://a.org".into(),
                ..SourceRow::default()
            }
        );
    }

    #[test]
    fn a_file_row_has_the_four_fields_that_find_it_again() {
        let path = PhysicalPath::parse("turn_1/attachments/photo.png").unwrap();
        let row = SourceRow::file(SourceType::Attachment, path.clone(), "image/png");
        assert_eq!(
            serde_json::to_value(&row).unwrap(),
            json!({
                "source_type": "attachment", "title": "photo.png", "url": "", "text": "", "mime": "image/png",
                "artifact_path": "fi:turn_1.user.attachments/photo.png",
                "physical_path": "turn_1/attachments/photo.png"
            })
        );
        assert_eq!(
            SourceRow {
                physical_path: None,
                ..row
            }
            .file_path(),
            Some(path)
        );
    }

    #[test]
    fn a_cut_text_says_how_much_is_missing_and_where_it_is() {
        let row = SourceRow {
            sid: Some(Sid::FIRST),
            ..SourceRow::web("u", "t", &"é".repeat(502))
        };
        let snippet = row.snippet(500);
        assert!(snippet.starts_with(&"é".repeat(500)));
        assert!(
            snippet.ends_with("é …[2 more chars; read so:sources_pool[1]]"),
            "{snippet}"
        );
        assert_eq!(row.snippet(502), &*row.text);
    }
}
