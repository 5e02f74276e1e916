//! Files that come with a prompt: checked, kept by digest, put into OUT_DIR, described.

use std::path::Path;

use annals_core::block::{ArtifactKind, Blob, Body, FileMeta, SafeDigest, Visibility};
use annals_core::ids::TurnId;
use annals_core::path::PhysicalPath;
use annals_core::turn::opening::AttachedFile;
use annals_store::preflight::{self, AttachmentRefused};

use crate::agent::Agent;
use crate::error::RunError;
use crate::session::Session;

/// A file to go with a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    name: String,
    bytes: Vec<u8>,
}

/// Why a file cannot be attached. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum AttachmentError {
    /// It cannot be read.
    #[error("cannot read the attachment `{path}`: {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why not.
        reason: String,
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

    /// A file of this machine.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, AttachmentError> {
        let path = path.as_ref();
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let bytes = std::fs::read(path).map_err(|error| AttachmentError::Unreadable {
            path: path.display().to_string(),
            reason: error.to_string(),
        })?;
        Ok(Attachment { name, bytes })
    }
}

impl Agent {
    /// Checks all attachments first; only when all pass is any of them kept.
    pub(crate) async fn take_in(
        &self,
        session: &Session,
        turn: &TurnId,
        attachments: Vec<Attachment>,
    ) -> Result<Vec<AttachedFile>, RunError> {
        let mut checked = Vec::with_capacity(attachments.len());
        for attachment in attachments {
            let passed = preflight::check_attachment(&attachment.name, &attachment.bytes)
                .map_err(AttachmentError::Refused)?;
            let path = PhysicalPath::attachment(turn, &passed.name);
            if checked
                .iter()
                .any(|(_, other, _): &(_, PhysicalPath, _)| *other == path)
            {
                return Err(AttachmentError::SameName(attachment.name).into());
            }
            checked.push((attachment, path, passed.mime));
        }
        let mut files = Vec::with_capacity(checked.len());
        for (attachment, path, mime) in checked {
            files.push(self.keep(session, turn, &attachment.bytes, path, &mime).await?);
        }
        Ok(files)
    }

    async fn keep(
        &self,
        session: &Session,
        turn: &TurnId,
        bytes: &[u8],
        path: PhysicalPath,
        mime: &str,
    ) -> Result<AttachedFile, RunError> {
        let failed = |error: String| RunError::Artifact(error);
        let stored = self
            .parts
            .artifacts
            .put(bytes.to_vec())
            .await
            .map_err(|error| failed(error.to_string()))?;
        session
            .cx
            .workspace
            .write(&path, bytes)
            .map_err(|error| failed(error.to_string()))?;
        let mut digest = SafeDigest::new(path.logical(), mime, ArtifactKind::File, Visibility::External);
        digest.size_bytes = Some(bytes.len() as u64);
        let text = mime_is_text(mime)
            .then(|| std::str::from_utf8(bytes).ok())
            .flatten();
        let body = match text {
            Some(text) => Body::Text(text.into()),
            None if mime.starts_with("image/") || mime == "application/pdf" => Body::from(Blob::of(bytes)),
            None => Body::Empty,
        };
        let scope = &self.parts.scope;
        let name = path.rel();
        let file = FileMeta {
            hosted_uri: Some(stored.uri),
            rn: Some(annals_store::resource_name(
                scope,
                session.id(),
                turn,
                name.as_str(),
            )),
            key: Some(stored.key),
            physical_path: Some(path),
            content_digest: Some(stored.blob.digest),
            size_bytes: Some(stored.blob.size_bytes),
            digest: None,
        };
        let summary = text.map(|text| format!("{} lines, {} bytes", text.lines().count(), text.len()));
        Ok(AttachedFile {
            digest,
            body,
            file,
            summary,
        })
    }
}

fn mime_is_text(mime: &str) -> bool {
    mime.starts_with("text/") || matches!(mime, "application/json" | "application/xml" | "application/yaml")
}
