//! The prompt as it was sent: what it takes to make it again, and the digest by which that proves to be the same.

use serde::{Deserialize, Serialize};

use super::next::Offer;
use super::offering::Offering;
use crate::block::BlobDigest;
use crate::settings::CacheSettings;
use crate::time::{Timestamp, Zone};
use crate::tokens::MediaRule;
use crate::view::prompt::{Message, Piece, Prompt};
use crate::view::{Announce, Layout, Tail, View, ViewRenderer};

/// What a request was made from beside the blocks before it. Kept with the first block that answers it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SentPrompt {
    /// SHA-256 of the prompt, see [`Prompt::digest`].
    pub digest: BlobDigest,
    /// How parts became messages.
    pub layout: Layout,
    /// The time that the announcement told.
    pub asked_at: Timestamp,
    /// The zone it told it in.
    pub timezone: Zone,
    /// Tokens of the system message and the tools.
    pub fixed_tokens: u32,
    /// The window that was announced.
    pub window_tokens: u32,
    /// Model calls that the turn might make.
    pub max_iterations: u32,
    /// How pictures and documents were counted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub media_rule: MediaRule,
    /// Whether the model had to answer without tools.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub answer_only: bool,
}

impl SentPrompt {
    /// What the prompt of this call, which has this digest, was made from.
    pub fn of(digest: BlobDigest, view: &View, layout: Layout, announce: &Announce, offer: Offer) -> Self {
        SentPrompt {
            digest,
            layout,
            media_rule: view.media_rule(),
            asked_at: announce.now,
            timezone: announce.timezone.clone(),
            fixed_tokens: announce.fixed_tokens,
            window_tokens: announce.window_tokens,
            max_iterations: announce.max_iterations,
            answer_only: offer == Offer::AnswerOnly,
        }
    }

    /// What was announced at the model call `step`.
    pub fn announce(&self, step: u32) -> Announce {
        Announce {
            iteration: step,
            max_iterations: self.max_iterations,
            fixed_tokens: self.fixed_tokens,
            window_tokens: self.window_tokens,
            now: self.asked_at,
            timezone: self.timezone.clone(),
        }
    }

    /// The prompt of the model call `step` again, from the view as it was before that call was answered and from what was
    /// offered then.
    pub fn again(&self, view: &View, step: u32, cache: &CacheSettings, offering: &Offering) -> Prompt {
        let announce = self.announce(step);
        let offer = if self.answer_only {
            Offer::AnswerOnly
        } else {
            Offer::Tools
        };
        let view = view.counted_by(self.media_rule);
        let tail = Tail::of(&view, &announce);
        let (system, tools) = (offering.system().clone(), offering.tools().clone());
        let prompt = ViewRenderer::new(self.layout).prompt(&view, cache, system, tools, Some(&tail));
        offered(prompt, offer)
    }
}

/// What the request of a summary was made from beside the blocks before it. Kept with the summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentSummary {
    /// SHA-256 of the prompt, see [`Prompt::digest`].
    pub digest: BlobDigest,
    /// When the model was asked.
    pub asked_at: Timestamp,
    /// What the text to be summarised might take.
    pub room_tokens: u32,
}

impl SentSummary {
    /// The prompt that asks for a summary with this text, see `CompactionPlan::request`.
    pub fn prompt(text: String) -> Prompt {
        Prompt {
            system: "You keep the memory of an agent.".into(),
            tools: [].into(),
            messages: vec![Message::User(vec![Piece::text(text)])].into(),
        }
    }
}

fn is_default(rule: &MediaRule) -> bool {
    *rule == MediaRule::default()
}

/// The prompt as it is offered: without tools, and with a word about that, when the model must answer.
pub fn offered(mut prompt: Prompt, offer: Offer) -> Prompt {
    if offer == Offer::AnswerOnly {
        prompt.tools = [].into();
        let word = Piece::text(LAST_CALL);
        match prompt.messages.last_mut() {
            Some(Message::User(pieces)) => pieces.push(word),
            _ => prompt.messages.push(Message::User(vec![word])),
        }
    }
    prompt
}

const LAST_CALL: &str = "\n\n[SYSTEM MESSAGE]\nThis is the last model call of this turn and no tools are on offer. Answer now \
     with what you have, and say what is missing.";
