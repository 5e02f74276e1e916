//! Why a provider's cache did not hit: where two views of one conversation part, and what that costs.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::fold::View;
use super::part::Part;
use super::render::Layout;
use crate::block::payload::{HideReason, HideText, OfferedTool, ToolsTable, TurnUsage};
use crate::block::{Block, BlockKind};
use crate::ids::{Seq, TurnId};

/// How the view at one request follows from the view at the request before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PrefixReport {
    /// Bytes that both begin with.
    pub kept_bytes: u64,
    /// Tokens of the parts within them.
    pub kept_tokens: u64,
    /// Tokens that come after them.
    pub new_tokens: u64,
    /// Where the earlier view was left, unless it is a prefix of the later one.
    pub broke: Option<PrefixBreak>,
}

/// The first place where a view is not what it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PrefixBreak {
    /// The first byte that differs, from 0.
    pub byte: u64,
    /// The block that stood there.
    pub block_seq: Seq,
    /// Tokens of the earlier view from there on, which a provider cached in vain.
    pub lost_tokens: u64,
    /// Tokens of them that the later view still has: a provider reads them again at the price of new ones.
    pub again_tokens: u64,
    /// What changed it.
    pub cause: Option<BreakCause>,
    /// How the earlier view went on from there, as far as an eye takes it in.
    pub before: String,
    /// How the later view goes on.
    pub after: String,
}

/// What may change a prefix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
#[non_exhaustive]
pub enum BreakCause {
    /// A `timeline.hide` block.
    Hide {
        /// Who asked for it.
        reason: HideReason,
        /// The block.
        seq: Seq,
    },
    /// A `conv.range.summary` block.
    Compaction {
        /// The block.
        seq: Seq,
    },
    /// A `tools.table` block: what is offered stands before everything else.
    Offer {
        /// The block.
        seq: Seq,
        /// Whether the system text is another.
        system: bool,
        /// Names of tools that came, went, or are described otherwise.
        tools: Vec<String>,
    },
    /// No block, but another setting: the later request was laid out otherwise.
    Layout {
        /// How it was laid out.
        layout: Layout,
    },
}

/// A view as a request had it.
#[derive(Clone, Copy)]
pub struct Requested<'v> {
    /// The view.
    pub view: &'v View,
    /// How its parts became messages.
    pub layout: Layout,
}

/// Compares the views at two moments of one conversation, as far as each is stable.
pub fn compare(earlier: Requested<'_>, later: Requested<'_>) -> PrefixReport {
    let (before, after) = (stable_parts(earlier), stable_parts(later));
    if let Some(broke) = changed_offer(earlier.view, later.view, &before, &after) {
        return PrefixReport {
            kept_bytes: 0,
            kept_tokens: 0,
            new_tokens: tokens_of(&after),
            // Another layout says other things about tools, too.
            broke: Some(PrefixBreak {
                cause: relaid(earlier, later).or(broke.cause),
                ..broke
            }),
        };
    }
    let (mut bytes, mut tokens) = (0_u64, 0_u64);
    let mut same = 0;
    for (old, new) in before.iter().zip(&after) {
        if old.text() != new.text() {
            break;
        }
        bytes += old.text().len() as u64;
        tokens += u64::from(old.tokens);
        same += 1;
    }
    let rest = |parts: &[Part]| tokens_of(&parts[same..]);
    let broke = before.get(same).map(|old| {
        let (old_text, new_text) = (old.text(), after.get(same).map(Part::text).unwrap_or_default());
        let common = common_bytes(&old_text, &new_text);
        PrefixBreak {
            byte: bytes + common,
            block_seq: old.seq,
            lost_tokens: rest(&before),
            again_tokens: again_tokens(&before[same..], &after[same..]),
            cause: relaid(earlier, later).or_else(|| cause(earlier.view, later.view)),
            before: excerpt(&old_text, common),
            after: excerpt(&new_text, common),
        }
    });
    PrefixReport {
        kept_bytes: broke.as_ref().map_or(bytes, |broke| broke.byte),
        kept_tokens: tokens,
        new_tokens: rest(&after),
        broke,
    }
}

/// One request of a conversation, compared with the one before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RequestReport {
    /// The turn.
    pub turn_id: TurnId,
    /// Which model call of it.
    pub step: u32,
    /// The last block before the request.
    pub at: Seq,
    /// What its view shares with that of the request before.
    #[serde(flatten)]
    pub prefix: PrefixReport,
    /// What the provider counted, if it said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<TurnUsage>,
}

/// What is read of how a prompt was sent.
#[derive(Deserialize)]
struct SentLayout {
    layout: Layout,
}

/// How the parts of the request that this block answers became messages, if it says so.
pub fn layout_of(answer: &Block) -> Option<Layout> {
    answer.meta().prompt::<SentLayout>().map(|sent| sent.layout)
}

/// Every request whose answer is on the timeline, oldest first; `layout` is that of requests which do not say theirs. Folds the
/// conversation once for each.
pub fn requests(view: &View, layout: Layout) -> Vec<RequestReport> {
    let mut reports = Vec::new();
    let (mut before, mut layout_before) = (View::default(), None);
    let mut last: Option<(&TurnId, u32)> = None;
    for block in view.blocks() {
        let Some(step) = block
            .meta()
            .step
            .filter(|step| last != Some((&block.turn, *step)))
        else {
            continue;
        };
        last = Some((&block.turn, step));
        let Some(at) = block
            .seq
            .get()
            .checked_sub(1)
            .and_then(|at| Seq::try_new(at).ok())
        else {
            continue;
        };
        let (now, layout) = (view.at(at), layout_of(block).unwrap_or(layout));
        let earlier = Requested {
            view: &before,
            layout: layout_before.unwrap_or(layout),
        };
        let later = Requested { view: &now, layout };
        reports.push(RequestReport {
            turn_id: block.turn.clone(),
            step,
            at,
            prefix: compare(earlier, later),
            usage: block.meta().usage(),
        });
        (before, layout_before) = (now, Some(layout));
    }
    reports
}

/// The break at the very beginning that another system text or other tools make.
fn changed_offer(earlier: &View, later: &View, before: &[Part], after: &[Part]) -> Option<PrefixBreak> {
    let (old, new) = (earlier.tools()?, later.tools()?);
    let table_seq = |view: &View| {
        let mut blocks = view.blocks().iter().rev();
        blocks
            .find(|block| block.kind == BlockKind::ToolsTable)
            .map(|block| block.seq)
    };
    let changed = changed_tools(old, new);
    if old.system == new.system && changed.is_empty() {
        return None;
    }
    let told = |table: &ToolsTable| format!("system text {}, {} tools", table.system, table.tools.len());
    Some(PrefixBreak {
        byte: 0,
        block_seq: table_seq(earlier)?,
        lost_tokens: tokens_of(before),
        again_tokens: again_tokens(before, after),
        cause: Some(BreakCause::Offer {
            seq: table_seq(later)?,
            system: old.system != new.system,
            tools: changed,
        }),
        before: told(old),
        after: told(new),
    })
}

fn changed_tools(old: &ToolsTable, new: &ToolsTable) -> Vec<String> {
    let differs_in = |other: &ToolsTable, tool: &OfferedTool| other.get(&tool.name) != Some(tool);
    let came = new.tools.iter().filter(|tool| differs_in(old, tool));
    let went = old.tools.iter().filter(|tool| new.get(&tool.name).is_none());
    came.chain(went).map(|tool| tool.name.clone()).collect()
}

fn tokens_of(parts: &[Part]) -> u64 {
    parts.iter().map(|part| u64::from(part.tokens)).sum()
}

/// Tokens of the parts that both have, wherever they stand.
fn again_tokens(before: &[Part], after: &[Part]) -> u64 {
    let mut had: HashMap<String, u32> = HashMap::new();
    for part in before {
        *had.entry(part.text()).or_default() += 1;
    }
    let is_again = |part: &&Part| {
        let left = had.get_mut(&part.text()).filter(|left| **left > 0);
        left.map(|left| *left -= 1).is_some()
    };
    let again = after.iter().filter(is_again);
    again.map(|part| u64::from(part.tokens)).sum()
}

/// Parts up to the first call that has not all its results.
fn stable_parts(requested: Requested<'_>) -> Vec<Part> {
    let Requested { view, layout } = requested;
    let slots = &view.slots().list()[..view.slots().stable_end(view)];
    let parts = slots
        .iter()
        .flat_map(|slot| super::template::parts(view, slot, layout));
    parts.collect()
}

fn common_bytes(old: &str, new: &str) -> u64 {
    old.bytes()
        .zip(new.bytes())
        .take_while(|(old, new)| old == new)
        .count() as u64
}

/// Some characters from this byte on; from the start of its character, should it lie within one.
fn excerpt(text: &str, byte: u64) -> String {
    const EXCERPT_CHARS: usize = 160;
    let start = text.floor_char_boundary(usize::try_from(byte).unwrap_or(usize::MAX));
    text[start..].chars().take(EXCERPT_CHARS).collect()
}

/// Another layout, if it is another.
fn relaid(earlier: Requested<'_>, later: Requested<'_>) -> Option<BreakCause> {
    let layout = later.layout;
    (earlier.layout != layout).then_some(BreakCause::Layout { layout })
}

/// The first block between the two that may change what is before it.
fn cause(earlier: &View, later: &View) -> Option<BreakCause> {
    let new = &later.blocks()[earlier.blocks().len().min(later.blocks().len())..];
    new.iter().find_map(|block| match block.kind {
        BlockKind::TimelineHide => {
            let HideText { reason, .. } = block.folded_payload()?;
            Some(BreakCause::Hide {
                reason,
                seq: block.seq,
            })
        }
        BlockKind::RangeSummary => Some(BreakCause::Compaction { seq: block.seq }),
        _ => None,
    })
}
