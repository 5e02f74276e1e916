//! What is written when a view becomes shorter: summaries and prunes.

use annals_core::block::{Blob, BlockKind, Body, Channel, MessageKind, Meta, NewBlock};
use annals_core::path::LogicalPath;
use annals_core::settings::SessionSettings;
use annals_core::timeline::HideReason;
use annals_core::turn::opening;
use annals_core::turn::outcome::{HideItem, Outcome};
use annals_core::turn::{TurnEnd, round};
use annals_core::view::compact::{self, Force};
use annals_core::view::{Layout, prune};
use insta::assert_snapshot;

use crate::common::{Scene, attachment, call, first_words, new_call, path, payload, prompt, turn};

fn compaction_scene() -> Scene {
    let mut scene = Scene::new();
    for n in 1..=3 {
        scene.ask(&n.to_string(), &format!("prompt {n}"), Vec::new());
        let (id, name) = (format!("w{n}"), format!("{n}.md"));
        let content = format!("content {n} ").repeat(200);
        scene.says("Writing", vec![scene.write_call(&id, &name, &content)]);
        let outcome = scene.written(&name, &content);
        scene.returns(&id, outcome);
        if n < 3 {
            scene.completes(&format!("answer {n}"));
            scene.ends(TurnEnd::Complete);
        }
    }
    scene
}

#[test]
fn compaction() {
    let mut scene = compaction_scene();
    let plan = compact::plan(&scene.timeline, 1_700, Force::Budget).unwrap();
    assert_eq!(
        scene.timeline.block(plan.first_kept).unwrap().kind,
        BlockKind::AssistantCompletion
    );
    assert_snapshot!(plan.digest, @r"
    [turn_1] user: prompt 1
    - note: Writing
    - called react.write, see tc:turn_1.w1.call
    [turn_1] answer: answer 1
    [turn_2] user: prompt 2
    - note: Writing
    - called react.write, see tc:turn_2.w2.call
    ");
    assert_snapshot!(plan.artifacts, @r"
    - fi:turn_1.files/1.md | text/markdown | physical_path: turn_1/files/1.md | 2000 bytes
    - fi:turn_2.files/2.md | text/markdown | physical_path: turn_2/files/2.md | 2000 bytes
    ");
    let count = scene.timeline.blocks().len();
    let before = scene.timeline.view_tokens();
    scene.push(plan.block(&scene.turn, Some("Goal: three files.")));
    assert_snapshot!(scene.shape_after(count), @r#"26 conv.range.summary su:turn_3.conv.range.summary text/markdown {covered_turn_ids first_kept_seq compaction_digest split_turn_id} "Goal: three files.\n\nArtifacts (read with react.read):\n- fi:turn_1.files/…""#);
    assert!(scene.timeline.view_tokens() < before);
    assert_snapshot!(scene.chat(), @r#"
    user "[SUMMARY OF EARLIER TURNS]\n[path: su:turn_3.conv.range.summary]\n"
    user "Goal: three files.\n\nArtifacts (read with react.read):\n- fi:turn_1.files/…"
    user "\n\n[TURN turn_2] ts=2026-02-09T02:14:41.676425Z"
    assistant "answer 2" =>[2]
    user "[TURN turn_3] ts=2026-02-09T02:14:50.676425Z"
    user "\n\n[USER MESSAGE]\n[path: ar:turn_3.user.prompt]\n"
    user "prompt 3"
    user "\n\n[AI Agent] "
    user "annals, model script"
    assistant "Writing"
    assistant/call w3 react.write "{\"path\":\"3.md\",\"channel\":\"canvas\",\"content\":\"content 3 content 3 content…"
    tool/w3 "[TOOL RESULT w3].summary react.write\nStatus: success\nArtifacts:\n- logica…"
    tool/w3 "\n\n[TOOL RESULT w3].artifact react.write\nlogical_path: fi:turn_3.files/3.…" =>[3]
    "#);
}

#[test]
fn compaction_inside_a_turn_keeps_the_prompt_and_cuts_before_an_answer() {
    let mut scene = compaction_scene();
    let plan = compact::plan(&scene.timeline, 900, Force::Refused).unwrap();
    assert_eq!(
        scene.timeline.block(plan.first_kept).unwrap().kind,
        BlockKind::Notes
    );
    assert_eq!(plan.split_turn_id, Some(turn("3")));
    let count = scene.timeline.blocks().len();
    let hide = round::hide_block(&scene.timeline, &scene.turn, HideReason::Ttl, plan.hides.clone());
    let block = plan.block(&scene.turn, None);
    scene.push_all([block].into_iter().chain(hide));
    assert_snapshot!(scene.shape_after(count), @r#"
    26 conv.range.summary su:turn_3.conv.range.summary text/markdown {covered_turn_ids first_kept_seq split_turn_id} "[turn_1] user: prompt 1\n- note: Writing\n- called react.write, see tc:tur…"
    27 timeline.hide ar:turn_3.timeline.hide.1 application/json {} "{\"reason\":\"ttl\",\"items\":[{\"path\":\"fi:turn_3.files/3.md\",\"replacement\":\"6…"
    "#);
    assert_snapshot!(scene.text(), @r#"
    [SUMMARY OF EARLIER TURNS]
    [path: su:turn_3.conv.range.summary]
    [turn_1] user: prompt 1
    - note: Writing
    - called react.write, see tc:turn_1.w1.call
    [turn_1] answer: answer 1
    [turn_2] user: prompt 2
    - note: Writing
    - called react.write, see tc:turn_2.w2.call
    [turn_2] answer: answer 2


    Artifacts (read with react.read):
    - fi:turn_1.files/1.md | text/markdown | physical_path: turn_1/files/1.md | 2000 bytes
    - fi:turn_2.files/2.md | text/markdown | physical_path: turn_2/files/2.md | 2000 bytes

    [TURN turn_3] ts=2026-02-09T02:14:50.676425Z

    [USER MESSAGE]
    [path: ar:turn_3.user.prompt]
    prompt 3

    [AI Agent say]: Writing

    [TOOL CALL w3].call react.write
    tc:turn_3.w3.call
    Params:
    {"path":"3.md","channel":"canvas","content":"content 3 content 3 content 3 content 3 content 3 content 3 content 3 content 3 content 3 content 3 content 3 content 3 content 3 content 3 content 3 content 3 content 3 content 3 content 3 content 3 ... [see fi:turn_3.files/3.md]","kind":"display"}

    [TOOL RESULT w3].summary react.write
    Status: success
    Artifacts:
    - logical_path: fi:turn_3.files/3.md | kind: display | visibility: external | tokens: 601

    HIDDEN — 628 tokens set aside to fit the window: content 3 content 3 content 3 content 3 content 3 content 3 content 3 content 3 content 3 content 3 content 3 content 3 content 3 content 3 content 3 content 3 content 3 content 3 content 3 content 3 … [1800 more characters]. Retrieve with react.read(fi:turn_3.files/3.md)
    "#);
}

#[test]
fn ttl_prune() {
    let mut scene = Scene::new();
    for n in 1..=4 {
        let png = Body::from(Blob {
            size_bytes: 500_000,
            ..Blob::of(&[n])
        });
        let picture = attachment(&turn(&n.to_string()), &format!("{n}.png"), "image/png", png);
        scene.ask(&n.to_string(), &format!("prompt {n}"), vec![picture]);
        let (id, name) = (format!("w{n}"), format!("{n}.md"));
        let content = format!("content {n} ").repeat(1_000);
        scene.says("Writing", vec![scene.write_call(&id, &name, &content)]);
        let outcome = scene.written(&name, &content);
        scene.returns(&id, outcome);
        scene.completes(&"a long answer ".repeat(400));
        scene.ends(TurnEnd::Complete);
    }
    let settings = SessionSettings {
        keep_recent_turns: 3,
        keep_recent_intact_turns: 1,
        ..Default::default()
    };
    assert!(
        prune::plan(&scene.timeline, &settings, scene.now).is_none(),
        "the cache is still warm"
    );
    let plan = prune::plan(&scene.timeline, &settings, scene.now.plus_micros(300_000_000)).unwrap();
    let items = plan
        .items
        .iter()
        .map(|item| format!("{} <- {}", item.path, first_words(&item.replacement)));
    assert_snapshot!(items.collect::<Vec<_>>().join("\n"), @r"
    fi:turn_1.user.attachments/1.png <- [TRUNCATED FILE] path=fi:turn_1.user.attachments/1.png mime=image/png si…
    fi:turn_1.files/1.md <- [TRUNCATED FILE] path=fi:turn_1.files/1.md mime=text/markdown size=10000
    ar:turn_1.assistant.completion <- [TRUNCATED] a long answer a long answer a long answer a long answer a lo…
    fi:turn_2.user.attachments/2.png <- [TRUNCATED FILE] path=fi:turn_2.user.attachments/2.png mime=image/png si…
    ");
    let count = scene.timeline.blocks().len();
    let hide = round::hide_block(&scene.timeline, &scene.turn, HideReason::Ttl, plan.items).unwrap();
    scene.push(hide);
    assert_snapshot!(scene.shape_after(count), @r#"45 timeline.hide ar:turn_4.timeline.hide.1 application/json {} "{\"reason\":\"ttl\",\"items\":[{\"path\":\"fi:turn_1.user.attachments/1.png\",\"rep…""#);
    assert!(
        prune::plan(&scene.timeline, &settings, scene.now.plus_micros(300_000_000)).is_none(),
        "nothing is left"
    );
}

#[test]
fn repeated_prunes_leave_one_system_message() {
    let mut scene = Scene::asked("go");
    let mut seen = scene.prompt(Layout::Chat);
    for n in 1..=3 {
        let text = format!("prune {n}");
        let message = opening::system_message(&scene.turn, &MessageKind::CacheTtlPruned, &text).unwrap();
        scene.push(message);
        seen = scene.prompt(Layout::Chat);
    }
    let text = scene.text();
    assert!(text.contains("prune 3") && !text.contains("prune 1") && !text.contains("prune 2"));
    assert_eq!(
        seen,
        prompt(&scene.timeline.at(scene.timeline.tail().unwrap()), Layout::Chat)
    );
    let shown: u64 = scene
        .timeline
        .parts(Layout::Timeline)
        .map(|part| u64::from(part.tokens))
        .sum();
    assert_eq!(shown, scene.timeline.view_tokens());
}

#[test]
fn a_summary_keeps_notes_and_replacements_and_repeats_the_header_of_a_cut_turn() {
    let mut scene = Scene::asked("first");
    for n in 1..=3 {
        let id = format!("n{n}");
        scene.says("", vec![new_call(&id, "react.write", &[])]);
        let note = NewBlock::new(
            BlockKind::Note,
            &scene.turn,
            LogicalPath::note(&scene.turn, &call(&id)),
        )
        .text("text/markdown", format!("[D] note {n}"))
        .meta(Meta::of_call(&call(&id)).with_channel(Channel::Internal));
        let outcome = Outcome {
            beside: vec![note],
            ..payload(&"words and words ".repeat(300))
        };
        scene.returns(&id, outcome);
    }
    let item = HideItem {
        path: path("tc:turn_1.n1.result"),
        replacement: "a list of words".into(),
        from_seq: None,
    };
    let hide = round::hide_block(&scene.timeline, &scene.turn, HideReason::Hide, vec![item]).unwrap();
    scene.push(hide);
    scene.completes("done");
    scene.ends(TurnEnd::Complete);
    scene.ask("2", "second", Vec::new());
    let plan = compact::plan(&scene.timeline, 1_800, Force::Budget).unwrap();
    assert_eq!(
        plan.split_turn_id,
        Some(turn("1")),
        "the cut goes through a past turn"
    );
    let block = plan.block(&scene.turn, Some("the model's words"));
    scene.push(block);
    let text = scene.text();
    let summary = text.split("[AI Agent").next().unwrap();
    assert!(summary.contains("the model's words"));
    assert!(
        summary.contains("Internal notes:\n- [D] note 1\n- [D] note 2"),
        "{summary}"
    );
    assert!(
        summary.contains("Hidden (read with react.read):\n- tc:turn_1.n1.result: a list of words"),
        "{summary}"
    );
    assert!(
        text.contains("\n\n[TURN turn_1] ts=2026-02-09T02:14:32.676425Z\n\n"),
        "{text}"
    );
    assert!(text.find("[TURN turn_1]") < text.find("[TOOL CALL n3]"));
}
