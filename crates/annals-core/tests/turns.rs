//! The turn machine: what happens next, from the blocks alone.

mod common;

use annals_core::block::{BlockKind, Meta, NewBlock};
use annals_core::path::LogicalPath;
use annals_core::turn::outcome::{Notice, Outcome, Then};
use annals_core::turn::{Budget, CallModel, Next, Offer, TurnEnd, next, protocol, recovery};
use annals_core::view::compact::Force;
use common::{Scene, call, new_call, path, payload};

const BUDGET: Budget = Budget {
    window_tokens: 100_000,
    overhead_tokens: 1_000,
    max_iterations: 3,
};

fn asks(step: u32, offer: Offer) -> Next {
    Next::CallModel(CallModel { step, offer })
}

fn round(scene: &mut Scene, id: &str) {
    scene.says("", vec![new_call(id, "react.read", &[])]);
    scene.returns(id, payload("nothing"));
}

#[test]
fn nothing_happens_before_a_prompt_or_after_the_end() {
    let mut scene = Scene::new();
    assert_eq!(next(&scene.timeline, &BUDGET), Next::Wait);
    scene.ask("1", "go", Vec::new());
    assert_eq!(next(&scene.timeline, &BUDGET), asks(1, Offer::Tools));
    scene.completes("done");
    assert_eq!(next(&scene.timeline, &BUDGET), Next::Done(TurnEnd::Complete));
    scene.ends(TurnEnd::Complete);
    assert_eq!(next(&scene.timeline, &BUDGET), Next::Wait);
    scene.ask("2", "more", Vec::new());
    assert_eq!(next(&scene.timeline, &BUDGET), asks(1, Offer::Tools));
}

#[test]
fn open_calls_come_first_in_the_models_order() {
    let mut scene = Scene::asked("go");
    scene.says(
        "",
        vec![new_call("b", "react.read", &[]), new_call("a", "react.read", &[])],
    );
    assert_eq!(
        next(&scene.timeline, &BUDGET),
        Next::CallTools(vec![call("b"), call("a")])
    );
    scene.returns("b", payload("nothing"));
    assert_eq!(next(&scene.timeline, &BUDGET), Next::CallTools(vec![call("a")]));
    scene.returns("a", payload("nothing"));
    assert_eq!(next(&scene.timeline, &BUDGET), asks(2, Offer::Tools));
}

#[test]
fn a_call_is_open_until_its_last_result_is_there() {
    let mut scene = Scene::asked("go");
    scene.says("", vec![scene.write_call("w", "a.md", "text")]);
    let outcome = scene.written("a.md", "text");
    let blocks = annals_core::turn::round::outcome_blocks(&scene.timeline, &scene.turn, &call("w"), outcome);
    assert_eq!(blocks.len(), 2);
    for block in blocks {
        assert_eq!(next(&scene.timeline, &BUDGET), Next::CallTools(vec![call("w")]));
        scene.push(block);
    }
    assert_eq!(next(&scene.timeline, &BUDGET), asks(2, Offer::Tools));
}

#[test]
fn a_result_begun_anew_after_a_crash_counts_for_itself() {
    let mut scene = Scene::asked("go");
    scene.says("", vec![scene.write_call("w", "a.md", "text")]);
    let outcome = scene.written("a.md", "text");
    let first =
        annals_core::turn::round::outcome_blocks(&scene.timeline, &scene.turn, &call("w"), outcome).remove(0);
    scene.push(first);
    scene.returns("w", recovery::interrupted("react.write"));
    assert_eq!(next(&scene.timeline, &BUDGET), asks(2, Offer::Tools));
}

#[test]
fn at_the_limit_the_model_is_asked_once_more_for_an_answer() {
    let mut scene = Scene::asked("go");
    for id in ["a", "b", "c"] {
        assert!(matches!(
            next(&scene.timeline, &BUDGET),
            Next::CallModel(CallModel {
                offer: Offer::Tools,
                ..
            })
        ));
        round(&mut scene, id);
    }
    assert_eq!(next(&scene.timeline, &BUDGET), asks(4, Offer::AnswerOnly));
    let mut stubborn = Scene {
        timeline: scene.timeline.clone(),
        turn: scene.turn.clone(),
        ..Scene::new()
    };
    stubborn.step = 3;
    round(&mut stubborn, "d");
    assert_eq!(
        next(&stubborn.timeline, &BUDGET),
        Next::Done(TurnEnd::MaxIterations)
    );
    scene.completes("as far as I got");
    assert_eq!(next(&scene.timeline, &BUDGET), Next::Done(TurnEnd::MaxIterations));
}

fn refused(scene: &mut Scene, ids: &[(&str, &str)]) {
    scene.says(
        "",
        ids.iter().map(|(id, _)| new_call(id, "no.tool", &[])).collect(),
    );
    for (id, code) in ids {
        let mut outcome = recovery::failed("refused", "no".into());
        outcome.notices.push(Notice::new(*code, "no"));
        scene.returns(id, outcome);
    }
}

#[test]
fn the_same_violation_twice_in_a_row_ends_the_turn() {
    let budget = Budget {
        max_iterations: 15,
        ..BUDGET
    };
    let mut scene = Scene::asked("go");
    refused(&mut scene, &[("a", protocol::UNKNOWN_TOOL)]);
    assert_eq!(next(&scene.timeline, &budget), asks(2, Offer::Tools));
    refused(&mut scene, &[("b", protocol::TOOL_SIGNATURE_RED)]);
    assert_eq!(
        next(&scene.timeline, &budget),
        asks(3, Offer::Tools),
        "another reason"
    );
    round(&mut scene, "c");
    refused(&mut scene, &[("d", protocol::TOOL_SIGNATURE_RED)]);
    assert_eq!(
        next(&scene.timeline, &budget),
        asks(5, Offer::Tools),
        "not in a row"
    );
    refused(&mut scene, &[("e", protocol::TOOL_SIGNATURE_RED)]);
    assert_eq!(
        next(&scene.timeline, &budget),
        Next::Done(TurnEnd::ProtocolViolation)
    );
}

#[test]
fn two_kinds_of_violation_in_each_answer_are_both_repeated() {
    let mut scene = Scene::asked("go");
    refused(
        &mut scene,
        &[
            ("a", protocol::UNKNOWN_TOOL),
            ("b", protocol::INVALID_TOOL_ARGUMENTS),
        ],
    );
    assert_eq!(next(&scene.timeline, &BUDGET), asks(2, Offer::Tools));
    refused(
        &mut scene,
        &[
            ("c", protocol::UNKNOWN_TOOL),
            ("d", protocol::INVALID_TOOL_ARGUMENTS),
        ],
    );
    assert_eq!(
        next(&scene.timeline, &BUDGET),
        Next::Done(TurnEnd::ProtocolViolation)
    );
}

#[test]
fn notices_after_which_the_call_still_ran_do_not_count() {
    let mut scene = Scene::asked("go");
    for id in ["a", "b"] {
        scene.says("", vec![new_call(id, "react.write", &[])]);
        let notices = vec![
            Notice::new(protocol::PARAM_ORDER, "order"),
            Notice::new(protocol::PATH_REWRITTEN, "moved"),
        ];
        scene.returns(
            id,
            Outcome {
                notices,
                ..payload("ok")
            },
        );
    }
    assert_eq!(next(&scene.timeline, &BUDGET), asks(3, Offer::Tools));
}

#[test]
fn a_question_to_the_person_ends_the_turn() {
    let mut scene = Scene::asked("go");
    scene.says(
        "",
        vec![new_call("q", "react.clarify", &[("questions", "which one?")])],
    );
    let question = NewBlock::new(
        BlockKind::StageClarification,
        &scene.turn,
        path("ar:turn_1.stage.clarification"),
    )
    .text("text/markdown", "which one?")
    .meta(Meta::of_call(&call("q")));
    scene.returns(
        "q",
        Outcome {
            beside: vec![question],
            then: Then::Clarify,
            ..payload("asked")
        },
    );
    assert_eq!(next(&scene.timeline, &BUDGET), Next::Done(TurnEnd::Clarify));
}

fn long_scene() -> Scene {
    let mut scene = Scene::new();
    for n in 1..=4 {
        scene.ask(&n.to_string(), "go", Vec::new());
        let id = format!("c{n}");
        scene.says("", vec![new_call(&id, "react.read", &[])]);
        scene.returns(&id, payload(&"words and words ".repeat(200)));
        if n < 4 {
            scene.completes("done");
            scene.ends(TurnEnd::Complete);
        }
    }
    scene
}

#[test]
fn a_view_over_its_share_is_compacted_before_the_model_is_asked() {
    let mut scene = long_scene();
    let tokens = scene.timeline.view_tokens() as u32;
    let roomy = Budget {
        window_tokens: tokens * 2,
        overhead_tokens: 0,
        max_iterations: 9,
    };
    assert_eq!(next(&scene.timeline, &roomy), asks(2, Offer::Tools));
    let tight = Budget {
        window_tokens: tokens,
        ..roomy
    };
    let Next::Compact(plan) = next(&scene.timeline, &tight) else {
        panic!("over nine tenths")
    };
    scene.push(plan.block(&scene.turn, Some("what was said")));
    assert_eq!(next(&scene.timeline, &tight), asks(2, Offer::Tools));
    assert!(scene.timeline.view_tokens() <= u64::from(tight.view_tokens()));
}

#[test]
fn a_refused_prompt_is_compacted_once() {
    let mut scene = long_scene();
    let roomy = Budget {
        window_tokens: 1_000_000,
        overhead_tokens: 0,
        max_iterations: 9,
    };
    assert_eq!(next(&scene.timeline, &roomy), asks(2, Offer::Tools));
    let path = LogicalPath::parse(&format!("ar:{}.system.message.context_limit", scene.turn)).unwrap();
    let refusal = NewBlock::new(BlockKind::SystemMessage, &scene.turn, path)
        .text("text/plain", "too long")
        .meta(Meta::EMPTY.with("kind", "context_limit"));
    scene.push(refusal);
    // The provider's window is smaller than the one we know: only a plan for less than the view can help.
    let known = Budget {
        window_tokens: scene.timeline.view_tokens() as u32 * 2,
        ..roomy
    };
    let Next::Compact(plan) = next(&scene.timeline, &known) else {
        panic!("refused")
    };
    assert_eq!(
        annals_core::view::compact::plan(&scene.timeline, known.view_tokens(), Force::Refused),
        Some(*plan.clone())
    );
    scene.push(plan.block(&scene.turn, None));
    assert_eq!(next(&scene.timeline, &known), asks(2, Offer::Tools));
}

#[test]
fn an_unfinished_turn_goes_on_where_it_stood() {
    let mut scene = Scene::asked("go");
    scene.says(
        "",
        vec![
            new_call("r", "react.read", &[]),
            new_call("x", "exec_tools.run", &[]),
        ],
    );
    let reopened = annals_core::timeline::Timeline::fold(scene.timeline.blocks().iter().cloned()).unwrap();
    assert_eq!(
        next(&reopened, &BUDGET),
        Next::CallTools(vec![call("r"), call("x")])
    );
    let plan = recovery::plan(&reopened, |tool| tool.starts_with("react."));
    assert_eq!(
        plan,
        [
            recovery::Recovery::RunAgain(call("r")),
            recovery::Recovery::Interrupted(call("x"))
        ]
    );
}

#[test]
fn calls_that_an_older_turn_left_open_do_not_hold_up_the_next() {
    let mut scene = Scene::asked("go");
    scene.says("", vec![new_call("x", "exec_tools.run", &[])]);
    scene.ask("2", "again", Vec::new());
    assert_eq!(next(&scene.timeline, &BUDGET), asks(1, Offer::Tools));
}
