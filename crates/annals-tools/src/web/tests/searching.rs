//! The providers against servers that answer as they do.

use serde_json::json;
use url::Url;

use super::super::search::{Brave, SearchError, SearchProvider, Searxng};
use super::server::{Server, answer, target};

fn json_answer(value: serde_json::Value) -> Vec<u8> {
    answer(200, "application/json", value.to_string().as_bytes())
}

#[tokio::test]
async fn searxng_gives_pages_until_there_are_enough() {
    let server = Server::start(|head| {
        let url = Url::parse("http://x").unwrap().join(target(head)).unwrap();
        let page = url.query_pairs().find(|(name, _)| name == "pageno").unwrap().1.into_owned();
        let result = |n: &str| json!({"url": format!("https://{n}.org/"), "title": format!("<b>{n}</b>"), "content": "x &amp; y"});
        match page.as_str() {
            "1" => json_answer(json!({"results": [result("a"), {"url": "ftp://no.org"}, {"title": "no address"}, result("b")]})),
            "2" => json_answer(json!({"results": [result("b"), result("c"), result("d")]})),
            _ => json_answer(json!({"results": []})),
        }
    })
    .await;
    let provider = Searxng::new(&Url::parse(&server.url("/sx/")).unwrap()).unwrap();
    let hits = provider.search("two words & more", 3).await.unwrap();
    let shown: Vec<String> = hits
        .iter()
        .map(|hit| format!("{} {} {}", hit.url, hit.title, hit.snippet))
        .collect();
    assert_eq!(
        shown,
        [
            "https://a.org/ a x & y",
            "https://b.org/ b x & y",
            "https://c.org/ c x & y"
        ]
    );
    assert_eq!(
        target(&server.requests()[0]),
        "/sx/search?q=two+words+%26+more&format=json&pageno=1"
    );
    assert_eq!(
        provider.search("q", 50).await.unwrap().len(),
        4,
        "an empty page is the last"
    );
}

#[tokio::test]
async fn brave_gets_its_key_and_counts() {
    let server = Server::start(|head| {
        assert!(head.contains("x-subscription-token: secret"));
        json_answer(json!({"web": {"results": [
            {"url": "https://a.org", "title": "A", "description": "about <strong>a</strong>", "page_age": "2026-01-02"},
            {"url": "chrome://no", "title": "N", "description": ""},
        ]}}))
    })
    .await;
    let provider = Brave::at(Url::parse(&server.url("/v1")).unwrap(), "secret").unwrap();
    let hits = provider.search("q", 30).await.unwrap();
    assert_eq!(hits.len(), 1);
    assert_eq!(
        (hits[0].snippet.as_str(), hits[0].published.as_deref()),
        ("about a", Some("2026-01-02"))
    );
    assert_eq!(target(&server.requests()[0]), "/v1?q=q&count=20&offset=0");
}

#[tokio::test]
async fn a_provider_that_cannot_says_why_and_never_shows_its_key() {
    let server = Server::start(|head| match target(head).split('?').next() {
        Some("/401") => answer(401, "text/plain", b""),
        Some("/429") => answer(429, "text/plain", b""),
        Some("/500") => answer(500, "text/plain", b""),
        Some("/html") => answer(200, "text/html", b"<html>"),
        Some("/null") => json_answer(json!({"web": null})),
        _ => Vec::new(),
    })
    .await;
    let mut shapes = Vec::new();
    for path in ["/401", "/429", "/500", "/html", "/gone", "/null"] {
        let provider = Brave::at(Url::parse(&server.url(path)).unwrap(), "secret").unwrap();
        let found = provider.search("q", 3).await;
        assert!(!format!("{found:?}").contains("secret"));
        shapes.push(match found {
            Ok(hits) => format!("{path} {} hits", hits.len()),
            Err(SearchError::Unreachable { .. }) => format!("{path} unreachable"),
            Err(error) => format!("{path} {error}"),
        });
    }
    insta::assert_snapshot!(shapes.join("\n"), @r#"
    /401 `brave` does not accept the key: check it
    /429 `brave` has no more answers for now: try again later, with fewer queries
    /500 `brave` gave an answer that cannot be used: status 500
    /html `brave` gave an answer that cannot be used: expected value at line 1 column 1
    /gone unreachable
    /null 0 hits
    "#);
    let searxng = Searxng::new(&Url::parse(&server.url("/401")).unwrap()).unwrap();
    let refused = Server::start(|_| answer(403, "text/html", b"")).await;
    assert!(searxng.search("q", 1).await.is_err());
    let searxng = Searxng::new(&Url::parse(&refused.url("")).unwrap()).unwrap();
    assert!(
        searxng
            .search("q", 1)
            .await
            .unwrap_err()
            .to_string()
            .contains("search.formats")
    );
}
