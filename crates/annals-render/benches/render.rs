//! How long documents take: `cargo bench -p annals-render`. Prints a table; no statistics beyond median and worst.
#![allow(clippy::print_stdout, reason = "the table is the result")]

use std::collections::HashMap;
use std::time::{Duration, Instant};

use annals_figures::{Figure, full_or_quick};
use annals_render::{Engine, PageOptions, PngView, Renderer, Request, Source};

/// Latin only: what most reports are. The repository's report adds other scripts, which need system fonts.
fn five_pages() -> String {
    let full = include_str!("../tests/report/report.md");
    let (head, rest) = full
        .split_once("## 5 Names")
        .expect("the report has this section");
    let (_, tail) = rest.split_once("## 6 Cost").expect("the report has this section");
    let prose =
        "The harbour office keeps its own records, which we compared entry by entry with the export. "
            .repeat(14);
    format!(
        "{head}## 5 Records\n\n{prose}\n\n{prose}\n\n## 6 Cost{tail}\n\n## 8 More\n\n{prose}\n\n{prose}\n\n{prose}\n"
    )
}

const COLD: &str = "pdf, 5 pages, cold (first in the process)";
const WARM: &str = "pdf, 5 pages, warm, all text new";

struct Table {
    rows: Vec<(&'static str, Vec<Duration>)>,
}

impl Table {
    fn measure(&mut self, name: &'static str, runs: usize, mut work: impl FnMut(usize)) {
        let mut times = Vec::new();
        for run in 0..full_or_quick(runs, runs.min(3)) {
            let started = Instant::now();
            work(run);
            times.push(started.elapsed());
        }
        times.sort_unstable();
        self.rows.push((name, times));
    }

    fn print(&self) {
        println!(
            "{:<46} {:>10} {:>10} {:>5}",
            "what", "median ms", "worst ms", "runs"
        );
        for (name, times) in &self.rows {
            let ms = |time: &Duration| time.as_secs_f64() * 1000.0;
            let median = times[times.len() / 2];
            let worst = times.last().copied().unwrap_or_default();
            let target = match *name {
                COLD => 200.0,
                WARM => 60.0,
                _ => f64::INFINITY,
            };
            Figure::new(*name, ms(&median), "ms").at_most(target).tell();
            println!(
                "{name:<46} {:>10.1} {:>10.1} {:>5}",
                ms(&median),
                ms(&worst),
                times.len()
            );
        }
    }
}

/// What every request needs.
struct Inputs {
    assets: HashMap<String, Vec<u8>>,
    sources: Vec<Source>,
}

impl Inputs {
    fn new() -> Self {
        let source = |sid| Source {
            sid,
            title: format!("Source {sid}"),
            url: Some(format!("https://example.org/{sid}")),
        };
        let chart = include_bytes!("../tests/report/chart.svg").to_vec();
        Self {
            assets: HashMap::from([("chart.svg".to_owned(), chart)]),
            sources: (1..=3).map(source).collect(),
        }
    }

    fn markdown<'a>(&'a self, content: &'a str) -> Request<'a> {
        Request {
            assets: &self.assets,
            sources: &self.sources,
            ..Request::markdown(content)
        }
    }

    fn html<'a>(&'a self, content: &'a str, engine: Engine) -> Request<'a> {
        Request {
            engine,
            assets: &self.assets,
            sources: &self.sources,
            ..Request::html(content)
        }
    }
}

fn main() {
    let (inputs, renderer) = (Inputs::new(), Renderer::new());
    let mut table = Table { rows: Vec::new() };
    latin(&mut table, &renderer, &inputs);
    others(&mut table, &renderer, &inputs);
    table.print();
}

fn latin(table: &mut Table, renderer: &Renderer, inputs: &Inputs) {
    let text = five_pages();
    table.measure(COLD, 1, |_| {
        let rendered = renderer.pdf(&inputs.markdown(&text)).expect("a PDF");
        println!(
            "{} pages, {} bytes",
            rendered.pages.unwrap_or(0),
            rendered.bytes.len()
        );
    });
    table.measure("pdf, 5 pages, warm, one word edited", 20, |run| {
        let edited = text.replacen("first year", &format!("year {run}"), 1);
        renderer.pdf(&inputs.markdown(&edited)).expect("a PDF");
    });
    table.measure(WARM, 10, |run| {
        let edited = text.replace("the ", &format!("the {run} "));
        renderer.pdf(&inputs.markdown(&edited)).expect("a PDF");
    });
    let page = PageOptions {
        png: PngView::Page(2),
        ..PageOptions::default()
    };
    table.measure("png of one page at 144 dpi, warm", 10, |run| {
        let edited = text.replacen("first year", &format!("png {run}"), 1);
        renderer
            .png(&Request {
                page,
                ..inputs.markdown(&edited)
            })
            .expect("a PNG");
    });
    table.measure("docx", 10, |_| {
        drop(renderer.docx(&inputs.markdown(&text)).expect("a DOCX"))
    });
    table.measure("pptx", 10, |_| {
        drop(renderer.pptx(&inputs.markdown(&text)).expect("a PPTX"))
    });
}

fn others(table: &mut Table, renderer: &Renderer, inputs: &Inputs) {
    let full = include_str!("../tests/report/report.md");
    table.measure("pdf with CJK and emoji, first (scans fonts)", 1, |_| {
        renderer.pdf(&inputs.markdown(full)).expect("a PDF");
    });
    table.measure("pdf with CJK and emoji, warm, edited", 10, |run| {
        let edited = full.replacen("first year", &format!("year {run}"), 1);
        renderer.pdf(&inputs.markdown(&edited)).expect("a PDF");
    });
    let html = include_str!("../tests/report/dashboard.html");
    table.measure("html pdf, embedded, warm", 10, |_| {
        renderer.pdf(&inputs.html(html, Engine::Embedded)).expect("a PDF");
    });
    if renderer.facts().chromium.is_none() {
        return;
    }
    table.measure("html pdf, chromium, first (starts it)", 1, |_| {
        renderer.pdf(&inputs.html(html, Engine::Chromium)).expect("a PDF");
    });
    table.measure("html pdf, chromium, warm", 10, |_| {
        renderer.pdf(&inputs.html(html, Engine::Chromium)).expect("a PDF");
    });
}
