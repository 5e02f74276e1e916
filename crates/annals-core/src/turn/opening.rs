//! The blocks that begin and end a turn.

use crate::block::payload::{ToolsTable, TurnReport};
use crate::block::{BlockKind, Body, FileMeta, MessageKind, Meta, NewBlock, SafeDigest};
use crate::content;
use crate::ids::{Sid, TurnId};
use crate::path::{Folder, LogicalPath, PathError};
use crate::sources::{SourceRow, SourceType};
use crate::timeline::Timeline;

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
    /// The text inside, of a file that is no text itself.
    pub text: Option<String>,
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
    /// A client's own system text for this turn.
    pub instructions: Option<String>,
    /// Agent name and model, on one line.
    pub agent: String,
    /// What the model is offered, when that is not what the conversation's last table says.
    pub tools: Option<ToolsTable>,
}

impl Opening {
    /// Header, prompt, attachments (metadata, then content), who answers, and with which tools. Attachments enter the sources pool.
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
        for (n, attached) in (1..).zip(self.attachments) {
            let path = attached.digest.artifact_path.clone();
            let mut meta =
                NewBlock::new(BlockKind::UserAttachmentMeta, turn, path.clone()).json(&attached.digest);
            meta.meta.sources = std::mem::take(&mut changed).into();
            if let Some(summary) = attached.summary {
                meta.meta = meta.meta.with_attachment_summary(&summary);
            }
            let text = attached
                .text
                .map(|text| attachment_text_block(turn, n, &path, &text));
            let mut content =
                NewBlock::new(BlockKind::UserAttachment, turn, path).mime(&attached.digest.mime);
            content.body = attached.body;
            content.meta.file = Some(Box::new(FileMeta {
                digest: Some(attached.digest),
                ..attached.file
            }));
            blocks.extend([meta, content]);
            blocks.extend(text);
        }
        blocks.extend(self.instructions.map(|text| instructions_block(turn, &text)));
        let header = NewBlock::new(
            BlockKind::AgentLogHeader,
            turn,
            LogicalPath::agent_log_header(turn),
        );
        blocks.push(header.text("text/plain", self.agent));
        blocks.extend(self.tools.map(|table| table.block(turn, 1)));
        blocks
    }
}

/// The row with which a file enters the sources pool: texts, images and PDFs do, other binaries do not.
pub fn source_row(digest: &SafeDigest) -> Option<SourceRow> {
    let path = digest
        .physical_path
        .clone()
        .filter(|_| content::is_source(&digest.mime))?;
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

/// What a person said while the turn ran, the `n`th time. It stands where it was taken in, between steps.
pub fn steer_block(turn: &TurnId, n: u32, text: &str) -> NewBlock {
    let path = LogicalPath::user_steer(turn, n);
    NewBlock::new(BlockKind::UserSteer, turn, path).text("text/markdown", text)
}

/// A client's own system text for this turn. It belongs between the prompt and [`BlockKind::AgentLogHeader`].
pub fn instructions_block(turn: &TurnId, text: &str) -> NewBlock {
    let path = LogicalPath::user_instructions(turn);
    NewBlock::new(BlockKind::UserInstructions, turn, path).text("text/markdown", text)
}

/// The text of the turn's `n`th attachment, after that attachment's content block.
pub fn attachment_text_block(turn: &TurnId, n: u32, attachment: &LogicalPath, text: &str) -> NewBlock {
    let path = LogicalPath::attachment_text(turn, n);
    let meta = Meta::EMPTY.with_attachment_path(attachment);
    NewBlock::new(BlockKind::UserAttachmentText, turn, path)
        .text("text/plain", text)
        .meta(meta)
}

/// A notice of the system's own.
pub fn system_message(turn: &TurnId, kind: &MessageKind, text: &str) -> Result<NewBlock, PathError> {
    let path = LogicalPath::system_message(turn, kind.as_str())?;
    Ok(NewBlock::new(BlockKind::SystemMessage, turn, path)
        .text("text/plain", text)
        .meta(Meta::EMPTY.with_message_kind(kind)))
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
