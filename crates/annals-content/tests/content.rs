//! Helpers read and render what they should, and every bound is named when it is met.

mod group;

use std::time::{Duration, Instant};

use annals_content::{Content, ContentError, Document, Form, Limits, TreeRequest};
use annals_render::UsedEngine;
use annals_requirements::{Requirement, met};
use annals_sandbox::Isolation;
use group::descendants;

annals_sandbox::helpers_in_tests!(annals_content::init);

fn small() -> Limits {
    Limits {
        memory_bytes: 256 << 20,
        deadline: Duration::from_secs(20),
        cpu: Duration::from_secs(20),
        stack_bytes: 16 << 20,
        ..Limits::default()
    }
}

fn content(limits: Limits) -> Content {
    Content::with(limits, Isolation::Full)
}

fn nothing(_: &str) -> Option<Vec<u8>> {
    None
}

#[tokio::test]
async fn trees_come_in_the_order_they_were_asked_for() {
    let content = Content::new();
    let requests = [
        TreeRequest::Markdown {
            text: "one **two** <script>three</script>".to_owned(),
        },
        TreeRequest::Table {
            text: "a,b\n1,2".to_owned(),
            separator: ',',
        },
    ];
    let trees = content.trees(&requests).await.unwrap();
    assert_eq!(trees[1]["rows"], serde_json::json!([["1", "2"]]));
    let first = trees[0].to_string();
    assert!(first.contains(r#"["strong",null,"two"]"#), "{first}");
    // A tag that is none of the known ones is text.
    assert!(!first.contains(r#"["script""#), "{first}");
}

#[tokio::test]
async fn pages_files_and_documents_are_read_and_rendered() {
    let content = Content::new();
    let page = content
        .page("<title>T</title><p>one <b>two</b></p>", "https://x.example/")
        .await
        .unwrap();
    assert_eq!(
        (page.title.as_str(), page.markdown.as_str()),
        ("T", "one **two**")
    );

    let pictures = |name: &str| {
        (name == "a.svg").then(|| {
            b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'><rect width='9' height='9'/></svg>".to_vec()
        })
    };
    let document = Document::markdown("# Hello\n\nwords ![a](a.svg) ![b](b.svg)");
    let pdf = content
        .render(Form::Pdf, document.clone(), pictures)
        .await
        .unwrap();
    assert_eq!((pdf.pages, pdf.engine), (Some(1), UsedEngine::Embedded));
    let warnings: Vec<String> = pdf.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings, ["image `b.svg` not found"]);
    assert!(pdf.bytes.starts_with(b"%PDF-"));
    for form in [Form::Png, Form::Docx, Form::Pptx] {
        let file = content.render(form, document.clone(), pictures).await.unwrap();
        assert!(!file.bytes.is_empty() && file.mime == form.mime());
        if form == Form::Docx {
            // An archive with markup in it.
            let checked = content.check_attachment("a.docx", &file.bytes).await.unwrap();
            let described = content.describe_attachment(&checked.unwrap(), &file.bytes).await;
            let text = described.unwrap().text.unwrap();
            assert!(text.contains("Hello") && text.contains("words"), "{text}");
        }
    }
    let mut laid_out = Document::html("<h1>Laid out</h1><table><tr><td>cell</td></tr></table>");
    laid_out.head.engine = annals_render::Engine::Embedded;
    let html = content.render(Form::Pdf, laid_out, nothing).await.unwrap();
    assert_eq!((html.pages, html.engine), (Some(1), UsedEngine::Embedded));
    let drawn = content.pdf_page(&html.bytes, 1, 300).await.unwrap();
    assert!(drawn.pages == 1 && drawn.png.starts_with(b"\x89PNG"));

    let text = content.pdf_text(&pdf.bytes).await.unwrap();
    assert!(
        text.text.contains("Hello") && text.text.contains("words"),
        "{text:?}"
    );
    let checked = content
        .check_attachment("a.pdf", &pdf.bytes)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(checked.pages, Some(1));
    assert!(content.check_attachment("", b"text").await.unwrap().is_err());
    assert!(matches!(
        content.pdf_text(b"%PDF-1.5\nrubbish").await,
        Err(ContentError::Unreadable(_))
    ));
}

#[tokio::test]
async fn a_helper_sees_no_network_no_files_and_no_environment() {
    // SAFETY: nextest runs this test in a process of its own; under `cargo test` no other test reads this name.
    unsafe { std::env::set_var("ANNALS_TEST_SECRET", "do-not-tell") };
    let content = Content::new();
    content.page("<p>x", "https://x.example/").await.unwrap();
    let helper = helpers().pop().expect("it runs");
    let environment = read(helper, "environ");
    assert!(
        environment.contains("PATH=") && !environment.contains("do-not-tell"),
        "{environment}"
    );
    let status = read(helper, "status");
    assert!(
        status.contains("Seccomp:\t2") && status.contains("NoNewPrivs:\t1"),
        "{status}"
    );
    assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
    let roots = std::fs::read_dir(format!("/proc/{helper}/root")).unwrap();
    let mut names: Vec<String> = roots
        .flatten()
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.retain(|name| ["home", "root", "work", "var", "workspace"].contains(&name.as_str()));
    assert!(names.is_empty(), "{names:?}");
    let own = std::fs::read_link("/proc/self/ns/net").unwrap();
    assert_ne!(std::fs::read_link(format!("/proc/{helper}/ns/net")).unwrap(), own);
}

#[tokio::test]
async fn every_bound_is_named_and_the_next_task_works() {
    let memory = content(Limits {
        memory_bytes: 128 << 20,
        ..small()
    });
    let bomb = annals_content::hostile::all()
        .into_iter()
        .find(|mechanism| mechanism.name == "pdf-states-saved-without-end")
        .unwrap();
    let error = memory.pdf_text(&(bomb.make)()).await.unwrap_err();
    assert!(matches!(error, ContentError::Memory { .. }), "{error:?}");
    assert!(error.to_string().contains("128 MB"), "{error}");
    works(&memory).await;

    let nesting = content(Limits {
        stack_bytes: 2 << 20,
        ..small()
    });
    let drawing = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'>{}</svg>",
        "<svg>".repeat(541) + &"</svg>".repeat(541)
    );
    let drawing = move |_: &str| Some(drawing.clone().into_bytes());
    let error = nesting
        .render(Form::Pdf, Document::markdown("![x](x.svg)"), drawing)
        .await
        .unwrap_err();
    assert!(matches!(error, ContentError::Nesting { .. }), "{error:?}");
    works(&nesting).await;

    let slow = "<rt>".repeat(400_000);
    let late = content(Limits {
        deadline: Duration::from_millis(1500),
        ..small()
    });
    works(&late).await;
    let started = Instant::now();
    let error = late.page(&slow, "https://x.example/").await.unwrap_err();
    assert!(matches!(error, ContentError::Deadline { .. }), "{error:?}");
    assert!(
        started.elapsed() < Duration::from_secs(4),
        "{:?}",
        started.elapsed()
    );

    let busy = content(Limits {
        cpu: Duration::from_millis(1),
        ..small()
    });
    let error = busy.page(&slow, "https://x.example/").await.unwrap_err();
    assert!(matches!(error, ContentError::Cpu { .. }), "{error:?}");

    let output = content(Limits {
        output_bytes: 1000,
        ..small()
    });
    let error = output
        .render(Form::Pdf, Document::markdown("words"), nothing)
        .await
        .unwrap_err();
    assert!(
        matches!(error, ContentError::Output { limit_bytes: 1000 }),
        "{error:?}"
    );
}

async fn works(content: &Content) {
    let page = content.page("<p>fine</p>", "https://x.example/").await.unwrap();
    assert_eq!(page.markdown, "fine");
}

#[tokio::test]
async fn helpers_are_reused_bounded_and_ended_when_idle() {
    let content = content(Limits {
        helpers: 2,
        idle: Duration::from_millis(700),
        ..small()
    });
    works(&content).await;
    let first = helpers();
    works(&content).await;
    assert_eq!(helpers(), first, "a healthy helper is used again");
    let many = (0..12).map(|_| works(&content));
    futures::future::join_all(many).await;
    assert!(helpers().len() <= 2, "{:?}", helpers());
    let until = Instant::now() + Duration::from_secs(10);
    while !helpers().is_empty() {
        assert!(Instant::now() < until, "{:?}", helpers());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    works(&content).await;
}

#[tokio::test]
async fn a_dropped_task_kills_its_helper() {
    let content = content(small());
    let slow = "<rt>".repeat(400_000);
    let task = content.page(&slow, "https://x.example/");
    assert!(
        tokio::time::timeout(Duration::from_millis(1500), task)
            .await
            .is_err()
    );
    let until = Instant::now() + Duration::from_secs(10);
    while !helpers().is_empty() {
        assert!(Instant::now() < until, "{:?}", helpers());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    works(&content).await;
}

/// Host process ids of this process' content helpers.
fn helpers() -> Vec<u32> {
    let mut found = descendants();
    found.retain(|pid| read(*pid, "cmdline").starts_with("/annals-helper\0"));
    found.sort_unstable();
    found
}

fn read(pid: u32, file: &str) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn the_browser_runs_behind_the_same_layers() {
    if !met(Requirement::Chromium) {
        return;
    }
    let canary = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    canary.set_nonblocking(true).unwrap();
    let port = canary.local_addr().unwrap().port();
    let html = format!(
        "<h1>Printed</h1><img src='http://127.0.0.1:{port}/a.png'><style>p{{background:url(http://127.0.0.1:{port}/b)}}</style>\
         <svg><style>&lt;/style&gt;&lt;iframe src='file:///etc/passwd'&gt;&lt;/iframe&gt;</style></svg><p>x"
    );
    let mut document = Document::html(html);
    document.head.engine = annals_render::Engine::Chromium;
    let content = content(Limits {
        deadline: Duration::from_secs(60),
        ..Limits::default()
    });
    let pdf = content.render(Form::Pdf, document, nothing).await.unwrap();
    assert_eq!(pdf.engine, UsedEngine::Chromium);
    let browsers = descendants()
        .into_iter()
        .filter(|pid| read(*pid, "cmdline").contains("--remote-debugging-pipe"))
        .collect::<Vec<_>>();
    assert!(!browsers.is_empty());
    let own = std::fs::read_link("/proc/self/ns/net").unwrap();
    for browser in browsers {
        let status = read(browser, "status");
        let is_root = status.lines().any(|line| line.starts_with("Uid:\t0\t"));
        assert!(!is_root && status.contains("Seccomp:\t2"), "{status}");
        assert_ne!(
            std::fs::read_link(format!("/proc/{browser}/ns/net")).unwrap(),
            own
        );
    }
    let text = content.pdf_text(&pdf.bytes).await.unwrap().text;
    assert!(text.contains("Printed") && !text.contains("root:"), "{text}");
    assert!(
        canary.accept().is_err(),
        "the browser reached this machine's network"
    );
}

/// Runs all of the above once more as somebody without rights: without a cgroup, memory is counted and kinds of it that
/// belong to no process are refused, which is more than readers and browsers meet as root.
#[test]
fn the_same_holds_for_an_ordinary_user() {
    if !met(Requirement::Root) || !met(Requirement::Chromium) {
        return;
    }
    group::again_as_an_ordinary_user(&[
        "trees_come_in_the_order_they_were_asked_for",
        "pages_files_and_documents_are_read_and_rendered",
        "a_helper_sees_no_network_no_files_and_no_environment",
        "every_bound_is_named_and_the_next_task_works",
        "helpers_are_reused_bounded_and_ended_when_idle",
        "a_dropped_task_kills_its_helper",
        "the_browser_runs_behind_the_same_layers",
    ]);
}
