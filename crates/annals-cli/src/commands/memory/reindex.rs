//! `annals memory reindex`: the index rebuilt from the log.

use std::io::IsTerminal as _;

use annals::store::Progress;
use indicatif::{ProgressBar, ProgressStyle};

use crate::failure::{Ended, Failure};
use crate::paint;
use crate::setup::Setup;

pub(crate) async fn run(setup: &Setup) -> Result<Ended, Failure> {
    let recall = setup.recall();
    let bar = bar();
    let mut last = Progress::default();
    let mut seen = |progress| {
        show(&bar, progress);
        last = progress;
        true
    };
    let made = tokio::select! {
        // Asked first, so that the signal is listened for before there is anything to stop.
        biased;
        Ok(()) = tokio::signal::ctrl_c() => None,
        made = recall.reindex(&mut seen) => Some(made),
    };
    bar.finish_and_clear();
    // What was under way is dropped, an answer of an endpoint among it; what was written is whole.
    let Some(progress) = made.transpose()? else {
        paint::say(stopped(last));
        return Ok(Ended::Otherwise);
    };
    let vectors = match progress.vectors {
        0 => String::new(),
        vectors => format!(", {} vectors made by the endpoint", paint::number(vectors)),
    };
    let identity = recall.embedder().identity();
    let blocks = paint::number(progress.blocks);
    paint::print(format!("{blocks} blocks indexed with {identity}{vectors}\n"))?;
    Ok(Ended::Well)
}

fn stopped(progress: Progress) -> String {
    let (what, done, all) = so_far(progress);
    let (done, all) = (paint::number(done), paint::number(all));
    format!(
        "stopped after {done} of {all} {what}: the rest is added when it is searched, or by `annals memory reindex`"
    )
}

fn bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}");
    let bar = ProgressBar::new(0);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn show(bar: &ProgressBar, progress: Progress) {
    let (what, done, all) = so_far(progress);
    bar.set_message(what);
    bar.set_length(all);
    bar.set_position(done);
}

/// What is being made, how many of them are, and how many there will be.
fn so_far(progress: Progress) -> (&'static str, u64, u64) {
    match progress.of_vectors {
        0 => ("blocks", progress.blocks, progress.of_blocks),
        all => ("vectors", progress.vectors, all),
    }
}
