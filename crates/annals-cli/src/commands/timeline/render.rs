//! `annals timeline render`: what the model sees, and where its prefix is worth caching.

use std::fmt::Write as _;

use annals::core::view::View;
use annals::core::view::outline::{Outline, OutlineMark, OutlinePart};
use annals::core::view::why::{self, BreakCause};
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
    if args.why {
        return why_prefixes(&timeline, setup, args.json);
    }
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

/// How each request followed from the one before it.
fn why_prefixes(timeline: &View, setup: &Setup, json: bool) -> Result<Ended, Failure> {
    let reports = why::requests(timeline, setup.agent.layout());
    if json {
        let json = serde_json::to_string(&reports).map_err(Failure::environment)?;
        paint::print_json(&format!("{json}\n"))?;
        return Ok(Ended::Well);
    }
    let mut text = String::new();
    for report in &reports {
        let prefix = &report.prefix;
        let _ = write!(
            text,
            "{} step {} after block {}: {} tokens kept, {} new",
            report.turn_id, report.step, report.at, prefix.kept_tokens, prefix.new_tokens
        );
        if let Some(usage) = &report.usage {
            let _ = write!(
                text,
                "; the provider counted {} in, {} of them from its cache",
                usage.input_tokens, usage.cache_read_tokens
            );
        }
        text.push('\n');
        if let Some(broke) = &prefix.broke {
            let cause = match broke.cause {
                Some(BreakCause::Hide { reason, seq }) => {
                    format!("block {seq} hid it ({reason:?})").to_lowercase()
                }
                Some(BreakCause::Compaction { seq }) => format!("block {seq} summarised it"),
                _ => "no block says why".to_owned(),
            };
            let _ = writeln!(
                text,
                "  broke at byte {} in block {}: {cause}; {} tokens were cached in vain",
                broke.byte, broke.block_seq, broke.lost_tokens
            );
        }
    }
    paint::print_content(text.as_bytes())?;
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
        fixed_tokens: setup.agent.fixed_tokens(),
        window_tokens: window,
        now,
        timezone: settings.timezone.clone(),
    };
    Some(Tail::of(timeline, &announce))
}
