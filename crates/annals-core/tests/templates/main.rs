//! The exact text of every template, in both layouts.

#[path = "../common/mod.rs"]
mod common;
mod exchanges;

use annals_core::block::{Blob, BlockKind, Body, NewBlock, ShownError};
use annals_core::path::LogicalPath;
use annals_core::sources::SourceRow;
use annals_core::time::{Timestamp, Zone};
use annals_core::timeline::HideReason;
use annals_core::turn::outcome::{
    Content, HideItem, Notice, Outcome, Output, Payload, SourcesForm, SourcesOutput,
};
use annals_core::turn::round;
use annals_core::view::{Announce, Layout, Tail, ViewRenderer};
use common::{Scene, artifact, attachment, call, hosted, json_call, lines, new_call, path, payload, turn};
use insta::assert_snapshot;

#[test]
fn a_turn_opens_with_its_header_prompt_and_attachments() {
    let mut scene = Scene::new();
    let t = turn("1");
    let mut menu = attachment(
        &t,
        "menu.pdf",
        "application/pdf",
        Body::from(Blob::of(b"%PDF-1.7")),
    );
    menu.summary = Some("2-page menu".into());
    let notes = attachment(&t, "notes.txt", "text/plain", Body::Text("buy milk".into()));
    let board = attachment(&t, "board.pptx", "application/vnd.ms-powerpoint", Body::Empty);
    scene.ask("1", "find three places to eat", vec![menu, notes, board]);
    assert_snapshot!(scene.text(), @r"
    [TURN turn_1] ts=2026-02-09T02:14:32.676425Z

    [USER MESSAGE]
    [path: ar:turn_1.user.prompt]
    find three places to eat

    [USER ATTACHMENT] menu.pdf | application/pdf
    summary: 2-page menu
    [path: fi:turn_1.user.attachments/menu.pdf]
    [physical_path: turn_1/attachments/menu.pdf]

    <document media_type=application/pdf b64_len=12>

    [USER ATTACHMENT] notes.txt | text/plain
    summary: 8 bytes
    [path: fi:turn_1.user.attachments/notes.txt]
    [physical_path: turn_1/attachments/notes.txt]

    buy milk

    [USER ATTACHMENT] board.pptx | application/vnd.ms-powerpoint
    summary: 4096 bytes
    [path: fi:turn_1.user.attachments/board.pptx]
    [physical_path: turn_1/attachments/board.pptx]

    [AI Agent] annals, model script
    ");
    assert_snapshot!(scene.chat(), @r#"
    user "[TURN turn_1] ts=2026-02-09T02:14:32.676425Z"
    user "\n\n[USER MESSAGE]\n[path: ar:turn_1.user.prompt]\n"
    user "find three places to eat"
    user "\n\n[USER ATTACHMENT] menu.pdf | application/pdf\nsummary: 2-page menu\n[pat…"
    user "<application/pdf, 8 bytes>"
    user "\n\n[USER ATTACHMENT] notes.txt | text/plain\nsummary: 8 bytes\n[path: fi:tu…"
    user "\n\nbuy milk"
    user "\n\n[USER ATTACHMENT] board.pptx | application/vnd.ms-powerpoint\nsummary: …"
    user "\n\n[AI Agent] "
    user "annals, model script" =>[3]
    "#);
}

#[test]
fn a_write_shows_its_call_its_status_and_its_content() {
    let mut scene = Scene::asked("write it");
    scene.says(
        "Drafting",
        vec![scene.write_call("abc", "report.md", "# Report\n[[S:1]]")],
    );
    let mut outcome = scene.written("report.md", "# Report\n[[S:1]]");
    outcome.artifacts[0].digest.sources_used = annals_core::sources::citation::extract("[[S:1]]").into();
    scene.returns("abc", outcome);
    scene.completes("Done, see [[S:1]].");
    assert_snapshot!(scene.text(), @r##"
    [TURN turn_1] ts=2026-02-09T02:14:32.676425Z

    [USER MESSAGE]
    [path: ar:turn_1.user.prompt]
    write it

    [AI Agent] annals, model script

    [AI Agent say]: Drafting

    [TOOL CALL abc].call react.write
    tc:turn_1.abc.call
    Params:
    {"path":"report.md","channel":"canvas","content":"# Report\n[[S:1]]... [see fi:turn_1.files/report.md]","kind":"display"}

    [TOOL RESULT abc].summary react.write
    Status: success
    Artifacts:
    - logical_path: fi:turn_1.files/report.md | kind: display | visibility: external | tokens: 8 | sources_used: [1]

    [TOOL RESULT abc].artifact react.write
    logical_path: fi:turn_1.files/report.md
    # Report
    [[S:1]]

    [ASSISTANT MESSAGE]
    [path: ar:turn_1.assistant.completion]
    [sources_used: [1]]
    Done, see [[S:1]].
    "##);
    assert_snapshot!(scene.chat(), @r##"
    user "[TURN turn_1] ts=2026-02-09T02:14:32.676425Z"
    user "\n\n[USER MESSAGE]\n[path: ar:turn_1.user.prompt]\n"
    user "write it"
    user "\n\n[AI Agent] "
    user "annals, model script"
    assistant "Drafting"
    assistant/call abc react.write "{\"path\":\"report.md\",\"channel\":\"canvas\",\"content\":\"# Report\\n[[S:1]]\",\"ki…"
    tool/abc "[TOOL RESULT abc].summary react.write\nStatus: success\nArtifacts:\n- logic…"
    tool/abc "\n\n[TOOL RESULT abc].artifact react.write\nlogical_path: fi:turn_1.files/r…" =>[2]
    assistant "Done, see [[S:1]]." =>[3]
    "##);
}

#[test]
fn a_long_parameter_is_whole_in_a_native_call_and_cut_in_a_text_one() {
    let mut scene = Scene::asked("write it");
    let content = "# Report\n".repeat(40);
    scene.says("", vec![scene.write_call("abc", "report.md", &content)]);
    let outcome = scene.written("report.md", &content);
    scene.returns("abc", outcome);
    let text = scene.text();
    assert!(text.contains("... [see fi:turn_1.files/report.md]"), "{text}");
    assert_eq!(
        text.matches("# Report").count(),
        22 + 40,
        "a prefix in the call, the whole in the artifact"
    );
    let chat = annals_core::view::render::as_text(&scene.prompt(Layout::Chat).messages);
    assert_eq!(chat.matches("# Report").count(), 40, "once, in the call");
    assert!(chat.contains("(content as in the call)"));

    let hide = HideItem {
        path: scene.file("report.md"),
        replacement: "a report".into(),
        from_seq: None,
    };
    let block = round::hide_block(&scene.timeline, &scene.turn, HideReason::Hide, vec![hide]).unwrap();
    scene.push(block);
    let chat = annals_core::view::render::as_text(&scene.prompt(Layout::Chat).messages);
    assert!(
        chat.contains("... [see fi:turn_1.files/report.md]"),
        "hidden content leaves the native call cut"
    );
    assert!(chat.contains("HIDDEN — a report. Retrieve with react.read(fi:turn_1.files/report.md)"));
}

#[test]
fn an_exec_call_shows_code_report_and_artifacts() {
    let mut scene = Scene::asked("plot it");
    scene.says("Plotting", vec![scene.exec_call("xyz", "print(1)")]);
    let mut outcome = payload("Succeeded:\n- turn_1/files/plot.png\n- turn_1/files/data.xlsx");
    outcome.artifacts = vec![
        hosted(scene.artifact("plot.png", "image/png", Content::Blob(Blob::of(b"png")))),
        scene.artifact("data.xlsx", "application/vnd.ms-excel", Content::Bare),
    ];
    outcome.error = Some(ShownError::new("execution_failed", "exit code 1"));
    scene.returns("xyz", outcome);
    assert_snapshot!(scene.text(), @r#"
    [TURN turn_1] ts=2026-02-09T02:14:32.676425Z

    [USER MESSAGE]
    [path: ar:turn_1.user.prompt]
    plot it

    [AI Agent] annals, model script

    [AI Agent say]: Plotting

    [AI Agent wrote code] fi:turn_1.code.xyz:
    print(1)

    [TOOL CALL xyz].call exec_tools.execute_code_python
    tc:turn_1.xyz.call
    Params:
    {"code":"print(1)... [see fi:turn_1.code.xyz]"}

    [TOOL RESULT xyz].summary exec_tools.execute_code_python
    Status: error — execution_failed exit code 1
    Artifacts:
    - logical_path: fi:turn_1.files/plot.png | kind: file | visibility: external | size_bytes: 3
    - logical_path: fi:turn_1.files/data.xlsx | kind: file | visibility: external

    [TOOL RESULT xyz].result exec_tools.execute_code_python
    logical_path: tc:turn_1.xyz.result
    Succeeded:
    - turn_1/files/plot.png
    - turn_1/files/data.xlsx

    [TOOL RESULT xyz].artifact exec_tools.execute_code_python
    logical_path: fi:turn_1.files/plot.png
    physical_path: turn_1/files/plot.png
    <image media_type=image/png b64_len=4>

    [TOOL RESULT xyz].artifact exec_tools.execute_code_python
    logical_path: fi:turn_1.files/data.xlsx
    (binary, application/vnd.ms-excel: code finds it at turn_1/files/data.xlsx)
    "#);
    assert_snapshot!(scene.chat(), @r#"
    user "[TURN turn_1] ts=2026-02-09T02:14:32.676425Z"
    user "\n\n[USER MESSAGE]\n[path: ar:turn_1.user.prompt]\n"
    user "plot it"
    user "\n\n[AI Agent] "
    user "annals, model script"
    assistant "Plotting"
    assistant/call xyz exec_tools.execute_code_python "{\"code\":\"print(1)\"}"
    tool/xyz error "[TOOL RESULT xyz].summary exec_tools.execute_code_python\nStatus: error —…"
    tool/xyz error "\n\n[TOOL RESULT xyz].result exec_tools.execute_code_python\nlogical_path: …"
    tool/xyz error "Succeeded:\n- turn_1/files/plot.png\n- turn_1/files/data.xlsx"
    tool/xyz error "\n\n[TOOL RESULT xyz].artifact exec_tools.execute_code_python\nlogical_path…"
    tool/xyz error "<image/png, 3 bytes>"
    tool/xyz error "\n\n[TOOL RESULT xyz].artifact exec_tools.execute_code_python\nlogical_path…" =>[3]
    "#);
}

#[test]
fn a_search_shows_its_rows_with_their_numbers() {
    let mut scene = Scene::asked("search");
    scene.says(
        "",
        vec![json_call(
            "s1",
            "web_tools.web_search",
            serde_json::json!({"queries": ["food"], "n": 2}),
        )],
    );
    let rows = vec![
        SourceRow::web("https://a.example/", "A", "about a"),
        SourceRow::web("https://b.example/", "B", "about b"),
    ];
    let output = Output::Sources(SourcesOutput {
        rows,
        form: SourcesForm::Search,
    });
    scene.returns(
        "s1",
        Outcome {
            output,
            ..Outcome::default()
        },
    );
    assert_snapshot!(scene.text(), @r#"
    [TURN turn_1] ts=2026-02-09T02:14:32.676425Z

    [USER MESSAGE]
    [path: ar:turn_1.user.prompt]
    search

    [AI Agent] annals, model script

    [TOOL CALL s1].call web_tools.web_search
    tc:turn_1.s1.call
    Params:
    {"queries":["food"],"n":2}

    [TOOL RESULT s1].summary web_tools.web_search
    Status: success
    Artifacts:
    - logical_path: so:sources_pool[1-2] | kind: file | visibility: internal

    [TOOL RESULT s1].result web_tools.web_search
    logical_path: so:sources_pool[1-2]
    [{"sid":1,"title":"A","url":"https://a.example/","text":"about a"},{"sid":2,"title":"B","url":"https://b.example/","text":"about b"}]
    "#);
    assert_snapshot!(scene.chat(), @r#"
    user "[TURN turn_1] ts=2026-02-09T02:14:32.676425Z"
    user "\n\n[USER MESSAGE]\n[path: ar:turn_1.user.prompt]\n"
    user "search"
    user "\n\n[AI Agent] "
    user "annals, model script"
    assistant/call s1 web_tools.web_search "{\"queries\":[\"food\"],\"n\":2}"
    tool/s1 "[TOOL RESULT s1].summary web_tools.web_search\nStatus: success\nArtifacts:…"
    tool/s1 "\n\n[TOOL RESULT s1].result web_tools.web_search\nlogical_path: so:sources_…"
    tool/s1 "[{\"sid\":1,\"title\":\"A\",\"url\":\"https://a.example/\",\"text\":\"about a\"},{\"sid…" =>[3]
    "#);
}

#[test]
#[allow(clippy::too_many_lines, reason = "one list of cases")]
fn notices_notes_plans_and_stages_have_their_heads() {
    let mut scene = Scene::asked("go");
    scene.says(
        "",
        vec![new_call("n1", "react.write", &[("path", "turn_0/files/a.md")])],
    );
    let note = NewBlock::new(
        BlockKind::Note,
        &scene.turn,
        LogicalPath::note(&scene.turn, &call("n1")),
    )
    .text("text/plain", "[D] decided")
    .meta(annals_core::block::Meta::of_call(&call("n1")));
    scene.returns(
        "n1",
        Outcome {
            notices: vec![
                Notice::new("protocol_violation.path_rewritten", "rewritten")
                    .with("from", "a")
                    .with("to", "b"),
            ],
            output: Output::Payload(Payload::json(&serde_json::json!({"ok": true}))),
            beside: vec![note],
            ..Outcome::default()
        },
    );
    let t = scene.turn.clone();
    let block = |kind: BlockKind, name: &str, text: &str| {
        NewBlock::new(kind, &t, path(&format!("ar:turn_1.{name}"))).text("text/markdown", text.to_owned())
    };
    scene.push_all([
        block(BlockKind::PlanAck, "react.plan.ack.1", "✓ 1. Search"),
        block(BlockKind::StageCoordinator, "stage.coordinator", "take it slow"),
        block(
            BlockKind::StageClarificationResolved,
            "stage.clarification.resolved",
            "the blue one",
        ),
        block(
            BlockKind::SystemMessage,
            "system.message.cache_ttl_pruned",
            "3 old blocks were shortened",
        ),
        block(BlockKind::Other("x.acme.score".into()), "x.acme.score", "score 7"),
        block(
            BlockKind::RangeSummary,
            "conv.summary",
            "a summary that does not say what it covers",
        ),
        block(BlockKind::ReactCompletion, "react.completion", "{}"),
        block(BlockKind::Thinking, "react.thinking.1", "unsigned"),
    ]);
    assert_snapshot!(scene.text(), @r#"
    [TURN turn_1] ts=2026-02-09T02:14:32.676425Z

    [USER MESSAGE]
    [path: ar:turn_1.user.prompt]
    go

    [AI Agent] annals, model script

    [TOOL CALL n1].call react.write
    tc:turn_1.n1.call
    Params:
    {"path":"turn_0/files/a.md"}

    [NOTICE n1] tc:turn_1.n1.notice
    {"code":"protocol_violation.path_rewritten","message":"rewritten","from":"a","to":"b"}

    [TOOL RESULT n1].result react.write
    logical_path: tc:turn_1.n1.result
    {"ok":true}

    [INTERNAL NOTE]
    [D] decided

    [PLAN PROGRESS]
    ✓ 1. Search

    [COORDINATOR]
    [path: ar:turn_1.stage.coordinator]
    take it slow

    [CLARIFICATION RESOLVED]
    [path: ar:turn_1.stage.clarification.resolved]
    the blue one

    [SYSTEM MESSAGE]
    3 old blocks were shortened

    score 7

    [SUMMARY OF EARLIER TURNS]
    [path: ar:turn_1.conv.summary]
    a summary that does not say what it covers
    "#);
    assert_snapshot!(scene.chat(), @r#"
    user "[TURN turn_1] ts=2026-02-09T02:14:32.676425Z"
    user "\n\n[USER MESSAGE]\n[path: ar:turn_1.user.prompt]\n"
    user "go"
    user "\n\n[AI Agent] "
    user "annals, model script"
    assistant/call n1 react.write "{\"path\":\"turn_0/files/a.md\"}"
    tool/n1 "[NOTICE n1] tc:turn_1.n1.notice\n"
    tool/n1 "{\"code\":\"protocol_violation.path_rewritten\",\"message\":\"rewritten\",\"from\"…"
    tool/n1 "\n\n[TOOL RESULT n1].result react.write\nlogical_path: tc:turn_1.n1.result\n"
    tool/n1 "{\"ok\":true}"
    tool/n1 "\n\n[INTERNAL NOTE]\n"
    tool/n1 "[D] decided"
    user "[PLAN PROGRESS]\n"
    user "✓ 1. Search"
    user "\n\n[COORDINATOR]\n[path: ar:turn_1.stage.coordinator]\n"
    user "take it slow"
    user "\n\n[CLARIFICATION RESOLVED]\n[path: ar:turn_1.stage.clarification.resolved…"
    user "the blue one"
    user "\n\n[SYSTEM MESSAGE]\n"
    user "3 old blocks were shortened"
    user "\n\nscore 7"
    user "\n\n[SUMMARY OF EARLIER TURNS]\n[path: ar:turn_1.conv.summary]\n"
    user "a summary that does not say what it covers" =>[3]
    "#);
}

#[test]
fn binaries_that_models_cannot_see_are_told_in_words() {
    let mut scene = Scene::asked("go");
    scene.says("", vec![new_call("z", "exec_tools.x", &[])]);
    let mut outcome = payload("Succeeded");
    let zip = Content::Blob(Blob::of(b"PK"));
    outcome.artifacts = vec![artifact(scene.file("a.zip"), "application/zip", zip)];
    scene.returns("z", outcome);
    assert_snapshot!(scene.text().lines().last().unwrap(), @"(binary, application/zip, 2 bytes)");
}

#[test]
fn a_part_over_its_cap_says_how_to_read_on() {
    let mut scene = Scene::asked("go");
    scene.says("", vec![new_call("big", "react.read", &[])]);
    scene.returns("big", payload(&"0123456789\n".repeat(10_000)));
    let text = scene.text();
    assert_snapshot!(text.lines().last().unwrap(), @r#"...[truncated: 50006 more characters of 10000 lines; go on with react.read(paths=["tc:turn_1.big.result#L5455-10000"])]"#);
    assert!(text.len() < 61_000);
}

#[test]
fn the_tail_comes_last_and_is_never_cached() {
    let mut scene = Scene::asked("go");
    scene.says(
        "",
        vec![json_call(
            "s1",
            "web_tools.web_search",
            serde_json::json!({"queries": ["food"]}),
        )],
    );
    let rows = vec![SourceRow::web("https://a.example/", "A", "about a\nand more")];
    let output = Output::Sources(SourcesOutput {
        rows,
        form: SourcesForm::Search,
    });
    scene.returns(
        "s1",
        Outcome {
            output,
            ..Outcome::default()
        },
    );
    let announce = Announce {
        iteration: 2,
        max_iterations: 15,
        fixed_tokens: 1_234,
        window_tokens: 128_000,
        now: Timestamp::parse("2026-11-15T21:54:38Z").unwrap(),
        timezone: Zone::parse("Europe/Berlin").unwrap(),
    };
    let tail = Tail::of(&scene.timeline, &announce);
    let sent = 1_234 + scene.timeline.view_tokens() + u64::from(tail.tokens());
    let told = tail.texts().concat();
    let budget = told.split("budget: ").nth(1).unwrap().split(' ').next().unwrap();
    let told_tokens: u64 = budget.parse().unwrap();
    assert!(told_tokens.abs_diff(sent) <= 4, "{told_tokens} of {sent}");
    let hidden = |text: String| text.replace(budget, "BUDGET");
    assert_snapshot!(hidden(told.clone()).trim_start(), @r"
    [SOURCES POOL] sid | title | host; cite as [[S:n]]; read whole with react.read(so:sources_pool[n])
    1 | A | a.example

    [ANNOUNCE]
    iteration: 2/15
    budget: BUDGET of 128000 tokens
    time: 2026-11-15T21:54:38.000000Z (Sunday 2026-11-15 22:54:38 +01:00 Europe/Berlin)
    ");
    let prompt = ViewRenderer::new(Layout::Chat).prompt(
        &scene.timeline,
        &Default::default(),
        "be kind".into(),
        [].into(),
        Some(&tail),
    );
    assert_snapshot!(hidden(lines(&prompt.messages)), @r#"
    user "[TURN turn_1] ts=2026-02-09T02:14:32.676425Z"
    user "\n\n[USER MESSAGE]\n[path: ar:turn_1.user.prompt]\n"
    user "go"
    user "\n\n[AI Agent] "
    user "annals, model script"
    assistant/call s1 web_tools.web_search "{\"queries\":[\"food\"]}"
    tool/s1 "[TOOL RESULT s1].summary web_tools.web_search\nStatus: success\nArtifacts:…"
    tool/s1 "\n\n[TOOL RESULT s1].result web_tools.web_search\nlogical_path: so:sources_…"
    tool/s1 "[{\"sid\":1,\"title\":\"A\",\"url\":\"https://a.example/\",\"text\":\"about a\\nand mo…" =>[3]
    user "\n\n[SOURCES POOL] sid | title | host; cite as [[S:n]]; read whole with re…"
    user "\n\n[ANNOUNCE]\niteration: 2/15\nbudget: BUDGET of 128000 tokens\ntime: 2026-11…"
    "#);
}
