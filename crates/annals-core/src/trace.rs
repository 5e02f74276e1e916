//! Finished turns as OpenTelemetry spans, in the JSON form of OTLP, with the names of the GenAI conventions.
//!
//! A fold of the blocks and of nothing else: ids are digests of conversation, turn and step, times and tokens are those of
//! the timeline. So a second export of a turn gives the same spans, and a collector that gets both keeps one. Prompts,
//! answers, arguments and results are left out: spans go to other places than the conversation does.

use serde::Serialize;

use crate::block::payload::{TurnEnd, TurnReport, TurnUsage};
use crate::block::{BlobDigest, Block, BlockKind};
use crate::code::Code;
use crate::ids::{CallId, ConversationId};
use crate::time::Timestamp;
use crate::timeline::{Timeline, Turn};
use crate::turn::{SentPrompt, SentSummary};

/// An OTLP request: spans of one service.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Trace {
    resource_spans: [ResourceSpans; 1],
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans {
    resource: Resource,
    scope_spans: [ScopeSpans; 1],
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Resource {
    attributes: Vec<Attribute>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct ScopeSpans {
    scope: Scope,
    spans: Vec<Span>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Scope {
    name: &'static str,
    version: &'static str,
}

/// One span. Ids are hexadecimal and numbers of 64 bits are texts, as OTLP's JSON has them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Span {
    trace_id: String,
    span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_span_id: Option<String>,
    name: String,
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<Attribute>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    events: Vec<Event>,
    status: Status,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    time_unix_nano: String,
    name: String,
    attributes: Vec<Attribute>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Status {
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Attribute {
    key: &'static str,
    value: AttributeValue,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
enum AttributeValue {
    StringValue(String),
    IntValue(String),
}

/// `SPAN_KIND_INTERNAL` and `SPAN_KIND_CLIENT`, `STATUS_CODE_ERROR`.
const INTERNAL: u8 = 1;
const CLIENT: u8 = 3;
const ERROR: u8 = 2;

const CONVERSATION: &str = "gen_ai.conversation.id";
const ERROR_TYPE: &str = "error.type";
const OPERATION: &str = "gen_ai.operation.name";
const TURN: &str = "annals.turn.id";

impl Trace {
    /// The spans of these turns, one trace each. A turn that has not ended has none yet.
    pub fn of<'t>(
        conversation: &ConversationId,
        timeline: &Timeline,
        turns: impl IntoIterator<Item = &'t Turn>,
    ) -> Self {
        let spans = turns
            .into_iter()
            .filter_map(|turn| Fold::new(conversation, turn, timeline.turn_blocks(turn)))
            .flat_map(Fold::spans)
            .collect();
        let version = env!("CARGO_PKG_VERSION");
        let resource = Resource {
            attributes: vec![text("service.name", "annals"), text("service.version", version)],
        };
        let scope = Scope {
            name: "annals",
            version,
        };
        Trace {
            resource_spans: [ResourceSpans {
                resource,
                scope_spans: [ScopeSpans { scope, spans }],
            }],
        }
    }

    /// How many spans there are.
    pub fn span_count(&self) -> usize {
        let [resource] = &self.resource_spans;
        let [scope] = &resource.scope_spans;
        scope.spans.len()
    }
}

/// One finished turn on its way to spans.
struct Fold<'t> {
    conversation: &'t ConversationId,
    turn: &'t Turn,
    blocks: &'t [std::sync::Arc<Block>],
    ended: Timestamp,
    report: TurnReport,
    agent: &'t str,
    provider: &'t str,
    model: &'t str,
    trace_id: String,
    root_id: String,
}

impl<'t> Fold<'t> {
    fn new(
        conversation: &'t ConversationId,
        turn: &'t Turn,
        blocks: &'t [std::sync::Arc<Block>],
    ) -> Option<Self> {
        let last = blocks
            .iter()
            .find(|block| block.kind == BlockKind::ReactCompletion)?;
        let report = last.folded_payload()?;
        let header = blocks
            .iter()
            .find(|block| block.kind == BlockKind::AgentLogHeader);
        let header = header.and_then(|block| block.text()).unwrap_or_default();
        let (agent, model) = header.split_once(" | model: ").unwrap_or((header, ""));
        let (provider, model) = model.split_once(':').unwrap_or(("", model));
        Some(Fold {
            conversation,
            turn,
            blocks,
            ended: last.ts,
            report,
            agent,
            provider,
            model,
            trace_id: id(conversation, turn, "trace", 32),
            root_id: id(conversation, turn, "turn", 16),
        })
    }

    fn spans(self) -> Vec<Span> {
        let mut spans = vec![self.turn_span()];
        let calls = self
            .blocks
            .iter()
            .filter(|block| block.kind == BlockKind::ToolCall);
        let steps = self.blocks.iter().filter(|block| block.meta().usage().is_some());
        spans.extend(steps.map(|block| self.model_span(block)));
        spans.extend(self.failed_model_span());
        spans.extend(calls.filter_map(|block| self.tool_span(block)));
        spans
    }

    fn turn_span(&self) -> Span {
        let mut attributes = self.common("invoke_agent");
        attributes.push(text("gen_ai.agent.name", self.agent));
        attributes.push(text("annals.turn.outcome", self.report.outcome.as_str()));
        attributes.extend(usage(&self.report.usage));
        let mut span = self.span(
            &format!("invoke_agent {}", self.agent),
            INTERNAL,
            "turn",
            (self.turn.started, self.ended),
            attributes,
        );
        span.parent_span_id = None;
        span.events = self.blocks.iter().filter_map(|block| event(block)).collect();
        match self.report.outcome {
            TurnEnd::Complete | TurnEnd::Clarify => span,
            outcome => span.failed(outcome.as_str(), self.report.error.clone()),
        }
    }

    /// One model call, from the first block that answers it: that one carries the tokens and when it was asked.
    fn model_span(&self, block: &Block) -> Span {
        let meta = block.meta();
        let of_summary = || meta.prompt::<SentSummary>().map(|sent| sent.asked_at);
        let asked = meta.prompt::<SentPrompt>().map(|sent| sent.asked_at);
        let asked = asked.or_else(of_summary).unwrap_or(self.turn.started);
        let mut attributes = self.common("chat");
        attributes.push(text("gen_ai.response.model", self.model));
        attributes.extend(meta.usage().iter().flat_map(usage));
        let name = match meta.step {
            Some(step) => format!("step {step}"),
            None => format!("block {}", block.seq),
        };
        let lasted = (asked, block.ts);
        self.span(&format!("chat {}", self.model), CLIENT, &name, lasted, attributes)
    }

    /// The model call that the turn failed with. No block answers it: it lies between the last one before and the end.
    fn failed_model_span(&self) -> Option<Span> {
        if self.report.outcome != TurnEnd::ModelError {
            return None;
        }
        let before = self
            .blocks
            .iter()
            .take_while(|block| block.kind != BlockKind::ReactCompletion);
        let asked = before.last().map_or(self.turn.started, |block| block.ts);
        let (attributes, lasted) = (self.common("chat"), (asked, self.ended));
        let name = format!("chat {}", self.model);
        let span = self.span(&name, CLIENT, "failed call", lasted, attributes);
        Some(span.failed(self.report.outcome.as_str(), None))
    }

    /// One tool call, from the moment it was durable to its first result.
    fn tool_span(&self, block: &Block) -> Option<Span> {
        let call = block.meta().call.as_ref()?;
        let named: crate::block::payload::CallText<'_> = block.folded_payload()?;
        let result = self.result_of(call);
        let ended = result.map_or(self.ended, |result| result.ts);
        let mut attributes = self.common("execute_tool");
        attributes.push(text("gen_ai.tool.name", &named.tool_id));
        attributes.push(text("gen_ai.tool.call.id", call.as_str()));
        attributes.push(text("gen_ai.tool.type", "function"));
        let span = self.span(
            &format!("execute_tool {}", named.tool_id),
            INTERNAL,
            &format!("call {call}"),
            (block.ts, ended),
            attributes,
        );
        let error = result.and_then(|result| result.meta().error.as_deref());
        Some(match (result, error) {
            // The message may quote what the tool was given.
            (_, Some(error)) => span.failed(&error.code, None),
            (None, None) => span.failed(Code::NoResult.as_str(), None),
            (Some(_), None) => span,
        })
    }

    fn result_of(&self, call: &CallId) -> Option<&'t Block> {
        let results = self
            .blocks
            .iter()
            .filter(|block| block.kind == BlockKind::ToolResult);
        results
            .map(|block| &**block)
            .find(|block| block.meta().call.as_ref() == Some(call))
    }

    fn common(&self, operation: &'static str) -> Vec<Attribute> {
        let mut attributes = vec![
            text(OPERATION, operation),
            text(CONVERSATION, self.conversation.as_str()),
            text(TURN, self.turn.id.as_str()),
        ];
        // A turn of a person's own tool call has no model.
        if !self.model.is_empty() && operation != "execute_tool" {
            attributes.push(text("gen_ai.provider.name", self.provider));
            attributes.push(text("gen_ai.request.model", self.model));
        }
        attributes
    }

    fn span(
        &self,
        name: &str,
        kind: u8,
        what: &str,
        (start, end): (Timestamp, Timestamp),
        attributes: Vec<Attribute>,
    ) -> Span {
        Span {
            trace_id: self.trace_id.clone(),
            span_id: id(self.conversation, self.turn, what, 16),
            parent_span_id: Some(self.root_id.clone()),
            name: name.to_owned(),
            kind,
            start_time_unix_nano: nanos(start.min(end)),
            end_time_unix_nano: nanos(end),
            attributes,
            events: Vec::new(),
            status: Status::default(),
        }
    }
}

impl Span {
    fn failed(mut self, code: &str, message: Option<String>) -> Self {
        self.attributes.push(text(ERROR_TYPE, code));
        self.status = Status {
            code: Some(ERROR),
            message,
        };
        self
    }
}

/// What happened in a turn at one moment: people's words and decisions, and notices.
fn event(block: &Block) -> Option<Event> {
    let attributes = match block.kind {
        BlockKind::UserSteer
        | BlockKind::ApprovalRequest
        | BlockKind::ApprovalDecision
        | BlockKind::InputRequest
        | BlockKind::InputResponse
        | BlockKind::RangeSummary => Vec::new(),
        BlockKind::Notice => {
            let notice: crate::block::payload::Notice = block.folded_payload()?;
            vec![text("annals.notice.code", &notice.code)]
        }
        _ => return None,
    };
    Some(Event {
        time_unix_nano: nanos(block.ts),
        name: format!("annals.{}", block.kind.tag()),
        attributes,
    })
}

fn usage(usage: &TurnUsage) -> [Attribute; 4] {
    [
        number("gen_ai.usage.input_tokens", usage.input_tokens),
        number("gen_ai.usage.cache_read.input_tokens", usage.cache_read_tokens),
        number(
            "gen_ai.usage.cache_creation.input_tokens",
            usage.cache_write_tokens,
        ),
        number("gen_ai.usage.output_tokens", usage.output_tokens),
    ]
}

/// An id of this many hexadecimal digits that follows from what it names.
fn id(conversation: &ConversationId, turn: &Turn, what: &str, digits: usize) -> String {
    let named = format!("{conversation}\0{}\0{what}", turn.id);
    let digest = BlobDigest::of(named.as_bytes()).to_string();
    let hex = digest.rsplit(':').next().unwrap_or_default();
    hex.chars().take(digits).collect()
}

fn nanos(moment: Timestamp) -> String {
    (i128::from(moment.unix_micros()) * 1_000).max(0).to_string()
}

fn text(key: &'static str, value: &str) -> Attribute {
    Attribute {
        key,
        value: AttributeValue::StringValue(value.to_owned()),
    }
}

fn number(key: &'static str, value: u64) -> Attribute {
    Attribute {
        key,
        value: AttributeValue::IntValue(value.to_string()),
    }
}
