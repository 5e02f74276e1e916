//! The templates: the exact text of each block type, in both layouts.
//!
//! In the `timeline` layout everything is text, calls too. In the `chat` layout calls are native, and what the model
//! said stands as the model said it, without brackets: models imitate what they see.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::fold::View;
use super::part::{Part, PartBody, Place};
use super::render::Layout;
use super::slots::{Shows, Slot, cut_tokens};
use super::{arguments, cut};
use crate::block::payload::{ChildResult, HideItem};
use crate::block::{Block, BlockKind, Body, SafeDigest};
use crate::content::is_media;
use crate::ids::Sid;
use crate::limits;
use crate::path::LogicalPath;
use crate::timeline::{CallRecord, CallText, Ix, NONE};

/// Tokens of a template's own text, estimated from its length: paths and ids cost about a token every three bytes.
pub(crate) fn head_tokens(bytes: usize) -> u32 {
    (bytes / 3 + 1) as u32
}

/// What a placeholder costs.
pub(crate) fn placeholder_tokens(item: &HideItem) -> u32 {
    head_tokens(item.replacement.len() + item.path.as_str().len() + 40)
}

/// What a block costs in the view: its body within the cap, and its template.
pub(crate) fn tokens_of(view: &View, block: &Block) -> u32 {
    let path = block.path.as_ref().map_or(0, |path| path.as_str().len());
    let tool = block
        .meta()
        .call
        .as_ref()
        .and_then(|call| view.tool_of(call))
        .map_or(0, str::len);
    let head = head_tokens(path + tool + 48);
    match &block.body {
        Body::Text(text) => cut_tokens(block.tokens, text, cap_of(&block.kind)) + head,
        Body::Blob(blob) => block.media_tokens(view.media_rule(), blob) + head,
        Body::Empty => block.tokens + head,
    }
}

fn cap_of(kind: &BlockKind) -> usize {
    match kind {
        BlockKind::UserPrompt => limits::PROMPT_MAX_BYTES,
        // Signed: not a byte may be missing.
        BlockKind::Thinking => usize::MAX,
        _ => limits::PART_MAX_CHARS,
    }
}

/// The parts that a slot shows in this layout; none, one, or for a group of results a few.
pub(crate) fn parts(view: &View, slot: &Slot, layout: Layout) -> Vec<Part> {
    let from = Templates {
        view,
        layout,
        block: view.at_ix(slot.ix),
        ix: slot.ix,
    };
    let mut parts = match slot.shows {
        Shows::Nothing => Vec::new(),
        Shows::Placeholder(number) => from.placeholder(number),
        Shows::Group => from.group(),
        Shows::Block => from.block(),
    };
    parts.extend(from.lost_reply());
    if let Some(first) = parts.first_mut() {
        first.tokens = slot.tokens;
    }
    parts
}

struct Templates<'a> {
    view: &'a View,
    layout: Layout,
    block: &'a Block,
    ix: Ix,
}

impl Templates<'_> {
    fn block(&self) -> Vec<Part> {
        let block = self.block;
        let t = &block.turn;
        let path = block.path.as_ref().map_or("", LogicalPath::as_str);
        match &block.kind {
            BlockKind::TurnHeader => self.one(Place::User, format!("[TURN {t}] ts={}", block.ts)),
            BlockKind::UserPrompt => self.with_text(Place::User, format!("[USER MESSAGE]\n[path: {path}]\n")),
            BlockKind::UserSteer => self.with_text(Place::User, format!("[USER MESSAGE]\n[path: {path}]\n")),
            BlockKind::UserInstructions => {
                self.with_text(Place::User, format!("[USER INSTRUCTIONS]\n[path: {path}]\n"))
            }
            BlockKind::UserAttachmentText => self.attachment_text(),
            BlockKind::ChildResult => self.child_result(),
            BlockKind::UserAttachmentMeta => self.attachment(),
            BlockKind::UserAttachment => self.with_content(Place::User, String::new()),
            BlockKind::AgentLogHeader => self.with_text(Place::User, "[AI Agent] ".into()),
            BlockKind::Thinking => self.thinking(),
            BlockKind::Notes => self.said("[AI Agent say]: "),
            BlockKind::Note => self.with_text(self.beside(), "[INTERNAL NOTE]\n".into()),
            BlockKind::ToolCode => self.code(),
            BlockKind::ToolCall => self.call(),
            BlockKind::Notice => self.notice(),
            BlockKind::ToolResult => self.result(),
            BlockKind::PlanAck => self.with_text(self.beside(), "[PLAN PROGRESS]\n".into()),
            BlockKind::DecisionRaw => self.raw(),
            BlockKind::AssistantCompletion => self.answer(),
            BlockKind::RangeSummary => self.summary(path),
            BlockKind::SystemMessage => self.with_text(Place::User, "[SYSTEM MESSAGE]\n".into()),
            BlockKind::StageGate
            | BlockKind::StageCoordinator
            | BlockKind::StageFeedback
            | BlockKind::StageClarification
            | BlockKind::StageClarificationResolved
            | BlockKind::StageSuggestedFollowups => {
                let name = block.kind.tag().trim_start_matches("stage.").to_uppercase();
                self.with_text(
                    self.beside(),
                    format!("[{}]\n[path: {path}]\n", name.replace('.', " ")),
                )
            }
            BlockKind::Other(_) => self.with_content(self.beside(), String::new()),
            BlockKind::Plan
            | BlockKind::ReactCompletion
            | BlockKind::TimelineHide
            | BlockKind::ToolsTable
            | BlockKind::ToolStarted
            | BlockKind::ApprovalRequest
            | BlockKind::ApprovalDecision
            | BlockKind::InputRequest
            | BlockKind::InputResponse => Vec::new(),
        }
    }

    fn one(&self, place: Place, head: String) -> Vec<Part> {
        vec![self.part(place, head, PartBody::None)]
    }

    fn with_text(&self, place: Place, head: String) -> Vec<Part> {
        vec![self.part(place, head, self.body_text())]
    }

    /// The head and whatever the block carries: text, an image or a PDF, or the fact that it is another binary.
    fn with_content(&self, place: Place, mut head: String) -> Vec<Part> {
        match &self.block.body {
            Body::Text(_) => self.with_text(place, head),
            Body::Blob(blob) if is_media(&self.block.mime) => {
                let body = PartBody::Media {
                    mime: self.block.mime.clone(),
                    blob: **blob,
                };
                vec![self.part(place, head, body)]
            }
            Body::Blob(blob) => {
                let _ = write!(head, "(binary, {}, {} bytes)", self.block.mime, blob.size_bytes);
                self.one(place, head)
            }
            Body::Empty if head.is_empty() => Vec::new(),
            Body::Empty => self.one(place, head),
        }
    }

    fn part(&self, place: Place, head: String, body: PartBody) -> Part {
        Part {
            place,
            head,
            body,
            seq: self.block.seq,
            tokens: 0,
        }
    }

    fn body_text(&self) -> PartBody {
        let Body::Text(text) = &self.block.body else {
            return PartBody::None;
        };
        PartBody::Text(
            match cut::cut(text, cap_of(&self.block.kind), self.block.path.as_ref()) {
                Cow::Borrowed(_) => text.clone(),
                Cow::Owned(cut) => cut.into(),
            },
        )
    }

    /// Blocks written beside a call's results answer the call; others speak in the person's place.
    fn beside(&self) -> Place {
        match &self.block.meta().call {
            Some(call) => Place::Reply { call: call.clone() },
            None => Place::User,
        }
    }

    fn said(&self, prefix: &str) -> Vec<Part> {
        let head = if self.layout == Layout::Chat {
            String::new()
        } else {
            prefix.to_owned()
        };
        self.with_text(Place::Assistant, head)
    }

    /// What was not understood must not stand as the model's own words: a native reply tells it instead.
    fn raw(&self) -> Vec<Part> {
        match (self.layout, &self.block.meta().call) {
            (Layout::Chat, Some(_)) => Vec::new(),
            (Layout::Chat, None) => self.with_text(Place::User, RAW_HEAD.into()),
            (Layout::Timeline, _) => self.with_text(Place::Assistant, RAW_HEAD.into()),
        }
    }

    fn answer(&self) -> Vec<Part> {
        if self.layout == Layout::Chat {
            return self.with_text(Place::Assistant, String::new());
        }
        let mut head = format!("[ASSISTANT MESSAGE]\n[path: {}]\n", path_text(self.block));
        if !self.block.meta().sources_used.is_empty() {
            let _ = writeln!(
                head,
                "[sources_used: {}]",
                sids_text(&self.block.meta().sources_used)
            );
        }
        self.with_text(Place::Assistant, head)
    }

    fn thinking(&self) -> Vec<Part> {
        match (self.layout, self.block.meta().signature()) {
            (Layout::Chat, Some(signature)) => self.with_text(
                Place::Thinking {
                    signature: signature.into(),
                },
                String::new(),
            ),
            _ => Vec::new(),
        }
    }

    fn attachment(&self) -> Vec<Part> {
        let Ok(digest) = self.block.payload::<SafeDigest>() else {
            return self.with_text(Place::User, "[USER ATTACHMENT] ".into());
        };
        let name = digest
            .physical_path
            .as_ref()
            .map(|path| path.rel().file_name().to_owned());
        let mut head = format!("[USER ATTACHMENT] {} | {}", name.unwrap_or_default(), digest.mime);
        let summary = self.block.meta().attachment_summary();
        let size = digest.size_bytes.map(|bytes| format!("{bytes} bytes"));
        if let Some(summary) = summary.or(size) {
            let _ = write!(head, "\nsummary: {summary}");
        }
        let _ = write!(head, "\n[path: {}]", digest.artifact_path);
        if let Some(physical) = &digest.physical_path {
            let _ = write!(head, "\n[physical_path: {physical}]");
        }
        self.one(Place::User, head)
    }

    /// Text taken from an attachment. A PDF is shown as a document, so of its text only the place is told.
    fn attachment_text(&self) -> Vec<Part> {
        let of = self.block.meta().attachment_path();
        let name = of
            .as_ref()
            .map_or("", |path| path.as_str().rsplit('/').next().unwrap_or_default());
        let head = format!("[USER ATTACHMENT TEXT] {name}\n[path: {}]", path_text(self.block));
        let is_document = of
            .and_then(|path| self.view.latest(&path))
            .is_some_and(|attachment| attachment.blob().is_some());
        match is_document {
            true => self.one(Place::User, head),
            false => self.with_text(Place::User, head + "\n"),
        }
    }

    /// A summary; and when its cut went through a past turn, that turn's header again, for what follows is of it.
    fn summary(&self, path: &str) -> Vec<Part> {
        let mut parts = self.with_text(
            Place::User,
            format!("[SUMMARY OF EARLIER TURNS]\n[path: {path}]\n"),
        );
        let split = self.block.meta().summary.as_deref().and_then(|summary| {
            let turn = summary.split_turn_id.as_ref()?;
            self.view.turn(turn).filter(|turn| turn.id != self.block.turn)
        });
        if let Some(turn) = split {
            let head = format!("[TURN {}] ts={}", turn.id, turn.started);
            parts.push(self.part(Place::User, head, PartBody::None));
        }
        parts
    }

    fn child_result(&self) -> Vec<Part> {
        let Ok(child) = self.block.payload::<ChildResult>() else {
            return self.with_text(Place::User, "[CHILD RESULT]\n".into());
        };
        let mut head = format!(
            "[CHILD RESULT {}] {}\n[path: {}]",
            child.call_id,
            child.outcome.as_str(),
            path_text(self.block)
        );
        for file in &child.files {
            let _ = write!(head, "\n- {file}");
        }
        head.push('\n');
        let path = self.block.path.as_ref();
        let answer = cut::cut(&child.answer, cap_of(&self.block.kind), path).into_owned();
        vec![self.part(Place::User, head, PartBody::Text(answer.into()))]
    }

    fn code(&self) -> Vec<Part> {
        match self.layout {
            // The native call carries its code itself.
            Layout::Chat => Vec::new(),
            Layout::Timeline => self.with_text(
                Place::Assistant,
                format!("[AI Agent wrote code] {}:\n", path_text(self.block)),
            ),
        }
    }

    fn call(&self) -> Vec<Part> {
        let Some(record) = self.record() else {
            return self.with_text(Place::Assistant, String::new());
        };
        let (id, tool) = (&record.id, &record.tool);
        let place = Place::Call {
            id: id.clone(),
            tool: tool.clone(),
        };
        let call = self.block.text().and_then(CallText::parse);
        let params = call.as_ref().map_or("{}", |call| call.params.get());
        let part = match self.layout {
            Layout::Chat => {
                let arguments = arguments::whole(self.view, record, params);
                self.part(place, String::new(), PartBody::Text(arguments.into()))
            }
            Layout::Timeline => {
                let head = format!(
                    "[TOOL CALL {id}].call {tool}\n{}\nParams:\n",
                    path_text(self.block)
                );
                let params = cut::cut(params, cap_of(&self.block.kind), self.block.path.as_ref());
                self.part(place, head, PartBody::Text(params.into()))
            }
        };
        vec![part]
    }

    /// A call that its turn left without a result still gets a reply in the view.
    fn lost_reply(&self) -> Option<Part> {
        let lost = self
            .record()
            .filter(|record| record.call == self.ix && record.is_lost())?;
        let (id, tool) = (&lost.id, &lost.tool);
        let head =
            format!("[TOOL RESULT {id}].result {tool}\nStatus: error — interrupted no result was recorded");
        Some(self.part(Place::Reply { call: id.clone() }, head, PartBody::None))
    }

    fn notice(&self) -> Vec<Part> {
        let of = self
            .block
            .meta()
            .call
            .as_ref()
            .map(|call| format!(" {call}"))
            .unwrap_or_default();
        self.with_text(self.beside(), format!("[NOTICE{of}] {}\n", path_text(self.block)))
    }

    fn record(&self) -> Option<&CallRecord> {
        self.view.call(self.block.meta().call.as_ref()?)
    }

    /// A group of results: status and artifacts, then the first block's own payload.
    fn group(&self) -> Vec<Part> {
        let Some(record) = self.record() else {
            return self.with_content(Place::User, String::new());
        };
        let (call, tool) = (&record.id, &record.tool);
        let place = Place::Reply { call: call.clone() };
        let mut parts = self.unreadable(record, &place);
        let digests = self.group_digests(record);
        if self.block.meta().is_digest || digests.iter().any(is_file) {
            let mut head = format!("[TOOL RESULT {call}].summary {tool}\nStatus: ");
            match &self.block.meta().error {
                None => head.push_str("success"),
                Some(error) => {
                    let _ = write!(head, "error — {} {}", error.code, error.message);
                }
            }
            head.push_str("\nArtifacts:");
            digests
                .iter()
                .for_each(|digest| write_artifact_line(&mut head, digest));
            parts.push(self.part(place, head, PartBody::None));
        }
        if !self.block.meta().is_digest {
            parts.extend(self.result());
        }
        parts
    }

    /// In the `chat` layout, what the model sent and nobody could read, before the results that say so.
    fn unreadable(&self, record: &CallRecord, place: &Place) -> Vec<Part> {
        let tells = self.layout == Layout::Chat && record.group == self.ix && record.raw != NONE;
        if !tells || !self.view.slots().is_shown(record.raw) {
            return Vec::new();
        }
        let raw = Templates {
            block: self.view.at_ix(record.raw),
            ix: record.raw,
            ..*self
        };
        raw.with_text(place.clone(), RAW_HEAD.into())
    }

    /// The digests that this group's slot tells.
    fn group_digests(&self, record: &CallRecord) -> Vec<SafeDigest> {
        let slots = self.view.slots();
        let own = slots.of(self.ix);
        let last = if record.settled == NONE {
            self.ix
        } else {
            record.settled.max(self.ix)
        };
        let told = (self.ix..=last)
            .filter(|&ix| slots.of(ix) == own)
            .map(|ix| self.view.at_ix(ix));
        told.filter(|block| block.meta().is_digest)
            .filter_map(|block| block.folded_payload())
            .collect()
    }

    /// One result block: a payload at the call's path, or an artifact at its own.
    fn result(&self) -> Vec<Part> {
        let Some(record) = self.record() else {
            return self.with_content(Place::User, String::new());
        };
        let (call, tool) = (&record.id, &record.tool);
        let place = Place::Reply { call: call.clone() };
        let Some(path) = &self.block.path else {
            return self.with_content(place, format!("[TOOL RESULT {call}].result {tool}\n"));
        };
        let Some(physical) = path.physical() else {
            return self.with_content(
                place,
                format!("[TOOL RESULT {call}].result {tool}\nlogical_path: {path}\n"),
            );
        };
        let mut head = format!("[TOOL RESULT {call}].artifact {tool}\nlogical_path: {path}\n");
        if self
            .block
            .meta()
            .file
            .as_ref()
            .is_some_and(|file| file.hosted_uri.is_some())
        {
            let _ = writeln!(head, "physical_path: {physical}");
        }
        if self.layout == Layout::Chat && arguments::carry(self.view, record, self.ix) {
            head.push_str("(content as in the call)");
            return self.one(place, head);
        }
        if self.block.body == Body::Empty {
            let _ = write!(head, "(binary, {}: code finds it at {physical})", self.block.mime);
            return self.one(place, head);
        }
        self.with_content(place, head)
    }

    fn placeholder(&self, number: u32) -> Vec<Part> {
        let text = placeholder_text(self.view, number);
        match (self.layout, &self.block.kind) {
            (_, BlockKind::ToolCall) => self.hidden_call(number, text),
            // The native call and its reply tell these.
            (Layout::Chat, BlockKind::ToolCode | BlockKind::Thinking) => Vec::new(),
            (Layout::Chat, BlockKind::DecisionRaw) if self.block.meta().call.is_some() => Vec::new(),
            (
                _,
                BlockKind::Notes | BlockKind::ToolCode | BlockKind::Thinking | BlockKind::AssistantCompletion,
            ) => self.one(Place::Assistant, text),
            _ => self.one(self.beside(), text),
        }
    }

    fn hidden_call(&self, number: u32, text: String) -> Vec<Part> {
        let Some(record) = self.record() else {
            return self.one(Place::Assistant, text);
        };
        let place = Place::Call {
            id: record.id.clone(),
            tool: record.tool.clone(),
        };
        let call = match self.layout {
            Layout::Timeline => self.part(place, text, PartBody::None),
            Layout::Chat => {
                let arguments = arguments::hidden(&self.view.slots().replacement(number).text, text);
                self.part(place, String::new(), PartBody::Text(arguments.into()))
            }
        };
        vec![call]
    }
}

/// What stands in place of hidden blocks.
pub(super) fn placeholder_text(view: &View, number: u32) -> String {
    let replacement = view.slots().replacement(number);
    format!(
        "HIDDEN — {}. Retrieve with react.read({})",
        replacement.text, replacement.path
    )
}

const RAW_HEAD: &str = "[AI Agent sent, not understood]:\n";

fn path_text(block: &Block) -> &str {
    block.path.as_ref().map_or("", LogicalPath::as_str)
}

fn is_file(digest: &SafeDigest) -> bool {
    digest.physical_path.is_some()
}

fn sids_text(sids: &[Sid]) -> String {
    let sids: Vec<String> = sids.iter().map(|sid| sid.get().to_string()).collect();
    format!("[{}]", sids.join(","))
}

fn write_artifact_line(head: &mut String, digest: &SafeDigest) {
    let (kind, visibility) = (digest.kind.as_str(), digest.visibility.as_str());
    let _ = write!(
        head,
        "\n- logical_path: {} | kind: {kind} | visibility: {visibility}",
        digest.artifact_path
    );
    if let Some(tokens) = digest.tokens {
        let _ = write!(head, " | tokens: {tokens}");
    }
    if let (None, Some(bytes)) = (digest.tokens, digest.size_bytes) {
        let _ = write!(head, " | size_bytes: {bytes}");
    }
    if !digest.sources_used.is_empty() {
        let _ = write!(head, " | sources_used: {}", sids_text(&digest.sources_used));
    }
    if digest.edited {
        head.push_str(" | edited");
    }
    if let Some(warning) = &digest.write_warning {
        let _ = write!(head, " | write_warning: {warning}");
    }
    if let Some(error) = &digest.error {
        let _ = write!(head, " | error: {} {}", error.code, error.message);
    }
}
