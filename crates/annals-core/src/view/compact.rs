//! The compaction plan: where to cut a view that no longer fits, what the summary covers, and what it says when no
//! model can say it better.
//!
//! Nothing is deleted: the plan becomes a `conv.range.summary` block, and the view starts there.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::slots::{Shows, Slot};
use super::{cut, template};
use crate::block::{Block, BlockKind, NewBlock, SafeDigest, SummaryMeta};
use crate::ids::{CallId, Seq, TurnId};
use crate::limits;
use crate::path::LogicalPath;
use crate::timeline::Timeline;
use crate::turn::outcome::HideItem;
use crate::view::Layout;

/// How much of the view may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// The view grew over its share of the window.
    Budget,
    /// The provider refused the prompt: its idea of the window is smaller than ours, so keep half as much.
    Refused,
}

/// Where to cut, and what goes.
#[derive(Clone, Debug, PartialEq)]
pub struct CompactionPlan {
    /// The first block that stays.
    pub first_kept: Seq,
    /// Turns wholly or partly covered.
    pub covered_turn_ids: Vec<TurnId>,
    /// The turn the cut goes through.
    pub split_turn_id: Option<TurnId>,
    /// Kept contents too large to keep whole.
    pub hides: Vec<HideItem>,
    /// What is covered, told without a model: goals, calls, answers.
    pub digest: String,
    /// The covered artifacts, one line each; part of every summary.
    pub artifacts: String,
    covered: HashSet<Seq>,
}

/// The plan for a view whose share of the window is `budget_tokens`; `None` when there is nothing to gain.
pub fn plan(timeline: &Timeline, budget_tokens: u32, force: Force) -> Option<CompactionPlan> {
    let keep = match force {
        Force::Budget => u64::from(budget_tokens) * u64::from(limits::COMPACTION_KEEP_PERCENT) / 100,
        Force::Refused => u64::from(budget_tokens) * u64::from(limits::COMPACTION_KEEP_PERCENT) / 200,
    };
    let list = timeline.slots().list();
    let cut = find_cut(timeline, list, keep)?;
    let gone = |slot: &&Slot| !timeline.is_pinned(timeline.at_ix(slot.ix));
    let covered: Vec<&Slot> = list[..cut].iter().filter(gone).collect();
    let gained: u64 = covered.iter().map(|slot| u64::from(slot.tokens)).sum();
    let hides = oversized(timeline, &list[cut..], keep);
    if gained < limits::COMPACTION_MIN_GAIN_TOKENS && hides.is_empty() {
        return None;
    }
    let first_kept = timeline.at_ix(list[cut].ix);
    let covered_turn_ids = covered_turns(timeline, &covered);
    let split = timeline.turn(&first_kept.turn).filter(|turn| turn.first_seq() < first_kept.seq);
    Some(CompactionPlan {
        first_kept: first_kept.seq,
        split_turn_id: split.map(|turn| turn.id.clone()),
        digest: digest_text(timeline, &covered, &covered_turn_ids),
        artifacts: artifacts_text(timeline, first_kept.seq),
        covered: covered.iter().map(|slot| timeline.at_ix(slot.ix).seq).collect(),
        covered_turn_ids,
        hides,
    })
}

/// The earliest allowed cut whose kept part fits; if none fits, the latest allowed cut.
fn find_cut(timeline: &Timeline, list: &[Slot], keep: u64) -> Option<usize> {
    let pinned: u64 = list.iter().filter(|slot| timeline.is_pinned(timeline.at_ix(slot.ix))).map(cost).sum();
    let mut kept = pinned;
    let mut open: HashSet<&CallId> = HashSet::new();
    let mut best = None;
    for (at, slot) in list.iter().enumerate().rev() {
        let block = timeline.at_ix(slot.ix);
        if !timeline.is_pinned(block) {
            kept += cost(slot);
        }
        match (&block.kind, &block.meta().call) {
            (BlockKind::ToolCall, Some(call)) => {
                open.remove(call);
            }
            (BlockKind::ToolResult | BlockKind::Notice, Some(call)) => {
                open.insert(call);
            }
            _ => {}
        }
        let allowed = at > 0 && open.is_empty() && may_cut_at(block) && !is_mid_answer(timeline, list, at);
        if allowed && (best.is_none() || kept <= keep) {
            best = Some(at);
        }
        if kept > keep && best.is_some() {
            break;
        }
    }
    best
}

fn cost(slot: &Slot) -> u64 {
    u64::from(slot.tokens)
}

fn may_cut_at(block: &Block) -> bool {
    matches!(
        block.kind,
        BlockKind::TurnHeader | BlockKind::UserPrompt | BlockKind::AssistantCompletion | BlockKind::ToolCall
    )
}

/// A call that follows another call of the same answer: cutting between them would leave the first without its
/// result, or the answer without its first half.
fn is_mid_answer(timeline: &Timeline, list: &[Slot], at: usize) -> bool {
    let block = timeline.at_ix(list[at].ix);
    let before = timeline.at_ix(list[at - 1].ix);
    block.kind == BlockKind::ToolCall
        && before.kind == BlockKind::ToolCall
        && block.meta().step == before.meta().step
        && block.turn == before.turn
}

/// Kept contents that alone take more than a quarter of what may stay.
fn oversized(timeline: &Timeline, kept: &[Slot], keep: u64) -> Vec<HideItem> {
    let is_content = |slot: &&Slot| {
        let block = timeline.at_ix(slot.ix);
        let kind = matches!(block.kind, BlockKind::ToolResult | BlockKind::UserAttachment);
        kind && matches!(slot.shows, Shows::Block | Shows::Group) && cost(slot) > keep / 4
    };
    let mut seen = HashSet::new();
    kept.iter()
        .filter(is_content)
        .filter_map(|slot| {
            let block = timeline.at_ix(slot.ix);
            let path = block.path.clone()?;
            let opening = block.text().map(|text| cut::brief(text, 200)).unwrap_or_default();
            let replacement = format!("{} tokens set aside to fit the window: {opening}", slot.tokens);
            seen.insert(path.clone()).then_some(HideItem { path, replacement, from_seq: None })
        })
        .collect()
}

fn covered_turns(timeline: &Timeline, covered: &[&Slot]) -> Vec<TurnId> {
    let mut turns: Vec<TurnId> = Vec::new();
    for slot in covered {
        let block = timeline.at_ix(slot.ix);
        let earlier = block.meta().summary.as_ref().map(|summary| summary.covered_turn_ids.clone());
        let own = (block.kind != BlockKind::RangeSummary).then(|| block.turn.clone());
        for turn in earlier.into_iter().flatten().chain(own) {
            if turns.last() != Some(&turn) && !turns.contains(&turn) {
                turns.push(turn);
            }
        }
    }
    turns
}

/// The covered range told by rule: for each turn its prompt, its calls and its answer, shortened.
fn digest_text(timeline: &Timeline, covered: &[&Slot], turns: &[TurnId]) -> String {
    let mut text = String::new();
    for slot in covered.iter().filter(|slot| slot.shows != Shows::Nothing) {
        let block = timeline.at_ix(slot.ix);
        let body = || cut::brief(block.text().unwrap_or_default().trim(), 400).replace('\n', " ");
        let line = match &block.kind {
            BlockKind::RangeSummary => cut::brief(block.text().unwrap_or_default(), 4_000),
            BlockKind::UserPrompt => format!("[{}] user: {}", block.turn, body()),
            BlockKind::AssistantCompletion => format!("[{}] answer: {}", block.turn, body()),
            BlockKind::Notes => format!("- note: {}", body()),
            BlockKind::Note => format!("- internal note: {}", body()),
            BlockKind::ToolCall => {
                let tool = block.meta().call.as_ref().and_then(|call| timeline.tool_of(call)).unwrap_or("?");
                format!("- called {tool}, see {}", path_of(block))
            }
            BlockKind::ToolResult => match &block.meta().error {
                Some(error) => format!("  failed: {} {}", error.code, error.message),
                None => continue,
            },
            _ => continue,
        };
        if text.len() + line.len() > limits::COMPACTION_DIGEST_MAX_BYTES {
            let _ = writeln!(text, "… (more in turns {})", join(turns));
            break;
        }
        let _ = writeln!(text, "{line}");
    }
    text
}

fn artifacts_text(timeline: &Timeline, first_kept: Seq) -> String {
    let covered = timeline.files().filter(|block| block.seq < first_kept);
    let lines: Vec<String> = covered
        .filter_map(|block| block.path.as_ref())
        .map(|path| match timeline.latest_digest(path) {
            Some(digest) => artifact_line(&digest),
            None => format!("- {path}"),
        })
        .collect();
    let shown = lines.len().min(limits::COMPACTION_ARTIFACT_MAX_LINES);
    let mut text = lines[lines.len() - shown..].join("\n");
    if shown < lines.len() {
        let _ = write!(text, "\n- … and {} older ones: react.search_files finds them", lines.len() - shown);
    }
    text
}

fn artifact_line(digest: &SafeDigest) -> String {
    let mut line = format!("- {} | {}", digest.artifact_path, digest.mime);
    if let Some(physical) = &digest.physical_path {
        let _ = write!(line, " | physical_path: {physical}");
    }
    if let Some(bytes) = digest.size_bytes {
        let _ = write!(line, " | {bytes} bytes");
    }
    line
}

fn join(turns: &[TurnId]) -> String {
    turns.iter().map(TurnId::as_str).collect::<Vec<_>>().join(", ")
}

fn path_of(block: &Block) -> &str {
    block.path.as_ref().map_or("", LogicalPath::as_str)
}

impl CompactionPlan {
    /// What to ask a model: the covered range as text, cut to fit, and what the summary must hold.
    pub fn request(&self, timeline: &Timeline, max_tokens: u32) -> String {
        let mut range = String::new();
        for slot in timeline.slots().list() {
            if !self.covered.contains(&timeline.at_ix(slot.ix).seq) {
                continue;
            }
            for part in template::parts(timeline, slot, Layout::Timeline) {
                let _ = write!(range, "{}\n\n", part.text());
            }
        }
        // About three bytes a token, so that the request itself always fits.
        let range = cut::cut(&range, max_tokens as usize * 3, None);
        format!("{REQUEST}\n\n<conversation>\n{range}\n</conversation>")
    }

    /// The summary block: the model's words, or the digest when it has none, and always the artifacts.
    pub fn block(&self, turn: &TurnId, words: Option<&str>) -> NewBlock {
        let words = words.map(str::trim).filter(|words| !words.is_empty());
        let told = words.unwrap_or(&self.digest);
        let mut text = cut::cut(told, limits::COMPACTION_SUMMARY_MAX_BYTES, None).into_owned();
        if !self.artifacts.is_empty() {
            let _ = write!(text, "\n\nArtifacts (read with react.read):\n{}", self.artifacts);
        }
        let mut block = NewBlock::new(BlockKind::RangeSummary, turn, LogicalPath::summary(turn));
        block.meta.summary = Some(Box::new(SummaryMeta {
            covered_turn_ids: self.covered_turn_ids.clone(),
            first_kept_seq: self.first_kept,
            compaction_digest: words.is_some().then(|| self.digest.clone()),
            split_turn_id: self.split_turn_id.clone(),
        }));
        block.text("text/markdown", text)
    }
}

const REQUEST: &str = "Summarise the conversation below for yourself, so that you can go on with the work \
    without it. Keep what matters and leave the rest. Use these headings: Goal; Constraints; Progress; Decisions; \
    Next steps; Artifacts (each with its logical path). Keep names, numbers, paths and the person's own wording of \
    requirements exactly. Say which commands already ran, so that none is run again. Answer with the summary only.";
