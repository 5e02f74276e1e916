//! The script model, and the retry decorator on top of it.

use std::sync::Arc;
use std::time::Duration;

use annals_core::view::prompt::{CachePoint, Message, Piece, Prompt};
use annals_model::script::{Script, ScriptFailureKind, ScriptModel, ScriptStep};
use annals_model::{
    Answer, Event, Jitter, MidStream, Model, ModelError, ModelSpec, Purpose, Request, RetryPolicy, Retrying,
    StopReason, Usage, open,
};
use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

fn prompt(text: &str) -> Prompt {
    let piece = Piece {
        cache_point: Some(CachePoint::Tail),
        ..Piece::text(text)
    };
    Prompt {
        system: "Be brief.".into(),
        tools: [].into(),
        messages: vec![Message::User(vec![piece])].into(),
    }
}

fn request() -> Request {
    Request::new(prompt("Hello"), 1_000)
}

fn play(json: &str) -> ScriptModel {
    ScriptModel::new("demo", Script::parse(json).unwrap())
}

async fn ask_with(model: &impl Model, request: Request) -> Result<Answer, ModelError> {
    Answer::collect(model.stream(request, &CancellationToken::new()).await?).await
}

async fn ask(model: &impl Model) -> Result<Answer, ModelError> {
    ask_with(model, request()).await
}

#[tokio::test]
async fn the_kth_call_gets_the_kth_step_and_then_the_script_is_used_up() {
    let model = play(
        r##"{"steps": [
            {"thinking": "why", "text": "Drafting summary",
             "tool_calls": [{"id": "tc_a1", "tool": "react.write",
                             "params": {"path": "report.md", "channel": "canvas", "content": "# Report", "kind": "display"}}]},
            {"tool_calls": [{"tool": "add_one", "arguments": "{not json"}]},
            {"error": {"kind": "context_limit"}},
            {"text": "Done [[S:1]]", "usage": {"input_tokens": 10, "output_tokens": 5}}
        ]}"##,
    );
    assert_eq!(model.name(), "script:demo");
    let first = ask(&model).await.unwrap();
    assert_eq!(first.text, "Drafting summary");
    assert_eq!(first.thinking.unwrap().text, "why");
    assert_eq!(first.stop, StopReason::ToolUse);
    assert_eq!(first.calls[0].id.as_deref(), Some("tc_a1"));
    let order = r##"{"path":"report.md","channel":"canvas","content":"# Report","kind":"display"}"##;
    assert_eq!(first.calls[0].arguments, order);
    let second = ask(&model).await.unwrap();
    assert_eq!(
        (second.calls[0].id.clone(), second.calls[0].arguments.as_str()),
        (None, "{not json")
    );
    assert_eq!(ask(&model).await.unwrap_err().kind(), "context_limit");
    let last = ask(&model).await.unwrap();
    assert_eq!(
        (last.text.as_str(), last.stop),
        ("Done [[S:1]]", StopReason::EndTurn)
    );
    assert_eq!(
        last.usage,
        Usage {
            input_tokens: 10,
            output_tokens: 5,
            ..Usage::default()
        }
    );
    assert_eq!(
        ask(&model).await,
        Err(ModelError::ScriptExhausted { call: 5, steps: 4 })
    );
}

#[tokio::test]
async fn a_missing_expectation_names_the_text() {
    let model = play(
        r#"{"steps": [{"expect": ["Hello", "[TOOL RESULT tc_a1]"], "text": "x"}, {"expect": ["Hello"], "text": "y"}]}"#,
    );
    let missing = "[TOOL RESULT tc_a1]".to_owned();
    assert_eq!(
        ask(&model).await,
        Err(ModelError::ExpectationFailed { step: 1, missing })
    );
    assert_eq!(ask(&model).await.unwrap().text, "y");
}

#[tokio::test]
async fn expectations_are_matched_against_the_rendered_view_when_there_is_one() {
    let model = play(
        r#"{"steps": [{"expect": ["[USER MESSAGE]"], "text": "x"}, {"expect": ["Hello"], "text": "y"}]}"#,
    );
    let rendered = Request {
        rendered: Some("[USER MESSAGE]\nhi".into()),
        ..request()
    };
    assert_eq!(ask_with(&model, rendered.clone()).await.unwrap().text, "x");
    assert_eq!(
        ask_with(&model, rendered).await.unwrap_err().kind(),
        "expectation_failed"
    );
}

#[tokio::test]
async fn summaries_come_from_their_own_list_if_there_is_one() {
    let summary = || Request {
        purpose: Purpose::Summary,
        ..request()
    };
    let model = play(r#"{"summaries": ["so far"], "steps": [{"text": "one"}]}"#);
    assert_eq!(ask_with(&model, summary()).await.unwrap().text, "so far");
    assert_eq!(
        ask_with(&model, summary()).await.unwrap_err().kind(),
        "script_exhausted"
    );
    assert_eq!(ask(&model).await.unwrap().text, "one");
    let model = play(r#"{"steps": [{"text": "one"}, {"text": "two"}]}"#);
    assert_eq!(ask_with(&model, summary()).await.unwrap().text, "one");
    assert_eq!(ask(&model).await.unwrap().text, "two");
}

#[tokio::test]
async fn text_and_arguments_arrive_in_small_pieces() {
    let content = "word ".repeat(20);
    let step = ScriptStep {
        text: Some("one two three".into()),
        ..ScriptStep::call("tc", "react.write", json!({ "content": content }))
    };
    let model = ScriptModel::new("demo", Script::of([step]));
    let stream = model.stream(request(), &CancellationToken::new()).await.unwrap();
    let events: Vec<Event> = stream.try_collect().await.unwrap();
    let words: Vec<&Event> = events
        .iter()
        .filter(|event| matches!(event, Event::Text(_)))
        .collect();
    assert_eq!(words.len(), 3);
    assert!(
        events
            .iter()
            .filter(|event| matches!(event, Event::CallArguments { .. }))
            .count()
            > 3
    );
}

#[tokio::test(start_paused = true)]
async fn delays_are_kept_and_cancelling_does_not_wait_for_them() {
    let model = play(
        r#"{"chunk_ms": 10, "steps": [{"text": "a b c", "delay_ms": 1000}, {"text": "a b c"}, {"text": "a", "delay_ms": 60000}]}"#,
    );
    let started = Instant::now();
    ask(&model).await.unwrap();
    assert_eq!(started.elapsed(), Duration::from_millis(1_040));
    let cancel = CancellationToken::new();
    let mut stream = model.stream(request(), &cancel).await.unwrap();
    assert!(stream.next().await.unwrap().is_ok());
    cancel.cancel();
    assert_eq!(stream.next().await, Some(Err(ModelError::Cancelled)));
    assert_eq!(stream.next().await, None);
    assert_eq!(
        model.stream(request(), &cancel).await.err(),
        Some(ModelError::Cancelled)
    );
}

#[tokio::test]
async fn usage_is_counted_as_a_provider_with_a_cache_would() {
    let model = ScriptModel::new("demo", Script::of((0..2).map(|_| ScriptStep::text("fine"))));
    let text = "word ".repeat(2_000);
    let first = ask_with(&model, Request::new(prompt(&text), 100))
        .await
        .unwrap()
        .usage;
    assert!(
        first.input_tokens > 2_000 && first.cache_write_tokens == first.input_tokens,
        "{first:?}"
    );
    assert_eq!((first.cache_read_tokens, first.output_tokens), (0, 1));
    let second = ask_with(&model, Request::new(prompt(&text), 100))
        .await
        .unwrap()
        .usage;
    assert_eq!(
        (second.cache_read_tokens, second.cache_write_tokens),
        (second.input_tokens, 0)
    );
}

#[test]
fn a_wrong_script_says_where() {
    for (json, message) in [
        (r#"{"steps": [{"expects": ["x"]}]}"#, "unknown field `expects`"),
        (
            r#"{"steps": [{"error": {"kind": "tired"}}]}"#,
            "unknown variant `tired`",
        ),
        (
            r#"{"steps": [{}, {"tool_calls": [{"tool": "a", "params": {}, "arguments": "{}"}]}]}"#,
            "step 2 of the script",
        ),
        (
            r#"{"steps": [{"tool_calls": [{"params": {}}]}]}"#,
            "a call names no `tool`",
        ),
        (r#"[]"#, "not valid"),
    ] {
        let error = Script::parse(json).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[tokio::test]
async fn a_script_file_is_opened_by_name_and_its_overloads_are_tried_again_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("story.json");
    std::fs::write(&file, r#"{"steps": [{"error": {"kind": "overloaded"}}, {"error": {"kind": "rate_limit"}}, {"text": "here"}]}"#).unwrap();
    let model = open(&ModelSpec::new(
        format!("script:{}", file.display()).parse().unwrap(),
        0,
    ))
    .unwrap();
    assert_eq!(model.name(), "script:story");
    assert_eq!(ask(&model).await.unwrap().text, "here");
    std::fs::write(&file, "[]").unwrap();
    let wrong = Script::load(&file).unwrap_err().to_string();
    assert!(
        wrong.starts_with(&format!("`{}`: the script is not valid: ", file.display())),
        "{wrong}"
    );
    let missing = ModelSpec::new("script:no/such/file.json".parse().unwrap(), 0);
    assert_eq!(
        open(&missing).err().unwrap().to_string(),
        "the script `no/such/file.json` cannot be read"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_calls_are_in_flight_at_once() {
    // Every answer takes 200 ms: one after the other they would take more than three minutes.
    let mut script = Script::of((0..1_000).map(|n| ScriptStep::text(format!("answer {n}"))));
    script.delay_ms = 200;
    let model = Arc::new(ScriptModel::new("demo", script));
    let started = std::time::Instant::now();
    let calls = (0..1_000).map(|_| {
        let model = Arc::clone(&model);
        tokio::spawn(async move { ask(&model).await.unwrap().text })
    });
    let mut texts: Vec<String> = futures::future::join_all(calls)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "{:?}",
        started.elapsed()
    );
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), 1_000);
}

fn retrying(steps: Vec<ScriptStep>, policy: RetryPolicy) -> Retrying<ScriptModel> {
    Retrying::new(
        ScriptModel::new("demo", Script::of(steps)),
        policy,
        Jitter::new(|| 0.5),
    )
}

#[tokio::test(start_paused = true)]
async fn waits_follow_the_policy_and_retry_after() {
    let script = r#"{"steps": [{"error": {"kind": "network"}}, {"error": {"kind": "rate_limit", "retry_after_ms": 7000}}, {"text": "ok"}]}"#;
    let model = Retrying::new(play(script), RetryPolicy::default(), Jitter::new(|| 0.5));
    let started = Instant::now();
    assert_eq!(ask(&model).await.unwrap().text, "ok");
    assert_eq!(started.elapsed(), Duration::from_millis(250 + 7_000 + 500));
}

#[tokio::test(start_paused = true)]
async fn it_gives_up_after_its_attempts_or_its_time() {
    let failures = |count| {
        (0..count)
            .map(|_| ScriptStep::failure(ScriptFailureKind::Overloaded))
            .collect::<Vec<_>>()
    };
    let policy = RetryPolicy {
        max_attempts: 3,
        ..RetryPolicy::default()
    };
    assert_eq!(
        ask(&retrying(failures(3), policy)).await.unwrap_err().kind(),
        "overloaded"
    );
    let hasty = RetryPolicy {
        max_total: Duration::from_secs(1),
        max_attempts: 100,
        ..RetryPolicy::default()
    };
    let started = Instant::now();
    assert_eq!(
        ask(&retrying(failures(100), hasty)).await.unwrap_err().kind(),
        "overloaded"
    );
    assert!(started.elapsed() <= Duration::from_secs(1));
}

#[tokio::test]
async fn what_cannot_get_better_is_not_tried_again() {
    for kind in [
        ScriptFailureKind::Auth,
        ScriptFailureKind::ContextLimit,
        ScriptFailureKind::BadRequest,
        ScriptFailureKind::Quota,
    ] {
        let model = retrying(
            vec![ScriptStep::failure(kind), ScriptStep::text("never")],
            RetryPolicy::default(),
        );
        assert!(!ask(&model).await.unwrap_err().is_retryable());
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_in_mid_stream_restarts_and_says_so() {
    let broken = ScriptStep {
        text: Some("Half an".into()),
        ..ScriptStep::failure(ScriptFailureKind::CutOff)
    };
    let steps = || {
        vec![
            broken.clone(),
            ScriptStep::failure(ScriptFailureKind::Overloaded),
            ScriptStep::text("A whole answer"),
        ]
    };
    let model = retrying(steps(), RetryPolicy::default());
    let stream = model.stream(request(), &CancellationToken::new()).await.unwrap();
    let events: Vec<Event> = stream.try_collect().await.unwrap();
    let waited = Duration::from_millis(250 + 500);
    assert_eq!(
        events[..3],
        [
            Event::Text("Half ".into()),
            Event::Text("an".into()),
            Event::Restarted {
                attempt: 3,
                reason: "cut_off",
                waited
            },
        ]
    );
    let answer = ask(&retrying(steps(), RetryPolicy::default())).await.unwrap();
    assert_eq!(answer.text, "A whole answer");
    let strict = RetryPolicy {
        mid_stream: MidStream::Fail,
        ..RetryPolicy::default()
    };
    assert_eq!(ask(&retrying(steps(), strict)).await, Err(ModelError::CutOff));
}

#[tokio::test(start_paused = true)]
async fn cancelling_ends_the_wait_for_the_next_attempt() {
    let model = retrying(
        vec![
            ScriptStep::failure(ScriptFailureKind::Network),
            ScriptStep::text("late"),
        ],
        RetryPolicy::default(),
    );
    let cancel = CancellationToken::new();
    let (result, ()) = tokio::join!(model.stream(request(), &cancel), async { cancel.cancel() });
    assert_eq!(result.err(), Some(ModelError::Cancelled));
}
