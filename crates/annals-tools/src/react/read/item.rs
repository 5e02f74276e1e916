//! One thing to show, and what its blocks carry.

use annals_core::block::{Blob, BlobDigest, FileMeta, SafeDigest, word};
use annals_core::limits;
use annals_core::path::{LineRange, LogicalPath};
use annals_core::tokens::{self, MediaRule};
use annals_core::turn::outcome::{Artifact, Content};
use annals_core::view::cut;

use crate::content::Whole;
use crate::cx::ToolCx;
use annals_core::content as mime;

/// What a path names, whole, with what is already known of it.
pub(super) struct Item {
    pub(super) path: LogicalPath,
    pub(super) lines: Option<LineRange>,
    pub(super) digest: SafeDigest,
    pub(super) file: FileMeta,
    pub(super) whole: Whole,
}

impl Item {
    /// Its metadata and the part of its content that is shown. Whatever is not shown whole is in the artifact
    /// store, because the block that shows it becomes the latest one of its path.
    pub(super) async fn artifact(self, cx: &ToolCx) -> Result<Artifact, String> {
        let Item {
            path,
            lines,
            mut digest,
            mut file,
            whole,
        } = self;
        let blob = Blob::of(&whole.bytes);
        digest.size_bytes = Some(blob.size_bytes);
        digest.mime = word(&whole.mime);
        digest.tokens = None;
        let shown = match whole.text() {
            Some(text) => Some((
                text,
                cut::excerpt(text, &path, lines, limits::READ_TEXT_MAX_CHARS)?,
            )),
            None if lines.is_some() => return Err(format!("it is {}: only text has lines", whole.mime)),
            None => None,
        };
        // Before any block names their digest.
        let is_kept = cx.artifacts().put(whole.bytes.clone()).await.is_ok();
        let content = match shown {
            // Better too long than lost.
            Some((text, _)) if !is_kept => Content::Text(text.into()),
            Some((_, shown)) => Content::Text(shown.into()),
            None if is_kept && mime::is_media(&whole.mime) => Content::Blob(blob),
            None => Content::Bare,
        };
        file = file.measured(&whole.bytes);
        file.content_digest = (is_kept || whole.text().is_some()).then_some(blob.digest);
        file.size_bytes = Some(blob.size_bytes);
        Ok(Artifact {
            digest,
            content,
            file,
        })
    }
}

/// Whether the model sees the same content at the same path already.
pub(super) fn is_visible(cx: &ToolCx, artifact: &Artifact) -> bool {
    let path = &artifact.digest.artifact_path;
    cx.timeline(|timeline| {
        timeline
            .versions(path)
            .filter(|block| timeline.is_visible(block))
            .any(|block| match &artifact.content {
                Content::Text(text) | Content::Citing(text) => block.text() == Some(text),
                Content::Blob(blob) => block.blob().map(|shown| shown.digest) == Some(blob.digest),
                Content::Bare | Content::Absent => named(block) == artifact.file.content_digest,
            })
    })
}

fn named(block: &annals_core::block::Block) -> Option<BlobDigest> {
    block.meta().file.as_ref().and_then(|file| file.content_digest)
}

/// What showing it costs.
pub(super) fn tokens(artifact: &Artifact) -> u32 {
    match &artifact.content {
        Content::Text(text) | Content::Citing(text) => tokens::count(text),
        Content::Blob(blob) => MediaRule::default().tokens(
            &artifact.digest.mime,
            blob.size_bytes,
            artifact.file.pixels,
            artifact.file.pages,
        ),
        Content::Bare | Content::Absent => 0,
    }
}
