//! The program of the generated conversations: every tool there is, and tools that wait, ask and need permission.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use annals::content::Content;
use annals::core::block::payload::{ApprovalDecision, InputAction, InputResponse};
use annals::core::ids::{ConversationId, Seq};
use annals::core::redact::Secrets;
use annals::core::settings::{CacheSettings, Settings};
use annals::core::skill::Skill;
use annals::core::turn::TurnEnd;
use annals::mcp::{ServerSet, Servers};
use annals::model::{Script, ScriptModel};
use annals::runtime::{Ask, Attachment, HookCx, Hooks, Verdict};
use annals::store::BlockLogExt as _;
use annals::tools::web::egress::{EgressPolicy, Opened};
use annals::tools::web::fetch::Fetcher;
use annals::tools::web::search::{SearchProvider, Searxng};
use annals::tools::web::{WebFetch, WebSearch};
use annals::tools::{ClientTool, DynamicTool, Effect, InputAsk, Tool, ToolSpec};
use annals::{Agent, Runtime, Session, TurnRequest};
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};

use crate::acts::{Attending, Planned, PlannedTurn};
use crate::server::{Server, answer, target};

/// How long anything may take to happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two pages and a search over them.
pub(crate) async fn site() -> Server {
    Server::start(|head| match target(head).split('?').next() {
        Some("/search") if head.contains("pageno=1") => {
            let host = head.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
            let hit = |name: &str| json!({"url": format!("http://{host}/{name}"), "title": name, "content": format!("what {name} is")});
            let found = json!({"results": [hit("tides"), hit("moon")]});
            answer(200, "application/json", found.to_string().as_bytes())
        }
        Some("/search") => answer(200, "application/json", b"{\"results\": []}"),
        Some("/moon") => answer(200, "text/html", b"<title>The moon</title><p>It pulls <b>twice</b> a day.</p>"),
        Some("/wind") => answer(200, "text/plain", b"It blows from the west."),
        _ => answer(404, "text/plain", b""),
    })
    .await
}

/// A tool that waits until it is let go.
#[derive(Clone)]
pub(crate) struct Gate {
    begun: Arc<Notify>,
    go: Arc<Semaphore>,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Gate {
            begun: Arc::default(),
            go: Arc::new(Semaphore::new(0)),
        }
    }

    fn tool(&self) -> Arc<dyn Tool> {
        let gate = self.clone();
        let spec = ToolSpec::builder("wait").independent().build().unwrap();
        Arc::new(DynamicTool::with_spec(spec, move |_, _| {
            let gate = gate.clone();
            async move {
                gate.begun.notify_one();
                gate.go.acquire().await.unwrap().forget();
                Ok(json!("waited"))
            }
        }))
    }
}

/// A tool that answers every call with the same value.
fn says(name: &str, value: Value) -> Arc<dyn Tool> {
    let body = move |_, _| {
        let value = value.clone();
        async move { Ok(value) }
    };
    Arc::new(DynamicTool::new(name, "Says what it always says", json!({"type": "object"}), body).unwrap())
}

/// Asks about `send` before it may run.
struct AsksAboutSending;

#[annals::async_trait]
impl Hooks for AsksAboutSending {
    async fn before_call(&self, _: &HookCx, tool: &ToolSpec, _: &Value) -> Verdict {
        match tool.name().as_str() {
            "send" => Verdict::Ask(Ask {
                rule: Some("send".into()),
                ..Ask::default()
            }),
            _ => Verdict::Allow,
        }
    }
}

/// Every tool: the built-in ones, those that need settings, a host's own and a client's.
pub(crate) fn tools(site: &Server, gate: &Gate, content: &Content) -> Vec<Arc<dyn Tool>> {
    let provider: Arc<dyn SearchProvider> = Arc::new(Searxng::new(&site.url("/").parse().unwrap()).unwrap());
    let opened = Opened::parse(&site.address.to_string()).unwrap();
    let fetcher = Fetcher::new(EgressPolicy::new([opened]).unwrap(), content.clone());
    let send = ToolSpec::builder("send").effect(Effect::Once).build().unwrap();
    let book = ToolSpec::builder("book")
        .effect(Effect::Once)
        .independent()
        .build()
        .unwrap();
    let mut tools = annals::tools::builtin();
    tools.extend(annals::tools::rendering::all(content));
    tools.extend::<[Arc<dyn Tool>; 8]>([
        Arc::new(WebSearch::new(vec![provider])),
        Arc::new(WebFetch::new(fetcher)),
        gate.tool(),
        Arc::new(DynamicTool::with_spec(send, |_, _| async { Ok(json!("sent")) })),
        Arc::new(DynamicTool::with_spec(book, |cx, _| async move {
            Ok(cx.ask(InputAsk::new("Which seat?"))?.content.unwrap_or_default())
        })),
        Arc::new(ClientTool::new("get_time", "Of the client", json!({"type": "object"})).unwrap()),
        says("agrees", json!({"ok": true, "error": null, "ret": {"berth": 7}})),
        says(
            "refuses",
            json!({"ok": false, "error": {"code": "closed", "message": "no pilot"}, "ret": {}}),
        ),
    ]);
    tools
}

/// An MCP server whose answers have content of every kind.
pub(crate) fn mcp(home: &Path) -> ServerSet {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../annals-mcp/tests/servers/hostile.py");
    let script = script.canonicalize().unwrap();
    let entry = json!({"command": "python3", "args": [script, "call-every-kind"], "read": [script.parent()]});
    let list = json!({"mcpServers": {"srv": entry}}).to_string();
    ServerSet::new(&Servers::from_json(&list).unwrap(), home, &Secrets::new())
}

/// What the model says, turn by turn; compactions find their summaries.
pub(crate) fn script(planned: &[Planned]) -> Script {
    let steps = planned.iter().flat_map(|planned| match planned {
        Planned::Turn(turn) => turn.steps.clone(),
        Planned::PersonCalls { .. } | Planned::Contribution { .. } => Vec::new(),
    });
    let summaries = vec!["What was said of the harbour."; 50];
    let script = json!({"steps": steps.collect::<Vec<_>>(), "summaries": summaries});
    Script::parse(&script.to_string()).unwrap()
}

/// The agent with every tool.
pub(crate) async fn agent(home: &Path, script: Script, tools: Vec<Arc<dyn Tool>>, content: Content) -> Agent {
    let skill = Skill::parse(
        "---\nname: press\ndescription: How to press\n---\nPress gently [[S:1]].\n",
        Some("- sid: 1\n  url: https://press.example\n  title: Pressing\n"),
    );
    let skill = skill.unwrap();
    let settings = Settings {
        // Anything may be hidden.
        cache: CacheSettings {
            editable_tail_size_in_tokens: 10_000_000,
            cache_point_min_rounds: 1_000,
            cache_point_offset_rounds: 1_000,
        },
        ..Settings::default()
    };
    let servers = mcp(home);
    for accepted in servers.accept_new().await {
        accepted.unwrap();
    }
    Agent::builder()
        .model(ScriptModel::new("test", script))
        .tools(tools)
        .tool_source(Arc::new(servers))
        .skills(Arc::new(BTreeMap::from([(skill.name.clone(), skill)])))
        .settings(settings)
        .hooks(AsksAboutSending)
        .content(content)
        .sandbox(annals::tools::default_sandbox())
        .context_tokens(1_000_000)
        .home(home)
        .build()
        .await
        .unwrap()
}

/// An agent whose window is too small for what its tool says.
pub(crate) async fn forgetful(runtime: Runtime, planned: &[Planned]) -> Agent {
    Agent::builder()
        .model(ScriptModel::new("small", script(planned)))
        .tools([says(
            "agrees",
            json!("The harbour is full of ships and words. ".repeat(250)),
        )])
        .context_tokens(8_000)
        .runtime(runtime)
        .build()
        .await
        .unwrap()
}

/// Does everything that is planned, in a new conversation.
pub(crate) async fn perform(agent: &Agent, id: &ConversationId, gate: &Gate, planned: Vec<Planned>) {
    let mut session = agent.session(id.as_str()).await.unwrap();
    for planned in planned {
        session = match planned {
            Planned::Turn(turn) => run(agent, session, gate, *turn).await,
            Planned::PersonCalls { turn, tool, params } => {
                let params = params.as_object().unwrap().clone();
                let request = TurnRequest::call(tool, params).turn_id(turn);
                agent.run(session, request).await.unwrap().into_session()
            }
            Planned::Contribution { of_host, of_program } => {
                agent.contribute(&session, of_host, None).await.unwrap();
                agent.append(&session, of_program).await.unwrap();
                session
            }
        };
    }
    session.close().await.unwrap();
}

async fn run(agent: &Agent, session: Session, gate: &Gate, turn: PlannedTurn) -> Session {
    let id = session.id().clone();
    let mut request = TurnRequest::new(turn.prompt.clone()).turn_id(turn.id.clone());
    if let Some(instructions) = turn.instructions {
        request = request.instructions(instructions);
    }
    for (name, bytes) in turn.files {
        request = request.attach(Attachment::new(name, bytes));
    }
    let attending = attend(agent, &id, gate, turn.attending);
    let (ran, ()) = tokio::join!(agent.run(session, request), attending);
    let ran = ran.unwrap();
    assert!(
        matches!(ran.end(), TurnEnd::Complete | TurnEnd::Clarify),
        "{} ended as {:?}: {:?}\n{:?}",
        turn.id,
        ran.end(),
        ran.reason(),
        turn.steps
    );
    ran.into_session()
}

/// What a person or a client does while the turn runs.
async fn attend(agent: &Agent, id: &ConversationId, gate: &Gate, attending: Attending) {
    let handle = agent.conversation(id);
    match attending {
        Attending::Nobody => {}
        Attending::Steers => {
            tokio::time::timeout(PATIENCE, gate.begun.notified())
                .await
                .expect("the tool begins");
            handle.steer("in French, please").await.unwrap();
            gate.go.add_permits(1);
        }
        Attending::Decides(decision) => {
            let asked = until(async || handle.approvals().await.ok()?.pop()).await;
            let decision = ApprovalDecision {
                approval_id: asked.approval_id,
                decision,
                by: "ann".into(),
                via: "test".into(),
                edited_args: None,
                note: Some("as ever".into()),
            };
            handle.decide(decision).await.unwrap();
        }
        Attending::Responds => {
            let asked = until(async || handle.inputs().await.ok()?.pop()).await;
            let response = InputResponse {
                input_id: asked.input_id,
                action: InputAction::Accept,
                content: Some(json!("seven")),
                by: "ann".into(),
                via: "test".into(),
            };
            handle.respond(response).await.unwrap();
        }
    }
}

async fn until<T>(mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let comes = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, comes)
        .await
        .expect("somebody is asked")
}

/// A fork at this share of the history.
pub(crate) async fn fork(agent: &Agent, id: &ConversationId, share: f64) -> ConversationId {
    let tail = agent.log().tail(&agent.key(id)).await.unwrap().unwrap().get();
    let at = ((tail as f64 * share) as u64).clamp(1, tail);
    agent.fork(id, Some(Seq::try_new(at).unwrap())).await.unwrap()
}
