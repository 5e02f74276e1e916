//! Schemas of what other crates define: blocks, usage, views. They say in the API document what those types are as JSON; real
//! answers are checked against them (`annals-cli/tests/cli/api_document.rs`).

#![expect(dead_code, reason = "only their schemas are used")]

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

/// A block as it is stored.
#[derive(JsonSchema)]
#[schemars(rename = "Block", extend("additionalProperties" = false))]
pub(crate) struct BlockSchema {
    /// Its place in the conversation, from 1.
    pub(crate) seq: u64,
    /// What it is, as in docs/format.
    pub(crate) r#type: String,
    /// Who wrote it.
    pub(crate) author: String,
    pub(crate) turn_id: String,
    /// RFC 3339, UTC, with microseconds.
    pub(crate) ts: String,
    /// The type of its body.
    pub(crate) mime: String,
    /// The logical path that names it.
    pub(crate) path: Option<String>,
    pub(crate) call_id: Option<String>,
    /// The body, if it is text.
    pub(crate) text: Option<String>,
    /// The body, if it is bytes that came with the block.
    pub(crate) base64: Option<String>,
    /// The body, if it is bytes that are stored.
    pub(crate) blob: Option<BlobSchema>,
    pub(crate) meta: Option<Map<String, Value>>,
    #[schemars(default)]
    pub(crate) tokens: u32,
}

/// Stored bytes.
#[derive(JsonSchema)]
#[schemars(rename = "Blob", extend("additionalProperties" = false))]
pub(crate) struct BlobSchema {
    /// SHA-256.
    pub(crate) digest: String,
    pub(crate) size_bytes: u64,
}

/// Tokens by bucket.
#[derive(JsonSchema)]
#[schemars(rename = "Usage", extend("additionalProperties" = false))]
pub(crate) struct UsageSchema {
    /// All input tokens, those read from or written to the provider's cache among them.
    pub(crate) input_tokens: u64,
    pub(crate) cache_read_tokens: u64,
    pub(crate) cache_write_tokens: u64,
    pub(crate) output_tokens: u64,
}

/// What the model is sent.
#[derive(JsonSchema)]
#[schemars(rename = "Rendered", extend("additionalProperties" = false))]
pub(crate) struct RenderedSchema {
    /// What the model is told before everything else.
    pub(crate) system: String,
    pub(crate) parts: Vec<PartSchema>,
    pub(crate) cache_points: Vec<CachePointSchema>,
    pub(crate) tokens: u64,
    /// What it is offered.
    pub(crate) tools: Vec<Map<String, Value>>,
    /// SHA-256 of the prompt that was sent at this moment, if one was.
    pub(crate) digest: Option<String>,
}

/// A part of what the model is sent.
#[derive(JsonSchema)]
#[schemars(rename = "Part", extend("additionalProperties" = false))]
pub(crate) struct PartSchema {
    pub(crate) r#type: PartType,
    /// Of a text.
    pub(crate) text: Option<String>,
    /// Of a picture or a document.
    pub(crate) media_type: Option<String>,
    /// The cache point after it.
    pub(crate) cache_point: Option<u8>,
    /// The block it comes from; the tail comes from none.
    pub(crate) block_seq: Option<u64>,
    /// What its block costs; on the first part of a block only.
    pub(crate) tokens: u32,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(crate) enum PartType {
    Text,
    Image,
    Document,
}

/// A place worth caching up to.
#[derive(JsonSchema)]
#[schemars(rename = "CachePoint", extend("additionalProperties" = false))]
pub(crate) struct CachePointSchema {
    /// 1 the turns before, 2 some rounds before the tail, 3 the tail.
    pub(crate) point: u8,
    /// The part it comes after, from 0.
    pub(crate) part: usize,
    pub(crate) block_seq: Option<u64>,
}

/// How the view of a model call followed from that of the call before.
#[derive(JsonSchema)]
#[schemars(rename = "Prefix", extend("additionalProperties" = false))]
pub(crate) struct PrefixSchema {
    /// Bytes that both begin with.
    pub(crate) kept_bytes: u64,
    pub(crate) kept_tokens: u64,
    pub(crate) new_tokens: u64,
    /// Where the earlier view was left, unless it is a prefix of the later one.
    pub(crate) broke: Option<BreakSchema>,
}

/// The first place where a view is not what it was.
#[derive(JsonSchema)]
#[schemars(rename = "PrefixBreak", extend("additionalProperties" = false))]
pub(crate) struct BreakSchema {
    /// The first byte that differs, from 0.
    pub(crate) byte: u64,
    pub(crate) block_seq: u64,
    /// Tokens that a provider cached in vain.
    pub(crate) lost_tokens: u64,
    /// Tokens of them that the later view still has.
    pub(crate) again_tokens: u64,
    /// What changed it, named by `cause`.
    pub(crate) cause: Option<Map<String, Value>>,
    pub(crate) before: String,
    pub(crate) after: String,
}

/// A row of the sources pool, with what its finder knew besides.
#[derive(JsonSchema)]
#[schemars(rename = "SourceRow")]
pub(crate) struct SourceSchema {
    pub(crate) sid: Option<u32>,
    pub(crate) source_type: String,
    pub(crate) title: String,
    /// Empty for files.
    pub(crate) url: String,
    /// The snippet of a search, the summary of a file.
    pub(crate) text: String,
    pub(crate) mime: Option<String>,
    pub(crate) size_bytes: Option<u64>,
    pub(crate) artifact_path: Option<String>,
    pub(crate) fetched_time_iso: Option<String>,
}

/// One bound that holds in a sandbox.
#[derive(JsonSchema)]
#[schemars(rename = "Bound", extend("additionalProperties" = false))]
pub(crate) struct BoundSchema {
    /// What is bounded.
    pub(crate) what: String,
    /// How much of it there may be, with its unit.
    pub(crate) most: String,
}

/// A text taken apart for drawing: a text, an array of trees, or a node with its attributes.
pub(crate) struct Tree;

impl JsonSchema for Tree {
    fn schema_name() -> Cow<'static, str> {
        "Tree".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A text taken apart for drawing: a text, an array of trees, or a node with its attributes.",
            "type": ["string", "array", "object"],
        })
    }
}
