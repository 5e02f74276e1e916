//! The uncached tail: what the model should know right now. It comes after everything else and is never cached, because it
//! changes with every request; a clock anywhere earlier would cost the whole prefix.

use std::fmt::Write as _;

use crate::ids::Sid;
use crate::time::{Timestamp, Zone};
use crate::timeline::Timeline;

/// What the announcement says.
#[derive(Clone, Debug, PartialEq)]
pub struct Announce {
    /// Which model call of the turn this is, from 1.
    pub iteration: u32,
    /// How many there may be.
    pub max_iterations: u32,
    /// Tokens of the view.
    pub view_tokens: u64,
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
    /// The tail of this timeline.
    pub fn of(timeline: &Timeline, announce: &Announce) -> Self {
        Tail {
            sources: sources_text(timeline),
            announce: announce_text(timeline, announce),
        }
    }

    /// The texts, in order.
    pub fn texts(&self) -> Vec<String> {
        let sources = self.sources.iter().map(|text| format!("\n\n{text}"));
        sources.chain([format!("\n\n{}", self.announce)]).collect()
    }
}

fn sources_text(timeline: &Timeline) -> Option<String> {
    let pool = timeline.pool();
    if pool.is_empty() {
        return None;
    }
    let mut text =
        String::from("[SOURCES POOL] cite as [[S:n]]; read whole with react.read(so:sources_pool[n])");
    for row in pool.compact() {
        let sid = row.sid.map_or(0, Sid::get);
        let _ = write!(text, "\n[S:{sid}] {}", row.title);
        let place = row
            .url
            .map(str::to_owned)
            .or(row.artifact_path.map(ToString::to_string));
        for fact in place.into_iter().chain(row.mime.map(str::to_owned)) {
            let _ = write!(text, " | {fact}");
        }
        if !row.text.is_empty() {
            let _ = write!(text, "\n  {}", row.text.replace('\n', " "));
        }
    }
    Some(text)
}

fn announce_text(timeline: &Timeline, announce: &Announce) -> String {
    let mut text = format!(
        "[ANNOUNCE]\niteration: {}/{}\nbudget: {} of {} tokens\ntime: {}",
        announce.iteration,
        announce.max_iterations,
        announce.view_tokens,
        announce.window_tokens,
        announce.now,
    );
    if !announce.timezone.is_utc() {
        let _ = write!(text, " ({})", announce.now.in_zone(&announce.timezone));
    }
    if let Some(plan) = timeline.plan() {
        let _ = write!(text, "\nplan {}:\n{}", plan.plan_id, plan.lines().join("\n"));
    }
    text
}
