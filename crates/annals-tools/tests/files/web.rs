//! The web tools, as blocks.

use std::sync::Arc;

use annals_tools::Tool;
use annals_tools::web::egress::{EgressPolicy, Opened};
use annals_tools::web::fetch::Fetcher;
use annals_tools::web::search::{SearchProvider, Searxng};
use annals_tools::web::{WebFetch, WebSearch};
use serde_json::json;

use crate::server::{Server, answer, target};
use crate::stage::{Stage, codes, error_code};

fn stage(opened: &[&Server], providers: Vec<Arc<dyn SearchProvider>>) -> Stage {
    let opened = opened
        .iter()
        .map(|server| Opened::parse(&server.address.to_string()).unwrap());
    let fetch: Arc<dyn Tool> = Arc::new(WebFetch::new(Fetcher::new(
        EgressPolicy::new(opened).unwrap(),
        annals_content::Content::new(),
    )));
    Stage::with(|_, _| {}, vec![fetch, Arc::new(WebSearch::new(providers))])
}

fn searxng(server: &Server) -> Arc<dyn SearchProvider> {
    Arc::new(Searxng::new(&server.url("/").parse().unwrap()).unwrap())
}

#[tokio::test]
async fn search_and_fetch_number_their_sources_in_the_pool() {
    let site = Server::start(|head| match target(head).split('?').next() {
        Some("/search") if head.contains("pageno=1") => {
            let host = head.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
            let result = |name: &str| json!({"url": format!("http://{host}/{name}"), "title": name, "content": format!("about {name}")});
            let found = if head.contains("q=first") { vec![result("a"), result("b")] } else { vec![result("b"), result("c")] };
            answer(200, "application/json", json!({"results": found}).to_string().as_bytes())
        }
        Some("/search") => answer(200, "application/json", b"{\"results\": []}"),
        Some("/b") => answer(200, "text/html", b"<title>Page B</title><p>All that B has to say."),
        Some("/d") => answer(200, "text/plain", b"plain D"),
        _ => answer(404, "text/plain", b""),
    })
    .await;
    let mut stage = stage(&[&site], vec![searxng(&site)]);
    let shown = |stage: &Stage| stage.shape().replace(&site.address.to_string(), "SITE");
    stage
        .call(
            "web_tools.web_search",
            json!({"queries": ["first", "second"], "n": 5}),
        )
        .await;
    insta::assert_snapshot!(shown(&stage), @r#"
    react.tool.call tc:turn_1.c1.call application/json | {"tool_id":"web_tools.web_search","tool_call_id":"c1","params":{"queries":["first","second"],"n":5},"ts":"2026-02-09T02:14:31.112000Z"}
    react.tool.result tc:turn_1.c1.result application/json | {"artifact_path":"so:sources_pool[1-3]","mime":"application/json","kind":"file","visibility":"internal","tool_call_id":"c1"}
    react.tool.result so:sources_pool[1-3] application/json | [{"sid":1,"title":"a","url":"http://SITE/a","text":"about a"},{"sid":2,"title":"b","url":"http://SITE/b","text":"about b"},{"sid":3,"title":"c","url":"http://SITE/c","text":"about c"}]
    "#);
    let outcome = stage
        .call(
            "web_tools.web_fetch",
            json!({"urls": [site.url("/d"), site.url("/b"), site.url("/gone")]}),
        )
        .await;
    assert_eq!(
        (codes(&outcome), error_code(&outcome)),
        (vec!["tool_result_error"], None)
    );
    insta::assert_snapshot!(shown(&stage), @r#"
    react.tool.call tc:turn_1.c2.call application/json | {"tool_id":"web_tools.web_fetch","tool_call_id":"c2","params":{"urls":["http://SITE/d","http://SITE/b","http://SITE/gone"]},"ts":"2026-02-09T02:14:31.112000Z"}
    react.notice tc:turn_1.c2.notice application/json | {"code":"tool_result_error","message":"`http://SITE/gone` was not fetched: the server answered 404","error":"http_status","url":"http://SITE/gone"}
    react.tool.result tc:turn_1.c2.result application/json | {"artifact_path":"so:sources_pool[2,4]","mime":"application/json","kind":"file","visibility":"internal","tool_call_id":"c2"}
    react.tool.result so:sources_pool[2,4] application/json | {"http://SITE/d":{"sid":4,"title":"d","content":"plain D"},"http://SITE/b":{"sid":2,"title":"Page B","content":"All that B has to say."}}
    "#);
    let timeline = stage.cx.timeline.read().unwrap();
    let row = timeline.pool().of_url(&site.url("/b")).unwrap();
    assert_eq!(
        (row.sid.unwrap().get(), row.content.as_deref()),
        (2, Some("All that B has to say."))
    );
    assert_eq!(row.mime.as_deref(), Some("text/html"));
    assert!(row.fetched_time_iso.is_some());
}

#[tokio::test]
async fn a_search_without_a_provider_says_how_to_get_one() {
    let mut stage = stage(&[], vec![]);
    let outcome = stage
        .call("web_tools.web_search", json!({"queries": ["x"]}))
        .await;
    assert_eq!(
        (codes(&outcome), error_code(&outcome)),
        (vec!["tool_result_error"], Some("search_provider_not_configured"))
    );
}

#[tokio::test]
async fn the_next_provider_is_asked_when_one_fails() {
    let broken = Server::start(|_| answer(500, "text/plain", b"")).await;
    let site = Server::start(|_| {
        answer(
            200,
            "application/json",
            br#"{"results": [{"url": "https://a.org", "title": "A"}]}"#,
        )
    })
    .await;
    let mut stage = stage(&[], vec![searxng(&broken), searxng(&site)]);
    let outcome = stage
        .call("web_tools.web_search", json!({"queries": ["x"], "n": 1}))
        .await;
    assert_eq!((codes(&outcome), error_code(&outcome)), (vec![], None));
    let mut stage = self::stage(&[], vec![searxng(&broken)]);
    let outcome = stage
        .call("web_tools.web_search", json!({"queries": ["x", "y"]}))
        .await;
    assert_eq!(
        (codes(&outcome).len(), error_code(&outcome)),
        (2, Some("search_failed"))
    );
}

#[tokio::test]
async fn a_private_address_is_refused_and_a_call_of_nothing_but_failures_fails() {
    let canary = Server::canary().await;
    let mut stage = stage(&[], vec![]);
    let urls = [
        canary.url("/"),
        format!("http://2130706433:{}/", canary.address.port()),
        "file:///etc/passwd".into(),
    ];
    let outcome = stage.call("web_tools.web_fetch", json!({"urls": urls})).await;
    assert_eq!(
        (codes(&outcome).len(), error_code(&outcome)),
        (3, Some("address_refused"))
    );
    assert_eq!(canary.connections(), 0);
}

#[tokio::test]
async fn a_long_page_is_shown_in_part_and_read_on_from_the_pool() {
    let site = Server::start(|_| {
        answer(
            200,
            "text/plain",
            "a line of the long page\n".repeat(5_000).as_bytes(),
        )
    })
    .await;
    let mut stage = stage(&[&site], vec![]);
    stage
        .call("web_tools.web_fetch", json!({"urls": [site.url("/long.txt")]}))
        .await;
    assert!(stage.shape().len() < 20_000 && stage.shape().contains("so:sources_pool[1]"));
    stage
        .call("react.read", json!({"paths": ["so:sources_pool[1]"]}))
        .await;
    let timeline = stage.cx.timeline.read().unwrap();
    assert_eq!(
        timeline
            .pool()
            .of_url(&site.url("/long.txt"))
            .unwrap()
            .content
            .as_ref()
            .unwrap()
            .len(),
        120_000
    );
}

#[tokio::test]
async fn a_search_that_finds_nothing_is_an_empty_list_and_no_error() {
    let site = Server::start(|_| answer(200, "application/json", b"{\"results\": []}")).await;
    let mut stage = stage(&[], vec![searxng(&site)]);
    let outcome = stage
        .call("web_tools.web_search", json!({"queries": ["nothing at all"]}))
        .await;
    assert_eq!((codes(&outcome), error_code(&outcome)), (vec![], None));
    assert!(
        stage
            .shape()
            .ends_with("react.tool.result tc:turn_1.c1.result application/json | []"),
        "{}",
        stage.shape()
    );
}
