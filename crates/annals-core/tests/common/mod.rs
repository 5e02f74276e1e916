//! A conversation built block by block, and how tests print blocks and prompts: one line each.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses its own part of this"
)]

use std::fmt::Write as _;
use std::sync::Arc;

use annals_core::block::{ArtifactKind, Visibility};
use annals_core::block::{Blob, Block, BlockJson, Body, FileMeta, NewBlock, SafeDigest};
use annals_core::ids::{CallId, TurnId};
use annals_core::path::{LogicalPath, RelPath};
use annals_core::settings::CacheSettings;
use annals_core::time::Timestamp;
use annals_core::turn::opening::{self, AttachedFile, Opening};
use annals_core::turn::outcome::{Artifact, Content, Outcome, Output, Payload};
use annals_core::turn::round::{self, CutTo, NewAnswer, NewCall};
use annals_core::turn::{TurnEnd, TurnReport, TurnUsage};
use annals_core::view::View;
use annals_core::view::prompt::{AssistantPiece, Message, Piece, PieceBody, Prompt};
use annals_core::view::{CachePoint, Layout, Messages, ViewRenderer};
use serde_json::{Map, Value};

/// 2026-02-09T02:14:32.676425Z, when the examples of the format were written.
pub const START_MICROS: i64 = 1_770_603_272_676_425;

pub fn turn(name: &str) -> TurnId {
    TurnId::parse(&format!("turn_{name}")).unwrap()
}

pub fn call(name: &str) -> CallId {
    CallId::parse(name).unwrap()
}

pub fn path(text: &str) -> LogicalPath {
    LogicalPath::parse(text).unwrap()
}

/// A conversation in the making: blocks are sealed one second apart.
pub struct Scene {
    pub timeline: View,
    pub turn: TurnId,
    pub now: Timestamp,
    pub step: u32,
}

impl Scene {
    pub fn new() -> Self {
        let now = Timestamp::from_unix_micros(START_MICROS);
        Scene {
            timeline: View::default(),
            turn: turn("1"),
            now,
            step: 0,
        }
    }

    /// A conversation whose first turn has begun with this prompt.
    pub fn asked(prompt: &str) -> Self {
        let mut scene = Scene::new();
        scene.ask("1", prompt, Vec::new());
        scene
    }

    pub fn push(&mut self, block: NewBlock) -> Arc<Block> {
        let block = Arc::new(block.seal(self.timeline.next_seq(), self.now));
        self.timeline.push(block.clone()).unwrap();
        self.now = self.now.plus_micros(1_000_000);
        block
    }

    pub fn push_all(&mut self, blocks: impl IntoIterator<Item = NewBlock>) {
        blocks.into_iter().for_each(|block| {
            self.push(block);
        });
    }

    pub fn ask(&mut self, name: &str, prompt: &str, attachments: Vec<AttachedFile>) {
        self.turn = turn(name);
        self.step = 0;
        let opening = Opening {
            turn: self.turn.clone(),
            prompt: prompt.into(),
            attachments,
            instructions: None,
            agent: "annals, model script".into(),
            tools: None,
        };
        let blocks = opening.blocks(&self.timeline);
        self.push_all(blocks);
    }

    /// One answer of the model with these notes and calls.
    pub fn says(&mut self, notes: &str, calls: Vec<NewCall>) {
        self.answers(NewAnswer {
            notes: notes.into(),
            calls,
            ..NewAnswer::default()
        });
    }

    pub fn answers(&mut self, answer: NewAnswer) {
        self.step += 1;
        let blocks = round::answer_blocks(&self.turn, self.step, self.now, &answer);
        self.push_all(blocks);
    }

    /// What came of a call.
    pub fn returns(&mut self, id: &str, outcome: Outcome) {
        let blocks = round::outcome_blocks(&self.timeline, &self.turn, &call(id), outcome);
        self.push_all(blocks);
    }

    pub fn completes(&mut self, text: &str) {
        self.step += 1;
        let sources = annals_core::sources::citation::extract(text);
        self.push(opening::answer_block(&self.turn, self.step, text, sources));
    }

    pub fn ends(&mut self, end: TurnEnd) {
        let report = TurnReport {
            outcome: end,
            rounds: self.step,
            iterations: self.step,
            usage: TurnUsage::default(),
            usage_by_call: Vec::new(),
            elapsed_ms: 10,
            error: None,
        };
        self.push(opening::completion_block(&self.turn, &report));
    }

    /// `fi:` path of a file of the current turn.
    pub fn file(&self, name: &str) -> LogicalPath {
        LogicalPath::file(&self.turn, &RelPath::parse(name).unwrap())
    }

    /// A file of the current turn as a tool records it.
    pub fn artifact(&self, name: &str, mime: &str, content: Content) -> Artifact {
        artifact(self.file(name), mime, content)
    }

    /// A `react.write` call whose content is shown cut.
    pub fn write_call(&self, id: &str, name: &str, content: &str) -> NewCall {
        let mut new = new_call(
            id,
            "react.write",
            &[("path", name), ("channel", "canvas"), ("content", content)],
        );
        new.params.insert("kind".into(), "display".into());
        new.cut = Some(CutTo {
            param: "content".into(),
            see: self.file(name),
            is_code: false,
            whole: None,
        });
        new
    }

    /// What `react.write` returns for such a call.
    pub fn written(&self, name: &str, content: &str) -> Outcome {
        let mut artifact = self.artifact(name, "text/markdown", Content::Text(content.into()));
        artifact.digest.kind = ArtifactKind::Display;
        Outcome {
            artifacts: vec![artifact],
            ..Outcome::default()
        }
    }

    /// An exec call with its code.
    pub fn exec_call(&self, id: &str, code: &str) -> NewCall {
        let mut new = new_call(id, "exec_tools.execute_code_python", &[("code", code)]);
        new.cut = Some(CutTo {
            param: "code".into(),
            see: LogicalPath::code(&self.turn, &new.id),
            is_code: true,
            whole: None,
        });
        new
    }

    pub fn shape(&self) -> String {
        shape(self.timeline.blocks())
    }

    /// The shape of the blocks after the first `count`.
    pub fn shape_after(&self, count: usize) -> String {
        shape(&self.timeline.blocks()[count..])
    }

    pub fn prompt(&self, layout: Layout) -> Prompt {
        prompt(&self.timeline, layout)
    }

    /// Everything the model sees, as the `timeline` layout writes it.
    pub fn text(&self) -> String {
        self.timeline
            .parts(Layout::Timeline)
            .map(|part| part.text())
            .collect::<Vec<_>>()
            .join("\n\n")
    }

    pub fn chat(&self) -> String {
        lines(&self.prompt(Layout::Chat).messages)
    }
}

pub fn new_call(id: &str, tool: &str, params: &[(&str, &str)]) -> NewCall {
    let params: Map<String, Value> = params
        .iter()
        .map(|(name, value)| ((*name).to_owned(), Value::from(*value)))
        .collect();
    NewCall {
        id: call(id),
        tool: tool.into(),
        params,
        unreadable: None,
        cut: None,
    }
}

pub fn json_call(id: &str, tool: &str, params: Value) -> NewCall {
    let Value::Object(params) = params else {
        panic!("parameters are an object")
    };
    NewCall {
        id: call(id),
        tool: tool.into(),
        params,
        unreadable: None,
        cut: None,
    }
}

pub fn artifact(path: LogicalPath, mime: &str, content: Content) -> Artifact {
    let mut digest = SafeDigest::new(path, mime, ArtifactKind::File, Visibility::External);
    let mut file = FileMeta::default();
    match &content {
        Content::Text(text) => {
            digest.size_bytes = Some(text.len() as u64);
            file.content_digest = Some(Blob::of(text.as_bytes()).digest);
        }
        Content::Blob(blob) => {
            digest.size_bytes = Some(blob.size_bytes);
            file.content_digest = Some(blob.digest);
        }
        Content::Citing(_) | Content::Bare | Content::Absent => {}
    }
    Artifact {
        digest,
        content,
        file,
    }
}

/// The same artifact once its bytes are hosted.
pub fn hosted(mut artifact: Artifact) -> Artifact {
    artifact.file.hosted_uri = Some("annals-artifact:sha256/00".into());
    artifact.file.rn = Some("annals:t:p:u:c:turn_1:artifact:x".into());
    artifact.file.key = Some("ab/cd".into());
    artifact
}

pub fn attachment(turn: &TurnId, name: &str, mime: &str, body: Body) -> AttachedFile {
    let path = LogicalPath::attachment(turn, &RelPath::parse(name).unwrap());
    let mut digest = SafeDigest::new(path, mime, ArtifactKind::File, Visibility::External);
    digest.size_bytes = Some(match &body {
        Body::Text(text) => text.len() as u64,
        Body::Blob(blob) => blob.size_bytes,
        Body::Empty => 4_096,
    });
    AttachedFile {
        text: None,
        digest,
        body,
        file: FileMeta::default(),
        summary: None,
    }
}

pub fn payload(text: &str) -> Outcome {
    Outcome {
        output: Output::Payload(Payload::markdown(text)),
        ..Outcome::default()
    }
}

/// One line a block: place, type, path, mime, keys of the metadata, and the first words.
pub fn shape(blocks: &[Arc<Block>]) -> String {
    let mut text = String::new();
    for block in blocks {
        let json = BlockJson::from(&**block);
        let keys: Vec<&str> = json.meta.keys().map(String::as_str).collect();
        let path = json.path.as_ref().map_or("-", LogicalPath::as_str);
        let _ = write!(
            text,
            "{:>2} {} {path} {} {{{}}}",
            json.seq,
            json.kind,
            json.mime,
            keys.join(" ")
        );
        match (&json.text, &json.blob) {
            (Some(words), _) => {
                let _ = write!(text, " {:?}", first_words(words));
            }
            (None, Some(blob)) => {
                let _ = write!(text, " <{} bytes>", blob.size_bytes);
            }
            (None, None) => {}
        }
        text.push('\n');
    }
    text
}

pub fn first_words(text: &str) -> String {
    const MAX_CHARS: usize = 72;
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

pub fn prompt(timeline: &View, layout: Layout) -> Prompt {
    ViewRenderer::new(layout).prompt(timeline, &CacheSettings::default(), "".into(), [].into(), None)
}

/// One line a piece: role, kind, first words, and the cache point it closes.
pub fn lines(messages: &Messages) -> String {
    let mut text = String::new();
    let mut line = |label: &str, words: &str, point: Option<CachePoint>| {
        let mark = point.map_or(String::new(), |point| format!(" =>[{}]", point.number()));
        let _ = writeln!(text, "{label} {:?}{mark}", first_words(words));
    };
    for message in messages {
        match message {
            Message::User(pieces) => {
                pieces
                    .iter()
                    .for_each(|piece| line("user", &piece_words(piece), piece.cache_point));
            }
            Message::Assistant(pieces) => {
                for piece in pieces {
                    match piece {
                        AssistantPiece::Thinking { text, signature } => {
                            line(&format!("assistant/thinking({signature})"), text, None);
                        }
                        AssistantPiece::Text(piece) => {
                            line("assistant", &piece_words(piece), piece.cache_point)
                        }
                        AssistantPiece::Call(call) => {
                            line(
                                &format!("assistant/call {} {}", call.id, call.tool),
                                &call.arguments,
                                call.cache_point,
                            );
                        }
                    }
                }
            }
            Message::Tool(replies) => {
                for reply in replies {
                    let error = if reply.is_error { " error" } else { "" };
                    let label = format!("tool/{}{error}", reply.call);
                    reply
                        .pieces
                        .iter()
                        .for_each(|piece| line(&label, &piece_words(piece), piece.cache_point));
                }
            }
        }
    }
    text
}

fn piece_words(piece: &Piece) -> String {
    match &piece.body {
        PieceBody::Text(text) => text.to_string(),
        PieceBody::Media { mime, blob } => format!("<{mime}, {} bytes>", blob.size_bytes),
    }
}
