//! What each model call spent, and what happened to the prefix before it: the cost strip.

use std::collections::BTreeMap;

use annals_core::block::payload::{HideReason, HideText, TurnUsage};
use annals_core::block::{Block, BlockKind};
use annals_core::ids::{Seq, TurnId};
use annals_core::view::View;
use annals_model::Price;
use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::views::Looked;
use crate::app::App;
use crate::door::Caller;
use crate::problem::Problem;
use crate::request::{Params, Place};
use crate::schemas::UsageSchema;

#[derive(Deserialize)]
pub(crate) struct After {
    after: Option<u64>,
}

/// Model calls, oldest first.
#[derive(Serialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub(crate) struct Steps {
    items: Vec<Step>,
    /// What a token costs, in billionths of a dollar, by turn; turns without a known price are not there.
    #[schemars(with = "BTreeMap<String, TokenPrice>")]
    prices: BTreeMap<TurnId, TokenPrice>,
}

/// One model call.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct Step {
    #[schemars(with = "String")]
    pub(super) turn_id: TurnId,
    pub(super) step: u32,
    /// The last block before the request.
    #[schemars(with = "u64")]
    pub(super) at: Seq,
    /// The first block of the answer.
    #[schemars(with = "u64")]
    pub(super) seq: Seq,
    #[schemars(with = "Option<UsageSchema>")]
    pub(super) usage: Option<TurnUsage>,
    /// What changed the view since the call before.
    marks: Vec<Mark>,
    /// Tokens that the call before had left in the provider's cache and that this one did not read again: the cache
    /// broke. A hide in what was never cached breaks nothing, and an expired cache breaks without any mark.
    #[serde(skip_serializing_if = "is_none")]
    #[schemars(default)]
    lost_tokens: u64,
}

fn is_none(tokens: &u64) -> bool {
    *tokens == 0
}

/// Something that changed what comes before.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
struct Mark {
    /// `compaction`, `instructions`, `hide` or `prune`.
    kind: &'static str,
    #[schemars(with = "u64")]
    seq: Seq,
}

/// Prices by bucket.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(super) struct TokenPrice {
    #[serde(flatten)]
    rates: Rates,
    /// What holds instead for long prompts.
    #[serde(skip_serializing_if = "Option::is_none")]
    long: Option<LongRates>,
}

#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
struct Rates {
    input: u64,
    cache_read: u64,
    cache_write: u64,
    output: u64,
}

#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
struct LongRates {
    over_tokens: u64,
    #[serde(flatten)]
    rates: Rates,
}

impl From<Price> for Rates {
    fn from(price: Price) -> Self {
        Rates {
            input: price.input_nanousd,
            cache_read: price.cache_read_nanousd,
            cache_write: price.cache_write_nanousd,
            output: price.output_nanousd,
        }
    }
}

impl From<Price> for TokenPrice {
    fn from(price: Price) -> Self {
        TokenPrice {
            rates: price.into(),
            long: price.long.map(|long| LongRates {
                over_tokens: long.over_tokens,
                rates: price.of_prompt(long.over_tokens + 1).into(),
            }),
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
        if let Some(price) = looked.agent.price_of(&looked.whole, &step.turn_id, &app.catalog) {
            prices.insert(step.turn_id.clone(), price.into());
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
        let usage = block.meta().usage();
        let lost_tokens = lost(steps.iter().rev().find_map(|step| step.usage), usage);
        steps.push(Step {
            turn_id: block.turn.clone(),
            step,
            at,
            seq: block.seq,
            usage,
            marks: std::mem::take(&mut marks),
            lost_tokens,
        });
    }
    steps
}

/// What a call reads less than the one before it read and wrote, by the provider's own counts.
fn lost(before: Option<TurnUsage>, now: Option<TurnUsage>) -> u64 {
    let (Some(before), Some(now)) = (before, now) else {
        return 0;
    };
    let cached = before.cache_read_tokens + before.cache_write_tokens;
    cached.saturating_sub(now.cache_read_tokens)
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
