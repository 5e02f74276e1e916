//! Typed metadata of a block. Flat in JSON; grouped here so that an ordinary block pays for one pointer.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{BlobDigest, SafeDigest, ShownError};
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
    /// True on a meta result block: its text is a safe digest (`digest_of_artifact`).
    pub is_digest: bool,
    /// On the first result block of a call: why the call failed (`error`).
    pub error: Option<Box<ShownError>>,
    /// Hosting facts of a file block.
    pub file: Option<Box<FileMeta>>,
    /// What a summary covers.
    pub summary: Option<Box<SummaryMeta>>,
    /// Sources that the text cites (`sources_used`).
    pub sources_used: Vec<Sid>,
    /// Rows that entered the sources pool with this block, with their SIDs (`sources`).
    pub sources: Vec<SourceRow>,
    /// Parameters that the call block shows cut (`cut`).
    pub cut: Vec<CutParam>,
    /// Everything else, kept as it came.
    pub extra: Extra,
}

/// Fields that this version gives no meaning: a JSON object as text, because a map of one key costs half a kilobyte.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extra(Option<Box<str>>);

/// Where a file's bytes are kept. Never shown to a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FileMeta {
    /// Where the artifact store keeps the bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    /// The safe digest of this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<SafeDigest>,
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
        is_digest: false,
        error: None,
        file: None,
        summary: None,
        sources_used: Vec::new(),
        sources: Vec::new(),
        cut: Vec::new(),
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
        self.extra.map().shift_remove(name)
    }

    /// With a further field.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        let mut fields = self.extra.map();
        fields.insert(name.to_owned(), value.into());
        self.extra = Extra::of(fields);
        self
    }

    /// The flat JSON object.
    pub fn to_map(&self) -> Map<String, Value> {
        let mut map = Map::new();
        let mut put = |name: &str, value: Value| map.insert(name.to_owned(), value);
        if let Some(call) = &self.call {
            put("tool_call_id", call.as_str().into());
        }
        if let Some(step) = self.step {
            put("step", step.into());
        }
        if let Some(count) = self.result_count {
            put("result_count", count.into());
        }
        if self.is_digest {
            put("digest_of_artifact", true.into());
        }
        if let Some(error) = &self.error {
            put("error", to_value(error));
        }
        if !self.sources_used.is_empty() {
            put("sources_used", to_value(&self.sources_used));
        }
        if !self.sources.is_empty() {
            put("sources", to_value(&self.sources));
        }
        if !self.cut.is_empty() {
            put("cut", to_value(&self.cut));
        }
        let groups = [
            self.file.as_deref().map(to_value),
            self.summary.as_deref().map(to_value),
        ];
        for group in groups.into_iter().flatten() {
            if let Value::Object(fields) = group {
                map.extend(fields);
            }
        }
        map.extend(self.extra.map());
        map
    }

    /// Reads the flat JSON object. A known field of the wrong shape is kept among the further ones rather than
    /// lost, so a log written by another hand still opens.
    pub fn from_map(mut map: Map<String, Value>) -> Self {
        let mut meta = Meta {
            call: take(&mut map, "tool_call_id"),
            step: take(&mut map, "step"),
            result_count: take(&mut map, "result_count"),
            is_digest: take(&mut map, "digest_of_artifact").unwrap_or_default(),
            error: take(&mut map, "error"),
            sources_used: take(&mut map, "sources_used").unwrap_or_default(),
            sources: take(&mut map, "sources").unwrap_or_default(),
            cut: take(&mut map, "cut").unwrap_or_default(),
            ..Meta::EMPTY
        };
        const FILE: [&str; 7] = [
            "hosted_uri",
            "rn",
            "key",
            "physical_path",
            "content_digest",
            "size_bytes",
            "digest",
        ];
        const SUMMARY: [&str; 4] = [
            "covered_turn_ids",
            "first_kept_seq",
            "compaction_digest",
            "split_turn_id",
        ];
        meta.file = take_group(&mut map, &FILE).filter(|file| **file != FileMeta::default());
        meta.summary = take_group(&mut map, &SUMMARY);
        meta.extra = Extra::of(map);
        meta
    }
}

impl Extra {
    fn of(fields: Map<String, Value>) -> Self {
        Extra((!fields.is_empty()).then(|| Value::Object(fields).to_string().into()))
    }

    fn map(&self) -> Map<String, Value> {
        let fields = self.0.as_deref().map(serde_json::from_str);
        fields
            .transpose()
            .expect("only JSON objects are kept")
            .unwrap_or_default()
    }
}

fn to_value(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("plain data always serialises to JSON")
}

fn take<T: serde::de::DeserializeOwned>(map: &mut Map<String, Value>, name: &str) -> Option<T> {
    let parsed = T::deserialize(map.get(name)?).ok()?;
    map.shift_remove(name);
    Some(parsed)
}

fn take_group<T: serde::de::DeserializeOwned>(
    map: &mut Map<String, Value>,
    names: &[&str],
) -> Option<Box<T>> {
    let group: Map<String, Value> = names
        .iter()
        .filter_map(|name| Some((name.to_string(), map.get(*name)?.clone())))
        .collect();
    if group.is_empty() {
        return None;
    }
    let parsed = T::deserialize(Value::Object(group)).ok()?;
    names.iter().for_each(|name| {
        map.shift_remove(*name);
    });
    Some(Box::new(parsed))
}
