//! What the agent's MCP servers have for people: resources to send with a prompt, and prompts to begin with.
//!
//! The servers are those of the server's own scope: rules of other scopes speak of tools, and reading a resource is none.
//! A caller of another scope sees none of them.

use std::sync::Arc;

use annals_mcp::connection::{Connection, ConnectionError};
use annals_mcp::resources::{Content, PromptArgument, PromptInfo, ResourceInfo};
use annals_mcp::{RemoteServer, ServerError};
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::app::App;
use crate::door::Caller;
use crate::idempotency::keep;
use crate::problem::{Code, Problem};
use crate::request::{JsonBody, Params, Place};
use crate::routes::Route;

/// JSON-RPC's code for a request that a server does not know.
const METHOD_NOT_FOUND: i32 = -32_601;

/// The routes.
pub(crate) fn table() -> Vec<Route> {
    vec![
        Route::get("/v1/mcp/servers", servers)
            .about("The MCP servers whose tools the agent has.")
            .gives::<McpServers>(StatusCode::OK),
        Route::get("/v1/mcp/servers/{s}/resources", resources)
            .about("What can be read of a server; starts it if need be.")
            .gives::<Resources>(StatusCode::OK),
        Route::get("/v1/mcp/servers/{s}/resource", resource)
            .about("Reads a resource, so that it can be sent with a prompt.")
            .query(&[("uri", "its address, as the list of resources has it")])
            .gives::<Contents>(StatusCode::OK),
        Route::get("/v1/mcp/servers/{s}/prompts", prompts)
            .about("The prompts of a server; starts it if need be.")
            .gives::<Prompts>(StatusCode::OK),
        Route::post("/v1/mcp/servers/{s}/prompt", prompt)
            .about("A prompt of a server as a text, with these arguments.")
            .takes::<ChosenPrompt>()
            .gives::<PromptText>(StatusCode::OK),
    ]
}

/// The servers.
#[derive(Serialize, JsonSchema)]
pub(crate) struct McpServers {
    items: Vec<McpServer>,
    /// Always null: there is one page.
    next_cursor: Option<String>,
}

/// A server of the configuration.
#[derive(Serialize, JsonSchema)]
pub(crate) struct McpServer {
    name: String,
}

/// Resources of a server, in words that were cleaned.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Resources {
    items: Vec<ListedResource>,
    /// Always null: there is one page.
    next_cursor: Option<String>,
}

/// A resource as its server describes it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ListedResource {
    uri: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// What type it is said to have.
    #[serde(skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
}

impl From<ResourceInfo> for ListedResource {
    fn from(info: ResourceInfo) -> Self {
        ListedResource {
            uri: info.uri,
            name: info.name,
            description: info.description,
            media_type: info.mime_type,
        }
    }
}

/// What a resource consists of.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Contents {
    items: Vec<ReadContent>,
    /// Always null: there is one page.
    next_cursor: Option<String>,
}

/// One file of a resource.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ReadContent {
    /// A file name that leads nowhere.
    name: String,
    size_bytes: usize,
    /// Its bytes in Base64.
    data: String,
}

impl From<Content> for ReadContent {
    fn from(content: Content) -> Self {
        ReadContent {
            name: content.file_name,
            size_bytes: content.bytes.len(),
            data: STANDARD.encode(content.bytes),
        }
    }
}

/// Prompts of a server, in words that were cleaned.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Prompts {
    items: Vec<ListedPrompt>,
    /// Always null: there is one page.
    next_cursor: Option<String>,
}

/// A prompt as its server describes it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ListedPrompt {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    arguments: Vec<ListedArgument>,
}

/// One thing that a prompt can be told.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ListedArgument {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    is_required: bool,
}

impl From<PromptArgument> for ListedArgument {
    fn from(argument: PromptArgument) -> Self {
        ListedArgument {
            name: argument.name,
            description: argument.description,
            is_required: argument.is_required,
        }
    }
}

impl From<PromptInfo> for ListedPrompt {
    fn from(info: PromptInfo) -> Self {
        ListedPrompt {
            name: info.name,
            description: info.description,
            arguments: info.arguments.into_iter().map(Into::into).collect(),
        }
    }
}

/// Which prompt, and what it is told.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChosenPrompt {
    name: String,
    /// Values by name; the protocol knows texts only.
    #[serde(default)]
    arguments: std::collections::BTreeMap<String, String>,
}

/// A prompt to send.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PromptText {
    text: String,
}

#[derive(Deserialize)]
pub(crate) struct ResourceQuery {
    uri: String,
}

/// The servers that a caller may look at.
fn seen<'a>(app: &'a App, caller: &Caller) -> &'a [Arc<RemoteServer>] {
    match &app.outside.mcp_servers {
        Some(set) if caller.scope == *app.agent.scope() => set.servers(),
        _ => &[],
    }
}

async fn connected(app: &App, caller: &Caller, place: &Place) -> Result<Arc<Connection>, Problem> {
    let server = seen(app, caller)
        .iter()
        .find(|server| server.config().name == place.server());
    let server = server.ok_or_else(|| Problem::not_found("the MCP server"))?;
    server.connection().await.map_err(|error| unreached(&error))
}

fn unreached(error: &ServerError) -> Problem {
    Problem::new(Code::McpServer, error.to_string())
}

fn failed(error: ConnectionError) -> Problem {
    Problem::new(Code::McpServer, error.to_string())
}

async fn servers(State(app): State<App>, caller: Caller) -> Json<McpServers> {
    let server = |server: &Arc<RemoteServer>| McpServer {
        name: server.config().name.clone(),
    };
    Json(McpServers {
        items: seen(&app, &caller).iter().map(server).collect(),
        next_cursor: None,
    })
}

async fn resources(State(app): State<App>, caller: Caller, place: Place) -> Result<Json<Resources>, Problem> {
    let connection = connected(&app, &caller, &place).await?;
    let listed = match connection.resources().await {
        // A server that has none need not know the request.
        Err(ConnectionError::Refused {
            code: METHOD_NOT_FOUND,
            ..
        }) => Vec::new(),
        listed => listed.map_err(failed)?,
    };
    Ok(Json(Resources {
        items: listed.into_iter().map(Into::into).collect(),
        next_cursor: None,
    }))
}

async fn resource(
    State(app): State<App>,
    caller: Caller,
    place: Place,
    Params(query): Params<ResourceQuery>,
) -> Result<Json<Contents>, Problem> {
    let connection = connected(&app, &caller, &place).await?;
    let read = connection.read_resource(&query.uri).await.map_err(failed)?;
    Ok(Json(Contents {
        items: read.into_iter().map(Into::into).collect(),
        next_cursor: None,
    }))
}

async fn prompts(State(app): State<App>, caller: Caller, place: Place) -> Result<Json<Prompts>, Problem> {
    let connection = connected(&app, &caller, &place).await?;
    let listed = match connection.prompts().await {
        Err(ConnectionError::Refused {
            code: METHOD_NOT_FOUND,
            ..
        }) => Vec::new(),
        listed => listed.map_err(failed)?,
    };
    Ok(Json(Prompts {
        items: listed.into_iter().map(Into::into).collect(),
        next_cursor: None,
    }))
}

async fn prompt(
    State(app): State<App>,
    caller: Caller,
    place: Place,
    JsonBody { value, once }: JsonBody<ChosenPrompt>,
) -> Result<Response, Problem> {
    if let Some(known) = once.known(&app).await? {
        return Ok(known);
    }
    let connection = connected(&app, &caller, &place).await?;
    let arguments: Map<String, Value> = value
        .arguments
        .into_iter()
        .map(|(name, value)| (name, Value::String(value)))
        .collect();
    let text = connection.prompt(&value.name, arguments).await.map_err(failed)?;
    let text = PromptText { text };
    once.perform(&app, StatusCode::OK, &text, async |answer| {
        keep(&app, answer).await
    })
    .await
}
