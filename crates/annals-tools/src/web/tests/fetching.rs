//! Caps, content types and broken servers.

use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::super::egress::{EgressPolicy, SystemResolver, USER_AGENT};
use super::super::fetch::{FetchError, FetchLimits, Fetcher};
use super::server::{Server, answer, packed_answer, redirect, target};

fn open(_: IpAddr) -> Result<(), &'static str> {
    Ok(())
}

fn fetcher(limits: FetchLimits) -> Fetcher {
    Fetcher::with_limits(
        EgressPolicy::with([], Arc::new(SystemResolver), open).unwrap(),
        annals_content::Content::new(),
        limits,
    )
}

fn small() -> FetchLimits {
    FetchLimits {
        body_bytes: 1_000,
        wire_bytes: 1_000,
        redirects: 3,
        time: Duration::from_secs(5),
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn each_type_becomes_the_text_it_has() {
    let site = Server::start(|head| match target(head) {
        "/page" => answer(
            200,
            "text/html; charset=utf-8",
            b"<title>Caf\xc3\xa9</title><h1>Hi</h1><p>a <a href='/x'>b</a>",
        ),
        "/latin" => answer(200, "text/html; charset=iso-8859-1", b"<p>Caf\xe9"),
        "/data.json" => answer(200, "application/json", b"{\"a\": 1}"),
        "/feed" => answer(200, "application/rss+xml", b"<rss/>"),
        "/pic.png" => answer(200, "image/png", b"\x89PNG\r\n\x1a\n...."),
        "/unsaid.md" => answer(200, "", b"# words"),
        "/zipped" => packed_answer(200, "text/plain", "gzip", &gzip(b"zipped words")),
        "/brotli" => packed_answer(200, "text/plain", "br", b"..."),
        "/broken.pdf" => answer(200, "application/pdf", b"%PDF-1.7 and then nothing"),
        _ => answer(404, "text/html", b"not here"),
    })
    .await;
    let fetcher = fetcher(FetchLimits::default());
    let mut shapes = Vec::new();
    for path in [
        "/page",
        "/latin",
        "/data.json",
        "/feed",
        "/pic.png",
        "/unsaid.md",
        "/zipped",
        "/brotli",
        "/broken.pdf",
        "/x",
    ] {
        shapes.push(match fetcher.fetch(&site.url(path)).await {
            Ok(page) => format!(
                "{path} {} `{}` {:?}",
                page.mime,
                page.title,
                page.text.unwrap_or("-".into())
            ),
            Err(error) => format!("{path} {}", error.code()),
        });
    }
    let shapes = shapes.join("\n").replace(&site.address.to_string(), "SITE");
    insta::assert_snapshot!(shapes, @r###"
    /page text/html `Café` "## Hi\n\na [b](http://SITE/x)"
    /latin text/html `` "Café"
    /data.json application/json `data.json` "{\"a\": 1}"
    /feed application/rss+xml `feed` "<rss/>"
    /pic.png image/png `pic.png` "-"
    /unsaid.md text/markdown `unsaid.md` "# words"
    /zipped text/plain `zipped` "zipped words"
    /brotli unreadable
    /broken.pdf unreadable
    /x http_status
    "###);
    assert!(site.requests()[0].contains(USER_AGENT), "{}", site.requests()[0]);
    assert!(!site.requests()[0].to_lowercase().contains("cookie"));
}

#[tokio::test]
async fn redirects_are_followed_to_the_end_and_loops_are_left() {
    let site = Server::start(|head| match target(head) {
        "/a" => redirect(301, "/b?x=1"),
        "/b?x=1" => redirect(307, "c"),
        "/c" => answer(200, "text/plain", b"there"),
        "/loop" => redirect(302, "/loop"),
        "/ping" => redirect(302, "/pong"),
        "/pong" => redirect(302, "/ping"),
        path if path.starts_with("/far") => redirect(302, &format!("{path}r")),
        "/nowhere" => b"HTTP/1.1 302 Moved\r\nContent-Length: 0\r\n\r\n".to_vec(),
        _ => answer(404, "text/plain", b""),
    })
    .await;
    let fetcher = fetcher(small());
    let page = fetcher.fetch(&site.url("/a")).await.unwrap();
    assert_eq!((page.url.path(), page.text.as_deref()), ("/c", Some("there")));
    for path in ["/loop", "/ping", "/far", "/nowhere"] {
        assert_eq!(
            fetcher.fetch(&site.url(path)).await.unwrap_err().code(),
            "too_many_redirects",
            "{path}"
        );
    }
    assert_eq!(
        site.requests()
            .iter()
            .filter(|head| target(head) == "/loop")
            .count(),
        4,
        "three redirects were followed"
    );
}

#[tokio::test]
async fn a_huge_answer_costs_only_its_bound() {
    let site = Server::start(|head| match target(head) {
        "/text" => answer(200, "text/plain", &[b'a'; 300_000]),
        "/page" => answer(
            200,
            "text/html",
            format!("<p>A {}", "long ".repeat(60_000)).as_bytes(),
        ),
        "/bomb" => packed_answer(200, "text/plain", "gzip", &gzip(&[b'a'; 5_000_000])),
        "/bomb.pdf" => packed_answer(200, "application/pdf", "gzip", &gzip(&[b'a'; 500_000])),
        _ => answer(200, "text/plain", b""),
    })
    .await;
    let fetcher = fetcher(FetchLimits {
        wire_bytes: 100_000,
        ..small()
    });
    for path in ["/text", "/bomb"] {
        let page = fetcher.fetch(&site.url(path)).await.unwrap();
        assert_eq!(page.size_bytes, Some(1_000), "{path}");
        assert!(
            page.text
                .unwrap()
                .ends_with("...[the answer is longer than the 1000 bytes that are fetched]")
        );
    }
    let page = fetcher.fetch(&site.url("/page")).await.unwrap();
    assert_eq!(page.size_bytes, Some(1_000));
    assert!(
        page.text
            .unwrap()
            .ends_with("long\n\n...[the page goes on: only its first 1000 bytes were read]")
    );
    let error = fetcher.fetch(&site.url("/bomb.pdf")).await.unwrap_err();
    assert_eq!(error, FetchError::TooLarge { limit_bytes: 1_000 });
}

#[tokio::test]
async fn what_has_no_text_is_named_and_left_where_it_is() {
    let site = Server::start(|_| {
        // It announces a film and sends none of it: a client that waits for it waits in vain.
        b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\nContent-Length: 5000000000\r\n\r\n".to_vec()
    })
    .await;
    let film = fetcher(small()).fetch(&site.url("/film.mp4")).await.unwrap();
    assert_eq!(
        (film.mime.as_str(), film.size_bytes, film.text),
        ("video/mp4", Some(5_000_000_000), None)
    );
}

#[tokio::test]
async fn a_page_of_a_hundred_megabytes_is_left_at_its_bound() {
    let site = Server::start(|_| answer(200, "text/plain", &vec![b'a'; 100_000_000])).await;
    let page = fetcher(FetchLimits::default())
        .fetch(&site.url("/"))
        .await
        .unwrap();
    assert_eq!(page.size_bytes, Some(annals_core::limits::WEB_FETCH_MAX_BYTES));
    assert!(page.text.unwrap().len() < 10_100_000);
}

#[tokio::test]
async fn a_server_that_never_answers_is_left_in_time() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let limits = FetchLimits {
        time: Duration::from_millis(50),
        ..small()
    };
    assert_eq!(fetcher(limits).fetch(&url).await.unwrap_err().code(), "timeout");
    drop(listener);
    assert_eq!(
        fetcher(small()).fetch(&url).await.unwrap_err().code(),
        "network_error"
    );
}

#[tokio::test]
async fn broken_answers_are_errors_not_panics() {
    let site = Server::start(|head| match target(head) {
        "/gzip" => packed_answer(200, "text/plain", "gzip", b"this is not gzip at all"),
        "/short" => {
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\nshort".to_vec()
        }
        "/garbage" => b"\x00\x01\x02 no http".to_vec(),
        "/empty" => Vec::new(),
        _ => answer(500, "text/plain", b""),
    })
    .await;
    let fetcher = fetcher(small());
    for (path, code) in [
        ("/gzip", "unreadable"),
        ("/short", "network_error"),
        ("/garbage", "network_error"),
        ("/empty", "network_error"),
        ("/x", "http_status"),
    ] {
        assert_eq!(
            fetcher.fetch(&site.url(path)).await.unwrap_err().code(),
            code,
            "{path}"
        );
    }
}
