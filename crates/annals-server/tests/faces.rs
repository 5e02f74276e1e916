//! What starts a turn, by whichever face, meets the same limits and rules. The table in `docs/policy.md` says so for people.

mod common;

use std::sync::Arc;
use std::time::Duration;

use annals_core::ids::ConversationId;
use annals_runtime::{AgentBuilder, PolicyFiles};
use annals_server::{Limits, Options};
use annals_store::Role;
use common::mcp::Session;
use common::{Gate, Running, options};
use reqwest::Method;
use serde_json::json;

/// Clients have their titles made with words like these; see `is_side_request`.
const TITLE: &str = "You are a title generator. You output ONLY a thread title. Nothing else.";

const ALLOW: &str = "default = \"allow-all\"\n";
const ASK: &str = "[[rule]]\ntool = \"wait\"\ndecide = \"ask\"\nwhy = \"somebody should know\"\n";

/// What starts a turn of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Face {
    Http,
    Chat,
    Responses,
    /// A question of a client that keeps its history itself, such as one for a title.
    StandAlone,
    McpAsk,
    McpCall,
}

const FACES: [Face; 6] = [
    Face::Http,
    Face::Chat,
    Face::Responses,
    Face::StandAlone,
    Face::McpAsk,
    Face::McpCall,
];

struct Home {
    _folder: tempfile::TempDir,
    policy: Arc<dyn Fn(AgentBuilder) -> AgentBuilder + Send + Sync>,
}

fn rules(text: &str) -> Home {
    let folder = tempfile::tempdir().unwrap();
    let (owner, user) = (
        folder.path().join("policy.toml"),
        folder.path().join("config.toml"),
    );
    std::fs::write(&owner, text).unwrap();
    Home {
        _folder: folder,
        policy: Arc::new(move |builder| builder.policy(PolicyFiles::new(&owner, &user))),
    }
}

/// A server whose model calls a tool that waits, then answers.
async fn server(limits: Limits, gate: &Gate, home: &Home) -> Running {
    let options = Options {
        limits,
        mcp_tools: vec!["wait".to_owned()],
        ..options()
    };
    let steps = json!([{"tool_calls": [{"tool": "wait", "params": {}}]}, {"text": "Done."}]);
    Running::with(steps, options, |builder| (home.policy)(builder.tool(gate.tool()))).await
}

/// Asks by a face for a turn in this conversation, and gives the whole answer.
async fn asked(server: &Running, face: Face, conversation: &str) -> String {
    let answered = async {
        match face {
            Face::Http => {
                let path = format!("/v1/conversations/{conversation}/turns");
                let response = server.post(&path, &json!({"prompt": "Go"})).await;
                response.text().await.unwrap()
            }
            Face::Chat | Face::StandAlone => {
                let mut messages = vec![json!({"role": "user", "content": "Go"})];
                if face == Face::StandAlone {
                    messages.insert(0, json!({"role": "system", "content": TITLE}));
                }
                let body = json!({"model": "annals", "messages": messages});
                let request = server.request(Method::POST, "/v1/chat/completions").json(&body);
                let request = request.header("x-annals-conversation", conversation);
                request.send().await.unwrap().text().await.unwrap()
            }
            Face::Responses => {
                let body = json!({"model": "annals", "input": "Go", "conversation": conversation});
                server.post("/v1/responses", &body).await.text().await.unwrap()
            }
            Face::McpAsk | Face::McpCall => {
                let session = Session::begin(server, &server.token).await;
                let (tool, arguments) = match face {
                    Face::McpAsk => (
                        "annals_ask",
                        json!({"prompt": "Go", "conversation": conversation}),
                    ),
                    _ => ("wait", json!({"conversation": conversation})),
                };
                session.call(tool, arguments).await.to_string()
            }
        }
    };
    let answered = tokio::time::timeout(Duration::from_secs(120), answered).await;
    answered.unwrap_or_else(|_| panic!("{face:?} does not answer"))
}

async fn kinds(server: &Running, conversation: &str) -> Vec<String> {
    let id = ConversationId::parse(conversation).unwrap();
    let timeline = server.agent.timeline(&id).await.unwrap();
    let blocks = timeline.blocks().iter();
    blocks.map(|block| block.kind.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_face_counts_among_the_turns_of_its_scope() {
    let (gate, home) = (Gate::default(), rules(ALLOW));
    let limits = Limits {
        turns_per_scope: 1,
        ..Limits::default()
    };
    let server = server(limits, &gate, &home).await;
    let busy = server.new_conversation().await;
    let turn = server.prompt(&busy, "Go").await;
    gate.begun.notified().await;
    for face in FACES {
        let free = server.new_conversation().await;
        let refused = asked(&server, face, &free).await;
        assert!(refused.contains("turns of"), "{face:?}: {refused}");
        assert_eq!(kinds(&server, &free).await, [""; 0], "{face:?}");
    }
    gate.go.notify_one();
    server.ended(&busy, &turn).await;
    gate.go.notify_one();
    let free = server.new_conversation().await;
    let answer = asked(&server, Face::McpCall, &free).await;
    assert!(
        answer.contains("went on"),
        "one that has ended counts no more: {answer}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_face_that_names_a_conversation_meets_its_full_queue() {
    let (gate, home) = (Gate::default(), rules(ALLOW));
    let limits = Limits {
        queue_max: 1,
        ..Limits::default()
    };
    let server = server(limits, &gate, &home).await;
    let busy = server.new_conversation().await;
    server.prompt(&busy, "Go").await;
    gate.begun.notified().await;
    server.prompt(&busy, "Then this").await;
    for face in [Face::Http, Face::Responses, Face::McpAsk, Face::McpCall] {
        let refused = asked(&server, face, &busy).await;
        assert!(refused.contains("posts wait"), "{face:?}: {refused}");
    }
    gate.go.notify_one();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_face_gets_past_a_rule_that_asks() {
    for face in [
        Face::McpCall,
        Face::McpAsk,
        Face::Http,
        Face::Responses,
        Face::Chat,
    ] {
        let (gate, home) = (Gate::default(), rules(ASK));
        let server = server(Limits::default(), &gate, &home).await;
        let c = server.new_conversation().await;
        let answer = asked(&server, face, &c).await;
        if matches!(face, Face::Responses | Face::Chat) {
            // Nobody is there who could be asked, so the call is refused and the model goes on.
            assert!(answer.contains("Done."), "{face:?}: {answer}");
            assert!(!has_begun(&gate).await, "{face:?}");
            continue;
        }
        let waiting = until_asked(&server, &c).await;
        if face != Face::Http {
            assert!(
                answer.contains(&waiting) && answer.contains("somebody should know"),
                "{face:?}: {answer}"
            );
        }
        // Whoever may only use the server decides nothing.
        let user = server
            .token_of(&server.agent.scope().to_string(), &[Role::Use])
            .await;
        let path = format!("/v1/conversations/{c}/approvals/{waiting}");
        let decided = server.bare(Method::POST, &path).bearer_auth(&user);
        let refused = decided.json(&json!({"decision": "once"})).send().await.unwrap();
        assert_eq!(refused.status(), 403, "{face:?}");
        assert!(!has_begun(&gate).await, "{face:?}");
        server.post_json(&path, &json!({"decision": "once"})).await;
        gate.begun.notified().await;
        gate.go.notify_one();
    }
}

/// Whether the tool has begun: then it has left a permit.
async fn has_begun(gate: &Gate) -> bool {
    tokio::time::timeout(Duration::ZERO, gate.begun.notified())
        .await
        .is_ok()
}

/// The request that a conversation waits for.
async fn until_asked(server: &Running, conversation: &str) -> String {
    for _ in 0..6_000 {
        let waiting = server.get_json("/v1/approvals").await;
        let items = waiting["items"].as_array().unwrap();
        if let Some(found) = items.iter().find(|item| item["conversation"] == conversation) {
            return found["approval_id"].as_str().unwrap().to_owned();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("nothing waits in {conversation}");
}
