//! Calls, replies and what the model is shown of them, in both layouts.

use annals_core::block::{BlockKind, NewBlock};
use annals_core::timeline::HideReason;
use annals_core::turn::outcome::{Content, HideItem, Notice};
use annals_core::turn::round::{self, NewAnswer};
use insta::assert_snapshot;

use crate::common::{Scene, call, new_call, path, payload, turn};

#[test]
fn an_answer_that_was_not_understood_stands_in_the_reply_not_among_the_models_words() {
    let mut scene = Scene::asked("go");
    let mut bad = new_call("b1", "react.read", &[]);
    bad.unreadable = Some("{paths: oops".into());
    scene.says("Reading", vec![bad]);
    let mut outcome =
        annals_core::turn::recovery::failed(annals_core::code::Code::InvalidToolArguments, "not JSON".into());
    outcome.notices.push(Notice::new(
        "protocol_violation.invalid_tool_arguments",
        "not JSON",
    ));
    scene.returns("b1", outcome);
    assert_snapshot!(scene.text(), @r#"
    [TURN turn_1] ts=2026-02-09T02:14:32.676425Z

    [USER MESSAGE]
    [path: ar:turn_1.user.prompt]
    go

    [AI Agent] annals, model script

    [AI Agent say]: Reading

    [AI Agent sent, not understood]:
    {paths: oops

    [TOOL CALL b1].call react.read
    tc:turn_1.b1.call
    Params:
    {}

    [NOTICE b1] tc:turn_1.b1.notice
    {"code":"protocol_violation.invalid_tool_arguments","message":"not JSON"}

    [TOOL RESULT b1].result react.read
    logical_path: tc:turn_1.b1.result
    {"ok":false,"error_kind":"invalid_tool_arguments","message":"not JSON"}
    "#);
    assert_snapshot!(scene.chat(), @r#"
    user "[TURN turn_1] ts=2026-02-09T02:14:32.676425Z"
    user "\n\n[USER MESSAGE]\n[path: ar:turn_1.user.prompt]\n"
    user "go"
    user "\n\n[AI Agent] "
    user "annals, model script"
    assistant "Reading"
    assistant/call b1 react.read "{}"
    tool/b1 error "[NOTICE b1] tc:turn_1.b1.notice\n"
    tool/b1 error "{\"code\":\"protocol_violation.invalid_tool_arguments\",\"message\":\"not JSON\"…"
    tool/b1 error "\n\n[AI Agent sent, not understood]:\n"
    tool/b1 error "{paths: oops"
    tool/b1 error "\n\n[TOOL RESULT b1].result react.read\nlogical_path: tc:turn_1.b1.result\n"
    tool/b1 error "{\"ok\":false,\"error_kind\":\"invalid_tool_arguments\",\"message\":\"not JSON\"}" =>[3]
    "#);
}

#[test]
fn signed_reasoning_goes_back_in_the_chat_layout_only_and_unsigned_never() {
    let mut scene = Scene::asked("go");
    scene.answers(NewAnswer {
        thinking: Some("hm".into()),
        signature: Some("sig".into()),
        notes: "Reading".into(),
        calls: vec![new_call("r1", "react.read", &[])],
    });
    scene.returns("r1", payload("nothing"));
    scene.answers(NewAnswer {
        thinking: Some("unsigned".into()),
        calls: vec![new_call("r2", "react.read", &[])],
        ..NewAnswer::default()
    });
    scene.returns("r2", payload("nothing"));
    assert!(!scene.text().contains("hm") && !scene.text().contains("unsigned"));
    assert_snapshot!(scene.chat(), @r#"
    user "[TURN turn_1] ts=2026-02-09T02:14:32.676425Z"
    user "\n\n[USER MESSAGE]\n[path: ar:turn_1.user.prompt]\n"
    user "go"
    user "\n\n[AI Agent] "
    user "annals, model script"
    assistant/thinking(sig) "hm"
    assistant "Reading"
    assistant/call r1 react.read "{}"
    tool/r1 "[TOOL RESULT r1].result react.read\nlogical_path: tc:turn_1.r1.result\n"
    tool/r1 "nothing" =>[2]
    assistant/call r2 react.read "{}"
    tool/r2 "[TOOL RESULT r2].result react.read\nlogical_path: tc:turn_1.r2.result\n"
    tool/r2 "nothing" =>[3]
    "#);
}

#[test]
fn replies_stand_together_and_in_call_order_whatever_was_written_between_them() {
    let mut scene = Scene::asked("go");
    scene.says(
        "Both",
        vec![new_call("a", "react.read", &[]), new_call("b", "react.read", &[])],
    );
    // A notice about the second call, and words of nobody, before the results of the first.
    let early = round::notice_block(
        &scene.turn,
        &call("b"),
        &Notice::new("renamed", "this call is `b`"),
    );
    let aside = NewBlock::new(
        BlockKind::SystemMessage,
        &scene.turn,
        path("ar:turn_1.system.message.x"),
    )
    .text("text/plain", "an aside");
    scene.push_all([early, aside]);
    scene.returns("a", payload("result of a"));
    scene.returns(
        "b",
        annals_core::turn::recovery::failed(annals_core::code::Code::Timeout, "too slow".into()),
    );
    scene.completes("done");
    assert_snapshot!(scene.chat(), @r#"
    user "[TURN turn_1] ts=2026-02-09T02:14:32.676425Z"
    user "\n\n[USER MESSAGE]\n[path: ar:turn_1.user.prompt]\n"
    user "go"
    user "\n\n[AI Agent] "
    user "annals, model script"
    assistant "Both"
    assistant/call a react.read "{}"
    assistant/call b react.read "{}"
    tool/a "[TOOL RESULT a].result react.read\nlogical_path: tc:turn_1.a.result\n"
    tool/a "result of a"
    tool/b error "[NOTICE b] tc:turn_1.b.notice\n"
    tool/b error "{\"code\":\"renamed\",\"message\":\"this call is `b`\"}"
    tool/b error "\n\n[SYSTEM MESSAGE]\n"
    tool/b error "an aside" =>[2]
    tool/b error "\n\n[TOOL RESULT b].result react.read\nlogical_path: tc:turn_1.b.result\n"
    tool/b error "{\"ok\":false,\"error_kind\":\"timeout\",\"message\":\"too slow\"}"
    assistant "done" =>[3]
    "#);
}

#[test]
fn a_call_that_its_turn_left_without_a_result_still_has_a_reply() {
    let mut scene = Scene::asked("go");
    scene.says(
        "",
        vec![
            new_call("a", "react.read", &[]),
            new_call("b", "exec_tools.x", &[]),
        ],
    );
    scene.returns("a", payload("result of a"));
    scene.ask("2", "and now?", Vec::new());
    assert_snapshot!(scene.chat(), @r#"
    user "[TURN turn_1] ts=2026-02-09T02:14:32.676425Z"
    user "\n\n[USER MESSAGE]\n[path: ar:turn_1.user.prompt]\n"
    user "go"
    user "\n\n[AI Agent] "
    user "annals, model script"
    assistant/call a react.read "{}"
    assistant/call b exec_tools.x "{}"
    tool/a "[TOOL RESULT a].result react.read\nlogical_path: tc:turn_1.a.result\n"
    tool/a "result of a"
    tool/b error "[TOOL RESULT b].result exec_tools.x\nStatus: error — interrupted no resul…" =>[1]
    user "[TURN turn_2] ts=2026-02-09T02:14:38.676425Z"
    user "\n\n[USER MESSAGE]\n[path: ar:turn_2.user.prompt]\n"
    user "and now?"
    user "\n\n[AI Agent] "
    user "annals, model script" =>[3]
    "#);
    let late = round::outcome_blocks(&scene.timeline, &turn("1"), &call("b"), payload("late"));
    scene.push_all(late);
    assert_snapshot!(scene.chat().lines().last().unwrap(), @r#"user "late" =>[3]"#);
}

#[test]
fn hidden_blocks_render_as_one_placeholder_and_calls_keep_their_place() {
    let mut scene = Scene::asked("go");
    scene.says("Run", vec![scene.exec_call("xyz", &"x = 1\n".repeat(60))]);
    let mut outcome = payload("Succeeded:\n- turn_1/files/a.txt");
    outcome.artifacts = vec![scene.artifact("a.txt", "text/plain", Content::Text("aaa".into()))];
    scene.returns("xyz", outcome);
    let hide = |text: &str, replacement: &str| HideItem {
        path: path(text),
        replacement: replacement.into(),
        from_seq: None,
    };
    let items = vec![
        hide("fi:turn_1.code.xyz", "code that sets x"),
        hide("tc:turn_1.xyz.result", "it worked"),
        hide("fi:turn_1.files/a.txt", "three letters"),
        hide("tc:turn_1.xyz.notice", "nothing has this path"),
    ];
    let block = round::hide_block(&scene.timeline, &scene.turn, HideReason::Hide, items).unwrap();
    scene.push(block);
    assert_snapshot!(scene.text(), @r#"
    [TURN turn_1] ts=2026-02-09T02:14:32.676425Z

    [USER MESSAGE]
    [path: ar:turn_1.user.prompt]
    go

    [AI Agent] annals, model script

    [AI Agent say]: Run

    HIDDEN — code that sets x. Retrieve with react.read(fi:turn_1.code.xyz)

    [TOOL CALL xyz].call exec_tools.execute_code_python
    tc:turn_1.xyz.call
    Params:
    {"code":"x = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx = 1\nx ... [see fi:turn_1.code.xyz]"}

    HIDDEN — it worked. Retrieve with react.read(tc:turn_1.xyz.result)

    HIDDEN — three letters. Retrieve with react.read(fi:turn_1.files/a.txt)
    "#);
    assert_snapshot!(scene.chat(), @r#"
    user "[TURN turn_1] ts=2026-02-09T02:14:32.676425Z"
    user "\n\n[USER MESSAGE]\n[path: ar:turn_1.user.prompt]\n"
    user "go"
    user "\n\n[AI Agent] "
    user "annals, model script"
    assistant "Run"
    assistant/call xyz exec_tools.execute_code_python "{\"code\":\"HIDDEN — code that sets x. Retrieve with react.read(fi:turn_1.c…"
    tool/xyz "HIDDEN — it worked. Retrieve with react.read(tc:turn_1.xyz.result)"
    tool/xyz "\n\nHIDDEN — three letters. Retrieve with react.read(fi:turn_1.files/a.txt…" =>[3]
    "#);
    let block = round::hide_block(
        &scene.timeline,
        &scene.turn,
        HideReason::Hide,
        vec![
            hide("tc:turn_1.xyz.call", "a call"),
            hide("ar:turn_1.react.notes.xyz", "words"),
        ],
    );
    scene.push(block.unwrap());
    assert_snapshot!(scene.chat(), @r#"
    user "[TURN turn_1] ts=2026-02-09T02:14:32.676425Z"
    user "\n\n[USER MESSAGE]\n[path: ar:turn_1.user.prompt]\n"
    user "go"
    user "\n\n[AI Agent] "
    user "annals, model script"
    assistant "HIDDEN — words. Retrieve with react.read(ar:turn_1.react.notes.xyz)"
    assistant/call xyz exec_tools.execute_code_python "{\"hidden\":\"HIDDEN — a call. Retrieve with react.read(tc:turn_1.xyz.call)…"
    tool/xyz "HIDDEN — it worked. Retrieve with react.read(tc:turn_1.xyz.result)"
    tool/xyz "\n\nHIDDEN — three letters. Retrieve with react.read(fi:turn_1.files/a.txt…" =>[3]
    "#);
}

/// Characters, not bytes: a prefix of Cyrillic is as long as one of Latin, and never ends inside a character.
#[test]
fn a_cut_parameter_keeps_its_first_characters_whatever_their_bytes() {
    use annals_core::limits::WRITE_PARAM_PREFIX_CHARS as KEPT;
    for letter in ["a", "Ж", "日", "🦉"] {
        for (given, kept) in [
            (KEPT - 1, KEPT - 1),
            (KEPT, KEPT),
            (KEPT + 1, KEPT),
            (3 * KEPT, KEPT),
        ] {
            let mut scene = Scene::asked("go");
            let content = letter.repeat(given);
            scene.says("", vec![scene.write_call("w", "long.md", &content)]);
            let call = scene.timeline.call_block(&call("w")).unwrap();
            let text: serde_json::Value = serde_json::from_str(call.text().unwrap()).unwrap();
            let shown = format!("{}... [see fi:turn_1.files/long.md]", letter.repeat(kept));
            assert_eq!(text["params"]["content"], shown, "{given} × {letter}");
            assert_eq!(call.meta().cut[0].size_bytes, content.len() as u64);
        }
    }
}
