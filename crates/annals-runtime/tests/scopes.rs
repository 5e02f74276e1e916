//! What holds for one scope and no other: its budget over a period, its rules.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use annals_core::ids::Scope;
use annals_core::settings::{BudgetSettings, Period, ScopeLimits, Settings};
use annals_core::time::Timestamp;
use annals_core::turn::TurnEnd;
use annals_model::ScriptModel;
use annals_model::script::Script;
use annals_runtime::world::{SeededEntropy, SteppingClock};
use annals_runtime::{Agent, AgentBuilder, PolicyFiles, PolicyRows, PolicySource as _, Turn, World};
use annals_store::{ArtifactStore, MemoryLog, Store};
use annals_tools::{DynamicTool, Effect, Reach, Tool, ToolSpec};
use common::texts;
use serde_json::{Value, json};

/// Processes come and go on one log.
struct Shared {
    home: tempfile::TempDir,
    log: Arc<dyn Store>,
    sent: Arc<AtomicUsize>,
}

impl Shared {
    fn new() -> Self {
        Shared {
            home: tempfile::tempdir().unwrap(),
            log: Arc::new(MemoryLog::default()),
            sent: Arc::default(),
        }
    }

    fn builder(&self, steps: Value, at: &str) -> AgentBuilder {
        let script = Script::parse(&json!({ "steps": steps }).to_string()).unwrap();
        let clock = SteppingClock::new(Timestamp::parse(at).unwrap(), 1_000);
        let sent = self.sent.clone();
        let spec = ToolSpec::builder("mail.send")
            .effect(Effect::Once)
            .reaches([Reach::External]);
        let send: Arc<dyn Tool> = Arc::new(DynamicTool::with_spec(spec.build().unwrap(), move |_, _| {
            sent.fetch_add(1, Ordering::SeqCst);
            async { Ok(json!("sent")) }
        }));
        Agent::builder()
            .model(ScriptModel::new("test", script))
            .tools([send])
            .log(self.log.clone())
            .artifacts(ArtifactStore::open(self.home.path().join("artifacts")).unwrap())
            .workspaces(self.home.path().join("workspace"))
            .world(World::new(clock, SeededEntropy::new(7)))
    }

    fn rows(&self) -> PolicyRows {
        let file = |name: &str| self.home.path().join(name);
        let files = PolicyFiles::new(file("policy.toml"), file("config.toml"));
        PolicyRows::new(files, Scope::default(), self.log.clone())
    }
}

fn scope(text: &str) -> Scope {
    Scope::parse(text).unwrap()
}

async fn run(agent: &Agent, conversation: &str) -> Turn {
    let session = agent.session(conversation).await.unwrap();
    agent.run(session, "go").await.unwrap()
}

fn model_calls_a_day(model_calls: u64) -> Settings {
    Settings {
        budget: BudgetSettings {
            scope: ScopeLimits {
                period: Period::Day,
                model_calls: Some(model_calls),
                ..ScopeLimits::default()
            },
            ..BudgetSettings::default()
        },
        ..Settings::default()
    }
}

#[tokio::test]
async fn a_scope_s_budget_holds_across_conversations_and_processes_until_the_next_day() {
    let shared = Shared::new();
    let (bob, ann) = (scope("acme/web/bob"), scope("acme/web/ann"));
    let call = |id: &str| json!({"tool_calls": [{"id": id, "tool": "mail.send", "params": {}}]});
    let settings = model_calls_a_day(3);
    let first = shared.builder(
        json!([{"text": "one"}, call("a"), {"text": "three"}]),
        "2026-11-17T10:00:00Z",
    );
    let first = first
        .settings(settings.clone())
        .build()
        .await
        .unwrap()
        .in_scope(&bob);
    assert_eq!(run(&first, "c1").await.end(), TurnEnd::Complete);
    assert_eq!(
        run(&first, "c2").await.end(),
        TurnEnd::Complete,
        "the third call is the last allowed"
    );
    let second = shared.builder(json!([{"text": "never"}]), "2026-11-17T23:00:00Z");
    let second = second.settings(settings.clone()).build().await.unwrap();
    let refused = run(&second.in_scope(&bob), "c3").await;
    assert_eq!(
        (refused.end(), refused.answer()),
        (TurnEnd::BudgetExceeded, ""),
        "the model is not asked at all"
    );
    assert_eq!(
        refused.reason().unwrap(),
        "`budget.scope.model_calls` is 3, and 3 are used in this day"
    );
    assert_eq!(
        run(&second.in_scope(&ann), "c1").await.answer(),
        "never",
        "another scope has its own"
    );
    let later = shared.builder(json!([{"text": "again"}]), "2026-11-18T00:00:01Z");
    let later = later.settings(settings).build().await.unwrap().in_scope(&bob);
    assert_eq!(run(&later, "c4").await.answer(), "again", "a new day");
}

#[tokio::test]
async fn a_turn_that_uses_the_last_of_its_scope_answers_with_what_it_has() {
    let shared = Shared::new();
    let call = json!({"tool_calls": [{"id": "a", "tool": "mail.send", "params": {}}]});
    let agent = shared.builder(json!([call, {"text": "as far as I got"}]), "2026-11-17T10:00:00Z");
    let agent = agent.settings(model_calls_a_day(1)).build().await.unwrap();
    let turn = run(&agent, "c").await;
    assert_eq!(
        (turn.end(), turn.answer()),
        (TurnEnd::BudgetExceeded, "as far as I got")
    );
    assert_eq!(
        turn.reason().unwrap(),
        "`budget.scope.model_calls` is 1, and 1 are used in this day"
    );
}

#[tokio::test]
async fn turns_of_a_scope_at_the_same_time_are_all_counted() {
    const TURNS: usize = 20;
    let shared = Shared::new();
    let steps: Vec<Value> = (0..=TURNS).map(|_| json!({"text": "ok"})).collect();
    let agent = shared.builder(json!(steps), "2026-11-17T10:00:00Z");
    let agent = agent
        .settings(model_calls_a_day(TURNS as u64))
        .build()
        .await
        .unwrap();
    let turns = (0..TURNS).map(|n| {
        let agent = agent.clone();
        async move { run(&agent, &format!("c{n}")).await.end() }
    });
    let ends = futures::future::join_all(turns).await;
    assert!(ends.iter().all(|end| *end == TurnEnd::Complete), "{ends:?}");
    assert_eq!(run(&agent, "late").await.end(), TurnEnd::BudgetExceeded);
}

#[tokio::test]
async fn a_row_says_what_its_scope_may_use_and_do() {
    let shared = Shared::new();
    std::fs::write(
        shared.home.path().join("policy.toml"),
        "default = \"allow-all\"\n",
    )
    .unwrap();
    let (bob, ann) = (scope("acme/web/bob"), scope("acme/web/ann"));
    let rows = shared.rows();
    let text = "[budget.scope]\nperiod = \"hour\"\nmodel_calls = 2\n\n[[rule]]\ntool = \"mail.send\"\ndecide = \"deny\"\nwhy = \"bob writes too much\"\n";
    rows.set_row(&bob, text, &[]).await.unwrap();
    let wrong = rows
        .set_row(&ann, "[budget.scope]\nmodel_cals = 2\n", &[])
        .await
        .unwrap_err();
    assert!(wrong.to_string().contains("model_cals"), "{wrong}");
    assert_eq!(
        rows.row(&ann).await.unwrap(),
        None,
        "what makes no sense changes nothing"
    );
    let call = json!({"tool_calls": [{"id": "a", "tool": "mail.send", "params": {}}]});
    let steps = json!([call, {"expect": ["bob writes too much"], "text": "told"}, call, {"text": "sent"}]);
    let agent = shared.builder(steps, "2026-11-17T10:00:00Z");
    let agent = agent.policy(rows).build().await.unwrap();
    let turn = run(&agent.in_scope(&bob), "c").await;
    assert_eq!((turn.answer(), shared.sent.load(Ordering::SeqCst)), ("told", 0));
    let result = &texts(turn.session(), "react.tool.result")[0];
    assert!(result.contains("denied_by_policy"), "{result}");
    let over = run(&agent.in_scope(&bob), "c2").await;
    assert_eq!(
        over.reason().unwrap(),
        "`budget.scope.model_calls` is 2, and 2 are used in this hour"
    );
    assert_eq!(run(&agent.in_scope(&ann), "c").await.answer(), "sent");
    assert_eq!(shared.sent.load(Ordering::SeqCst), 1, "no rule of another scope");
}

/// What one scope's person answered "always" must not open anything for another's.
#[tokio::test]
async fn what_a_scope_remembers_or_a_home_s_user_allows_holds_for_nobody_else() {
    let shared = Shared::new();
    let file = |name: &str| shared.home.path().join(name);
    std::fs::write(
        file("policy.toml"),
        "[[rule]]\nname = \"mail\"\ntool = \"mail.send\"\ndecide = \"ask\"\n",
    )
    .unwrap();
    let remembered = "[[rule]]\ntool = \"mail.send\"\ndecide = \"allow\"\nanswers = \"mail\"\n";
    let (home, bob, ann) = (Scope::default(), scope("acme/web/bob"), scope("acme/web/ann"));
    let rows = shared.rows();
    let agent = shared.builder(json!([{"text": "unused"}]), "2026-11-17T10:00:00Z");
    let agent = agent.policy(rows.clone()).build().await.unwrap();
    let decide = async |scope: &Scope| {
        let judged = agent
            .in_scope(scope)
            .judge("mail.send", &json!({}))
            .await
            .unwrap();
        judged.judgement.decide.as_str()
    };
    rows.remember(&bob, remembered).await.unwrap();
    rows.remember(&bob, remembered).await.unwrap();
    assert_eq!(
        rows.row(&bob).await.unwrap().unwrap().matches("[[rule]]").count(),
        1
    );
    assert_eq!(
        [decide(&home).await, decide(&bob).await, decide(&ann).await],
        ["ask", "allow", "ask"]
    );
    assert!(!file("config.toml").exists(), "the home's user answered nothing");
    rows.remember(&home, remembered).await.unwrap();
    assert_eq!([decide(&home).await, decide(&ann).await], ["allow", "ask"]);
    // What the home's user denies is denied to everybody it serves.
    std::fs::write(
        file("config.toml"),
        "[[rule]]\ntool = \"mail.send\"\ndecide = \"deny\"\n",
    )
    .unwrap();
    assert_eq!([decide(&home).await, decide(&bob).await], ["deny", "deny"]);
}
