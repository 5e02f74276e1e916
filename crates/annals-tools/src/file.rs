//! A file that a tool has produced, made into an artifact: checked, hosted, counted, shown.
//!
//! Every tool that produces files goes through here, so that they all keep the same promises: an empty file is an
//! error, a small one a warning, a hosted one is in the artifact store and in the sources pool, and whatever a
//! block does not show whole is in the artifact store. It must not decide where a file goes.

use annals_core::block::{
    ArtifactKind, Blob, BlobDigest, Channel, FileMeta, SafeDigest, ShownError, Visibility,
};
use annals_core::code::Code;
use annals_core::limits;
use annals_core::path::{LogicalPath, PhysicalPath};
use annals_core::sources::{SourceRow, SourceType, citation};
use annals_core::tokens;
use annals_core::turn::outcome::{Artifact, Content, Notice};
use annals_core::view::cut;
use annals_store::ArtifactError;

use crate::cx::ToolCx;
use annals_core::content as mime;

/// Tokens of a longer text are not counted: its size says enough, and counting it would take seconds.
const COUNTED_MAX_BYTES: usize = 1_000_000;

/// A file as it lies in OUT_DIR.
#[derive(Clone, Copy, Debug)]
pub struct Produced<'a> {
    /// Where it lies.
    pub path: &'a PhysicalPath,
    /// What it holds.
    pub bytes: &'a [u8],
    /// File or display.
    pub kind: ArtifactKind,
    /// Who may see it. Only external files are hosted.
    pub visibility: Visibility,
    /// Where its content was streamed, if it was.
    pub channel: Option<Channel>,
}

/// How much of a text the content block shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextShown<'t> {
    /// All of it.
    Whole,
    /// Its beginning, then a marker that counts the rest and names its lines.
    UpTo {
        /// Characters.
        chars: usize,
    },
    /// This text in its place, such as the patch that made it.
    Instead(&'t str),
}

/// A produced file, ready for an outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Its metadata and content.
    pub artifact: Artifact,
    /// What went wrong on the way.
    pub notices: Vec<Notice>,
    /// Its row in the sources pool, if it enters.
    pub source: Option<SourceRow>,
    /// Why it is no good, if it is not.
    pub error: Option<ShownError>,
}

impl Produced<'_> {
    /// What it is, by name and content.
    pub fn mime(&self) -> &'static str {
        mime::of(self.path.as_str(), self.bytes)
    }

    /// Checks it, hosts it if it is to be hosted, and says what its blocks carry. `tool` is the name that the
    /// notice of a failed hosting begins with.
    pub async fn record(&self, cx: &ToolCx, tool: &str, shown: TextShown<'_>) -> Recorded {
        let mime = self.mime();
        let mut digest = SafeDigest::new(self.path.logical(), mime, self.kind, self.visibility);
        digest.channel = self.channel;
        digest.size_bytes = Some(self.bytes.len() as u64);
        digest.write_warning = small_warning(mime, self.bytes.len() as u64);
        let text = mime::text(mime, self.bytes);
        digest.sources_used = text.as_deref().map(citation::extract).unwrap_or_default().into();
        let mut file = FileMeta {
            physical_path: Some(self.path.clone()),
            content_digest: Some(BlobDigest::of(self.bytes)),
            size_bytes: Some(self.bytes.len() as u64),
            ..FileMeta::default()
        }
        .measured(self.bytes);
        digest.tokens = text
            .as_deref()
            .filter(|text| text.len() <= COUNTED_MAX_BYTES)
            .map(tokens::count);
        // Before any block names their digest.
        let kept = cx.artifacts().put(self.bytes.to_vec()).await;
        if self.bytes.is_empty() {
            return empty(digest, file);
        }
        let mut content = content(text.as_deref(), self.bytes, mime, shown, &self.path.logical());
        let is_hosted = self.kind == ArtifactKind::File && self.visibility == Visibility::External;
        let is_shown_whole = matches!(&content, Content::Text(text) if text.as_bytes() == self.bytes);
        let mut notices = Vec::new();
        let mut source = None;
        match kept {
            Ok(stored) if is_hosted => {
                file.hosted_uri = Some(stored.uri);
                file.key = Some(stored.key);
                file.rn = Some(annals_store::resource_name(
                    cx.scope(),
                    cx.conversation(),
                    cx.turn(),
                    self.path.rel().as_str(),
                ));
                source = mime::is_source(mime).then(|| self.source_row(mime));
            }
            Ok(_) => {}
            // The block has all of it.
            Err(_) if is_shown_whole && !is_hosted => {}
            Err(error) => {
                notices.push(hosting_failed(tool, self.path, &error));
                // Nothing may be lost: what the store does not have, the block must.
                content = match (text, content) {
                    (Some(text), _) => Content::Text(text.into()),
                    (None, _) => Content::Bare,
                };
            }
        }
        Recorded {
            artifact: Artifact {
                digest,
                content,
                file,
            },
            notices,
            source,
            error: None,
        }
    }

    fn source_row(&self, mime: &str) -> SourceRow {
        SourceRow {
            size_bytes: Some(self.bytes.len() as u64),
            ..SourceRow::file(SourceType::File, self.path.clone(), mime)
        }
    }
}

/// The artifact of a file that was to be there and is not.
pub fn absent(
    path: &PhysicalPath,
    kind: ArtifactKind,
    visibility: Visibility,
    error: ShownError,
) -> Artifact {
    let mime = mime::by_name(path.as_str()).unwrap_or("application/octet-stream");
    let mut digest = SafeDigest::new(path.logical(), mime, kind, visibility);
    digest.error = Some(Box::new(error));
    Artifact {
        digest,
        content: Content::Absent,
        file: FileMeta::default(),
    }
}

fn empty(mut digest: SafeDigest, file: FileMeta) -> Recorded {
    let message = format!("`{}` is empty: write its content", digest.artifact_path);
    let error = ShownError::new(Code::FileEmpty, message);
    digest.error = Some(Box::new(error.clone()));
    let notice = Notice::new(Code::ToolResultError, error.message.clone())
        .with("error", error.code.clone())
        .with("artifact_path", digest.artifact_path.as_str());
    Recorded {
        artifact: Artifact {
            digest,
            content: Content::Text("".into()),
            file,
        },
        notices: vec![notice],
        source: None,
        error: Some(error),
    }
}

fn content(
    text: Option<&str>,
    bytes: &[u8],
    mime: &str,
    shown: TextShown<'_>,
    path: &LogicalPath,
) -> Content {
    match (text, shown) {
        (Some(text), TextShown::UpTo { chars }) => Content::Text(cut::cut(text, chars, Some(path)).into()),
        (Some(_), TextShown::Instead(other)) => Content::Text(other.into()),
        (Some(text), _) => Content::Text(text.into()),
        (None, _) if mime::is_media(mime) => Content::Blob(Blob::of(bytes)),
        (None, _) => Content::Bare,
    }
}

fn small_warning(mime: &str, size_bytes: u64) -> Option<String> {
    let least = if mime::is_text(mime) {
        limits::WRITE_SMALL_TEXT_BYTES
    } else {
        limits::WRITE_SMALL_BINARY_BYTES
    };
    (size_bytes > 0 && size_bytes < least)
        .then(|| format!("unusually small: {size_bytes} bytes; check that this is all of it"))
}

/// Why the store failed, without the place on the host where it did.
fn hosting_failed(tool: &str, path: &PhysicalPath, error: &ArtifactError) -> Notice {
    let reason = match error {
        ArtifactError::DiskFull { .. } => "the artifact store is full",
        ArtifactError::ReadOnly { .. } => "the artifact store is read-only",
        _ => "the artifact store failed",
    };
    let message = format!(
        "`{}` is written, but could not be hosted: {reason}",
        path.logical()
    );
    Notice::new(format!("{tool}.hosting_failed"), message).with("artifact_path", path.logical().as_str())
}
