//! Annals as a server, asked by a client in the same process: what takes long, what waits, what each tool says of itself.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use annals_core::ids::ConversationId;
use annals_mcp::serve::AnnalsServer;
use annals_model::ScriptModel;
use annals_model::script::Script;
use annals_runtime::{Agent, Ask, HookCx, Hooks, Verdict};
use annals_tools::{DynamicTool, Effect, Reach, Tool, ToolSpec};
use rmcp::model::{CallToolRequestParams, CallToolResult};
use rmcp::service::RunningService;
use rmcp::{RoleClient, ServiceExt as _};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// A tool that waits until it is told to go on.
#[derive(Clone, Default)]
struct Gate {
    begun: Arc<Notify>,
    go: Arc<Notify>,
}

impl Gate {
    fn tool(&self) -> Arc<dyn Tool> {
        let gate = self.clone();
        let spec = ToolSpec::builder("tests.wait")
            .parameters(json!({"type": "object", "properties": {}}))
            .effect(Effect::Replayable);
        Arc::new(DynamicTool::with_spec(spec.build().unwrap(), move |_, _| {
            let gate = gate.clone();
            async move {
                gate.begun.notify_one();
                gate.go.notified().await;
                Ok(json!("went on"))
            }
        }))
    }
}

fn tool(name: &str, effect: Effect, reach: &[Reach]) -> Arc<dyn Tool> {
    let spec = ToolSpec::builder(name)
        .parameters(json!({"type": "object", "properties": {}}))
        .effect(effect)
        .reaches(reach.iter().copied());
    Arc::new(DynamicTool::with_spec(spec.build().unwrap(), |_, _| async {
        Ok(json!("done"))
    }))
}

struct Asks;

#[async_trait::async_trait]
impl Hooks for Asks {
    async fn before_call(&self, _: &HookCx, _: &ToolSpec, _: &Value) -> Verdict {
        Verdict::Ask(Ask::default())
    }
}

struct NoQuestions;

#[async_trait::async_trait]
impl Hooks for NoQuestions {}

async fn agent(home: &Path, steps: Value, tools: Vec<Arc<dyn Tool>>, hooks: impl Hooks + 'static) -> Agent {
    let script = Script::parse(&json!({ "steps": steps }).to_string()).unwrap();
    Agent::builder()
        .model(ScriptModel::new("test", script))
        .tools(annals_tools::react::all())
        .tools(tools)
        .hooks(hooks)
        .home(home)
        .build()
        .await
        .unwrap()
}

type Client = RunningService<RoleClient, ()>;

/// A client of this server.
async fn client(server: AnnalsServer) -> Client {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    tokio::spawn(async move {
        if let Ok(running) = server.serve(ours).await {
            let _ = running.waiting().await;
        }
    });
    ().serve(theirs).await.unwrap()
}

async fn call(client: &Client, name: &'static str, arguments: Value) -> CallToolResult {
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    let request = CallToolRequestParams::new(name).with_arguments(arguments);
    client.call_tool(request).await.unwrap()
}

fn told(result: &CallToolResult) -> Value {
    result.structured_content.clone().unwrap()
}

fn handle_of(told: &Value) -> Value {
    json!({"conversation": told["conversation"], "turn": told["turn"]})
}

#[tokio::test(flavor = "multi_thread")]
async fn what_takes_longer_than_a_client_waits_comes_back_as_a_handle() {
    let home = tempfile::tempdir().unwrap();
    let gate = Gate::default();
    let steps = json!([{"tool_calls": [{"tool": "tests.wait", "params": {}}]}, {"text": "Done."}]);
    let agent = agent(home.path(), steps, vec![gate.tool()], NoQuestions).await;
    let server = AnnalsServer::new(agent).answer_wait(Duration::from_millis(50));
    let client = client(server.allow(&["tests.wait".to_owned()]).unwrap()).await;
    for (name, arguments, field, value) in [
        ("annals_ask", json!({"prompt": "Go"}), "answer", "Done."),
        ("tests__wait", json!({}), "result", "went on"),
    ] {
        let first = told(&call(&client, name, arguments).await);
        assert_eq!(first["state"], "running", "{name}: {first}");
        gate.begun.notified().await;
        let again = told(&call(&client, "annals_wait", handle_of(&first)).await);
        assert_eq!(again["state"], "running", "{name}: {again}");
        gate.go.notify_one();
        let ended = loop {
            let waited = told(&call(&client, "annals_wait", handle_of(&first)).await);
            if waited["state"] != "running" {
                break waited;
            }
        };
        assert_eq!(ended["state"], "ended", "{name}: {ended}");
        assert!(ended[field].as_str().unwrap().contains(value), "{name}: {ended}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_person_hears_after_a_while_that_nobody_has_decided() {
    let home = tempfile::tempdir().unwrap();
    let tools = vec![tool("tests.send", Effect::Once, &[Reach::External])];
    let agent = agent(home.path(), json!([]), tools, Asks).await;
    let server = AnnalsServer::new(agent.clone()).answer_wait(Duration::from_millis(200));
    let client = client(server.allow(&["tests.send".to_owned()]).unwrap()).await;
    let mut first = told(&call(&client, "tests__send", json!({})).await);
    while first["state"] == "running" {
        // It has not come to its question yet.
        first = told(&call(&client, "annals_wait", handle_of(&first)).await);
    }
    let still = told(&call(&client, "annals_wait", handle_of(&first)).await);
    assert_eq!(still["state"], "waiting", "{still}");
    assert_eq!(still["waiting_for"], first["waiting_for"]);
    // The person leaves, and with the turn what waited for it.
    let id = ConversationId::parse(first["conversation"].as_str().unwrap()).unwrap();
    agent.conversation(&id).cancel().await.unwrap();
    let ended = loop {
        let waited = told(&call(&client, "annals_wait", handle_of(&first)).await);
        if waited["state"] == "ended" {
            break waited;
        }
    };
    assert_eq!(ended["outcome"], "cancelled", "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_tool_says_what_it_gives_and_whom_it_meets() {
    let home = tempfile::tempdir().unwrap();
    let tools = vec![
        tool("tests.look_up", Effect::None, &[Reach::Network]),
        tool("tests.note", Effect::Once, &[Reach::Write]),
        tool("tests.buy", Effect::Once, &[Reach::Spend]),
    ];
    let agent = agent(home.path(), json!([]), tools, NoQuestions).await;
    let allowed = ["tests.look_up", "tests.note", "tests.buy"].map(str::to_owned);
    let client = client(AnnalsServer::new(agent).allow(&allowed).unwrap()).await;
    let listed = client.list_all_tools().await.unwrap();
    assert_eq!(listed.len(), 8);
    for tool in &listed {
        let schema = tool.output_schema.as_ref();
        assert!(
            schema.is_some_and(|schema| schema["type"] == "object"),
            "{}",
            tool.name
        );
    }
    let hints = |name: &str| {
        let tool = listed.iter().find(|tool| tool.name == name).unwrap();
        let hints = tool.annotations.clone().unwrap();
        (hints.read_only_hint.unwrap(), hints.open_world_hint.unwrap())
    };
    assert_eq!(hints("tests__look_up"), (true, true));
    assert_eq!(hints("tests__note"), (false, false));
    assert_eq!(hints("tests__buy"), (false, true));
    assert_eq!(hints("annals_read"), (true, false));
    assert_eq!(hints("annals_ask"), (false, true));
}
