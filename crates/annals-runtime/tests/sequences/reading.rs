//! `react.read` of everything at once: files, sources, parts of calls, records, skills, and what is not there.

use std::collections::BTreeMap;
use std::sync::Arc;

use annals_core::ids::TurnId;
use annals_core::settings::{CacheSettings, Settings};
use annals_core::skill::Skill;
use annals_runtime::{Agent, Attachment, Session, TurnRequest};
use annals_tools::rendering;
use serde_json::{Value, json};

use crate::common::{Bench, turn, turn_shape};
use crate::documents::PNG;
use crate::server::Server;
use crate::web;

/// An agent with every kind of thing to read, that may hide anything.
async fn agent(bench: &Bench, site: &Server, steps: Value) -> Agent {
    let skill = Skill::parse(
        "---\nname: press\ndescription: How to press\n---\nPress gently [[S:1]].\n",
        Some("- sid: 1\n  url: https://press.example\n  title: Pressing\n"),
    )
    .unwrap();
    let settings = Settings {
        cache: CacheSettings {
            editable_tail_size_in_tokens: 1_000_000,
            cache_point_min_rounds: 100,
            cache_point_offset_rounds: 100,
        },
        ..Settings::default()
    };
    bench
        .builder(json!({ "steps": steps }))
        .tools(rendering::all(&annals_content::Content::new()))
        .tools(web::tools(site))
        .skills(Arc::new(BTreeMap::from([(skill.name.clone(), skill)])))
        .settings(settings)
        .build()
        .await
        .unwrap()
}

/// Attachments in one turn; a PDF (source 3), a page (source 4) and a presentation in the next; all hidden.
fn made(site: &Server) -> Vec<Value> {
    let hide = |id: &str, path: &str| json!({"id": id, "tool": "react.hide", "params": {"path": path, "replacement": "seen"}});
    let steps = json!([
        {"text": "Received"},
        {"tool_calls": [
            {"id": "pdf", "tool": "rendering_tools.write_pdf", "params": {"path": "report.pdf", "content": "# Report"}},
            {"id": "pptx", "tool": "rendering_tools.write_pptx", "params": {"path": "board.pptx", "content": "# Board"}},
            {"id": "get", "tool": "web_tools.web_fetch", "params": {"urls": [site.url("/moon")]}}]},
        {"tool_calls": [
            hide("h1", "fi:turn_2.files/report.pdf"), hide("h2", "so:sources_pool[4]"),
            hide("h3", "fi:turn_1.user.attachments/notes.txt"), hide("h4", "fi:turn_1.user.attachments/image.png"),
            hide("h5", "fi:turn_2.files/board.pptx"), hide("h6", "tc:turn_2.get.call")]},
        {"text": "Made and put away"}
    ]);
    steps.as_array().unwrap().clone()
}

async fn told(agent: &Agent) -> Session {
    let first = TurnRequest::new("Keep these")
        .turn_id(TurnId::parse("turn_1").unwrap())
        .attach(Attachment::new("notes.txt", "notes that came along\n"))
        .attach(Attachment::new("image.png", PNG));
    let session = agent.session("c").await.unwrap();
    let session = agent.run(session, first).await.unwrap().into_session();
    turn(agent, session, "turn_2", "Make files").await
}

#[tokio::test]
async fn sources_files_calls_records_skills_and_nothing_are_read_in_one_call() {
    let (bench, site) = (Bench::new(), web::site().await);
    let paths = [
        "so:sources_pool[3,4]",
        "fi:turn_1.user.attachments/notes.txt",
        "fi:turn_1.user.attachments/image.png",
        "fi:turn_2.files/board.pptx",
        "tc:turn_2.get.call",
        "ar:turn_1.user.prompt",
        "sk:press",
        "sk:unknown",
        "fi:turn_1.files/none.md",
        "so:sources_pool[99]",
        "nonsense",
    ];
    let mut steps = made(&site);
    steps.push(json!({"tool_calls": [{"id": "r", "tool": "react.read", "params": {"paths": paths}}]}));
    steps.push(
        json!({"expect": ["[ACTIVE SKILL sk:press]", "read_paths_missing", "Press gently [[S:5]]"], "text": "Read [[S:5]]"}),
    );
    let agent = agent(&bench, &site, Value::Array(steps)).await;
    let session = told(&agent).await;
    std::fs::remove_dir_all(bench.home.path().join("workspace/c/turn_1")).unwrap();
    std::fs::remove_dir_all(bench.home.path().join("workspace/c/turn_2")).unwrap();
    let session = turn(&agent, session, "turn_3", "Read it all").await;
    let address = site.address.to_string();
    insta::assert_snapshot!(turn_shape(&session, "turn_3", &[(&address, "SITE")]));
    for back in [
        "turn_1/attachments/image.png",
        "turn_2/files/report.pdf",
        "turn_2/files/board.pptx",
    ] {
        assert!(
            bench.home.path().join("workspace/c").join(back).exists(),
            "`{back}` was brought back"
        );
    }
}

#[tokio::test]
async fn a_skill_read_beside_calls_that_find_sources_cites_its_own() {
    let (bench, site) = (Bench::new(), web::site().await);
    let steps = json!([
        {"tool_calls": [
            {"id": "get", "tool": "web_tools.web_fetch", "params": {"urls": [site.url("/moon"), site.url("/wind")]}},
            {"id": "r", "tool": "react.read", "params": {"paths": ["sk:press"]}},
            {"id": "s", "tool": "web_tools.web_search", "params": {"queries": ["tides"], "n": 2}}]},
        {"expect": ["Press gently [[S:3]]"], "tool_calls": [{"id": "again", "tool": "react.read", "params": {"paths": ["sk:press"]}}]},
        {"text": "Gently [[S:3]]"}
    ]);
    let agent = agent(&bench, &site, steps).await;
    let session = turn(&agent, agent.session("c").await.unwrap(), "turn_1", "How?").await;
    let address = site.address.to_string();
    insta::assert_snapshot!(turn_shape(&session, "turn_1", &[(&address, "SITE")]));
}
