//! Webhooks against a real receiver: signed, in order, sent again until they arrive, also by the server that comes after, and
//! to no address that the egress policy refuses.

mod common;

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use annals_runtime::{Agent, Ask, HookCx, Hooks, Verdict};
use annals_server::{Options, Webhook, WebhookEvent};
use annals_tools::ToolSpec;
use annals_tools::web::egress::Opened;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use common::mcp::Session;
use common::{Gate, Running, options, script};
use serde_json::{Value, json};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw7fKq2pXmY1U=";

/// One request as it came.
#[derive(Clone, Debug)]
struct Received {
    id: String,
    timestamp: String,
    signature: String,
    body: String,
}

impl Received {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// Somebody who takes webhooks, or refuses them for a while.
#[derive(Clone, Default)]
struct Receiver {
    received: Arc<Mutex<Vec<Received>>>,
    refuses: Arc<AtomicBool>,
}

async fn take(State(receiver): State<Receiver>, headers: HeaderMap, body: String) -> StatusCode {
    let header = |name: &str| headers[name].to_str().unwrap().to_owned();
    receiver.received.lock().unwrap().push(Received {
        id: header("webhook-id"),
        timestamp: header("webhook-timestamp"),
        signature: header("webhook-signature"),
        body,
    });
    match receiver.refuses.load(Ordering::SeqCst) {
        true => StatusCode::SERVICE_UNAVAILABLE,
        false => StatusCode::NO_CONTENT,
    }
}

impl Receiver {
    /// Listens, and gives its address.
    async fn listen(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/hook", post(take)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        address.to_string()
    }

    /// Waits until `count` requests have come.
    async fn until(&self, count: usize) -> Vec<Received> {
        for _ in 0..6_000 {
            let received = self.received.lock().unwrap().clone();
            if received.len() >= count {
                return received;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("only {:?} came", self.received.lock().unwrap());
    }
}

fn webhook(address: &str) -> Webhook {
    let webhook = Webhook::new(format!("http://{address}/hook"), SECRET).unwrap();
    webhook.retry(Duration::from_millis(20), Duration::from_millis(100))
}

fn told(address: &str) -> Options {
    Options {
        webhooks: vec![webhook(address)],
        opened: vec![Opened::parse(address).unwrap()],
        ..options()
    }
}

struct Asks;

#[async_trait::async_trait]
impl Hooks for Asks {
    async fn before_call(&self, _: &HookCx, tool: &ToolSpec, _: &Value) -> Verdict {
        match tool.name().as_str() {
            "wait" => Verdict::Ask(Ask::default()),
            _ => Verdict::Allow,
        }
    }
}

fn events(received: &[Received]) -> Vec<String> {
    let kinds = received.iter().map(|received| received.json());
    kinds
        .map(|body| body["type"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_and_a_turn_that_ends_are_told_signed_and_in_order() {
    let receiver = Receiver::default();
    let address = receiver.listen().await;
    let gate = Gate::default();
    gate.go.notify_one();
    let steps =
        json!([{"tool_calls": [{"tool": "wait", "params": {}}]}, {"text": "Done"}, {"text": "Again"}]);
    let server = Running::with(steps, told(&address), |builder| {
        builder.tool(gate.tool()).hooks(Asks)
    })
    .await;
    let c = server.new_conversation().await;
    let turn = server.prompt(&c, "Go").await;
    let received = receiver.until(1).await;
    let asked = received[0].json();
    assert_eq!(asked["type"], "approval.requested");
    assert_eq!(
        (&asked["data"]["conversation"], &asked["data"]["turn_id"]),
        (&json!(c), &json!(turn))
    );
    assert_eq!(asked["data"]["tool"], "wait");
    let path = format!(
        "/v1/conversations/{c}/approvals/{}",
        asked["data"]["approval_id"].as_str().unwrap()
    );
    server.post_json(&path, &json!({"decision": "once"})).await;
    let next = server.prompt(&c, "Go on").await;
    let received = receiver.until(3).await;
    assert_eq!(
        events(&received),
        ["approval.requested", "turn.ended", "turn.ended"]
    );
    let turns: Vec<Value> = received
        .iter()
        .map(|received| received.json()["data"]["turn_id"].clone())
        .collect();
    assert_eq!(turns, [json!(turn), json!(turn), json!(next)]);
    assert_eq!(received[1].json()["data"]["outcome"], "complete");
    assert!(
        !received.iter().any(|received| received.body.contains("Done")),
        "it tells where to look, no content"
    );
    verified(&received, true);
    let mut forged = received[0].clone();
    forged.body = forged.body.replace("wait", "pass");
    verified(&[forged], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_an_mcp_client_is_told_like_every_turn() {
    let receiver = Receiver::default();
    let address = receiver.listen().await;
    let gate = Gate::default();
    gate.go.notify_one();
    let options = Options {
        mcp_tools: vec!["wait".to_owned()],
        ..told(&address)
    };
    let server = Running::with(json!([]), options, |builder| builder.tool(gate.tool())).await;
    let session = Session::begin(&server, &server.token).await;
    let called = session.call("wait", json!({})).await;
    let received = receiver.until(1).await;
    assert_eq!(events(&received), ["turn.ended"]);
    assert_eq!(
        received[0].json()["data"]["turn_id"],
        called["structuredContent"]["turn"]
    );
}

/// Has the published library for receivers check signatures.
fn verified(received: &[Received], expected: bool) {
    let Some(library) = annals_requirements::installed("standardwebhooks") else {
        return;
    };
    let rows: Vec<Value> = received
        .iter()
        .map(|row| json!({"headers": {"webhook-id": row.id, "webhook-timestamp": row.timestamp, "webhook-signature": row.signature}, "body": row.body}))
        .collect();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/webhook_receiver.py");
    let mut command = library.script(&script);
    let ended = command.arg(SECRET).arg(json!(rows).to_string()).output().unwrap();
    assert_eq!(
        ended.status.success(),
        expected,
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_refused_arrives_later_also_from_the_server_that_comes_after() {
    let receiver = Receiver::default();
    receiver.refuses.store(true, Ordering::SeqCst);
    let address = receiver.listen().await;
    let home = tempfile::tempdir().unwrap();
    let agent = async |steps: Value| {
        let builder = Agent::builder().model(script(steps)).home(home.path());
        builder.build().await.unwrap()
    };
    let steps = json!([{"text": "One"}, {"text": "Two"}]);
    let mut first = Running::serve(agent(steps).await, told(&address), None).await;
    let c = first.new_conversation().await;
    let turns = [first.prompt(&c, "1").await, first.prompt(&c, "2").await];
    for turn in &turns {
        first.ended(&c, turn).await;
    }
    receiver.until(3).await;
    first.stop.cancel();
    first.served.take().unwrap().await.unwrap();
    drop(first);

    let before = receiver.received.lock().unwrap().clone();
    let ids: HashSet<&str> = before.iter().map(|received| received.id.as_str()).collect();
    assert_eq!(ids.len(), 1, "nothing overtakes what has not arrived");
    let second = Running::serve(agent(json!([])).await, told(&address), None).await;
    receiver.until(before.len() + 1).await;
    receiver.refuses.store(false, Ordering::SeqCst);
    let ended = |turn: &str| {
        let received = receiver.received.lock().unwrap();
        received
            .iter()
            .rposition(|received| received.json()["data"]["turn_id"] == turn)
    };
    for _ in 0..6_000 {
        if ended(&turns[1]).is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (one, two) = (ended(&turns[0]), ended(&turns[1]));
    assert!(one.is_some() && one < two, "{one:?} {two:?}");
    let received = receiver.received.lock().unwrap();
    assert_eq!(
        received[one.unwrap()].id,
        before[0].id,
        "sent again, it is the same event"
    );
    drop(second);
}

#[tokio::test(flavor = "multi_thread")]
async fn conversations_that_wait_for_a_person_keep_nobody_else_from_being_told() {
    let receiver = Receiver::default();
    let address = receiver.listen().await;
    let gate = Gate::default();
    let options = Options {
        webhooks: vec![webhook(&address).follows(2)],
        ..told(&address)
    };
    let asks = json!({"tool_calls": [{"tool": "wait", "params": {}}]});
    let steps = json!([asks, asks, asks, asks, {"text": "Done"}, {"text": "Went on"}]);
    let server = Running::with(steps, options, |builder| builder.tool(gate.tool()).hooks(Asks)).await;
    let mut first = None;
    for waiting in 1..=4 {
        let c = server.new_conversation().await;
        server.prompt(&c, "Go").await;
        let received = receiver.until(waiting).await;
        first = first.or_else(|| Some((c, received[0].json()["data"]["approval_id"].clone())));
    }
    let c = server.new_conversation().await;
    server.prompt(&c, "Say something").await;
    let received = receiver.until(5).await;
    assert_eq!(received[4].json()["data"]["conversation"], c);
    // One that made room is come back to, and what it told is not told again.
    let (c, approval) = first.unwrap();
    gate.go.notify_one();
    let path = format!("/v1/conversations/{c}/approvals/{}", approval.as_str().unwrap());
    server.post_json(&path, &json!({"decision": "once"})).await;
    let received = receiver.until(6).await;
    assert_eq!(received[5].json()["data"]["conversation"], c);
    let ids: HashSet<&str> = received.iter().map(|received| received.id.as_str()).collect();
    assert_eq!(ids.len(), 6, "{:?}", events(&received));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_of_the_machine_is_not_told_unless_it_is_opened() {
    let [inside, opened] = [Receiver::default(), Receiver::default()];
    let (closed, open) = (inside.listen().await, opened.listen().await);
    let options = Options {
        webhooks: vec![webhook(&closed), webhook(&open).only([WebhookEvent::TurnEnded])],
        opened: vec![Opened::parse(&open).unwrap()],
        ..options()
    };
    let server = Running::with(json!([{"text": "Done"}]), options, |builder| builder).await;
    let c = server.new_conversation().await;
    server.prompt(&c, "Go").await;
    opened.until(1).await;
    assert!(inside.received.lock().unwrap().is_empty());
}

#[test]
fn a_webhook_needs_a_whole_secret_and_known_events() {
    for wrong in ["", "secret", "whsec_", "whsec_c2hvcnQ=", "whsec_%%%"] {
        assert!(Webhook::new("https://a.example/hook", wrong).is_err(), "{wrong}");
    }
    assert_eq!(WebhookEvent::parse("turn.ended"), Ok(WebhookEvent::TurnEnded));
    assert!(WebhookEvent::parse("turn.began").is_err());
    let shown = format!("{:?}", Webhook::new("https://a.example/hook", SECRET).unwrap());
    assert!(!shown.contains("example") && !shown.contains("MfKQ"), "{shown}");
}
