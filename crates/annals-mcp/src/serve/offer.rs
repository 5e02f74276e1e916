//! What clients are offered: the server's own tools, and the agent's as far as they are allowed.

use std::sync::Arc;

use annals_core::ids::ConversationId;
use annals_tools::{Effect, Reach, ToolSpec};
use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use super::{AnnalsServer, Unmet, attached, told};

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
            Some(self.agent_tool(tool.spec()))
        });
        own().into_iter().chain(allowed).collect()
    }

    fn agent_tool(&self, spec: &ToolSpec) -> Tool {
        let mut parameters = spec.parameters().clone();
        if let Some(properties) = parameters.get_mut("properties").and_then(Value::as_object_mut) {
            properties.insert(
                "conversation".to_owned(),
                json!({"type": "string", "description": "The conversation to work in; a new one without it."}),
            );
        }
        let reads = spec.effect() == Effect::None;
        let is_isolated = self.agent.sandbox().is_none_or(|backend| backend.isolates());
        let meets_others = spec.reach().into_iter().any(|reach| match reach {
            Reach::Network | Reach::Spend | Reach::External => true,
            Reach::Exec => !is_isolated,
            Reach::Read | Reach::Write => false,
        });
        Tool::new(
            spec.name().wire(),
            spec.description().to_owned(),
            object(parameters),
        )
        .with_raw_output_schema(object(told::schema()))
        .with_annotations(
            ToolAnnotations::new()
                .read_only(reads)
                .destructive(!reads)
                .open_world(meets_others),
        )
    }
}

fn object(schema: Value) -> Arc<Map<String, Value>> {
    match schema {
        Value::Object(object) => Arc::new(object),
        _ => Arc::default(),
    }
}

/// Of a tool that only looks.
fn reads() -> ToolAnnotations {
    ToolAnnotations::new()
        .read_only(true)
        .idempotent(true)
        .open_world(false)
}

fn own() -> Vec<Tool> {
    let text = |description: &str| json!({"type": "string", "description": description});
    let conversation = text("The conversation's id.");
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
                "attachments": attached::schema(),
            }),
            &["prompt"],
        )
        .with_raw_output_schema(object(told::schema()))
        .with_annotations(ToolAnnotations::new().read_only(false).destructive(false).open_world(true)),
        tool(
            WAIT,
            "Wait for a turn that annals_ask or a tool's call started: until it has ended, or asks a person something new.",
            json!({"conversation": conversation, "turn": text("The turn's id.")}),
            &["conversation", "turn"],
        )
        .with_raw_output_schema(object(told::schema()))
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
        .with_raw_output_schema(object(read_schema()))
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
        .with_raw_output_schema(object(timeline_schema()))
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
        .with_raw_output_schema(object(passages_schema()))
        .with_annotations(reads()),
    ]
}

/// What annals_read answers.
fn read_schema() -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": "object",
        "properties": {
            "conversation": text, "path": text, "uri": text, "media_type": text,
            "size_bytes": {"type": "integer"},
            "text": {"type": "string", "description": "If it is text."},
        },
        "required": ["conversation", "path", "uri", "media_type", "size_bytes"],
    })
}

/// What annals_timeline answers.
fn timeline_schema() -> Value {
    let text = json!({"type": "string"});
    let block = json!({
        "type": "object",
        "properties": {
            "seq": {"type": "integer"}, "turn": text, "kind": text, "path": text,
            "text": {"type": "string", "description": "Its beginning."},
        },
        "required": ["seq", "turn", "kind", "text"],
    });
    json!({
        "type": "object",
        "properties": {
            "conversation": text,
            "earlier": {"type": "integer", "description": "How many blocks come before those that are listed."},
            "blocks": {"type": "array", "items": block},
        },
        "required": ["conversation", "earlier", "blocks"],
    })
}

/// What annals_search_memory answers.
fn passages_schema() -> Value {
    let text = json!({"type": "string"});
    let passage = json!({
        "type": "object",
        "properties": {
            "conversation": text, "turn": text, "path": {"type": ["string", "null"]}, "role": text, "text": text, "ts": text,
        },
        "required": ["conversation", "turn", "role", "text", "ts"],
    });
    json!({
        "type": "object",
        "properties": {"passages": {"type": "array", "items": passage}},
        "required": ["passages"],
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
