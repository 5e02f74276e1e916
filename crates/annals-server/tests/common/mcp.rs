//! A client of `/mcp` that writes its messages by hand.

use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};

use super::Running;

pub(crate) const INITIALIZE_REVISION: &str = "2025-11-25";

/// A client that writes its messages by hand.
pub(crate) struct Session<'s> {
    pub(crate) server: &'s Running,
    pub(crate) token: String,
    pub(crate) id: String,
}

pub(crate) fn message(id: u32, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn initialize() -> Value {
    let params = json!({
        "protocolVersion": INITIALIZE_REVISION, "capabilities": {}, "clientInfo": {"name": "by hand", "version": "1"},
    });
    message(1, "initialize", params)
}

pub(crate) fn sent(server: &Running, method: Method, token: &str) -> RequestBuilder {
    server
        .bare(method, "/mcp")
        .bearer_auth(token)
        .header("accept", "application/json, text/event-stream")
}

/// The messages in an answer of events.
pub(crate) fn messages(text: &str) -> Vec<Value> {
    let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
    data.filter_map(|data| serde_json::from_str(data.trim()).ok())
        .collect()
}

pub(crate) async fn begin(server: &Running, token: &str) -> Response {
    sent(server, Method::POST, token)
        .json(&initialize())
        .send()
        .await
        .unwrap()
}

impl<'s> Session<'s> {
    pub(crate) async fn begin(server: &'s Running, token: &str) -> Self {
        let response = begin(server, token).await;
        assert_eq!(response.status(), 200);
        let id = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let told = messages(&response.text().await.unwrap());
        assert_eq!(told[0]["result"]["serverInfo"]["name"], "annals", "{told:?}");
        let session = Session {
            server,
            token: token.to_owned(),
            id,
        };
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(
            session
                .request(Method::POST)
                .json(&initialized)
                .send()
                .await
                .unwrap()
                .status(),
            202
        );
        session
    }

    pub(crate) fn request(&self, method: Method) -> RequestBuilder {
        sent(self.server, method, &self.token)
            .header("mcp-session-id", &self.id)
            .header("mcp-protocol-version", INITIALIZE_REVISION)
    }

    pub(crate) async fn post(&self, message: &Value) -> Response {
        self.request(Method::POST).json(message).send().await.unwrap()
    }

    /// What a tool gives back.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        let response = self.post(&message(7, "tools/call", params)).await;
        assert_eq!(response.status(), 200);
        let told = messages(&response.text().await.unwrap());
        told.into_iter().find(|message| message["id"] == 7).unwrap()["result"].clone()
    }
}
