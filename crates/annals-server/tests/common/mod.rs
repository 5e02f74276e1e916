//! A real server on a real listener, with the script model behind it, and a client.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod mcp;

use std::sync::Arc;
use std::time::Duration;

use annals_core::ids::Scope;
use annals_model::ScriptModel;
use annals_model::script::Script;
use annals_runtime::{Agent, AgentBuilder};
use annals_server::{Options, Server};
use annals_store::{Breadth, Role, Roles, Store, Token};
use annals_tools::{DynamicTool, Effect, ToolSpec};
use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// A server that serves, until it is dropped or stopped.
pub(crate) struct Running {
    pub(crate) base: String,
    pub(crate) token: String,
    pub(crate) agent: Agent,
    pub(crate) stop: CancellationToken,
    pub(crate) served: Option<tokio::task::JoinHandle<()>>,
    pub(crate) client: Client,
    _home: Option<tempfile::TempDir>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A model that plays these steps.
pub(crate) fn script(steps: Value) -> ScriptModel {
    ScriptModel::new(
        "test",
        Script::parse(&json!({ "steps": steps }).to_string()).unwrap(),
    )
}

/// A tool that waits until it is told to go on.
#[derive(Clone, Default)]
pub(crate) struct Gate {
    pub(crate) begun: Arc<tokio::sync::Notify>,
    pub(crate) go: Arc<tokio::sync::Notify>,
}

impl Gate {
    pub(crate) fn tool(&self) -> DynamicTool {
        let gate = self.clone();
        let spec = ToolSpec::builder("wait")
            .parameters(json!({"type": "object", "properties": {}}))
            .effect(Effect::Replayable);
        DynamicTool::with_spec(spec.build().unwrap(), move |_, _| {
            let gate = gate.clone();
            async move {
                gate.begun.notify_one();
                gate.go.notified().await;
                Ok(json!("went on"))
            }
        })
    }
}

pub(crate) fn options() -> Options {
    Options {
        listen: ([127, 0, 0, 1], 0).into(),
        grace: Duration::from_secs(2),
        ..Options::default()
    }
}

impl Running {
    /// On a home of its own, with all tools that work on the timeline.
    pub(crate) async fn start(steps: Value) -> Self {
        Self::with(steps, options(), |builder| builder).await
    }

    pub(crate) async fn with(
        steps: Value,
        options: Options,
        more: impl FnOnce(AgentBuilder) -> AgentBuilder,
    ) -> Self {
        let home = tempfile::tempdir().unwrap();
        let builder = Agent::builder()
            .model(script(steps))
            .tools(annals_tools::react::all())
            .home(home.path());
        let agent = more(builder).build().await.unwrap();
        Self::serve(agent, options, Some(home)).await
    }

    pub(crate) async fn serve(agent: Agent, options: Options, home: Option<tempfile::TempDir>) -> Self {
        let server = Server::bind(agent.clone(), options).await.unwrap();
        let base = format!("http://{}", server.address());
        let token = server.token().unwrap_or_default().to_owned();
        let stop = CancellationToken::new();
        let served = Some(tokio::spawn(server.serve(stop.clone())));
        // Fails when another test of this process was first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none());
        Running {
            base,
            token,
            agent,
            stop,
            served,
            client: client.build().unwrap(),
            _home: home,
        }
    }

    /// A request without a token.
    pub(crate) fn bare(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base))
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.bare(method, path).bearer_auth(&self.token)
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.request(Method::GET, path).send().await.unwrap()
    }

    pub(crate) async fn get_json(&self, path: &str) -> Value {
        let response = self.get(path).await;
        assert!(response.status().is_success(), "{path}: {}", response.status());
        response.json().await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Response {
        self.request(Method::POST, path).json(body).send().await.unwrap()
    }

    /// Posts, and expects it to be done.
    pub(crate) async fn post_json(&self, path: &str, body: &Value) -> Value {
        let response = self.post(path, body).await;
        let status = response.status();
        let text = response.text().await.unwrap();
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(&text).unwrap()
    }

    pub(crate) async fn new_conversation(&self) -> String {
        let made = self.post_json("/v1/conversations", &json!({})).await;
        made["id"].as_str().unwrap().to_owned()
    }

    /// Starts a turn and gives its id.
    pub(crate) async fn prompt(&self, conversation: &str, prompt: &str) -> String {
        let path = format!("/v1/conversations/{conversation}/turns");
        let started = self.post_json(&path, &json!({ "prompt": prompt })).await;
        started["turn_id"].as_str().unwrap().to_owned()
    }

    /// Waits until a turn has ended.
    pub(crate) async fn ended(&self, conversation: &str, turn: &str) -> Value {
        let path = format!("/v1/conversations/{conversation}/turns/{turn}");
        for _ in 0..600 {
            let found = self.get_json(&path).await;
            if found["state"] == "ended" {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("turn {turn} did not end");
    }

    pub(crate) async fn events(&self, conversation: &str, after: Option<u64>) -> Events {
        let request = self.request(Method::GET, &format!("/v1/conversations/{conversation}/events"));
        let request = match after {
            Some(after) => request.header("last-event-id", after.to_string()),
            None => request,
        };
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Events::of(response)
    }

    /// Adds a token of another scope to the store, and gives its secret.
    pub(crate) async fn token_of(&self, scope: &str, roles: &[Role]) -> String {
        self.token_reaching(scope, roles, Breadth::User).await
    }

    /// The same, reaching this far if it is an admin's.
    pub(crate) async fn token_reaching(&self, scope: &str, roles: &[Role], breadth: Breadth) -> String {
        let secret = annals_server::secrets::new_token().unwrap();
        let now = self.agent.world().now();
        let token = Token {
            name: format!("{scope} {}", secret.get(..12).unwrap()),
            hash: annals_server::secrets::hash_of(&secret),
            scope: Scope::parse(scope).unwrap(),
            roles: roles.iter().copied().collect::<Roles>().reaching(breadth),
            created: now,
            expires: None,
        };
        let store: &Arc<dyn Store> = self.agent.log();
        store.add_token(token).await.unwrap();
        secret
    }
}

/// One event of a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) id: Option<u64>,
    pub(crate) data: Value,
}

/// Server-sent events as they arrive.
pub(crate) struct Events {
    response: Response,
    buffer: String,
}

impl Events {
    pub(crate) fn of(response: Response) -> Self {
        Events {
            response,
            buffer: String::new(),
        }
    }

    /// The next event; none when the server ends the stream.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(end) = self.buffer.find("\n\n") {
                let text: String = self.buffer.drain(..end + 2).collect();
                match parse(&text) {
                    Some(event) => return Some(event),
                    None => continue,
                }
            }
            let piece = self.response.chunk().await.ok()??;
            self.buffer.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }

    /// Events up to and including the first for which `is_last` holds.
    pub(crate) async fn until(&mut self, is_last: impl Fn(&Event) -> bool) -> Vec<Event> {
        let mut seen = Vec::new();
        let wait = tokio::time::timeout(Duration::from_secs(30), async {
            while let Some(event) = self.next().await {
                let is_enough = is_last(&event);
                seen.push(event);
                if is_enough {
                    return;
                }
            }
        });
        if wait.await.is_err() {
            panic!("the event did not come; seen: {seen:#?}");
        }
        seen
    }

    /// Everything up to the end of a turn.
    pub(crate) async fn turn(&mut self) -> Vec<Event> {
        self.until(|event| event.name == "state" && event.data["state"] == "ended")
            .await
    }
}

/// An event, unless the text is a comment.
pub(crate) fn parse(text: &str) -> Option<Event> {
    let mut event = Event::default();
    let mut data = String::new();
    for line in text.lines() {
        match line.split_once(": ").or_else(|| line.split_once(':')) {
            Some(("event", name)) => event.name = name.to_owned(),
            Some(("id", id)) => event.id = id.parse().ok(),
            Some(("data", more)) => data.push_str(more),
            _ => {}
        }
    }
    if event.name.is_empty() {
        return None;
    }
    event.data = serde_json::from_str(&data).unwrap();
    Some(event)
}

/// The numbers of the blocks among some events.
pub(crate) fn seqs(events: &[Event]) -> Vec<u64> {
    let blocks = events.iter().filter(|event| event.name == "block");
    blocks.map(|event| event.id.unwrap()).collect()
}
