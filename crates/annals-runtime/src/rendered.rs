//! What the model sees at a moment, laid out for people, and at what price: the same on the command line, over HTTP and
//! on the page.

use std::sync::Arc;

use annals_core::block::{BlobDigest, Block, BlockKind};
use annals_core::ids::{Seq, TurnId};
use annals_core::turn::SentPrompt;
use annals_core::view::outline::{Outline, OutlineMark, OutlinePart};
use annals_core::view::{Announce, Prompt, Tail, ToolSchema, View};
use annals_model::{Catalog, Model as _, Price};
use serde::Serialize;

use crate::agent::Agent;
use crate::error::RunError;

/// A view with its system message and tools.
#[derive(Serialize)]
#[non_exhaustive]
pub struct Rendered {
    /// What the model is told before everything else.
    pub system: Arc<str>,
    /// The parts, in order.
    pub parts: Vec<OutlinePart>,
    /// Where the prefix is worth caching.
    pub cache_points: Vec<OutlineMark>,
    /// What it costs.
    pub tokens: u64,
    /// What it is offered.
    pub tools: Arc<[ToolSchema]>,
    /// SHA-256 of the prompt that was sent at this moment, if one was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<BlobDigest>,
}

impl Agent {
    /// What the model sees when the last block of `view` is the last one, as text with cache points or as parts. `next` is
    /// the block that came after it, if any: one that answers a request says what that request was made from.
    pub fn outline(&self, view: &View, next: Option<&Block>) -> Outline {
        let sent = next.and_then(|block| block.meta().prompt::<SentPrompt>());
        let like = sent.clone().or_else(|| last_sent(view));
        let view = match &like {
            Some(like) => view.counted_by(like.media_rule),
            None => std::borrow::Cow::Borrowed(view),
        };
        let asked_at = sent.map(|sent| sent.asked_at);
        let tail = view.blocks().last().map(|last| {
            let step = view.current_turn().map_or(0, |turn| turn.steps) + 1;
            let announce = Announce {
                now: asked_at.unwrap_or(last.ts),
                ..self.announce(like.as_ref(), last, step)
            };
            Tail::of(&view, &announce)
        });
        Outline::of(&view, &self.settings().cache, tail.as_ref())
    }

    /// What the model saw when `at` was the last block of this conversation, or sees now, with system message and tools.
    pub async fn rendered(&self, whole: &View, at: Option<Seq>) -> Result<Rendered, RunError> {
        let view = at.map(|at| whole.at(at));
        let view = view.as_ref().unwrap_or(whole);
        let next = at.and_then(|at| whole.block(at.next()));
        let offering = self.parts.offering_at(view).await?;
        let Outline {
            parts,
            cache_points,
            tokens,
        } = self.outline(view, next.map(|next| &**next));
        let sent = next.and_then(|next| next.meta().prompt::<SentPrompt>());
        Ok(Rendered {
            system: offering.system().clone(),
            parts,
            cache_points,
            tokens,
            tools: offering.tools().clone(),
            digest: sent.map(|sent| sent.digest),
        })
    }

    /// What the model of a turn costs: as this agent's model says if it is that one, else by the catalog.
    pub fn price_of(&self, view: &View, turn: &TurnId, catalog: &Catalog) -> Option<Price> {
        let model = self.model();
        let header = view
            .turn_blocks(view.turn(turn)?)
            .iter()
            .find(|block| block.kind == BlockKind::AgentLogHeader);
        let name = header.and_then(|block| block.text()?.split_once("model: ").map(|(_, name)| name.trim()));
        match name {
            Some(name) if name != model.name() => {
                let plain = name.split_once(':').map_or(name, |(_, name)| name);
                catalog.find(plain)?.price
            }
            _ => model.price(),
        }
    }

    /// The prompt that the block at `seq` was the first to answer, as it was sent; none if it answered none. What this
    /// agent offers or is set to does not matter.
    pub async fn sent_prompt(&self, whole: &View, seq: Seq) -> Result<Option<Prompt>, RunError> {
        let answered = whole.block(seq).map(|block| block.meta());
        let sent = answered.and_then(|meta| Some((meta.prompt::<SentPrompt>()?, meta.step?)));
        let (Some((sent, step)), Some(before)) = (sent, Seq::try_new(seq.get() - 1).ok()) else {
            return Ok(None);
        };
        let view = whole.at(before);
        let offering = self.parts.offering_at(&view).await?;
        Ok(Some(sent.again(&view, step, &self.settings().cache, &offering)))
    }

    /// What is announced at a step: as in the request before, so that a past moment renders the same for ever, or as this
    /// agent would.
    fn announce(&self, like: Option<&SentPrompt>, last: &Block, step: u32) -> Announce {
        let settings = self.settings();
        match like {
            Some(like) => like.announce(step),
            None => Announce {
                iteration: step,
                max_iterations: settings.max_iterations,
                fixed_tokens: self.fixed_tokens(),
                window_tokens: self.parts.context_tokens.unwrap_or(settings.max_tokens),
                now: last.ts,
                timezone: settings.timezone.clone(),
            },
        }
    }
}

/// What the latest request was made from.
fn last_sent(view: &View) -> Option<SentPrompt> {
    view.blocks().iter().rev().find_map(|block| block.meta().prompt())
}
