//! The optional browser: same text as the embedded engine, nothing run, nothing fetched, nothing left behind.

mod common;

use std::io::Read as _;
use std::net::TcpListener;

use annals_render::{Engine, Request, UsedEngine};
use common::{DASHBOARD, assets, pdf_pages, sources, squeeze};

#[allow(clippy::print_stdout, reason = "a skipped check says so")]
fn browser_is_there() -> bool {
    let there = ["chromium", "chromium-browser", "google-chrome"]
        .iter()
        .any(|name| common::program(name).is_some());
    if !there {
        println!("skipped: no Chromium is installed");
    }
    there
}

#[test]
fn the_browser_prints_the_document_and_touches_nothing_else() {
    if !browser_is_there() {
        return;
    }
    let canary = TcpListener::bind("127.0.0.1:0").unwrap();
    canary.set_nonblocking(true).unwrap();
    let port = canary.local_addr().unwrap().port();
    let bait = format!(
        "<img src='http://127.0.0.1:{port}/a.png'><link rel=stylesheet href='http://127.0.0.1:{port}/b.css'>\
         <style>body {{ background: url(http://127.0.0.1:{port}/c.png) }} @import 'http://127.0.0.1:{port}/d.css';</style>\
         <script>document.title = 'ran'; fetch('http://127.0.0.1:{port}/e')</script></body>"
    );
    let html = DASHBOARD.replace("</body>", &bait);
    let (assets, sources) = (assets(), sources());
    let request = Request {
        assets: &assets,
        sources: &sources,
        engine: Engine::Chromium,
        ..Request::html(&html)
    };
    let renderer = common::patient_renderer();
    let pdf = renderer.pdf(&request).unwrap();
    assert_eq!(pdf.engine, UsedEngine::Chromium);
    let text = pdf_pages(&pdf.bytes).concat();
    for expected in [
        "Quarterly review",
        "Retention",
        "the south fell[2]",
        "Telemetry export",
        "Image not available",
    ] {
        assert!(text.contains(&squeeze(expected)), "missing {expected} in {text}");
    }
    assert!(!text.contains("SCRIPTRAN"), "{text}");
    let png = renderer.png(&request).unwrap();
    assert!(png.bytes.starts_with(b"\x89PNG"));
    drop(renderer);
    match canary.accept() {
        Ok((mut stream, _)) => {
            let mut asked = [0; 200];
            let length = stream.read(&mut asked).unwrap_or(0);
            panic!(
                "the browser asked for {}",
                String::from_utf8_lossy(&asked[..length])
            );
        }
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
    }
    let prefix = format!("annals-chromium-{}-", std::process::id());
    let left = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    let left: Vec<_> = left
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
