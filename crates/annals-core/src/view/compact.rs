//! The compaction plan: where to cut a view that no longer fits, what the summary covers, and what it says when no
//! model can say it better.
//!
//! Nothing is deleted: the plan becomes a `conv.range.summary` block, and the view starts there.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::fold::View;
use super::slots::{Shows, Slot};
use super::{cut, template};
use crate::block::payload::HideItem;
use crate::block::{Block, BlockKind, NewBlock, SafeDigest, SummaryMeta};
use crate::ids::{CallId, Seq, TurnId};
use crate::limits;
use crate::path::LogicalPath;
use crate::timeline::{Ix, ix_of};
use crate::tokens;
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
    /// Internal notes and what the model said of blocks it hid; part of every summary.
    pub notes: String,
    /// What the view costs less, before the summary is added.
    pub gained_tokens: u64,
    /// The covered blocks, in order.
    covered: Vec<Ix>,
}

/// The plan for a view whose share of the window is `budget_tokens`; `None` when there is nothing to gain.
pub fn plan(view: &View, budget_tokens: u32, force: Force) -> Option<CompactionPlan> {
    let size = match force {
        Force::Budget => u64::from(budget_tokens),
        // The window is smaller than we were told, so what was sent is the better measure.
        Force::Refused => u64::from(budget_tokens).min(view.view_tokens()) / 2,
    };
    let keep = size * u64::from(limits::COMPACTION_KEEP_PERCENT) / 100;
    let list = view.slots().list();
    // Without a place to cut, large contents can still be set aside; an older summary is always written anew.
    let cut = find_cut(view, list, keep).unwrap_or(usize::from(begins_with_summary(view, list)));
    let first_kept = view.at_ix(list.get(cut)?.ix);
    let (pinned, covered): (Vec<&Slot>, Vec<&Slot>) =
        list[..cut].iter().partition(|slot| view.is_pinned(slot));
    let gained: u64 = covered.iter().map(|slot| cost(slot)).sum();
    let hides = oversized(view, pinned.into_iter().chain(&list[cut..]), keep);
    let set_aside: u64 = hides.iter().map(|hide| hide.saved).sum();
    if gained + set_aside < limits::COMPACTION_MIN_GAIN_TOKENS {
        return None;
    }
    let covered_turn_ids = covered_turns(view, &covered);
    let split = view
        .turn(&first_kept.turn)
        .filter(|turn| turn.first_seq() < first_kept.seq);
    Some(CompactionPlan {
        first_kept: first_kept.seq,
        split_turn_id: split.map(|turn| turn.id.clone()),
        digest: digest_text(view, &covered, &covered_turn_ids),
        artifacts: artifacts_text(view, first_kept.seq),
        notes: notes_text(view, first_kept.seq),
        covered: in_order(covered.iter().map(|slot| slot.ix)),
        covered_turn_ids,
        hides: hides.into_iter().map(|hide| hide.item).collect(),
        gained_tokens: gained + set_aside,
    })
}

/// The earliest allowed cut whose kept part fits; if none fits, the latest allowed cut.
fn find_cut(view: &View, list: &[Slot], keep: u64) -> Option<usize> {
    let pinned = list.iter().filter(|slot| view.is_pinned(slot));
    let mut kept: u64 = pinned.map(cost).sum();
    // Calls whose results are kept, or still to come, and which therefore must be kept too.
    let mut wanted: HashSet<&CallId> = view.open_calls().map(|call| &call.id).collect();
    let mut best = None;
    for (at, slot) in list.iter().enumerate().rev() {
        let block = view.at_ix(slot.ix);
        if !view.is_pinned(slot) {
            kept += cost(slot);
        }
        match (&block.kind, &block.meta().call) {
            (BlockKind::ToolCall, Some(call)) => {
                wanted.remove(call);
            }
            (BlockKind::ToolResult | BlockKind::Notice, Some(call)) if is_in_view(view, call) => {
                wanted.insert(call);
            }
            _ => {}
        }
        let allowed = at > 0 && wanted.is_empty() && may_cut_at(view, list, at);
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

fn in_order(blocks: impl Iterator<Item = Ix>) -> Vec<Ix> {
    let mut blocks: Vec<Ix> = blocks.collect();
    blocks.sort_unstable();
    blocks
}

fn begins_with_summary(view: &View, list: &[Slot]) -> bool {
    list.first()
        .is_some_and(|slot| view.at_ix(slot.ix).kind == BlockKind::RangeSummary)
}

fn is_in_view(view: &View, call: &CallId) -> bool {
    view.call(call)
        .is_some_and(|record| view.slots().of(record.call).is_some())
}

/// A turn's header, a prompt, or the beginning of an answer: what the model thought and said beside a call stays with
/// the call, and the calls of one answer stay together.
fn may_cut_at(view: &View, list: &[Slot], at: usize) -> bool {
    let block = view.at_ix(list[at].ix);
    let before = view.at_ix(list[at - 1].ix);
    let same_answer =
        is_of_answer(before) && before.turn == block.turn && before.meta().step == block.meta().step;
    matches!(block.kind, BlockKind::TurnHeader | BlockKind::UserPrompt) || is_of_answer(block) && !same_answer
}

fn is_of_answer(block: &Block) -> bool {
    matches!(
        block.kind,
        BlockKind::Thinking
            | BlockKind::Notes
            | BlockKind::DecisionRaw
            | BlockKind::ToolCode
            | BlockKind::ToolCall
            | BlockKind::AssistantCompletion
    )
}

struct SetAside {
    item: HideItem,
    saved: u64,
}

/// Kept contents that alone take more than a quarter of what may stay, and more than what would stand in their place.
fn oversized<'a>(view: &View, kept: impl Iterator<Item = &'a Slot>, keep: u64) -> Vec<SetAside> {
    let mut seen = HashSet::new();
    let set_aside = |slot: &Slot| {
        if cost(slot) <= keep / 4 || !matches!(slot.shows, Shows::Block | Shows::Group) {
            return None;
        }
        let block = view.at_ix(slot.ix);
        if !matches!(block.kind, BlockKind::ToolResult | BlockKind::UserAttachment) {
            return None;
        }
        let path = block.path.clone()?;
        let opening = block
            .text()
            .map(|text| cut::brief(text, OPENING_CHARS))
            .unwrap_or_default();
        let replacement = format!("{} tokens set aside to fit the window: {opening}", slot.tokens);
        let item = HideItem {
            path,
            replacement,
            from_seq: None,
        };
        let saved = cost(slot).checked_sub(2 * u64::from(template::placeholder_tokens(&item)))?;
        seen.insert(item.path.clone()).then_some(SetAside { item, saved })
    };
    kept.filter_map(set_aside).collect()
}

/// What is set aside is still told by its first characters.
const OPENING_CHARS: usize = 200;

/// Turns of covered blocks, those of an older summary first. Found by where turns begin, not by asking every block.
fn covered_turns(view: &View, covered: &[&Slot]) -> Vec<TurnId> {
    let (older, own) = match covered.split_first() {
        Some((first, rest)) => match view.at_ix(first.ix).meta().summary.as_deref() {
            Some(summary) => (summary.covered_turn_ids.as_slice(), rest),
            None => (&[][..], covered),
        },
        None => return Vec::new(),
    };
    let mut seen: HashSet<&TurnId> = HashSet::new();
    let mut turns: Vec<&TurnId> = older.iter().collect();
    let mut rest = own;
    while let Some(slot) = rest.first() {
        let turn = view.turn_around(slot.ix);
        turns.push(&turn.id);
        let end = view.turn_end(turn) as Ix;
        rest = &rest[rest.partition_point(|slot| slot.ix < end)..];
    }
    turns.retain(|turn| seen.insert(turn));
    turns.into_iter().cloned().collect()
}

/// The covered range told by rule: for each turn its prompt, its calls and its answer, shortened.
fn digest_text(view: &View, covered: &[&Slot], turns: &[TurnId]) -> String {
    if covered.is_empty() {
        return "Nothing is left out, but large contents were set aside: read them by their paths.".into();
    }
    let mut text = String::new();
    for slot in covered.iter().filter(|slot| slot.shows != Shows::Nothing) {
        let block = view.at_ix(slot.ix);
        let body = || cut::brief(block.text().unwrap_or_default().trim(), 400).replace('\n', " ");
        let line = match &block.kind {
            BlockKind::RangeSummary => cut::brief(block.text().unwrap_or_default(), 4_000),
            BlockKind::UserPrompt => format!("[{}] user: {}", block.turn, body()),
            BlockKind::AssistantCompletion => format!("[{}] answer: {}", block.turn, body()),
            BlockKind::Notes => format!("- note: {}", body()),
            BlockKind::Note => format!("- internal note: {}", body()),
            BlockKind::ToolCall => {
                let tool = block
                    .meta()
                    .call
                    .as_ref()
                    .and_then(|call| view.tool_of(call))
                    .unwrap_or("?");
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

/// The latest of the covered artifacts, one line each.
fn artifacts_text(view: &View, first_kept: Seq) -> String {
    let covered = view.files_before(first_kept);
    let older = covered
        .len()
        .saturating_sub(limits::COMPACTION_ARTIFACT_MAX_LINES);
    let line = |path: &LogicalPath| match view.latest_digest(path) {
        Some(digest) => artifact_line(&digest),
        None => format!("- {path}"),
    };
    let told = covered.skip(older).filter_map(|block| block.path.as_ref());
    let mut lines: Vec<String> = told.map(line).collect();
    if older > 0 {
        lines.push(format!(
            "- … and {older} older ones: react.search_files finds them"
        ));
    }
    lines.join("\n")
}

/// Internal notes and the model's words for blocks it hid, the latest of each as far as they fit.
fn notes_text(view: &View, first_kept: Seq) -> String {
    let notes = view.notes_before(first_kept).rev();
    let notes = notes.filter_map(|block| Some(format!("- {}", block.text()?.trim())));
    let hidden = view.slots().replacements_before(ix_of(first_kept)).rev();
    let hidden = hidden.map(|hidden| format!("- {}: {}", hidden.path, hidden.text));
    let mut text = String::new();
    text.push_str(&newest("Internal notes", notes));
    text.push_str(&newest("Hidden (read with react.read)", hidden));
    text
}

/// Lines, given newest first, as a section oldest first; those that do not fit are counted.
fn newest(title: &str, lines: impl Iterator<Item = String>) -> String {
    let mut left = limits::COMPACTION_NOTES_MAX_CHARS;
    let (mut kept, mut older) = (Vec::new(), 0);
    for line in lines {
        match left.checked_sub(line.chars().count()) {
            Some(rest) if older == 0 => {
                left = rest;
                kept.push(line);
            }
            _ => older += 1,
        }
    }
    if kept.is_empty() && older == 0 {
        return String::new();
    }
    if older > 0 {
        kept.push(format!("- … {older} older ones"));
    }
    kept.reverse();
    format!("\n\n{title}:\n{}", kept.join("\n"))
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
    pub fn request(&self, view: &View, max_tokens: u32) -> String {
        let mut range = String::new();
        for slot in view.slots().list() {
            if self.covered.binary_search(&slot.ix).is_err() {
                continue;
            }
            for part in template::parts(view, slot, Layout::Timeline) {
                let _ = write!(range, "{}\n\n", part.text());
            }
        }
        // About three bytes a token, so that the request itself always fits.
        let range = cut::cut(&range, max_tokens as usize * 3, None);
        format!("{REQUEST}\n\n<conversation>\n{range}\n</conversation>")
    }

    /// The summary block: the model's words, or the digest when it has none, and always the artifacts. It never costs
    /// more than half of what it stands for, so the view always gets smaller.
    pub fn block(&self, turn: &TurnId, words: Option<&str>) -> NewBlock {
        let words = words.map(str::trim).filter(|words| !words.is_empty());
        let told = cut::cut(
            words.unwrap_or(&self.digest),
            limits::COMPACTION_SUMMARY_MAX_CHARS,
            None,
        );
        let mut text = told.into_owned();
        text.push_str(&self.notes);
        if !self.artifacts.is_empty() {
            let _ = write!(text, "\n\nArtifacts (read with react.read):\n{}", self.artifacts);
        }
        let text = within_tokens(text, self.gained_tokens / 2);
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

/// A text cut until it costs at most this many tokens.
fn within_tokens(text: String, max_tokens: u64) -> String {
    let mut shown = text;
    while u64::from(tokens::count(&shown)) > max_tokens && shown.len() > cut::MARKER_CHARS {
        let keep = shown.len() / 2 - cut::MARKER_CHARS / 2;
        shown = cut::cut(&shown, keep, None).into_owned();
    }
    shown
}

const REQUEST: &str = "Summarise the conversation below for yourself, so that you can go on with the work \
    without it. Keep what matters and leave the rest. Use these headings: Goal; Constraints; Progress; Decisions; \
    Next steps; Artifacts (each with its logical path). Keep names, numbers, paths and the person's own wording of \
    requirements exactly. Say which commands already ran, so that none is run again. Answer with the summary only.";
