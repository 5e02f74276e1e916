//! How long documents take, against their targets: `cargo bench -p annals-render`.
//!
//! Cold means the first document of a new process: this program starts itself again for it.
#![allow(clippy::print_stdout, reason = "the table is the result")]

use std::collections::HashMap;
use std::process::Command;
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
    format!("{head}## 5 Records\n\n{prose}\n\n{prose}\n\n## 6 Cost{tail}\n")
}

/// A page with a little of everything.
fn one_page() -> String {
    "# Harbour\n\nThe office keeps the records of the port.\n\n| what | the count |\n|---|--:|\n| ships | 12 |\n| boats | 140 |\n\n\
     ```python\nfor ship in the_port:\n    print(ship)\n```\n\n"
        .to_owned()
        + &"The harbour office compared the entries with the export of the vendor. ".repeat(20)
}

/// The word by which a new process knows what to do.
const COLD: &str = "ANNALS_BENCH_COLD";

const WARM_PDF_TARGET_MS: f64 = 60.0;
const COLD_PDF_TARGET_MS: f64 = 200.0;
const PNG_TARGET_MS: f64 = 60.0;

/// Prints rows as they are measured.
struct Table {
    is_quick: bool,
}

impl Table {
    fn new() -> Self {
        println!(
            "{:<46} {:>8} {:>10} {:>10}",
            "what", "min ms", "median ms", "target ms"
        );
        Table {
            is_quick: full_or_quick(false, true),
        }
    }

    fn measure(&mut self, name: &str, runs: usize, target_ms: Option<f64>, mut work: impl FnMut(usize)) {
        let runs = if self.is_quick { runs.min(3) } else { runs };
        let timed = |run| {
            let started = Instant::now();
            work(run);
            started.elapsed()
        };
        self.row(name, target_ms, (0..runs).map(timed).collect());
    }

    fn row(&self, name: &str, target_ms: Option<f64>, mut times: Vec<Duration>) {
        times.sort_unstable();
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        let median = ms(times[times.len() / 2]);
        let (target, verdict) = match target_ms {
            Some(target) if median <= target => (target.to_string(), "pass"),
            Some(target) => (target.to_string(), "MISS"),
            None => (String::new(), ""),
        };
        Figure::new(name.trim(), ms(times[0]), "ms")
            .median(median)
            .at_most(target_ms.unwrap_or(f64::INFINITY))
            .tell();
        println!(
            "{name:<46} {:>8.1} {median:>10.1} {target:>10}  {verdict}",
            ms(times[0])
        );
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
    if std::env::var_os(COLD).is_some() {
        return first_document();
    }
    let (inputs, renderer) = (Inputs::new(), Renderer::in_process());
    let mut table = Table::new();
    cold(&table);
    latin(&mut table, &renderer, &inputs);
    others(&mut table, &renderer, &inputs);
}

/// All that a new process does: one document, and how long it took.
fn first_document() {
    let started = Instant::now();
    let text = five_pages();
    let rendered = Renderer::in_process()
        .pdf(&Inputs::new().markdown(&text))
        .expect("a PDF");
    assert_eq!(rendered.pages, Some(5));
    println!("{}", started.elapsed().as_nanos());
}

fn cold(table: &Table) {
    let runs = if table.is_quick { 3 } else { 15 };
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let started = Instant::now();
        let program = std::env::current_exe().expect("this program has a path");
        let output = Command::new(program).env(COLD, "1").output().expect("it starts");
        outside.push(started.elapsed());
        let nanos = String::from_utf8_lossy(&output.stdout).trim().parse();
        inside.push(Duration::from_nanos(nanos.expect("it prints a time")));
    }
    table.row(
        "pdf, 5 pages, cold (first of a process)",
        Some(COLD_PDF_TARGET_MS),
        inside,
    );
    table.row("  with the start and the end of the process", None, outside);
}

fn latin(table: &mut Table, renderer: &Renderer, inputs: &Inputs) {
    let text = five_pages();
    renderer.pdf(&inputs.markdown(&text)).expect("a PDF");
    table.measure(
        "pdf, 5 pages, warm, one word edited",
        20,
        Some(WARM_PDF_TARGET_MS),
        |run| {
            let edited = text.replacen("first year", &format!("year {run}"), 1);
            renderer.pdf(&inputs.markdown(&edited)).expect("a PDF");
        },
    );
    table.measure(
        "pdf, 5 pages, warm, all text new",
        20,
        Some(WARM_PDF_TARGET_MS),
        |run| {
            let edited = text.replace("the ", &format!("the {run} "));
            renderer.pdf(&inputs.markdown(&edited)).expect("a PDF");
        },
    );
    let page = PageOptions {
        png: PngView::Page(2),
        ..PageOptions::default()
    };
    let one_page = one_page();
    table.measure(
        "png of a one-page text at 144 dpi, warm",
        20,
        Some(PNG_TARGET_MS),
        |run| {
            let edited = one_page.replace("the ", &format!("the {run} "));
            renderer.png(&inputs.markdown(&edited)).expect("a PNG");
        },
    );
    table.measure(
        "png of page 2 of 5 at 144 dpi, warm, edited",
        20,
        Some(PNG_TARGET_MS),
        |run| {
            let edited = text.replacen("first year", &format!("png {run}"), 1);
            renderer
                .png(&Request {
                    page,
                    ..inputs.markdown(&edited)
                })
                .expect("a PNG");
        },
    );
    table.measure("docx", 10, None, |_| {
        drop(renderer.docx(&inputs.markdown(&text)).expect("a DOCX"))
    });
    table.measure("pptx", 10, None, |_| {
        drop(renderer.pptx(&inputs.markdown(&text)).expect("a PPTX"))
    });
}

fn others(table: &mut Table, renderer: &Renderer, inputs: &Inputs) {
    let full = include_str!("../tests/report/report.md");
    table.measure("pdf with CJK and emoji, first (scans fonts)", 1, None, |_| {
        renderer.pdf(&inputs.markdown(full)).expect("a PDF");
    });
    table.measure("pdf with CJK and emoji, warm, edited", 10, None, |run| {
        let edited = full.replacen("first year", &format!("year {run}"), 1);
        renderer.pdf(&inputs.markdown(&edited)).expect("a PDF");
    });
    let html = include_str!("../tests/report/dashboard.html");
    table.measure("html pdf, embedded, warm", 10, None, |_| {
        renderer.pdf(&inputs.html(html, Engine::Embedded)).expect("a PDF");
    });
    if renderer.facts().chromium.is_none() {
        return;
    }
    // The benchmark's own page: root may print it, too.
    let renderer = renderer.clone().isolated();
    table.measure("html pdf, chromium, first (starts it)", 1, None, |_| {
        renderer.pdf(&inputs.html(html, Engine::Chromium)).expect("a PDF");
    });
    table.measure("html pdf, chromium, warm", 10, None, |_| {
        renderer.pdf(&inputs.html(html, Engine::Chromium)).expect("a PDF");
    });
}
