//! What each model call spent, and what happened to the prefix before it: the cost strip.

use std::collections::BTreeMap;

use annals_core::block::payload::{HideReason, HideText, TurnUsage};
use annals_core::block::{Block, BlockKind};
use annals_core::ids::{Seq, TurnId};
use annals_core::view::View;
use annals_model::{Catalog, Model, Price};
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};

use super::views::Looked;
use crate::app::App;
use crate::door::Caller;
use crate::problem::Problem;
use crate::request::{Params, Place};

#[derive(Deserialize)]
pub(crate) struct After {
    after: Option<u64>,
}

/// Model calls, oldest first.
#[derive(Serialize)]
pub(crate) struct Steps {
    items: Vec<Step>,
    /// What a token costs, in billionths of a dollar, by turn; turns without a known price are not there.
    prices: BTreeMap<TurnId, TokenPrice>,
}

/// One model call.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Step {
    pub(super) turn_id: TurnId,
    pub(super) step: u32,
    /// The last block before the request.
    pub(super) at: Seq,
    /// The first block of the answer.
    pub(super) seq: Seq,
    pub(super) usage: Option<TurnUsage>,
    /// What changed the prefix since the call before.
    marks: Vec<Mark>,
}

/// Something that changed what comes before.
#[derive(Clone, Debug, Serialize)]
struct Mark {
    kind: &'static str,
    seq: Seq,
}

/// Prices by bucket.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct TokenPrice {
    input: u64,
    cache_read: u64,
    cache_write: u64,
    output: u64,
}

impl From<Price> for TokenPrice {
    fn from(price: Price) -> Self {
        TokenPrice {
            input: price.input_nanousd,
            cache_read: price.cache_read_nanousd,
            cache_write: price.cache_write_nanousd,
            output: price.output_nanousd,
        }
    }
}

pub(crate) async fn steps(
    State(app): State<App>,
    caller: Caller,
    place: Place,
    Params(query): Params<After>,
) -> Result<Json<Steps>, Problem> {
    let looked = Looked::of(&app, &caller, &place).await?;
    let after = query.after.unwrap_or_default();
    let items: Vec<Step> = of(&looked.whole)
        .into_iter()
        .filter(|step| step.seq.get() > after)
        .collect();
    let mut prices = BTreeMap::new();
    for step in &items {
        if let Some(price) = price_of(&looked.whole, &step.turn_id, &**looked.agent.model()) {
            prices.insert(step.turn_id.clone(), price);
        }
    }
    Ok(Json(Steps { items, prices }))
}

/// Every model call of a conversation whose answer is on the timeline.
pub(super) fn of(view: &View) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut marks = Vec::new();
    for block in view.blocks() {
        marks.extend(mark_of(block, steps.is_empty()));
        let Some(step) = block.meta().step else { continue };
        if steps
            .last()
            .is_some_and(|last| last.step == step && last.turn_id == block.turn)
        {
            continue;
        }
        let before = block
            .seq
            .get()
            .checked_sub(1)
            .and_then(|at| Seq::try_new(at).ok());
        let Some(at) = before else { continue };
        steps.push(Step {
            turn_id: block.turn.clone(),
            step,
            at,
            seq: block.seq,
            usage: block.meta().usage(),
            marks: std::mem::take(&mut marks),
        });
    }
    steps
}

fn mark_of(block: &Block, is_before_all: bool) -> Option<Mark> {
    let kind = match block.kind {
        BlockKind::RangeSummary => "compaction",
        BlockKind::ToolsTable if !is_before_all => "instructions",
        BlockKind::TimelineHide => {
            let HideText { reason, .. } = block.payload().ok()?;
            if reason == HideReason::Hide {
                "hide"
            } else {
                "prune"
            }
        }
        _ => return None,
    };
    Some(Mark { kind, seq: block.seq })
}

/// What the model of a turn costs: as the configured model says if it is that one, else by the catalog.
pub(super) fn price_of(view: &View, turn: &TurnId, model: &dyn Model) -> Option<TokenPrice> {
    let turn = view.turn(turn)?;
    let header = view
        .turn_blocks(turn)
        .iter()
        .find(|block| block.kind == BlockKind::AgentLogHeader);
    let name = header.and_then(|block| block.text()?.split_once("model: ").map(|(_, name)| name.trim()));
    let price = match name {
        Some(name) if name != model.name() => {
            let plain = name.split_once(':').map_or(name, |(_, name)| name);
            Catalog::default().find(plain)?.price?
        }
        _ => model.price()?,
    };
    Some(price.into())
}
