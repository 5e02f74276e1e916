//! What a server asks a person: on the timeline, answered by anybody who may, also after the process that asked is gone; and
//! rules of the owner's, which hold by every way to a tool.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use annals_core::block::BlockKind;
use annals_core::ids::{ConversationId, Scope};
use annals_core::redact::Secrets;
use annals_mcp::{Pins, RemoteServer, Servers, many, tool};
use annals_model::ScriptModel;
use annals_model::script::Script;
use annals_policy::{KnownTool, Layer, Policy};
use annals_requirements::{PackageSet, installed};
use annals_runtime::{
    Agent, InputAction, InputRequest, InputResponse, PolicyFault, PolicySource, Prompt, TurnTerms,
};
use serde_json::{Value, json};

use super::stage;

/// One process of the agent: a home, a server that is not started yet, a model.
struct Process {
    agent: Agent,
    id: ConversationId,
}

/// What a server offered when it was accepted.
async fn accepted(server: &RemoteServer) -> Pins {
    let (connection, offer) = server.offer().await.unwrap();
    Pins::new(connection.implementation(), offer.tools)
}

fn server(home: &Path, entry: &Value) -> Arc<RemoteServer> {
    let list = json!({"mcpServers": {"srv": entry}}).to_string();
    let servers = Servers::from_json(&list).unwrap();
    let config = servers.get("srv").unwrap().clone();
    Arc::new(RemoteServer::new(config, home.join("servers"), Secrets::new()))
}

impl Process {
    async fn start(home: &Path, server: &Arc<RemoteServer>, pins: &Pins, steps: Value) -> Self {
        let script = Script::parse(&json!({ "steps": steps }).to_string()).unwrap();
        let agent = Agent::builder()
            .model(ScriptModel::new("test", script))
            .tools(stage::tools(server, pins))
            .home(home)
            .build()
            .await
            .unwrap();
        let id = ConversationId::parse("c1").unwrap();
        if agent.timeline(&id).await.is_err() {
            agent.create_conversation(&id, None, None).await.unwrap();
        }
        Process { agent, id }
    }

    async fn prompt(&self, prompt: impl Into<Prompt>) {
        self.agent.conversation(&self.id).post(prompt).await.unwrap();
    }

    /// The question that the turn waits with.
    async fn question(&self) -> InputRequest {
        let asked = async {
            loop {
                if let Some(asked) = self.agent.conversation(&self.id).inputs().await.unwrap().pop() {
                    return asked;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), asked)
            .await
            .expect("the turn asks")
    }

    async fn answer(&self, asked: &InputRequest, action: InputAction, content: Option<Value>) {
        let response = InputResponse {
            input_id: asked.input_id.clone(),
            action,
            content,
            by: "ada".to_owned(),
            via: "test".to_owned(),
        };
        self.agent.conversation(&self.id).respond(response).await.unwrap();
    }

    /// The result of the last call, once the turn has ended.
    async fn result(&self) -> (Option<String>, String) {
        let ended = async {
            loop {
                let timeline = self.agent.timeline(&self.id).await.unwrap();
                let blocks = timeline.blocks();
                if blocks
                    .last()
                    .is_some_and(|block| block.kind == BlockKind::ReactCompletion)
                {
                    let result = blocks
                        .iter()
                        .rev()
                        .find(|block| block.kind == BlockKind::ToolResult)
                        .unwrap();
                    let code = result.meta().error.as_ref().map(|error| error.code.to_string());
                    let notices = blocks.iter().filter(|block| block.kind == BlockKind::Notice);
                    let texts = notices.chain([result]).filter_map(|block| block.text());
                    return (code, texts.collect::<Vec<_>>().join("\n"));
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), ended)
            .await
            .expect("the turn ends")
    }
}

fn acting(replay: &[&str]) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/hostile.py");
    let mut entry = stage::python(&script, &["call-acts-then-elicits"]);
    entry["replay"] = json!(replay);
    entry
}

fn works() -> Value {
    json!([{"tool_calls": [{"tool": "srv.work", "params": {}}]}, {"text": "Done."}])
}

fn effects(home: &Path) -> String {
    std::fs::read_to_string(home.join("servers/srv/effects")).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_parks_the_turn_and_the_call_goes_on_with_the_answer() {
    let home = tempfile::tempdir().unwrap();
    let server = server(home.path(), &acting(&[]));
    let pins = accepted(&server).await;
    let process = Process::start(home.path(), &server, &pins, works()).await;
    process.prompt("Book.").await;
    let asked = process.question().await;
    assert_eq!(asked.message, "[MCP server `srv`] Which seat?");
    assert_eq!(asked.schema.as_ref().unwrap()["required"], json!(["seat"]));
    assert_eq!(process.agent.pending_inputs().await.unwrap().len(), 1);
    let misfit = InputResponse {
        input_id: asked.input_id.clone(),
        action: InputAction::Accept,
        content: Some(json!({"seat": 7})),
        by: "ada".to_owned(),
        via: "test".to_owned(),
    };
    assert!(
        process
            .agent
            .conversation(&process.id)
            .respond(misfit)
            .await
            .is_err()
    );
    // While one call waits, its session is its own: others get one that answers.
    let (connection, _) = server.offer().await.unwrap();
    assert!(!connection.is_closed());
    process
        .answer(&asked, InputAction::Accept, Some(json!({"seat": "12A"})))
        .await;
    assert_eq!(process.result().await, (None, "booked 12A".to_owned()));
    assert_eq!(
        effects(home.path()),
        "begun\nbooked 12A\n",
        "the call was made once"
    );
    assert!(process.agent.pending_inputs().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_reaches_the_server() {
    let home = tempfile::tempdir().unwrap();
    let server = server(home.path(), &acting(&[]));
    let pins = accepted(&server).await;
    let process = Process::start(home.path(), &server, &pins, works()).await;
    process.prompt("Book.").await;
    let asked = process.question().await;
    process.answer(&asked, InputAction::Decline, None).await;
    assert_eq!(process.result().await, (None, "not booked: decline".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_is_cancelled_while_it_waits_ends_the_servers_call() {
    let home = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/hostile.py");
    let server = server(home.path(), &stage::python(&script, &["call-elicits-and-waits"]));
    let pins = accepted(&server).await;
    let process = Process::start(home.path(), &server, &pins, works()).await;
    process.prompt("Book.").await;
    process.question().await;
    assert_eq!(effects(home.path()), "begun\n");
    process.agent.conversation(&process.id).cancel().await.unwrap();
    stage::until(&home.path().join("servers/srv/effects"), "cancelled").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_lost_while_it_waited_is_made_again_only_if_a_person_said_so() {
    for (replay, code, effect) in [
        (&[][..], Some("interrupted"), "begun\n"),
        (&["work"][..], None, "begun\nbegun\nbooked 12A\n"),
    ] {
        let home = tempfile::tempdir().unwrap();
        let entry = acting(replay);
        let first = server(home.path(), &entry);
        let pins = accepted(&first).await;
        let asked = {
            let process = Process::start(home.path(), &first, &pins, works()).await;
            process.prompt("Book.").await;
            process.question().await
        };
        drop(first);
        // A later process: nothing of the call is left but the timeline.
        let later = server(home.path(), &entry);
        let process = Process::start(home.path(), &later, &pins, json!([{"text": "Done."}])).await;
        process
            .answer(&asked, InputAction::Accept, Some(json!({"seat": "12A"})))
            .await;
        let (failed, read) = process.result().await;
        assert_eq!(failed.as_deref(), code, "{read}");
        assert_eq!(effects(home.path()), effect, "{read}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_asks_in_rounds_is_called_again_by_any_process() {
    let Some(set) = installed("mcp-python") else {
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/booking.py");
    let entry = json!({
        "command": set.program("python3"), "args": [script],
        "read": [set.folder(), script.parent().unwrap().canonicalize().unwrap()],
    });
    let steps =
        json!([{"tool_calls": [{"tool": "srv.book", "params": {"flight": "LH 1"}}]}, {"text": "Done."}]);
    for is_same_process in [true, false] {
        let home = tempfile::tempdir().unwrap();
        let first = server(home.path(), &entry);
        let pins = accepted(&first).await;
        assert_eq!(first.connection().await.unwrap().protocol(), "2026-07-28");
        let mut process = Process::start(home.path(), &first, &pins, steps.clone()).await;
        process.prompt("Book.").await;
        let asked = process.question().await;
        assert_eq!(asked.message, "[MCP server `srv`] Which seat in LH 1?");
        if !is_same_process {
            drop(process);
            let later = server(home.path(), &entry);
            process = Process::start(home.path(), &later, &pins, json!([{"text": "Done."}])).await;
        }
        process
            .answer(&asked, InputAction::Accept, Some(json!({"seat": "12A"})))
            .await;
        let (code, read) = process.result().await;
        assert!(
            code.is_none() && read.contains("booked 12A in LH 1"),
            "{code:?} {read}"
        );
        assert_eq!(effects(home.path()), "booked 12A\n");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_nobody_can_be_asked_the_server_is_told_so_and_the_model_too() {
    let home = tempfile::tempdir().unwrap();
    let server = server(home.path(), &acting(&[]));
    let pins = accepted(&server).await;
    let process = Process::start(home.path(), &server, &pins, works()).await;
    let terms = TurnTerms {
        unattended: true,
        ..TurnTerms::default()
    };
    process
        .prompt(Prompt {
            terms,
            ..Prompt::from("Book.")
        })
        .await;
    let (code, read) = process.result().await;
    assert!(
        code.is_none() && read.contains("not booked: decline"),
        "{code:?} {read}"
    );
    assert!(
        read.contains("nobody can be asked in this run, so it was declined: [MCP server `srv`] Which seat?"),
        "{read}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_everything_server_gets_a_form_with_what_was_left_out() {
    let Some(set) = installed("mcp-node") else { return };
    let script = set
        .folder()
        .join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let entry = json!({
        "command": set.program("node"), "args": [script, "stdio"],
        "read": [set.folder(), PackageSet::node().folder()],
    });
    let home = tempfile::tempdir().unwrap();
    let server = server(home.path(), &entry);
    let pins = accepted(&server).await;
    let steps = json!([
        {"tool_calls": [{"tool": "srv.trigger_elicitation_request", "params": {}}]}, {"text": "Done."},
    ]);
    let process = Process::start(home.path(), &server, &pins, steps).await;
    process.prompt("Ask.").await;
    let asked = process.question().await;
    let given = json!({"name": "Ada Lovelace", "check": true});
    process.answer(&asked, InputAction::Accept, Some(given)).await;
    let (code, read) = process.result().await;
    assert!(code.is_none(), "{code:?} {read}");
    assert!(
        read.contains("Ada Lovelace") && read.contains("It was a dark and stormy night."),
        "{read}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_a_server_refused_until_a_page_is_opened_is_made_again_once_it_was() {
    for (action, code, says) in [
        (InputAction::Accept, None, "opened"),
        (InputAction::Decline, Some("mcp_error"), "not yet"),
    ] {
        let home = tempfile::tempdir().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/hostile.py");
        let server = server(
            home.path(),
            &stage::python(&script, &["call-wants-a-page-opened"]),
        );
        let pins = accepted(&server).await;
        let process = Process::start(home.path(), &server, &pins, works()).await;
        process.prompt("Work.").await;
        let asked = process.question().await;
        assert_eq!(asked.url.as_deref(), Some("https://login.example/x"));
        assert!(asked.message.contains("login.example"), "{}", asked.message);
        process.answer(&asked, action, None).await;
        let (found, read) = process.result().await;
        assert!(
            found.as_deref() == code && read.contains(says),
            "{found:?} {read}"
        );
    }
}

/// The owner's rules.
pub(crate) struct Rules(pub(crate) &'static str);

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_that_denies_a_tool_holds_behind_the_tool_that_calls_others() {
    let Some(set) = installed("mcp-node") else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "readable words").unwrap();
    let path = folder.path().to_str().unwrap();
    let script = set
        .folder()
        .join("node_modules/@modelcontextprotocol/server-filesystem/dist/index.js");
    let entry = json!({
        "command": set.program("node"), "args": [script, path],
        "read": [set.folder(), PackageSet::node().folder()], "write": [path],
    });
    let home = tempfile::tempdir().unwrap();
    let server = server(home.path(), &entry);
    let pins = accepted(&server).await;
    let (tools, _) = tool::tools(&server, &pins);
    let offered = many::offered(tools, 0).unwrap();
    let names: Vec<&str> = offered.iter().map(|tool| tool.spec().name().as_str()).collect();
    assert_eq!(names, ["mcp.search_tools", "mcp.call"]);
    let call = |id: &str, tool: &str, arguments: Value| json!({"id": id, "tool": "mcp.call", "params": {"tool": tool, "arguments": arguments}});
    let written = json!({"path": format!("{path}/b.txt"), "content": "denied words"});
    let steps = json!([
        {"tool_calls": [
            call("tc_1", "srv.write_file", written.clone()),
            call("tc_2", "srv__write_file", written),
            call("tc_3", "srv.read_text_file", json!({"path": format!("{path}/a.txt")})),
        ]},
        {"text": "Done."},
    ]);
    let script = Script::parse(&json!({ "steps": steps }).to_string()).unwrap();
    let rules = "default = \"allow-all\"\n[[rule]]\ntool = \"srv.write_file\"\ndecide = \"deny\"\nwhy = \"files are not changed\"\n";
    let agent = Agent::builder()
        .model(ScriptModel::new("test", script))
        .tools(offered)
        .policy(Rules(rules))
        .home(home.path())
        .build()
        .await
        .unwrap();
    let session = agent.session("c1").await.unwrap();
    let turn = tokio::time::timeout(Duration::from_secs(60), agent.run(session, "Write."));
    let turn = turn.await.expect("nobody is asked").unwrap();
    let results: Vec<(Option<String>, String)> = turn.session().timeline(|timeline| {
        let results = timeline
            .blocks()
            .iter()
            .filter(|block| block.kind == BlockKind::ToolResult);
        results
            .map(|block| {
                let code = block.meta().error.as_ref().map(|error| error.code.to_string());
                (code, block.text().unwrap_or_default().to_owned())
            })
            .collect()
    });
    assert_eq!(results.len(), 3, "{results:?}");
    assert_eq!(results[0].0.as_deref(), Some("denied_by_policy"), "{results:?}");
    assert!(results[0].1.contains("files are not changed"), "{results:?}");
    assert!(results[1].0.is_some(), "{results:?}");
    assert!(
        results[2].0.is_none() && results[2].1.contains("readable words"),
        "{results:?}"
    );
    assert!(
        !folder.path().join("b.txt").exists(),
        "the server was never asked"
    );
}
