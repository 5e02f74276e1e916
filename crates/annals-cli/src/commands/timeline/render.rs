//! `annals timeline render`: what the model sees, and where its prefix is worth caching.

use annals::core::view::View;
use annals::core::view::outline::{Outline, OutlineMark, OutlinePart};
use annals::core::view::{Announce, Tail};
use serde::Serialize;

use super::at;
use crate::args::RenderArgs;
use crate::failure::{Ended, Failure};
use crate::paint;
use crate::setup::Setup;

#[derive(Serialize)]
struct Rendered<'a> {
    system: &'a str,
    parts: &'a [OutlinePart],
    cache_points: &'a [OutlineMark],
    tokens: u64,
}

pub(crate) async fn run(args: RenderArgs, setup: &Setup) -> Result<Ended, Failure> {
    let (_, timeline) = setup.timeline(&args.conversation).await?;
    let timeline = at(timeline, args.at)?;
    let tail = announced(&timeline, setup);
    let outline = Outline::of(&timeline, &setup.agent.settings().cache, tail.as_ref());
    if args.json {
        let Outline {
            parts,
            cache_points,
            tokens,
        } = &outline;
        let rendered = Rendered {
            system: setup.agent.system_message(),
            parts,
            cache_points,
            tokens: *tokens,
        };
        let json = serde_json::to_string(&rendered).map_err(Failure::environment)?;
        paint::print_json(&format!("{json}\n"))?;
    } else {
        paint::print_content(outline.to_text().as_bytes())?;
    }
    Ok(Ended::Well)
}

/// The tail as it was announced when the last block was written, so that a past moment renders the same for ever.
fn announced(timeline: &View, setup: &Setup) -> Option<Tail> {
    let now = timeline.blocks().last()?.ts;
    let settings = setup.agent.settings();
    let window = setup
        .config
        .context_tokens
        .as_ref()
        .map_or(settings.max_tokens, |tokens| tokens.value);
    let announce = Announce {
        iteration: timeline.current_turn().map_or(0, |turn| turn.steps) + 1,
        max_iterations: settings.max_iterations,
        view_tokens: timeline.view_tokens(),
        window_tokens: window,
        now,
        timezone: settings.timezone.clone(),
    };
    Some(Tail::of(timeline, &announce))
}
