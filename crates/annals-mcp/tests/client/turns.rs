//! Whole turns with a server's tools: what the model is sent while the server dies, changes and comes back, what takes effect
//! when a person accepts it, and what is heard of a call while it runs.

use std::path::Path;
use std::sync::{Arc, Mutex};

use annals_core::block::BlockKind;
use annals_core::redact::Secrets;
use annals_core::view::ToolSchema;
use annals_mcp::{ServerSet, Servers};
use annals_model::script::Script;
use annals_model::{EventStream, Model, ModelError, Request, ScriptModel, Window};
use annals_runtime::{Agent, TurnRequest, Update};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::stage;

/// A script that remembers what it was sent.
pub(crate) struct Recorded {
    pub(crate) script: ScriptModel,
    pub(crate) sent: Arc<Mutex<Vec<Request>>>,
}

#[async_trait::async_trait]
impl Model for Recorded {
    fn name(&self) -> &str {
        self.script.name()
    }

    fn window(&self) -> Window {
        self.script.window()
    }

    async fn stream(&self, request: Request, cancel: &CancellationToken) -> Result<EventStream, ModelError> {
        self.sent.lock().unwrap().push(request.clone());
        self.script.stream(request, cancel).await
    }
}

pub(crate) fn set(home: &Path, mechanism: &str) -> ServerSet {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/hostile.py");
    let list = json!({"mcpServers": {"srv": stage::python(&script, &[mechanism])}}).to_string();
    ServerSet::new(&Servers::from_json(&list).unwrap(), home, &Secrets::new())
}

/// A running agent with the tools of one server.
struct Running {
    agent: Agent,
    sent: Arc<Mutex<Vec<Request>>>,
}

impl Running {
    /// `turns` turns, each of which calls the tool once.
    async fn start(home: &Path, set: ServerSet, turns: usize) -> Self {
        let steps = json!([{"tool_calls": [{"tool": "srv.work", "params": {}}]}, {"text": "Done."}]);
        let steps: Vec<Value> = (0..turns)
            .flat_map(|_| steps.as_array().unwrap().clone())
            .collect();
        let script = Script::parse(&json!({ "steps": steps }).to_string()).unwrap();
        let sent = Arc::default();
        let model = Recorded {
            script: ScriptModel::new("test", script),
            sent: Arc::clone(&sent),
        };
        let agent = Agent::builder()
            .model(model)
            .tool_source(Arc::new(set))
            .home(home)
            .build()
            .await
            .unwrap();
        Running { agent, sent }
    }

    /// The code and the text of the call's result.
    async fn turn(&self) -> (Option<String>, String) {
        let session = self.agent.session("c1").await.unwrap();
        let turn = self.agent.run(session, "Work.").await.unwrap();
        turn.session().timeline(|timeline| {
            let blocks = timeline.blocks();
            let result = blocks
                .iter()
                .rev()
                .find(|block| block.kind == BlockKind::ToolResult);
            let result = result.unwrap();
            let code = result.meta().error.as_ref().map(|error| error.code.to_string());
            (code, result.text().unwrap_or_default().to_owned())
        })
    }

    /// What every request begins with.
    fn prefixes(&self) -> Vec<String> {
        let tools = |tools: &[ToolSchema]| serde_json::to_string(tools).unwrap();
        let sent = self.sent.lock().unwrap();
        let prefix =
            |request: &Request| format!("{}\n{}", request.prompt.system, tools(&request.prompt.tools));
        sent.iter().map(prefix).collect()
    }
}

/// The messages of a request, wherever its cache points are.
fn said(request: &Request) -> Vec<String> {
    let messages = request.prompt.messages.iter();
    let without_points = |text: String| {
        ["PrevTurn", "PreTail", "Tail"].iter().fold(text, |text, point| {
            text.replace(&format!("Some({point})"), "None")
        })
    };
    messages
        .map(|message| without_points(format!("{message:?}")))
        .collect()
}

fn order(home: &Path, what: &str) {
    std::fs::write(home.join("mcp/servers/srv/order"), what).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_model_is_sent_the_same_bytes_until_a_person_accepts_others() {
    let home = tempfile::tempdir().unwrap();
    let servers = set(home.path(), "follows-orders");
    assert!(servers.accept_new().await.iter().all(Result::is_ok));
    let running = Running::start(home.path(), servers, 6).await;
    let code = |(code, _): (Option<String>, String)| code;
    assert_eq!(running.turn().await, (None, "done".to_owned()));
    order(home.path(), "die");
    assert_eq!(code(running.turn().await).as_deref(), Some("mcp_server_died"));
    order(home.path(), "");
    assert_eq!(running.turn().await, (None, "done".to_owned()), "it came back");
    order(home.path(), "die");
    assert_eq!(code(running.turn().await).as_deref(), Some("mcp_server_died"));
    order(home.path(), "change");
    assert_eq!(code(running.turn().await).as_deref(), Some("tool_changed"));
    let prefixes = running.prefixes();
    assert_eq!(prefixes.len(), 10);
    assert!(prefixes.iter().all(|prefix| *prefix == prefixes[0]));
    for pair in running.sent.lock().unwrap().windows(2) {
        let (before, after) = (said(&pair[0]), said(&pair[1]));
        // The last message of each is the uncached tail.
        let common = before.len() - 1;
        assert_eq!(before[..common], after[..common]);
    }
    // A person accepts it in another process; the running one offers it from its next turn on.
    let elsewhere = set(home.path(), "follows-orders");
    elsewhere.accept(&elsewhere.servers()[0]).await.unwrap();
    assert_eq!(running.turn().await, (None, "done".to_owned()));
    let prefixes = running.prefixes();
    assert!(!prefixes[9].contains("Works otherwise.") && prefixes[10].contains("Works otherwise."));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_was_not_accepted_is_told_of_and_not_offered() {
    let home = tempfile::tempdir().unwrap();
    let servers = set(home.path(), "changed-added");
    assert!(servers.accept_new().await.iter().all(Result::is_ok));
    // A later process of the agent.
    let running = Running::start(home.path(), set(home.path(), "changed-added"), 2).await;
    assert_eq!(running.turn().await, (None, "done".to_owned()));
    assert_eq!(running.turn().await, (None, "done".to_owned()));
    let session = running.agent.session("c1").await.unwrap();
    let told: Vec<String> = session.timeline(|timeline| {
        let notices = timeline
            .blocks()
            .iter()
            .filter(|block| block.kind == BlockKind::Notice);
        notices
            .filter_map(|block| block.text().map(str::to_owned))
            .collect()
    });
    let of_more = told.iter().filter(|notice| notice.contains("1 new (more)"));
    assert_eq!(of_more.count(), 1, "once for a session with the server: {told:?}");
    assert!(!running.prefixes()[3].contains("srv.more"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn how_far_a_call_has_come_is_heard_while_it_runs() {
    let home = tempfile::tempdir().unwrap();
    let servers = set(home.path(), "call-progresses");
    assert!(servers.accept_new().await.iter().all(Result::is_ok));
    let running = Running::start(home.path(), servers, 1).await;
    let session = running.agent.session("c1").await.unwrap();
    let heard: Arc<Mutex<Vec<Update>>> = Arc::default();
    let (listener, order_given) = (Arc::clone(&heard), home.path().to_owned());
    let request = TurnRequest::new("Work.").listen(move |update: Update| {
        if let Update::ToolProgress { .. } = &update {
            // The server goes on when somebody has heard of it.
            order(&order_given, "heard");
            listener.lock().unwrap().push(update);
        }
    });
    running.agent.run(session, request).await.unwrap();
    let heard = heard.lock().unwrap();
    let Some(Update::ToolProgress {
        conversation,
        turn,
        step,
        call,
        progress,
        total,
        message,
        ..
    }) = heard.first()
    else {
        panic!("nothing was heard");
    };
    assert_eq!((conversation.as_str(), *step), ("c1", 1));
    assert!(turn.as_str().starts_with("turn_"), "{turn:?}");
    assert!(call.as_str().starts_with("tc_"), "{call:?}");
    assert_eq!(
        (*progress, *total, message.as_deref()),
        (1.0, Some(4.0), Some("reads[2J"))
    );
}
