//! One moment from all sides: the call at it, and files, sources, plan and sandbox as of it.

use std::collections::BTreeMap;

use annals_core::block::payload::CallText;
use annals_core::block::{BlobDigest, Block, BlockJson, BlockKind};
use annals_core::ids::Seq;
use annals_core::sources::SourceRow;
use annals_core::time::Timestamp;
use annals_core::view::View;
use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::facts::{self, SandboxFacts};
use super::views::{At, Looked};
use crate::app::App;
use crate::door::Caller;
use crate::problem::Problem;
use crate::request::{Params, Place};
use crate::schemas::{BlockSchema, SourceSchema};

/// A parameter that the call's block shows cut is put back unless it is longer.
const ARGUMENT_MAX_BYTES: u64 = 256 * 1024;

/// One moment.
#[derive(Serialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub(crate) struct Moment {
    #[schemars(with = "u64")]
    at: Seq,
    call: Option<Call>,
    files: Vec<File>,
    sources: Vec<Source>,
    plan: Option<Value>,
    sandbox: SandboxFacts,
}

/// The call that the block belongs to, with everything that came of it.
#[derive(Serialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
struct Call {
    call_id: String,
    tool: String,
    arguments: Value,
    #[schemars(with = "Vec<BlockSchema>")]
    blocks: Vec<BlockJson>,
}

/// A file, oldest version first.
#[derive(Serialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
struct File {
    path: String,
    mime: String,
    versions: Vec<Version>,
}

/// A version of a file.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FileVersion", extend("additionalProperties" = false))]
struct Version {
    #[schemars(with = "u64")]
    seq: Seq,
    #[schemars(with = "Option<String>")]
    digest: Option<BlobDigest>,
    mime: String,
    size_bytes: u64,
    turn_id: String,
    #[schemars(with = "String")]
    ts: Timestamp,
}

/// A source, and the blocks that cite it.
#[derive(Serialize, JsonSchema)]
struct Source {
    #[serde(flatten)]
    #[schemars(with = "SourceSchema")]
    row: SourceRow,
    #[schemars(with = "Vec<u64>")]
    cited: Vec<Seq>,
}

pub(crate) async fn moment(
    State(app): State<App>,
    caller: Caller,
    place: Place,
    Params(query): Params<At>,
) -> Result<Json<Moment>, Problem> {
    let looked = Looked::of(&app, &caller, &place).await?;
    let at = looked.moment(query.at)?;
    let call = call_at(&looked, at).await;
    let sandbox = facts::of(&looked, at).await;
    let view = looked.at(at);
    Ok(Json(Moment {
        at,
        call,
        files: files(&view),
        sources: sources(&view),
        plan: plan(&view),
        sandbox,
    }))
}

async fn call_at(looked: &Looked, at: Seq) -> Option<Call> {
    let view = &looked.whole;
    let block = view.block(at)?;
    let id = block.meta().call.as_ref().or_else(|| next_call(view, block))?;
    let written = view.call_block(id)?;
    let said = CallText::parse(written.text()?)?;
    let turn = view.turn(&block.turn)?;
    let of_call = view
        .turn_blocks(turn)
        .iter()
        .filter(|block| block.meta().call.as_ref() == Some(id));
    Some(Call {
        call_id: id.to_string(),
        tool: said.tool_id.to_string(),
        arguments: whole_arguments(looked, written, said.params.get()).await,
        blocks: of_call.map(|block| BlockJson::from(&**block)).collect(),
    })
}

/// Notes belong to the call that they announce.
fn next_call<'a>(view: &'a View, notes: &Block) -> Option<&'a annals_core::ids::CallId> {
    if notes.kind != BlockKind::Notes {
        return None;
    }
    let turn = view.turn(&notes.turn)?;
    let mut after = view
        .turn_blocks(turn)
        .iter()
        .filter(|block| block.seq > notes.seq);
    let next = after.find(|block| block.kind == BlockKind::ToolCall)?;
    next.meta()
        .call
        .as_ref()
        .filter(|_| next.meta().step == notes.meta().step)
}

/// The arguments, with parameters that the block shows cut put back.
pub(super) async fn whole_arguments(looked: &Looked, written: &Block, params: &str) -> Value {
    let mut arguments: Value = match serde_json::from_str(params) {
        Ok(value) => value,
        Err(_) => return Value::String(params.to_owned()),
    };
    let Some(named) = arguments.as_object_mut() else {
        return arguments;
    };
    for cut in written
        .meta()
        .cut
        .iter()
        .filter(|cut| cut.size_bytes <= ARGUMENT_MAX_BYTES)
    {
        put_back(looked, named, &cut.name, &cut.blob).await;
    }
    arguments
}

async fn put_back(looked: &Looked, named: &mut Map<String, Value>, name: &str, digest: &BlobDigest) {
    let whole = looked.agent.artifacts().get(digest).await;
    let whole = whole
        .ok()
        .and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
    if let (Some(shown), Some(whole)) = (named.get_mut(name), whole) {
        *shown = Value::String(whole);
    }
}

fn files(view: &View) -> Vec<File> {
    let file = |latest: &Block| {
        let path = latest.path.as_ref()?;
        let mut versions: Vec<Version> = Vec::new();
        let mut blocks: Vec<&Block> = view.versions(path).collect();
        blocks.reverse();
        for block in blocks {
            let Some(meta) = &block.meta().file else { continue };
            let digest = meta
                .content_digest
                .or_else(|| block.blob().map(|blob| blob.digest));
            // Reading a file again writes a block, but no version.
            if digest.is_some() && versions.last().is_some_and(|last| last.digest == digest) {
                continue;
            }
            let length = block.text().map_or(0, |text| text.len() as u64);
            versions.push(Version {
                seq: block.seq,
                digest,
                mime: block.mime.to_string(),
                size_bytes: meta
                    .size_bytes
                    .or(block.blob().map(|blob| blob.size_bytes))
                    .unwrap_or(length),
                turn_id: block.turn.to_string(),
                ts: block.ts,
            });
        }
        (!versions.is_empty()).then(|| File {
            path: path.to_string(),
            mime: latest.mime.to_string(),
            versions,
        })
    };
    view.files().filter_map(file).collect()
}

fn sources(view: &View) -> Vec<Source> {
    let mut cited: BTreeMap<u32, Vec<Seq>> = BTreeMap::new();
    for block in view.blocks() {
        for sid in &block.meta().sources_used {
            cited.entry(sid.get()).or_default().push(block.seq);
        }
    }
    let source = |row: &SourceRow| Source {
        row: SourceRow {
            content: None,
            ..row.clone()
        },
        cited: row
            .sid
            .and_then(|sid| cited.get(&sid.get()).cloned())
            .unwrap_or_default(),
    };
    view.pool().iter().map(source).collect()
}

fn plan(view: &View) -> Option<Value> {
    view.plan()?;
    let latest = view
        .blocks()
        .iter()
        .rev()
        .find(|block| block.kind == BlockKind::Plan)?;
    serde_json::from_str(latest.text()?).ok()
}
