//! What a tool hands back: data, from which [`round`](super::round) makes blocks. A tool never writes blocks.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

pub use crate::block::payload::{GateNote, GateRule, HideItem, Notice};
use crate::block::{Blob, FileMeta, NewBlock, SafeDigest, ShownError, WorkspaceChange};
use crate::sources::SourceRow;

/// Everything a finished tool call wants on the timeline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Written before the results.
    pub notices: Vec<Notice>,
    /// What the call itself answered.
    pub output: Output,
    /// Files and displays, each with its metadata, in order.
    pub artifacts: Vec<Artifact>,
    /// A payload after the artifacts: what a patch did to its file.
    pub closing: Option<Payload>,
    /// Rows that enter the sources pool before the results are written.
    pub sources: Vec<SourceRow>,
    /// Files of the working tree that the call wrote or removed, hosted already.
    pub workspace: Vec<WorkspaceChange>,
    /// Why it failed; shown in the status line.
    pub error: Option<ShownError>,
    /// The rules that decided about the call; nothing that a model reads.
    pub gate: Option<Box<GateNote>>,
    /// What a foreign server said of its result beside it; nothing that a model reads.
    pub server_meta: Option<Box<Value>>,
    /// Paths to hide from here on.
    pub hides: Vec<HideItem>,
    /// Further blocks: `react.note`, `react.plan`, `stage.clarification`; written after the results.
    pub beside: Vec<NewBlock>,
}

/// What a call itself answers, beside its artifacts.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Output {
    /// Nothing: the artifacts' metadata blocks are the result (write, rendering).
    #[default]
    Artifacts,
    /// A payload at the call's result path, before any artifacts: plain tools' values, exec reports, read's
    /// status.
    Payload(Payload),
    /// Rows of the sources pool: written after they were merged, so that the SIDs shown are the pool's.
    Sources(SourcesOutput),
}

/// A text that answers a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Payload {
    /// `application/json`, `text/markdown`, …
    pub mime: String,
    /// What the model gets, already within the caps.
    pub text: Arc<str>,
    /// The whole value, when `text` is a cut of it.
    pub whole: Option<Blob>,
}

impl Payload {
    /// JSON.
    pub fn json(value: &impl Serialize) -> Self {
        let text = serde_json::to_string(value).expect("plain data always serialises to JSON");
        Payload {
            mime: "application/json".into(),
            text: text.into(),
            whole: None,
        }
    }

    /// Markdown.
    pub fn markdown(text: impl Into<Arc<str>>) -> Self {
        Payload {
            mime: "text/markdown".into(),
            text: text.into(),
            whole: None,
        }
    }

    /// What a call that failed answers, but for react tools, whose results are described with `error.code`:
    /// `{"ok":false,"error_kind":…,"message":…,"where":…,"detail":…}`, in this order.
    pub fn failure(error: &ShownError) -> Self {
        #[derive(Serialize)]
        struct Failure<'a> {
            ok: bool,
            error_kind: &'a str,
            message: &'a str,
            #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
            place: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            detail: Option<&'a Value>,
        }
        Payload::json(&Failure {
            ok: false,
            error_kind: &error.code,
            message: &error.message,
            place: error.place.as_deref(),
            detail: error.details.as_deref(),
        })
    }
}

impl Outcome {
    /// A call that did not do what it was asked, and why.
    pub fn failure(error: ShownError) -> Self {
        Outcome {
            output: Output::Payload(Payload::failure(&error)),
            error: Some(error),
            ..Outcome::default()
        }
    }
}

/// How rows of the pool answer a call.
#[derive(Clone, Debug, PartialEq)]
pub struct SourcesOutput {
    /// The rows found, in order; merged into the pool before they are shown.
    pub rows: Vec<SourceRow>,
    /// List with snippets, or whole contents by URL.
    pub form: SourcesForm,
}

/// The two shapes of a web result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourcesForm {
    /// `[{sid, title, url, text}]`, text cut to a snippet.
    Search,
    /// `{url: {sid, title, content}}`, content capped.
    Fetch,
}

/// One version of a file or display, with what its blocks need.
#[derive(Clone, Debug, PartialEq)]
pub struct Artifact {
    /// What the model may know of it. `edited`, `tokens` and `tool_call_id` are filled in when the blocks are made.
    pub digest: SafeDigest,
    /// What the content block carries.
    pub content: Content,
    /// Hosting facts for the content block.
    pub file: FileMeta,
}

/// What the content block of an artifact carries.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Text, already within the caps.
    Text(Arc<str>),
    /// Text whose `[[S:n]]` count the rows of [`Outcome::sources`] from 1. They become the pool's numbers when the
    /// blocks are made, because other calls may add rows while this one runs.
    Citing(Arc<str>),
    /// An image or a PDF in the artifact store.
    Blob(Blob),
    /// A content block without content: other binaries.
    Bare,
    /// No content block at all: the file was not produced.
    Absent,
}
