//! What clients are offered: the server's own tools, and the agent's as far as they are allowed.

use std::sync::Arc;

use annals_core::block::BlockKind;
use annals_core::ids::ConversationId;
use annals_runtime::TurnRequest;
use annals_tools::{Effect, ToolSpec};
use rmcp::RoleServer;
use rmcp::model::{CallToolResult, ContentBlock, Tool, ToolAnnotations};
use rmcp::service::RequestContext;
use serde_json::{Map, Value, json};

use super::{AnnalsServer, Unmet, look};

pub(super) const ASK: &str = "annals_ask";
pub(super) const WAIT: &str = "annals_wait";
pub(super) const READ: &str = "annals_read";
pub(super) const TIMELINE: &str = "annals_timeline";
pub(super) const SEARCH_MEMORY: &str = "annals_search_memory";

impl AnnalsServer {
    /// The tools, in an order that does not change.
    pub(super) fn offered(&self) -> Vec<Tool> {
        let allowed = self.allowed.iter().filter_map(|name| {
            let tool = self.agent.tools().get_wire(name)?;
            Some(agent_tool(tool.spec()))
        });
        own().into_iter().chain(allowed).collect()
    }

    /// Calls a tool of the agent in a turn of its own, in a conversation that the call makes or names.
    pub(super) async fn use_tool(
        &self,
        name: &str,
        mut arguments: Map<String, Value>,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, Unmet> {
        let conversation = arguments.shift_remove("conversation");
        let session = match conversation.as_ref().and_then(Value::as_str) {
            Some(id) => self.agent.session(id).await,
            None => self.agent.new_session(Some(format!("MCP: {name}"))).await,
        };
        let session = session.map_err(Unmet::new)?;
        let id = session.id().clone();
        let request = TurnRequest::call(name, arguments).cancel(context.ct.child_token());
        let turn = self
            .agent
            .run(session, request)
            .await
            .map_err(|failed| Unmet::new(failed.error))?;
        let (result, is_error, files) = turn.session().timeline(|timeline| {
            let blocks = timeline
                .turn(turn.id())
                .map_or(&[][..], |turn| timeline.turn_blocks(turn));
            let results = blocks.iter().filter(|block| block.kind == BlockKind::ToolResult);
            let is_error = results.clone().any(|block| block.meta().error.is_some());
            let texts: Vec<String> = results
                .filter_map(|block| block.text().map(str::to_owned))
                .collect();
            (
                texts.join("\n\n"),
                is_error,
                look::files(timeline, &id, turn.id()),
            )
        });
        let mut content = vec![ContentBlock::text(result)];
        content.extend(files.iter().map(look::File::as_link));
        let closed = turn.into_session().close().await;
        closed.map_err(Unmet::new)?;
        Ok(match is_error {
            true => CallToolResult::error(content),
            false => CallToolResult::success(content),
        })
    }
}

fn object(schema: Value) -> Arc<Map<String, Value>> {
    match schema {
        Value::Object(object) => Arc::new(object),
        _ => Arc::default(),
    }
}

fn agent_tool(spec: &ToolSpec) -> Tool {
    let mut parameters = spec.parameters().clone();
    if let Some(properties) = parameters.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert(
            "conversation".to_owned(),
            json!({"type": "string", "description": "The conversation to work in; a new one without it."}),
        );
    }
    let reads = spec.effect() == Effect::None;
    Tool::new(
        spec.name().wire(),
        spec.description().to_owned(),
        object(parameters),
    )
    .with_annotations(
        ToolAnnotations::new()
            .read_only(reads)
            .destructive(!reads)
            .open_world(false),
    )
}

fn own() -> Vec<Tool> {
    let text = |description: &str| json!({"type": "string", "description": description});
    let conversation = text("The conversation's id.");
    let reads = || {
        ToolAnnotations::new()
            .read_only(true)
            .idempotent(true)
            .open_world(false)
    };
    let tool = |name: &'static str, description: &'static str, properties: Value, required: &[&str]| {
        let schema = json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        });
        Tool::new(name, description, object(schema))
    };
    vec![
        tool(
            ASK,
            "Ask the agent. It may run code in a sandbox, read and write documents and search the web, and its answer comes \
             back. A question that takes longer than a client waits comes back as `running`: go on with annals_wait.",
            json!({
                "prompt": text("What to do."),
                "conversation": text("Go on with this conversation; a new one without it."),
            }),
            &["prompt"],
        )
        .with_raw_output_schema(object(turn_schema()))
        .with_annotations(ToolAnnotations::new().read_only(false).destructive(false).open_world(true)),
        tool(
            WAIT,
            "Wait for a turn that annals_ask started.",
            json!({"conversation": conversation, "turn": text("The turn's id.")}),
            &["conversation", "turn"],
        )
        .with_raw_output_schema(object(turn_schema()))
        .with_annotations(reads()),
        tool(
            READ,
            "Read what a path of a conversation names: a file, a result, a prompt, a source.",
            json!({
                "conversation": conversation,
                "path": text("A logical path such as `fi:turn_1.files/report.md`, also with `#L10-20`."),
            }),
            &["conversation", "path"],
        )
        .with_annotations(reads()),
        tool(
            TIMELINE,
            "The blocks of a conversation, one a line: number, turn, kind, path, beginning.",
            json!({
                "conversation": conversation,
                "at": {"type": "integer", "minimum": 1, "description": "As it was when this block was the last one."},
            }),
            &["conversation"],
        )
        .with_annotations(reads()),
        tool(
            SEARCH_MEMORY,
            "Find passages of earlier prompts, answers, notes and files, by words and by meaning.",
            json!({
                "query": text("A question, or words that were used."),
                "conversation": text("Only in this conversation."),
                "top_k": {"type": "integer", "minimum": 1, "maximum": 20},
            }),
            &["query"],
        )
        .with_annotations(reads()),
    ]
}

/// What annals_ask and annals_wait answer.
fn turn_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "conversation": {"type": "string"},
            "turn": {"type": "string"},
            "state": {"type": "string", "enum": ["running", "waiting", "ended"]},
            "outcome": {"type": "string"},
            "answer": {"type": "string"},
            "files": {"type": "array", "items": {"type": "object", "properties": {
                "path": {"type": "string"}, "uri": {"type": "string"}, "media_type": {"type": "string"},
            }, "required": ["path", "uri", "media_type"]}},
        },
        "required": ["conversation", "turn", "state"],
    })
}

/// A text argument.
pub(super) fn text_of<'a>(arguments: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    arguments.get(name).and_then(Value::as_str)
}

/// The conversation that the arguments name.
pub(super) fn conversation_of(arguments: &Map<String, Value>) -> Result<ConversationId, Unmet> {
    let id = text_of(arguments, "conversation")
        .ok_or_else(|| Unmet::new("name a conversation in `conversation`"))?;
    ConversationId::parse(id).map_err(Unmet::new)
}
