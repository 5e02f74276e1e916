//! What every kind of call writes, in which order: one line a block.

#[path = "../common/mod.rs"]
mod common;
mod shortened;

use annals_core::block::{Blob, BlockKind, Body, Meta, NewBlock, ShownError};
use annals_core::path::LogicalPath;
use annals_core::plan::{Plan, acks};
use annals_core::sources::SourceRow;
use annals_core::turn::outcome::{
    Content, HideItem, Notice, Outcome, Output, Payload, SourcesForm, SourcesOutput,
};
use annals_core::turn::recovery;
use annals_core::view::HideCheck;
use common::{Scene, artifact, attachment, call, hosted, json_call, new_call, path, payload, turn};
use insta::assert_snapshot;
use serde_json::json;

#[test]
fn a_turn_with_attachments() {
    let mut scene = Scene::new();
    let t = turn("1");
    let files = vec![
        attachment(
            &t,
            "menu.pdf",
            "application/pdf",
            Body::from(Blob::of(b"%PDF-1.7")),
        ),
        attachment(&t, "notes.txt", "text/plain", Body::Text("buy milk".into())),
        attachment(&t, "board.pptx", "application/vnd.ms-powerpoint", Body::Empty),
    ];
    scene.ask("1", "look at these", files);
    assert_snapshot!(scene.shape(), @r#"
    1 turn.header ar:turn_1.turn.header text/plain {}
    2 user.prompt ar:turn_1.user.prompt text/markdown {} "look at these"
    3 user.attachment.meta fi:turn_1.user.attachments/menu.pdf application/json {sources} "{\"artifact_path\":\"fi:turn_1.user.attachments/menu.pdf\",\"physical_path\":\"…"
    4 user.attachment fi:turn_1.user.attachments/menu.pdf application/pdf {digest} <8 bytes>
    5 user.attachment.meta fi:turn_1.user.attachments/notes.txt application/json {} "{\"artifact_path\":\"fi:turn_1.user.attachments/notes.txt\",\"physical_path\":…"
    6 user.attachment fi:turn_1.user.attachments/notes.txt text/plain {digest} "buy milk"
    7 user.attachment.meta fi:turn_1.user.attachments/board.pptx application/json {} "{\"artifact_path\":\"fi:turn_1.user.attachments/board.pptx\",\"physical_path\"…"
    8 user.attachment fi:turn_1.user.attachments/board.pptx application/vnd.ms-powerpoint {digest}
    9 agent.log.header ar:turn_1.agent.log.header text/plain {} "annals, model script"
    "#);
    assert_eq!(
        scene.timeline.pool().len(),
        2,
        "what models can read enters the sources pool"
    );
}

#[test]
fn write() {
    let mut scene = Scene::asked("write");
    scene.says(
        "Drafting summary",
        vec![scene.write_call("abc", "report.md", "# Report")],
    );
    let mut outcome = scene.written("report.md", "# Report");
    outcome.artifacts[0] = hosted(outcome.artifacts[0].clone());
    outcome
        .notices
        .push(Notice::new("protocol_violation.path_rewritten", "rewritten"));
    scene.returns("abc", outcome);
    assert_snapshot!(scene.shape_after(3), @r##"
    4 react.notes ar:turn_1.react.notes.abc text/markdown {step channel} "Drafting summary"
    5 react.tool.call tc:turn_1.abc.call application/json {tool_call_id step cut} "{\"tool_id\":\"react.write\",\"tool_call_id\":\"abc\",\"params\":{\"path\":\"report.m…"
    6 react.notice tc:turn_1.abc.notice application/json {tool_call_id} "{\"code\":\"protocol_violation.path_rewritten\",\"message\":\"rewritten\"}"
    7 react.tool.result tc:turn_1.abc.result application/json {tool_call_id result_count digest_of_artifact} "{\"artifact_path\":\"fi:turn_1.files/report.md\",\"physical_path\":\"turn_1/fil…"
    8 react.tool.result fi:turn_1.files/report.md text/markdown {tool_call_id hosted_uri rn key physical_path content_digest digest} "# Report"
    "##);

    scene.says("", vec![scene.write_call("abd", "report.md", "# Report 2")]);
    let outcome = scene.written("report.md", "# Report 2");
    scene.returns("abd", outcome);
    let file = scene.file("report.md");
    let digest = scene.timeline.latest_digest(&file).unwrap();
    assert!(digest.edited);
    assert_snapshot!(serde_json::to_string_pretty(&digest).unwrap(), @r#"
    {
      "artifact_path": "fi:turn_1.files/report.md",
      "physical_path": "turn_1/files/report.md",
      "mime": "text/markdown",
      "kind": "display",
      "visibility": "external",
      "tool_call_id": "abd",
      "size_bytes": 10,
      "tokens": 4,
      "edited": true
    }
    "#);
    assert_eq!(scene.timeline.versions(&file).count(), 2);
}

#[test]
fn a_file_that_was_not_written() {
    let mut scene = Scene::asked("write");
    scene.says("", vec![scene.write_call("abc", "report.md", "")]);
    let mut missing = scene.artifact("report.md", "text/markdown", Content::Absent);
    missing.digest.error = Some(Box::new(ShownError::new("file_empty", "the file is empty")));
    scene.returns(
        "abc",
        Outcome {
            notices: vec![Notice::new("tool_result_error", "the file is empty")],
            error: missing.digest.error.as_deref().cloned(),
            artifacts: vec![missing],
            ..Outcome::default()
        },
    );
    assert_snapshot!(scene.shape_after(3), @r#"
    4 react.tool.call tc:turn_1.abc.call application/json {tool_call_id step cut} "{\"tool_id\":\"react.write\",\"tool_call_id\":\"abc\",\"params\":{\"path\":\"report.m…"
    5 react.notice tc:turn_1.abc.notice application/json {tool_call_id} "{\"code\":\"tool_result_error\",\"message\":\"the file is empty\"}"
    6 react.tool.result tc:turn_1.abc.result application/json {tool_call_id result_count digest_of_artifact error} "{\"artifact_path\":\"fi:turn_1.files/report.md\",\"physical_path\":\"turn_1/fil…"
    "#);
    assert!(scene.timeline.latest(&scene.file("report.md")).is_none());
    assert!(
        scene
            .timeline
            .latest_digest(&scene.file("report.md"))
            .unwrap()
            .error
            .is_some()
    );
}

#[test]
fn patch() {
    let mut scene = Scene::asked("patch");
    scene.says(
        "",
        vec![new_call(
            "p1",
            "react.patch",
            &[("path", "draft.md"), ("patch", "@@ -1 +1 @@")],
        )],
    );
    let mut patched = scene.artifact(
        "draft.md",
        "text/x-diff",
        Content::Text("@@ -1 +1 @@\n-a\n+b".into()),
    );
    patched.digest.visibility = annals_core::block::Visibility::Internal;
    let summary = Payload::json(&json!({"path": "turn_1/files/draft.md", "hunks": 1}));
    scene.returns(
        "p1",
        Outcome {
            artifacts: vec![patched],
            closing: Some(summary),
            ..Outcome::default()
        },
    );
    assert_snapshot!(scene.shape_after(3), @r#"
    4 react.tool.call tc:turn_1.p1.call application/json {tool_call_id step} "{\"tool_id\":\"react.patch\",\"tool_call_id\":\"p1\",\"params\":{\"path\":\"draft.md\"…"
    5 react.tool.result tc:turn_1.p1.result application/json {tool_call_id result_count digest_of_artifact} "{\"artifact_path\":\"fi:turn_1.files/draft.md\",\"physical_path\":\"turn_1/file…"
    6 react.tool.result fi:turn_1.files/draft.md text/x-diff {tool_call_id physical_path content_digest digest} "@@ -1 +1 @@\n-a\n+b"
    7 react.tool.result tc:turn_1.p1.result application/json {tool_call_id} "{\"path\":\"turn_1/files/draft.md\",\"hunks\":1}"
    "#);
}

#[test]
fn exec_case_a_everything_produced_but_a_runtime_error() {
    let mut scene = Scene::asked("run");
    scene.says("Running", vec![scene.exec_call("xyz", "make()")]);
    let mut outcome =
        payload("Runtime error: execution_failed — exit code 1\nSucceeded:\n- turn_1/files/summary.pdf");
    outcome.error = Some(ShownError::new("execution_failed", "exit code 1"));
    outcome.artifacts = vec![hosted(scene.artifact(
        "summary.pdf",
        "application/pdf",
        Content::Blob(Blob::of(b"%PDF")),
    ))];
    scene.returns("xyz", outcome);
    assert_snapshot!(scene.shape_after(3), @r#"
    4 react.notes ar:turn_1.react.notes.xyz text/markdown {step channel} "Running"
    5 react.tool.code fi:turn_1.code.xyz text/plain {tool_call_id step content_digest} "make()"
    6 react.tool.call tc:turn_1.xyz.call application/json {tool_call_id step cut} "{\"tool_id\":\"exec_tools.execute_code_python\",\"tool_call_id\":\"xyz\",\"params…"
    7 react.tool.result tc:turn_1.xyz.result text/markdown {tool_call_id result_count error} "Runtime error: execution_failed — exit code 1\nSucceeded:\n- turn_1/files/…"
    8 react.tool.result tc:turn_1.xyz.result application/json {tool_call_id digest_of_artifact} "{\"artifact_path\":\"fi:turn_1.files/summary.pdf\",\"physical_path\":\"turn_1/f…"
    9 react.tool.result fi:turn_1.files/summary.pdf application/pdf {tool_call_id hosted_uri rn key physical_path content_digest digest} <4 bytes>
    "#);
}

#[test]
fn exec_case_b_part_of_the_contract_and_no_runtime_error() {
    let mut scene = Scene::asked("run");
    scene.says("", vec![scene.exec_call("xyz", "make()")]);
    let mut outcome = payload(
        "File errors:\n- turn_1/files/report.xlsx: file not produced\nSucceeded:\n- turn_1/files/a.txt",
    );
    outcome.error = Some(ShownError::new("missing_output", "turn_1/files/report.xlsx"));
    outcome.artifacts = vec![hosted(scene.artifact(
        "a.txt",
        "text/plain",
        Content::Text("a".into()),
    ))];
    scene.returns("xyz", outcome);
    assert_snapshot!(scene.shape_after(3), @r#"
    4 react.tool.code fi:turn_1.code.xyz text/plain {tool_call_id step content_digest} "make()"
    5 react.tool.call tc:turn_1.xyz.call application/json {tool_call_id step cut} "{\"tool_id\":\"exec_tools.execute_code_python\",\"tool_call_id\":\"xyz\",\"params…"
    6 react.tool.result tc:turn_1.xyz.result text/markdown {tool_call_id result_count error} "File errors:\n- turn_1/files/report.xlsx: file not produced\nSucceeded:\n- …"
    7 react.tool.result tc:turn_1.xyz.result application/json {tool_call_id digest_of_artifact} "{\"artifact_path\":\"fi:turn_1.files/a.txt\",\"physical_path\":\"turn_1/files/a…"
    8 react.tool.result fi:turn_1.files/a.txt text/plain {tool_call_id hosted_uri rn key physical_path content_digest digest} "a"
    "#);
}

#[test]
fn exec_case_c_nothing_but_the_report() {
    let mut scene = Scene::asked("run");
    scene.says("", vec![scene.exec_call("xyz", "make()")]);
    let mut outcome = payload(
        "Runtime error: execution_failed — Missing output files: turn_1/files/report.xlsx\n\
         File errors:\n- turn_1/files/report.xlsx: file not produced\nSucceeded:",
    );
    outcome.error = Some(ShownError::new("execution_failed", "missing output"));
    scene.returns("xyz", outcome);
    assert_snapshot!(scene.shape_after(3), @r#"
    4 react.tool.code fi:turn_1.code.xyz text/plain {tool_call_id step content_digest} "make()"
    5 react.tool.call tc:turn_1.xyz.call application/json {tool_call_id step cut} "{\"tool_id\":\"exec_tools.execute_code_python\",\"tool_call_id\":\"xyz\",\"params…"
    6 react.tool.result tc:turn_1.xyz.result text/markdown {tool_call_id result_count error} "Runtime error: execution_failed — Missing output files: turn_1/files/rep…"
    "#);
}

#[test]
fn exec_with_a_pdf_a_text_and_a_sheet() {
    let mut scene = Scene::asked("run");
    scene.says("Making three files", vec![scene.exec_call("xyz", "make()")]);
    let mut outcome =
        payload("Succeeded:\n- turn_1/files/report.pdf\n- turn_1/files/notes.txt\n- turn_1/files/data.xlsx");
    outcome.artifacts = vec![
        hosted(scene.artifact("report.pdf", "application/pdf", Content::Blob(Blob::of(b"%PDF")))),
        hosted(scene.artifact("notes.txt", "text/plain", Content::Text("notes".into()))),
        hosted(scene.artifact("data.xlsx", "application/vnd.ms-excel", Content::Bare)),
    ];
    scene.returns("xyz", outcome);
    assert_snapshot!(scene.shape_after(3), @r#"
     4 react.notes ar:turn_1.react.notes.xyz text/markdown {step channel} "Making three files"
     5 react.tool.code fi:turn_1.code.xyz text/plain {tool_call_id step content_digest} "make()"
     6 react.tool.call tc:turn_1.xyz.call application/json {tool_call_id step cut} "{\"tool_id\":\"exec_tools.execute_code_python\",\"tool_call_id\":\"xyz\",\"params…"
     7 react.tool.result tc:turn_1.xyz.result text/markdown {tool_call_id result_count} "Succeeded:\n- turn_1/files/report.pdf\n- turn_1/files/notes.txt\n- turn_1/f…"
     8 react.tool.result tc:turn_1.xyz.result application/json {tool_call_id digest_of_artifact} "{\"artifact_path\":\"fi:turn_1.files/report.pdf\",\"physical_path\":\"turn_1/fi…"
     9 react.tool.result fi:turn_1.files/report.pdf application/pdf {tool_call_id hosted_uri rn key physical_path content_digest digest} <4 bytes>
    10 react.tool.result tc:turn_1.xyz.result application/json {tool_call_id digest_of_artifact} "{\"artifact_path\":\"fi:turn_1.files/notes.txt\",\"physical_path\":\"turn_1/fil…"
    11 react.tool.result fi:turn_1.files/notes.txt text/plain {tool_call_id hosted_uri rn key physical_path content_digest digest} "notes"
    12 react.tool.result tc:turn_1.xyz.result application/json {tool_call_id digest_of_artifact} "{\"artifact_path\":\"fi:turn_1.files/data.xlsx\",\"physical_path\":\"turn_1/fil…"
    13 react.tool.result fi:turn_1.files/data.xlsx application/vnd.ms-excel {tool_call_id hosted_uri rn key physical_path digest}
    "#);
}

fn found(rows: Vec<SourceRow>, form: SourcesForm) -> Outcome {
    Outcome {
        output: Output::Sources(SourcesOutput { rows, form }),
        ..Outcome::default()
    }
}

#[test]
fn web_search_and_fetch_share_the_numbers_of_the_pool() {
    let mut scene = Scene::asked("search");
    scene.says(
        "Searching",
        vec![json_call(
            "s1",
            "web_tools.web_search",
            json!({"queries": ["food"], "n": 5}),
        )],
    );
    let web = |n: u32| {
        SourceRow::web(
            &format!("https://example.com/{n}"),
            &format!("Page {n}"),
            "snippet",
        )
    };
    scene.returns("s1", found((1..=5).map(web).collect(), SourcesForm::Search));
    scene.says(
        "",
        vec![json_call(
            "f1",
            "web_tools.web_fetch",
            json!({"urls": ["https://example.com/2"]}),
        )],
    );
    let page = SourceRow {
        content: Some("the whole page".into()),
        ..web(2)
    };
    scene.returns("f1", found(vec![page], SourcesForm::Fetch));
    scene.says(
        "",
        vec![json_call(
            "s2",
            "web_tools.web_search",
            json!({"queries": ["zzz"]}),
        )],
    );
    scene.returns("s2", found(Vec::new(), SourcesForm::Search));
    assert_snapshot!(scene.shape_after(3), @r#"
     4 react.notes ar:turn_1.react.notes.s1 text/markdown {step channel} "Searching"
     5 react.tool.call tc:turn_1.s1.call application/json {tool_call_id step} "{\"tool_id\":\"web_tools.web_search\",\"tool_call_id\":\"s1\",\"params\":{\"queries…"
     6 react.tool.result tc:turn_1.s1.result application/json {tool_call_id result_count digest_of_artifact sources} "{\"artifact_path\":\"so:sources_pool[1-5]\",\"mime\":\"application/json\",\"kind\"…"
     7 react.tool.result so:sources_pool[1-5] application/json {tool_call_id} "[{\"sid\":1,\"title\":\"Page 1\",\"url\":\"https://example.com/1\",\"text\":\"snippet…"
     8 react.tool.call tc:turn_1.f1.call application/json {tool_call_id step} "{\"tool_id\":\"web_tools.web_fetch\",\"tool_call_id\":\"f1\",\"params\":{\"urls\":[\"…"
     9 react.tool.result tc:turn_1.f1.result application/json {tool_call_id result_count digest_of_artifact sources} "{\"artifact_path\":\"so:sources_pool[2]\",\"mime\":\"application/json\",\"kind\":\"…"
    10 react.tool.result so:sources_pool[2] application/json {tool_call_id} "{\"https://example.com/2\":{\"sid\":2,\"title\":\"Page 2\",\"content\":\"the whole …"
    11 react.tool.call tc:turn_1.s2.call application/json {tool_call_id step} "{\"tool_id\":\"web_tools.web_search\",\"tool_call_id\":\"s2\",\"params\":{\"queries…"
    12 react.tool.result tc:turn_1.s2.result application/json {tool_call_id result_count} "[]"
    "#);
    assert_eq!(scene.timeline.pool().len(), 5);
}

#[test]
fn read_of_mixed_inputs() {
    let mut scene = Scene::new();
    scene.ask("a", "first", Vec::new());
    scene.completes("ok");
    scene.ask("b", "read them", Vec::new());
    let count = scene.timeline.blocks().len();
    let paths = json!([
        "so:sources_pool[1,2]",
        "fi:turn_a.user.attachments/notes.txt",
        "fi:turn_a.user.attachments/image.png",
        "fi:turn_a.files/board.pptx",
    ]);
    scene.says("", vec![json_call("r1", "react.read", json!({ "paths": paths }))]);
    let status = json!({"paths": paths, "missing": [], "missing_skills": [], "exists_in_visible_context": [], "total_tokens": 9});
    let mut rows = artifact(
        path("so:sources_pool[2]"),
        "text/markdown",
        Content::Text("[S:2] Page".into()),
    );
    rows.digest.visibility = annals_core::block::Visibility::Internal;
    let outcome = Outcome {
        output: Output::Payload(Payload::json(&status)),
        artifacts: vec![
            artifact(
                path("fi:turn_x.files/report.pdf"),
                "application/pdf",
                Content::Blob(Blob::of(b"%PDF")),
            ),
            rows,
            artifact(
                path("fi:turn_a.user.attachments/notes.txt"),
                "text/plain",
                Content::Text("buy milk".into()),
            ),
            artifact(
                path("fi:turn_a.user.attachments/image.png"),
                "image/png",
                Content::Blob(Blob::of(b"png")),
            ),
            artifact(
                path("fi:turn_a.files/board.pptx"),
                "application/vnd.ms-powerpoint",
                Content::Bare,
            ),
        ],
        ..Outcome::default()
    };
    scene.returns("r1", outcome);
    assert_snapshot!(scene.shape_after(count), @r#"
     8 react.tool.call tc:turn_b.r1.call application/json {tool_call_id step} "{\"tool_id\":\"react.read\",\"tool_call_id\":\"r1\",\"params\":{\"paths\":[\"so:sourc…"
     9 react.tool.result tc:turn_b.r1.result application/json {tool_call_id result_count} "{\"paths\":[\"so:sources_pool[1,2]\",\"fi:turn_a.user.attachments/notes.txt\",…"
    10 react.tool.result tc:turn_b.r1.result application/json {tool_call_id digest_of_artifact} "{\"artifact_path\":\"fi:turn_x.files/report.pdf\",\"physical_path\":\"turn_x/fi…"
    11 react.tool.result fi:turn_x.files/report.pdf application/pdf {tool_call_id physical_path content_digest digest} <4 bytes>
    12 react.tool.result tc:turn_b.r1.result application/json {tool_call_id digest_of_artifact} "{\"artifact_path\":\"so:sources_pool[2]\",\"mime\":\"text/markdown\",\"kind\":\"fil…"
    13 react.tool.result so:sources_pool[2] text/markdown {tool_call_id content_digest digest} "[S:2] Page"
    14 react.tool.result tc:turn_b.r1.result application/json {tool_call_id digest_of_artifact} "{\"artifact_path\":\"fi:turn_a.user.attachments/notes.txt\",\"physical_path\":…"
    15 react.tool.result fi:turn_a.user.attachments/notes.txt text/plain {tool_call_id physical_path content_digest digest} "buy milk"
    16 react.tool.result tc:turn_b.r1.result application/json {tool_call_id digest_of_artifact} "{\"artifact_path\":\"fi:turn_a.user.attachments/image.png\",\"physical_path\":…"
    17 react.tool.result fi:turn_a.user.attachments/image.png image/png {tool_call_id physical_path content_digest digest} <3 bytes>
    18 react.tool.result tc:turn_b.r1.result application/json {tool_call_id digest_of_artifact} "{\"artifact_path\":\"fi:turn_a.files/board.pptx\",\"physical_path\":\"turn_a/fi…"
    19 react.tool.result fi:turn_a.files/board.pptx application/vnd.ms-powerpoint {tool_call_id physical_path digest}
    "#);
}

#[test]
fn a_plan_and_its_acknowledgement() {
    let mut scene = Scene::asked("plan");
    scene.says(
        "",
        vec![json_call(
            "p1",
            "react.plan",
            json!({"mode": "new", "steps": ["Search", "Draft"]}),
        )],
    );
    let id = annals_core::ids::PlanId::made(&scene.turn, [0, 1, 2, 3]);
    let mut plan = Plan::try_new(id, vec!["Search".into(), "Draft".into()], scene.now).unwrap();
    let snapshot = |plan: &Plan| {
        let path = LogicalPath::plan(&turn("1"), &plan.plan_id);
        NewBlock::new(BlockKind::Plan, &turn("1"), path).json(plan)
    };
    let output = Output::Payload(Payload::json(&json!({"ok": true})));
    scene.returns(
        "p1",
        Outcome {
            output,
            beside: vec![snapshot(&plan)],
            ..Outcome::default()
        },
    );
    let notes = "✓ [1] found them\n→ [2]";
    scene.says(notes, vec![new_call("r1", "react.read", &[])]);
    let changed = plan.apply(&acks(notes), scene.now);
    let ack = NewBlock::new(
        BlockKind::PlanAck,
        &scene.turn,
        LogicalPath::plan_ack(&scene.turn, 2),
    )
    .text("text/markdown", plan.ack_text(&changed))
    .meta(Meta::of_call(&call("r1")));
    scene.push_all([ack, snapshot(&plan)]);
    scene.returns("r1", payload("nothing"));
    assert_snapshot!(scene.shape_after(3), @r#"
     4 react.tool.call tc:turn_1.p1.call application/json {tool_call_id step} "{\"tool_id\":\"react.plan\",\"tool_call_id\":\"p1\",\"params\":{\"mode\":\"new\",\"step…"
     5 react.tool.result tc:turn_1.p1.result application/json {tool_call_id result_count} "{\"ok\":true}"
     6 react.plan ar:turn_1.react.plan.plan:turn_1:abcd application/json {} "{\"plan_id\":\"plan:turn_1:abcd\",\"steps\":[\"Search\",\"Draft\"],\"status\":{\"1\":\"…"
     7 react.notes ar:turn_1.react.notes.r1 text/markdown {step channel} "✓ [1] found them\n→ [2]"
     8 react.tool.call tc:turn_1.r1.call application/json {tool_call_id step} "{\"tool_id\":\"react.read\",\"tool_call_id\":\"r1\",\"params\":{},\"ts\":\"2026-02-09…"
     9 react.plan.ack ar:turn_1.react.plan.ack.2 text/markdown {tool_call_id} "✓ 1. Search\n… 2. Draft — in progress"
    10 react.plan ar:turn_1.react.plan.plan:turn_1:abcd application/json {} "{\"plan_id\":\"plan:turn_1:abcd\",\"steps\":[\"Search\",\"Draft\"],\"status\":{\"1\":\"…"
    11 react.tool.result tc:turn_1.r1.result text/markdown {tool_call_id result_count} "nothing"
    "#);
    assert_eq!(scene.timeline.plan(), Some(&plan));
}

#[test]
fn hide() {
    let mut scene = Scene::asked("hide");
    scene.says("", vec![scene.write_call("w1", "a.md", "a long text")]);
    let outcome = scene.written("a.md", "a long text");
    scene.returns("w1", outcome);
    let target = scene.file("a.md");
    let HideCheck::Ok { from_seq, blocks, .. } = scene.timeline.hide_check(&target, &Default::default())
    else {
        panic!("near the tail")
    };
    assert_eq!(blocks, 1);
    scene.says(
        "",
        vec![json_call(
            "h1",
            "react.hide",
            json!({"path": target, "replacement": "a text"}),
        )],
    );
    let hides = vec![HideItem {
        path: target.clone(),
        replacement: "a text".into(),
        from_seq: Some(from_seq),
    }];
    let output = Output::Payload(Payload::json(
        &json!({"path": target, "status": "ok", "blocks_hidden": 1}),
    ));
    scene.returns(
        "h1",
        Outcome {
            output,
            hides,
            ..Outcome::default()
        },
    );
    assert_snapshot!(scene.shape_after(3), @r#"
    4 react.tool.call tc:turn_1.w1.call application/json {tool_call_id step cut} "{\"tool_id\":\"react.write\",\"tool_call_id\":\"w1\",\"params\":{\"path\":\"a.md\",\"ch…"
    5 react.tool.result tc:turn_1.w1.result application/json {tool_call_id result_count digest_of_artifact} "{\"artifact_path\":\"fi:turn_1.files/a.md\",\"physical_path\":\"turn_1/files/a.…"
    6 react.tool.result fi:turn_1.files/a.md text/markdown {tool_call_id physical_path content_digest digest} "a long text"
    7 react.tool.call tc:turn_1.h1.call application/json {tool_call_id step} "{\"tool_id\":\"react.hide\",\"tool_call_id\":\"h1\",\"params\":{\"path\":\"fi:turn_1.…"
    8 react.tool.result tc:turn_1.h1.result application/json {tool_call_id result_count} "{\"path\":\"fi:turn_1.files/a.md\",\"status\":\"ok\",\"blocks_hidden\":1}"
    9 timeline.hide ar:turn_1.timeline.hide.1 application/json {} "{\"reason\":\"hide\",\"items\":[{\"path\":\"fi:turn_1.files/a.md\",\"replacement\":\"…"
    "#);
    assert_eq!(
        scene.timeline.hide_check(&target, &Default::default()),
        HideCheck::NotFound
    );
    assert_eq!(
        scene.timeline.latest(&target).unwrap().text(),
        Some("a long text")
    );
}

#[test]
fn a_hide_is_refused_in_the_cached_prefix_and_far_from_the_tail() {
    let mut scene = Scene::asked("hide");
    for n in 0..8 {
        let (id, name) = (format!("w{n}"), format!("{n}.md"));
        scene.says("", vec![scene.write_call(&id, &name, "some text")]);
        let outcome = scene.written(&name, "some text");
        scene.returns(&id, outcome);
    }
    let check = |name: &str, limit: u32| {
        let settings = annals_core::settings::CacheSettings {
            editable_tail_size_in_tokens: limit,
            ..Default::default()
        };
        scene.timeline.hide_check(&scene.file(name), &settings)
    };
    assert_eq!(check("0.md", 2_000), HideCheck::BeforeCache);
    assert_eq!(check("3.md", 2_000), HideCheck::BeforeCache);
    assert!(matches!(check("4.md", 2_000), HideCheck::Ok { blocks: 1, .. }));
    assert!(matches!(check("4.md", 50), HideCheck::TooOld { .. }));
    assert!(
        matches!(check("7.md", 0), HideCheck::Ok { tail_tokens: 0, .. }),
        "what is hidden itself is no distance"
    );
}

#[test]
fn recovery_of_an_interrupted_turn() {
    let mut scene = Scene::asked("run");
    scene.says(
        "",
        vec![new_call("a", "react.read", &[]), scene.exec_call("b", "launch()")],
    );
    let count = scene.timeline.blocks().len();
    scene.returns("a", payload("nothing"));
    scene.returns("b", recovery::interrupted("exec_tools.execute_code_python"));
    assert_snapshot!(scene.shape_after(count), @r#"
    7 react.tool.result tc:turn_1.a.result text/markdown {tool_call_id result_count} "nothing"
    8 react.tool.result tc:turn_1.b.result application/json {tool_call_id result_count error} "{\"ok\":false,\"error_kind\":\"interrupted\",\"message\":\"`exec_tools.execute_co…"
    "#);
    assert_eq!(scene.timeline.open_calls().count(), 0);
}
