//! Chat Completions on the wire: what is asked, the answer whole, the answer in chunks.

use annals_core::turn::TurnUsage;
use annals_runtime::ClientFunction;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::client_tools::{self, ClientCall};
use super::error::{ApiError, Wrapped, finish_reason};
use super::input::{Content, RawMessage};
use super::pieces::{Lane, Piece, TextId};

/// A request. Fields that mean nothing to an agent are taken and ignored.
#[derive(Debug, Deserialize)]
pub(crate) struct ChatRequest {
    pub(crate) model: Option<String>,
    #[serde(default)]
    messages: Vec<ChatMessage>,
    #[serde(default)]
    pub(crate) stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    #[serde(default)]
    n: Option<u32>,
    #[serde(default)]
    modalities: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) metadata: Option<Map<String, Value>>,
    #[serde(default)]
    tools: Option<Vec<Value>>,
    #[serde(default)]
    tool_choice: Option<Value>,
    #[serde(default)]
    response_format: Option<Value>,
    /// Not OpenAI's: a conversation of the agent's, of which `messages` is only what is new.
    #[serde(default)]
    pub(crate) conversation: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct ChatMessage {
    role: String,
    #[serde(default = "nothing")]
    content: Content,
    #[serde(default)]
    tool_call_id: Option<String>,
}

fn nothing() -> Content {
    Content::Nothing(())
}

#[derive(Debug, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

impl ChatRequest {
    /// The messages, or why they cannot be taken.
    pub(crate) fn messages(&mut self) -> Result<Vec<RawMessage>, ApiError> {
        if self.n.is_some_and(|n| n != 1) {
            let message = "an agent gives one answer: leave `n` out";
            return Err(ApiError::invalid("n", "unsupported_value", message));
        }
        if self.modalities.iter().flatten().any(|kind| kind != "text") {
            let message = "only text is answered: leave `modalities` out";
            return Err(ApiError::invalid("modalities", "unsupported_value", message));
        }
        let read = std::mem::take(&mut self.messages).into_iter();
        let read = read.map(|message| {
            let call = message.tool_call_id.as_deref();
            RawMessage::read(&message.role, message.content, call)
        });
        read.filter_map(Result::transpose).collect()
    }

    /// What the client performs itself.
    pub(crate) fn functions(&self) -> Result<Vec<ClientFunction>, ApiError> {
        let tools = self.tools.as_deref().unwrap_or_default();
        client_tools::functions(tools, self.tool_choice.as_ref())
    }

    /// The schema that the answer must fit.
    pub(crate) fn schema(&self) -> Result<Option<Value>, ApiError> {
        const PARAM: &str = "response_format";
        let Some(format) = &self.response_format else {
            return Ok(None);
        };
        super::input::schema_of(PARAM, format, &format["json_schema"])
    }

    pub(crate) fn includes_usage(&self) -> bool {
        self.stream_options
            .as_ref()
            .is_some_and(|options| options.include_usage)
    }
}

/// Tokens in the words of Chat Completions. Those from the provider's cache count among the prompt's.
pub(crate) fn usage(usage: &TurnUsage) -> Value {
    json!({
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0,
            "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0},
    })
}

/// One answer on its way out.
pub(crate) struct ChatAnswer {
    pub(crate) id: String,
    pub(crate) created: i64,
    pub(crate) model: String,
    pub(crate) includes_usage: bool,
    content: String,
    reasoning: String,
    /// The text that content was last added to, to part it from the next.
    last: Option<TextId>,
}

impl ChatAnswer {
    pub(crate) fn new(id: String, created: i64, model: String, includes_usage: bool) -> Self {
        ChatAnswer {
            id,
            created,
            model,
            includes_usage,
            content: String::new(),
            reasoning: String::new(),
            last: None,
        }
    }

    /// The first chunk.
    pub(crate) fn first(&self) -> Value {
        self.chunk(json!({"role": "assistant", "content": ""}), None)
    }

    /// The chunks that a piece becomes; the last piece is the end.
    pub(crate) fn chunks(&mut self, piece: &Piece) -> Vec<Value> {
        match piece {
            Piece::More { id, text, .. } if id.lane == Lane::Message => {
                let text = self.add(*id, text);
                vec![self.chunk(json!({"content": text}), None)]
            }
            Piece::More { text, .. } => {
                self.reasoning.push_str(text);
                vec![self.chunk(json!({"reasoning_content": text}), None)]
            }
            Piece::Whole { .. } => Vec::new(),
            Piece::Calls { calls, usage } => {
                let mut chunks = vec![self.chunk(json!({"tool_calls": tool_calls(calls, true)}), None)];
                chunks.extend(self.finished(Some("tool_calls"), usage));
                chunks
            }
            Piece::Ended(report) => match ApiError::of_turn(report) {
                Some(error) => vec![json!(Wrapped { error: &error.body })],
                None => self.finished(finish_reason(report.outcome), &report.usage),
            },
        }
    }

    fn add(&mut self, id: TextId, text: &str) -> String {
        let is_next = self.last.replace(id).is_some_and(|last| last != id);
        let text = match is_next {
            true => format!("\n\n{text}"),
            false => text.to_owned(),
        };
        self.content.push_str(&text);
        text
    }

    fn finished(&self, reason: Option<&str>, spent: &TurnUsage) -> Vec<Value> {
        let mut chunks = vec![self.chunk(json!({}), reason)];
        if self.includes_usage {
            let mut last = self.chunk(json!({}), None);
            last["choices"] = json!([]);
            last["usage"] = usage(spent);
            chunks.push(last);
        }
        chunks
    }

    fn chunk(&self, delta: Value, finish_reason: Option<&str>) -> Value {
        let mut chunk = json!({
            "id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": self.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": null}],
        });
        if self.includes_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    /// The whole answer, with its last piece; none when that is not the last.
    pub(crate) fn whole(&self, last: &Piece, metadata: &Value) -> Option<Result<Value, ApiError>> {
        let mut message =
            json!({"role": "assistant", "content": self.content, "refusal": null, "annotations": []});
        if !self.reasoning.is_empty() {
            message["reasoning_content"] = json!(self.reasoning);
        }
        let (reason, spent) = match last {
            Piece::More { .. } | Piece::Whole { .. } => return None,
            Piece::Calls { calls, usage } => {
                message["tool_calls"] = tool_calls(calls, false);
                if self.content.is_empty() {
                    message["content"] = Value::Null;
                }
                (Some("tool_calls"), usage)
            }
            Piece::Ended(report) => match ApiError::of_turn(report) {
                Some(error) => return Some(Err(error)),
                None => (finish_reason(report.outcome), &report.usage),
            },
        };
        Some(Ok(json!({
            "id": self.id, "object": "chat.completion", "created": self.created, "model": self.model,
            "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": null}],
            "usage": usage(spent), "metadata": metadata,
            "service_tier": "default", "system_fingerprint": null,
        })))
    }
}

/// Calls for the client, as a message has them; in a chunk each says which it is.
fn tool_calls(calls: &[ClientCall], is_chunk: bool) -> Value {
    let calls = calls.iter().enumerate().map(|(index, call)| {
        let function = json!({"name": call.name, "arguments": call.arguments});
        let mut value = json!({"id": call.id, "type": "function", "function": function});
        if is_chunk {
            value["index"] = json!(index);
        }
        value
    });
    calls.collect()
}
