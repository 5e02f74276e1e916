//! Files that come with a prompt: checked, kept by digest, put into OUT_DIR, described.

use std::fs::{File, FileType, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use annals_content::{Content, ContentError, Source};
use annals_core::block::{ArtifactKind, Blob, Body, FileMeta, SafeDigest, Visibility};
use annals_core::content;
use annals_core::ids::TurnId;
use annals_core::limits;
use annals_core::path::PhysicalPath;
use annals_core::turn::opening::AttachedFile;
use annals_store::preflight::{AttachmentRefused, Checked, Described};
use annals_store::{ArtifactError, ArtifactStore, Stored};
use annals_tools::ConversationCx;
use futures::TryStreamExt as _;

use crate::agent::Agent;
use crate::error::RunError;

/// A file to go with a prompt.
#[derive(Clone, Debug)]
pub struct Attachment {
    name: String,
    held: Held,
}

/// Where its bytes are. Large ones stay where they are and are read piece by piece.
#[derive(Clone, Debug)]
enum Held {
    Bytes(Arc<[u8]>),
    File { file: Arc<File>, size_bytes: u64 },
    Stored(Blob),
}

/// A file up to this is read when it is named; a later change of it has no effect.
const READ_AT_ONCE_BYTES: u64 = 1 << 20;

/// Why a file cannot be attached. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachmentError {
    /// It cannot be read.
    #[error("cannot read the attachment `{path}`: {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why not.
        reason: String,
    },
    /// A device or a pipe may have no end, and a folder has no bytes.
    #[error("cannot attach `{path}`: it is {kind}; only a regular file can be attached")]
    NotAFile {
        /// What was named.
        path: String,
        /// What it is.
        kind: &'static str,
    },
    /// It could not be checked within the limits.
    #[error("attachment `{name}` cannot be taken in: {error}")]
    Unchecked {
        /// Its name.
        name: String,
        /// Which limit it met.
        error: ContentError,
    },
    /// It did not pass the checks.
    #[error(transparent)]
    Refused(#[from] AttachmentRefused),
    /// Two files have one name.
    #[error("two attachments are called `{0}`: rename one")]
    SameName(String),
}

impl Attachment {
    /// A file of this name with these bytes.
    pub fn new(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Attachment {
            name: name.into(),
            held: Held::Bytes(bytes.into().into()),
        }
    }

    /// A file of this name whose bytes the agent's artifact store keeps already.
    pub fn stored(name: impl Into<String>, blob: Blob) -> Self {
        Attachment {
            name: name.into(),
            held: Held::Stored(blob),
        }
    }

    /// A file of this machine. Only a regular one, and never more of it than an attachment may have.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, AttachmentError> {
        let path = path.as_ref();
        let unreadable = |error: std::io::Error| AttachmentError::Unreadable {
            path: path.display().to_string(),
            reason: error.to_string(),
        };
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        // Opening a pipe that nobody writes to would wait for ever.
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path);
        let file = match opened {
            Ok(file) => file,
            // A socket cannot even be opened.
            Err(error) => return Err(special(path).unwrap_or_else(|| unreadable(error))),
        };
        let found = file.metadata().map_err(unreadable)?;
        if !found.is_file() {
            return Err(not_a_file(path, found.file_type()));
        }
        let too_large = |size_bytes| AttachmentRefused::TooLarge {
            name: name.clone(),
            size_bytes,
            max_bytes: limits::ATTACHMENT_MAX_BYTES,
        };
        if found.len() > limits::ATTACHMENT_MAX_BYTES {
            return Err(too_large(found.len()).into());
        }
        if found.len() > READ_AT_ONCE_BYTES {
            let held = Held::File {
                file: Arc::new(file),
                size_bytes: found.len(),
            };
            return Ok(Attachment { name, held });
        }
        let mut bytes = Vec::new();
        // It may grow while it is read, and files of the kernel say that they are empty.
        file.take(limits::ATTACHMENT_MAX_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(unreadable)?;
        if bytes.len() as u64 > limits::ATTACHMENT_MAX_BYTES {
            return Err(too_large(bytes.len() as u64).into());
        }
        Ok(Attachment::new(name, bytes))
    }
}

/// The error for what can be seen but not opened.
fn special(path: &Path) -> Option<AttachmentError> {
    let found = path.metadata().ok()?.file_type();
    (!found.is_file()).then(|| not_a_file(path, found))
}

fn not_a_file(path: &Path, found: FileType) -> AttachmentError {
    let kind = match found {
        kind if kind.is_dir() => "a folder",
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    };
    AttachmentError::NotAFile {
        path: path.display().to_string(),
        kind,
    }
}

impl Attachment {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn source<'a>(&'a self, artifacts: &'a ArtifactStore) -> Source<'a> {
        match &self.held {
            Held::Bytes(bytes) => Source::Bytes(bytes),
            Held::File { file, size_bytes } => Source::File {
                file,
                size_bytes: *size_bytes,
            },
            Held::Stored(blob) => Source::Stored {
                artifacts,
                blob: *blob,
            },
        }
    }

    /// Keeps its bytes by their digest, if they are not kept yet.
    pub(crate) async fn store(&self, artifacts: &ArtifactStore) -> Result<Stored, RunError> {
        let failed = |error: ArtifactError| RunError::Artifact(error.to_string());
        match &self.held {
            Held::Bytes(bytes) => artifacts.put(bytes.to_vec()).await.map_err(failed),
            Held::Stored(blob) => Ok(artifacts.locate(*blob)),
            Held::File { .. } => {
                let mut draft = artifacts.draft().await.map_err(failed)?;
                let mut pieces = self.source(artifacts).pieces();
                while let Some(piece) = pieces.try_next().await.map_err(|error| self.unreadable(&error))? {
                    draft.write(&piece).await.map_err(failed)?;
                }
                draft.keep().await.map_err(failed)
            }
        }
    }

    fn unreadable(&self, error: &std::io::Error) -> AttachmentError {
        AttachmentError::Unreadable {
            path: self.name.clone(),
            reason: error.to_string(),
        }
    }
}

impl Agent {
    /// Whether all of these may come with a prompt; asked before anything is made for them.
    pub async fn check_attachments(&self, attachments: &[Attachment]) -> Result<(), AttachmentError> {
        let mut names = Vec::with_capacity(attachments.len());
        for attachment in attachments {
            let passed = check(&self.parts.content, self.parts.artifacts(), attachment).await?;
            if names.contains(&passed.name) {
                return Err(AttachmentError::SameName(attachment.name.clone()));
            }
            names.push(passed.name);
        }
        Ok(())
    }
}

/// What has to be parsed for it is parsed in a helper process.
async fn check(
    content: &Content,
    artifacts: &ArtifactStore,
    attachment: &Attachment,
) -> Result<Checked, AttachmentError> {
    let checked = content
        .check_attachment(&attachment.name, attachment.source(artifacts))
        .await;
    let unchecked = |error| AttachmentError::Unchecked {
        name: attachment.name.clone(),
        error,
    };
    Ok(checked.map_err(unchecked)??)
}

/// Checks all attachments first; only when all pass does the conversation get any of them. What is checked is what was
/// kept, so that a file which changes meanwhile is not taken in unchecked.
pub(crate) async fn take_in(
    content: &Content,
    cx: &ConversationCx,
    turn: &TurnId,
    attachments: Vec<Attachment>,
) -> Result<Vec<AttachedFile>, RunError> {
    let mut checked = Vec::with_capacity(attachments.len());
    for attachment in attachments {
        let stored = attachment.store(&cx.artifacts).await?;
        let attachment = match attachment.held {
            Held::File { .. } => Attachment::stored(attachment.name, stored.blob),
            _ => attachment,
        };
        let passed = check(content, &cx.artifacts, &attachment).await?;
        let path = PhysicalPath::attachment(turn, &passed.name);
        if checked
            .iter()
            .any(|(_, _, other, _): &(_, _, PhysicalPath, _)| *other == path)
        {
            return Err(AttachmentError::SameName(attachment.name).into());
        }
        checked.push((attachment, stored, path, passed));
    }
    let mut files = Vec::with_capacity(checked.len());
    for (attachment, stored, path, passed) in checked {
        let described = describe(content, &cx.artifacts, &attachment, &passed).await;
        files.push(put_in_place(cx, turn, stored, path, &passed, described).await?);
    }
    Ok(files)
}

/// What is in it; less than could be known when its helper was killed over it, because it may come in all the same.
async fn describe(
    content: &Content,
    artifacts: &ArtifactStore,
    attachment: &Attachment,
    checked: &Checked,
) -> Described {
    let source = attachment.source(artifacts);
    match content.describe_attachment(checked, source).await {
        Ok(described) => described,
        Err(error) => {
            tracing::warn!("the attachment `{}` is not described: {error}", attachment.name);
            Described::default()
        }
    }
}

/// Puts a file that is kept into OUT_DIR, and says what the timeline is to know of it.
async fn put_in_place(
    cx: &ConversationCx,
    turn: &TurnId,
    stored: Stored,
    path: PhysicalPath,
    checked: &Checked,
    described: Described,
) -> Result<AttachedFile, RunError> {
    let failed = |error: String| RunError::Artifact(error);
    let blob = stored.blob;
    cx.workspace
        .materialise(&path, &blob.digest, &cx.artifacts)
        .await
        .map_err(|error| failed(error.to_string()))?;
    let mime = checked.mime.as_str();
    let mut digest = SafeDigest::new(path.logical(), mime, ArtifactKind::File, Visibility::External);
    digest.size_bytes = Some(blob.size_bytes);
    // A text is in its block, so it is read; its bound is a smaller one.
    let text = match content::is_text(mime) {
        true => {
            let bytes = cx.artifacts.get(&blob.digest).await;
            let bytes = bytes.map_err(|error| failed(error.to_string()))?;
            std::str::from_utf8(&bytes)
                .ok()
                .map(|text| Body::Text(text.into()))
        }
        false => None,
    };
    let body = match text {
        Some(text) => text,
        None if content::is_media(mime) => Body::from(blob),
        None => Body::Empty,
    };
    let name = path.rel();
    let file = FileMeta {
        hosted_uri: Some(stored.uri),
        rn: Some(annals_store::resource_name(
            &cx.scope,
            &cx.conversation,
            turn,
            name.as_str(),
        )),
        key: Some(stored.key),
        physical_path: Some(path),
        content_digest: Some(blob.digest),
        size_bytes: Some(blob.size_bytes),
        pixels: described.pixels,
        pages: checked.pages,
        ..FileMeta::default()
    };
    Ok(AttachedFile {
        digest,
        body,
        file,
        summary: described.summary,
        text: described.text,
    })
}
