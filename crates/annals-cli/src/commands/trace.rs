//! `annals trace`: finished turns as OpenTelemetry spans, into a file or to a collector.

use std::time::Duration;

use annals::core::redact::SafeUrl;
use annals::core::timeline::Turn;
use annals::core::trace::Trace;
use tokio::io::AsyncWriteExt as _;

use super::timeline::turn;
use crate::args::TraceArgs;
use crate::config::Config;
use crate::failure::{Ended, Failure};
use crate::setup::{Needs, Setup};
use crate::{output, paint};

/// Where a collector takes spans, below its address.
const COLLECTOR_PATH: &str = "/v1/traces";
const TIMEOUT: Duration = Duration::from_secs(30);
/// Of a refusal this much is shown.
const REFUSAL_MAX_CHARS: usize = 300;

pub(crate) async fn run(args: TraceArgs, config: Config) -> Result<Ended, Failure> {
    let setup = Setup::open(config, Needs::NoModel).await?;
    let (id, timeline) = setup.timeline(&args.conversation).await?;
    let only = turn(&timeline, args.turn.as_deref())?;
    let is_open = |turn: &&Turn| turn.end.is_none();
    if let Some(open) = only.as_ref().and_then(|only| timeline.turn(only)).filter(is_open) {
        return Err(Failure::usage(format!(
            "turn `{}` has not ended: its spans are made when it has",
            open.id
        )));
    }
    let turns = timeline.turns().iter();
    let wanted = turns.filter(|turn| only.as_ref().is_none_or(|only| turn.id == *only));
    let trace = Trace::of(&id, &timeline, wanted);
    let mut json = serde_json::to_string(&trace).map_err(Failure::environment)?;
    if let Some(collector) = &args.otlp {
        send(collector, json).await?;
        let spans = trace.span_count();
        paint::say(format!("{spans} spans sent to `{}`", SafeUrl(collector)));
        return Ok(Ended::Well);
    }
    json.push('\n');
    match &args.output {
        None => paint::print_json(&json)?,
        Some(file) => {
            output::write_file(file, async |out| Ok(out.write_all(json.as_bytes()).await?)).await?;
        }
    }
    Ok(Ended::Well)
}

/// Posts an OTLP request. An address without a path gets the one that collectors use.
async fn send(collector: &str, json: String) -> Result<(), Failure> {
    let shown = SafeUrl(collector).to_string();
    let mut url = reqwest::Url::parse(collector).map_err(|_| {
        Failure::usage(format!(
            "`{shown}` is not an address such as `http://localhost:4318`"
        ))
    })?;
    if url.path() == "/" {
        url.set_path(COLLECTOR_PATH);
    }
    // The program may have chosen its cryptography before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let unreachable = |error: reqwest::Error| {
        let reason = error.without_url();
        Failure::environment(format!("the collector at `{shown}` cannot be reached: {reason}"))
    };
    let client = reqwest::Client::builder()
        .timeout(TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(unreachable)?;
    let post = client
        .post(url)
        .header("content-type", "application/json")
        .body(json);
    let mut answer = post.send().await.map_err(unreachable)?;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let mut said = Vec::new();
    // A character has at most four bytes; what comes after these is not waited for.
    while said.len() < 4 * REFUSAL_MAX_CHARS
        && let Ok(Some(piece)) = answer.chunk().await
    {
        said.extend_from_slice(&piece);
    }
    let said: String = String::from_utf8_lossy(&said)
        .chars()
        .take(REFUSAL_MAX_CHARS)
        .collect();
    Err(Failure::environment(format!(
        "the collector at `{shown}` refused the spans with {status}: {}",
        said.trim()
    )))
}
