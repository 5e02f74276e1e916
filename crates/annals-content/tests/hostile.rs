//! The corpus of hostile content, file by file, through one process: whatever a file does to its helper, this process
//! lives, memory of the whole group stays under its limit, and the next task works.

mod group;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use annals_content::hostile::{self, Aim, Mechanism, Reader, TreeKind};
use annals_content::{Content, ContentError, Document, Form, Limits, TreeRequest};
use annals_requirements::{Requirement, met};
use annals_sandbox::Isolation;
use futures::StreamExt;

use group::{Helpers, Watch};

annals_sandbox::helpers_in_tests!(annals_content::init);

const AT_ONCE: usize = 4;

/// Small files that lie only to a reader that trusts a reference, a name or a number, or that cost only time: the measures
/// see neither, and a quick machine may read them. They are read with the rest and not counted; nor are those that hide in the
/// coding of a picture or a font.
const WITHOUT_CONTROL: [&str; 67] = [
    "docx-entities-that-double",
    "docx-of-bytes",
    "docx-two-documents",
    "docx-without-a-document",
    "jpeg-of-many-scans",
    "md-footnote-of-itself",
    "odt-spaces-that-multiply",
    "page-clips-without-end",
    "page-dashes-beyond-all",
    "page-fax-of-rows-without-end",
    "page-font-cff-index-beyond-the-file",
    "page-font-cff-subroutines-that-multiply",
    "page-font-tables-beyond-the-file",
    "page-font-truetype-composite-of-itself",
    "page-font-truetype-composites-that-double",
    "page-font-truetype-map-of-all-characters",
    "page-font-truetype-points-beyond-the-file",
    "page-font-type1-subroutine-of-itself",
    "page-form-of-itself",
    "page-forms-that-double",
    "page-function-of-itself",
    "page-function-of-samples-beyond-all",
    "page-jbig2-of-a-huge-page",
    "page-jbig2-of-symbols-beyond-all",
    "page-jbig2-segment-of-itself",
    "page-jpx-of-a-huge-size",
    "page-jpx-of-components-beyond-all",
    "page-of-nothing",
    "page-picture-of-filters-in-filters",
    "page-picture-of-pixels-that-are-claimed",
    "page-picture-of-run-lengths",
    "page-soft-mask-of-itself",
    "page-tiles-of-tiles",
    "page-tiles-without-end",
    "pdf-contents-shared-by-all-pages",
    "pdf-filters-in-filters",
    "picture-of-another-kind",
    "png-animation-of-many-frames",
    "png-data-in-tiny-chunks",
    "png-exif-of-offsets",
    "png-of-empty-chunks",
    "png-palette-of-half-a-colour",
    "png-palette-out-of-range",
    "pptx-many-slides",
    "pptx-slide-numbers-beyond-all",
    "svg-blur-without-end",
    "svg-clip-of-itself",
    "svg-convolution",
    "svg-decorations",
    "svg-filter-image-of-itself",
    "svg-gradient-in-a-circle",
    "svg-marker-of-itself",
    "svg-mask-of-itself",
    "svg-morphology",
    "svg-nested-markers",
    "svg-pattern-of-itself",
    "svg-text-on-a-path",
    "svg-use-in-a-circle",
    "svg-use-of-itself",
    "xlsx-cell-beyond-all",
    "xlsx-many-sheets",
    "xlsx-names-without-end",
    "xlsx-shared-text-that-is-not-there",
    "zip-broken-data",
    "zip-names-without-end",
    "zip-of-nothing",
    "zip-unknown-method",
];

/// Whether a mechanism is counted.
fn has_control(mechanism: &Mechanism) -> bool {
    !WITHOUT_CONTROL.contains(&mechanism.name)
}

const MEMORY_BYTES: u64 = 256 << 20;

/// What the processes around the parsing weigh: this one, the launcher, and the pages of the program that are mapped.
const REST_BYTES: u64 = 256 << 20;

/// What a helper holds beside the memory that is bounded: pages of the program and of fonts, which are the files' own.
const MAPPED_BYTES: u64 = 96 << 20;

/// What a file may take at least, and at most on a machine with much other work.
const DEADLINES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(4)];

/// Helpers with small limits. Starting one and a task of no size must fit into the deadline several times.
async fn content() -> Content {
    let deadline = deadline().await;
    Content::with(limits(deadline), Isolation::Full)
}

/// How long that takes is measured first.
async fn deadline() -> Duration {
    let patient = || Content::with(limits(Duration::from_secs(60)), Isolation::Full);
    works(&patient()).await;
    let mut slowest = Duration::ZERO;
    for _ in 0..3 {
        let patient = patient();
        let started = Instant::now();
        works(&patient).await;
        slowest = slowest.max(started.elapsed());
    }
    let [least, most] = DEADLINES;
    (slowest * 4).clamp(least, most)
}

fn limits(deadline: Duration) -> Limits {
    Limits {
        memory_bytes: MEMORY_BYTES,
        deadline,
        cpu: deadline,
        stack_bytes: 2 << 20,
        output_bytes: 64 << 20,
        helpers: AT_ONCE,
        ..Limits::default()
    }
}

/// One helper at a time, whose memory bound no other lane has: by that its processes are known from outside.
#[derive(Clone)]
struct Lane {
    content: Content,
    memory_bytes: u64,
}

impl Lane {
    fn new(number: usize, deadline: Duration) -> Self {
        let memory_bytes = MEMORY_BYTES - ((number as u64) << 16);
        let limits = Limits {
            memory_bytes,
            helpers: 1,
            ..limits(deadline)
        };
        Self {
            content: Content::with(limits, Isolation::Full),
            memory_bytes,
        }
    }
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
            let rendered = content
                .render(Form::Png, document, move |_| Some(picture.clone()))
                .await?;
            match rendered.warnings.is_empty() {
                true => Ok(()),
                false => Err(ContentError::Unreadable(
                    "it is left out of the document".to_owned(),
                )),
            }
        }
        Reader::Page => content.page(&text(), "https://x.example/a/").await.map(drop),
        Reader::Pdf => {
            content.check_attachment("a.pdf", &file).await?.ok();
            content.pdf_text(&file).await.map(drop)
        }
        Reader::PdfPage => content.pdf_page(&file, 1, 800).await.map(drop),
        Reader::Attachment(name) => match content.check_attachment(name, &file).await? {
            Ok(checked) => content.describe_attachment(&checked, &file).await.map(drop),
            Err(refused) => Err(ContentError::Unreadable(refused.to_string())),
        },
        Reader::Browser => unreachable!("they have a test of their own"),
        Reader::Tree(kind) => content.trees(&[tree(kind, text())]).await.map(drop),
    }
}

fn tree(kind: TreeKind, text: String) -> TreeRequest {
    match kind {
        TreeKind::Markdown => TreeRequest::Markdown { text },
        TreeKind::Code(language) => TreeRequest::Code {
            text,
            language: language.to_owned(),
        },
        TreeKind::Table => TreeRequest::Table { text, separator: ',' },
        TreeKind::Difference => {
            let (before, after) = text.split_once('\0').unwrap_or((&text, ""));
            TreeRequest::Difference {
                before: before.to_owned(),
                after: after.to_owned(),
            }
        }
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
        // All helpers were being started again when its turn came.
        Err(ContentError::Busy) => "deadline",
        Err(error) => panic!("no helper did this: {error}"),
    }
}

/// The next task works. A machine with other work may need more than one deadline to start a helper again.
async fn works(content: &Content) {
    let mut last = None;
    for _ in 0..30 {
        match content.page("<p>fine</p>", "https://x.example/").await {
            Ok(page) => return assert_eq!(page.markdown, "fine"),
            Err(error @ (ContentError::Deadline { .. } | ContentError::Busy)) => last = Some(error),
            Err(error) => panic!("the next task fails: {error}"),
        }
    }
    panic!("the next task fails again and again: {last:?}");
}

/// What came of one file.
struct Survived {
    mechanism: Mechanism,
    outcome: &'static str,
    took: Duration,
    /// The most that its helper held.
    peak_bytes: u64,
}

/// A file, and the next task: the process lives, whatever became of the helper.
async fn survive(lane: &Lane, mechanism: Mechanism, watch: &Watch) -> Survived {
    watch.take(lane.memory_bytes);
    let started = Instant::now();
    let result = attempt(&lane.content, &mechanism).await;
    let took = started.elapsed();
    // Shows that the helper, or the one in its place, is there; so it has been seen.
    works(&lane.content).await;
    let peak_bytes = watch.take(lane.memory_bytes);
    Survived {
        mechanism,
        outcome: outcome(&result),
        took,
        peak_bytes: peak_bytes.expect("a helper was seen"),
    }
}

/// Sends these files through several lanes side by side. Memory of each helper under each file, and of all processes
/// together, stays below its bound.
async fn all_survived(files: Vec<Mechanism>) -> (Vec<Survived>, String) {
    let deadline = deadline().await;
    let watch = Watch::start(Helpers::Readers);
    let next = std::sync::Mutex::new(files.into_iter());
    let take = || next.lock().expect("nobody panics while taking").next();
    let lanes = (0..AT_ONCE).map(async |number| {
        let lane = Lane::new(number, deadline);
        let mut survived = Vec::new();
        while let Some(mechanism) = take() {
            survived.push(survive(&lane, mechanism, &watch).await);
        }
        survived
    });
    let survived: Vec<Survived> = futures::future::join_all(lanes)
        .await
        .into_iter()
        .flatten()
        .collect();
    let group_bytes = watch.finish();
    let report = report(&survived, group_bytes);
    let large: Vec<&str> = survived
        .iter()
        .filter(|one| one.peak_bytes > MEMORY_BYTES + MAPPED_BYTES)
        .map(|one| one.mechanism.name)
        .collect();
    assert!(
        large.is_empty(),
        "the helpers of these held too much: {large:?}\n{report}"
    );
    assert!(
        group_bytes < AT_ONCE as u64 * MEMORY_BYTES + REST_BYTES,
        "{report}"
    );
    (survived, report)
}

fn report(survived: &[Survived], group_bytes: u64) -> String {
    let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
    let mut table = String::new();
    for one in survived {
        *counted.entry(one.outcome).or_default() += 1;
        let (name, outcome, took, peak) = (one.mechanism.name, one.outcome, one.took, one.peak_bytes >> 20);
        table.push_str(&format!("{name:<44} {outcome:<9} {took:>6.1?} {peak:>4} MB\n"));
    }
    let most = survived.iter().map(|one| one.peak_bytes).max().unwrap_or(0);
    format!(
        "{table}{counted:?}, peak of a helper {} MB, of the group {} MB",
        most >> 20,
        group_bytes >> 20
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_file_of_the_corpus_is_survived() {
    let (survived, report) = all_survived(hostile::all()).await;
    let outcomes: Vec<&str> = survived.iter().map(|one| one.outcome).collect();
    // Mechanisms that reach a bound show that the corpus is real; those that no longer do are handled by their reader.
    for bounds in [&["memory"][..], &["stack"], &["deadline", "cpu"]] {
        assert!(bounds.iter().any(|bound| outcomes.contains(bound)), "{report}");
    }
    let unreal: Vec<&str> = survived
        .iter()
        .filter(|one| one.outcome == "handled" && hostile::excess(&(one.mechanism.make)()).is_none())
        .filter(|one| has_control(&one.mechanism))
        .map(|one| one.mechanism.name)
        .collect();
    assert!(
        unreal.is_empty(),
        "an honest file could be like these: {unreal:?}\n{report}"
    );
    if let Some(path) = std::env::var_os("ANNALS_HOSTILE_REPORT") {
        std::fs::write(path, report).expect("the report can be written");
    }
}

/// The part of the test below that runs as an ordinary user, without a cgroup: what is after memory or the stack.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_and_stack_are_bounded_as_an_ordinary_user() {
    if std::env::var_os(group::AS_ORDINARY).is_none() {
        return;
    }
    let mut files = hostile::all();
    files.retain(|file| matches!(file.aim, Aim::Memory | Aim::Stack));
    let (survived, report) = all_survived(files).await;
    for bound in ["memory", "stack"] {
        assert!(survived.iter().any(|one| one.outcome == bound), "{report}");
    }
}

#[test]
fn the_same_holds_for_an_ordinary_user() {
    if met(Requirement::Root) {
        group::again_as_an_ordinary_user(&["memory_and_stack_are_bounded_as_an_ordinary_user"]);
    }
}

#[test]
fn mechanisms_are_listed_and_small() {
    let all = [hostile::all(), hostile::for_a_browser()].concat();
    let line = |mechanism: &Mechanism| format!("{} ({:?})", mechanism.name, mechanism.aim);
    let counted = all.iter().filter(|mechanism| has_control(mechanism));
    annals_requirements::assert_listed("content", 300, counted.map(line));
    for mechanism in &all {
        let file = (mechanism.make)();
        assert!(
            (1..=4 << 20).contains(&file.len()),
            "{}: {} bytes",
            mechanism.name,
            file.len()
        );
    }
}

/// The control would show nothing if files of friends were above a ceiling: texts, and the same report as every form that the
/// program can make. Two of those are archives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn honest_files_are_below_every_ceiling() {
    let report = include_str!("../../annals-render/tests/report/report.md");
    let page = "<html><head><title>x</title></head><body><p>One <a href='https://x.example/'>link</a>.</p></body></html>";
    let drawing = "<svg xmlns='http://www.w3.org/2000/svg' width='99' height='99'><g><rect width='9' height='9'/></g></svg>";
    let rows = "name,price\n".repeat(200);
    for file in [report, page, drawing, &rows] {
        assert_eq!(hostile::excess(file.as_bytes()), None);
    }
    let content = Content::new();
    for form in [Form::Pdf, Form::Png, Form::Docx, Form::Pptx] {
        let file = content.render(form, Document::markdown(report), |_| None).await;
        let file = file.expect("it is rendered").bytes;
        let excess = hostile::excess(&file);
        assert_eq!(excess, None, "{form:?} of {} bytes", file.len());
    }
}

/// Tasks of no size, one after the other, in each of these in turns: the median time in each.
async fn typical<const N: usize>(contents: [&Content; N]) -> [Duration; N] {
    const WARM: usize = 20;
    const MEASURED: usize = 201;
    let mut times = [const { Vec::new() }; N];
    for run in 0..WARM + MEASURED {
        for (content, times) in contents.iter().zip(&mut times) {
            let started = Instant::now();
            works(content).await;
            if run >= WARM {
                times.push(started.elapsed());
            }
        }
    }
    times.map(|mut times: Vec<Duration>| {
        times.sort();
        times[MEASURED / 2]
    })
}

async fn send_all(content: &Content, files: &[Mechanism]) {
    let attempts = futures::stream::iter(files).map(|mechanism| {
        let content = content.clone();
        async move { drop(attempt(&content, mechanism).await) }
    });
    attempts.buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
}

/// What this process holds, after its allocator has handed back what it can.
#[derive(Clone, Copy)]
struct Held {
    /// In pieces that were allocated and not freed.
    allocated_bytes: u64,
    /// Resident, and of no file: the allocator's pieces in use and between them, stacks.
    anonymous_bytes: u64,
    /// Resident pages of the program and its libraries.
    mapped_bytes: u64,
}

impl Held {
    fn now() -> Self {
        // SAFETY: neither has preconditions.
        let counted = unsafe {
            libc::malloc_trim(0);
            libc::mallinfo2()
        };
        Held {
            allocated_bytes: (counted.uordblks + counted.hblkhd) as u64,
            anonymous_bytes: group::own_bytes("RssAnon:"),
            mapped_bytes: group::own_bytes("RssFile:"),
        }
    }
}

impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kib = |bytes: u64| bytes >> 10;
        write!(
            f,
            "{} KiB allocated, {} KiB resident without a file, {} KiB of the program",
            kib(self.allocated_bytes),
            kib(self.anonymous_bytes),
            kib(self.mapped_bytes)
        )
    }
}

/// On demand: a thousand files in a row leave this process as small and the next task as quick as before.
///
/// Other work on the machine would make the second half of any comparison slower or quicker. So the helpers that have been
/// through all files are compared with helpers that have seen none, in turns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes; `cargo xtask hostile` runs it"]
async fn a_thousand_files_leave_no_trace() {
    annals_content::give_back_freed_memory();
    let content = content().await;
    let corpus = hostile::all();
    let files: Vec<Mechanism> = corpus.iter().cycle().take(1000).copied().collect();
    let [before_time] = typical([&content]).await;
    let before = Held::now();
    let watch = Watch::start(Helpers::Readers);
    let started = Instant::now();
    let (first, rest) = files.split_at(corpus.len());
    send_all(&content, first).await;
    let first_held = Held::now();
    send_all(&content, rest).await;
    let took = started.elapsed();
    let peak_bytes = watch.finish();
    let after = Held::now();
    let fresh = Content::with(limits(DEADLINES[1]), Isolation::Full);
    let [after_time, fresh_time] = typical([&content, &fresh]).await;
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let report = format!(
        "1000 files in {took:.0?}, load {}; a task before {before_time:.2?}, after {after_time:.2?}, in fresh helpers beside it \
         {fresh_time:.2?}; peak of the group {} MB\nthis process before: {before}\nafter {} files: {first_held}\nafter all: \
         {after}\n",
        load.split(' ').next().unwrap_or_default(),
        peak_bytes >> 20,
        first.len(),
    );
    assert!(
        after_time < fresh_time * 3 / 2 + Duration::from_millis(1),
        "{report}"
    );
    assert!(
        after.allocated_bytes < before.allocated_bytes + (1 << 20),
        "{report}"
    );
    assert!(
        after.anonymous_bytes < before.anonymous_bytes + (8 << 20),
        "{report}"
    );
    if let Some(path) = std::env::var_os("ANNALS_HOSTILE_REPORT") {
        std::fs::write(path, report).expect("the report can be written");
    }
}
