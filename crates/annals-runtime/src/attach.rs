//! Files that come with a prompt: checked, kept by digest, put into OUT_DIR, described.

use std::fs::{FileType, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use annals_content::{Content, ContentError};
use annals_core::block::{ArtifactKind, Blob, Body, FileMeta, SafeDigest, Visibility};
use annals_core::content;
use annals_core::ids::TurnId;
use annals_core::limits;
use annals_core::path::PhysicalPath;
use annals_core::turn::opening::AttachedFile;
use annals_store::preflight::{AttachmentRefused, Checked, Described};
use annals_tools::ConversationCx;

use crate::agent::Agent;
use crate::error::RunError;

/// A file to go with a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    name: String,
    bytes: Vec<u8>,
}

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
            bytes: bytes.into(),
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
        let mut bytes = Vec::with_capacity(usize::try_from(found.len()).unwrap_or(0));
        // It may grow while it is read, and files of the kernel say that they are empty.
        file.take(limits::ATTACHMENT_MAX_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(unreadable)?;
        if bytes.len() as u64 > limits::ATTACHMENT_MAX_BYTES {
            return Err(too_large(bytes.len() as u64).into());
        }
        Ok(Attachment { name, bytes })
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
    /// Its name and its bytes.
    pub(crate) fn into_parts(self) -> (String, Vec<u8>) {
        (self.name, self.bytes)
    }
}

impl Agent {
    /// Whether all of these may come with a prompt; asked before anything is made for them.
    pub async fn check_attachments(&self, attachments: &[Attachment]) -> Result<(), AttachmentError> {
        let mut names = Vec::with_capacity(attachments.len());
        for attachment in attachments {
            let passed = check(&self.parts.content, attachment).await?;
            if names.contains(&passed.name) {
                return Err(AttachmentError::SameName(attachment.name.clone()));
            }
            names.push(passed.name);
        }
        Ok(())
    }
}

/// What has to be parsed for it is parsed in a helper process.
async fn check(content: &Content, attachment: &Attachment) -> Result<Checked, AttachmentError> {
    let checked = content
        .check_attachment(&attachment.name, &attachment.bytes)
        .await;
    let unchecked = |error| AttachmentError::Unchecked {
        name: attachment.name.clone(),
        error,
    };
    Ok(checked.map_err(unchecked)??)
}

/// Checks all attachments first; only when all pass is any of them kept.
pub(crate) async fn take_in(
    content: &Content,
    cx: &ConversationCx,
    turn: &TurnId,
    attachments: Vec<Attachment>,
) -> Result<Vec<AttachedFile>, RunError> {
    let mut checked = Vec::with_capacity(attachments.len());
    for attachment in attachments {
        let passed = check(content, &attachment).await?;
        let path = PhysicalPath::attachment(turn, &passed.name);
        if checked
            .iter()
            .any(|(_, other, _): &(_, PhysicalPath, _)| *other == path)
        {
            return Err(AttachmentError::SameName(attachment.name).into());
        }
        checked.push((attachment, path, passed));
    }
    let mut files = Vec::with_capacity(checked.len());
    for (attachment, path, passed) in checked {
        let described = describe(content, &attachment, &passed).await;
        let file = keep(cx, turn, &attachment.bytes, path, &passed.mime).await?;
        files.push(AttachedFile {
            summary: described.summary,
            text: described.text,
            ..file
        });
    }
    Ok(files)
}

/// What is in it; less than could be known when its helper was killed over it, because it may come in all the same.
async fn describe(content: &Content, attachment: &Attachment, checked: &Checked) -> Described {
    match content.describe_attachment(checked, &attachment.bytes).await {
        Ok(described) => described,
        Err(error) => {
            tracing::warn!("the attachment `{}` is not described: {error}", attachment.name);
            Described::default()
        }
    }
}

async fn keep(
    cx: &ConversationCx,
    turn: &TurnId,
    bytes: &[u8],
    path: PhysicalPath,
    mime: &str,
) -> Result<AttachedFile, RunError> {
    let failed = |error: String| RunError::Artifact(error);
    let stored = cx
        .artifacts
        .put(bytes.to_vec())
        .await
        .map_err(|error| failed(error.to_string()))?;
    cx.workspace
        .write(&path, bytes)
        .map_err(|error| failed(error.to_string()))?;
    let mut digest = SafeDigest::new(path.logical(), mime, ArtifactKind::File, Visibility::External);
    digest.size_bytes = Some(bytes.len() as u64);
    let text = content::is_text(mime)
        .then(|| std::str::from_utf8(bytes).ok())
        .flatten();
    let body = match text {
        Some(text) => Body::Text(text.into()),
        None if content::is_media(mime) => Body::from(Blob::of(bytes)),
        None => Body::Empty,
    };
    let scope = &cx.scope;
    let name = path.rel();
    let file = FileMeta {
        hosted_uri: Some(stored.uri),
        rn: Some(annals_store::resource_name(
            scope,
            &cx.conversation,
            turn,
            name.as_str(),
        )),
        key: Some(stored.key),
        physical_path: Some(path),
        content_digest: Some(stored.blob.digest),
        size_bytes: Some(stored.blob.size_bytes),
        ..FileMeta::default()
    }
    .measured(bytes);
    Ok(AttachedFile {
        digest,
        body,
        file,
        summary: None,
        text: None,
    })
}
