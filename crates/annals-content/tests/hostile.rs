//! The corpus of hostile content, file by file, through one process: whatever a file does to its helper, this process
//! lives, memory of the whole group stays under its limit, and the next task works.

mod group;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use annals_content::hostile::{self, Mechanism, Reader};
use annals_content::{Content, ContentError, Document, Form, Limits};
use annals_sandbox::Isolation;
use futures::StreamExt;

use group::Watch;

annals_sandbox::helpers_in_tests!(annals_content::init);

const AT_ONCE: usize = 2;
const MEMORY_BYTES: u64 = 256 << 20;

/// What the processes around the parsing weigh: this one, the launcher, and the pages of the program that are mapped.
const REST_BYTES: u64 = 256 << 20;

fn content() -> Content {
    let limits = Limits {
        memory_bytes: MEMORY_BYTES,
        deadline: Duration::from_secs(3),
        cpu: Duration::from_secs(3),
        stack_bytes: 2 << 20,
        output_bytes: 64 << 20,
        helpers: AT_ONCE,
        ..Limits::default()
    };
    Content::with(limits, Isolation::Full)
}

async fn attempt(content: &Content, mechanism: &Mechanism) -> Result<(), ContentError> {
    let file = (mechanism.make)();
    let text = || String::from_utf8_lossy(&file).into_owned();
    let embedded = |mut document: Document| {
        document.head.engine = annals_render::Engine::Embedded;
        document
    };
    match mechanism.reader {
        Reader::Markdown | Reader::Html => {
            let document = if mechanism.reader == Reader::Html {
                embedded(Document::html(text()))
            } else {
                Document::markdown(text())
            };
            content.render(Form::Docx, document.clone(), |_| None).await?;
            content.render(Form::Pdf, document, |_| None).await.map(drop)
        }
        Reader::Picture(extension) => {
            let document = Document::markdown(format!("![x](x.{extension})"));
            let picture = file.clone();
            content
                .render(Form::Png, document, move |_| Some(picture.clone()))
                .await
                .map(drop)
        }
        Reader::Page => content.page(&text(), "https://x.example/a/").await.map(drop),
        Reader::Pdf => {
            content.check_attachment("a.pdf", &file).await?.ok();
            content.pdf_text(&file).await.map(drop)
        }
        Reader::Attachment(name) => content.check_attachment(name, &file).await.map(|_| ()),
    }
}

/// What came of a file, in a word.
fn outcome(result: &Result<(), ContentError>) -> &'static str {
    match result {
        Ok(()) => "handled",
        Err(ContentError::Unreadable(_) | ContentError::Render(_)) => "refused",
        Err(ContentError::Memory { .. }) => "memory",
        Err(ContentError::Deadline { .. }) => "deadline",
        Err(ContentError::Cpu { .. }) => "cpu",
        Err(ContentError::Nesting { .. }) => "stack",
        Err(ContentError::Output { .. }) => "output",
        Err(ContentError::Broken { .. }) => "panic",
        Err(error) => panic!("no helper did this: {error}"),
    }
}

async fn works(content: &Content) {
    // Replacing helpers may take a moment on a loaded machine; more than that is a fault.
    let page = content.page("<p>fine</p>", "https://x.example/").await;
    assert_eq!(page.expect("the next task works").markdown, "fine");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_file_of_the_corpus_is_survived() {
    let content = content();
    works(&content).await;
    let watch = Watch::start();
    let results = futures::stream::iter(hostile::all())
        .map(|mechanism| {
            let content = content.clone();
            async move {
                let started = Instant::now();
                let result = attempt(&content, &mechanism).await;
                if result.is_err() {
                    works(&content).await;
                }
                (mechanism, outcome(&result), started.elapsed())
            }
        })
        .buffer_unordered(AT_ONCE);
    let results: Vec<_> = results.collect().await;
    let peak_bytes = watch.finish();
    let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
    let mut table = String::new();
    for (mechanism, outcome, took) in &results {
        *counted.entry(outcome).or_default() += 1;
        table.push_str(&format!("{:<44} {outcome:<9} {took:>6.1?}\n", mechanism.name));
    }
    let report = format!("{table}{counted:?}, peak of the group {} MB", peak_bytes >> 20);
    // Mechanisms that reach a bound show that the corpus is real; those that no longer do are handled by their reader.
    for bound in ["memory", "stack", "deadline"] {
        assert!(counted.contains_key(bound), "{report}");
    }
    assert!(
        peak_bytes < AT_ONCE as u64 * MEMORY_BYTES + REST_BYTES,
        "{report}"
    );
    if let Some(path) = std::env::var_os("ANNALS_HOSTILE_REPORT") {
        std::fs::write(path, report).expect("the report can be written");
    }
}

/// On demand: a thousand files in a row leave this process as small and the next task as quick as before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes; `cargo xtask hostile` runs it"]
async fn a_thousand_files_leave_no_trace() {
    let content = content();
    let typical = async || {
        let mut times = Vec::new();
        for _ in 0..20 {
            let started = Instant::now();
            works(&content).await;
            times.push(started.elapsed());
        }
        times.sort();
        times[10]
    };
    let first = hostile::all();
    attempt(&content, &first[0]).await.ok();
    let (before_time, before_bytes) = (typical().await, group::own_resident_bytes());
    let files: Vec<Mechanism> = first.iter().cycle().take(1000).copied().collect();
    let watch = Watch::start();
    let started = Instant::now();
    let attempts = futures::stream::iter(files).map(|mechanism| {
        let content = content.clone();
        async move { drop(attempt(&content, &mechanism).await) }
    });
    attempts.buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
    let peak_bytes = watch.finish();
    let (after_time, after_bytes) = (typical().await, group::own_resident_bytes());
    let report = format!(
        "1000 files in {:.0?}; a task before {before_time:.1?}, after {after_time:.1?}; this process before {} MB, after {} MB; \
         peak of the group {} MB\n",
        started.elapsed(),
        before_bytes >> 20,
        after_bytes >> 20,
        peak_bytes >> 20
    );
    assert!(
        after_time < before_time * 2 + Duration::from_millis(5),
        "{report}"
    );
    assert!(after_bytes < before_bytes + (48 << 20), "{report}");
    if let Some(path) = std::env::var_os("ANNALS_HOSTILE_REPORT") {
        std::fs::write(path, report).expect("the report can be written");
    }
}
