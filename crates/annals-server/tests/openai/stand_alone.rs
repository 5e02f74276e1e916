//! Requests that belong to no conversation: they count like every other, and nothing of them stays.

use std::time::Duration;

use annals_core::ids::Scope;
use annals_core::settings::{BudgetSettings, ScopeLimits, Settings};
use annals_runtime::Agent;
use reqwest::Method;
use serde_json::{Value, json};

use crate::common::{Gate, Running, options, script};

fn title() -> Value {
    json!({"messages": [
        {"role": "system", "content": "You are a title generator. You output a title."},
        {"role": "user", "content": "hello"}]})
}

/// Conversations that lie in the API's own scope for callers of this one, but for the entries of its index.
async fn left(agent: &Agent) -> usize {
    let scope = annals_core::block::BlobDigest::of(agent.scope().to_string().as_bytes()).hex();
    let scope = Scope::try_new("annals.openai", "side", &scope[..32]).unwrap();
    let listed = agent.log().list(&scope, None, 500).await.unwrap();
    let ids = listed.items.iter().map(|info| info.key.id.as_str());
    ids.filter(|id| id.starts_with("conv_")).count()
}

async fn until_none_is_left(agent: &Agent) {
    for _ in 0..3_000 {
        if left(agent).await == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{} are left", left(agent).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_title_is_not_free_where_the_scope_has_nothing_left() {
    let settings = Settings {
        budget: BudgetSettings {
            scope: ScopeLimits {
                model_calls: Some(2),
                ..ScopeLimits::default()
            },
            ..BudgetSettings::default()
        },
        ..Settings::default()
    };
    let steps = json!([{"text": "A title"}, {"text": "An answer"}, {"text": "never"}, {"text": "never"}]);
    let server = Running::with(steps, options(), |builder| builder.settings(settings)).await;
    let ask = async |body: &Value| {
        let answer = server.post("/v1/chat/completions", body).await;
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    let chat = json!({"messages": [{"role": "user", "content": "hi"}]});
    assert_eq!(ask(&title()).await.0, 200);
    assert_eq!(
        ask(&chat).await.0,
        200,
        "the title was counted for the same scope"
    );
    for body in [&title(), &chat] {
        let (status, text) = ask(body).await;
        assert_eq!(status, 429, "{text}");
        assert!(text.contains("budget_exceeded"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_title_counts_among_the_turns_under_way() {
    let mut options = options();
    options.limits.turns_per_scope = 0;
    let server = Running::with(json!([{"text": "A title"}]), options, |builder| builder).await;
    let answer = server.post("/v1/chat/completions", &title()).await;
    let (status, error): (u16, Value) = (answer.status().as_u16(), answer.json().await.unwrap());
    assert_eq!((status, &error["error"]["code"]), (429, &json!("too_many_turns")));
    assert_eq!(left(&server.agent).await, 0, "what was not posted leaves nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_title_stays_when_the_server_stops_in_the_middle_and_its_client_may_ask_again() {
    let home = tempfile::tempdir().unwrap();
    let agent = async |steps: Value| {
        let builder = Agent::builder().model(script(steps)).home(home.path());
        builder.build().await.unwrap()
    };
    let slow = json!([{"text": "word ".repeat(1_000), "chunk_ms": 100}]);
    let mut server = Running::serve(agent(slow).await, options(), None).await;
    let mut body = title();
    body["stream"] = json!(true);
    let mut stream = server.post("/v1/chat/completions", &body).await;
    let mut seen = String::new();
    while !seen.contains("word") {
        seen.push_str(&String::from_utf8_lossy(&stream.chunk().await.unwrap().unwrap()));
    }
    assert_eq!(left(&server.agent).await, 1);
    server.stop.cancel();
    while let Ok(Some(piece)) = stream.chunk().await {
        seen.push_str(&String::from_utf8_lossy(&piece));
    }
    assert!(seen.contains("send the request again"), "{seen}");
    server.served.take().unwrap().await.unwrap();
    let later = Running::serve(agent(json!([])).await, options(), None).await;
    until_none_is_left(&later.agent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_is_kept_over_a_stop_is_not_to_be_asked_for_again() {
    let gate = Gate::default();
    let steps = json!([{"tool_calls": [{"tool": "wait", "params": {}}]}, {"text": "Done"}]);
    let server = Running::with(steps, options(), |builder| builder.tool(gate.tool())).await;
    let body = json!({"messages": [{"role": "user", "content": "hi"}]});
    let request = server.request(Method::POST, "/v1/chat/completions").json(&body);
    let asked = tokio::spawn(request.send());
    gate.begun.notified().await;
    server.stop.cancel();
    let answer = asked.await.unwrap().unwrap();
    assert_eq!(answer.status(), 503);
    assert_eq!(answer.headers()["x-should-retry"], "false");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_process_left_that_died_is_removed_and_what_is_kept_is_gone_on_with() {
    let home = tempfile::tempdir().unwrap();
    let agent = async |steps: Value| {
        let builder = Agent::builder().model(script(steps)).home(home.path());
        builder.lease_ttl(Duration::from_secs(1)).build().await.unwrap()
    };
    let slow = json!([{"text": "word ".repeat(1_000), "chunk_ms": 1_000}, {"text": "word ".repeat(1_000), "chunk_ms": 1_000}]);
    let dies = agent(slow).await;
    let server = Running::serve(dies.clone(), options(), None).await;
    let mut streamed = title();
    streamed["stream"] = json!(true);
    let mut stream = server.post("/v1/chat/completions", &streamed).await;
    stream.chunk().await.unwrap();
    let side = json!({"instructions": "You are a title generator.", "input": "hello", "background": true});
    let begun = server.post_json("/v1/responses", &side).await;
    let path = format!("/v1/responses/{}", begun["id"].as_str().unwrap());
    assert_ne!(server.get_json(&path).await["status"], "completed");
    assert_eq!(left(&dies).await, 2);
    // Without a word to anybody, as far as a process can do that to itself.
    server.served.as_ref().unwrap().abort();
    drop(server);
    drop(dies);

    let later = Running::serve(agent(json!([{"text": "A title"}])).await, options(), None).await;
    for _ in 0..3_000 {
        if later.get_json(&path).await["status"] == "completed" && left(&later.agent).await == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let done = later.get_json(&path).await;
    assert_eq!(done["output"][0]["content"][0]["text"], "A title", "{done}");
    assert_eq!(left(&later.agent).await, 1, "the one that may be looked at");
}
