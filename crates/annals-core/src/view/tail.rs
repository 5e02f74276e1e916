//! The uncached tail: what the model should know right now. It comes after everything else and is never cached, because it
//! changes with every request; a clock anywhere earlier would cost the whole prefix. It is small whatever the
//! conversation holds: [`Tail::budget_tokens`] bounds the sources, the announcement and the plan together.

use std::fmt::Write as _;

use crate::ids::Sid;
use crate::limits;
use crate::plan::{Plan, StepStatus};
use crate::sources::{SourceRow, SourcesPool};
use crate::time::{Timestamp, Zone};
use crate::tokens;
use crate::view::View;

/// What the announcement says.
#[derive(Clone, Debug, PartialEq)]
pub struct Announce {
    /// Which model call of the turn this is, from 1.
    pub iteration: u32,
    /// How many there may be.
    pub max_iterations: u32,
    /// Tokens of the system message and the tools, which go with every request.
    pub fixed_tokens: u32,
    /// Tokens the window holds.
    pub window_tokens: u32,
    /// Now.
    pub now: Timestamp,
    /// The person's time zone.
    pub timezone: Zone,
}

/// The two tail texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    sources: Option<String>,
    announce: String,
}

impl Tail {
    /// What a tail may cost in a window of this size.
    pub fn budget_tokens(window_tokens: u32) -> u32 {
        limits::TAIL_MAX_TOKENS.min(window_tokens / 8)
    }

    /// The tail of this view.
    pub fn of(view: &View, announce: &Announce) -> Self {
        let budget = Tail::budget_tokens(announce.window_tokens);
        let plan = view
            .plan()
            .map(|plan| plan_text(plan, budget / 3))
            .unwrap_or_default();
        let sent = u64::from(announce.fixed_tokens) + view.view_tokens();
        // Counted with a figure of the length that the true one will have.
        let head_tokens = tokens::count(&announce_text(announce, sent, &plan));
        let sources = sources_text(view.pool(), view.cited(), budget.saturating_sub(head_tokens));
        let tail_tokens = head_tokens + sources.as_deref().map_or(0, tokens::count);
        Tail {
            announce: announce_text(announce, sent + u64::from(tail_tokens), &plan),
            sources,
        }
    }

    /// The texts, in order.
    pub fn texts(&self) -> Vec<String> {
        let sources = self.sources.iter().map(|text| format!("\n\n{text}"));
        sources.chain([format!("\n\n{}", self.announce)]).collect()
    }

    /// What the tail costs.
    pub fn tokens(&self) -> u32 {
        self.texts().iter().map(|text| tokens::count(text)).sum()
    }
}

/// Of the sources cited last, this many are told before newer ones.
const CITED_FIRST: usize = 8;

const SOURCES_HEAD: &str = "[SOURCES POOL] sid | title | host; cite as [[S:n]]; read whole with \
     react.read(so:sources_pool[n])";

/// The cited and the newest rows, as many as fit, in the order of their numbers; then how many more there are.
fn sources_text(pool: &SourcesPool, cited: &[Sid], budget_tokens: u32) -> Option<String> {
    if pool.is_empty() {
        return None;
    }
    // The head and the line that tells of the others.
    const FRAME_TOKENS: u32 = 70;
    let mut left = budget_tokens.saturating_sub(FRAME_TOKENS);
    let first = cited
        .iter()
        .rev()
        .take(CITED_FIRST)
        .filter_map(|sid| pool.get(*sid));
    let mut told: Vec<(Sid, String)> = Vec::new();
    for row in first.chain(pool.iter().rev()) {
        let Some(sid) = row.sid.filter(|sid| told.iter().all(|(known, _)| known != sid)) else {
            continue;
        };
        let line = row_line(sid, row);
        let cost = tokens::count(&line) + 1;
        let Some(rest) = left.checked_sub(cost) else { break };
        left = rest;
        told.push((sid, line));
    }
    told.sort_unstable_by_key(|(sid, _)| *sid);
    let mut text = SOURCES_HEAD.to_owned();
    told.iter().for_each(|(_, line)| {
        let _ = write!(text, "\n{line}");
    });
    let others = pool.len() - told.len();
    let is_other = |row: &&SourceRow| {
        row.sid
            .is_some_and(|sid| told.iter().all(|(known, _)| *known != sid))
    };
    let ends = (pool.iter().find(is_other), pool.iter().rev().find(is_other));
    if let (Some(first), Some(last)) = ends
        && let (Some(first), Some(last)) = (first.sid, last.sid)
    {
        let _ = write!(
            text,
            "\n… and {others} more: react.read(so:sources_pool[{first}-{last}]) lists them"
        );
    }
    Some(text)
}

fn row_line(sid: Sid, row: &SourceRow) -> String {
    let title: String = row
        .title
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(limits::SOURCE_TITLE_MAX_CHARS)
        .collect();
    let cut = if row.title.chars().nth(limits::SOURCE_TITLE_MAX_CHARS).is_some() {
        "…"
    } else {
        ""
    };
    let place = match &row.artifact_path {
        Some(path) => path.as_str(),
        None => host(&row.url),
    };
    let place: String = place.chars().take(limits::SOURCE_TITLE_MAX_CHARS).collect();
    format!("{sid} | {title}{cut} | {place}")
}

/// The host of an address, without port and credentials.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    host.strip_prefix("www.").unwrap_or(host)
}

fn announce_text(announce: &Announce, sent_tokens: u64, plan: &str) -> String {
    let mut text = format!(
        "[ANNOUNCE]\niteration: {}/{}\nbudget: {sent_tokens} of {} tokens\ntime: {}",
        announce.iteration, announce.max_iterations, announce.window_tokens, announce.now,
    );
    if !announce.timezone.is_utc() {
        let _ = write!(text, " ({})", announce.now.in_zone(&announce.timezone));
    }
    text.push_str(plan);
    text
}

/// The plan from its first open step on, as far as it fits; what is done, and what does not fit, is counted.
fn plan_text(plan: &Plan, budget_tokens: u32) -> String {
    const STEP_MAX_CHARS: usize = 160;
    let lines = plan.lines();
    let mut text = format!("\nplan {}:", plan.plan_id);
    let mut left = budget_tokens.saturating_sub(tokens::count(&text) + 10);
    let short = |line: &String| -> String { line.chars().take(STEP_MAX_CHARS).collect() };
    let costs: Vec<u32> = lines.iter().map(|line| tokens::count(&short(line)) + 1).collect();
    let fits_whole = costs.iter().sum::<u32>() <= left;
    let is_done = |status: StepStatus| status == StepStatus::Done;
    let done = match fits_whole {
        true => 0,
        false => plan.steps().take_while(|(_, status)| is_done(*status)).count(),
    };
    if done > 0 {
        let _ = write!(text, "\n✓ {done} steps done");
    }
    let mut told = done;
    for (line, cost) in lines.iter().zip(costs).skip(done) {
        let Some(rest) = left.checked_sub(cost) else { break };
        left = rest;
        told += 1;
        let _ = write!(text, "\n{}", short(line));
    }
    if told < lines.len() {
        let _ = write!(text, "\n… {} more steps", lines.len() - told);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_what_people_call_a_site() {
        for (url, name) in [
            ("https://www.example.org/a?b#c", "example.org"),
            ("http://user:pw@example.org:8080", "example.org"),
            ("example.org/x", "example.org"),
            ("", ""),
        ] {
            assert_eq!(host(url), name);
        }
    }

    #[test]
    fn sources_stay_within_their_budget_in_every_script_and_the_cited_are_told_first() {
        let mut pool = SourcesPool::new();
        let titles = [
            "A plain title",
            "Длинный заголовок ",
            "標題標題標題標題",
            "🦀🦀🦀🦀🦀",
            "عنوان طويل",
        ];
        pool.merge((0..10_000).map(|n| {
            let title = titles[n % titles.len()].repeat(1 + n % 30);
            SourceRow::web(&format!("https://site-{n}.example.org/{n}"), &title, "text")
        }));
        let cited: Vec<Sid> = [3, 17].map(|sid| Sid::try_new(sid).unwrap()).into();
        for budget in [0, 50, 200, 1_400] {
            let text = sources_text(&pool, &cited, budget).unwrap();
            let tokens = tokens::count(&text);
            assert!(tokens <= budget.max(80), "{tokens} of {budget}");
            assert!(text.contains("more: react.read(so:sources_pool["), "{text}");
        }
        let text = sources_text(&pool, &cited, 1_400).unwrap();
        assert!(text.contains("\n3 | ") && text.contains("\n17 | ") && text.contains("\n10000 | "));
        assert!(text.contains(" 9,") || text.contains("… and 99"), "{text}");
    }
}
