//! From a model's answer and a tool's outcome to blocks, in the one order that the format allows: thinking, notes,
//! code, calls; then for each call notices, results, and what was written beside them.

use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Map, Value};

use super::outcome::{
    Artifact, Content, GateNote, HideItem, Notice, Outcome, Output, Payload, SourcesForm, SourcesOutput,
};
use crate::block::{
    ArtifactKind, Blob, BlockKind, Channel, CutParam, FileMeta, Meta, NewBlock, SafeDigest, ShownError,
    Visibility, WorkspaceChange,
};
use crate::ids::{CallId, Sid, TurnId};
use crate::limits;
use crate::path::{LogicalPath, SidSet};
use crate::sources::{Assigned, SourceRow, citation};
use crate::time::Timestamp;
use crate::timeline::{HideReason, HideText, Timeline};
use crate::tokens;
use crate::view::cut;

/// One call of a model's answer, its arguments already read.
#[derive(Clone, Debug, PartialEq)]
pub struct NewCall {
    /// Its id, unique in the conversation.
    pub id: CallId,
    /// The tool it names, known or not.
    pub tool: String,
    /// The arguments, in the model's order; empty when they could not be read.
    pub params: Map<String, Value>,
    /// What the model sent, when it could not be read.
    pub unreadable: Option<String>,
    /// The parameter that is shown cut, and what the model reads instead.
    pub cut: Option<CutTo>,
}

/// Which parameter is cut, and the path that has the whole.
#[derive(Clone, Debug, PartialEq)]
pub struct CutTo {
    /// The parameter.
    pub param: String,
    /// Where the whole will be.
    pub see: LogicalPath,
    /// Whether the whole is code: then it gets a block of its own before the call.
    pub is_code: bool,
    /// The whole in the artifact store; `None` if it is not kept there, and then it is hashed for the block.
    pub whole: Option<Blob>,
}

/// A model's answer, as far as it becomes blocks before any tool runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewAnswer {
    /// Reasoning.
    pub thinking: Option<String>,
    /// The vendor's proof of it.
    pub signature: Option<String>,
    /// What was said beside the calls.
    pub notes: String,
    /// The calls.
    pub calls: Vec<NewCall>,
}

/// The blocks of an answer with calls. Durable before any of the calls starts.
pub fn answer_blocks(turn: &TurnId, step: u32, ts: Timestamp, answer: &NewAnswer) -> Vec<NewBlock> {
    let stepped = || Meta {
        step: Some(step),
        ..Meta::EMPTY
    };
    let mut blocks: Vec<NewBlock> = thinking_block(turn, step, answer).into_iter().collect();
    if let (Some(call), false) = (answer.calls.first(), answer.notes.trim().is_empty()) {
        let notes = NewBlock::new(BlockKind::Notes, turn, LogicalPath::notes(turn, &call.id));
        let meta = stepped().with_channel(Channel::TimelineText);
        blocks.push(notes.text("text/markdown", answer.notes.trim()).meta(meta));
    }
    for (n, call) in answer.calls.iter().enumerate() {
        if let Some(raw) = &call.unreadable {
            let n = step * limits::ANSWER_MAX_CALLS as u32 + n as u32;
            let block = NewBlock::new(BlockKind::DecisionRaw, turn, LogicalPath::decision_raw(turn, n));
            let raw = cut::cut(raw, limits::DECISION_RAW_MAX_CHARS, None).into_owned();
            blocks.push(block.text("text/plain", raw).meta(Meta {
                call: Some(call.id.clone()),
                ..stepped()
            }));
        }
        blocks.extend(call_blocks(turn, step, ts, call));
    }
    blocks
}

/// The reasoning block of an answer, if it has any.
pub fn thinking_block(turn: &TurnId, step: u32, answer: &NewAnswer) -> Option<NewBlock> {
    // A vendor may withhold the words and still want its signature back.
    let thinking = answer
        .thinking
        .as_ref()
        .filter(|text| !text.is_empty() || answer.signature.is_some())?;
    let meta = Meta {
        step: Some(step),
        ..Meta::EMPTY
    }
    .with_reasoning(answer.signature.as_deref());
    let block = NewBlock::new(BlockKind::Thinking, turn, LogicalPath::thinking(turn, step));
    Some(block.text("text/plain", thinking.as_str()).meta(meta))
}

fn call_blocks(turn: &TurnId, step: u32, ts: Timestamp, call: &NewCall) -> Vec<NewBlock> {
    let mut meta = Meta {
        call: Some(call.id.clone()),
        step: Some(step),
        ..Meta::EMPTY
    };
    let mut params = ShownParams {
        params: &call.params,
        cut: None,
    };
    let mut blocks = Vec::new();
    if let Some(to) = &call.cut
        && let Some(Value::String(whole)) = call.params.get(&to.param)
    {
        let blob = to.whole.unwrap_or_else(|| Blob::of(whole.as_bytes()));
        if to.is_code {
            let path = LogicalPath::code(turn, &call.id);
            let mut code = Meta {
                call: Some(call.id.clone()),
                step: Some(step),
                ..Meta::EMPTY
            };
            code.file = Some(Box::new(FileMeta {
                content_digest: Some(blob.digest),
                ..FileMeta::default()
            }));
            blocks.push(
                NewBlock::new(BlockKind::ToolCode, turn, path)
                    .text("text/plain", whole.as_str())
                    .meta(code),
            );
        }
        let end = whole.char_indices().nth(limits::WRITE_PARAM_PREFIX_CHARS);
        let prefix = &whole[..end.map_or(whole.len(), |(end, _)| end)];
        params.cut = Some((&to.param, format!("{prefix}... [see {}]", to.see)));
        meta.cut.push(CutParam {
            name: to.param.clone(),
            blob: blob.digest,
            size_bytes: blob.size_bytes,
        });
    }
    #[derive(serde::Serialize)]
    struct Text<'a> {
        tool_id: &'a str,
        tool_call_id: &'a str,
        params: ShownParams<'a>,
        ts: Timestamp,
    }
    let text = Text {
        tool_id: &call.tool,
        tool_call_id: call.id.as_str(),
        params,
        ts,
    };
    blocks.push(
        NewBlock::new(BlockKind::ToolCall, turn, LogicalPath::call(turn, &call.id))
            .json(&text)
            .meta(meta),
    );
    blocks
}

/// A call's parameters with one of them cut. They may hold a whole document, so they are not copied for that.
struct ShownParams<'a> {
    params: &'a Map<String, Value>,
    cut: Option<(&'a str, String)>,
}

impl Serialize for ShownParams<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.params.len()))?;
        for (name, value) in self.params {
            match &self.cut {
                Some((cut, shown)) if cut == name => map.serialize_entry(name, shown)?,
                _ => map.serialize_entry(name, value)?,
            }
        }
        map.end()
    }
}

/// The blocks of a finished call. Durable before anybody sees them. Rows enter the sources pool with them, so the
/// SIDs shown are the pool's.
pub fn outcome_blocks(timeline: &Timeline, turn: &TurnId, call: &CallId, outcome: Outcome) -> Vec<NewBlock> {
    let mut blocks: Vec<NewBlock> = outcome
        .notices
        .iter()
        .map(|notice| notice_block(turn, call, notice))
        .collect();
    let shown = match &outcome.output {
        Output::Sources(output) => output.rows.clone(),
        Output::Payload(_) | Output::Artifacts => Vec::new(),
    };
    let shown_count = shown.len();
    let Assigned { sids, changed } = timeline.pool().assign(shown.into_iter().chain(outcome.sources));
    let mut writer = Results {
        timeline,
        turn,
        call,
        blocks: Vec::new(),
        beside: &sids[shown_count..],
        sources: changed,
    };
    match outcome.output {
        Output::Payload(payload) => writer.payload(&payload),
        Output::Sources(output) => writer.sources(output, &sids),
        Output::Artifacts if outcome.artifacts.is_empty() && outcome.closing.is_none() => {
            writer.payload(&bare_payload(&outcome.error))
        }
        Output::Artifacts => {}
    }
    outcome
        .artifacts
        .into_iter()
        .for_each(|artifact| writer.artifact(artifact));
    outcome.closing.iter().for_each(|payload| writer.payload(payload));
    let beside = (outcome.gate.as_deref(), outcome.server_meta.as_deref());
    blocks.extend(writer.finish(outcome.error, &outcome.workspace, beside));
    blocks.extend(hide_block(timeline, turn, HideReason::Hide, outcome.hides));
    blocks.extend(outcome.beside);
    blocks
}

/// Says that a call which was held begins now. Durable before its tool starts.
pub fn started_block(turn: &TurnId, call: &CallId) -> NewBlock {
    NewBlock::new(
        BlockKind::ToolStarted,
        turn,
        LogicalPath::tool_started(turn, call),
    )
    .meta(Meta::of_call(call))
}

/// A notice about a call.
pub fn notice_block(turn: &TurnId, call: &CallId, notice: &Notice) -> NewBlock {
    NewBlock::new(BlockKind::Notice, turn, LogicalPath::notice(turn, call))
        .json(notice)
        .meta(Meta::of_call(call))
}

/// The block that hides these paths from here on.
pub fn hide_block(
    timeline: &Timeline,
    turn: &TurnId,
    reason: HideReason,
    items: Vec<HideItem>,
) -> Option<NewBlock> {
    if items.is_empty() {
        return None;
    }
    let path = LogicalPath::timeline_hide(turn, timeline.hides() + 1);
    Some(NewBlock::new(BlockKind::TimelineHide, turn, path).json(&HideText { reason, items }))
}

fn bare_payload(error: &Option<ShownError>) -> Payload {
    match error {
        None => Payload::json(&serde_json::json!({ "ok": true })),
        Some(error) => Payload::failure(error),
    }
}

struct Results<'a> {
    timeline: &'a Timeline,
    turn: &'a TurnId,
    call: &'a CallId,
    blocks: Vec<NewBlock>,
    /// The numbers that the pool gave to [`Outcome::sources`].
    beside: &'a [Sid],
    sources: Vec<SourceRow>,
}

impl Results<'_> {
    fn block(&self, path: LogicalPath) -> NewBlock {
        NewBlock::new(BlockKind::ToolResult, self.turn, path).meta(Meta::of_call(self.call))
    }

    fn result_path(&self) -> LogicalPath {
        LogicalPath::result(self.turn, self.call)
    }

    fn payload(&mut self, payload: &Payload) {
        let mut block = self
            .block(self.result_path())
            .text(&payload.mime, payload.text.clone());
        if let Some(whole) = payload.whole {
            block.meta.file = Some(Box::new(FileMeta {
                content_digest: Some(whole.digest),
                size_bytes: Some(whole.size_bytes),
                ..FileMeta::default()
            }));
        }
        self.blocks.push(block);
    }

    fn artifact(&mut self, artifact: Artifact) {
        let Artifact {
            mut digest,
            content,
            file,
        } = self.numbered(artifact);
        let path = digest.artifact_path.clone();
        digest.tool_call_id = Some(self.call.clone());
        digest.edited |= self.is_another_version(&path, &file);
        if let (None, Content::Text(text)) = (digest.tokens, &content) {
            digest.tokens = Some(tokens::count(text));
        }
        self.digest(&digest);
        let block = self.block(path);
        let mut block = match content {
            Content::Text(text) | Content::Citing(text) => block.text(&digest.mime, text),
            Content::Blob(blob) => block.blob(&digest.mime, blob),
            Content::Bare => block.mime(&digest.mime),
            Content::Absent => return,
        };
        block.meta.sources_used = digest.sources_used.clone();
        block.meta.file = Some(Box::new(FileMeta {
            physical_path: file.physical_path.or_else(|| digest.physical_path.clone()),
            digest: Some(digest),
            ..file
        }));
        self.blocks.push(block);
    }

    /// The artifact with its citations in the pool's numbers.
    fn numbered(&self, mut artifact: Artifact) -> Artifact {
        let Content::Citing(text) = &artifact.content else {
            return artifact;
        };
        let sid = |row: Sid| self.beside.get(row.get() as usize - 1).copied();
        let text = citation::renumber(text, sid);
        let blob = Blob::of(text.as_bytes());
        artifact.digest.size_bytes = Some(blob.size_bytes);
        artifact.file.size_bytes = Some(blob.size_bytes);
        artifact.file.content_digest = Some(blob.digest);
        artifact.content = Content::Text(text.into());
        artifact
    }

    /// Whether these bytes replace others at this path. Only files have versions, and reading one again makes no
    /// new version of it.
    fn is_another_version(&self, path: &LogicalPath, file: &FileMeta) -> bool {
        let Some(earlier) = self.timeline.latest(path).filter(|_| path.physical().is_some()) else {
            return false;
        };
        let before = earlier.meta().file.as_ref().and_then(|file| file.content_digest);
        before.is_none() || before != file.content_digest
    }

    fn digest(&mut self, digest: &SafeDigest) {
        let mut block = self.block(self.result_path()).json(digest);
        block.meta.is_digest = true;
        self.blocks.push(block);
    }

    fn sources(&mut self, output: SourcesOutput, sids: &[Sid]) {
        let shown = &sids[..output.rows.len()];
        let set = SidSet::try_from_sids(shown.iter().copied()).unwrap_or_default();
        if set.is_empty() {
            return self.payload(&Payload::json(&Value::Array(Vec::new())));
        }
        let numbered = output.rows.into_iter().zip(shown);
        let rows: Vec<SourceRow> = numbered
            .map(|(row, &sid)| SourceRow {
                sid: Some(sid),
                ..row
            })
            .collect();
        let path = LogicalPath::sources(set);
        let mut digest = SafeDigest::new(
            path.clone(),
            "application/json",
            ArtifactKind::File,
            Visibility::Internal,
        );
        digest.tool_call_id = Some(self.call.clone());
        self.digest(&digest);
        let content = match output.form {
            SourcesForm::Search => search_text(&rows),
            SourcesForm::Fetch => fetch_text(&rows),
        };
        let block = self.block(path).json(&content);
        self.blocks.push(block);
    }

    /// Marks the first block with what holds for all of them.
    fn finish(
        mut self,
        error: Option<ShownError>,
        workspace: &[WorkspaceChange],
        (gate, server_meta): (Option<&GateNote>, Option<&Value>),
    ) -> Vec<NewBlock> {
        let count = self.blocks.len() as u32;
        if let Some(first) = self.blocks.first_mut() {
            first.meta.result_count = Some(count);
            first.meta.error = error.map(Box::new);
            first.meta.sources = self.sources.into();
            first.meta = std::mem::take(&mut first.meta).with_workspace(workspace);
            if let Some(gate) = gate {
                first.meta = std::mem::take(&mut first.meta).with_gate(gate);
            }
            if let Some(server_meta) = server_meta {
                first.meta = std::mem::take(&mut first.meta).with_server_meta(server_meta);
            }
        }
        self.blocks
    }
}

fn search_text(rows: &[SourceRow]) -> Value {
    let row = |row: &SourceRow| {
        let text = row.snippet(limits::SOURCE_SNIPPET_MAX_CHARS);
        serde_json::json!({ "sid": row.sid, "title": row.title, "url": row.url, "text": text })
    };
    Value::Array(rows.iter().map(row).collect())
}

fn fetch_text(rows: &[SourceRow]) -> Value {
    let entry = |row: &SourceRow| {
        let path = row.sid.map(|sid| LogicalPath::sources(sid.into()));
        let content = cut::cut(row.full_text(), limits::WEB_FETCH_SHOWN_MAX_CHARS, path.as_ref());
        (
            row.url.to_string(),
            serde_json::json!({ "sid": row.sid, "title": row.title, "content": content }),
        )
    };
    Value::Object(rows.iter().map(entry).collect())
}
