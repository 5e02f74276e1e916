//! Whatever the model sends, the turn goes on or ends well. Each test stands for a failure known from elsewhere.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use annals_core::ids::TurnId;
use annals_core::turn::TurnEnd;
use annals_core::view::Layout;
use annals_runtime::{Attachment, DeltaChannel, TurnRequest, Update};
use annals_tools::{DynamicTool, Tool, ToolResult};
use common::{Bench, Heard, shape, texts, turn, types};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

fn tool<F, Fut>(name: &str, body: F) -> Arc<dyn Tool>
where
    F: Fn(Value) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ToolResult> + Send + 'static,
{
    let schema = json!({"type": "object", "properties": {"x": {"type": "integer"}}});
    Arc::new(DynamicTool::new(name, "a tool of a test", schema, move |_, args| body(args)).unwrap())
}

fn add_one() -> Arc<dyn Tool> {
    tool("add_one", |args| async move {
        Ok(json!(args["x"].as_i64().unwrap_or(0) + 1))
    })
}

fn write(id: &str, path: &str, content: &str) -> Value {
    json!({"tool_calls": [{"id": id, "tool": "react.write",
        "params": {"path": path, "channel": "canvas", "content": content, "kind": "file"}}]})
}

fn call(id: &str, x: i64) -> Value {
    json!({"tool_calls": [{"id": id, "tool": "add_one", "params": {"x": x}}]})
}

#[tokio::test]
async fn the_iteration_limit_ends_with_an_answer() {
    let bench = Bench::new();
    let steps = json!({"steps": [call("a", 1), call("b", 2), {"text": "That is all I have"}]});
    let settings = annals_core::settings::Settings {
        max_iterations: 2,
        ..Default::default()
    };
    let agent = bench
        .builder(steps)
        .tools([add_one()])
        .settings(settings)
        .build()
        .await
        .unwrap();
    let session = turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Go").await;
    assert_eq!(session.outcome(), Some(TurnEnd::MaxIterations));
    assert_eq!(session.answer(), "That is all I have");
}

#[tokio::test]
async fn an_unsafe_path_gives_a_result_and_the_turn_goes_on() {
    let session = Bench::new()
        .run(json!([write("w", "../../etc/passwd", "x"), {"text": "Sorry"}]))
        .await;
    assert!(
        texts(&session, "react.tool.result")[0].contains("unsafe_path"),
        "{}",
        shape(&session)
    );
    assert_eq!(session.outcome(), Some(TurnEnd::Complete));
}

#[tokio::test]
async fn a_patch_that_does_not_fit_leaves_the_file_untouched() {
    let bench = Bench::new();
    let patch = json!({"tool_calls": [{"id": "p", "tool": "react.patch", "params": {
        "path": "a.txt", "channel": "canvas", "patch": "@@ -1,1 +1,1 @@\n-nothing like it\n+x\n", "kind": "file"}}]});
    let session = bench
        .run(json!([write("w", "a.txt", "one\n"), patch, {"text": "Hm"}]))
        .await;
    let results = texts(&session, "react.tool.result").join("\n");
    assert!(
        results.contains("hunk_mismatch") && results.contains("nothing like it"),
        "{results}"
    );
    let file = bench.home.path().join("workspace/c/turn_1/files/a.txt");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "one\n");
}

#[tokio::test]
async fn a_patched_file_is_read_whole_in_a_later_turn_even_without_the_workspace() {
    let bench = Bench::new();
    let patch = json!({"tool_calls": [{"id": "p", "tool": "react.patch", "params": {
        "path": "a.txt", "channel": "canvas", "patch": "@@ -2,1 +2,1 @@\n-two\n+zwei\n", "kind": "file"}}]});
    let read = json!({"tool_calls": [{"id": "r", "tool": "react.read", "params": {"paths": ["fi:turn_1.files/a.txt"]}}]});
    let agent = bench
        .agent(json!([write("w", "a.txt", "one\ntwo\nthree\n"), patch, {"text": "ok"}, read, {"text": "ok"}]))
        .await;
    let session = turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Go").await;
    std::fs::remove_dir_all(bench.home.path().join("workspace/c/turn_1")).unwrap();
    let session = turn(&agent, session, "turn_2", "Read it").await;
    assert_eq!(
        texts(&session, "react.tool.result").last().unwrap(),
        "one\nzwei\nthree\n",
        "{}",
        shape(&session)
    );
}

#[tokio::test]
async fn sixty_calls_in_one_answer_run_together_and_are_written_in_order() {
    let together = Arc::new(tokio::sync::Barrier::new(60));
    let slow = tool("meet", move |args| {
        let together = together.clone();
        async move {
            together.wait().await;
            Ok(args["x"].clone())
        }
    });
    let calls: Vec<Value> = (0..60)
        .map(|x| json!({"id": format!("c{x}"), "tool": "meet", "params": {"x": x}}))
        .collect();
    let bench = Bench::new();
    let agent = bench
        .agent_with(json!([{"tool_calls": calls}, {"text": "met"}]), vec![slow])
        .await;
    let session = turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Go").await;
    let results: Vec<String> = (0..60).map(|x| x.to_string()).collect();
    assert_eq!(texts(&session, "react.tool.result"), results);
}

#[tokio::test]
async fn a_tool_that_panics_is_an_error_for_the_model() {
    let bad = tool("bad", |_| async { panic!("boom") });
    let bench = Bench::new();
    let steps = json!([{"tool_calls": [{"id": "a", "tool": "bad", "params": {}}]}, {"text": "It broke"}]);
    let agent = bench.agent_with(steps, vec![bad]).await;
    let session = turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Go").await;
    assert!(texts(&session, "react.tool.result")[0].contains("tool_execution_exception"));
    assert_eq!(session.outcome(), Some(TurnEnd::Complete));
}

#[tokio::test]
async fn broken_arguments_get_a_notice_and_twice_in_a_row_end_the_turn() {
    let broken = |id: &str| json!({"tool_calls": [{"id": id, "tool": "add_one", "arguments": "{not json"}]});
    let bench = Bench::new();
    let agent = bench
        .agent_with(
            json!([broken("a"), broken("b"), {"text": "This is what I have"}]),
            vec![add_one()],
        )
        .await;
    let session = turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Go").await;
    assert_eq!(session.outcome(), Some(TurnEnd::ProtocolViolation));
    assert_eq!(
        session.answer(),
        "This is what I have",
        "asked once before the end"
    );
    insta::assert_snapshot!(shape(&session));
}

#[tokio::test]
async fn empty_arguments_mean_none() {
    let bench = Bench::new();
    let steps = json!([{"tool_calls": [{"id": "a", "tool": "add_one", "arguments": ""}]}, {"text": "1"}]);
    let agent = bench.agent_with(steps, vec![add_one()]).await;
    let session = turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Go").await;
    assert_eq!(texts(&session, "react.tool.result"), ["1"]);
}

#[tokio::test]
async fn an_unknown_tool_and_a_repeated_call_id_are_told_to_the_model() {
    let bench = Bench::new();
    let steps = json!([
        {"tool_calls": [{"id": "a", "tool": "add_two", "params": {}}, {"id": "b", "tool": "add_one", "params": {"x": 1}},
                        {"id": "b", "tool": "add_one", "params": {"x": 2}}]},
        {"text": "ok"}
    ]);
    let agent = bench.agent_with(steps, vec![add_one()]).await;
    let session = turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Go").await;
    let notices = texts(&session, "react.notice").join("\n");
    assert!(
        notices.contains("unknown_tool") && notices.contains("duplicate_call_id"),
        "{notices}"
    );
    assert_eq!(texts(&session, "react.tool.result")[1..], ["2", "3"]);
}

#[tokio::test]
async fn an_empty_answer_costs_a_step_and_the_turn_goes_on() {
    let session = Bench::new().run(json!([{"text": ""}, {"text": "There"}])).await;
    assert!(texts(&session, "react.notice")[0].contains("empty_answer"));
    assert_eq!(session.answer(), "There");
}

#[tokio::test]
async fn a_context_limit_error_compacts_and_goes_on_even_when_the_summary_fails() {
    for summaries in [json!(["All about sums"]), json!([])] {
        let bench = Bench::new();
        let long = "lorem ipsum ".repeat(400);
        let script = json!({"summaries": summaries, "steps": [
            write("w1", "a.txt", &long), write("w2", "b.txt", &long),
            {"error": {"kind": "context_limit"}},
            {"expect": ["[SUMMARY OF EARLIER TURNS]", "Do it", "fi:turn_1.files/a.txt"], "text": "Went on"}
        ]});
        let agent = bench.builder(script).build().await.unwrap();
        let session = turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Do it").await;
        assert_eq!(session.answer(), "Went on", "{}", shape(&session));
        assert_eq!(
            types(&session)
                .iter()
                .filter(|kind| *kind == "conv.range.summary")
                .count(),
            1
        );
    }
}

#[tokio::test]
async fn a_view_over_its_share_of_the_window_is_compacted_inside_the_turn() {
    let bench = Bench::new();
    let long = "word ".repeat(1_500);
    let mut steps: Vec<Value> = (0..12)
        .map(|n| write(&format!("w{n}"), &format!("f{n}.txt"), &long))
        .collect();
    steps.push(json!({"text": "Done"}));
    let script = json!({"summaries": vec!["Files were written"; 12], "steps": steps});
    let agent = bench
        .builder(script)
        .context_tokens(16_000)
        .build()
        .await
        .unwrap();
    let session = turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Write many").await;
    assert_eq!(session.outcome(), Some(TurnEnd::Complete), "{}", shape(&session));
    assert!(types(&session).contains(&"conv.range.summary".to_owned()));
    session.timeline(|timeline| assert!(timeline.view_tokens() < 16_000));
}

#[tokio::test]
async fn a_model_error_keeps_everything_so_far() {
    let session = Bench::new()
        .run(json!([write("w", "a.txt", "kept\n"), {"error": {"kind": "auth"}}]))
        .await;
    assert_eq!(session.outcome(), Some(TurnEnd::ModelError));
    assert!(texts(&session, "react.completion")[0].contains("auth"));
    assert!(texts(&session, "react.tool.result").contains(&"kept\n".to_owned()));
}

#[tokio::test]
async fn cancelling_ends_running_tools_and_records_it() {
    let started = Arc::new(tokio::sync::Notify::new());
    let endless = tool("endless", {
        let started = started.clone();
        move |_| {
            let started = started.clone();
            async move {
                started.notify_one();
                std::future::pending::<()>().await;
                Ok(Value::Null)
            }
        }
    });
    let bench = Bench::new();
    let steps = json!([{"tool_calls": [{"id": "a", "tool": "endless", "params": {}}]}, {"text": "never"}]);
    let agent = bench.agent_with(steps, vec![endless]).await;
    let session = agent.session("c").await.unwrap();
    let cancel = CancellationToken::new();
    let request = TurnRequest::new("Go").cancel(cancel.clone());
    let run = agent.run_in(&session, request);
    let (end, ()) = tokio::join!(tokio::time::timeout(Duration::from_secs(30), run), async {
        started.notified().await;
        cancel.cancel();
    });
    assert_eq!(end.unwrap().unwrap(), TurnEnd::Cancelled);
    assert!(texts(&session, "react.tool.result")[0].contains("cancelled"));
}

#[tokio::test]
async fn written_content_is_seen_while_it_arrives_and_no_call_among_the_words_in_both_layouts() {
    for layout in [Layout::Chat, Layout::Timeline] {
        let mut step = write("w", "a.md", "# A long enough report to come in pieces");
        step["text"] = json!("Drafting it.\n\n```sh\nls\n```");
        let bench = Bench::new();
        let script = json!({"steps": [step, {"text": "ok"}]});
        let agent = bench.builder(script).layout(layout).build().await.unwrap();
        let heard = Heard::default();
        let session = agent.session("c").await.unwrap();
        agent
            .run(session, TurnRequest::new("Go").listen(heard.listener()))
            .await
            .unwrap();
        let told = |channel: DeltaChannel| -> String {
            let heard = heard.0.lock().unwrap();
            let deltas = heard.iter().filter_map(|update| match update {
                Update::Delta(delta) if delta.channel == channel => Some(delta.text.as_str()),
                _ => None,
            });
            deltas.collect()
        };
        assert_eq!(
            told(DeltaChannel::Canvas),
            "# A long enough report to come in pieces",
            "{layout:?}"
        );
        let words = told(DeltaChannel::Answer);
        let words: String = words.split_whitespace().collect();
        assert_eq!(words, "Draftingit.```shls```ok", "{layout:?}");
    }
}

#[tokio::test]
async fn a_turn_left_open_is_closed_by_the_next_prompt_and_its_effect_is_not_repeated() {
    let effects = Arc::new(AtomicUsize::new(0));
    let bench = Bench::new();
    let agent = bench
        .agent_with(json!([{"text": "next"}]), vec![counted(&effects)])
        .await;
    let session = agent.session("c").await.unwrap();
    leave_open(&agent, &session).await;
    let session = turn(&agent, session, "turn_2", "Again").await;
    assert_eq!(effects.load(Ordering::SeqCst), 0);
    let results = texts(&session, "react.tool.result");
    assert!(results[0].contains("interrupted"), "{results:?}");
    assert!(texts(&session, "react.completion")[0].contains("interrupted"));
    assert_eq!(session.answer(), "next");
}

#[tokio::test]
async fn resuming_tells_the_model_of_an_interrupted_call_and_goes_on() {
    let effects = Arc::new(AtomicUsize::new(0));
    let bench = Bench::new();
    let steps = json!([{"expect": ["interrupted"], "text": "I looked first"}]);
    let agent = bench.agent_with(steps, vec![counted(&effects)]).await;
    let session = agent.session("c").await.unwrap();
    leave_open(&agent, &session).await;
    let end = agent.run_in(&session, TurnRequest::resume()).await.unwrap();
    assert_eq!((end, effects.load(Ordering::SeqCst)), (TurnEnd::Complete, 0));
    assert_eq!(session.answer(), "I looked first");
}

fn counted(effects: &Arc<AtomicUsize>) -> Arc<dyn Tool> {
    let effects = effects.clone();
    tool("effect", move |_| {
        effects.fetch_add(1, Ordering::SeqCst);
        async { Ok(json!("done")) }
    })
}

/// Files that are text by their content, whatever their extension, are in the prompt with it.
#[tokio::test]
async fn text_that_is_attached_reaches_the_model_with_its_content() {
    let files = [
        ("settings.toml", "[server]\nport = 8080\n"),
        ("rows.jsonl", "{\"n\": 1}\n{\"n\": 2}\n"),
        ("notes.unheard-of", "plain words of a file without a known type\n"),
        ("Makefile", "all:\n\techo done\n"),
    ];
    let bench = Bench::new();
    let agent = bench.agent(json!([{"text": "Read."}])).await;
    let request = files
        .iter()
        .fold(TurnRequest::new("Read these"), |request, (name, text)| {
            request.attach(Attachment::new(*name, text.as_bytes().to_vec()))
        });
    let turn = agent
        .run(agent.session("c").await.unwrap(), request)
        .await
        .unwrap();
    let shown = turn.session().timeline(|view| {
        let parts = view.parts(Layout::Timeline);
        parts.map(|part| part.text()).collect::<Vec<_>>().join("\n")
    });
    for (name, text) in files {
        assert!(
            shown.contains(text.trim_end()),
            "{name} is not in the prompt:\n{shown}"
        );
    }
}

/// Writes what a process leaves that dies between a call and its result.
async fn leave_open(agent: &annals_runtime::Agent, session: &annals_runtime::Session) {
    use annals_core::turn::opening::Opening;
    use annals_core::turn::round::{NewAnswer, NewCall, answer_blocks};
    let turn = TurnId::parse("turn_1").unwrap();
    let opening = Opening {
        turn: turn.clone(),
        prompt: "Go".into(),
        attachments: Vec::new(),
        instructions: None,
        agent: "a".into(),
        tools: None,
    };
    let mut blocks = session.timeline(|timeline| opening.blocks(timeline));
    let call = NewCall {
        id: annals_core::ids::CallId::parse("e1").unwrap(),
        tool: "effect".into(),
        params: serde_json::Map::new(),
        unreadable: None,
        cut: None,
    };
    let answer = NewAnswer {
        calls: vec![call],
        ..NewAnswer::default()
    };
    blocks.extend(answer_blocks(&turn, 1, agent.world().now(), &answer));
    agent.append(session, blocks).await.unwrap();
}

/// A model that cannot call tools writes its calls as text; everything else is the same.
#[test]
fn every_sequence_is_the_same_in_the_timeline_layout() {
    annals_requirements::again_in_the_timeline_layout(&[]);
}
