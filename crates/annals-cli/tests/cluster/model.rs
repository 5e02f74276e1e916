//! A model whose answer follows from its prompt alone, so that every node and every attempt gets the same one.
//!
//! A prompt says what its turn does: `[[plan 17 effect write pace=20]]` makes a call that must not happen twice, then one
//! that writes a file, then answers, with that number of milliseconds between two pieces. `find=NAME` reads a file of that name.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use futures::stream;
use serde_json::{Value, json};

/// A running model.
pub(crate) struct Model {
    pub(crate) base_url: String,
    served: tokio::task::JoinHandle<()>,
}

impl Drop for Model {
    fn drop(&mut self) {
        self.served.abort();
    }
}

impl Model {
    /// Effects go into this file, past every fence.
    pub(crate) async fn start(ledger: &Path) -> Self {
        let router = Router::new()
            .route("/v1/chat/completions", post(answer))
            .with_state(ledger.to_owned());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let served = tokio::spawn(async move {
            axum::serve(listener, router).await.unwrap();
        });
        Model { base_url, served }
    }
}

/// What a turn is to do.
struct Plan {
    number: String,
    calls: Vec<String>,
    pace: Duration,
}

impl Plan {
    /// The last plan that a user spoke of, and how many results came after it.
    fn of(request: &Value) -> Option<(Self, usize)> {
        let messages = request["messages"].as_array()?;
        let (at, text) = messages.iter().enumerate().rev().find_map(|(at, message)| {
            let text = message["content"].to_string();
            let begins = text.rfind("[[plan ")?;
            let ends = begins + text[begins..].find("]]")?;
            (message["role"] == "user").then(|| (at, text[begins + 7..ends].to_owned()))
        })?;
        let mut words = text.split_whitespace().map(str::to_owned);
        let number = words.next()?;
        let (paces, calls): (Vec<String>, Vec<String>) = words.partition(|word| word.starts_with("pace="));
        let pace = paces.first().and_then(|pace| pace[5..].parse().ok()).unwrap_or(0);
        let results = messages[at..]
            .iter()
            .filter(|message| message["role"] == "tool")
            .count();
        let plan = Plan {
            number,
            calls,
            pace: Duration::from_millis(pace),
        };
        Some((plan, results))
    }
}

async fn answer(State(ledger): State<PathBuf>, Json(request): Json<Value>) -> Response {
    let Some((plan, done)) = Plan::of(&request) else {
        return Response::builder()
            .status(400)
            .body(Body::from("no plan"))
            .unwrap();
    };
    let offered = |word: &str| -> Option<Value> {
        let tools = request["tools"].as_array()?;
        let names = tools.iter().map(|tool| tool["function"]["name"].clone());
        names
            .into_iter()
            .find(|name| name.as_str().is_some_and(|name| name.ends_with(word)))
    };
    let number = &plan.number;
    let deltas = match plan.calls.get(done).map(String::as_str) {
        None => {
            let words = (0..4).map(|word| json!({"content": format!("word{word} ")}));
            words
                .chain([json!({"content": format!("done {number}")})])
                .collect()
        }
        Some("write") => {
            let arguments = json!({"path": format!("f{number}.md"), "channel": "canvas",
                "content": format!("Words of {number}"), "kind": "file"});
            vec![call(offered("write"), &arguments)]
        }
        Some(find) if find.starts_with("find=") => {
            let line = format!("find . -name {} -exec cat {{}} +", &find[5..]);
            vec![call(offered("run_shell_command"), &json!({"command": line}))]
        }
        Some(effect) => {
            let takes = effect.strip_prefix("effect=").unwrap_or("0.02");
            let ledger = ledger.display();
            let line = format!(
                "echo {number}-{done} $(date +%s%N) >> {ledger}; sleep {takes}; echo did {number}-{done}"
            );
            vec![call(offered("run_shell_command"), &json!({"command": line}))]
        }
    };
    let ends = match plan.calls.get(done) {
        Some(_) => "tool_calls",
        None => "stop",
    };
    let chunk = |delta: Value, finish: Value| {
        json!({"id": "x", "object": "chat.completion.chunk", "model": "plan",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    };
    let mut lines: Vec<String> = deltas
        .into_iter()
        .map(|delta| format!("data: {}\n\n", chunk(delta, Value::Null)))
        .collect();
    lines.push(format!("data: {}\n\n", chunk(json!({}), json!(ends))));
    lines.push("data: [DONE]\n\n".to_owned());
    let pace = plan.pace;
    let body = stream::unfold(lines.into_iter(), move |mut lines| async move {
        let line = lines.next()?;
        tokio::time::sleep(pace).await;
        Some((Ok::<_, Infallible>(line), lines))
    });
    Response::builder()
        .header("content-type", "text/event-stream")
        .body(Body::from_stream(body))
        .unwrap()
}

fn call(name: Option<Value>, arguments: &Value) -> Value {
    json!({"tool_calls": [{"index": 0, "id": "c", "type": "function",
        "function": {"name": name.unwrap_or_default(), "arguments": arguments.to_string()}}]})
}
