//! Hostile pages through the browser: none reaches anything, and what they cost is bounded. A browser that is given the same
//! pages as they are shows that the attempts are real.

mod group;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use annals_content::hostile::{self, Aim, Mechanism};
use annals_content::{Content, ContentError, Document, Form, Limits};
use annals_render::{Engine, RenderError, Renderer, Request, UsedEngine};
use annals_requirements::{Requirement, met};
use annals_sandbox::Isolation;

use group::{Helpers, Watch};

annals_sandbox::helpers_in_tests!(annals_content::init);

/// What every machine's list of accounts begins with, or has.
const OF_THE_FILE: &str = "root:x:0";

fn pages(is_wanted: impl Fn(&Mechanism) -> bool) -> Vec<Mechanism> {
    let mut pages = hostile::for_a_browser();
    pages.retain(is_wanted);
    pages
}

fn html(mechanism: &Mechanism) -> String {
    String::from_utf8((mechanism.make)()).expect("pages are text")
}

fn asks_for_a_file(mechanism: &Mechanism) -> bool {
    html(mechanism).contains(hostile::A_FILE)
}

/// A server that gives out pages and remembers what else it was asked for.
struct Canary {
    port: u16,
    asked: Arc<Mutex<BTreeSet<String>>>,
}

impl Canary {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let asked = Arc::new(Mutex::new(BTreeSet::new()));
        let (remembered, address) = (Arc::clone(&asked), format!("http://127.0.0.1:{port}/"));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (remembered, address) = (Arc::clone(&remembered), address.clone());
                std::thread::spawn(move || answer(stream, &remembered, &address));
            }
        });
        Self { port, asked }
    }

    fn address(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    fn asked(&self) -> BTreeSet<String> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A page that asks for its own name here.
fn baited(mechanism: &Mechanism, address: &str) -> String {
    html(mechanism).replace(hostile::ELSEWHERE, &format!("{address}asked/{}", mechanism.name))
}

fn answer(stream: TcpStream, asked: &Mutex<BTreeSet<String>>, address: &str) {
    let mut lines = BufReader::new(&stream).lines();
    let Some(Ok(first)) = lines.next() else { return };
    while lines
        .next()
        .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
    {}
    let path = first.split(' ').nth(1).unwrap_or_default();
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let body = match path.split_once('/').map(|(_, rest)| rest).unwrap_or_default() {
        "" => elsewhere()
            .iter()
            .map(|page| format!("<iframe {} src='/page/{}'></iframe>", silence(page), page.name))
            .collect(),
        rest => match rest.split_once('/') {
            Some(("page", name)) => elsewhere()
                .iter()
                .find(|page| page.name == name)
                .map(|page| baited(page, address))
                .unwrap_or_default(),
            Some(("asked", name)) => {
                asked
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .insert(name.to_owned());
                String::new()
            }
            _ => String::new(),
        },
    };
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n";
    let length = body.len();
    // The browser may be gone already.
    let _ = write!(&stream, "{head}Content-Length: {length}\r\n\r\n{body}");
}

/// Lets a page that opens dialogs go on without anybody who closes them: all pages wait where one does.
fn silence(page: &Mechanism) -> &'static str {
    let html = html(page);
    match html.contains("alert(") || html.contains("print(") {
        true => "sandbox='allow-scripts'",
        false => "",
    }
}

/// Pages that ask for something in the network.
fn elsewhere() -> Vec<Mechanism> {
    pages(|page| page.aim == Aim::Reach && !asks_for_a_file(page))
}

/// In the network and among the files of this machine, so that only what is made of the page and what the browser is told
/// keeps it from reaching them; a helper has neither.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_page_reaches_a_file_or_an_address() {
    if !met(Requirement::Chromium) {
        return;
    }
    let canary = Canary::start();
    let limits = annals_render::Limits {
        deadline: Duration::from_secs(600),
        ..annals_render::Limits::default()
    };
    let renderer = Renderer::in_process_with(limits).isolated();
    let content = Content::new();
    for mechanism in pages(|page| page.aim == Aim::Reach) {
        let html = baited(&mechanism, &canary.address());
        let request = Request {
            engine: Engine::Chromium,
            ..Request::html(&html)
        };
        let pdf = tokio::task::block_in_place(|| renderer.pdf(&request)).expect(mechanism.name);
        assert_eq!(pdf.engine, UsedEngine::Chromium, "{}", mechanism.name);
        let text = content.pdf_text(&pdf.bytes).await.expect(mechanism.name).text;
        assert!(!text.contains(OF_THE_FILE), "{}: {text}", mechanism.name);
    }
    drop(renderer);
    assert_eq!(canary.asked(), BTreeSet::new());
}

/// A browser as it comes, without rights, in a folder of its own. Ended and removed when dropped.
struct PlainBrowser {
    child: Child,
    folder: PathBuf,
}

impl PlainBrowser {
    fn start(name: &str, arguments: impl FnOnce(&Path) -> Vec<String>) -> Self {
        let folder = std::env::temp_dir().join(format!("annals-test-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&folder, mode).expect("a folder for everybody");
        let arguments = arguments(&folder);
        let mut command = Command::new(annals_render::find_chromium().expect("a browser"));
        command
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
            ])
            .args(["--disable-popup-blocking", "--no-first-run"])
            .arg(format!("--user-data-dir={}", folder.join("profile").display()))
            .args(arguments)
            .env("HOME", &folder)
            .env("TMPDIR", &folder)
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        if annals_requirements::is_root() {
            command.uid(group::ORDINARY).gid(group::ORDINARY);
        }
        let child = command.spawn().expect("the browser starts");
        Self { child, folder }
    }
}

impl Drop for PlainBrowser {
    fn drop(&mut self) {
        // SAFETY: plain system call; the group is that of our own child, which has not been waited for.
        unsafe { libc::kill(-(self.child.id() as libc::pid_t), libc::SIGKILL) };
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The control of the test above, for addresses.
#[test]
fn every_page_reaches_its_address_in_a_browser_without_guards() {
    if !met(Requirement::Chromium) {
        return;
    }
    let canary = Canary::start();
    let wanted: BTreeSet<String> = elsewhere().iter().map(|page| page.name.to_owned()).collect();
    // Without a port to be told something by, a browser without a window prints its page and ends.
    let browser = |path: &str| {
        let address = canary.address() + path;
        PlainBrowser::start("reach", |_| vec!["--remote-debugging-port=0".to_owned(), address])
    };
    // All in one page, as far as something still comes of them.
    let frames = browser("");
    let (mut asked, mut last) = (BTreeSet::new(), Instant::now());
    while last.elapsed() < Duration::from_secs(if asked.is_empty() { 60 } else { 8 }) && asked != wanted {
        std::thread::sleep(Duration::from_millis(100));
        if canary.asked() != asked {
            (asked, last) = (canary.asked(), Instant::now());
        }
    }
    drop(frames);
    // A frame has no focus and is not drawn where nobody sees it: the rest are pages of their own.
    for name in wanted.difference(&asked) {
        let alone = browser(&format!("page/{name}"));
        let until = Instant::now() + Duration::from_secs(30);
        while !canary.asked().contains(name) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
        }
        drop(alone);
    }
    let asked = canary.asked();
    let unreal: Vec<_> = wanted.difference(&asked).collect();
    assert!(unreal.is_empty(), "these prove nothing: {unreal:?}");
}

/// The control for files: each page shows the file in a frame.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_shows_its_file_in_a_browser_without_guards() {
    if !met(Requirement::Chromium) {
        return;
    }
    let wanted = pages(asks_for_a_file);
    let mut printed = PathBuf::new();
    let mut browser = PlainBrowser::start("files", |folder| {
        let mut frames = String::new();
        for page in &wanted {
            let name = format!("{}.html", page.name);
            std::fs::write(folder.join(&name), (page.make)()).expect("a page");
            frames.push_str(&format!("<iframe src='{name}'></iframe>"));
        }
        std::fs::write(folder.join("index.html"), frames).expect("a page");
        printed = folder.join("printed.pdf");
        vec![
            "--timeout=10000".to_owned(),
            format!("--print-to-pdf={}", printed.display()),
            format!("file://{}", folder.join("index.html").display()),
        ]
    });
    browser.child.wait().expect("it prints and ends");
    let pdf = std::fs::read(&printed).expect("it printed");
    let text = Content::new().pdf_text(&pdf).await.expect("it is a PDF").text;
    assert_eq!(text.matches(OF_THE_FILE).count(), wanted.len(), "{text}");
}

const AT_ONCE: usize = 2;
const MEMORY_BYTES: u64 = 1 << 30;
/// What is taken between two looks comes on top where memory is counted.
const BETWEEN_LOOKS_BYTES: u64 = 256 << 20;
const OUTPUT_BYTES: u64 = 1 << 20;
/// What a page may take at least, and at most on a machine with much other work.
const DEADLINES: [Duration; 2] = [Duration::from_secs(4), Duration::from_secs(15)];

/// A browser whose memory bound no other lane has: by that its processes are known from outside.
fn lane(number: usize, deadline: Duration) -> (Content, u64) {
    let memory_bytes = MEMORY_BYTES - ((number as u64) << 16);
    let limits = Limits {
        browser_memory_bytes: memory_bytes,
        deadline,
        output_bytes: OUTPUT_BYTES,
        ..Limits::default()
    };
    (Content::with(limits, Isolation::Full), memory_bytes)
}

async fn print(content: &Content, html: String) -> Result<(), ContentError> {
    let mut document = Document::html(html);
    document.head.engine = Engine::Chromium;
    let pdf = content.render(Form::Pdf, document, |_| None).await?;
    assert_eq!(pdf.engine, UsedEngine::Chromium);
    Ok(())
}

/// The next page is printed. A machine with other work may need more than one deadline to start a browser again.
async fn works(content: &Content) {
    let mut last = None;
    for _ in 0..5 {
        match print(content, "<p>fine</p>".to_owned()).await {
            Ok(()) => return,
            Err(error) => last = Some(error),
        }
    }
    panic!("the next page fails again and again: {last:?}");
}

/// Starting a browser and a page of no size must fit into it several times.
async fn deadline() -> Duration {
    let (patient, _) = lane(0, Duration::from_secs(120));
    let started = Instant::now();
    works(&patient).await;
    let [least, most] = DEADLINES;
    (started.elapsed() * 3).clamp(least, most)
}

/// The bound that ended it, if its words name one.
fn named_bound(error: &ContentError) -> Option<&'static str> {
    let says = |words: &str| error.to_string().contains(words);
    match error {
        ContentError::Deadline { .. } if says("it took longer than") => Some("deadline"),
        ContentError::Memory { .. } if says("MB of memory") => Some("memory"),
        ContentError::Output { .. } if says("1048576 bytes") => Some("output"),
        ContentError::Render(RenderError::Chromium { .. }) if says("MB of memory") => Some("memory"),
        ContentError::Render(RenderError::TooManyPages { .. }) if says("1000") => Some("pages"),
        _ => None,
    }
}

/// Prints these pages in several lanes side by side: each ends at a bound that is named, which is also what shows that it is
/// real; memory of its browser stays below the bound; and the next page is printed.
async fn all_are_bounded(pages: Vec<Mechanism>) {
    let deadline = deadline().await;
    let watch = Watch::start(Helpers::Browsers);
    let next = Mutex::new(pages.into_iter());
    let take = || next.lock().expect("nobody panics while taking").next();
    let lanes = (0..AT_ONCE).map(async |number| {
        let (content, memory_bytes) = lane(number, deadline);
        let mut told = Vec::new();
        while let Some(page) = take() {
            watch.take(memory_bytes);
            let started = Instant::now();
            let result = print(&content, html(&page)).await;
            let took = started.elapsed();
            works(&content).await;
            let peak_bytes = watch.take(memory_bytes).expect("a browser was seen");
            told.push((page, result, took, peak_bytes));
        }
        told
    });
    let told: Vec<_> = futures::future::join_all(lanes)
        .await
        .into_iter()
        .flatten()
        .collect();
    watch.finish();
    let lines: Vec<String> = told
        .iter()
        .map(|(page, result, took, peak)| format!("{} {took:.1?} {} MB: {result:?}", page.name, peak >> 20))
        .collect();
    let report = lines.join("\n");
    for (page, result, _, peak_bytes) in &told {
        let bound = result.as_ref().err().and_then(named_bound);
        assert!(bound.is_some(), "{} met no bound\n{report}", page.name);
        assert!(
            *peak_bytes < MEMORY_BYTES + BETWEEN_LOOKS_BYTES,
            "{} held too much\n{report}",
            page.name
        );
    }
    if let Some(path) = std::env::var_os("ANNALS_HOSTILE_REPORT") {
        std::fs::write(path, report).expect("the report can be written");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_pages_cost_is_bounded_and_the_next_page_is_printed() {
    if met(Requirement::Chromium) {
        all_are_bounded(pages(|page| page.aim != Aim::Reach)).await;
    }
}

/// The part of the test below that runs as an ordinary user, without a cgroup.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_bounded_as_an_ordinary_user() {
    if std::env::var_os(group::AS_ORDINARY).is_some() {
        all_are_bounded(pages(|page| page.aim == Aim::Memory)).await;
    }
}

#[test]
fn the_same_holds_for_an_ordinary_user() {
    if met(Requirement::Root) && met(Requirement::Chromium) {
        group::again_as_an_ordinary_user(&["memory_is_bounded_as_an_ordinary_user"]);
    }
}
