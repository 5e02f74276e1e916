//! The safe digest: what a model may know of an artifact.
//!
//! It never holds `hosted_uri`, `rn`, `key`, an absolute host path or `managed`: those fields do not exist here.

use serde::{Deserialize, Serialize};
use thin_vec::ThinVec;

use super::Mime;
use super::word::{self, word};
use crate::ids::{CallId, Sid};
use crate::path::{LogicalPath, PhysicalPath};

/// Whether an artifact is a file to keep or content to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArtifactKind {
    /// A file that people can download; hosted when external.
    File,
    /// Content shown in place.
    Display,
}

impl ArtifactKind {
    /// The kind as digests spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            ArtifactKind::File => "file",
            ArtifactKind::Display => "display",
        }
    }
}

/// Who may see an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Visibility {
    /// People and models.
    External,
    /// Models only.
    Internal,
}

impl Visibility {
    /// The visibility as digests spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Visibility::External => "external",
            Visibility::Internal => "internal",
        }
    }
}

/// Where streamed content appears.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// A document pane.
    Canvas,
    /// The conversation itself.
    TimelineText,
    /// Notes between agents, never shown to people.
    Internal,
}

impl Channel {
    /// The channel's name as tools and deltas spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Channel::Canvas => "canvas",
            Channel::TimelineText => "timeline_text",
            Channel::Internal => "internal",
        }
    }
}

/// An error as models may see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownError {
    /// A stable word for programs and models.
    pub code: String,
    /// One sentence that says what to do next.
    pub message: String,
    /// Which tool or place it came from.
    #[serde(rename = "where", default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Further facts, such as expected and actual lines of a patch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<serde_json::Value>>,
}

impl ShownError {
    /// An error with this code and message.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        ShownError {
            code: code.into(),
            message: message.into(),
            place: None,
            details: None,
        }
    }

    /// With these details.
    pub fn details(mut self, details: serde_json::Value) -> Self {
        self.details = Some(Box::new(details));
        self
    }
}

/// Metadata of one version of an artifact, safe to show to a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SafeDigest {
    /// The logical path that names the artifact.
    pub artifact_path: LogicalPath,
    /// Where it lies below OUT_DIR, if it is a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub physical_path: Option<PhysicalPath>,
    /// MIME type of the content.
    #[serde(deserialize_with = "word::deserialize")]
    pub mime: Mime,
    /// File or display.
    pub kind: ArtifactKind,
    /// Who may see it.
    pub visibility: Visibility,
    /// Where it was streamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<Channel>,
    /// The call that made it; absent for attachments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<CallId>,
    /// Size of the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Tokens of the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u32>,
    /// Sources that the content cites.
    #[serde(default, skip_serializing_if = "ThinVec::is_empty")]
    pub sources_used: ThinVec<Sid>,
    /// True when an earlier version exists.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
    /// Something odd about the written file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_warning: Option<String>,
    /// Why there is no content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<ShownError>>,
}

impl SafeDigest {
    /// A digest with only the required facts.
    pub fn new(path: LogicalPath, mime: &str, kind: ArtifactKind, visibility: Visibility) -> Self {
        SafeDigest {
            physical_path: path.physical(),
            artifact_path: path,
            mime: word(mime),
            kind,
            visibility,
            channel: None,
            tool_call_id: None,
            size_bytes: None,
            tokens: None,
            sources_used: ThinVec::new(),
            edited: false,
            write_warning: None,
            error: None,
        }
    }
}
