//! What a logical path names, whole: whatever the block shows of it, hidden or not, on disk or not.
//!
//! One rule for everybody who reads: react.read, `ref:` parameters, executed code, the command line. The block's
//! text is the content unless the block names other bytes by digest; then those are. It must not change the
//! timeline.

use std::sync::PoisonError;

use annals_core::block::{Blob, BlobDigest, Block, BlockKind, Body};
use annals_core::ids::{SkillName, TurnId};
use annals_core::path::{CallPart, LogicalPath, PathKind, PhysicalPath, SidSet};
use annals_core::sources::SourceRow;
use annals_core::timeline::Timeline;
use annals_store::ArtifactError;

use crate::cx::ConversationCx;
use crate::{disk, mime};

/// The whole of something, with what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whole {
    /// What the bytes are.
    pub mime: String,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl Whole {
    /// As text; nothing when it is none. Hosts give their texts types that nobody else knows, so the bytes decide.
    pub fn text(&self) -> Option<&str> {
        if mime::is_media(&self.mime) || self.bytes.contains(&0) {
            return None;
        }
        std::str::from_utf8(&self.bytes).ok()
    }
}

/// Why a path gives no content.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// Nothing has this path.
    #[error("nothing is at `{0}`")]
    Missing(LogicalPath),
    /// The bytes are known, but could not be fetched.
    #[error("the content of `{path}` could not be fetched: {reason}")]
    Unavailable {
        /// The path.
        path: LogicalPath,
        /// What the store or the disk said.
        reason: String,
    },
}

/// What the timeline knows of a path's latest content.
struct Known {
    mime: String,
    text: Option<Vec<u8>>,
    digest: Option<BlobDigest>,
}

/// The whole content of what `path` names. Files of the `running` turn are what lies on disk, because its code
/// may have changed them; files of earlier turns are what their blocks say.
///
/// A `so:` path gives its rows as JSON, an `sk:` path the skill's body.
pub async fn whole(
    cx: &ConversationCx,
    path: &LogicalPath,
    running: Option<&TurnId>,
) -> Result<Whole, ContentError> {
    match path.kind() {
        PathKind::Sources(sids) => return rows(cx, path, &sids),
        PathKind::Skill { name } => return skill(cx, path, name),
        _ => {}
    }
    let known = known(cx, path);
    let Some(physical) = path.physical() else {
        let known = known.ok_or_else(|| ContentError::Missing(path.clone()))?;
        return from_timeline(cx, path, &known).await;
    };
    let is_running = running.is_some_and(|turn| turn.as_str() == physical.turn());
    match known {
        Some(known) if !is_running => match from_timeline(cx, path, &known).await {
            Ok(whole) => Ok(whole),
            // The store may be away while the file is still here.
            Err(error) => on_disk(cx, &physical).await.ok_or(error),
        },
        Some(known) => match on_disk(cx, &physical).await {
            Some(whole) => Ok(whole),
            None => from_timeline(cx, path, &known).await,
        },
        None => on_disk(cx, &physical)
            .await
            .ok_or_else(|| ContentError::Missing(path.clone())),
    }
}

fn rows(cx: &ConversationCx, path: &LogicalPath, sids: &SidSet) -> Result<Whole, ContentError> {
    let timeline = cx.timeline.read().unwrap_or_else(PoisonError::into_inner);
    let rows: Vec<&SourceRow> = timeline.pool().rows(sids).collect();
    match serde_json::to_vec(&rows) {
        Ok(bytes) if !rows.is_empty() => Ok(Whole {
            mime: "application/json".to_owned(),
            bytes,
        }),
        _ => Err(ContentError::Missing(path.clone())),
    }
}

fn skill(cx: &ConversationCx, path: &LogicalPath, name: &str) -> Result<Whole, ContentError> {
    let skill = SkillName::parse(name).ok().and_then(|name| cx.skills.get(&name));
    match skill {
        Some(skill) => Ok(Whole {
            mime: "text/markdown".to_owned(),
            bytes: skill.body.into_bytes(),
        }),
        None => Err(ContentError::Missing(path.clone())),
    }
}

fn known(cx: &ConversationCx, path: &LogicalPath) -> Option<Known> {
    let timeline = cx.timeline.read().unwrap_or_else(PoisonError::into_inner);
    if let PathKind::Call { part, .. } = path.kind()
        && let Some(text) = joined(&timeline, path, part)
    {
        return Some(Known {
            mime: "application/json".to_owned(),
            text: Some(text.into_bytes()),
            digest: None,
        });
    }
    let block = timeline.latest(path)?;
    let named = block.meta().file.as_ref().and_then(|file| file.content_digest);
    let (text, digest) = match &block.body {
        Body::Text(text) => (Some(text.as_bytes().to_vec()), named),
        Body::Blob(blob) => (None, Some(named.unwrap_or(blob.digest))),
        Body::Empty => (None, named),
    };
    Some(Known {
        mime: block.mime.to_string(),
        text,
        digest,
    })
}

/// What several blocks at one path say together, a line each: the notices of a call, or the metadata that is all
/// the result a write has.
fn joined(timeline: &Timeline, path: &LogicalPath, part: CallPart) -> Option<String> {
    let is_part = |block: &Block| match part {
        CallPart::Call => false,
        CallPart::Notice => block.kind == BlockKind::Notice,
        CallPart::Result => block.kind == BlockKind::ToolResult && block.meta().is_digest,
    };
    if part == CallPart::Result && timeline.latest(path).is_some() {
        return None;
    }
    let turn = timeline.turn(&path.turn_id()?)?;
    let blocks = timeline.turn_blocks(turn).iter();
    let texts: Vec<&str> = blocks
        .filter(|block| block.path.as_ref() == Some(path) && is_part(block))
        .filter_map(|block| block.text())
        .collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

async fn from_timeline(
    cx: &ConversationCx,
    path: &LogicalPath,
    known: &Known,
) -> Result<Whole, ContentError> {
    let whole = |bytes: Vec<u8>| Whole {
        mime: known.mime.clone(),
        bytes,
    };
    let Some(digest) = known.digest else {
        // A header has no body; its content is empty.
        return Ok(whole(known.text.clone().unwrap_or_default()));
    };
    if let Some(text) = known.text.as_ref().filter(|text| BlobDigest::of(text) == digest) {
        return Ok(whole(text.clone()));
    }
    cx.artifacts
        .get(&digest)
        .await
        .map(|bytes| whole(bytes.to_vec()))
        .map_err(|error| ContentError::Unavailable {
            path: path.clone(),
            reason: unavailable(&error).to_owned(),
        })
}

async fn on_disk(cx: &ConversationCx, path: &PhysicalPath) -> Option<Whole> {
    let bytes = disk::read(&cx.workspace, path).await.ok()?;
    Some(Whole {
        mime: mime::of(path.as_str(), &bytes).to_owned(),
        bytes,
    })
}

/// Makes sure that a file lies where code looks for it, with this content.
pub async fn rehost(cx: &ConversationCx, path: &PhysicalPath, content: &Whole) -> Result<(), ContentError> {
    let same = match disk::read(&cx.workspace, path).await {
        Ok(bytes) => Blob::of(&bytes) == Blob::of(&content.bytes),
        Err(_) => false,
    };
    if same {
        return Ok(());
    }
    disk::write(&cx.workspace, path, content.bytes.clone())
        .await
        .map_err(|error| ContentError::Unavailable {
            path: path.logical(),
            reason: error.to_string(),
        })
}

/// Why the store failed, without the place on the host where it did.
fn unavailable(error: &ArtifactError) -> &'static str {
    match error {
        ArtifactError::Missing { .. } => "its bytes are not in the artifact store",
        ArtifactError::Corrupt { .. } => "its bytes in the artifact store are damaged",
        _ => "the artifact store failed",
    }
}
