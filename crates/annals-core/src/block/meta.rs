//! Typed metadata of a block. Flat in JSON; grouped here so that an ordinary block pays for one pointer.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use thin_vec::ThinVec;

use super::blob::read_uri;
use super::{BlobDigest, SafeDigest, ShownError};
use crate::content;
use crate::ids::{CallId, Seq, Sid, TurnId};
use crate::path::PhysicalPath;
use crate::sources::SourceRow;

/// Metadata of a block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meta {
    /// The tool call this block belongs to (`tool_call_id`).
    pub call: Option<CallId>,
    /// Which model call of the turn wrote this block, from 1 (`step`).
    pub step: Option<u32>,
    /// On the first result block of a call: how many result blocks the call wrote (`result_count`), so that a
    /// reader knows when they are all there.
    pub result_count: Option<u32>,
    /// On a call of a tool that must not run twice (`started`): true when it begins as soon as it is written, false when
    /// something is decided about it first. Then a `react.tool.started` block says that it begins.
    pub started: Option<bool>,
    /// True on a meta result block: its text is a safe digest (`digest_of_artifact`).
    pub is_digest: bool,
    /// On the first result block of a call: why the call failed (`error`).
    pub error: Option<Box<ShownError>>,
    /// Hosting facts of a file block.
    pub file: Option<Box<FileMeta>>,
    /// What a summary covers.
    pub summary: Option<Box<SummaryMeta>>,
    /// Sources that the text cites (`sources_used`).
    pub sources_used: ThinVec<Sid>,
    /// Rows that entered the sources pool with this block, with their SIDs (`sources`).
    pub sources: ThinVec<SourceRow>,
    /// Parameters that the call block shows cut (`cut`).
    pub cut: ThinVec<CutParam>,
    /// Everything else, kept as it came.
    pub extra: Extra,
}

/// Fields that this version gives no meaning: a JSON object as text, because a map of one key costs half a kilobyte.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extra(Option<Box<str>>);

/// Where a file's bytes are kept. Never shown to a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FileMeta {
    /// What names the bytes in any artifact store that keeps them: see [`BlobDigest::uri`].
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_uri"
    )]
    pub hosted_uri: Option<String>,
    /// Resource name `annals:<tenant>:<project>:<user>:<conversation>:<turn>:artifact:<name>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rn: Option<String>,
    /// Key in the artifact store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Where the file lies below OUT_DIR.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub physical_path: Option<PhysicalPath>,
    /// SHA-256 of the whole file, also when the block shows only a part of it or none (`content_digest`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_digest: Option<BlobDigest>,
    /// Size of the whole file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Width and height, if it is a picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pixels: Option<(u32, u32)>,
    /// Pages, if it is a PDF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<u32>,
    /// The safe digest of this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<SafeDigest>,
}

impl FileMeta {
    /// With what these bytes say of their size as a picture or a document, as far as that is not known yet.
    pub fn measured(mut self, bytes: &[u8]) -> Self {
        self.pixels = self.pixels.or_else(|| content::pixels(bytes));
        if bytes.starts_with(b"%PDF-") {
            self.pages = self.pages.or_else(|| content::pdf_pages(bytes));
        }
        self
    }
}

/// What a `conv.range.summary` block stands for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SummaryMeta {
    /// Turns that are wholly or partly covered.
    pub covered_turn_ids: Vec<TurnId>,
    /// First block that is still rendered; everything before it is covered.
    pub first_kept_seq: Seq,
    /// The deterministic digest of the covered range, kept beside the model's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compaction_digest: Option<String>,
    /// The turn that the cut went through, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_turn_id: Option<TurnId>,
}

/// A parameter whose value the call block shows cut, and where the whole is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CutParam {
    /// The parameter's name.
    pub name: String,
    /// The whole value in the artifact store.
    pub blob: BlobDigest,
    /// Its length in bytes.
    pub size_bytes: u64,
}

impl Meta {
    /// No metadata.
    pub const EMPTY: Meta = Meta {
        call: None,
        step: None,
        result_count: None,
        started: None,
        is_digest: false,
        error: None,
        file: None,
        summary: None,
        sources_used: ThinVec::new(),
        sources: ThinVec::new(),
        cut: ThinVec::new(),
        extra: Extra(None),
    };

    /// Metadata of a block that belongs to this call.
    pub fn of_call(call: &CallId) -> Self {
        Meta {
            call: Some(call.clone()),
            ..Meta::EMPTY
        }
    }

    /// True when nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Meta::EMPTY
    }

    /// One of the further fields, by name.
    pub fn get(&self, name: &str) -> Option<Value> {
        self.extra.get(name)
    }

    /// With a further field.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.extra = self.extra.with(name, value.into());
        self
    }

    /// The flat JSON object.
    pub fn to_map(&self) -> Map<String, Value> {
        match to_value(self) {
            Value::Object(map) => map,
            _ => unreachable!("metadata serialises to an object"),
        }
    }

    /// Reads the flat JSON object. A known field of the wrong shape is kept among the further ones rather than
    /// lost, so a log written by another hand still opens.
    pub fn from_map(map: Map<String, Value>) -> Self {
        let text = Value::Object(map).to_string();
        Self::from_json(&text).expect("an object was just written")
    }

    /// Reads the flat JSON object from its text, as [`from_map`](Self::from_map) does. A log has this on almost every
    /// block, so nothing is built that is not kept.
    pub fn from_json(text: &str) -> serde_json::Result<Self> {
        let fields: Fields<'_> = serde_json::from_str(text)?;
        let file = fields
            .have(FILE)
            .then(|| serde_json::from_str::<FileMeta>(text).ok())
            .flatten();
        let summary = fields
            .have(SUMMARY)
            .then(|| serde_json::from_str::<SummaryMeta>(text).ok())
            .flatten();
        let mut meta = Meta::EMPTY;
        let mut further = Map::new();
        for (name, raw) in &fields.0 {
            let known = match &**name {
                "tool_call_id" => read_some(raw, &mut meta.call),
                "step" => read_some(raw, &mut meta.step),
                "result_count" => read_some(raw, &mut meta.result_count),
                "started" => read_some(raw, &mut meta.started),
                "digest_of_artifact" => read(raw, &mut meta.is_digest),
                "error" => read_some(raw, &mut meta.error),
                "sources_used" => read(raw, &mut meta.sources_used),
                "sources" => read(raw, &mut meta.sources),
                "cut" => read(raw, &mut meta.cut),
                name if FILE.contains(&name) => file.is_some(),
                name if SUMMARY.contains(&name) => summary.is_some(),
                _ => false,
            };
            if !known {
                further.insert(name.clone().into_owned(), serde_json::from_str(raw.get())?);
            }
        }
        meta.file = file.filter(|file| *file != FileMeta::default()).map(Box::new);
        meta.summary = summary.map(Box::new);
        meta.extra = Extra::of(further);
        Ok(meta)
    }
}

const FILE: &[&str] = &[
    "hosted_uri",
    "rn",
    "key",
    "physical_path",
    "content_digest",
    "size_bytes",
    "pixels",
    "pages",
    "digest",
];

const SUMMARY: &[&str] = &[
    "covered_turn_ids",
    "first_kept_seq",
    "compaction_digest",
    "split_turn_id",
];

/// The fields of an object, each still as text; of two with one name the later.
struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl Fields<'_> {
    fn have(&self, group: &[&str]) -> bool {
        self.0.iter().any(|(name, _)| group.contains(&&**name))
    }
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields: Vec<(Cow<'de, str>, &RawValue)> = Vec::new();
                while let Some(Name(name)) = map.next_key()? {
                    let value = map.next_value()?;
                    match fields.iter_mut().find(|(known, _)| *known == name) {
                        Some(known) => known.1 = value,
                        None => fields.push((name, value)),
                    }
                }
                Ok(Fields(fields))
            }
        }
        from.deserialize_map(Visit)
    }
}

/// A field's name, borrowed unless it has escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// Reads a field into its place; whether it had the right shape.
fn read<'a, T: Deserialize<'a>>(raw: &'a RawValue, place: &mut T) -> bool {
    let value = serde_json::from_str(raw.get());
    let is_read = value.is_ok();
    value.into_iter().for_each(|value| *place = value);
    is_read
}

/// The same for a field that may be absent; `null` is of no shape.
fn read_some<'a, T: Deserialize<'a>>(raw: &'a RawValue, place: &mut Option<T>) -> bool {
    *place = serde_json::from_str(raw.get()).ok();
    place.is_some()
}

impl Serialize for Meta {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        if let Some(call) = &self.call {
            map.serialize_entry("tool_call_id", call)?;
        }
        if let Some(step) = &self.step {
            map.serialize_entry("step", step)?;
        }
        if let Some(count) = &self.result_count {
            map.serialize_entry("result_count", count)?;
        }
        if let Some(started) = &self.started {
            map.serialize_entry("started", started)?;
        }
        if self.is_digest {
            map.serialize_entry("digest_of_artifact", &true)?;
        }
        if let Some(error) = &self.error {
            map.serialize_entry("error", error)?;
        }
        if !self.sources_used.is_empty() {
            map.serialize_entry("sources_used", &self.sources_used)?;
        }
        if !self.sources.is_empty() {
            map.serialize_entry("sources", &self.sources)?;
        }
        if !self.cut.is_empty() {
            map.serialize_entry("cut", &self.cut)?;
        }
        let groups = [
            self.file.as_deref().map(to_value),
            self.summary.as_deref().map(to_value),
        ];
        for group in groups.into_iter().flatten() {
            let fields = group.as_object().into_iter().flatten();
            fields
                .into_iter()
                .try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        }
        for (name, value) in self.extra.map() {
            map.serialize_entry(&name, &value)?;
        }
        map.end()
    }
}

impl Extra {
    fn of(fields: Map<String, Value>) -> Self {
        Extra((!fields.is_empty()).then(|| Value::Object(fields).to_string().into()))
    }

    /// Whether there may be a field of this name, by its text alone. Metadata is asked far more often than it has an answer.
    fn may_have(&self, name: &str) -> bool {
        let is_plain = name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let text = self.0.as_deref().unwrap_or_default();
        !is_plain || text.contains(&format!("\"{name}\""))
    }

    /// A field, read from the text without reading the others.
    pub(super) fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let text = self.0.as_deref().filter(|_| self.may_have(name))?;
        let Fields(fields) = serde_json::from_str(text).ok()?;
        let (_, value) = fields.iter().find(|(known, _)| known == name)?;
        serde_json::from_str(value.get()).ok()
    }

    fn with(&self, name: &str, value: Value) -> Self {
        match self.0.as_deref() {
            Some(text) if !self.may_have(name) => {
                let others = text.strip_suffix('}').unwrap_or(text);
                Extra(Some(format!("{others},\"{name}\":{value}}}").into()))
            }
            _ => {
                let mut fields = self.map();
                fields.insert(name.to_owned(), value);
                Extra::of(fields)
            }
        }
    }

    fn map(&self) -> Map<String, Value> {
        let fields = self.0.as_deref().map(serde_json::from_str);
        fields
            .transpose()
            .expect("only JSON objects are kept")
            .unwrap_or_default()
    }
}

pub(super) fn to_value(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("plain data always serialises to JSON")
}
