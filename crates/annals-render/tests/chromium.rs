//! The optional browser: same text as the embedded engine, nothing run, nothing fetched, nothing left behind.

mod common;

use std::io::Read as _;
use std::net::TcpListener;

use annals_render::{Engine, Request, UsedEngine, Warning};
use annals_requirements::{Requirement, met};
use common::{DASHBOARD, assets, pdf_pages, sources, squeeze};

/// Every way to make a browser fetch something that we know of.
const BAIT: &str = "\
    <style>@import 'http://CANARY/import.css'; @import url(//CANARY/import2.css);\
    @font-face { font-family: bait; src: url(http://CANARY/font.woff2) }\
    body { background: url(http://CANARY/background.png); font-family: bait; cursor: url(http://CANARY/c.cur), auto }\
    p::before { content: url(http://CANARY/content.png) } li { list-style-image: url(http://CANARY/bullet.png) }\
    .bait { border-image: url(http://CANARY/border.png); mask: url(http://CANARY/mask.svg#m) }</style>\
    <img src='http://CANARY/a.png'><img srcset='http://CANARY/b.png 2x'><img src=x onerror=\"fetch('http://CANARY/on')\">\
    <picture><source srcset='http://CANARY/c.png'><img src='//CANARY/d.png'></picture>\
    <input type=image src='http://CANARY/input.png'><video poster='http://CANARY/poster.png' src='http://CANARY/v.mp4'></video>\
    <audio src='http://CANARY/a.mp3' autoplay></audio><embed src='http://CANARY/e'><object data='http://CANARY/o'></object>\
    <iframe src='http://CANARY/frame'></iframe><iframe srcdoc=\"<img src='http://CANARY/srcdoc.png'>\"></iframe>\
    <svg width=9 height=9><image href='http://CANARY/i.png' width=9 height=9 /><use href='http://CANARY/u.svg#x'/>\
    <filter id=f><feImage href='http://CANARY/fe.png'/></filter><rect filter='url(#f)' width=9 height=9 /></svg>\
    <img src=\"data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg'%3E%3Cimage href='http://CANARY/in.png'/%3E%3C/svg%3E\">\
    <link rel=stylesheet href='http://CANARY/l.css'><link rel=preload as=image href='http://CANARY/p.png'>\
    <link rel=dns-prefetch href='http://CANARY/'><link rel=preconnect href='http://CANARY/'><link rel=icon href='http://CANARY/f.ico'>\
    <meta http-equiv=refresh content='0;url=http://CANARY/refresh'><base href='http://CANARY/base/'>\
    <table background='http://CANARY/table.png'><tr><td style='background: url(http://CANARY/cell.png)'>p</td></tr></table>\
    <form action='http://CANARY/form'><button autofocus>b</button></form><a href='http://CANARY/ping' ping='http://CANARY/ping2'>a</a>\
    <script>document.title = 'ran'; fetch('http://CANARY/fetch')</script><p>p</p><div class=bait>b</div></body>";

#[test]
fn the_browser_prints_the_document_and_touches_nothing_else() {
    // The document has Japanese in it, and a character without a font would be a warning.
    if !met(Requirement::Chromium) || !met(Requirement::CjkFont) {
        return;
    }
    let canary = TcpListener::bind("127.0.0.1:0").unwrap();
    canary.set_nonblocking(true).unwrap();
    let port = canary.local_addr().unwrap().port();
    let html = DASHBOARD.replace(
        "</body>",
        &format!("<p>\u{10fffd}</p>{BAIT}").replace("CANARY", &format!("127.0.0.1:{port}")),
    );
    let (assets, sources) = (assets(), sources());
    let request = Request {
        assets: &assets,
        sources: &sources,
        engine: Engine::Chromium,
        title: Some("A title of its own"),
        ..Request::html(&html)
    };
    let renderer = common::patient_renderer().isolated();
    let pdf = renderer.pdf(&request).unwrap();
    assert_eq!(pdf.engine, UsedEngine::Chromium);
    let text = pdf_pages(&pdf.bytes).concat();
    for expected in [
        "A title of its own",
        "Quarterly review",
        "Retention",
        "the south fell[2]",
        "Telemetry export",
        "Image not available",
    ] {
        assert!(text.contains(&squeeze(expected)), "missing {expected} in {text}");
    }
    assert!(!text.contains("SCRIPTRAN"), "{text}");
    let glyphs = Warning::MissingGlyphs {
        chars: vec!['\u{10fffd}'],
    };
    assert!(pdf.warnings.contains(&glyphs), "{:?}", pdf.warnings);
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
