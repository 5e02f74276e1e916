//! What the model sees at a moment, laid out for people: the same on the command line, over HTTP and on the page.

use annals_core::view::outline::{Outline, OutlineMark, OutlinePart};
use annals_core::view::{Announce, Tail, View};
use serde::Serialize;

use crate::agent::Agent;

/// A view with its system message.
#[derive(Serialize)]
pub struct Rendered<'a> {
    /// What the model is told before everything else.
    pub system: &'a str,
    /// The parts, in order.
    pub parts: Vec<OutlinePart>,
    /// Where the prefix is worth caching.
    pub cache_points: Vec<OutlineMark>,
    /// What it costs.
    pub tokens: u64,
}

impl Agent {
    /// What the model sees of this timeline, as text with cache points or as parts.
    pub fn outline(&self, timeline: &View) -> Outline {
        let tail = self.announced(timeline);
        Outline::of(timeline, &self.settings().cache, tail.as_ref())
    }

    /// The same with the system message.
    pub fn rendered(&self, timeline: &View) -> Rendered<'_> {
        let Outline {
            parts,
            cache_points,
            tokens,
        } = self.outline(timeline);
        Rendered {
            system: self.system_message(),
            parts,
            cache_points,
            tokens,
        }
    }

    /// The tail as it was announced when the last block was written, so that a past moment renders the same for ever.
    fn announced(&self, timeline: &View) -> Option<Tail> {
        let now = timeline.blocks().last()?.ts;
        let settings = self.settings();
        let announce = Announce {
            iteration: timeline.current_turn().map_or(0, |turn| turn.steps) + 1,
            max_iterations: settings.max_iterations,
            fixed_tokens: self.fixed_tokens(),
            window_tokens: self.parts.context_tokens.unwrap_or(settings.max_tokens),
            now,
            timezone: settings.timezone.clone(),
        };
        Some(Tail::of(timeline, &announce))
    }
}
