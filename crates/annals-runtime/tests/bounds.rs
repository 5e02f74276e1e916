//! What ends a turn before the model does, and answers that must fit a schema.

mod common;

use std::sync::{Arc, Mutex};

use annals_core::block::BlobDigest;
use annals_core::settings::{BudgetSettings, Settings, SpendingLimits};
use annals_core::time::Timestamp;
use annals_core::turn::{SentSummary, TurnEnd};
use annals_model::model::EventStream;
use annals_model::script::Script;
use annals_model::{Event, Model, ModelError, Purpose, Request, ScriptModel, StopReason, Usage, Window};
use annals_runtime::world::{SeededEntropy, SteppingClock};
use annals_runtime::{
    Agent, ApprovalDecision, Ask, CancellationToken, Decision, HookCx, Hooks, RunError, TurnRequest,
    TurnTerms, Verdict, World,
};
use annals_tools::{DynamicTool, Tool, ToolSpec};
use common::{Bench, shape, texts};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};

fn search(id: &str) -> Value {
    json!({"tool_calls": [{"id": id, "tool": "react.search_files", "params": {"name_regex": "nothing"}}]})
}

async fn bounded(bench: &Bench, steps: Value, budget: BudgetSettings) -> Agent {
    let settings = Settings {
        budget,
        ..Settings::default()
    };
    let builder = bench.builder(json!({ "steps": steps })).settings(settings);
    builder.build().await.unwrap()
}

#[tokio::test]
async fn a_turn_that_goes_in_circles_is_told_once_and_then_ends_with_an_answer() {
    let bench = Bench::new();
    let mut steps: Vec<Value> = (0..4).map(|n| search(&format!("c{n}"))).collect();
    steps[3] =
        json!({"expect": ["protocol_violation.loop", "3 times"], "tool_calls": steps[3]["tool_calls"]});
    steps.push(json!({"text": "I found nothing."}));
    let agent = bounded(&bench, json!(steps), BudgetSettings::default()).await;
    let turn = agent
        .run(agent.session("c").await.unwrap(), "Look")
        .await
        .unwrap();
    assert_eq!(
        (turn.end(), turn.answer()),
        (TurnEnd::Loop, "I found nothing."),
        "{}",
        shape(turn.session())
    );
    assert!(turn.reason().unwrap().contains("4 times"), "{:?}", turn.reason());
    let told = texts(turn.session(), "react.notice");
    assert_eq!(
        told.iter()
            .filter(|notice| notice.contains("protocol_violation.loop"))
            .count(),
        1,
        "{told:?}"
    );
}

#[tokio::test]
async fn calls_that_differ_are_no_loop() {
    let bench = Bench::new();
    let mut steps: Vec<Value> = (0..8)
        .map(|n| json!({"tool_calls": [{"id": format!("c{n}"), "tool": "react.search_files", "params": {"name_regex": format!("x{n}")}}]}))
        .collect();
    steps.push(json!({"text": "Done."}));
    let agent = bounded(&bench, json!(steps), BudgetSettings::default()).await;
    let turn = agent
        .run(agent.session("c").await.unwrap(), "Look")
        .await
        .unwrap();
    assert_eq!(turn.end(), TurnEnd::Complete);
}

#[tokio::test]
async fn a_budget_that_is_used_up_asks_for_an_answer_and_says_which() {
    let limit = |model_calls| SpendingLimits {
        model_calls: Some(model_calls),
        ..SpendingLimits::default()
    };
    let bench = Bench::new();
    let steps = json!([search("a"), search("b"), {"text": "as far as I got"}, {"text": "again"}]);
    let budget = BudgetSettings {
        turn: limit(2),
        conversation: limit(3),
        ..BudgetSettings::default()
    };
    let agent = bounded(&bench, steps, budget).await;
    let turn = agent
        .run(agent.session("c").await.unwrap(), "Look")
        .await
        .unwrap();
    assert_eq!(
        (turn.end(), turn.answer()),
        (TurnEnd::BudgetExceeded, "as far as I got")
    );
    assert_eq!(
        turn.reason(),
        Some("`budget.turn.model_calls` is 2, and 2 are used")
    );
    let turn = agent.run(turn.into_session(), "Once more").await.unwrap();
    assert_eq!(turn.end(), TurnEnd::BudgetExceeded);
    assert_eq!(
        turn.reason(),
        Some("`budget.conversation.model_calls` is 3, and 3 are used")
    );
}

/// A step that costs a thousand tokens there and ten back.
fn dear(step: &Value) -> Value {
    let mut step = step.clone();
    step["usage"] = json!({"input_tokens": 1_000, "output_tokens": 10});
    step
}

/// One cent for a thousand tokens there.
fn price() -> Value {
    json!({"input_nanousd": 10_000, "cache_read_nanousd": 0, "cache_write_nanousd": 0, "output_nanousd": 0})
}

fn budget(whose: &str, name: &str, limit: u64) -> BudgetSettings {
    serde_json::from_value(json!({ whose: { name: limit } })).unwrap()
}

/// Two turns in two conversations: what ends each, with a second of the clock between any two looks at it.
async fn two_turns(
    whose: &str,
    name: &str,
    limit: u64,
    price: Option<Value>,
) -> Vec<(TurnEnd, Option<String>)> {
    let bench = Bench::new();
    let answer = |text: &str| dear(&json!({ "text": text }));
    let steps = json!([
        dear(&search("a")),
        answer("one"),
        dear(&search("b")),
        answer("two")
    ]);
    let mut script = json!({ "steps": steps });
    if let Some(price) = price {
        script["price"] = price;
    }
    let settings = Settings {
        budget: budget(whose, name, limit),
        ..Settings::default()
    };
    let clock = SteppingClock::new(Timestamp::from_unix_millis(1_770_000_000_000), 10_000);
    let world = World::new(clock, SeededEntropy::new(7));
    let agent = bench.builder(script).settings(settings).world(world);
    let agent = agent.build().await.unwrap();
    let second = if whose == "conversation" { "c" } else { "d" };
    let mut ends = Vec::new();
    for conversation in ["c", second] {
        let session = agent.session(conversation).await.unwrap();
        let turn = agent.run(session, "Look").await.unwrap();
        ends.push((turn.end(), turn.reason().map(str::to_owned)));
        turn.into_session().close().await.unwrap();
    }
    ends
}

#[tokio::test]
async fn tokens_and_money_are_bounded_for_a_turn_a_conversation_and_a_scope() {
    use TurnEnd::{BudgetExceeded, Complete};
    // One turn takes two calls: 2,020 tokens, two cents.
    for (name, one_call, two_turns_less_one) in [("tokens", 1_010, 3_000), ("cents", 1, 3)] {
        let run = |whose, limit| two_turns(whose, name, limit, Some(price()));
        let ends =
            |told: Vec<(TurnEnd, Option<String>)>| told.into_iter().map(|(end, _)| end).collect::<Vec<_>>();
        let turn = run("turn", one_call).await;
        let met = format!("`budget.turn.{name}` is {one_call}, and {one_call} are used");
        assert_eq!(turn[0], (BudgetExceeded, Some(met)));
        assert_eq!(turn[1].0, BudgetExceeded, "each turn has a budget of its own");
        assert_eq!(ends(run("turn", one_call * 2 + 1).await), [Complete, Complete]);
        for whose in ["conversation", "scope"] {
            let told = run(whose, two_turns_less_one).await;
            assert_eq!(ends(told.clone()), [Complete, BudgetExceeded], "{whose} {name}");
            let reason = told[1].1.clone().unwrap();
            assert!(
                reason.starts_with(&format!("`budget.{whose}.{name}` is {two_turns_less_one}")),
                "{reason}"
            );
        }
    }
}

#[tokio::test]
async fn a_bound_on_money_without_a_price_is_said_and_spends_nothing() {
    for whose in ["turn", "conversation", "scope"] {
        let told = two_turns(whose, "cents", 100, None).await;
        for (end, reason) in told {
            assert_eq!(end, TurnEnd::BudgetExceeded, "{whose}");
            let reason = reason.unwrap();
            assert!(
                reason.contains(&format!("`budget.{whose}.cents`")) && reason.contains("not known"),
                "{reason}"
            );
        }
    }
}

/// Asks about every call.
struct AsksAlways;

#[async_trait::async_trait]
impl Hooks for AsksAlways {
    async fn before_call(&self, _: &HookCx, _: &ToolSpec, _: &Value) -> Verdict {
        Verdict::Ask(Ask::default())
    }
}

/// One turn whose call is allowed after `waited` seconds and takes `worked`, and another one like it.
async fn slow_turns(whose: &str, limit: u64, waited: i64, worked: i64) -> Vec<(TurnEnd, Option<String>)> {
    let bench = Bench::new();
    let clock = Arc::new(SteppingClock::new(
        Timestamp::from_unix_millis(1_770_000_000_000),
        1,
    ));
    let tool: Arc<dyn Tool> = {
        let clock = clock.clone();
        let spec = ToolSpec::builder("work").build().unwrap();
        Arc::new(DynamicTool::with_spec(spec, move |_, _| {
            clock.advance_seconds(worked);
            async { Ok(json!("done")) }
        }))
    };
    let work = |id: &str| json!({"tool_calls": [{"id": id, "tool": "work", "params": {}}]});
    let steps = json!({"steps": [work("a"), {"text": "one"}, work("b"), {"text": "two"}]});
    let settings = Settings {
        budget: budget(whose, "seconds", limit),
        ..Settings::default()
    };
    let agent = bench
        .builder(steps)
        .settings(settings)
        .tools([tool])
        .hooks(AsksAlways);
    let agent = agent.world(World::new(clock.clone(), SeededEntropy::new(7)));
    let agent = agent.build().await.unwrap();
    let mut ends = Vec::new();
    for _ in 0..2 {
        let session = agent.session("c").await.unwrap();
        let handle = agent.conversation(session.id());
        let decide = async {
            let asked = loop {
                if let [asked] = &handle.approvals().await.unwrap()[..] {
                    break asked.clone();
                }
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            };
            handle.settled().await;
            clock.advance_seconds(waited);
            let allowed = ApprovalDecision {
                approval_id: asked.approval_id,
                decision: Decision::Once,
                by: "ann".into(),
                via: "test".into(),
                edited_args: None,
                note: None,
            };
            handle.decide(allowed).await.unwrap();
            std::future::pending::<()>().await;
        };
        let turn = tokio::select! {
            turn = agent.run(session, "Work") => turn.unwrap(),
            () = decide => unreachable!(),
        };
        ends.push((turn.end(), turn.reason().map(str::to_owned)));
        turn.into_session().close().await.unwrap();
    }
    ends
}

#[tokio::test]
async fn seconds_are_bounded_without_those_in_which_a_person_was_asked() {
    use TurnEnd::{BudgetExceeded, Complete};
    let ends = |told: &[(TurnEnd, Option<String>)]| told.iter().map(|(end, _)| *end).collect::<Vec<_>>();
    for (whose, limit, expected) in [
        ("turn", 25, [Complete, Complete]),
        ("turn", 20, [BudgetExceeded, BudgetExceeded]),
        ("conversation", 50, [Complete, Complete]),
        ("conversation", 35, [Complete, BudgetExceeded]),
        ("scope", 50, [Complete, Complete]),
        ("scope", 35, [Complete, BudgetExceeded]),
    ] {
        let told = slow_turns(whose, limit, 2_000, 20).await;
        assert_eq!(ends(&told), expected, "{whose} {limit}: {told:?}");
        let reason = told[1].1.clone().unwrap_or_default();
        assert!(
            expected[1] == Complete || reason.starts_with(&format!("`budget.{whose}.seconds` is {limit}")),
            "{reason}"
        );
    }
}

/// The calls that make summaries are calls like others: counted, paid for, and kept with the digest of what was sent.
#[tokio::test]
async fn what_a_summary_costs_is_counted_with_its_turn() {
    let bench = Bench::new();
    let long = "word ".repeat(1_500);
    let write = |n: usize| {
        dear(
            &json!({"tool_calls": [{"id": format!("w{n}"), "tool": "react.write", "params": {
            "path": format!("f{n}.txt"), "channel": "canvas", "content": long, "kind": "file"}}]}),
        )
    };
    let mut steps: Vec<Value> = (0..12).map(write).collect();
    steps.push(dear(&json!({"text": "Done"})));
    let script = json!({ "steps": steps });
    let prompts = Arc::<Mutex<Vec<BlobDigest>>>::default();
    let model = Summarised {
        model: ScriptModel::new("test", Script::parse(&script.to_string()).unwrap()),
        prompts: prompts.clone(),
    };
    let agent = bench.builder(script).model(model).context_tokens(16_000);
    let agent = agent.build().await.unwrap();
    let session = agent.session("c").await.unwrap();
    let turn = agent.run(session, "Write many").await.unwrap();
    assert_eq!(turn.end(), TurnEnd::Complete, "{}", shape(turn.session()));
    let sent = prompts.lock().unwrap().clone();
    let kept: Vec<BlobDigest> = turn.session().timeline(|timeline| {
        let summaries = timeline
            .blocks()
            .iter()
            .filter(|block| block.kind.tag() == "conv.range.summary");
        summaries
            .map(|block| block.meta().prompt::<SentSummary>().unwrap().digest)
            .collect()
    });
    assert!(!sent.is_empty());
    assert_eq!(kept, sent, "each summary names the prompt that was sent for it");
    let summaries = sent.len() as u64;
    assert_eq!(turn.usage().input_tokens, 13 * 1_000 + summaries * 5_000);
    assert_eq!(turn.usage().output_tokens, 13 * 10 + summaries * 50);
}

/// Makes summaries that cost five thousand tokens there and fifty back, and remembers what was sent for them.
struct Summarised {
    model: ScriptModel,
    prompts: Arc<Mutex<Vec<BlobDigest>>>,
}

#[async_trait::async_trait]
impl Model for Summarised {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn window(&self) -> Window {
        self.model.window()
    }

    async fn stream(&self, request: Request, cancel: &CancellationToken) -> Result<EventStream, ModelError> {
        if request.purpose != Purpose::Summary {
            return self.model.stream(request, cancel).await;
        }
        self.prompts.lock().unwrap().push(request.prompt.digest());
        let usage = Usage {
            input_tokens: 5_000,
            output_tokens: 50,
            ..Usage::default()
        };
        let stop = StopReason::EndTurn;
        let events = [
            Event::Text("Files were written".into()),
            Event::Finished { stop, usage },
        ];
        Ok(stream::iter(events.map(Ok)).boxed())
    }
}

fn asking_for(schema: Value) -> TurnRequest {
    TurnRequest::new("How many?").terms(TurnTerms {
        schema: Some(schema),
        ..TurnTerms::default()
    })
}

fn count() -> Value {
    json!({"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]})
}

#[tokio::test]
async fn an_answer_is_repaired_until_it_fits_and_kept_as_json() {
    let bench = Bench::new();
    let steps = json!([
        {"expect": ["JSON schema", "count"], "text": "There are three."},
        {"expect": ["protocol_violation.answer_schema", "not JSON"], "text": "{\"count\": \"three\"}"},
        {"expect": ["does not fit"], "text": "```json\n{\"count\": 3}\n```"},
    ]);
    let agent = bench.agent(steps).await;
    let turn = agent
        .run(agent.session("c").await.unwrap(), asking_for(count()))
        .await
        .unwrap();
    assert_eq!(
        (turn.end(), turn.answer()),
        (TurnEnd::Complete, "{\"count\":3}"),
        "{}",
        shape(turn.session())
    );
}

#[tokio::test]
async fn an_answer_that_never_fits_ends_the_turn_with_what_is_wrong() {
    let bench = Bench::new();
    let steps = json!([{"text": "three"}, {"text": "three!"}, {"text": "Three."}]);
    let agent = bench.agent(steps).await;
    let turn = agent
        .run(agent.session("c").await.unwrap(), asking_for(count()))
        .await
        .unwrap();
    assert_eq!(
        (turn.end(), turn.answer()),
        (TurnEnd::ProtocolViolation, "Three.")
    );
    assert!(turn.reason().unwrap().contains("not JSON"), "{:?}", turn.reason());
    let refused = agent
        .run(turn.into_session(), asking_for(json!({"type": 7})))
        .await
        .unwrap_err();
    assert!(matches!(refused.error, RunError::Schema(_)), "{refused}");
}

/// Remembers what answers had to fit.
struct Asked {
    model: ScriptModel,
    schemas: Arc<Mutex<Vec<Option<Value>>>>,
}

#[async_trait::async_trait]
impl Model for Asked {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn window(&self) -> Window {
        self.model.window()
    }

    async fn stream(&self, request: Request, cancel: &CancellationToken) -> Result<EventStream, ModelError> {
        let schema = request.answer_schema.as_deref().cloned();
        self.schemas.lock().unwrap().push(schema);
        self.model.stream(request, cancel).await
    }
}

#[tokio::test]
async fn a_model_is_given_the_schema_itself_in_every_step_of_the_turn() {
    let bench = Bench::new();
    let steps = json!({"steps": [search("a"), {"text": "{\"count\": 3}"}, {"text": "free"}]});
    let schemas = Arc::<Mutex<Vec<Option<Value>>>>::default();
    let model = Asked {
        model: ScriptModel::new("test", Script::parse(&steps.to_string()).unwrap()),
        schemas: schemas.clone(),
    };
    let agent = bench.builder(steps).model(model).build().await.unwrap();
    let session = agent.session("c").await.unwrap();
    let turn = agent.run(session, asking_for(count())).await.unwrap();
    agent.run(turn.into_session(), "and now?").await.unwrap();
    let asked = schemas.lock().unwrap().clone();
    assert_eq!(asked, [Some(count()), Some(count()), None]);
}

/// A model that cannot call tools writes its calls as text; everything else is the same.
#[test]
fn every_sequence_is_the_same_in_the_timeline_layout() {
    annals_requirements::again_in_the_timeline_layout(&[]);
}
