//! A timeline drawn for people: turns, their rounds, the blocks of each, what they cost.

use annals::core::block::{Block, BlockKind, Body};
use annals::core::ids::{CallId, TurnId};
use annals::core::path::PathKind;
use annals::core::timeline::Turn;
use annals::core::turn::TurnEnd;
use annals::core::view::View;
use serde_json::Value;

use crate::citations::{Citations, Source};
use crate::paint::{self, BAD, BOLD, DIM, GOOD, NAME, WARN, styled};
use crate::screen_text::ScreenText;
use crate::shown;

const GIST_MAX_CHARS: usize = 56;

/// What hangs below a turn: a block of its own, or a round.
enum Branch<'a> {
    Block(&'a Block),
    Round { call: CallId, blocks: Vec<&'a Block> },
}

/// The conversation, or one of its turns.
pub(crate) fn draw(name: &str, timeline: &View, only: Option<&TurnId>) -> ScreenText {
    let blocks = timeline.blocks().len() as u64;
    let mut out = shown!(
        "{}  {}\n",
        styled(BOLD, name),
        styled(
            DIM,
            format!(
                "{} turns · {} blocks · {} tokens in view",
                timeline.turns().len(),
                paint::number(blocks),
                paint::number(timeline.view_tokens())
            )
        )
    );
    for turn in timeline
        .turns()
        .iter()
        .filter(|turn| only.is_none_or(|only| *only == turn.id))
    {
        draw_turn(&mut out, timeline, turn);
    }
    for malformed in timeline.malformed().iter().filter(|_| only.is_none()) {
        out.push(shown!("{} {}\n", styled(WARN, "!"), malformed));
    }
    out
}

fn draw_turn(out: &mut ScreenText, timeline: &View, turn: &Turn) {
    let blocks: Vec<&Block> = timeline
        .blocks()
        .iter()
        .map(|block| &**block)
        .filter(|block| block.turn == turn.id)
        .collect();
    out.push(shown!("{} {}\n", mark(turn.end), headline(timeline, turn)));
    let sources = sources(timeline, &blocks);
    let branches = branches(blocks);
    let last = branches.len().saturating_sub(1);
    for (at, branch) in branches.iter().enumerate() {
        let (fork, rail) = if at == last {
            ("└─", "   ")
        } else {
            ("├─", "│  ")
        };
        let (fork, rail) = (styled(DIM, fork), styled(DIM, rail));
        match branch {
            Branch::Block(block) => {
                out.push(shown!("{} {}\n", fork, line(timeline, block)));
            }
            Branch::Round { call, blocks } => {
                out.push(shown!("{} {}\n", fork, round(timeline, call, blocks)));
                draw_round(out, timeline, &rail, blocks);
            }
        }
    }
    out.push(sources);
}

/// What the answer of a turn cites.
fn sources(timeline: &View, blocks: &[&Block]) -> ScreenText {
    let answer = blocks
        .iter()
        .rev()
        .find(|block| block.kind == BlockKind::AssistantCompletion);
    let mut citations = Citations::default();
    citations.plain(answer.and_then(|block| block.text()).unwrap_or_default());
    citations.list("   ", |sid| Source::find(timeline.pool(), sid))
}

fn draw_round(out: &mut ScreenText, timeline: &View, rail: &ScreenText, blocks: &[&Block]) {
    let last = blocks.len().saturating_sub(1);
    for (at, block) in blocks.iter().enumerate() {
        let fork = styled(DIM, if at == last { "└─" } else { "├─" });
        out.push(shown!("{}{} {}\n", rail, fork, line(timeline, block)));
    }
}

/// Blocks by call, in the order in which each call first appears.
fn branches(blocks: Vec<&Block>) -> Vec<Branch<'_>> {
    let mut branches: Vec<Branch<'_>> = Vec::new();
    for block in blocks {
        let Some(call) = call_of(block) else {
            branches.push(Branch::Block(block));
            continue;
        };
        let round = branches.iter_mut().find_map(|branch| match branch {
            Branch::Round { call: there, blocks } if *there == call => Some(blocks),
            _ => None,
        });
        match round {
            Some(blocks) => blocks.push(block),
            None => branches.push(Branch::Round {
                call,
                blocks: vec![block],
            }),
        }
    }
    branches
}

/// The call a block belongs to. What the model said beside a call names it in its path only.
fn call_of(block: &Block) -> Option<CallId> {
    let from_path = || {
        let PathKind::Named { name, .. } = block.path.as_ref()?.kind() else {
            return None;
        };
        CallId::parse(name.strip_prefix("react.notes.")?).ok()
    };
    block.meta().call.clone().or_else(from_path)
}

fn mark(end: Option<TurnEnd>) -> ScreenText {
    match end {
        Some(end) if end.is_success() => styled(GOOD, "●"),
        Some(_) => styled(BAD, "●"),
        None => styled(WARN, "○"),
    }
}

fn headline(timeline: &View, turn: &Turn) -> ScreenText {
    let end = turn.end.map_or("unfinished", TurnEnd::as_str);
    let facts = timeline.report(turn).map(|report| {
        let usage = report.usage;
        format!(
            " · {} · {} model calls · {} tokens in, {} from cache, {} out",
            paint::seconds(report.elapsed_ms),
            report.iterations,
            paint::number(usage.input_tokens),
            paint::number(usage.cache_read_tokens),
            paint::number(usage.output_tokens)
        )
    });
    let facts = format!("{} · {end}{}", turn.started, facts.unwrap_or_default());
    shown!("{} {}", styled(BOLD, &turn.id), styled(DIM, facts))
}

fn round(timeline: &View, call: &CallId, blocks: &[&Block]) -> ScreenText {
    let tool = timeline.tool_of(call).unwrap_or("?");
    let error = blocks.iter().find_map(|block| block.meta().error.as_ref());
    let has_result = blocks.iter().any(|block| block.kind == BlockKind::ToolResult);
    let state = match (error, has_result) {
        (Some(error), _) => styled(BAD, format!("✗ {}", error.code)),
        (None, true) => styled(GOOD, "✓"),
        (None, false) => styled(WARN, "…"),
    };
    let tokens: u64 = blocks.iter().map(|block| u64::from(block.tokens)).sum();
    shown!(
        "{} {} {} {}",
        styled(NAME, tool),
        styled(DIM, call),
        state,
        styled(DIM, cost(tokens))
    )
}

fn line(timeline: &View, block: &Block) -> ScreenText {
    let is_content = matches!(block.kind, BlockKind::ToolResult | BlockKind::UserAttachment);
    let is_digest = block.meta().is_digest || block.kind == BlockKind::UserAttachmentMeta;
    let named = block
        .path
        .as_ref()
        .filter(|path| path.physical().is_some() && !is_digest);
    let hidden = is_content && !timeline.is_visible(block) && !is_digest;
    let facts = [
        styled(DIM, format!("{:>3}", block.seq)),
        ScreenText::from(&block.kind),
        named.map(|path| styled(NAME, path)).unwrap_or_default(),
        styled(DIM, about(block)),
        styled(DIM, cost(u64::from(block.tokens))),
        if hidden {
            styled(WARN, "hidden")
        } else {
            ScreenText::default()
        },
    ];
    let facts = facts.into_iter().filter(|fact| !fact.is_blank());
    facts
        .map(|fact| shown!("{} ", fact))
        .collect::<ScreenText>()
        .trim_end()
}

/// What a block is about, in a few words.
fn about(block: &Block) -> String {
    let text = match &block.body {
        Body::Text(text) => text,
        Body::Blob(blob) => return format!("{} {}", block.mime, paint::size(blob.size_bytes)),
        Body::Empty => return String::new(),
    };
    let json = || serde_json::from_str::<Value>(text).unwrap_or_default();
    match &block.kind {
        BlockKind::ToolCall => paint::gist(&json()["params"].to_string(), GIST_MAX_CHARS),
        BlockKind::ReactCompletion => json()["outcome"].as_str().unwrap_or_default().to_owned(),
        BlockKind::ToolsTable => format!("{} tools", json()["tools"].as_array().map_or(0, Vec::len)),
        BlockKind::UserAttachmentMeta => digest(&json()),
        BlockKind::ToolResult if block.meta().is_digest => digest(&json()),
        _ => paint::gist(&Citations::default().plain(text), GIST_MAX_CHARS),
    }
}

fn digest(digest: &Value) -> String {
    let size = digest["size_bytes"].as_u64().map(paint::size).unwrap_or_default();
    format!("{} {size}", digest["artifact_path"].as_str().unwrap_or_default())
        .trim_end()
        .to_owned()
}

fn cost(tokens: u64) -> String {
    if tokens == 0 {
        String::new()
    } else {
        format!("{} tok", paint::number(tokens))
    }
}
