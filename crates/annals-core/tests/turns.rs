//! The turn machine: what happens next, from the blocks alone.

mod common;

use annals_core::block::payload::{
    ApprovalDecision, ApprovalRequest, Decision, InputAction, InputRequest, InputResponse,
};
use annals_core::block::{BlobDigest, BlockKind, Meta, NewBlock};
use annals_core::code::Code;
use annals_core::ids::RequestId;
use annals_core::path::LogicalPath;
use annals_core::turn::opening;
use annals_core::turn::outcome::{Notice, Outcome};
use annals_core::turn::{Budget, CallModel, Next, Offer, TurnEnd, next, recovery};
use annals_core::view::View;
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
fn a_block_whose_text_has_not_the_form_of_its_type_is_named_and_means_nothing() {
    let mut scene = Scene::asked("go");
    let kinds = [
        BlockKind::TimelineHide,
        BlockKind::Notice,
        BlockKind::Plan,
        BlockKind::ToolCall,
        BlockKind::UserAttachmentMeta,
        BlockKind::ChildResult,
        BlockKind::ReactCompletion,
    ];
    for kind in kinds.clone() {
        let path = LogicalPath::turn_header(&scene.turn);
        let block = NewBlock::new(kind, &scene.turn, path).text("application/json", "{\"half\": ");
        scene.push(block.meta(Meta::of_call(&call("c"))));
    }
    let malformed = scene.timeline.malformed();
    let named: Vec<&str> = malformed.iter().map(|error| error.kind.as_str()).collect();
    assert_eq!(named, kinds.each_ref().map(BlockKind::tag));
    let turn = scene.timeline.current_turn().unwrap();
    assert_eq!(turn.end, Some(TurnEnd::Failed));
    assert_eq!(scene.timeline.report(turn), None);
    let again = View::fold(scene.timeline.blocks().iter().cloned()).unwrap();
    assert_eq!(again.malformed().len(), kinds.len());
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

fn refused(scene: &mut Scene, ids: &[(&str, Code)]) {
    scene.says(
        "",
        ids.iter().map(|(id, _)| new_call(id, "no.tool", &[])).collect(),
    );
    for (id, code) in ids {
        let mut outcome = recovery::failed(Code::UnknownTool, "no".into());
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
    refused(&mut scene, &[("a", Code::ViolationUnknownTool)]);
    assert_eq!(next(&scene.timeline, &budget), asks(2, Offer::Tools));
    refused(&mut scene, &[("b", Code::ViolationToolSignatureRed)]);
    assert_eq!(
        next(&scene.timeline, &budget),
        asks(3, Offer::Tools),
        "another reason"
    );
    round(&mut scene, "c");
    refused(&mut scene, &[("d", Code::ViolationToolSignatureRed)]);
    assert_eq!(
        next(&scene.timeline, &budget),
        asks(5, Offer::Tools),
        "not in a row"
    );
    refused(&mut scene, &[("e", Code::ViolationToolSignatureRed)]);
    assert_eq!(
        next(&scene.timeline, &budget),
        asks(6, Offer::AnswerOnly),
        "asked once for an answer"
    );
    scene.completes("This is what I have");
    assert_eq!(
        next(&scene.timeline, &budget),
        Next::Done(TurnEnd::ProtocolViolation)
    );
}

#[test]
fn violations_of_different_tools_are_not_one_streak() {
    let mut scene = Scene::asked("go");
    for (id, tool) in [("a", "web.search"), ("b", "react.write")] {
        scene.says("", vec![new_call(id, tool, &[])]);
        let mut outcome = recovery::failed(Code::UnknownTool, "no".into());
        outcome
            .notices
            .push(Notice::new(Code::ViolationToolSignatureRed, "no"));
        scene.returns(id, outcome);
    }
    let budget = Budget {
        max_iterations: 15,
        ..BUDGET
    };
    assert_eq!(next(&scene.timeline, &budget), asks(3, Offer::Tools));
}

#[test]
fn two_kinds_of_violation_in_each_answer_are_both_repeated() {
    let mut scene = Scene::asked("go");
    refused(
        &mut scene,
        &[
            ("a", Code::ViolationUnknownTool),
            ("b", Code::ViolationInvalidToolArguments),
        ],
    );
    assert_eq!(next(&scene.timeline, &BUDGET), asks(2, Offer::Tools));
    refused(
        &mut scene,
        &[
            ("c", Code::ViolationUnknownTool),
            ("d", Code::ViolationInvalidToolArguments),
        ],
    );
    assert_eq!(next(&scene.timeline, &BUDGET), asks(3, Offer::AnswerOnly));
}

#[test]
fn notices_after_which_the_call_still_ran_do_not_count() {
    let mut scene = Scene::asked("go");
    for id in ["a", "b"] {
        scene.says("", vec![new_call(id, "react.write", &[])]);
        let notices = vec![
            Notice::new(Code::ViolationParamOrder, "order"),
            Notice::new(Code::ViolationPathRewritten, "moved"),
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
    let reopened = annals_core::view::View::fold(scene.timeline.blocks().iter().cloned()).unwrap();
    assert_eq!(
        next(&reopened, &BUDGET),
        Next::CallTools(vec![call("r"), call("x")])
    );
}

#[test]
fn calls_that_an_older_turn_left_open_do_not_hold_up_the_next() {
    let mut scene = Scene::asked("go");
    scene.says("", vec![new_call("x", "exec_tools.run", &[])]);
    scene.ask("2", "again", Vec::new());
    assert_eq!(next(&scene.timeline, &BUDGET), asks(1, Offer::Tools));
}

fn asks_approval(scene: &mut Scene, id: &str) -> RequestId {
    let request = ApprovalRequest {
        approval_id: RequestId::of(&scene.turn, &call(id), 1),
        call_id: call(id),
        tool: "web_tools.web_fetch".into(),
        known_as: None,
        facets: serde_json::Map::new(),
        args_digest: BlobDigest::of(b"{}"),
        rule: Some("ask host".into()),
        why: None,
        proposed_rule: None,
        expires: None,
    };
    let block = request.block(&scene.turn);
    scene.push(block);
    request.approval_id
}

fn decides(scene: &mut Scene, id: &RequestId, decision: Decision) {
    let decided = ApprovalDecision {
        approval_id: id.clone(),
        decision,
        by: "ada".into(),
        via: "cli".into(),
        edited_args: None,
        note: Some("not that host".into()),
    };
    let block = decided.block(&scene.turn, &id.call());
    scene.push(block);
}

#[test]
fn a_turn_waits_while_a_request_has_no_decision_and_survives_being_folded_again() {
    let mut scene = Scene::asked("go");
    let calls = ["a", "b", "c"].map(|id| new_call(id, "web_tools.web_fetch", &[]));
    scene.says("", calls.into());
    let before = scene.text();
    let request = asks_approval(&mut scene, "b");
    assert_eq!(
        next(&scene.timeline, &BUDGET),
        Next::CallTools(vec![call("a")]),
        "calls after a waiting one wait too"
    );
    scene.returns("a", payload("ok"));
    assert_eq!(next(&scene.timeline, &BUDGET), Next::Wait);
    let again = View::fold(scene.timeline.blocks().iter().cloned()).unwrap();
    assert_eq!(next(&again, &BUDGET), Next::Wait);
    let waiting: Vec<&RequestId> = again.waiting().map(|request| &request.id).collect();
    assert_eq!(waiting, [&request]);
    decides(&mut scene, &request, Decision::Once);
    decides(&mut scene, &request, Decision::Deny);
    let decision = scene
        .timeline
        .requests_of(&call("b"))
        .last()
        .unwrap()
        .decision()
        .unwrap();
    assert_eq!(decision.decision, Decision::Once, "the first decision holds");
    assert_eq!(
        next(&scene.timeline, &BUDGET),
        Next::CallTools(vec![call("b"), call("c")])
    );
    assert_eq!(scene.timeline.waiting().count(), 0);
    assert!(scene.text().starts_with(&before), "the model sees none of this");
    assert!(!scene.text().contains("not that host"));
}

#[test]
fn a_refusal_that_stops_lets_the_call_be_told_and_then_ends_the_turn() {
    let mut scene = Scene::asked("go");
    scene.says(
        "",
        vec![new_call("a", "react.read", &[]), new_call("b", "react.read", &[])],
    );
    let request = asks_approval(&mut scene, "a");
    decides(&mut scene, &request, Decision::DenyAndStop);
    assert_eq!(next(&scene.timeline, &BUDGET), Next::CallTools(vec![call("a")]));
    scene.returns("a", recovery::failed(Code::DeniedByPerson, "no".into()));
    assert_eq!(next(&scene.timeline, &BUDGET), Next::Done(TurnEnd::Cancelled));
}

#[test]
fn an_input_request_is_waited_for_like_an_approval() {
    let mut scene = Scene::asked("go");
    scene.says("", vec![new_call("a", "client.pick", &[])]);
    let id = RequestId::of(&scene.turn, &call("a"), 1);
    let request = InputRequest {
        input_id: id.clone(),
        call_id: call("a"),
        tool: "client.pick".into(),
        message: "which one?".into(),
        schema: None,
        url: None,
        expires: None,
    };
    let block = request.block(&scene.turn);
    scene.push(block);
    assert_eq!(next(&scene.timeline, &BUDGET), Next::Wait);
    let response = InputResponse {
        input_id: id,
        action: InputAction::Accept,
        content: Some("the left one".into()),
        by: "client".into(),
        via: "http".into(),
    };
    let block = response.block(&scene.turn, &call("a"));
    scene.push(block);
    assert_eq!(next(&scene.timeline, &BUDGET), Next::CallTools(vec![call("a")]));
}

#[test]
fn words_said_while_a_turn_runs_are_answered_once_more() {
    let mut scene = Scene::asked("go");
    scene.completes("done");
    let steer = opening::steer_block(&scene.turn, 1, "and in French?");
    scene.push(steer);
    assert_eq!(next(&scene.timeline, &BUDGET), asks(2, Offer::Tools));
    assert!(
        scene
            .text()
            .ends_with("[USER MESSAGE]\n[path: ar:turn_1.user.steer.1]\nand in French?")
    );
    scene.completes("fini");
    assert_eq!(next(&scene.timeline, &BUDGET), Next::Done(TurnEnd::Complete));

    let mut late = Scene::asked("go");
    for id in ["a", "b", "c"] {
        round(&mut late, id);
    }
    late.completes("as far as I got");
    let steer = opening::steer_block(&late.turn, 1, "stop there");
    late.push(steer);
    assert_eq!(next(&late.timeline, &BUDGET), asks(5, Offer::AnswerOnly));
    late.completes("yes");
    assert_eq!(next(&late.timeline, &BUDGET), Next::Done(TurnEnd::MaxIterations));
}

#[test]
fn an_end_that_cannot_be_read_is_an_end_and_is_reported() {
    let mut scene = Scene::asked("go");
    let block = NewBlock::new(
        BlockKind::ReactCompletion,
        &scene.turn,
        LogicalPath::react_completion(&scene.turn),
    )
    .text("application/json", r#"{"outcome":"from_the_future"}"#);
    scene.push(block);
    assert_eq!(scene.timeline.current_turn().unwrap().end, Some(TurnEnd::Failed));
    let [error] = scene.timeline.malformed() else {
        panic!("one block is malformed")
    };
    assert!(
        error
            .to_string()
            .starts_with("block 4: the text of `react.completion` cannot be read: unknown variant")
    );
}

#[test]
fn every_outcome_is_written_and_read_by_its_own_word() {
    for end in TurnEnd::ALL {
        let word = serde_json::to_value(end).unwrap();
        assert_eq!(word, end.as_str());
        assert_eq!(serde_json::from_value::<TurnEnd>(word).unwrap(), *end);
    }
    assert_eq!(TurnEnd::ALL.len(), 11);
}
