//! Slots: which blocks the model is shown, in order, and what each costs in tokens.
//!
//! A slot holds no text. It is made when its block is folded in, changed when a hide or a summary is folded in, and
//! turned into text only when somebody renders. Each change of existing slots opens a new *epoch* and remembers from
//! where the prefix changed, so a renderer redoes only what it must.

use crate::block::payload::{HideItem, HideReason};
use crate::block::{Block, BlockKind, MessageKind};
use crate::ids::TurnId;
use crate::path::LogicalPath;
use crate::timeline::{HideText, Ix, NONE, ix_of, push_tightly};
use crate::view::fold::View;
use crate::view::{cut, template};

/// What a slot shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shows {
    /// Its block.
    Block,
    /// A group of results, starting at its block: status, artifacts, and the block's own payload.
    Group,
    /// A replacement, by number.
    Placeholder(u32),
    /// Nothing: its content is told by another slot's placeholder.
    Nothing,
}

/// One place in the view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) ix: Ix,
    pub(crate) shows: Shows,
    pub(crate) tokens: u32,
}

/// What stands in place of hidden blocks.
#[derive(Clone, Debug)]
pub(crate) struct Replacement {
    pub(crate) path: LogicalPath,
    pub(crate) text: Box<str>,
    pub(crate) reason: HideReason,
    /// The first block hidden.
    pub(crate) ix: Ix,
}

/// The view of a timeline, as places without text: in block order, but for the summary, which comes first.
#[derive(Clone, Default)]
pub struct Slots {
    list: Vec<Slot>,
    /// For each block the slot that shows it.
    of_block: Vec<u32>,
    begins_with_summary: bool,
    replacements: Vec<Replacement>,
    /// The last slot of each finished round.
    rounds: Vec<u32>,
    tokens: u64,
    /// The slot that tells of the last prune.
    prune_notice: Option<u32>,
    /// For each epoch after the first, the first slot that changed when it began.
    changed_from: Vec<u32>,
}

impl Slots {
    pub(crate) fn list(&self) -> &[Slot] {
        &self.list
    }

    pub(crate) fn replacement(&self, number: u32) -> &Replacement {
        &self.replacements[number as usize]
    }

    /// What stands in place of blocks before this one that the model itself hid, in the order of hiding.
    pub(crate) fn replacements_before(&self, end: Ix) -> impl DoubleEndedIterator<Item = &Replacement> {
        let asked = |replacement: &&Replacement| replacement.reason == HideReason::Hide;
        let covered = self
            .replacements
            .iter()
            .filter(move |replacement| replacement.ix < end);
        covered.filter(asked)
    }

    pub(crate) fn rounds(&self) -> &[u32] {
        &self.rounds
    }

    /// The slot that shows this block, if the block is in the view.
    pub(crate) fn of(&self, ix: Ix) -> Option<usize> {
        self.of_block
            .get(ix as usize)
            .copied()
            .filter(|&slot| slot != NONE)
            .map(|slot| slot as usize)
    }

    pub(crate) fn is_shown(&self, ix: Ix) -> bool {
        self.of(ix)
            .is_some_and(|slot| matches!(self.list[slot].shows, Shows::Block | Shows::Group))
    }

    /// How many slots come before the first one that shows this block or a later one.
    pub(crate) fn before(&self, ix: Ix) -> usize {
        let summary = usize::from(self.begins_with_summary);
        summary + self.list[summary..].partition_point(|slot| slot.ix < ix)
    }

    /// Tokens of everything shown, templates included.
    pub(crate) fn tokens(&self) -> u64 {
        self.tokens
    }

    pub(crate) fn epoch(&self) -> usize {
        self.changed_from.len()
    }

    /// The first slot that changed since this epoch.
    pub(crate) fn changed_since(&self, epoch: usize) -> Option<usize> {
        self.changed_from[epoch.min(self.changed_from.len())..]
            .iter()
            .min()
            .map(|&slot| slot as usize)
    }

    /// The first slot that may still change because its call has not got all its results.
    pub(crate) fn stable_end(&self, view: &View) -> usize {
        let open = view.open_calls().filter_map(|call| self.of(call.call)).min();
        open.unwrap_or(self.list.len())
    }

    /// Folds the timeline's last block into the view.
    pub(crate) fn push(view: &mut View, ix: Ix) {
        push_tightly(&mut view.slots_mut().of_block, NONE);
        let block = view.blocks()[ix as usize].clone();
        match &block.kind {
            BlockKind::TimelineHide => match block.payload() {
                Ok(hide) => Slots::hide_all(view, hide, ix),
                Err(error) => view.note_malformed(error),
            },
            BlockKind::RangeSummary if block.meta().summary.is_some() => {
                Slots::start_at_summary(view, &block, ix);
            }
            BlockKind::Thinking if block.meta().signature().is_none() => {}
            BlockKind::Plan
            | BlockKind::ReactCompletion
            | BlockKind::ToolsTable
            | BlockKind::ToolStarted
            | BlockKind::ApprovalRequest
            | BlockKind::ApprovalDecision
            | BlockKind::InputRequest
            | BlockKind::InputResponse => {}
            BlockKind::ToolResult => Slots::push_result(view, &block, ix),
            BlockKind::SystemMessage if block.meta().message_kind() == Some(MessageKind::CacheTtlPruned) => {
                let tokens = template::tokens_of(view, &block);
                view.slots_mut().add_prune_notice(ix, tokens);
            }
            _ => {
                let tokens = template::tokens_of(view, &block);
                view.slots_mut().add(ix, Shows::Block, tokens);
            }
        }
        Slots::end_round(view, &block, ix);
    }

    fn add(&mut self, ix: Ix, shows: Shows, tokens: u32) {
        self.of_block[ix as usize] = self.list.len() as u32;
        push_tightly(&mut self.list, Slot { ix, shows, tokens });
        self.tokens += u64::from(tokens);
    }

    /// The latest prune speaks for all: an earlier notice would only repeat it, and the prefix has just changed anyway.
    fn add_prune_notice(&mut self, ix: Ix, tokens: u32) {
        if let Some(earlier) = self.prune_notice {
            let slot = &mut self.list[earlier as usize];
            self.tokens -= u64::from(slot.tokens);
            (slot.shows, slot.tokens) = (Shows::Nothing, 0);
            self.changed_from.push(earlier);
        }
        self.prune_notice = Some(self.list.len() as u32);
        self.add(ix, Shows::Block, tokens);
    }

    fn push_result(view: &mut View, block: &Block, ix: Ix) {
        let call = block.meta().call.as_ref().and_then(|call| view.call(call));
        let begins_group = call.is_none_or(|call| call.begins_group(ix));
        let group = call.map_or(ix, |call| call.group);
        let tokens = template::tokens_of(view, block);
        let slots = view.slots_mut();
        match slots.of(group) {
            _ if begins_group => slots.add(ix, Shows::Group, tokens),
            // Told by the group's status; the call is still open, so its slots may grow.
            Some(slot) if block.meta().is_digest && slots.list[slot].shows == Shows::Group => {
                slots.of_block[ix as usize] = slot as u32;
                slots.list[slot].tokens += tokens;
                slots.tokens += u64::from(tokens);
            }
            _ => slots.add(ix, Shows::Block, tokens),
        }
    }

    fn end_round(view: &mut View, block: &Block, ix: Ix) {
        let ended = match &block.kind {
            BlockKind::AssistantCompletion => true,
            BlockKind::ToolResult => {
                let call = block.meta().call.as_ref().and_then(|call| view.call(call));
                call.is_some_and(|call| call.settled == ix)
            }
            _ => false,
        };
        let slots = view.slots_mut();
        if ended && let Some(last) = slots.list.len().checked_sub(1) {
            slots.rounds.push(last as u32);
        }
    }

    fn hide_all(view: &mut View, HideText { reason, items }: HideText, hide_ix: Ix) {
        let changed = items
            .into_iter()
            .filter_map(|item| Slots::hide(view, item, reason, hide_ix))
            .min();
        view.slots_mut()
            .changed_from
            .extend(changed.map(|slot| slot as u32));
    }

    /// Hides one path and returns the first slot that renders otherwise now.
    fn hide(view: &mut View, item: HideItem, reason: HideReason, hide_ix: Ix) -> Option<usize> {
        let hidden = Slots::hidden_by(view, &item.path, item.from_seq.map_or(0, ix_of), hide_ix);
        let first = hidden.first()?.slot;
        let changed = hidden
            .iter()
            .map(|hidden| Slots::reaches_back_to(view, hidden.slot))
            .min()?;
        // A call and its reply stay where they are, whatever they show: one without the other is no conversation.
        let must_stay: Vec<bool> = hidden
            .iter()
            .map(|hidden| is_of_exchange(view, hidden.slot))
            .collect();
        let slots = view.slots_mut();
        let number = slots.replacements.len() as u32;
        let tokens = template::placeholder_tokens(&item);
        slots.replacements.push(Replacement {
            path: item.path,
            text: item.replacement.into(),
            reason,
            ix: slots.list[first].ix,
        });
        for (hidden, must_stay) in hidden.iter().zip(must_stay) {
            let slot = &mut slots.list[hidden.slot];
            slots.tokens -= u64::from(slot.tokens);
            (slot.shows, slot.tokens) = match must_stay || hidden.slot == first {
                true => (Shows::Placeholder(number), tokens),
                false => (Shows::Nothing, 0),
            };
            slots.tokens += u64::from(slot.tokens);
        }
        Some(changed)
    }

    /// Slots that show blocks of this path now, from block `from` to before block `end`, first slot first.
    pub(crate) fn hidden_by(view: &View, path: &LogicalPath, from: Ix, end: Ix) -> Vec<Hidden> {
        let Some(entry) = view.paths().get(view.blocks(), path) else {
            return Vec::new();
        };
        let slots = view.slots();
        let in_range = view
            .paths()
            .chain(entry.last)
            .skip_while(|&ix| ix >= end)
            .take_while(|&ix| ix >= from);
        let shown = in_range
            .filter(|&ix| slots.is_shown(ix))
            .filter_map(|ix| slots.of(ix));
        let mut hidden: Vec<Hidden> = shown.map(|slot| Hidden { slot, blocks: 1 }).collect();
        hidden.sort_unstable_by_key(|hidden| hidden.slot);
        hidden.dedup_by(|later, earlier| {
            let same = later.slot == earlier.slot;
            earlier.blocks += u32::from(same) * later.blocks;
            same
        });
        hidden
    }

    /// The first slot whose rendering changes when this one is hidden. A native call is rendered with the content its
    /// results show, so a hidden result reaches back to its call.
    pub(crate) fn reaches_back_to(view: &View, slot: usize) -> usize {
        let slots = view.slots();
        let call = view.at_ix(slots.list[slot].ix).meta().call.as_ref();
        let record = call.and_then(|call| view.call(call));
        record
            .and_then(|record| slots.of(record.call))
            .map_or(slot, |call| call.min(slot))
    }

    fn start_at_summary(view: &mut View, block: &Block, ix: Ix) {
        let Some(summary) = block.meta().summary.as_deref() else {
            return;
        };
        let first_kept = ix_of(summary.first_kept_seq);
        let tokens = template::tokens_of(view, block);
        let keeps: Vec<bool> = view
            .slots()
            .list
            .iter()
            .map(|slot| view.keeps(slot, first_kept))
            .collect();
        let slots = view.slots_mut();
        let old = std::mem::take(&mut slots.list);
        slots.list.push(Slot {
            ix,
            shows: Shows::Block,
            tokens,
        });
        let mut renumbered = vec![NONE; old.len()];
        for (at, slot) in old.into_iter().enumerate().filter(|(at, _)| keeps[*at]) {
            renumbered[at] = slots.list.len() as u32;
            slots.list.push(slot);
        }
        for slot in slots.of_block.iter_mut().filter(|slot| **slot != NONE) {
            *slot = renumbered[*slot as usize];
        }
        slots.of_block[ix as usize] = 0;
        slots.rounds.retain_mut(|slot| {
            *slot = renumbered[*slot as usize];
            *slot != NONE
        });
        slots.prune_notice = slots
            .prune_notice
            .map(|slot| renumbered[slot as usize])
            .filter(|&slot| slot != NONE);
        slots.begins_with_summary = true;
        slots.tokens = slots.list.iter().map(|slot| u64::from(slot.tokens)).sum();
        slots.changed_from.push(0);
    }
}

/// A slot that a hide would cover, and how many blocks it shows of the hidden path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hidden {
    pub(crate) slot: usize,
    pub(crate) blocks: u32,
}

fn is_of_exchange(view: &View, slot: usize) -> bool {
    let slot = &view.slots().list[slot];
    slot.shows == Shows::Group || view.at_ix(slot.ix).kind == BlockKind::ToolCall
}

impl View {
    /// Whether a slot stays in the view when everything before `first_kept` is summarised: what comes after the
    /// cut, and the current turn's prompt with its attachments, but no older summary.
    fn keeps(&self, slot: &Slot, first_kept: Ix) -> bool {
        (slot.ix >= first_kept || self.is_pinned(slot)) && self.at_ix(slot.ix).kind != BlockKind::RangeSummary
    }

    /// Whether a slot must stay in the view while its turn runs.
    pub(crate) fn is_pinned(&self, slot: &Slot) -> bool {
        let running = self.current_turn().filter(|turn| turn.end.is_none());
        // Blocks are only looked at where they can matter: a long past costs nothing here.
        running.is_some_and(|turn| slot.ix >= turn.first && is_opening(self.at_ix(slot.ix), &turn.id))
    }
}

/// Whether a block is what a person began this turn with.
fn is_opening(block: &Block, turn: &TurnId) -> bool {
    let opens = matches!(
        block.kind,
        BlockKind::TurnHeader
            | BlockKind::UserPrompt
            | BlockKind::UserInstructions
            | BlockKind::UserSteer
            | BlockKind::UserAttachmentMeta
            | BlockKind::UserAttachment
    );
    opens && block.turn == *turn
}

/// The tokens that a cut text costs, from those of the whole.
pub(crate) fn cut_tokens(tokens: u32, text: &str, cap_chars: usize) -> u32 {
    if cut::fits(text, cap_chars) {
        return tokens;
    }
    let chars = text.chars().count() as u64;
    (u64::from(tokens) * cap_chars as u64 / chars) as u32 + template::head_tokens(cut::MARKER_CHARS)
}
