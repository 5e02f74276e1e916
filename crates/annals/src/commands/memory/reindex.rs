//! `annals memory reindex`: the index made anew from the log.

use std::io::IsTerminal as _;

use annals::store::Progress;
use indicatif::{ProgressBar, ProgressStyle};
use tokio_util::sync::CancellationToken;

use crate::failure::{Ended, Failure};
use crate::paint;
use crate::setup::Setup;

pub(crate) async fn run(setup: &Setup) -> Result<Ended, Failure> {
    let cancel = CancellationToken::new();
    let watched = cancel.clone();
    let watch = tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            watched.cancel();
        }
    });
    let bar = bar();
    let progress = setup
        .recall
        .reindex(|progress| {
            show(&bar, progress);
            !cancel.is_cancelled()
        })
        .await;
    watch.abort();
    bar.finish_and_clear();
    let progress = progress?;
    if cancel.is_cancelled() {
        let (done, all) = (paint::number(progress.blocks), paint::number(progress.of_blocks));
        paint::say(&format!(
            "stopped after {done} of {all} blocks: the rest is added when it is searched, or by `annals memory reindex`"
        ));
        return Ok(Ended::Otherwise);
    }
    let vectors = match progress.vectors {
        0 => String::new(),
        vectors => format!(", {} vectors made by the endpoint", paint::number(vectors)),
    };
    let identity = setup.recall.embedder().identity();
    let blocks = paint::number(progress.blocks);
    paint::print(format!("{blocks} blocks indexed with {identity}{vectors}\n"))?;
    Ok(Ended::Well)
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
    let (what, done, all) = match progress.of_vectors {
        0 => ("blocks", progress.blocks, progress.of_blocks),
        all => ("vectors", progress.vectors, all),
    };
    bar.set_message(what);
    bar.set_length(all);
    bar.set_position(done);
}
