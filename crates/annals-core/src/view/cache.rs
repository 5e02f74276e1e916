//! Prompt caching: the cache points, up to which a prompt is worth caching, and what may still be hidden behind them.

use super::fold::View;
use super::prompt::CachePoint;
use super::slots::Slots;
use crate::ids::Seq;
use crate::path::LogicalPath;
use crate::settings::CacheSettings;
use crate::timeline::Ix;

/// The three cache points of a view, as slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CachePoints {
    /// The last slot before the current turn.
    pub(crate) prev_turn: Option<usize>,
    /// The end of a round some rounds before the last.
    pub(crate) pre_tail: Option<usize>,
    /// The last stable slot.
    pub(crate) tail: Option<usize>,
}

impl CachePoints {
    /// Where the points are now. A slot that renders to nothing keeps its mark: it goes to the last piece before it.
    pub fn of(view: &View, settings: &CacheSettings) -> Self {
        let slots = view.slots();
        let tail = slots.stable_end(view).checked_sub(1);
        let pre_tail = pre_tail_round(slots.rounds(), settings).min(tail);
        let turn = view.current_turn();
        let mut prev_turn = turn
            .and_then(|turn| slots.before(turn.first).checked_sub(1))
            .min(tail);
        if turn.is_some_and(|turn| turn.hid) {
            prev_turn = prev_turn.max(pre_tail);
        }
        CachePoints {
            prev_turn,
            pre_tail,
            tail,
        }
    }

    /// Whether there is such a point.
    pub fn has(&self, point: CachePoint) -> bool {
        self.marks().any(|(there, _)| there == point)
    }

    /// The points that exist, each with its slot.
    pub(crate) fn marks(&self) -> impl Iterator<Item = (CachePoint, usize)> {
        let points = [
            (CachePoint::PrevTurn, self.prev_turn),
            (CachePoint::PreTail, self.pre_tail),
            (CachePoint::Tail, self.tail),
        ];
        points
            .into_iter()
            .filter_map(|(point, slot)| Some((point, slot?)))
    }
}

fn pre_tail_round(rounds: &[u32], settings: &CacheSettings) -> Option<usize> {
    let enough = rounds.len() >= (settings.cache_point_min_rounds as usize).max(1);
    let at = rounds
        .len()
        .saturating_sub(1 + settings.cache_point_offset_rounds as usize);
    enough.then(|| rounds[at] as usize)
}

/// Whether a path may be hidden, and what that would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HideCheck {
    /// It may.
    Ok {
        /// Blocks from here on are hidden; earlier ones lie in the cached prefix.
        from_seq: Seq,
        /// How many blocks it hides.
        blocks: u32,
        /// What they cost.
        tokens: u32,
        /// How far the first of them is from the tail: what stays and comes after it, and must be sent anew.
        tail_tokens: u32,
    },
    /// Nothing visible has this path.
    NotFound,
    /// It lies in the prefix that the provider has cached.
    BeforeCache,
    /// It is further from the tail than the editable stretch.
    TooOld {
        /// How far, as far as was measured.
        tail_tokens: u32,
    },
}

impl View {
    /// Whether a path may be hidden now.
    pub fn hide_check(&self, path: &LogicalPath, settings: &CacheSettings) -> HideCheck {
        let slots = self.slots();
        let first_editable = CachePoints::of(self, settings)
            .pre_tail
            .map_or(0, |slot| slot + 1);
        let mut editable = Slots::hidden_by(self, path, 0, self.blocks().len() as Ix);
        if editable.is_empty() {
            return HideCheck::NotFound;
        }
        editable.retain(|hidden| Slots::reaches_back_to(self, hidden.slot) >= first_editable);
        let Some(first) = editable.first().map(|hidden| hidden.slot) else {
            return HideCheck::BeforeCache;
        };
        let limit = settings.editable_tail_size_in_tokens;
        let mut tail_tokens = 0_u32;
        for (at, slot) in slots.list().iter().enumerate().skip(first).rev() {
            if editable.binary_search_by_key(&at, |hidden| hidden.slot).is_err() {
                tail_tokens = tail_tokens.saturating_add(slot.tokens);
            }
            if tail_tokens > limit {
                return HideCheck::TooOld { tail_tokens };
            }
        }
        HideCheck::Ok {
            from_seq: self.at_ix(slots.list()[first].ix).seq,
            blocks: editable.iter().map(|hidden| hidden.blocks).sum(),
            tokens: editable
                .iter()
                .map(|hidden| slots.list()[hidden.slot].tokens)
                .sum(),
            tail_tokens,
        }
    }
}
