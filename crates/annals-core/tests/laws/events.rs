//! Conversations as lists of events, generated, and played into a timeline block by block.

use annals_core::block::payload::{OfferedTool, ToolsTable};
use annals_core::block::{Blob, BlobDigest, BlockKind, Body, Meta, NewBlock};
use annals_core::ids::CallId;
use annals_core::path::LogicalPath;
use annals_core::settings::SessionSettings;
use annals_core::sources::SourceRow;
use annals_core::timeline::HideReason;
use annals_core::turn::outcome::{Content, HideItem, Notice, Outcome, Output, SourcesForm, SourcesOutput};
use annals_core::turn::round::{self, NewAnswer, NewCall};
use annals_core::turn::{Offering, TurnEnd, recovery};
use annals_core::view::View;
use annals_core::view::compact::{self, Force};
use annals_core::view::{Layout, prune};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::common::{Scene, artifact, attachment, call, new_call, path, payload, turn};
use crate::sent::calls_and_replies;

/// One thing that happens in a conversation.
#[derive(Clone, Debug)]
pub(crate) enum Event {
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
pub(crate) enum Thinking {
    None,
    Unsigned,
    Signed,
}

/// What a call is and what becomes of it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Happens {
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
pub(crate) enum Stray {
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

pub(crate) fn events() -> impl Strategy<Value = Vec<Event>> {
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

pub(crate) type Played = Result<(), TestCaseError>;

pub(crate) fn play(
    events: &[Event],
    on_block: &mut dyn FnMut(&View) -> Played,
) -> Result<View, TestCaseError> {
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

fn content(id: &str, size: u8) -> String {
    format!("content of {id}\n").repeat(usize::from(size).max(1))
}
