//! `annals timeline render`: what the model sees, and where its prefix is worth caching.

use std::fmt::Write as _;

use annals::core::view::View;
use annals::core::view::why::{self, BreakCause};

use super::at;
use crate::args::RenderArgs;
use crate::failure::{Ended, Failure};
use crate::paint;
use crate::setup::Setup;

pub(crate) async fn run(args: RenderArgs, setup: &Setup) -> Result<Ended, Failure> {
    let (_, timeline) = setup.timeline(&args.conversation).await?;
    let timeline = at(timeline, args.at)?;
    if args.why {
        return why_prefixes(&timeline, setup, args.json);
    }
    if args.json {
        let json = serde_json::to_string(&setup.agent.rendered(&timeline)).map_err(Failure::environment)?;
        paint::print_json(&format!("{json}\n"))?;
    } else {
        let outline = setup.agent.outline(&timeline);
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
