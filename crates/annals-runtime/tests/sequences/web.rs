//! The web tools: pages found and pages read, from a server on loopback that a person has opened.

use std::sync::Arc;

use annals_runtime::Agent;
use annals_tools::Tool;
use annals_tools::web::egress::{EgressPolicy, Opened};
use annals_tools::web::fetch::Fetcher;
use annals_tools::web::search::{SearchProvider, Searxng};
use annals_tools::web::{WebFetch, WebSearch};
use serde_json::{Value, json};

use crate::common::{Bench, turn, turn_shape};
use crate::server::{Server, answer, redirect, target};

/// A site with three pages and a search over them.
pub(crate) async fn site() -> Server {
    Server::start(|head| match target(head).split('?').next() {
        Some("/search") if head.contains("pageno=1") => {
            let host = head.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
            let hit = |name: &str| {
                json!({"url": format!("http://{host}/{name}"), "title": format!("About {name}"), "content": format!("what {name} is")})
            };
            let found = json!({"results": [hit("tides"), hit("moon")]});
            answer(200, "application/json", found.to_string().as_bytes())
        }
        Some("/search") => answer(200, "application/json", b"{\"results\": []}"),
        Some("/moon") => answer(
            200,
            "text/html",
            b"<title>The moon</title><script>steal()</script><p>It pulls <b>twice</b> a day.</p>",
        ),
        Some("/moved") => redirect(301, "/moon"),
        Some("/wind") => answer(200, "text/plain", b"It blows from the west."),
        _ => answer(404, "text/plain", b""),
    })
    .await
}

/// Both web tools, with `site` as the provider and the only opened place.
pub(crate) fn tools(site: &Server) -> Vec<Arc<dyn Tool>> {
    let provider: Arc<dyn SearchProvider> = Arc::new(Searxng::new(&site.url("/").parse().unwrap()).unwrap());
    let opened = Opened::parse(&site.address.to_string()).unwrap();
    vec![
        Arc::new(WebSearch::new(vec![provider])),
        Arc::new(WebFetch::new(Fetcher::new(
            EgressPolicy::new([opened]).unwrap(),
            annals_content::Content::new(),
        ))),
    ]
}

async fn agent(bench: &Bench, tools: Vec<Arc<dyn Tool>>, steps: Value) -> Agent {
    bench
        .builder(json!({ "steps": steps }))
        .tools(tools)
        .build()
        .await
        .unwrap()
}

#[tokio::test]
async fn a_search_and_a_fetch_give_their_sources_the_numbers_that_are_cited() {
    let (bench, site) = (Bench::new(), site().await);
    let steps = json!([
        {"text": "Looking for it", "tool_calls": [{"id": "s1", "tool": "web_tools.web_search",
            "params": {"queries": ["why tides"], "n": 5}}]},
        {"expect": ["[TOOL RESULT s1].result web_tools.web_search", "\"sid\":2"],
         "text": "Reading", "tool_calls": [{"id": "f1", "tool": "web_tools.web_fetch",
            "params": {"urls": [site.url("/wind"), site.url("/moon"), site.url("/gone")]}}]},
        {"expect": ["It pulls **twice** a day."], "text": "The moon does it [[S:2]], not the wind [[S:3]]."}
    ]);
    let agent = agent(&bench, tools(&site), steps).await;
    let session = turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Why tides?").await;
    let address = site.address.to_string();
    insta::assert_snapshot!(turn_shape(&session, "turn_1", &[(&address, "SITE")]));
    let used = session.timeline(|timeline| {
        let answer = timeline
            .blocks()
            .iter()
            .find(|block| block.kind.tag() == "assistant.completion");
        let used = &answer.unwrap().meta().sources_used;
        used.iter().map(|sid| sid.get()).collect::<Vec<_>>()
    });
    assert_eq!(used, [2, 3]);
}

#[tokio::test]
async fn two_searches_in_one_answer_share_the_numbers_of_the_pool() {
    let (bench, site) = (Bench::new(), site().await);
    let search =
        |id: &str| json!({"id": id, "tool": "web_tools.web_search", "params": {"queries": [id], "n": 2}});
    let fetch = json!({"id": "f", "tool": "web_tools.web_fetch", "params": {"urls": [site.url("/wind"), site.url("/moved")]}});
    let steps = json!([{"tool_calls": [fetch, search("a"), search("b")]}, {"text": "Done"}]);
    let agent = agent(&bench, tools(&site), steps).await;
    let session = turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Search").await;
    let address = site.address.to_string();
    insta::assert_snapshot!(turn_shape(&session, "turn_1", &[(&address, "SITE")]));
}

#[tokio::test]
async fn without_a_provider_and_before_the_walls_the_model_gets_results_it_can_act_on() {
    let bench = Bench::new();
    let canary = Server::canary().await;
    let tools: Vec<Arc<dyn Tool>> = vec![
        Arc::new(WebSearch::new(vec![])),
        Arc::new(WebFetch::new(Fetcher::new(
            EgressPolicy::new([]).unwrap(),
            annals_content::Content::new(),
        ))),
    ];
    let steps = json!([
        {"tool_calls": [{"id": "s", "tool": "web_tools.web_search", "params": {"queries": ["x"]}}]},
        {"tool_calls": [{"id": "f", "tool": "web_tools.web_fetch", "params": {"urls": [canary.url("/"), "http://2130706433/", "file:///etc/passwd"]}}]},
        {"text": "I cannot look it up."}
    ]);
    let agent = agent(&bench, tools, steps).await;
    let session = turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Search").await;
    let address = canary.address.to_string();
    insta::assert_snapshot!(turn_shape(&session, "turn_1", &[(&address, "CANARY")]));
    assert_eq!(canary.connections(), 0);
}
