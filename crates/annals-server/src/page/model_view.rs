//! What the model sees at a moment: parts as they are rendered, what of them a request reads from the provider's cache,
//! and where the last request left the prefix of the one before.
//!
//! Providers tell counts, not places. Which parts are read is simulated: the longest prefix that this view shares with
//! what the request before it could have cached. The provider's counts stand beside it, and where they disagree that is said.

use std::sync::Arc;

use annals_core::ids::Seq;
use annals_core::view::outline::{Outline, OutlineMark, OutlinePart};
use annals_core::view::why::{self, PrefixReport, Requested};
use annals_core::view::{Layout, View};
use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::steps::{self, Step};
use super::views::Looked;
use crate::app::App;
use crate::door::Caller;
use crate::problem::Problem;
use crate::request::{Params, Place};
use crate::schemas::{CachePointSchema, PrefixSchema};

/// The last parts are those that a person looks at.
const PARTS_SHOWN: usize = 500;

/// The view at one moment.
#[derive(Serialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub(crate) struct ModelView {
    #[schemars(with = "u64")]
    at: Seq,
    /// Parts before those that are here; the numbers of cache points count them.
    left_out: usize,
    parts: Vec<ShownPart>,
    #[schemars(with = "Vec<CachePointSchema>")]
    cache_points: Vec<OutlineMark>,
    /// Tokens of all parts but the tail.
    tokens: u64,
    /// Tokens of the instructions and the tools.
    fixed_tokens: u32,
    /// The last model call that was made by then.
    step: Option<ShownStep>,
    /// Where the provider's counts and the simulation do not agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    disagreement: Option<&'static str>,
}

/// A part, and what a request made at this moment has to do with the cache for it.
#[derive(Serialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
struct ShownPart {
    /// As it is rendered; media as a line that tells type and size.
    text: Arc<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<u64>")]
    block_seq: Option<Seq>,
    tokens: u32,
    cache: Caching,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Caching {
    Read,
    Write,
    Uncached,
}

/// A model call, and how its view followed from that of the call before.
#[derive(Serialize, JsonSchema)]
struct ShownStep {
    #[serde(flatten)]
    step: Step,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<PrefixSchema>")]
    prefix: Option<PrefixReport>,
}

#[derive(Deserialize)]
pub(crate) struct ViewQuery {
    at: Option<u64>,
    /// Every part, however many there are.
    #[serde(default)]
    all: bool,
}

pub(crate) async fn model_view(
    State(app): State<App>,
    caller: Caller,
    place: Place,
    Params(query): Params<ViewQuery>,
) -> Result<Json<ModelView>, Problem> {
    let looked = Looked::of(&app, &caller, &place).await?;
    let at = looked.moment(query.at)?;
    // Folding and rendering a long conversation takes a while.
    let view = tokio::task::spawn_blocking(move || view_at(&looked, at)).await;
    let mut view = view.map_err(Problem::internal)?;
    if !query.all {
        view.left_out = view.parts.len().saturating_sub(PARTS_SHOWN);
        view.parts.drain(..view.left_out);
    }
    Ok(Json(view))
}

fn view_at(looked: &Looked, at: Seq) -> ModelView {
    let view = looked.at(at);
    let steps = steps::of(&looked.whole);
    let made = steps.iter().rposition(|step| step.at <= at);
    // A request at this very moment finds what the one before it left in the cache.
    let cached = steps.iter().rposition(|step| step.at < at);
    let outline = looked.outline(&view, at);
    let before = cached.map(|index| looked.outline(&looked.at(steps[index].at), steps[index].at));
    let caching = simulate(&outline, before.as_ref());
    let shown = made.map(|index| shown_step(looked, &steps, index));
    let is_this_request = made.is_some_and(|index| steps[index].at == at);
    let disagreement = shown
        .as_ref()
        .filter(|_| is_this_request)
        .and_then(|shown| disagreement(&shown.step, &caching));
    let parts = outline.parts.into_iter().zip(caching);
    ModelView {
        at,
        left_out: 0,
        parts: parts.map(shown_part).collect(),
        cache_points: outline.cache_points,
        tokens: outline.tokens,
        fixed_tokens: looked.agent.fixed_tokens(),
        step: shown,
        disagreement,
    }
}

fn shown_part((part, cache): (OutlinePart, Caching)) -> ShownPart {
    ShownPart {
        text: part.body.text(),
        block_seq: part.block_seq,
        tokens: part.tokens,
        cache,
    }
}

fn shown_step(looked: &Looked, steps: &[Step], index: usize) -> ShownStep {
    let step = &steps[index];
    let layout = |step: &Step| layout_of(&looked.whole, step).unwrap_or(looked.agent.layout());
    let prefix = index.checked_sub(1).map(|earlier| {
        let (before, now) = (looked.at(steps[earlier].at), looked.at(step.at));
        let earlier = Requested {
            view: &before,
            layout: layout(&steps[earlier]),
        };
        let later = Requested {
            view: &now,
            layout: layout(step),
        };
        why::compare(earlier, later)
    });
    ShownStep {
        step: step.clone(),
        prefix,
    }
}

/// How the parts of this call became messages.
fn layout_of(view: &View, step: &Step) -> Option<Layout> {
    why::layout_of(view.block(step.seq)?)
}

fn simulate(now: &Outline, before: Option<&Outline>) -> Vec<Caching> {
    let last_point = |outline: &Outline| {
        outline
            .cache_points
            .iter()
            .map(|mark| mark.part + 1)
            .max()
            .unwrap_or(0)
    };
    let cached = before.map_or(&[][..], |before| &before.parts[..last_point(before)]);
    let same = |(old, new): &(&OutlinePart, &OutlinePart)| old.body == new.body;
    let read = cached.iter().zip(&now.parts).take_while(same).count();
    let written = last_point(now).max(read);
    let class = |index| match index {
        index if index < read => Caching::Read,
        index if index < written => Caching::Write,
        _ => Caching::Uncached,
    };
    (0..now.parts.len()).map(class).collect()
}

fn disagreement(step: &Step, caching: &[Caching]) -> Option<&'static str> {
    let usage = step.usage?;
    let is_read = caching.contains(&Caching::Read);
    match (is_read, usage.cache_read_tokens) {
        (true, 0) => Some(
            "The provider read nothing from its cache although the prefix was kept: it had expired, or another machine answered.",
        ),
        (false, 1..) => Some(
            "The provider read from its cache although no part was sent before: the instructions and the tools were cached.",
        ),
        _ => None,
    }
}
