//! What the hop to a helper process costs: `cargo bench -p annals-content`.
//!
//! The same document is rendered in this process and in a helper, in turns, so that drift of the machine hits both.
#![allow(clippy::print_stdout, reason = "the table is the result")]

use std::time::{Duration, Instant};

use annals_content::{Content, Document, Form};
use annals_figures::{Figure, full_or_quick};
use annals_render::{Renderer, Request};

const HOP_TARGET_MS: f64 = 5.0;

fn main() {
    annals_content::init();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        first_task().await;
        warm_documents().await;
        warm_pages().await;
    });
}

/// From nothing to the first answer: sandbox, program, fonts.
async fn first_task() {
    let mut times = Vec::new();
    for _ in 0..full_or_quick(15, 5) {
        let content = Content::new();
        let started = Instant::now();
        content
            .page("<p>x</p>", "https://x.example/")
            .await
            .expect("a page");
        times.push(started.elapsed());
    }
    row("page, first (starts a helper)", &mut times, None);
}

async fn warm_documents() {
    let report = include_str!("../../annals-render/tests/report/report.md");
    let (text, _) = report
        .split_once("## 5 Names")
        .expect("the report has this section");
    let (content, renderer) = (Content::new(), Renderer::in_process());
    let (mut here, mut there) = (Vec::new(), Vec::new());
    for run in 0..full_or_quick(30, 6) {
        let edited = text.replacen("first year", &format!("year {run}"), 1);
        let started = Instant::now();
        renderer.pdf(&Request::markdown(&edited)).expect("a PDF");
        here.push(started.elapsed());
        let started = Instant::now();
        let rendered = content.render(Form::Pdf, Document::markdown(edited), |_| None);
        rendered.await.expect("a PDF");
        there.push(started.elapsed());
    }
    // The first of each is not warm.
    let (mut here, mut there) = (here.split_off(1), there.split_off(1));
    let here = row("pdf, warm, one word edited, in this process", &mut here, None);
    let there = row("pdf, warm, one word edited, in a helper", &mut there, None);
    let hop = (there - here).max(0.0);
    let verdict = if hop <= HOP_TARGET_MS { "pass" } else { "MISS" };
    Figure::new("hop to a helper, of a warm PDF", hop, "ms")
        .median(hop)
        .at_most(HOP_TARGET_MS)
        .tell();
    println!(
        "{:<48} {hop:>8.2} ms (≤ {HOP_TARGET_MS})  {verdict}",
        "hop to a helper, of a warm PDF"
    );
}

async fn warm_pages() {
    let content = Content::new();
    let mut times = Vec::new();
    content
        .page("<p>x</p>", "https://x.example/")
        .await
        .expect("a page");
    for _ in 0..full_or_quick(200, 50) {
        let started = Instant::now();
        content
            .page("<p>x</p>", "https://x.example/")
            .await
            .expect("a page");
        times.push(started.elapsed());
    }
    row(
        "page of one paragraph, warm, in a helper",
        &mut times,
        Some(HOP_TARGET_MS),
    );
}

/// Prints a row; the median in milliseconds.
fn row(name: &str, times: &mut [Duration], target_ms: Option<f64>) -> f64 {
    times.sort_unstable();
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    let (least, median) = (ms(times[0]), ms(times[times.len() / 2]));
    Figure::new(name, least, "ms")
        .median(median)
        .at_most(target_ms.unwrap_or(f64::INFINITY))
        .tell();
    println!("{name:<48} {least:>8.2} min {median:>8.2} median ms");
    median
}
