//! `annals timeline render`: what the model sees, and where its prefix is worth caching.

use std::fmt::Write as _;

use annals::core::block::payload::HideReason;
use annals::core::view::why::{self, BreakCause, PrefixBreak, RequestReport};
use annals::core::view::{Layout, View};
use annals::model::{Cost, Price, Usage};
use serde::Serialize;

use super::{at, place};
use crate::args::RenderArgs;
use crate::failure::{Ended, Failure};
use crate::paint;
use crate::setup::Setup;

pub(crate) async fn run(args: RenderArgs, setup: &Setup) -> Result<Ended, Failure> {
    let (_, whole) = setup.timeline(&args.conversation).await?;
    let seq = place(&whole, args.at)?;
    if args.why {
        return why_prefixes(&at(whole, args.at)?, setup, args.json);
    }
    if args.json {
        let rendered = setup.agent.rendered(&whole, seq).await;
        let rendered = rendered.map_err(Failure::environment)?;
        let json = serde_json::to_string(&rendered).map_err(Failure::environment)?;
        paint::print_json(&format!("{json}\n"))?;
    } else {
        let next = seq.and_then(|seq| whole.block(seq.next())).cloned();
        let outline = setup.agent.outline(&at(whole, args.at)?, next.as_deref());
        paint::print_content(outline.to_text().as_bytes())?;
    }
    Ok(Ended::Well)
}

/// How a request followed from the one before it, and what that took.
#[derive(Serialize)]
struct Priced {
    #[serde(flatten)]
    report: RequestReport,
    /// What the request cost, in billionths of a dollar.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_nanousd: Option<u64>,
    /// What of this an unbroken prefix would have saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    break_cost_nanousd: Option<u64>,
}

impl Priced {
    fn new(report: RequestReport, price: Option<Price>) -> Self {
        let usage = report.usage.map(Usage::from);
        let broke = report.prefix.broke.as_ref();
        Priced {
            cost_nanousd: usage
                .zip(price)
                .map(|(usage, price)| usage.cost(&price).total_nanousd()),
            break_cost_nanousd: broke.zip(price).map(|(broke, price)| {
                let length = usage.map_or(0, |usage| usage.input_tokens);
                break_nanousd(broke, price.of_prompt(length))
            }),
            report,
        }
    }

    fn line(&self) -> String {
        let RequestReport {
            turn_id,
            step,
            at,
            prefix,
            usage,
        } = &self.report;
        let mut line = format!(
            "{turn_id} step {step} after block {at}: {} tokens kept, {} new",
            prefix.kept_tokens, prefix.new_tokens
        );
        if let Some(usage) = usage {
            let _ = write!(
                line,
                "; the provider counted {} in, {} of them from its cache",
                usage.input_tokens, usage.cache_read_tokens
            );
        }
        if let Some(nanousd) = self.cost_nanousd {
            let _ = write!(line, "; {}", dollars(nanousd));
        }
        line.push('\n');
        if let Some(broke) = &prefix.broke {
            let _ = writeln!(
                line,
                "  broke at byte {} in block {}: {}; {}",
                broke.byte,
                broke.block_seq,
                cause(broke),
                self.loss(broke)
            );
        }
        line
    }

    fn loss(&self, broke: &PrefixBreak) -> String {
        let (lost, again) = (broke.lost_tokens, broke.again_tokens);
        if is_cold(broke) {
            return format!("its {lost} tokens were in no cache any more");
        }
        let cost = self
            .break_cost_nanousd
            .map(|nanousd| format!(", which cost {} more than the cache", dollars(nanousd)));
        format!(
            "{lost} tokens were cached in vain, {again} of them were read again{}",
            cost.unwrap_or_default()
        )
    }
}

/// What reading again costs beyond what the cache would have taken for it.
fn break_nanousd(broke: &PrefixBreak, price: Price) -> u64 {
    let dearer = price.cache_write_nanousd.saturating_sub(price.cache_read_nanousd);
    match is_cold(broke) {
        true => 0,
        false => broke.again_tokens * dearer,
    }
}

/// Blocks are shortened by age only after the provider has forgotten them anyway.
fn is_cold(broke: &PrefixBreak) -> bool {
    matches!(
        broke.cause,
        Some(BreakCause::Hide {
            reason: HideReason::Ttl,
            ..
        })
    )
}

/// Tools that are named one by one.
const OFFER_SHOWN_TOOLS: usize = 5;

fn cause(broke: &PrefixBreak) -> String {
    match &broke.cause {
        Some(BreakCause::Hide { reason, seq }) => match reason {
            HideReason::Hide => format!("block {seq} hid it, as the model asked"),
            HideReason::Ttl => format!("block {seq} shortened it once the cache had gone cold"),
            HideReason::Compaction => format!("block {seq} hid it, since the window was full"),
            _ => format!("block {seq} hid it"),
        },
        Some(BreakCause::Compaction { seq }) => format!("block {seq} summarised it"),
        Some(BreakCause::Offer { seq, system, tools }) => {
            let tools = match tools.len() {
                0 => None,
                1..=OFFER_SHOWN_TOOLS => Some(format!("`{}`", tools.join("`, `"))),
                count => Some(format!("{count} tools")),
            };
            let changed: Vec<String> = system
                .then(|| "the system text".to_owned())
                .into_iter()
                .chain(tools)
                .collect();
            format!("block {seq} changed {} before it", changed.join(" and "))
        }
        Some(BreakCause::Layout { layout }) => {
            let name = match layout {
                Layout::Chat => "chat",
                Layout::Timeline => "timeline",
            };
            format!("the request was laid out as `{name}`, the one before it was not")
        }
        _ => "no block says why".to_owned(),
    }
}

fn dollars(nanousd: u64) -> String {
    let cost = Cost {
        uncached_nanousd: nanousd,
        ..Cost::default()
    };
    cost.to_string()
}

/// How each request followed from the one before it.
fn why_prefixes(timeline: &View, setup: &Setup, json: bool) -> Result<Ended, Failure> {
    let reports = why::requests(timeline, setup.agent.layout());
    let catalog = setup.catalog()?;
    let priced: Vec<Priced> = reports
        .into_iter()
        .map(|report| {
            let price = setup.agent.price_of(timeline, &report.turn_id, &catalog);
            Priced::new(report, price)
        })
        .collect();
    if json {
        let json = serde_json::to_string(&priced).map_err(Failure::environment)?;
        paint::print_json(&format!("{json}\n"))?;
        return Ok(Ended::Well);
    }
    let mut text: String = priced.iter().map(Priced::line).collect();
    text.push_str(&total(&priced));
    paint::print_content(text.as_bytes())?;
    Ok(Ended::Well)
}

fn total(priced: &[Priced]) -> String {
    let costs: Vec<u64> = priced.iter().filter_map(|priced| priced.cost_nanousd).collect();
    let breaks: Vec<u64> = priced
        .iter()
        .filter_map(|priced| priced.break_cost_nanousd)
        .filter(|nanousd| *nanousd > 0)
        .collect();
    let broken = match breaks.len() {
        0 => String::new(),
        1 => format!(", of which {} for a prefix that broke", dollars(breaks[0])),
        n => format!(
            ", of which {} for {n} prefixes that broke",
            dollars(breaks.iter().sum())
        ),
    };
    match (costs.len(), priced.len()) {
        (_, 0) => String::new(),
        (0, _) => "no price is known of the model: name one in `catalog.toml`\n".to_owned(),
        (known, all) => format!(
            "{known} of {all} requests cost {}{broken}\n",
            dollars(costs.iter().sum())
        ),
    }
}
