//! Chat Completions on the wire: what is asked, the answer whole, the answer in chunks.

use annals_core::turn::{TurnReport, TurnUsage};
use serde::Deserialize;
use serde_json::{Map, Value, json};

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
    pub(crate) tools: Option<Vec<Value>>,
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
        read.filter_map(|message| RawMessage::read(&message.role, message.content).transpose())
            .collect()
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
            Piece::Ended(report) => self.last_chunks(report),
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

    fn last_chunks(&self, report: &TurnReport) -> Vec<Value> {
        if let Some(error) = ApiError::of_turn(report) {
            return vec![json!(Wrapped { error: &error.body })];
        }
        let mut chunks = vec![self.chunk(json!({}), finish_reason(report.outcome))];
        if self.includes_usage {
            let mut last = self.chunk(json!({}), None);
            last["choices"] = json!([]);
            last["usage"] = usage(&report.usage);
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

    /// The whole answer, after the last piece.
    pub(crate) fn whole(&self, report: &TurnReport, metadata: Value) -> Value {
        let mut message =
            json!({"role": "assistant", "content": self.content, "refusal": null, "annotations": []});
        if !self.reasoning.is_empty() {
            message["reasoning_content"] = json!(self.reasoning);
        }
        json!({
            "id": self.id, "object": "chat.completion", "created": self.created, "model": self.model,
            "choices": [{"index": 0, "message": message, "finish_reason": finish_reason(report.outcome), "logprobs": null}],
            "usage": usage(&report.usage), "metadata": metadata,
            "service_tier": "default", "system_fingerprint": null,
        })
    }
}
