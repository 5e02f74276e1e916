//! A tool that stands for others: what is decided about a call is decided about the tool that runs it, by every way to it.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use annals_core::block::payload::ApprovalRequest;
use annals_core::ids::{ConversationId, Scope};
use annals_core::turn::TurnEnd;
use annals_policy::{Decide, KnownTool, Layer, Policy};
use annals_runtime::{
    Agent, ApprovalDecision, Decision, HookCx, Hooks, PolicyFault, PolicySource, Session, TurnRequest,
    Verdict,
};
use annals_tools::{DynamicTool, Effect, Outcome, Tool, ToolCx, ToolSpec};
use common::{Bench, shape, texts, turn};
use serde_json::{Value, json};

/// Passes calls on to the tool that `tool` names, as `mcp.call` does.
struct Forwarder {
    spec: ToolSpec,
    tools: Vec<Arc<dyn Tool>>,
}

impl Forwarder {
    fn new(tools: Vec<Arc<dyn Tool>>) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {"tool": {"type": "string"}, "arguments": {"type": "object"}},
            "required": ["tool", "arguments"],
        });
        let spec = ToolSpec::builder("forwarder.call")
            .parameters(schema)
            .effect(Effect::None);
        Forwarder {
            spec: spec.build().unwrap(),
            tools,
        }
    }
}

#[async_trait::async_trait]
impl Tool for Forwarder {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn passes_on(&self, args: &Value) -> Option<(Arc<dyn Tool>, Value)> {
        let named = |tool: &&Arc<dyn Tool>| Some(tool.spec().name().as_str()) == args["tool"].as_str();
        Some((self.tools.iter().find(named)?.clone(), args["arguments"].clone()))
    }

    fn behind(&self) -> Vec<Arc<dyn Tool>> {
        self.tools.clone()
    }

    async fn run(&self, _: &ToolCx, _: Value) -> Outcome {
        Outcome::default()
    }
}

/// Rules in force.
struct Rules(&'static str);

#[async_trait::async_trait]
impl PolicySource for Rules {
    async fn read(&self, _: &Scope, tools: &[KnownTool]) -> Result<Policy, PolicyFault> {
        Ok(Policy {
            owner: Layer::parse("policy.toml", self.0, tools)?,
            ..Policy::default()
        })
    }

    async fn remember(&self, _: &Scope, _: &str) -> Result<(), PolicyFault> {
        Ok(())
    }
}

fn delete(runs: &Arc<AtomicUsize>) -> Arc<dyn Tool> {
    let runs = runs.clone();
    let schema = json!({"type": "object", "properties": {"repo": {"type": "string"}}, "required": ["repo"]});
    let spec = ToolSpec::builder("github.delete")
        .parameters(schema)
        .build()
        .unwrap();
    Arc::new(DynamicTool::with_spec(spec, move |_, _| {
        runs.fetch_add(1, Ordering::SeqCst);
        async { Ok(json!("deleted")) }
    }))
}

/// The same call straight, and by way of the forwarder.
fn both_ways() -> [Value; 2] {
    let params = json!({"repo": "r"});
    [
        json!({"id": "d1", "tool": "github.delete", "params": params}),
        json!({"id": "d1", "tool": "forwarder.call", "params": {"tool": "github.delete", "arguments": params}}),
    ]
}

async fn agent(bench: &Bench, call: &Value, rules: &'static str, runs: &Arc<AtomicUsize>) -> Agent {
    let steps = json!({"steps": [{"tool_calls": [call]}, {"text": "done"}]});
    let builder = bench.builder(steps).policy(Rules(rules));
    let tools: Vec<Arc<dyn Tool>> = match call["tool"] == "forwarder.call" {
        true => vec![Arc::new(Forwarder::new(vec![delete(runs)]))],
        false => vec![delete(runs)],
    };
    builder.tools(tools).build().await.unwrap()
}

async fn ran(call: &Value, rules: &'static str) -> (Session, usize) {
    let (bench, runs) = (Bench::new(), Arc::default());
    let agent = agent(&bench, call, rules, &runs).await;
    let session = turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Go").await;
    (session, runs.load(Ordering::SeqCst))
}

#[tokio::test]
async fn a_deny_holds_by_both_ways() {
    let rules =
        "default = \"allow-all\"\n[[rule]]\nname = \"keep\"\ntool = \"github.delete\"\ndecide = \"deny\"\n";
    for call in both_ways() {
        let (session, runs) = ran(&call, rules).await;
        let results = texts(&session, "react.tool.result");
        assert!(results[0].contains("denied_by_policy"), "{}", shape(&session));
        assert_eq!(runs, 0, "{call}");
    }
}

#[tokio::test]
async fn an_allow_suffices_by_both_ways_where_all_else_is_denied() {
    let rules = "default = \"deny-unlisted\"\n[[rule]]\ntool = \"github.delete\"\ndecide = \"allow\"\n";
    for call in both_ways() {
        let (session, runs) = ran(&call, rules).await;
        assert_eq!(runs, 1, "{}", shape(&session));
    }
}

#[tokio::test]
async fn a_rule_about_the_tool_that_passes_on_holds_too() {
    let rules = "default = \"allow-all\"\n[[rule]]\ntool = \"forwarder.call\"\ndecide = \"deny\"\n";
    let (session, runs) = ran(&both_ways()[1], rules).await;
    assert_eq!(runs, 0, "{}", shape(&session));
}

#[tokio::test]
async fn a_person_is_asked_about_the_tool_that_runs_and_the_answer_holds_for_its_arguments() {
    let rules = "default = \"allow-all\"\n[[rule]]\nname = \"ask\"\ntool = \"github.*\"\ndecide = \"ask\"\n";
    let mut asked = Vec::new();
    for call in both_ways() {
        let (bench, runs) = (Bench::new(), Arc::default());
        let agent = agent(&bench, &call, rules, &runs).await;
        let handle = agent.conversation(&ConversationId::parse("c").unwrap());
        let session = agent.session("c").await.unwrap();
        let running = tokio::spawn({
            let agent = agent.clone();
            async move { agent.run(session, "Go").await.unwrap() }
        });
        let request = asked_about(&agent).await;
        assert_eq!(runs.load(Ordering::SeqCst), 0);
        let decision = ApprovalDecision {
            approval_id: request.approval_id.clone(),
            decision: Decision::Once,
            by: "ada".into(),
            via: "cli".into(),
            edited_args: None,
            note: None,
        };
        handle.decide(decision).await.unwrap();
        let turn = running.await.unwrap();
        assert_eq!(
            (turn.end(), runs.load(Ordering::SeqCst)),
            (TurnEnd::Complete, 1),
            "{call}"
        );
        asked.push((
            request.tool,
            request.facets,
            request.args_digest,
            request.proposed_rule,
        ));
    }
    assert_eq!(asked[0].0, "github.delete");
    assert_eq!(asked[0], asked[1]);
}

async fn asked_about(agent: &Agent) -> ApprovalRequest {
    for _ in 0..5_000 {
        if let Some(pending) = agent.pending_approvals().await.unwrap().pop() {
            return pending.request;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("nobody was asked");
}

#[tokio::test]
async fn a_check_of_the_rules_says_the_same_by_every_name() {
    let rules =
        "default = \"allow-all\"\n[[rule]]\nname = \"keep\"\ntool = \"github.delete\"\ndecide = \"deny\"\n";
    let bench = Bench::new();
    let [straight, forwarded] = both_ways();
    let agent = agent(&bench, &forwarded, rules, &Arc::default()).await;
    for (tool, params) in [
        ("forwarder.call", &forwarded["params"]),
        ("github.delete", &straight["params"]),
        ("github__delete", &straight["params"]),
    ] {
        let judged = agent.judge(tool, params).await.unwrap();
        assert_eq!(
            (judged.judgement.decide, judged.call.tool.as_str()),
            (Decide::Deny, "github.delete"),
            "{tool}"
        );
    }
}

/// Refuses a tool by its name.
struct Refuses;

#[async_trait::async_trait]
impl Hooks for Refuses {
    async fn before_call(&self, _: &HookCx, tool: &ToolSpec, args: &Value) -> Verdict {
        match tool.name().as_str() {
            "github.delete" => Verdict::Deny(format!("not {}", args["repo"])),
            _ => Verdict::Allow,
        }
    }
}

#[tokio::test]
async fn hooks_see_the_tool_that_runs() {
    let runs = Arc::default();
    let bench = Bench::new();
    let steps = json!({"steps": [{"tool_calls": [both_ways()[1]]}, {"text": "done"}]});
    let forwarder: Arc<dyn Tool> = Arc::new(Forwarder::new(vec![delete(&runs)]));
    let agent = bench
        .builder(steps)
        .tools([forwarder])
        .hooks(Refuses)
        .build()
        .await
        .unwrap();
    let session = agent.session("c").await.unwrap();
    let turn = agent.run(session, TurnRequest::new("Go")).await.unwrap();
    let results = texts(turn.session(), "react.tool.result");
    assert!(results[0].contains("not \\\"r\\\""), "{results:?}");
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

/// A model that cannot call tools writes its calls as text; everything else is the same.
#[test]
fn every_sequence_is_the_same_in_the_timeline_layout() {
    annals_requirements::again_in_the_timeline_layout(&[]);
}
