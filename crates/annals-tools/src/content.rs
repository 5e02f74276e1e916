//! What a logical path names, whole: whatever the block shows of it, hidden or not, on disk or not.
//!
//! One rule for everybody who reads: react.read, `ref:` parameters, executed code, the command line. The block's
//! text is the content unless the block names other bytes by digest; then those are. It must not change the
//! timeline.

use std::fs::File;
use std::sync::PoisonError;

use annals_core::block::{BlobDigest, Block, BlockKind, Body};
use annals_core::content as mime;
use annals_core::ids::{SkillName, TurnId};
use annals_core::limits;
use annals_core::path::{CallPart, LogicalPath, PathKind, PhysicalPath, SidSet};
use annals_core::sources::SourceRow;
use annals_core::timeline::Timeline;
use annals_sandbox::{ByteStream, Failure, FailureKind};
use annals_store::ArtifactError;
use futures::{StreamExt as _, TryStreamExt as _, stream};

use crate::cx::ConversationCx;
use crate::disk;

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

/// Content on its way: as large as it is, and never in memory as a whole.
pub struct Opened {
    /// What the bytes are.
    pub mime: String,
    /// Whether they are text.
    pub is_text: bool,
    /// How many there are.
    pub size_bytes: u64,
    /// What they hash to; not known of a file that lies on disk and may still change.
    pub digest: Option<BlobDigest>,
    /// The bytes.
    pub body: ByteStream,
}

/// Why a path gives no content.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContentError {
    /// Nothing has this path.
    #[error("nothing is at `{0}`")]
    Missing(LogicalPath),
    /// There is more than is taken into memory because a path named it.
    #[error(
        "`{path}` has {size_bytes} bytes, more than the {max_bytes} that are read at once: use code to read a part of it"
    )]
    TooLarge {
        /// The path.
        path: LogicalPath,
        /// How many bytes there are.
        size_bytes: u64,
        /// How many are taken.
        max_bytes: u64,
    },
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

/// Where a path's bytes are.
enum Place {
    Memory {
        mime: String,
        bytes: Vec<u8>,
    },
    Store {
        mime: String,
        digest: BlobDigest,
        size_bytes: u64,
    },
    Disk {
        path: PhysicalPath,
        file: File,
        size_bytes: u64,
    },
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
    let place = place(cx, path, running).await?;
    let is_stored = matches!(place, Place::Store { .. });
    match read(cx, path, place).await {
        // The store may be away, or damaged, while the file is still here.
        Err(error @ ContentError::Unavailable { .. }) if is_stored => match on_disk(cx, path).await {
            Some(place) => read(cx, path, place).await,
            None => Err(error),
        },
        whole => whole,
    }
}

/// The same as a stream, without a bound, for callers that pass the bytes on.
pub async fn open(
    cx: &ConversationCx,
    path: &LogicalPath,
    running: Option<&TurnId>,
) -> Result<Opened, ContentError> {
    let unavailable = |reason: String| ContentError::Unavailable {
        path: path.clone(),
        reason,
    };
    match place(cx, path, running).await? {
        Place::Memory { mime, bytes } => {
            let whole = Whole { mime, bytes };
            Ok(Opened {
                is_text: whole.text().is_some(),
                size_bytes: whole.bytes.len() as u64,
                digest: Some(BlobDigest::of(&whole.bytes)),
                mime: whole.mime,
                body: stream::once(async { Ok(whole.bytes.into()) }).boxed(),
            })
        }
        Place::Store {
            mime,
            digest,
            size_bytes,
        } => Ok(Opened {
            is_text: !mime::is_media(&mime) && disk::is_text(stored(cx, &digest).await).await,
            mime,
            size_bytes,
            body: stored(cx, &digest).await,
            digest: Some(digest),
        }),
        Place::Disk {
            path: physical,
            file,
            size_bytes,
        } => {
            let again = file.try_clone().map_err(|error| unavailable(error.to_string()))?;
            let head = disk::head(&file)
                .await
                .map_err(|error| unavailable(error.to_string()))?;
            let mime = mime::of(physical.as_str(), &head);
            Ok(Opened {
                is_text: !mime::is_media(mime) && disk::is_text(disk::stream(again)).await,
                mime: mime.to_owned(),
                size_bytes,
                digest: None,
                body: disk::stream(file),
            })
        }
    }
}

async fn read(cx: &ConversationCx, path: &LogicalPath, place: Place) -> Result<Whole, ContentError> {
    let max_bytes = limits::READ_MAX_BYTES;
    let too_large = |size_bytes| ContentError::TooLarge {
        path: path.clone(),
        size_bytes,
        max_bytes,
    };
    match place {
        Place::Memory { mime, bytes } => Ok(Whole { mime, bytes }),
        Place::Store { size_bytes, .. } if size_bytes > max_bytes => Err(too_large(size_bytes)),
        Place::Store { mime, digest, .. } => {
            let bytes = cx.artifacts.get(&digest).await;
            bytes
                .map(|bytes| Whole {
                    mime,
                    bytes: bytes.into(),
                })
                .map_err(|error| unavailable(path, &error))
        }
        Place::Disk { size_bytes, .. } if size_bytes > max_bytes => Err(too_large(size_bytes)),
        Place::Disk { path: physical, .. } => {
            let bytes = disk::read(&cx.workspace, &physical).await;
            let bytes = bytes.map_err(|error| ContentError::Unavailable {
                path: path.clone(),
                reason: error.to_string(),
            })?;
            Ok(Whole {
                mime: mime::of(physical.as_str(), &bytes).to_owned(),
                bytes,
            })
        }
    }
}

async fn place(
    cx: &ConversationCx,
    path: &LogicalPath,
    running: Option<&TurnId>,
) -> Result<Place, ContentError> {
    let memory = |whole: Whole| Place::Memory {
        mime: whole.mime,
        bytes: whole.bytes,
    };
    match path.kind() {
        PathKind::Sources(sids) => return rows(cx, path, &sids).map(memory),
        PathKind::Skill { name } => return skill(cx, path, name).map(memory),
        _ => {}
    }
    let known = known(cx, path);
    let is_running = path
        .physical()
        .is_some_and(|physical| running.is_some_and(|turn| turn.as_str() == physical.turn()));
    if (is_running || known.is_none())
        && let Some(place) = on_disk(cx, path).await
    {
        return Ok(place);
    }
    let known = known.ok_or_else(|| ContentError::Missing(path.clone()))?;
    match from_timeline(cx, path, known).await {
        Ok(place) => Ok(place),
        Err(error) => on_disk(cx, path).await.ok_or(error),
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

async fn from_timeline(cx: &ConversationCx, path: &LogicalPath, known: Known) -> Result<Place, ContentError> {
    let Known { mime, text, digest } = known;
    let Some(digest) = digest else {
        // A header has no body; its content is empty.
        return Ok(Place::Memory {
            mime,
            bytes: text.unwrap_or_default(),
        });
    };
    if let Some(bytes) = text.filter(|text| BlobDigest::of(text) == digest) {
        return Ok(Place::Memory { mime, bytes });
    }
    match cx.artifacts.size_bytes(&digest).await {
        Ok(Some(size_bytes)) => Ok(Place::Store {
            mime,
            digest,
            size_bytes,
        }),
        Ok(None) => Err(unavailable(path, &ArtifactError::Missing { digest })),
        Err(error) => Err(unavailable(path, &error)),
    }
}

/// The bytes of a digest; a store that fails is a stream that does.
async fn stored(cx: &ConversationCx, digest: &BlobDigest) -> ByteStream {
    let failed = |error: ArtifactError| Failure::new(FailureKind::OsError, reason(&error));
    match cx.artifacts.stream(digest).await {
        Ok(pieces) => pieces.map_err(failed).boxed(),
        Err(error) => stream::once(async move { Err(failed(error)) }).boxed(),
    }
}

async fn on_disk(cx: &ConversationCx, path: &LogicalPath) -> Option<Place> {
    let path = path.physical()?;
    let (file, size_bytes) = disk::open(&cx.workspace, &path).await.ok()?;
    Some(Place::Disk {
        path,
        file,
        size_bytes,
    })
}

/// Makes sure that a file lies where code looks for it, with this content.
pub async fn rehost(cx: &ConversationCx, path: &PhysicalPath, content: &Whole) -> Result<(), ContentError> {
    // A file of another size is another file; it is not read to find that out.
    let has_its_size = disk::open(&cx.workspace, path)
        .await
        .is_ok_and(|(_, size_bytes)| size_bytes == content.bytes.len() as u64);
    if has_its_size
        && disk::read(&cx.workspace, path)
            .await
            .is_ok_and(|bytes| bytes == content.bytes)
    {
        return Ok(());
    }
    disk::write(&cx.workspace, path, content.bytes.clone())
        .await
        .map_err(|error| ContentError::Unavailable {
            path: path.logical(),
            reason: error.to_string(),
        })
}

fn unavailable(path: &LogicalPath, error: &ArtifactError) -> ContentError {
    ContentError::Unavailable {
        path: path.clone(),
        reason: reason(error).to_owned(),
    }
}

/// Why the store failed, without the place on the host where it did.
fn reason(error: &ArtifactError) -> &'static str {
    match error {
        ArtifactError::Missing { .. } => "its bytes are not in the artifact store",
        ArtifactError::Corrupt { .. } => "its bytes in the artifact store are damaged",
        _ => "the artifact store failed",
    }
}
