//! What ends a turn before the model does, and answers that must fit a schema.

mod common;

use std::sync::{Arc, Mutex};

use annals_core::settings::{BudgetSettings, Settings, SpendingLimits};
use annals_core::turn::TurnEnd;
use annals_model::model::EventStream;
use annals_model::script::Script;
use annals_model::{Model, ModelError, Request, ScriptModel, Window};
use annals_runtime::{Agent, CancellationToken, RunError, TurnRequest, TurnTerms};
use common::{Bench, shape, texts};
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
