use std::collections::BTreeMap;
use std::sync::Arc;

use annals_core::block::{BlockKind, NewBlock};
use annals_core::skill::Skill;
use annals_core::sources::SourceRow;
use annals_core::turn::outcome::{Content, Outcome, Output, SourcesForm, SourcesOutput};
use annals_core::turn::round;
use serde_json::{Value, json};

use crate::stage::{Stage, codes, json as answer, path};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n and then some";

fn read(paths: &[&str]) -> Value {
    json!({"paths": paths})
}

async fn written(stage: &mut Stage, name: &str, content: &str) {
    stage
        .call(
            "react.write",
            json!({"path": name, "channel": "canvas", "content": content, "kind": "file"}),
        )
        .await;
}

fn texts(outcome: &Outcome) -> Vec<(String, String)> {
    let text = |content: &Content| match content {
        Content::Text(text) => text.to_string(),
        other => format!("{other:?}"),
    };
    let show = |artifact: &annals_core::turn::outcome::Artifact| {
        (artifact.digest.artifact_path.to_string(), text(&artifact.content))
    };
    outcome.artifacts.iter().map(show).collect()
}

#[tokio::test]
async fn what_is_visible_is_not_shown_twice() {
    let mut stage = Stage::new();
    written(&mut stage, "a.md", "visible as it was written").await;
    let outcome = stage.call("react.read", read(&["fi:turn_1.files/a.md"])).await;
    assert_eq!(
        answer(&outcome)["exists_in_visible_context"],
        json!(["fi:turn_1.files/a.md"])
    );
    assert!(outcome.artifacts.is_empty());
}

#[tokio::test]
async fn a_hidden_file_is_read_back_byte_for_byte() {
    let mut stage = Stage::new();
    let content = "first\r\nsecond\n\n  third\u{2028}fourth";
    written(&mut stage, "a.md", content).await;
    let hidden = stage
        .call(
            "react.hide",
            json!({"path": "fi:turn_1.files/a.md", "replacement": "a draft"}),
        )
        .await;
    assert_eq!(answer(&hidden)["status"], "ok");
    let outcome = stage.call("react.read", read(&["fi:turn_1.files/a.md"])).await;
    assert_eq!(
        texts(&outcome),
        [("fi:turn_1.files/a.md".to_owned(), content.to_owned())]
    );
    insta::assert_snapshot!(stage.shape());
    // It is visible again, so a second read has nothing to add.
    let outcome = stage.call("react.read", read(&["fi:turn_1.files/a.md"])).await;
    assert!(outcome.artifacts.is_empty());
}

#[tokio::test]
async fn files_come_back_into_out_dir() {
    let mut stage = Stage::new();
    written(&mut stage, "a.md", "in the store and in the block").await;
    stage.put_on_disk("turn_1/files/pic.png", PNG);
    stage.call("react.read", read(&["turn_1/files/pic.png"])).await;
    stage.clear_disk();
    stage.begin("turn_2");
    let outcome = stage
        .call(
            "react.read",
            read(&["fi:turn_1.files/a.md", "turn_1/files/pic.png"]),
        )
        .await;
    assert_eq!(answer(&outcome)["missing"], json!([]));
    assert_eq!(
        stage.disk("turn_1/files/a.md").as_deref(),
        Some("in the store and in the block")
    );
    let restored = annals_core::path::PhysicalPath::parse("turn_1/files/pic.png").unwrap();
    assert_eq!(stage.cx.workspace.read(&restored, 1 << 20).unwrap(), PNG);
}

#[tokio::test]
async fn each_kind_of_file_comes_in_its_own_form() {
    let mut stage = Stage::new();
    stage.put_on_disk("turn_1/files/pic.png", PNG);
    stage.put_on_disk("turn_1/files/data.bin", b"\x00\x01\x02");
    stage.put_on_disk("turn_1/files/notes.txt", b"some notes");
    let paths = [
        "turn_1/files/pic.png",
        "fi:turn_1.files/data.bin",
        "ar:turn_1.artifacts.notes.txt",
    ];
    stage.call("react.read", read(&paths)).await;
    insta::assert_snapshot!(stage.shape());
}

#[tokio::test]
async fn what_is_not_there_is_listed_with_a_notice_and_the_rest_is_read() {
    let mut stage = Stage::new();
    stage.put_on_disk("turn_1/files/notes.txt", b"some notes");
    let paths = [
        "fi:turn_1.files/no.md",
        "nonsense",
        "sk:unknown",
        "so:sources_pool[7]",
        "turn_1/files/notes.txt",
    ];
    let outcome = stage.call("react.read", read(&paths)).await;
    let status = answer(&outcome);
    assert_eq!(
        status["missing"],
        json!(["fi:turn_1.files/no.md", "nonsense", "so:sources_pool[7]"])
    );
    assert_eq!(status["missing_skills"], json!(["sk:unknown"]));
    assert_eq!(codes(&outcome), ["read_paths_missing"]);
    assert_eq!(outcome.artifacts.len(), 1);
}

#[tokio::test]
async fn records_and_parts_of_calls_give_their_payload() {
    let mut stage = Stage::new();
    written(&mut stage, "a.md", "something to be written down").await;
    stage
        .call(
            "react.hide",
            json!({"path": "tc:turn_1.c1.call", "replacement": "a write"}),
        )
        .await;
    let outcome = stage
        .call(
            "react.read",
            read(&["tc:turn_1.tool_calls.c1.in.json", "ar:turn_1.user.prompt"]),
        )
        .await;
    let status = answer(&outcome);
    assert_eq!(
        status["exists_in_visible_context"],
        json!(["ar:turn_1.user.prompt"])
    );
    let texts = texts(&outcome);
    assert_eq!(texts[0].0, "tc:turn_1.c1.call");
    assert!(texts[0].1.contains("\"tool_id\":\"react.write\""), "{texts:?}");
}

#[tokio::test]
async fn a_range_shows_only_its_lines_and_the_path_still_names_the_whole() {
    let mut stage = Stage::new();
    let text: String = (1..=100).map(|n| format!("line {n}\n")).collect();
    stage.put_on_disk("turn_1/files/log.txt", text.as_bytes());
    let outcome = stage
        .call("react.read", read(&["turn_1/files/log.txt#L40-41"]))
        .await;
    assert_eq!(texts(&outcome)[0].1, "[lines 40-41 of 100]\nline 40\nline 41\n");
    stage.clear_disk();
    assert_eq!(stage.whole("fi:turn_1.files/log.txt").await, text);
    let outcome = stage
        .call("react.read", read(&["turn_1/files/log.txt#L400-401"]))
        .await;
    assert!(
        answer(&outcome)["problems"][0]["message"]
            .as_str()
            .unwrap()
            .contains("100 lines")
    );
}

#[tokio::test]
async fn a_text_over_the_cap_is_cut_with_the_lines_to_read_next() {
    let mut stage = Stage::new();
    let text: String = (1..=20_000).map(|n| format!("line {n}\n")).collect();
    stage.put_on_disk("turn_1/files/log.txt", text.as_bytes());
    let outcome = stage.call("react.read", read(&["fi:turn_1.files/log.txt"])).await;
    let shown = &texts(&outcome)[0].1;
    assert!(shown.len() < 50_000);
    let next = shown.rsplit_once("#L").unwrap().1.split_once('-').unwrap().0;
    let last_shown = shown.lines().rev().nth(1).unwrap();
    assert_eq!(last_shown, format!("line {}", next.parse::<u32>().unwrap() - 1));
    assert_eq!(stage.whole("fi:turn_1.files/log.txt").await, text);
}

fn pooled(stage: &Stage, rows: Vec<SourceRow>) {
    let call = annals_core::ids::CallId::parse("seed").unwrap();
    let output = Output::Sources(SourcesOutput {
        rows,
        form: SourcesForm::Search,
    });
    let outcome = Outcome {
        output,
        ..Outcome::default()
    };
    let blocks = round::outcome_blocks(&stage.cx.timeline.read().unwrap(), &stage.turn, &call, outcome);
    stage.append(blocks);
}

#[tokio::test]
async fn sources_give_their_full_content_and_file_rows_their_file() {
    let mut stage = Stage::new();
    written(&mut stage, "a.md", "a hosted file is source 1").await;
    let long = "all of the page ".repeat(200);
    let page = SourceRow {
        content: Some(long.as_str().into()),
        ..SourceRow::web("https://a.example/x", "A page", "snip")
    };
    pooled(&stage, vec![page]);
    stage
        .call(
            "react.hide",
            json!({"path": "fi:turn_1.files/a.md", "replacement": "file"}),
        )
        .await;
    let outcome = stage.call("react.read", read(&["so:sources_pool[1-2]"])).await;
    let texts = texts(&outcome);
    assert_eq!(
        texts[0],
        ("fi:turn_1.files/a.md".into(), "a hosted file is source 1".into())
    );
    assert_eq!(texts[1].0, "so:sources_pool[2]");
    assert_eq!(
        texts[1].1,
        format!("[S:2] A page\nurl: https://a.example/x\n\n{long}")
    );
}

#[tokio::test]
async fn a_skill_becomes_active_with_its_citations_in_the_pools_numbers() {
    let skill = Skill::parse(
        "---\nname: press\ndescription: How to press\n---\nPress gently [[S:1]].\n",
        Some("- sid: 1\n  url: https://press.example\n  title: Pressing\n"),
    )
    .unwrap();
    let skills = BTreeMap::from([(skill.name.clone(), skill)]);
    let mut stage = Stage::with(|cx, _| cx.skills = Arc::new(skills), vec![]);
    pooled(
        &stage,
        vec![SourceRow::web("https://first.example", "First", "came first")],
    );
    let outcome = stage.call("react.read", read(&["sk:press"])).await;
    assert!(matches!(&outcome.artifacts[0].content, Content::Citing(_)));
    let shown = stage.shown("sk:press");
    assert!(
        shown.starts_with("[ACTIVE SKILL sk:press] How to press\n"),
        "{shown}"
    );
    assert!(shown.contains("Press gently [[S:2]]."), "{shown}");
    let again = stage.call("react.read", read(&["sk:press"])).await;
    assert_eq!(answer(&again)["exists_in_visible_context"], json!(["sk:press"]));
    let timeline = stage.cx.timeline.read().unwrap();
    assert_eq!(
        &*timeline.pool().iter().nth(1).unwrap().url,
        "https://press.example"
    );
}

#[tokio::test]
async fn two_skills_of_one_call_cite_sources_of_their_own() {
    let skill = |name: &str| {
        Skill::parse(
            &format!("---\nname: {name}\ndescription: d\n---\nSee [[S:1]] and {name}.\n"),
            Some(&format!(
                "- sid: 1\n  url: https://{name}.example\n  title: {name}\n"
            )),
        )
        .unwrap()
    };
    let skills = BTreeMap::from(["press", "wash"].map(|name| (skill(name).name, skill(name))));
    let mut stage = Stage::with(|cx, _| cx.skills = Arc::new(skills), vec![]);
    stage.call("react.read", read(&["sk:press", "sk:wash"])).await;
    assert!(stage.shown("sk:press").contains("See [[S:1]] and press."));
    assert!(stage.shown("sk:wash").contains("See [[S:2]] and wash."));
}

#[tokio::test]
async fn hosting_facts_survive_a_read() {
    let mut stage = Stage::new();
    written(&mut stage, "a.md", "hosted, then hidden, then read").await;
    stage
        .call(
            "react.hide",
            json!({"path": "fi:turn_1.files/a.md", "replacement": "file"}),
        )
        .await;
    stage.call("react.read", read(&["fi:turn_1.files/a.md"])).await;
    let timeline = stage.cx.timeline.read().unwrap();
    let latest = timeline.latest(&path("fi:turn_1.files/a.md")).unwrap();
    assert!(latest.meta().file.as_ref().unwrap().hosted_uri.is_some());
}

#[tokio::test]
async fn a_block_without_text_reads_as_empty_and_does_no_harm() {
    let mut stage = Stage::new();
    let host = NewBlock::new(
        BlockKind::Other("x.acme".into()),
        &stage.turn,
        path("ar:turn_1.x.acme"),
    );
    stage.append(vec![host]);
    let outcome = stage
        .call("react.read", read(&["ar:turn_1.x.acme", "ar:turn_1.turn.header"]))
        .await;
    assert_eq!(answer(&outcome)["missing"], json!([]));
}
