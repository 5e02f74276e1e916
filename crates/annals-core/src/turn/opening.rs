//! The blocks that begin and end a turn.

use serde::{Deserialize, Serialize};

use crate::block::{BlockKind, Body, FileMeta, Meta, NewBlock, SafeDigest};
use crate::ids::{Sid, TurnId};
use crate::path::{Folder, LogicalPath};
use crate::sources::{SourceRow, SourceType};
use crate::timeline::Timeline;

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnEnd {
    /// With an answer.
    Complete,
    /// With questions to the person.
    Clarify,
    /// At the limit of model calls.
    MaxIterations,
    /// After the same violation several times in a row.
    ProtocolViolation,
    /// The provider failed for good.
    ModelError,
    /// Somebody cancelled it.
    Cancelled,
    /// The process died, and the next prompt closed it.
    Interrupted,
}

impl TurnEnd {
    /// The word in `react.completion`.
    pub fn as_str(self) -> &'static str {
        match self {
            TurnEnd::Complete => "complete",
            TurnEnd::Clarify => "clarify",
            TurnEnd::MaxIterations => "max_iterations",
            TurnEnd::ProtocolViolation => "protocol_violation",
            TurnEnd::ModelError => "model_error",
            TurnEnd::Cancelled => "cancelled",
            TurnEnd::Interrupted => "interrupted",
        }
    }

    /// Whether the person got what a turn is for.
    pub fn is_success(self) -> bool {
        matches!(self, TurnEnd::Complete | TurnEnd::Clarify)
    }

    pub(crate) fn of_text(text: &str) -> Option<Self> {
        serde_json::from_str::<TurnReport>(text)
            .ok()
            .map(|report| report.outcome)
    }
}

/// Tokens of a turn by bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnUsage {
    /// All input tokens, those read from or written to the provider's cache among them.
    pub input_tokens: u64,
    /// Of these, read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Of these, written to the provider's cache.
    pub cache_write_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
}

impl TurnUsage {
    /// Adds another call's tokens.
    pub fn add(&mut self, other: TurnUsage) {
        self.input_tokens += other.input_tokens;
        self.cache_read_tokens += other.cache_read_tokens;
        self.cache_write_tokens += other.cache_write_tokens;
        self.output_tokens += other.output_tokens;
    }
}

/// The text of a `react.completion` block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnReport {
    /// How the turn ended.
    pub outcome: TurnEnd,
    /// Tool calls made.
    pub rounds: u32,
    /// Model calls made.
    pub iterations: u32,
    /// Tokens used.
    pub usage: TurnUsage,
    /// Tokens of each model call, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub usage_by_call: Vec<TurnUsage>,
    /// From the prompt to the end.
    pub elapsed_ms: u64,
    /// Why, when it did not end well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl TurnReport {
    /// The report of a turn that did nothing.
    pub fn empty(outcome: TurnEnd, error: Option<String>) -> Self {
        TurnReport {
            outcome,
            rounds: 0,
            iterations: 0,
            usage: TurnUsage::default(),
            usage_by_call: Vec::new(),
            elapsed_ms: 0,
            error,
        }
    }
}

/// An attachment that passed the checks.
#[derive(Clone, Debug, PartialEq)]
pub struct AttachedFile {
    /// What the model may know of it.
    pub digest: SafeDigest,
    /// What the content block carries.
    pub body: Body,
    /// Where its bytes are kept.
    pub file: FileMeta,
    /// One line for the model.
    pub summary: Option<String>,
}

/// What begins a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Opening {
    /// The new turn.
    pub turn: TurnId,
    /// What the person asked.
    pub prompt: String,
    /// What came with it.
    pub attachments: Vec<AttachedFile>,
    /// Agent name and model, on one line.
    pub agent: String,
}

impl Opening {
    /// Header, prompt, attachments (metadata, then content), and who answers. Attachments enter the sources pool.
    pub fn blocks(self, timeline: &Timeline) -> Vec<NewBlock> {
        let turn = &self.turn;
        let mut blocks = vec![
            NewBlock::new(BlockKind::TurnHeader, turn, LogicalPath::turn_header(turn)),
            NewBlock::new(BlockKind::UserPrompt, turn, LogicalPath::user_prompt(turn))
                .text("text/markdown", self.prompt),
        ];
        let rows: Vec<SourceRow> = self
            .attachments
            .iter()
            .filter_map(|file| source_row(&file.digest))
            .collect();
        let mut changed = timeline.pool().assign(rows).changed;
        for attached in self.attachments {
            let path = attached.digest.artifact_path.clone();
            let mut meta =
                NewBlock::new(BlockKind::UserAttachmentMeta, turn, path.clone()).json(&attached.digest);
            meta.meta.sources = std::mem::take(&mut changed).into();
            if let Some(summary) = attached.summary {
                meta.meta = meta.meta.with("summary", summary);
            }
            let mut content =
                NewBlock::new(BlockKind::UserAttachment, turn, path).mime(&attached.digest.mime);
            content.body = attached.body;
            content.meta.file = Some(Box::new(FileMeta {
                digest: Some(attached.digest),
                ..attached.file
            }));
            blocks.extend([meta, content]);
        }
        let header = NewBlock::new(
            BlockKind::AgentLogHeader,
            turn,
            LogicalPath::agent_log_header(turn),
        );
        blocks.push(header.text("text/plain", self.agent));
        blocks
    }
}

/// The row with which a file enters the sources pool: texts, images and PDFs do, other binaries do not.
pub fn source_row(digest: &SafeDigest) -> Option<SourceRow> {
    let readable = ["text/", "image/"]
        .iter()
        .any(|family| digest.mime.starts_with(family));
    let path = digest
        .physical_path
        .clone()
        .filter(|_| readable || &*digest.mime == "application/pdf")?;
    let source_type = match path.folder() {
        Folder::Attachments => SourceType::Attachment,
        Folder::Files => SourceType::File,
    };
    let row = SourceRow::file(source_type, path, &digest.mime);
    Some(SourceRow {
        size_bytes: digest.size_bytes,
        ..row
    })
}

/// The answer.
pub fn answer_block(turn: &TurnId, step: u32, text: &str, sources_used: Vec<Sid>) -> NewBlock {
    let meta = Meta {
        step: Some(step),
        sources_used: sources_used.into(),
        ..Meta::EMPTY
    };
    NewBlock::new(
        BlockKind::AssistantCompletion,
        turn,
        LogicalPath::assistant_completion(turn),
    )
    .text("text/markdown", text)
    .meta(meta)
}

/// How the turn ended.
pub fn completion_block(turn: &TurnId, report: &TurnReport) -> NewBlock {
    NewBlock::new(
        BlockKind::ReactCompletion,
        turn,
        LogicalPath::react_completion(turn),
    )
    .json(report)
}
