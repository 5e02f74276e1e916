//! The templates: the exact text of each block type, in both layouts.
//!
//! In the `timeline` layout everything is text, calls too. In the `chat` layout calls are native, and what the model
//! said stands as the model said it, without brackets: models imitate what they see.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::part::{Part, PartBody, Place};
use super::render::Layout;
use super::slots::{Shows, Slot, cut_tokens};
use super::cut;
use crate::block::{Block, BlockKind, Body, SafeDigest};
use crate::ids::{CallId, Sid};
use crate::limits;
use crate::path::LogicalPath;
use crate::timeline::{CallText, Ix, NONE, Timeline};

/// Tokens of a template's own text, estimated from its length: paths and ids cost about a token every three bytes.
pub(crate) fn head_tokens(bytes: usize) -> u32 {
    (bytes / 3 + 1) as u32
}

/// What a block costs in the view: its body within the cap, and its template.
pub(crate) fn tokens_of(timeline: &Timeline, block: &Block) -> u32 {
    let path = block.path.as_ref().map_or(0, |path| path.as_str().len());
    let tool = block.meta().call.as_ref().and_then(|call| timeline.tool_of(call)).map_or(0, str::len);
    let head = head_tokens(path + tool + 48);
    match &block.body {
        Body::Text(text) => cut_tokens(block.tokens, text.len(), cap_of(&block.kind)) + head,
        Body::Empty | Body::Blob(_) => block.tokens + head,
    }
}

fn cap_of(kind: &BlockKind) -> usize {
    match kind {
        BlockKind::UserPrompt => limits::PROMPT_MAX_BYTES,
        _ => limits::PART_MAX_BYTES,
    }
}

/// The parts that a slot shows in this layout; none, one, or for a group of results a few.
pub(crate) fn parts(timeline: &Timeline, slot: &Slot, layout: Layout) -> Vec<Part> {
    let from = Templates { timeline, layout, block: timeline.at_ix(slot.ix), ix: slot.ix };
    let mut parts = match slot.shows {
        Shows::Nothing => Vec::new(),
        Shows::Placeholder(number) => from.placeholder(number),
        Shows::Group => from.group(),
        Shows::Block => from.block(),
    };
    if let Some(first) = parts.first_mut() {
        first.tokens = slot.tokens;
    }
    parts
}

struct Templates<'a> {
    timeline: &'a Timeline,
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
            BlockKind::UserAttachmentMeta => self.attachment(),
            BlockKind::UserAttachment => self.with_content(Place::User, String::new()),
            BlockKind::AgentLogHeader => self.with_text(Place::User, "[AI Agent] ".into()),
            BlockKind::Thinking => self.thinking(),
            BlockKind::Notes => self.said("[AI Agent say]: "),
            BlockKind::Note => self.with_text(self.beside(), "[INTERNAL NOTE]\n".into()),
            BlockKind::ToolCode => self.code(),
            BlockKind::ToolCall => self.call(),
            BlockKind::Notice => self.notice(),
            BlockKind::ToolResult => self.artifact(),
            BlockKind::PlanAck => self.with_text(self.beside(), "[PLAN PROGRESS]\n".into()),
            BlockKind::DecisionRaw => self.said("[AI Agent sent, not understood]:\n"),
            BlockKind::AssistantCompletion => self.answer(),
            BlockKind::RangeSummary => {
                self.with_text(Place::User, format!("[SUMMARY OF EARLIER TURNS]\n[path: {path}]\n"))
            }
            BlockKind::SystemMessage => self.with_text(Place::User, "[SYSTEM MESSAGE]\n".into()),
            BlockKind::StageGate
            | BlockKind::StageCoordinator
            | BlockKind::StageFeedback
            | BlockKind::StageClarification
            | BlockKind::StageClarificationResolved
            | BlockKind::StageSuggestedFollowups => {
                let name = block.kind.tag().trim_start_matches("stage.").to_uppercase();
                self.with_text(self.beside(), format!("[{}]\n[path: {path}]\n", name.replace('.', " ")))
            }
            BlockKind::Other(_) => self.with_content(self.beside(), String::new()),
            BlockKind::Plan | BlockKind::ReactCompletion | BlockKind::TimelineHide => Vec::new(),
        }
    }

    fn one(&self, place: Place, head: String) -> Vec<Part> {
        vec![Part { place, head, body: PartBody::None, seq: self.block.seq, tokens: 0 }]
    }

    fn with_text(&self, place: Place, head: String) -> Vec<Part> {
        vec![Part { place, head, body: self.body_text(), seq: self.block.seq, tokens: 0 }]
    }

    /// Text after the head, or media as a part of its own.
    fn with_content(&self, place: Place, head: String) -> Vec<Part> {
        match &self.block.body {
            Body::Blob(blob) => {
                let body = PartBody::Media { mime: self.block.mime.clone(), blob: *blob };
                vec![Part { place, head, body, seq: self.block.seq, tokens: 0 }]
            }
            Body::Empty if head.is_empty() => Vec::new(),
            Body::Text(_) | Body::Empty => self.with_text(place, head),
        }
    }

    fn body_text(&self) -> PartBody {
        let Body::Text(text) = &self.block.body else { return PartBody::None };
        let path = self.block.path.as_ref().map(LogicalPath::as_str);
        PartBody::Text(match cut::cut(text, cap_of(&self.block.kind), path) {
            Cow::Borrowed(_) => text.clone(),
            Cow::Owned(cut) => cut.into(),
        })
    }

    /// Blocks written beside a call's results answer the call; others speak in the person's place.
    fn beside(&self) -> Place {
        match &self.block.meta().call {
            Some(call) => Place::Reply { call: call.clone(), failed: false },
            None => Place::User,
        }
    }

    fn said(&self, prefix: &str) -> Vec<Part> {
        let head = if self.layout == Layout::Chat { String::new() } else { prefix.to_owned() };
        self.with_text(Place::Assistant, head)
    }

    fn answer(&self) -> Vec<Part> {
        if self.layout == Layout::Chat {
            return self.with_text(Place::Assistant, String::new());
        }
        let mut head = format!("[ASSISTANT MESSAGE]\n[path: {}]\n", path_text(self.block));
        if !self.block.meta().sources_used.is_empty() {
            let _ = writeln!(head, "[sources_used: {}]", sids_text(&self.block.meta().sources_used));
        }
        self.with_text(Place::Assistant, head)
    }

    fn thinking(&self) -> Vec<Part> {
        let signature = self.block.meta().get("signature").and_then(Value::as_str);
        match (self.layout, signature) {
            (Layout::Chat, Some(signature)) => {
                self.with_text(Place::Thinking { signature: signature.into() }, String::new())
            }
            _ => Vec::new(),
        }
    }

    fn attachment(&self) -> Vec<Part> {
        let Some(digest) = self.block.text().and_then(|text| serde_json::from_str::<SafeDigest>(text).ok()) else {
            return self.with_text(Place::User, "[USER ATTACHMENT] ".into());
        };
        let name = digest.physical_path.as_ref().map(|path| path.rel().file_name().to_owned());
        let mut head = format!("[USER ATTACHMENT] {} | {}", name.unwrap_or_default(), digest.mime);
        let summary = self.block.meta().get("summary").and_then(Value::as_str).map(str::to_owned);
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

    fn code(&self) -> Vec<Part> {
        match self.layout {
            // The native call carries its code itself.
            Layout::Chat => Vec::new(),
            Layout::Timeline => {
                self.with_text(Place::Assistant, format!("[AI Agent wrote code] {}:\n", path_text(self.block)))
            }
        }
    }

    fn call(&self) -> Vec<Part> {
        let Some((id, tool)) = self.call_and_tool() else { return self.with_text(Place::Assistant, String::new()) };
        let place = Place::Call { id: id.clone(), tool: tool.clone() };
        let call = self.block.text().and_then(CallText::parse);
        let params = call.as_ref().map_or("{}", |call| call.params.get());
        match self.layout {
            Layout::Chat => {
                let arguments = whole_arguments(self.timeline, self.block, &id, params);
                let body = PartBody::Text(arguments.into());
                vec![Part { place, head: String::new(), body, seq: self.block.seq, tokens: 0 }]
            }
            Layout::Timeline => {
                let head = format!("[TOOL CALL {id}].call {tool}\n{}\nParams:\n", path_text(self.block));
                let params = cut::cut(params, limits::PART_MAX_BYTES, self.block.path.as_ref().map(LogicalPath::as_str));
                let body = PartBody::Text(params.into());
                vec![Part { place, head, body, seq: self.block.seq, tokens: 0 }]
            }
        }
    }

    fn notice(&self) -> Vec<Part> {
        let of = self.block.meta().call.as_ref().map(|call| format!(" {call}")).unwrap_or_default();
        self.with_text(self.beside(), format!("[NOTICE{of}] {}\n", path_text(self.block)))
    }

    fn call_and_tool(&self) -> Option<(CallId, Arc<str>)> {
        let id = self.block.meta().call.as_ref()?;
        Some((id.clone(), self.timeline.call(id)?.tool.clone()))
    }

    /// The results of a call: status and artifacts, then the first block's own payload.
    fn group(&self) -> Vec<Part> {
        let Some((call, tool)) = self.call_and_tool() else { return self.with_text(Place::User, String::new()) };
        let error = self.block.meta().error.as_deref();
        let place = Place::Reply { call: call.clone(), failed: error.is_some() };
        let digests = self.group_digests(&call);
        let mut parts = Vec::new();
        if self.block.meta().is_digest || digests.iter().any(is_file) {
            let mut head = format!("[TOOL RESULT {call}].summary {tool}\nStatus: ");
            match error {
                None => head.push_str("success"),
                Some(error) => {
                    let _ = write!(head, "error — {} {}", error.code, error.message);
                }
            }
            head.push_str("\nArtifacts:");
            digests.iter().for_each(|digest| write_artifact_line(&mut head, digest));
            parts.extend(self.one(place.clone(), head));
        }
        if !self.block.meta().is_digest {
            let path = path_text(self.block);
            let is_artifact = self.block.path.as_ref().is_some_and(|path| path.physical().is_some());
            if is_artifact {
                parts.extend(self.artifact());
            } else {
                let head = format!("[TOOL RESULT {call}].result {tool}\nlogical_path: {path}\n");
                parts.extend(self.with_text(place, head));
            }
        }
        parts
    }

    fn group_digests(&self, call: &CallId) -> Vec<SafeDigest> {
        let count = self.block.meta().result_count.unwrap_or(1) as usize;
        let results = self.timeline.blocks()[self.ix as usize..].iter().filter(|block| {
            block.kind == BlockKind::ToolResult && block.meta().call.as_ref() == Some(call)
        });
        let digests = results.take(count).filter(|block| block.meta().is_digest);
        digests.filter_map(|block| serde_json::from_str(block.text()?).ok()).collect()
    }

    /// A content block among a call's results.
    fn artifact(&self) -> Vec<Part> {
        let Some((call, tool)) = self.call_and_tool() else { return self.with_content(Place::User, String::new()) };
        let place = Place::Reply { call: call.clone(), failed: false };
        let Some(path) = &self.block.path else { return self.with_content(place, String::new()) };
        let Some(physical) = path.physical() else {
            return self.with_content(place, format!("[TOOL RESULT {call}].result {tool}\nlogical_path: {path}\n"));
        };
        let mut head = format!("[TOOL RESULT {call}].artifact {tool}\nlogical_path: {path}\n");
        if self.block.meta().file.as_ref().is_some_and(|file| file.hosted_uri.is_some()) {
            let _ = writeln!(head, "physical_path: {physical}");
        }
        if self.layout == Layout::Chat && is_told_by_call(self.timeline, self.block, &call) {
            head.push_str("(content as in the call)");
            return self.one(place, head);
        }
        if self.block.body == Body::Empty {
            let _ = write!(head, "(binary, {}: use physical_path in code)", self.block.mime);
            return self.one(place, head);
        }
        self.with_content(place, head)
    }

    fn placeholder(&self, number: u32) -> Vec<Part> {
        let replacement = self.timeline.slots().replacement(number);
        let text = format!("HIDDEN — {}. Retrieve with react.read({})", replacement.text, replacement.path);
        if self.block.kind == BlockKind::ToolCall
            && let Some((id, tool)) = self.call_and_tool()
        {
            let place = Place::Call { id, tool };
            return match self.layout {
                Layout::Timeline => self.one(place, text),
                Layout::Chat => {
                    let arguments = serde_json::json!({ "hidden": text }).to_string();
                    let body = PartBody::Text(arguments.into());
                    vec![Part { place, head: String::new(), body, seq: self.block.seq, tokens: 0 }]
                }
            };
        }
        let place = match (&self.block.kind, &self.block.meta().call) {
            (BlockKind::Notes | BlockKind::DecisionRaw | BlockKind::ToolCode, _)
            | (BlockKind::AssistantCompletion, _) => Place::Assistant,
            (_, Some(call)) => Place::Reply { call: call.clone(), failed: false },
            (_, None) => Place::User,
        };
        self.one(place, text)
    }
}

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
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = word(&serde_json::to_value(digest.kind).unwrap_or_default());
    let visibility = word(&serde_json::to_value(digest.visibility).unwrap_or_default());
    let _ = write!(head, "\n- logical_path: {} | kind: {kind} | visibility: {visibility}", digest.artifact_path);
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

/// The call's arguments with the parameters that the call block shows cut put back whole, as far as the timeline still
/// shows them: the code from the code block, written content from the file's block.
fn whole_arguments(timeline: &Timeline, block: &Block, call: &CallId, params: &str) -> String {
    let cuts = &block.meta().cut;
    if cuts.is_empty() {
        return params.to_owned();
    }
    let Ok(mut whole) = serde_json::from_str::<Map<String, Value>>(params) else { return params.to_owned() };
    for cut in cuts {
        let text = told_by(timeline, call, |source| {
            source.meta().file.as_ref().and_then(|file| file.content_digest) == Some(cut.blob)
        });
        if let (Some(text), Some(value)) = (text, whole.get_mut(&cut.name)) {
            *value = Value::String(text.to_owned());
        }
    }
    let raw: Box<RawValue> = serde_json::value::to_raw_value(&whole).expect("a JSON map serialises");
    raw.get().to_owned()
}

/// The text of the call's code block or of one of its content blocks that the model is shown, if it is the one.
fn told_by<'a>(timeline: &'a Timeline, call: &CallId, is_it: impl Fn(&Block) -> bool) -> Option<&'a str> {
    let record = timeline.calls().get(call)?;
    let results = (record.group != NONE).then(|| {
        let count = timeline.at_ix(record.group).meta().result_count.unwrap_or(1);
        record.group..record.group + count
    });
    let code = Some(record.code).filter(|&ix| ix != NONE);
    let candidates = code.into_iter().chain(results.into_iter().flatten());
    let shown = candidates.filter(|&ix| timeline.slots().is_shown(ix));
    let mut blocks = shown.map(|ix| timeline.at_ix(ix));
    blocks.find(|block| block.meta().call.as_ref() == Some(call) && is_it(block))?.text()
}

/// Whether the call, rendered natively, already carries this block's content.
fn is_told_by_call(timeline: &Timeline, block: &Block, call: &CallId) -> bool {
    let Some(record) = timeline.calls().get(call) else { return false };
    let Some(digest) = block.meta().file.as_ref().and_then(|file| file.content_digest) else { return false };
    let call_block = timeline.at_ix(record.call);
    timeline.slots().is_shown(record.call) && call_block.meta().cut.iter().any(|cut| cut.blob == digest)
}
