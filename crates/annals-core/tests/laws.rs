//! Laws of the timeline and its view, over generated conversations: parallel calls, several turns, writes, reads,
//! hides, prunes, summaries, attachments, calls left open, results without a count, types nobody knows.

mod common;

use std::collections::{HashMap, HashSet};

use annals_core::block::payload::{OfferedTool, ToolsTable};
use annals_core::block::{Blob, BlobDigest, Block, BlockJson, BlockKind, Body, MessageKind, Meta, NewBlock};
use annals_core::ids::CallId;
use annals_core::path::LogicalPath;
use annals_core::settings::{CacheSettings, SessionSettings};
use annals_core::sources::SourceRow;
use annals_core::timeline::HideReason;
use annals_core::turn::outcome::{Content, HideItem, Notice, Outcome, Output, SourcesForm, SourcesOutput};
use annals_core::turn::round::{self, NewAnswer, NewCall};
use annals_core::turn::{Budget, Offering, TurnEnd, next, recovery};
use annals_core::view::View;
use annals_core::view::compact::{self, Force};
use annals_core::view::prompt::{AssistantPiece, Message, Piece, PieceBody, Prompt};
use annals_core::view::why::{BreakCause, PrefixBreak, Requested};
use annals_core::view::{CachePoint, CachePoints, Layout, Messages, Place, Renderer, prune, why};
use common::{Scene, artifact, attachment, call, new_call, path, payload, turn};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

/// One thing that happens in a conversation.
#[derive(Clone, Debug)]
enum Event {
    Turn {
        attachments: u8,
    },
    Answer {
        thinking: Thinking,
        notes: bool,
        calls: Vec<Happens>,
        asides: u8,
    },
    Complete,
    /// A path that some block has, by number.
    Hide {
        target: u16,
        only_late: bool,
    },
    Prune {
        keep_turns: u8,
    },
    Compact {
        budget_tokens: u16,
        refused: bool,
        words: bool,
    },
    Stray(Stray),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Thinking {
    None,
    Unsigned,
    Signed,
}

/// What a call is and what becomes of it.
#[derive(Clone, Copy, Debug)]
enum Happens {
    Write {
        name: u8,
        size: u8,
    },
    Exec {
        files: u8,
    },
    /// Shows a path again at the tail.
    Read {
        target: u16,
    },
    Search {
        rows: u8,
    },
    Fails,
    Unreadable,
    /// Results of another hand, which do not say how many they are.
    Uncounted {
        results: u8,
    },
    /// No result before the next turn; everything after it in the answer is left open too.
    Abandoned,
}

#[derive(Clone, Copy, Debug)]
enum Stray {
    Unknown,
    SystemMessage,
    Feedback,
    LateResult,
    NoticeOfNoCall,
    EmptyNotes,
    /// Another system text and another tool, or the same ones again.
    Offer {
        system: bool,
        tool: bool,
    },
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        4 => (0..4_u8, 0..60_u8).prop_map(|(name, size)| Happens::Write { name, size }),
        2 => (0..3_u8).prop_map(|files| Happens::Exec { files }),
        2 => any::<u16>().prop_map(|target| Happens::Read { target }),
        1 => (0..3_u8).prop_map(|rows| Happens::Search { rows }),
        1 => Just(Happens::Fails),
        1 => Just(Happens::Unreadable),
        1 => (1..4_u8).prop_map(|results| Happens::Uncounted { results }),
        1 => Just(Happens::Abandoned),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let thinking = prop_oneof![
        Just(Thinking::None),
        Just(Thinking::Unsigned),
        Just(Thinking::Signed)
    ];
    let stray = prop_oneof![
        Just(Stray::Unknown),
        Just(Stray::SystemMessage),
        Just(Stray::Feedback),
        Just(Stray::LateResult),
        Just(Stray::NoticeOfNoCall),
        Just(Stray::EmptyNotes),
        any::<(bool, bool)>().prop_map(|(system, tool)| Stray::Offer { system, tool }),
    ];
    prop_oneof![
        2 => (0..3_u8).prop_map(|attachments| Event::Turn { attachments }),
        8 => (thinking, any::<bool>(), prop::collection::vec(happens(), 1..4), 0..4_u8)
            .prop_map(|(thinking, notes, calls, asides)| Event::Answer { thinking, notes, calls, asides }),
        1 => Just(Event::Complete),
        3 => (any::<u16>(), any::<bool>()).prop_map(|(target, only_late)| Event::Hide { target, only_late }),
        1 => (1..4_u8).prop_map(|keep_turns| Event::Prune { keep_turns }),
        2 => (0..3_000_u16, any::<bool>(), any::<bool>())
            .prop_map(|(budget_tokens, refused, words)| Event::Compact { budget_tokens, refused, words }),
        1 => stray.prop_map(Event::Stray),
    ]
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    prop::collection::vec(event(), 1..14)
}

/// Plays events into a scene and tells a witness of every block.
struct Play<'a> {
    scene: Scene,
    turns: u32,
    calls: u32,
    strays: u32,
    on_block: &'a mut dyn FnMut(&View) -> Result<(), TestCaseError>,
}

type Played = Result<(), TestCaseError>;

fn play(events: &[Event], on_block: &mut dyn FnMut(&View) -> Played) -> Result<View, TestCaseError> {
    let mut play = Play {
        scene: Scene::new(),
        turns: 0,
        calls: 0,
        strays: 0,
        on_block,
    };
    play.turn(0)?;
    for event in events {
        play.event(event)?;
    }
    Ok(play.scene.timeline)
}

impl Play<'_> {
    fn push_all(&mut self, blocks: impl IntoIterator<Item = NewBlock>) -> Played {
        for block in blocks {
            self.scene.push(block);
            (self.on_block)(&self.scene.timeline)?;
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) -> Played {
        let timeline = &self.scene.timeline;
        match event {
            Event::Turn { attachments } => self.turn(*attachments),
            Event::Answer {
                thinking,
                notes,
                calls,
                asides,
            } => self.answer(*thinking, *notes, calls, *asides),
            Event::Complete => self.complete(),
            Event::Hide { target, only_late } => {
                let Some(path) = self.target(*target) else {
                    return Ok(());
                };
                let middle = annals_core::ids::Seq::try_new(timeline.blocks().len() as u64 / 2 + 1).unwrap();
                let from_seq = only_late.then_some(middle);
                self.hide(
                    HideReason::Hide,
                    vec![HideItem {
                        path,
                        replacement: "gone".into(),
                        from_seq,
                    }],
                )
            }
            Event::Prune { keep_turns } => {
                let settings = SessionSettings {
                    keep_recent_turns: u32::from(*keep_turns),
                    keep_recent_intact_turns: 1,
                    cache_truncation_max_text_chars: 40,
                    cache_truncation_max_field_chars: 20,
                    ..SessionSettings::default()
                };
                let plan = prune::plan(timeline, &settings, self.scene.now.plus_micros(400_000_000));
                plan.map_or(Ok(()), |plan| self.hide(HideReason::Ttl, plan.items))
            }
            Event::Compact {
                budget_tokens,
                refused,
                words,
            } => self.compact(*budget_tokens, *refused, *words),
            Event::Stray(stray) => self.stray(*stray),
        }
    }

    fn turn(&mut self, attachments: u8) -> Played {
        self.turns += 1;
        self.scene.turn = turn(&self.turns.to_string());
        self.scene.step = 0;
        let bodies = [
            (
                "a.txt",
                "text/plain",
                Body::Text("attached words ".repeat(20).into()),
            ),
            (
                "b.png",
                "image/png",
                Body::from(Blob {
                    size_bytes: 900_000,
                    ..Blob::of(b"png")
                }),
            ),
            ("c.zip", "application/zip", Body::Empty),
        ];
        let files = bodies.into_iter().take(attachments.into());
        let opening = annals_core::turn::opening::Opening {
            turn: self.scene.turn.clone(),
            prompt: format!("prompt number {}", self.turns),
            attachments: files
                .map(|(name, mime, body)| attachment(&self.scene.turn, name, mime, body))
                .collect(),
            instructions: None,
            agent: "annals".into(),
            tools: (self.turns % 2 == 1)
                .then(|| Offering::new("Be brief.".into(), [].into()).table().clone()),
        };
        let blocks = opening.blocks(&self.scene.timeline);
        self.push_all(blocks)
    }

    fn answer(&mut self, thinking: Thinking, notes: bool, calls: &[Happens], asides: u8) -> Played {
        self.scene.step += 1;
        let new: Vec<NewCall> = calls.iter().map(|happens| self.new_call(*happens)).collect();
        let ids: Vec<CallId> = new.iter().map(|call| call.id.clone()).collect();
        let answer = NewAnswer {
            thinking: (thinking != Thinking::None).then(|| "hm ".repeat(9)),
            signature: (thinking == Thinking::Signed).then(|| "sig".into()),
            notes: if notes { "so I say".into() } else { String::new() },
            calls: new,
        };
        let blocks = round::answer_blocks(&self.scene.turn, self.scene.step, self.scene.now, &answer);
        self.push_all(blocks)?;
        if asides & 1 != 0 {
            let last = ids.last().expect("an answer has calls").clone();
            self.push_all([round::notice_block(
                &self.scene.turn,
                &last,
                &Notice::new("renamed", "now you know"),
            )])?;
        }
        for (id, happens) in ids.iter().zip(calls) {
            if matches!(happens, Happens::Abandoned) {
                return self.turn(0);
            }
            if asides & 2 != 0 {
                self.stray(Stray::SystemMessage)?;
            }
            let blocks = self.results(id, *happens);
            self.push_all(blocks)?;
        }
        Ok(())
    }

    fn new_call(&mut self, happens: Happens) -> NewCall {
        self.calls += 1;
        let id = format!("c{}", self.calls);
        match happens {
            Happens::Write { name, size } => {
                self.scene
                    .write_call(&id, &format!("{name}.md"), &content(&id, size))
            }
            Happens::Exec { .. } => self.scene.exec_call(&id, &"print(1)\n".repeat(30)),
            Happens::Unreadable => NewCall {
                unreadable: Some("{oops".into()),
                ..new_call(&id, "react.read", &[])
            },
            _ => new_call(&id, "react.read", &[("paths", "x")]),
        }
    }

    fn results(&mut self, id: &CallId, happens: Happens) -> Vec<NewBlock> {
        let scene = &self.scene;
        let outcome = match happens {
            Happens::Write { name, size } => {
                scene.written(&format!("{name}.md"), &content(id.as_str(), size))
            }
            Happens::Exec { files } => {
                let file = |n: u8| match n {
                    0 => scene.artifact("out.txt", "text/plain", Content::Text("out".into())),
                    1 => scene.artifact("out.png", "image/png", Content::Blob(Blob::of(b"png"))),
                    _ => scene.artifact("out.zip", "application/zip", Content::Bare),
                };
                Outcome {
                    artifacts: (0..files).map(file).collect(),
                    ..payload("Succeeded")
                }
            }
            Happens::Read { target } => {
                let shown = self.target(target).and_then(|path| {
                    let text = scene.timeline.latest(&path)?.text()?.to_owned();
                    Some(artifact(path, "text/plain", Content::Text(text.into())))
                });
                Outcome {
                    artifacts: shown.into_iter().collect(),
                    ..payload("{\"paths\":[]}")
                }
            }
            Happens::Search { rows } => {
                let row = |n: u8| SourceRow::web(&format!("https://example.com/{n}"), "title", "snippet");
                let output = Output::Sources(SourcesOutput {
                    rows: (0..rows).map(row).collect(),
                    form: SourcesForm::Search,
                });
                Outcome {
                    output,
                    ..Outcome::default()
                }
            }
            Happens::Fails | Happens::Unreadable => Outcome {
                notices: vec![Notice::new("protocol_violation.unknown_tool", "no such tool")],
                ..recovery::failed(annals_core::code::Code::UnknownTool, "no such tool".into())
            },
            Happens::Uncounted { .. } | Happens::Abandoned => scene.written("u.md", "uncounted"),
        };
        let mut blocks = round::outcome_blocks(&scene.timeline, &scene.turn, id, outcome);
        if let Happens::Uncounted { results } = happens {
            blocks.truncate(results.into());
            blocks.iter_mut().for_each(|block| block.meta.result_count = None);
        }
        blocks
    }

    fn complete(&mut self) -> Played {
        self.scene.step += 1;
        let answer =
            annals_core::turn::opening::answer_block(&self.scene.turn, self.scene.step, "the answer", vec![]);
        self.push_all([answer])?;
        self.scene.ends(TurnEnd::Complete);
        (self.on_block)(&self.scene.timeline)?;
        self.turn(0)
    }

    fn hide(&mut self, reason: HideReason, items: Vec<HideItem>) -> Played {
        let block = round::hide_block(&self.scene.timeline, &self.scene.turn, reason, items);
        self.push_all(block)
    }

    fn compact(&mut self, budget_tokens: u16, refused: bool, words: bool) -> Played {
        let force = if refused { Force::Refused } else { Force::Budget };
        let timeline = &self.scene.timeline;
        let Some(plan) = compact::plan(timeline, budget_tokens.into(), force) else {
            return Ok(());
        };
        let (before, tokens) = (calls_and_replies(timeline), timeline.view_tokens());
        let first_kept = timeline.block(plan.first_kept).unwrap().kind.clone();
        prop_assert!(!plan.request(timeline, 1_000).is_empty());
        let long = "many words of a model that likes to talk ".repeat(300);
        let block = plan.block(&self.scene.turn, words.then_some(long.as_str()));
        self.push_all([block])?;
        self.hide(HideReason::Ttl, plan.hides)?;
        let timeline = &self.scene.timeline;
        prop_assert!(
            timeline.view_tokens() < tokens,
            "{} tokens became {}",
            tokens,
            timeline.view_tokens()
        );
        let after = calls_and_replies(timeline);
        prop_assert!(
            after
                .calls
                .iter()
                .all(|call| !before.replies.contains(call) || after.replies.contains(call))
        );
        prop_assert!(
            after
                .replies
                .iter()
                .all(|call| !before.calls.contains(call) || after.calls.contains(call))
        );
        prop_assert!(
            !matches!(first_kept, BlockKind::ToolResult | BlockKind::Notice),
            "cut at {first_kept}"
        );
        // The model may have hidden its own prompt; even then the view says where it is.
        let prompt = LogicalPath::user_prompt(&self.scene.turn);
        prop_assert!(
            timeline
                .parts(Layout::Timeline)
                .any(|part| part.text().contains(prompt.as_str()))
        );
        Ok(())
    }

    fn stray(&mut self, stray: Stray) -> Played {
        self.strays += 1;
        let (t, n) = (self.scene.turn.clone(), self.strays);
        let named = |kind: BlockKind, name: &str| {
            let path = path(&format!("ar:{t}.{name}.{n}"));
            NewBlock::new(kind, &t, path).text("text/plain", format!("stray {n}"))
        };
        let late = self
            .scene
            .timeline
            .blocks()
            .iter()
            .rev()
            .find(|block| block.kind == BlockKind::ToolCall);
        let block = match stray {
            Stray::Unknown => named(BlockKind::Other("x.acme.score".into()), "x.acme"),
            Stray::SystemMessage => named(BlockKind::SystemMessage, "system.message"),
            Stray::Feedback => {
                let feedback = named(BlockKind::StageFeedback, "stage.feedback");
                NewBlock {
                    turn: turn("1"),
                    ..feedback
                }
            }
            Stray::NoticeOfNoCall => round::notice_block(&t, &call("nobody"), &Notice::new("odd", "words")),
            Stray::Offer { system, tool } => offer(system, tool).block(&t, n),
            Stray::EmptyNotes => NewBlock {
                body: Body::Text(" ".into()),
                ..named(BlockKind::Notes, "react.notes")
            },
            Stray::LateResult => {
                let Some(id) = late.and_then(|block| block.meta().call.clone()) else {
                    return Ok(());
                };
                let mut result = NewBlock::new(BlockKind::ToolResult, &t, LogicalPath::result(&t, &id))
                    .text("text/plain", "late")
                    .meta(Meta::of_call(&id));
                result.meta.result_count = (n % 2 == 0).then_some(3);
                result
            }
        };
        self.push_all([block])
    }

    /// Some path that a block has.
    fn target(&self, target: u16) -> Option<LogicalPath> {
        let blocks = self.scene.timeline.blocks();
        blocks
            .get(usize::from(target) % blocks.len().max(1))?
            .path
            .clone()
    }
}

fn content(id: &str, size: u8) -> String {
    format!("content of {id}\n").repeat(usize::from(size).max(1))
}

struct Seen {
    calls: HashSet<CallId>,
    replies: HashSet<CallId>,
}

fn calls_and_replies(timeline: &View) -> Seen {
    let mut seen = Seen {
        calls: HashSet::new(),
        replies: HashSet::new(),
    };
    for part in timeline.parts(Layout::Timeline) {
        match part.place {
            Place::Call { id, .. } => seen.calls.insert(id),
            Place::Reply { call } => seen.replies.insert(call),
            Place::User | Place::Assistant | Place::Thinking { .. } => false,
        };
    }
    seen
}

/// The bytes of messages with their boundaries, whole or up to the tail cache point.
struct Bytes {
    bytes: Vec<u8>,
    up_to_tail: usize,
}

impl Bytes {
    fn of(messages: &Messages) -> Self {
        let mut flat = Bytes {
            bytes: Vec::new(),
            up_to_tail: 0,
        };
        for message in messages {
            match message {
                Message::User(pieces) => {
                    flat.push(b"\x01user");
                    pieces.iter().for_each(|piece| flat.piece(piece));
                }
                Message::Assistant(pieces) => {
                    flat.push(b"\x01assistant");
                    for piece in pieces {
                        match piece {
                            AssistantPiece::Thinking { text, signature } => {
                                flat.push(format!("\x02think {signature}\x03{text}").as_bytes());
                            }
                            AssistantPiece::Text(piece) => flat.piece(piece),
                            AssistantPiece::Call(call) => {
                                flat.push(
                                    format!("\x02call {} {}\x03{}", call.id, call.tool, call.arguments)
                                        .as_bytes(),
                                );
                                flat.close(call.cache_point);
                            }
                        }
                    }
                }
                Message::Tool(replies) => {
                    flat.push(b"\x01tool");
                    for reply in replies {
                        flat.push(format!("\x02reply {} {}", reply.call, reply.is_error).as_bytes());
                        reply.pieces.iter().for_each(|piece| flat.piece(piece));
                    }
                }
            }
        }
        flat
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn piece(&mut self, piece: &Piece) {
        match &piece.body {
            PieceBody::Text(text) => self.push(format!("\x02text\x03{text}").as_bytes()),
            PieceBody::Media { mime, blob } => self.push(format!("\x02{mime}\x03{}", blob.digest).as_bytes()),
        }
        self.close(piece.cache_point);
    }

    fn close(&mut self, point: Option<CachePoint>) {
        if point == Some(CachePoint::Tail) {
            self.up_to_tail = self.bytes.len();
        }
    }
}

fn marks(prompt: &Prompt) -> Vec<CachePoint> {
    let mut marks = Vec::new();
    for message in &prompt.messages {
        match message {
            Message::User(pieces) => marks.extend(pieces.iter().filter_map(|piece| piece.cache_point)),
            Message::Tool(replies) => {
                marks.extend(
                    replies
                        .iter()
                        .flat_map(|reply| &reply.pieces)
                        .filter_map(|piece| piece.cache_point),
                );
            }
            Message::Assistant(pieces) => marks.extend(pieces.iter().filter_map(|piece| match piece {
                AssistantPiece::Text(piece) => piece.cache_point,
                AssistantPiece::Call(call) => call.cache_point,
                AssistantPiece::Thinking { .. } => None,
            })),
        }
    }
    marks
}

/// Every call has exactly one reply, in the next message; every reply has its call; nobody says nothing.
fn check_exchanges(messages: &Messages) -> Played {
    prop_assert!(
        matches!(messages.get(0), Some(Message::User(_))),
        "a prompt begins with the person"
    );
    for (at, message) in messages.iter().enumerate() {
        let next = messages.get(at + 1);
        match message {
            Message::User(pieces) => {
                prop_assert!(
                    !pieces.is_empty() && !matches!(next, Some(Message::User(_) | Message::Tool(_)))
                );
            }
            Message::Assistant(pieces) => {
                let calls: Vec<&CallId> = pieces
                    .iter()
                    .filter_map(|piece| match piece {
                        AssistantPiece::Call(call) => Some(&call.id),
                        AssistantPiece::Text(_) | AssistantPiece::Thinking { .. } => None,
                    })
                    .collect();
                let replies: Vec<&CallId> = match next {
                    Some(Message::Tool(replies)) => replies.iter().map(|reply| &reply.call).collect(),
                    _ => Vec::new(),
                };
                prop_assert_eq!(calls, replies);
                prop_assert!(!pieces.is_empty() && !matches!(next, Some(Message::Assistant(_))));
            }
            Message::Tool(replies) => {
                prop_assert!(
                    at > 0 && matches!(messages[at - 1], Message::Assistant(_)),
                    "orphaned replies"
                );
                prop_assert!(
                    replies.iter().all(|reply| !reply.pieces.is_empty()),
                    "an empty reply"
                );
            }
        }
        let texts: Vec<&Piece> = match message {
            Message::User(pieces) => pieces.iter().collect(),
            Message::Tool(replies) => replies.iter().flat_map(|reply| &reply.pieces).collect(),
            Message::Assistant(pieces) => pieces
                .iter()
                .filter_map(|piece| {
                    if let AssistantPiece::Text(piece) = piece {
                        Some(piece)
                    } else {
                        None
                    }
                })
                .collect(),
        };
        for piece in texts {
            prop_assert!(
                !matches!(&piece.body, PieceBody::Text(text) if text.trim().is_empty()),
                "a text of space"
            );
        }
    }
    Ok(())
}

/// One of four offers.
fn offer(system: bool, tool: bool) -> ToolsTable {
    let digest = |other: bool| BlobDigest::of(&[u8::from(other)]);
    ToolsTable {
        tools: vec![OfferedTool {
            name: "a.tool".to_owned(),
            digest: digest(tool),
        }],
        definitions: digest(tool),
        system: digest(system),
    }
}

fn changes_the_prefix(block: &Block) -> bool {
    matches!(block.kind, BlockKind::TimelineHide | BlockKind::RangeSummary)
        || block.meta().message_kind() == Some(MessageKind::CacheTtlPruned)
}

fn render(timeline: &View, layout: Layout) -> Prompt {
    Renderer::new(layout).prompt(timeline, &CacheSettings::default(), "".into(), [].into(), None)
}

/// Few cases, because each is a whole conversation looked at after every block; `PROPTEST_CASES` asks for more.
fn config() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: asked.unwrap_or(32),
        max_shrink_iters: 5_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_is_rendered_up_to_the_tail_stays_a_prefix(events in events()) {
        for layout in [Layout::Chat, Layout::Timeline] {
            let mut renderer = Renderer::new(layout);
            let mut before: Vec<u8> = Vec::new();
            play(&events, &mut |timeline| {
                let prompt = renderer.prompt(timeline, &CacheSettings::default(), "".into(), [].into(), None);
                let now = Bytes::of(&prompt.messages);
                let last = timeline.blocks().last().unwrap();
                prop_assert!(
                    changes_the_prefix(last) || now.bytes.starts_with(&before),
                    "{layout:?} after block {} {}:\n{}\nbecame\n{}",
                    last.seq, last.kind, String::from_utf8_lossy(&before), String::from_utf8_lossy(&now.bytes),
                );
                before = now.bytes[..now.up_to_tail].to_vec();
                Ok(())
            })?;
        }
    }

    #[test]
    fn where_and_why_a_prefix_broke_is_told(events in events()) {
        for layout in [Layout::Chat, Layout::Timeline] {
            let mut before = View::default();
            play(&events, &mut |timeline| {
                let of = |view, layout| Requested { view, layout };
                let report = why::compare(of(&before, layout), of(timeline, layout));
                let relaid = why::compare(of(timeline, Layout::Chat), of(timeline, Layout::Timeline));
                let is_layout = |broke: &PrefixBreak| matches!(broke.cause, Some(BreakCause::Layout { layout: Layout::Timeline }));
                prop_assert!(relaid.broke.as_ref().is_none_or(is_layout), "{:?}", relaid);
                let last = timeline.blocks().last().unwrap();
                let is_new_offer = before.tools().is_some() && before.tools() != timeline.tools();
                prop_assert!(report.broke.is_none() || is_new_offer || changes_the_prefix(last), "{:?}", report);
                let cause = report.broke.as_ref().and_then(|broke| broke.cause.as_ref());
                prop_assert_eq!(matches!(cause, Some(BreakCause::Offer { seq, .. }) if *seq == last.seq), is_new_offer);
                if let Some(broke) = &report.broke {
                    prop_assert!(broke.block_seq < last.seq);
                    prop_assert!(broke.again_tokens <= broke.lost_tokens.min(report.new_tokens), "{:?}", report);
                    prop_assert_eq!(broke.cause.is_some(), last.kind != BlockKind::SystemMessage);
                }
                before = timeline.clone();
                Ok(())
            })?;
        }
    }

    #[test]
    fn the_digest_of_a_prompt_changes_with_what_is_read_and_with_nothing_else(events in events()) {
        let mut digests: HashMap<BlobDigest, Vec<u8>> = HashMap::new();
        for layout in [Layout::Chat, Layout::Timeline] {
            play(&events, &mut |timeline| {
                let prompt = render(timeline, layout);
                prop_assert_eq!(prompt.digest(), render(&timeline.at(timeline.tail().unwrap()), layout).digest());
                let bytes = Bytes::of(&prompt.messages).bytes;
                let same = digests.entry(prompt.digest()).or_insert_with(|| bytes.clone());
                prop_assert_eq!(&*same, &bytes);
                Ok(())
            })?;
        }
    }

    #[test]
    fn a_renderer_that_follows_equals_one_that_begins_now(events in events(), every in 1..5_usize) {
        for layout in [Layout::Chat, Layout::Timeline] {
            let mut follows = Renderer::new(layout);
            play(&events, &mut |timeline| {
                if timeline.blocks().len().is_multiple_of(every) {
                    let prompt = follows.prompt(timeline, &CacheSettings::default(), "".into(), [].into(), None);
                    prop_assert_eq!(prompt, render(timeline, layout));
                }
                Ok(())
            })?;
        }
    }

    #[test]
    fn every_call_has_its_reply_and_every_reply_its_call(events in events()) {
        play(&events, &mut |timeline| {
            if timeline.open_calls().next().is_none() {
                check_exchanges(&render(timeline, Layout::Chat).messages)?;
                let seen = calls_and_replies(timeline);
                prop_assert!(seen.calls.is_subset(&seen.replies), "{:?} have no reply", seen.calls.difference(&seen.replies));
            }
            Ok(())
        })?;
    }

    #[test]
    fn what_is_hidden_pruned_or_summarised_is_still_found_whole(events in events()) {
        let timeline = play(&events, &mut |_| Ok(()))?;
        let is_digest = |block: &Block| block.kind == BlockKind::UserAttachmentMeta || block.meta().is_digest;
        let mut contents: HashMap<LogicalPath, Vec<u64>> = HashMap::new();
        for block in timeline.blocks().iter().filter(|block| !is_digest(block)) {
            if let Some(path) = &block.path {
                contents.entry(path.clone()).or_default().push(block.seq.get());
            }
        }
        for (path, mut seqs) in contents {
            seqs.reverse();
            let found: Vec<u64> = timeline.versions(&path).map(|block| block.seq.get()).collect();
            prop_assert_eq!(&found, &seqs, "{}", path);
            prop_assert_eq!(timeline.latest(&path).map(|block| block.seq.get()), seqs.first().copied());
            let visible = timeline.visible_content(&path);
            prop_assert!(visible.is_none_or(|block| timeline.is_visible(block)));
        }
    }

    #[test]
    fn a_cache_mark_is_never_lost(events in events()) {
        let settings = CacheSettings::default();
        for layout in [Layout::Chat, Layout::Timeline] {
            play(&events, &mut |timeline| {
                let marks = marks(&render(timeline, layout));
                let points = CachePoints::of(timeline, &settings);
                for point in [CachePoint::PrevTurn, CachePoint::PreTail, CachePoint::Tail] {
                    let count = marks.iter().filter(|mark| **mark == point).count();
                    let coincides = marks.iter().any(|mark| *mark > point);
                    prop_assert!(count <= 1);
                    prop_assert_eq!(count == 1 || coincides, points.has(point) || coincides, "{:?} of {:?}", point, marks);
                }
                Ok(())
            })?;
        }
    }

    #[test]
    fn folding_at_once_equals_folding_one_by_one_and_any_moment_can_be_seen_again(
        events in events(),
        at in any::<prop::sample::Index>(),
    ) {
        let mut moments = Vec::new();
        let whole = play(&events, &mut |timeline| {
            let open: Vec<CallId> = timeline.open_calls().map(|call| call.id.clone()).collect();
            moments.push((render(timeline, Layout::Chat), timeline.view_tokens(), open, timeline.clone()));
            Ok(())
        })?;
        let folded = View::fold(whole.blocks().iter().cloned()).unwrap();
        let moment = at.index(moments.len());
        let block = whole.blocks()[moment].seq;
        for (seen, again) in [(moments.len() - 1, folded), (moment, whole.at(block))] {
            let (prompt, tokens, open, timeline) = &moments[seen];
            prop_assert_eq!(prompt, &render(&again, Layout::Chat));
            prop_assert_eq!(*tokens, again.view_tokens());
            prop_assert_eq!(open, &again.open_calls().map(|call| call.id.clone()).collect::<Vec<_>>());
            prop_assert_eq!(timeline.turns(), again.turns());
            prop_assert_eq!(timeline.pool(), again.pool());
        }
    }

    #[test]
    fn the_view_costs_what_its_parts_cost(events in events()) {
        play(&events, &mut |timeline| {
            let parts: u64 = timeline.parts(Layout::Timeline).map(|part| u64::from(part.tokens)).sum();
            let signed = timeline.blocks().iter().any(|block| block.meta().get("signature").is_some());
            // Signed reasoning goes back to the vendor only, and an empty block says nothing: both still count.
            prop_assert!(parts <= timeline.view_tokens());
            let bare = timeline.blocks().iter().any(|block| block.body == Body::Empty && block.kind == BlockKind::UserAttachment);
            prop_assert!(signed || bare || parts == timeline.view_tokens(), "{} of {}", parts, timeline.view_tokens());
            Ok(())
        })?;
    }

    #[test]
    fn the_next_step_follows_from_the_blocks_alone(events in events(), window_tokens in 0..4_000_u32, max_iterations in 1..5_u32) {
        let budget = Budget { window_tokens, overhead_tokens: 100, max_iterations };
        play(&events, &mut |timeline| {
            let folded = View::fold(timeline.blocks().iter().cloned()).unwrap();
            prop_assert_eq!(next(timeline, &budget), next(&folded, &budget));
            Ok(())
        })?;
    }

    #[test]
    fn every_block_survives_its_json_form(events in events()) {
        let timeline = play(&events, &mut |_| Ok(()))?;
        for block in timeline.blocks() {
            let json = serde_json::to_string(&BlockJson::from(&**block)).unwrap();
            let (again, bytes) = serde_json::from_str::<BlockJson>(&json).unwrap().into_block().unwrap();
            prop_assert_eq!(&again, &**block);
            prop_assert_eq!(bytes, None);
        }
    }
}
