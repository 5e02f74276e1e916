//! Annals as an MCP server: other programs ask the agent, read its timelines and files, search its memory, and use those of
//! its tools that its owner allows.
//!
//! [`AnnalsServer`] answers over any transport of the protocol; [`stdio`] serves the streams of this process, `http` the
//! requests of a listener. Nothing here decides what a turn may do: a question is posted to the conversation like any other
//! prompt.

mod ask;
mod attached;
mod decided;
#[cfg(feature = "http-server")]
pub mod http;
mod look;
mod offer;
mod told;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use annals_core::ids::{ConversationId, TurnId};
use annals_runtime::{Agent, Prompt, ToolCall};
use annals_store::Cursor;
use async_trait::async_trait;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt as _};
use serde_json::{Map, Value};

/// How long a question is waited for: clients give up after a minute, and a handle is better than an error.
const ANSWER_WAIT: Duration = Duration::from_secs(50);

/// Why a request got no result: words for the model at the other end.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unmet(String);

impl Unmet {
    pub(crate) fn new(why: impl ToString) -> Self {
        Unmet(why.to_string())
    }
}

/// How what clients want done gets into a conversation. Everything that starts a turn comes through here.
#[async_trait]
pub trait Post: Send + Sync {
    /// Posts a question, and gives its turn; or says in words for the client why not.
    async fn ask(&self, agent: &Agent, id: &ConversationId, prompt: Prompt) -> Result<TurnId, String>;

    /// Posts the call of a tool, and gives its turn; or says in words for the client why not.
    async fn call(&self, agent: &Agent, id: &ConversationId, call: ToolCall) -> Result<TurnId, String>;
}

/// Without further conditions.
struct Directly;

#[async_trait]
impl Post for Directly {
    async fn ask(&self, agent: &Agent, id: &ConversationId, prompt: Prompt) -> Result<TurnId, String> {
        let checked = agent.check_attachments(&prompt.attachments).await;
        checked.map_err(|error| error.to_string())?;
        let posted = agent.conversation(id).post(prompt).await;
        posted.map_err(|error| error.to_string())
    }

    async fn call(&self, agent: &Agent, id: &ConversationId, call: ToolCall) -> Result<TurnId, String> {
        let posted = agent.conversation(id).post_call(call).await;
        posted.map_err(|error| error.to_string())
    }
}

/// The agent behind the protocol. Cheap to clone.
#[derive(Clone)]
pub struct AnnalsServer {
    agent: Agent,
    post: Arc<dyn Post>,
    /// Built-in tools that clients may call, by their wire names.
    allowed: Arc<[String]>,
    answer_wait: Duration,
    asked: Arc<told::ToldRequests>,
    /// Goes on with turns once a person has decided, where nobody else would.
    decided: Option<Arc<decided::Watched>>,
}

impl AnnalsServer {
    /// Serves this agent, without any of its tools.
    pub fn new(agent: Agent) -> Self {
        AnnalsServer {
            agent,
            post: Arc::new(Directly),
            allowed: Arc::default(),
            answer_wait: ANSWER_WAIT,
            asked: Arc::default(),
            decided: None,
        }
    }

    /// With these tools of the agent, by name. A name that the agent has no tool for is given back.
    pub fn allow(mut self, tools: &[String]) -> Result<Self, String> {
        let mut allowed = Vec::new();
        for name in tools {
            let tool = self.agent.tools().get_wire(name).ok_or_else(|| name.clone())?;
            allowed.push(tool.spec().name().wire());
        }
        self.allowed = allowed.into();
        Ok(self)
    }

    /// Posts questions by these conditions.
    #[must_use]
    pub fn post_by(mut self, post: Arc<dyn Post>) -> Self {
        self.post = post;
        self
    }

    /// Waits this long for an answer before it gives a handle instead.
    #[must_use]
    pub fn answer_wait(mut self, wait: Duration) -> Self {
        self.answer_wait = wait;
        self
    }

    async fn perform(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, Unmet> {
        let progress = Signs::of(context);
        match name {
            offer::ASK => self.ask(&arguments, &progress).await,
            offer::WAIT => self.wait(&arguments, &progress).await,
            offer::READ => self.read(&arguments).await,
            offer::TIMELINE => self.timeline(&arguments).await,
            offer::SEARCH_MEMORY => self.search_memory(&arguments).await,
            name if self.allowed.iter().any(|allowed| allowed == name) => {
                self.use_tool(name, arguments, &progress).await
            }
            name => Err(Unmet(format!("there is no tool `{name}`: see `tools/list`"))),
        }
    }
}

/// Tells the client that its request is being worked on, if it wants to know.
struct Signs<'c> {
    context: &'c RequestContext<RoleServer>,
    token: Option<rmcp::model::ProgressToken>,
}

impl<'c> Signs<'c> {
    fn of(context: &'c RequestContext<RoleServer>) -> Self {
        Signs {
            context,
            token: context.meta.get_progress_token(),
        }
    }

    async fn give(&self, count: u32, words: String) {
        if let Some(token) = self.token.clone() {
            let param = ProgressNotificationParam::new(token, f64::from(count)).with_message(words);
            // A client that does not listen any more is no reason to stop.
            let _ = self.context.peer.notify_progress(param).await;
        }
    }

    /// Resolves when the client has given up.
    async fn given_up(&self) {
        self.context.ct.cancelled().await;
    }

    fn is_given_up(&self) -> bool {
        self.context.ct.is_cancelled()
    }
}

impl ServerHandler for AnnalsServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .build();
        let mut config = ServerConfig::new(capabilities).with_instructions(
            "Annals runs an agent with a durable timeline. Ask with `annals_ask`; a conversation goes on when its id is \
             given again. Paths such as `fi:turn_1.files/report.pdf` are read with `annals_read`.",
        );
        config.server_info = Implementation::new("annals", env!("CARGO_PKG_VERSION"));
        config
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.offered()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let performed = self.perform(&request.name, arguments, &context).await;
        let result = performed
            .unwrap_or_else(|unmet| CallToolResult::error(vec![ContentBlock::text(unmet.to_string())]));
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let cursor = cursor.map(|text| text.parse::<Cursor>()).transpose();
        let cursor = cursor.map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        // What the store says of a cursor is what it cannot read of it.
        let wrong: fn(Unmet) -> ErrorData = match cursor.is_some() {
            true => |unmet: Unmet| ErrorData::invalid_params(unmet.to_string(), None),
            false => internal,
        };
        let (resources, next) = self.conversations(cursor).await.map_err(wrong)?;
        let mut listed = ListResourcesResult::with_all_items(resources);
        listed.next_cursor = next.map(|next| next.to_string());
        Ok(listed)
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(look::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let found = self.resource(&request.uri).await;
        let contents = found.map_err(|unmet| ErrorData::resource_not_found(unmet.to_string(), None))?;
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}

fn internal(unmet: Unmet) -> ErrorData {
    ErrorData::internal_error(unmet.to_string(), None)
}

/// Serves the standard streams of this process until the client closes them.
pub async fn stdio(mut server: AnnalsServer) -> io::Result<()> {
    // No worker of a server looks after what these clients began.
    server.decided = Some(Arc::default());
    let transport = rmcp::transport::stdio();
    let running = server.serve(transport).await.map_err(io::Error::other)?;
    running.waiting().await.map_err(io::Error::other)?;
    Ok(())
}
